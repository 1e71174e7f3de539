# The debugging kernel sees what it is for: each fault on purpose is told, and what is told is what fails a test.
cable
load sch_fairlink faulty
while read -r fault says; do
    dmesg -c > /dev/null
    echo $fault > /sys/module/faulty/parameters/fault || fail "$fault cannot be made"
    [ $fault = leak ] && look_for_leaks
    dmesg | grep -E -f /complaints > /tmp/complaints
    grep -E "$says" /tmp/complaints > /tmp/seen && say "ok $fault: $(head -1 /tmp/seen)" ||
        { fail "$fault is not told with '$says'"; dmesg; }
done <<FAULTS
leak kmemleak: [1-9]
sleep BUG: sleeping function called from invalid context
shift UBSAN: shift-out-of-bounds
order WARNING: possible circular locking dependency|WARNING: possible recursive locking
freed KASAN: slab-use-after-free in freed
beyond KASAN: slab-out-of-bounds in beyond
rust KASAN: slab-use-after-free in fl_release
FAULTS
rmmod faulty || fail rmmod
dmesg -c > /dev/null
