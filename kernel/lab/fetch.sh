# Packages of Debian into the cache: QEMU with what it needs, kernels and their headers. Unpacked there, installed nowhere.
# Sourced by scripts/kernel-lab; uses $cache.

# The release of Debian after one.
release_after() {
    case $1 in bullseye) echo bookworm ;; bookworm) echo trixie ;; trixie) echo forky ;; forky) echo duke ;; *) return 1 ;; esac
}

# apt_of PLACE COMMAND: with lists and archives of that place. `here` is this system's release with its backports, `newer` the release
# after it with its backports, `sources` the source packages of this system's release.
apt_of() {
    local place=$1
    shift
    APT_CONFIG=$cache/apt-$place/apt.conf "$@"
}

# The lists of a place, over what this system has installed. Repositories are where this system has its own packages from.
apt_prepare() {
    local place=$1 dir=$cache/apt-$1 codename kind=deb lists='*Packages*'
    [ "$place" != sources ] || { kind=deb-src lists='*Sources*'; }
    [ -s "$dir/apt.conf" ] && [ -n "$(find "$dir/lists" -name "$lists" -print -quit 2>/dev/null)" ] && return 0
    command -v apt-get >/dev/null || return 1
    mkdir -p "$dir"/lists/partial "$dir"/archives/partial "$dir"/etc/{apt.conf.d,preferences.d,sources.list.d}
    codename=$(. /etc/os-release && [ "$ID" = debian ] && echo "$VERSION_CODENAME") || return 1
    apt-get indextargets 'Created-By: Packages' --format '$(REPO_URI) $(RELEASE)' | sort -u | while read -r uri release; do
        case $release in "$codename" | "$codename-security" | "$codename-updates") ;; *) continue ;; esac
        [ "$place" != newer ] || release=$(release_after "$codename")${release#"$codename"} || continue
        echo "$kind $uri $release main"
        case $release in *-security | *-updates) ;; *) echo "$kind $uri $release-backports main" ;; esac
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
APT::Sandbox::User "root";
CONF
    [ "$place" != here ] || echo "APT::Default-Release \"$codename\";" >> "$dir/apt.conf"
    # Without one of the repositories, such as backports, there are the others.
    apt_of "$place" timeout 300 apt-get update -q >"$dir/update.log" 2>&1 || true
    [ -n "$(find "$dir/lists" -maxdepth 1 -name "$lists" -print -quit)" ] || { rm -f "$dir/apt.conf"; return 1; }
}

# fetch_packages PLACE DIR PACKAGE...: their files.
fetch_packages() {
    local place=$1 dir=$2
    shift 2
    apt_prepare "$place" || return 1
    (cd "$dir" && apt_of "$place" timeout 900 apt-get download -q "$@" >"$cache/download.log" 2>&1)
}

# because LOG: the first error of apt in a log, for a message; nothing where it has none.
because() {
    local error
    error=$(sed -n 's/^E: //p' "$1" 2>/dev/null | head -1)
    [ -z "$error" ] || echo ": $error"
}

fetch_tools() {
    [ -e "$cache/tools/ready" ] && return 0
    apt_prepare here || return 1
    local archives=$cache/apt-here/archives package
    # Nothing is installed, so the lock of whoever installs something meanwhile is not waited for.
    apt_of here timeout 600 apt-get install -qy --no-install-recommends --download-only -o Debug::NoLocking=1 \
        qemu-system-x86 busybox-static cpio iproute2 >"$cache/tools.log" 2>&1 || return 1
    # What is installed here already is not downloaded again, and these are needed as files.
    fetch_packages here "$archives" iproute2 || return 1
    rm -rf "$cache/tools"
    mkdir -p "$cache/tools"
    for package in "$archives"/*.deb; do dpkg-deb -x "$package" "$cache/tools"; done
    touch "$cache/tools/ready"
}

# versions_of PLACE KIND: the versions of the packages linux-KIND-VERSION-amd64, sorted as text.
versions_of() {
    apt_of "$1" apt-cache search --names-only "^linux-$2-[0-9][0-9.]*[.-][0-9+deb~-]*-amd64\$" |
        sed -nE "s/^linux-$2-([0-9][^ ]*[.-][0-9][^ ]*)-amd64 .*/\\1/p" | sort
}

