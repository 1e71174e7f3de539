# A kernel that watches itself, built of Debian's sources with kernel/lab/debug/config. Sourced by scripts/kernel-lab; uses $cache and
# $root.

DEBUG_SOURCE=linux-source-6.12

# with_build_tools COMMAND: with what kernels are built by, of packages in the cache where these are there.
with_build_tools() {
    local tools=$cache/build-tools
    PATH=$tools/usr/bin:$PATH BISON_PKGDATADIR=$tools/usr/share/bison M4=$tools/usr/bin/m4 C_INCLUDE_PATH=$tools/usr/include \
        LIBRARY_PATH=$tools/usr/lib/x86_64-linux-gnu \
        LD_LIBRARY_PATH=$tools/usr/lib/x86_64-linux-gnu:$tools/lib/x86_64-linux-gnu "$@"
}

fetch_build_tools() {
    local tools=$cache/build-tools
    [ -e "$tools/ready" ] && return 0
    rm -rf "$tools"
    mkdir -p "$tools/debs"
    fetch_packages here "$tools/debs" flex bison m4 libsigsegv2 bc libelf-dev libelf1 zlib1g zlib1g-dev xz-utils || return 1
    for package in "$tools"/debs/*.deb; do dpkg-deb -x "$package" "$tools"; done
    rm -rf "$tools/debs"
    # zlib1g-dev names its library by where it would be installed.
    ln -sf "$(cd "$tools/lib/x86_64-linux-gnu" && echo "$PWD"/libz.so.1.*)" "$tools/usr/lib/x86_64-linux-gnu/libz.so"
    touch "$tools/ready"
}

# Builds it once for each configuration and version: some 15 minutes on two processors.
build_debug() {
    local base=$cache/kernels/debug config=$root/kernel/lab/debug/config version state line module start=$SECONDS
    apt_prepare here || return 1
    version=$(apt_of here apt-cache madison $DEBUG_SOURCE | awk '{ print $3 }' | sort -V | tail -1)
    [ -n "$version" ] || return 1
    state="$version $(sha256sum < "$config")"
    [ "$(cat "$base/ready" 2>/dev/null)" = "$state" ] && return 0
    fetch_build_tools || return 1
    if [ "$(cat "$base/source/unpacked" 2>/dev/null)" != "$version" ]; then
        echo "unpacking $DEBUG_SOURCE $version" >&2
        rm -rf "$base"
        mkdir -p "$base/debs" "$base/source"
        fetch_packages here "$base/debs" "$DEBUG_SOURCE=$version" || return 1
        dpkg-deb -x "$base"/debs/*.deb "$base/debs"
        tar --strip-components=1 -C "$base/source" -xf "$base"/debs/usr/src/$DEBUG_SOURCE.tar.xz || return 1
        rm -rf "$base/debs"
        echo "$version" > "$base/source/unpacked"
    fi
    echo "building the debugging kernel $version; its log is $base/log" >&2
    mkdir -p "$base/build" "$base/boot"
    with_build_tools make -C "$base/source" O="$base/build" KCONFIG_ALLCONFIG="$config" allnoconfig >"$base/log" 2>&1 || return 2
    while read -r line; do
        case $line in
            CONFIG_*) grep -qxF -- "$line" "$base/build/.config" || { echo "the kernel does not take $line" >&2; return 2; } ;;
        esac
    done < "$config"
    with_build_tools nice make -C "$base/source" O="$base/build" -j"$(nproc)" bzImage modules >>"$base/log" 2>&1 || return 2
    cp "$base/build/arch/x86/boot/bzImage" "$base/boot/vmlinuz-debug"
    rm -rf "$base/lib"
    (cd "$base/build" && find . -name '*.ko') | while read -r module; do
        mkdir -p "$base/lib/modules/debug/kernel/$(dirname "$module")"
        cp "$base/build/$module" "$base/lib/modules/debug/kernel/$module"
    done
    echo "$state" > "$base/ready"
    echo "built in $((SECONDS - start)) s" >&2
}
