# needs fairlink
# As many classes as tc has numbers for: added, sent through, shown, changed, and gone. The configuration comes in a file in memory.
cable
load sch_fairlink
allocations=/sys/module/sch_fairlink/parameters/allocations
for by in message file directory pipe closed writing empty large both short; do
    traffic tell v0 add /lab/many/most $by > /tmp/told && fail "by $by: taken"
    grep -qE '^TOLD (22|9|7|34) .' /tmp/told || fail "by $by: $(cat /tmp/told)"
    say "by $by: $(cat /tmp/told)"
    [ "$(cat $allocations)" = 0 ] || fail "by $by: $(cat $allocations) pieces are left"
done
stretch=/sys/kernel/debug/fairlink/longest_stretch_ns
echo 0 > $stretch
traffic tell v0 add /lab/many/most memory > /tmp/told || fail "add: $(cat /tmp/told)"
say "added in stretches of at most $(($(cat $stretch) / 1000)) us"
# The first leaf is 1:4, the last 1:fffe.
for class in 4 8000 fffe; do traffic flood v0 20 0x1$(printf %04x 0x$class) 500 > /dev/null; done
sleep 0.2
# Once, for it is long: how many there are, and what those have sent that have sent something.
tc -s class show dev v0 | awk '$2 == "fairlink" { classes++; class = $3; getline; if ($4 > 0) print class, $4 } END { print "all", classes }' > /tmp/classes
printf '1:4 20\n1:8000 20\n1:fffe 20\n' > /tmp/leaves
grep -E '^1:(4|8000|fffe) ' /tmp/classes | sort | cmp -s - /tmp/leaves && say "ok the first class, one in the middle and the last have sent 20 each" || fail "$(cat /tmp/classes)"
sum=$(awk '$1 ~ /^1:[123]$/ { sum += $2 } END { print sum }' /tmp/classes)
[ "$sum" = 60 ] && say "ok the inner classes have the sums" || fail "the inner classes sent $sum"
classes=$(awk '$1 == "all" { print $2 }' /tmp/classes)
[ "$classes" = 65534 ] && say "ok 65534 classes" || fail "$classes classes"
traffic tell v0 change /lab/many/other memory > /tmp/told || fail "change: $(cat /tmp/told)"
traffic tell v0 change /lab/many/other file > /tmp/told && fail "changed by a file that is not in memory"
traffic flood v0 20 0x1fffe 500 > /dev/null
sleep 0.2
sent=$(tc -s qdisc show dev v0 | awk '$2 == "fairlink" { getline; print $4 }')
[ "$sent" = 80 ] && say "ok it goes on after a change" || fail "sent $sent after a change"
tc qdisc del dev v0 root || fail del
[ "$(cat $allocations)" = 0 ] && say "ok nothing is left" || fail "left: $(cat $allocations)"
# Of making, changing and freeing a link with so many classes: two nanoseconds are one instruction. A kernel that preempts its own code needs no yielding, and
# the time has that of other tasks in it.
instructions="$(($(cat $stretch) / 2000)) thousand instructions"
if grep -qE '\((full|lazy)\)' /sys/kernel/debug/sched/preempt 2>/dev/null; then
    say "shown $instructions in a stretch, on a kernel that preempts: $(cat /sys/kernel/debug/sched/preempt)"
elif [ "$(cat $stretch)" -lt 50000000 ]; then
    say "ok other tasks may run after at most $instructions"
else
    fail "$instructions without yielding, preemption $(cat /sys/kernel/debug/sched/preempt)"
fi
# The same by the command, which decides by the length.
fairlink qdisc add /lab/many/some.toml --dev v0 || fail "5000 classes by fairlink qdisc"
fairlink qdisc show --dev v0 > /tmp/show || fail show
[ "$(grep -c '1:' /tmp/show)" = 5003 ] && say "ok 5003 classes by fairlink qdisc" || fail "$(wc -l < /tmp/show) lines: $(head -3 /tmp/show)"
fairlink qdisc del --dev v0
rmmod sch_fairlink || fail rmmod
dmesg | grep -E "BUG|WARN|Oops|Call Trace" && fail "the kernel complains"
