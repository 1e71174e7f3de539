# The module as DKMS makes it, of the directory that kernel/package writes, with all of DKMS's places in the cache. Sourced by
# scripts/kernel-lab; uses $cache and $root.

fetch_dkms() {
    local tools=$cache/dkms-tools package
    [ -e "$tools/ready" ] && return 0
    rm -rf "$tools"
    mkdir -p "$tools/debs"
    fetch_packages here "$tools/debs" dkms kmod libkmod2 || return 1
    for package in "$tools"/debs/*.deb; do dpkg-deb -x "$package" "$tools"; done
    rm -rf "$tools/debs"
    touch "$tools/ready"
}

# dkms_does SERIES ACTION: add, build, install or remove.
dkms_does() {
    local series=$1 action=$2 tools=$cache/dkms-tools place=$cache/dkms/$1 version options
    version=$(cat "$cache/kernels/$series/ready")-amd64
    options=(--dkmstree "$place/tree" --sourcetree "$place/source" --installtree "$place/modules" --no-depmod)
    [ "$action" = add ] || options+=(-k "$version/x86_64")
    case $action in build | install) options+=(--kernelsourcedir "$(kernel_headers "$series")") ;; esac
    # What the kernel's headers need beside DKMS's own command for make.
    PATH=$tools/sbin:$tools/usr/sbin:$tools/bin:$PATH LD_LIBRARY_PATH=$tools/usr/lib/x86_64-linux-gnu MAKEFLAGS="$(make_flags "$series")" \
        "$tools/usr/sbin/dkms" "$action" "fairlink/$(dkms_version)" "${options[@]}"
}

dkms_version() { sed -n 's/^PACKAGE_VERSION="\(.*\)"/\1/p' "$root/kernel/module/dkms.conf"; }

# Packs, adds, builds, installs; keeps the module for the test as by-dkms.ko; removes. What a user of DKMS does.
build_by_dkms() {
    local series=$1 place=$cache/dkms/$1 log=$cache/build/$1/dkms.log action module version
    [ "$series" != debug ] || { echo "DKMS builds for Debian's kernels, not for the debugging one"; return 1; }
    version=$(cat "$cache/kernels/$series/ready")-amd64
    fetch_dkms || { echo "SKIPPED: the package dkms cannot be had here$(because "$cache/download.log")"; return 77; }
    rm -rf "$place"
    mkdir -p "$place/tree" "$place/source" "$place/modules/$version"
    "$root/kernel/package" "$place/source/fairlink-$(dkms_version)" >"$log" 2>&1 || { cat "$log"; return 1; }
    for action in add build install; do
        dkms_does "$series" $action >>"$log" 2>&1 || { echo "dkms $action fails"; tail -20 "$log"; return 1; }
    done
    module=$(find "$place/modules/$version" -name 'sch_fairlink.ko*')
    [ -n "$module" ] || { echo "dkms install left no module"; return 1; }
    cp "$module" "$cache/build/$series/by-dkms.ko${module##*.ko}"
    case $module in *.xz) xz -dfq "$cache/build/$series/by-dkms.ko.xz" ;; esac
    dkms_does "$series" remove >>"$log" 2>&1 || { echo "dkms remove fails"; tail -20 "$log"; return 1; }
    [ -z "$(find "$place/modules" "$place/tree" -name 'sch_fairlink.ko*')" ] || { echo "dkms remove leaves a module"; return 1; }
}
