# One boot of a kernel for each test: an initramfs with the test, the tools and the modules, and a console that is read afterwards.
# Sourced by scripts/kernel-lab; uses $cache and $root.

# machine SERIES: the machine that a kernel is booted on. Two nanoseconds of its time for each instruction, and no waiting: a run is the
# same each time. The debugging kernel takes many instructions for what it watches, so it has the faster machine, and two
# processors, which take turns.
machine() {
    case $1 in
        debug) echo "-m 1024 -smp 2 -icount shift=0,sleep=off" ;;
        *) echo "-m 512 -smp 1 -icount shift=1,sleep=off" ;;
    esac
}

build_once() {
    mkdir -p "$cache/build"
    gcc -static -O2 -Wall -Wextra -o "$cache/build/traffic" "$root/kernel/lab/traffic.c"
    "$root/kernel/build-core"
    "$root/kernel/inspect"
    # CI passes the build of its tests.
    fairlink=${FAIRLINK_BUILT-}
    if [ -z "$fairlink" ]; then
        CARGO_INCREMENTAL=0 cargo build --quiet -p fairlink
        fairlink=${CARGO_TARGET_DIR:-$root/target}/debug/fairlink
    fi
    rm -rf "$cache/build/files"
    mkdir -p "$cache/build/files"
    source "$root/kernel/lab/files.sh"
}

# make_flags SERIES: an older compiler than the kernel's own, where that is not here, does not know the newest way to align functions.
make_flags() {
    local compiler
    compiler=$(sed -nE 's/^CC = .*\)(gcc-[0-9]+)$/\1/p' "$(kernel_headers "$1")/.kernelvariables" 2>/dev/null)
    [ -z "$compiler" ] || command -v "$compiler" >/dev/null || echo "CC=gcc CONFIG_CC_HAS_MIN_FUNCTION_ALIGNMENT="
}

# make_module SERIES DIR: a warning of the compiler or of objtool is an error.
make_module() {
    local headers how
    headers=$(kernel_headers "$1")
    how=(-C "$headers" M="$2" modules)
    [ ! -e "$2/Makefile" ] || how=(-C "$2" KDIR="$headers")
    MAKEFLAGS=$(make_flags "$1") with_build_tools make "${how[@]}" >"$2/log" 2>&1 || { tail -20 "$2/log"; return 1; }
    if grep -i warning "$2/log" | grep -v "the compiler differs\|pahole version differs"; then return 1; fi
}

# The module for a kernel, of the C sources and of the core that is the same for all. For the debugging kernel, the core's accesses to
# memory are watched as well, and the module with faults on purpose is built beside it.
build_module() {
    local dir=$cache/build/$1
    rm -rf "$dir"
    mkdir -p "$dir"
    cp -r "$root/kernel/module/." "$dir/"
    if [ "$1" = debug ]; then
        "$root/kernel/build-core" --debug "$dir/core.o_shipped"
        cp -r "$root/kernel/lab/debug/faulty" "$dir/"
        make_module "$1" "$dir/faulty" || return 1
    fi
    make_module "$1" "$dir"
}

# Where the script of a test is.
test_script() {
    local script
    for script in "$root/kernel/lab"/{guest,debug}/"$1.sh"; do [ ! -e "$script" ] || echo "$script"; done
}