# The kernels of a place for which there are headers and an image: 6.1.0-56, 6.12.117+deb12. The newest headers may have none yet.
kernels_of() {
    comm -12 <(versions_of "$1" headers) <(versions_of "$1" image) | sort -V
}

# The series of the newest kernel that Debian has for this release or the next, such as 7.3.
newest_series() {
    local place
    for place in newer here; do
        apt_prepare $place && kernels_of $place
    done | sort -V | tail -1 | grep -oE '^[0-9]+\.[0-9]+'
}

# run_with_own_libc PLACE DIR: programs of a later release than this system's run with that release's C library.
run_with_own_libc() {
    local place=$1 base=$2 program
    [ "$place" != here ] || return 0
    mkdir -p "$base/libc/debs"
    fetch_packages "$place" "$base/libc/debs" libc6 || return 1
    dpkg-deb -x "$base"/libc/debs/*.deb "$base/libc"
    find "$base/usr" -type f -perm -100 | while read -r program; do
        # Without -q, which would end ldd by a closed pipe.
        if LC_ALL=C ldd "$program" 2>&1 | grep "version .GLIBC.* not found" >/dev/null; then
            mv "$program" "$program.elf"
            printf '#!/bin/sh\nexec %s --library-path %s %s "$@"\n' "$base/libc/usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2" \
                "$base/libc/usr/lib/x86_64-linux-gnu" "$program.elf" > "$program"
            chmod +x "$program"
        fi
    done
}

fetch_kernel() {
    local series=$1 place version packages base=$cache/kernels/$1
    [ -e "$base/ready" ] && return 0
    for place in here newer; do
        apt_prepare $place || continue
        version=$(kernels_of $place | grep -E "^${series//./\\.}[.]" | tail -1)
        [ -z "$version" ] || break
    done
    [ -n "$version" ] || return 1
    mkdir -p "$base/debs"
    # An image comes in one package, or in several that it names; so do the programs that build modules.
    packages=$(apt_of $place apt-cache show "linux-image-$version-amd64" "linux-headers-$version-amd64" | sed -n 's/^Depends: //p' |
        grep -oE "linux-(base|binary|modules|kbuild)-${version%%[-+]*}[^ ,)]*|linux-kbuild-[^ ,)]+" | sort -u)
    # shellcheck disable=SC2086
    fetch_packages $place "$base/debs" "linux-image-$version-amd64" "linux-headers-$version-amd64" "linux-headers-$version-common" \
        $packages || return 1
    for package in "$base"/debs/*.deb; do dpkg-deb -x "$package" "$base"; done
    rm -rf "$base/debs"
    run_with_own_libc "$place" "$base" || return 1
    # Newer ones have everything below /usr.
    [ -e "$base/lib/modules" ] || ln -s usr/lib "$base/lib"
    [ -e "$base/boot" ] || { mkdir "$base/boot" && cp "$base/lib/modules/$version-amd64/vmlinuz" "$base/boot/vmlinuz-$version"; }
    # The packages expect to lie below /usr.
    sed -i "s:\\([ =]\\)/usr/src/:\\1$base/usr/src/:" "$base/usr/src/linux-headers-$version-amd64/Makefile"
    echo "$version" > "$base/ready"
}

kernel_headers() {
    if [ "$1" = debug ]; then
        echo "$cache/kernels/debug/build"
    else
        echo "$cache/kernels/$1/usr/src/linux-headers-$(cat "$cache/kernels/$1/ready")-amd64"
    fi
}
