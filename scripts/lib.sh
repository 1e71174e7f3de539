# Sourced by every script. A command that fails ends the script and is named:
#     scripts/X: line N: COMMAND failed with status S
# An expected failure stands in a condition. `exit` says nothing: whoever calls it has said why.
# shellcheck shell=bash
set -Eeuo pipefail
# A failure within $(...) ends it, too.
shopt -s inherit_errexit
trap 'report_failure $? "$LINENO" "$BASH_COMMAND"' ERR
report_failure() { # status, line, command
    echo "${BASH_SOURCE[1]}: line $2: ${3%%$'\n'*} failed with status $1" >&2
}

# Runs a command and shows what it printed only if it failed.
quietly() { # command...
    local log status=0
    log=$(mktemp)
    "$@" >"$log" 2>&1 || status=$?
    [ $status -eq 0 ] || cat "$log" >&2
    rm -f "$log"
    return $status
}