# initramfs SERIES TEST OUT
initramfs() {
    local series=$1 test=$2 out=$3 base=$cache/kernels/$1 dir program library module
    dir=$(mktemp -d "$cache/initramfs.XXXXXX")
    mkdir -p "$dir"/{bin,sbin,proc,sys,dev,tmp,mod,lab}
    cp "$cache/tools/bin/busybox" "$dir/bin/"
    "$cache/tools/bin/busybox" --list | while read -r program; do
        case $program in ip | tc | busybox) ;; *) ln -s busybox "$dir/bin/$program" ;; esac
    done
    for program in "$cache/tools/sbin/tc" "$cache/tools/bin/ip"; do
        cp -L "$program" "$dir/sbin/"
        ldd "$program" 2>/dev/null | grep -oE '/[^ ]+' | while read -r library; do
            mkdir -p "$dir$(dirname "$library")"
            cp -Ln "$library" "$dir$library"
        done
    done
    for module in net/sched/{sch_htb,sch_hfsc,sch_cbq,sch_tbf,sch_qfq,sch_drr,sch_ets,sch_prio,sch_multiq,sch_red,sch_sfb,sch_netem,sch_mqprio_lib,sch_mqprio,cls_u32,cls_fw,cls_matchall,cls_flower,cls_basic,act_skbedit,act_police} drivers/net/{veth,dummy,net_failover,virtio_net} net/core/{pktgen,failover} \
        drivers/virtio/{virtio,virtio_ring,virtio_pci_legacy_dev,virtio_pci_modern_dev,virtio_pci} \
        net/{llc/llc,802/stp,802/garp,802/mrp,8021q/8021q,bridge/bridge}; do
        cp "$base"/lib/modules/*/kernel/"$module".ko* "$dir/mod/" 2>/dev/null || true
    done
    xz -dq "$dir"/mod/*.xz 2>/dev/null || true
    for module in "$cache/build/$series"/{sch_fairlink,by-dkms,faulty/faulty,cbq/sch_cbq}.ko; do [ ! -e "$module" ] || cp "$module" "$dir/mod/"; done
    cp -r "$cache/build/files/." "$dir/lab/"
    cp "$cache/build/traffic" "$dir/sbin/"
    if grep -q '^# needs fairlink' "$(test_script "$test")"; then
        strip -o "$dir/sbin/fairlink" "$fairlink"
        ldd "$fairlink" | grep -oE '/[^ ]+' | while read -r library; do
            mkdir -p "$dir$(dirname "$library")"
            cp -Ln "$library" "$dir$library"
        done
    fi
    cp "$root/kernel/lab/init" "$dir/init"
    cp "$root/kernel/lab/complaints" "$dir/complaints"
    cp "$(test_script "$test")" "$dir/test.sh"
    chmod +x "$dir/init"
    (cd "$dir" && find . | "$cache/tools/bin/cpio" -o -H newc --quiet) > "$out"
    rm -rf "$dir"
}

# cards TEST: the network cards of the machine. Two cables, with a card at each end; the driver has the kernel map memory for them, as it
# does for a card of hardware, because it uses a socket's memory only then.
cards() {
    local number
    if ! grep -q '^# needs cards' "$(test_script "$1")"; then
        echo "-net none"
        return
    fi
    for number in 0 1 2 3; do
        echo "-netdev hubport,id=n$number,hubid=$((number / 2))"
        echo "-device virtio-net-pci,netdev=n$number,romfile=,iommu_platform=on,disable-legacy=on"
    done
}

# boot SERIES TEST INITRAMFS SECONDS: the console on standard output.
boot() {
    local tools=$cache/tools
    LD_LIBRARY_PATH=$tools/usr/lib/x86_64-linux-gnu:$tools/lib/x86_64-linux-gnu timeout --foreground "$4" \
        "$tools/usr/bin/qemu-system-x86_64" -L "$tools/usr/share/qemu" -L "$tools/usr/share/seabios" \
        -M pc -cpu max $(machine "$1") -display none -nodefaults -no-reboot -serial stdio $(cards "$2") \
        -kernel "$cache"/kernels/"$1"/boot/vmlinuz-* -initrd "$3" \
        -append "console=ttyS0 quiet panic=-1 oops=panic tsc=reliable kasan_multi_shot log_buf_len=2M" </dev/null 2>/dev/null || echo "LAB fail the machine did not power off"
}

# run_one SERIES TEST LOG: boots one test; what it found goes to LOG/TEST.found, and 0 or 1 to LOG/TEST.status.
run_one() {
    local series=$1 test=$2 log=$3 image=$3/$2.cpio start=$SECONDS status=0
    {
        initramfs "$series" "$test" "$image"
        boot "$series" "$test" "$image" "$([ "$series" = debug ] && echo 1800 || echo 600)" | tr -d '\r' > "$log/$test.txt"
        rm -f "$image"
        grep -E '^LAB ' "$log/$test.txt" | sed "s/^LAB /$series $test: /" || true
        if ! grep -q '^LAB done' "$log/$test.txt" || grep -q '^LAB fail' "$log/$test.txt"; then
            status=1
            echo "$series $test: FAILED; the end of the console:"
            tail -25 "$log/$test.txt" | sed 's/^/    /'
        fi
        echo "$series $test: took $((SECONDS - start)) s"
    } > "$log/$test.found"
    echo $status > "$log/$test.status"
}

# run_tests SERIES NAME,NAME KEEP: as many at once as there are processors. Their clocks count instructions, so they do not disturb
# each other.
run_tests() {
    local series=$1 test status=0 log start=$SECONDS
    build_module "$series" || { echo "$series: the module does not build without warnings"; return 1; }
    log=$(mktemp -d "$cache/log.XXXXXX")
    for test in ${2//,/ }; do
        case $(sed -n 's/^# needs //p' "$(test_script "$test")") in
            dkms) build_by_dkms "$series" ;;
            cbq) build_cbq "$series" ;;
        esac && continue
        # What cannot be had is left out; what does not build fails in the machine, where it is missing.
        [ $? = 77 ] && set -- "$1" "$(echo ",$2," | sed "s/,$test,/,/; s/^,//; s/,$//")" "$3"
    done
    for test in ${2//,/ }; do
        while [ "$(jobs -rp | wc -l)" -ge "$(nproc)" ]; do wait -n || true; done
        run_one "$series" "$test" "$log" &
    done
    wait
    for test in ${2//,/ }; do
        cat "$log/$test.found"
        [ "$(cat "$log/$test.status")" = 0 ] || status=1
    done
    echo "$series: all took $((SECONDS - start)) s"
    if [ -n "$3" ]; then mkdir -p "$3/$series" && cp "$log"/*.txt "$3/$series/"; fi
    rm -rf "$log"
    return $status
}
