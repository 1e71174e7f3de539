# The kernel's CBQ. Linux has none since 6.3, and Debian's 6.1 since 6.1.82; Debian still has the sources of an older 6.1, of which
# net/sched/sch_cbq.c is compiled as it is, for the 6.1 that is booted. Sourced by scripts/kernel-lab; uses $cache.

CBQ_SERIES=6.1
CBQ_RETIRED=6.1.82-1

# The newest version of Debian's source package linux that is of the series and has CBQ.
cbq_version() {
    local version
    apt_of sources apt-cache showsrc --only-source linux 2>/dev/null | sed -n 's/^Version: //p' | sort -uV | while read -r version; do
        case $version in $CBQ_SERIES.*) ;; *) continue ;; esac
        ! dpkg --compare-versions "$version" lt "$CBQ_RETIRED" || echo "$version"
    done | tail -1
}

# Once, since all of the kernel's source is fetched for one file of it.
fetch_cbq() {
    local dir=$cache/cbq version
    [ -s "$dir/sch_cbq.c" ] && return 0
    apt_prepare sources || return 1
    version=$(cbq_version)
    [ -n "$version" ] || return 1
    rm -rf "$dir"
    mkdir -p "$dir/source"
    (cd "$dir/source" && apt_of sources timeout 900 apt-get source -qq --download-only "linux=$version" >"$cache/download.log" 2>&1) || return 1
    tar -C "$dir/source" --strip-components=3 --wildcards -xJf "$dir"/source/linux_*.orig.tar.xz '*/net/sched/sch_cbq.c' || return 1
    mv "$dir/source/sch_cbq.c" "$dir/"
    echo "$version" > "$dir/version"
    rm -rf "$dir/source"
}

# build_cbq SERIES: sch_cbq.ko beside our module, if the kernel does not bring its own; 77 where there is none.
build_cbq() {
    local series=$1 dir=$cache/build/$1/cbq
    ls "$cache/kernels/$series"/lib/modules/*/kernel/net/sched/sch_cbq.ko* >/dev/null 2>&1 && return 0
    [ "$series" = $CBQ_SERIES ] || { echo "SKIPPED: the kernel $series has no CBQ; $CBQ_SERIES is the last that it can be compiled for"; return 77; }
    fetch_cbq || { echo "SKIPPED: the source of the kernel's CBQ cannot be had here$(because "$cache/download.log")"; return 77; }
    mkdir -p "$dir"
    cp "$cache/cbq/sch_cbq.c" "$dir/"
    echo 'obj-m := sch_cbq.o' > "$dir/Kbuild"
    make_module "$series" "$dir" || return 1
    echo "$series: CBQ of Debian's source linux $(cat "$cache/cbq/version")"
}
