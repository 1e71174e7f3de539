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
traffic tell v0 add /lab/many/most memory > /tmp/told || fail "add: $(cat /tmp/told)"
classes=$(tc class show dev v0 | wc -l)
[ "$classes" = 65534 ] && say "ok 65534 classes" || fail "$classes classes"
# The first leaf is 1:4, the last 1:fffe.
for class in 4 8000 fffe; do traffic flood v0 20 0x1$(printf %04x 0x$class) 500 > /dev/null; done
sleep 1
tc -s class show dev v0 > /tmp/classes
for class in 4 8000 fffe; do
    sent=$(awk -v class=1:$class '$2 == "fairlink" && $3 == class { getline; print $4 }' /tmp/classes)
    [ "$sent" = 20 ] && say "ok class 1:$class sent 20" || fail "class 1:$class sent $sent"
done
sent=$(awk '$2 == "fairlink" && $3 ~ /^1:[123]$/ { getline; sum += $4 } END { print sum }' /tmp/classes)
[ "$sent" = 60 ] && say "ok the inner classes have the sums" || fail "the inner classes sent $sent"
traffic tell v0 change /lab/many/other memory > /tmp/told || fail "change: $(cat /tmp/told)"
traffic tell v0 change /lab/many/other file > /tmp/told && fail "changed by a file that is not in memory"
traffic flood v0 20 0x1fffe 500 > /dev/null
sleep 0.2
sent=$(tc -s class show dev v0 classid 1:fffe | awk '$2 == "fairlink" && $3 == "1:fffe" { getline; print $4 }')
[ "$sent" = 40 ] && say "ok the counters go on after a change" || fail "class 1:fffe sent $sent after a change"
tc qdisc del dev v0 root || fail del
[ "$(cat $allocations)" = 0 ] && say "ok nothing is left" || fail "left: $(cat $allocations)"
# The same by the command, which decides by the length.
fairlink qdisc add /lab/many/some.toml --dev v0 || fail "5000 classes by fairlink qdisc"
fairlink qdisc show --dev v0 > /tmp/show || fail show
[ "$(grep -c '1:' /tmp/show)" = 5003 ] && say "ok 5003 classes by fairlink qdisc" || fail "$(wc -l < /tmp/show) lines: $(head -3 /tmp/show)"
fairlink qdisc del --dev v0
rmmod sch_fairlink || fail rmmod
dmesg | grep -E "BUG|WARN|Oops|Call Trace" && fail "the kernel complains"
