# Packages of Debian into the cache: QEMU with what it needs, kernels and their headers. Unpacked there, installed nowhere.
# Sourced by scripts/kernel-lab; uses $cache.

apt_dir() { echo "$cache/apt"; }

# apt with lists and archives of its own, over what this system has installed.
apt_prepare() {
    local dir; dir=$(apt_dir)
    [ -s "$dir/apt.conf" ] && [ -n "$(find "$dir/lists" -name '*Packages*' -print -quit 2>/dev/null)" ] && return 0
    command -v apt-get >/dev/null || return 1
    mkdir -p "$dir"/lists/partial "$dir"/archives/partial "$dir"/etc/{apt.conf.d,preferences.d,sources.list.d}
    # Where this system has its packages from, and the backports of its release from the same place.
    local codename
    codename=$(. /etc/os-release && [ "$ID" = debian ] && echo "$VERSION_CODENAME") || return 1
    apt-get indextargets 'Created-By: Packages' --format '$(REPO_URI) $(RELEASE)' | sort -u | while read -r uri release; do
        case $release in
            "$codename") printf 'deb %s %s main\n' "$uri" "$release" "$uri" "$release-backports" ;;
            "$codename-security" | "$codename-updates") echo "deb $uri $release main" ;;
        esac
    done > "$dir/etc/sources.list"
    [ -s "$dir/etc/sources.list" ] || return 1
    cat > "$dir/apt.conf" <<CONF
Dir::State::lists "$dir/lists";
Dir::Etc "$dir/etc";
Dir::Etc::sourcelist "$dir/etc/sources.list";
Dir::Etc::sourceparts "$dir/etc/sources.list.d";
Dir::Etc::trustedparts "/etc/apt/trusted.gpg.d";
Dir::Etc::trusted "/etc/apt/trusted.gpg";
Dir::Cache "$dir";
Dir::Cache::archives "$dir/archives";
APT::Architecture "amd64";
APT::Default-Release "$codename";
APT::Sandbox::User "root";
CONF
    APT_CONFIG=$dir/apt.conf timeout 300 apt-get update -q >"$dir/update.log" 2>&1 || { rm -f "$dir/apt.conf"; return 1; }
}

fetch_tools() {
    [ -e "$cache/tools/ready" ] && return 0
    apt_prepare || return 1
    local config; config=$(apt_dir)/apt.conf
    APT_CONFIG=$config timeout 600 apt-get install -qy --no-install-recommends --download-only \
        qemu-system-x86 busybox-static cpio iproute2 >"$cache/tools.log" 2>&1 || return 1
    # What is installed here already is not downloaded again, and these are needed as files.
    (cd "$(apt_dir)/archives" && APT_CONFIG=$config timeout 600 apt-get download -q iproute2 >>"$cache/tools.log" 2>&1) || return 1
    rm -rf "$cache/tools"
    mkdir -p "$cache/tools"
    for package in "$(apt_dir)"/archives/*.deb; do dpkg-deb -x "$package" "$cache/tools"; done
    touch "$cache/tools/ready"
}

# The newest of Debian's kernels of a series for which there are headers: 6.1 -> 6.1.0-56, 6.12 -> 6.12.117+deb12.
newest_kernel() {
    APT_CONFIG=$(apt_dir)/apt.conf apt-cache search --names-only "^linux-headers-${1//./\\.}[.][.0-9+deb~-]*-amd64$" |
        sed -nE 's/^linux-headers-([0-9][^ ]*[.-][0-9][^ ]*)-amd64 .*/\1/p' | sort -V | tail -1
}

fetch_kernel() {
    local series=$1 version kbuild base=$cache/kernels/$1
    [ -e "$base/ready" ] && return 0
    apt_prepare || return 1
    version=$(newest_kernel "$series")
    [ -n "$version" ] || return 1
    mkdir -p "$base/debs"
    kbuild=$(APT_CONFIG=$(apt_dir)/apt.conf apt-cache show "linux-headers-$version-amd64" | grep -m1 -oE 'linux-kbuild-[^ ,)]+')
    (cd "$base/debs" && APT_CONFIG=$(apt_dir)/apt.conf timeout 900 apt-get download -q "linux-image-$version-amd64" \
        "linux-headers-$version-amd64" "linux-headers-$version-common" "$kbuild" >"$base/log" 2>&1) || return 1
    for package in "$base"/debs/*.deb; do dpkg-deb -x "$package" "$base"; done
    rm -rf "$base/debs"
    # The packages expect to lie below /usr.
    sed -i "s:include /usr/src/:include $base/usr/src/:" "$base/usr/src/linux-headers-$version-amd64/Makefile"
    echo "$version" > "$base/ready"
}

kernel_version() { cat "$cache/kernels/$1/ready"; }
kernel_headers() { echo "$cache/kernels/$1/usr/src/linux-headers-$(kernel_version "$1")-amd64"; }
