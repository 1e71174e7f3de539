# A panic of a scheduler: packets pass through a FIFO, tc says so, nothing leaks, and a new one can take its place.
cable
load sch_fairlink
allocations=/sys/module/sch_fairlink/parameters/allocations
traffic tell v0 add /lab/hls-H > /tmp/told || fail "add: $(cat /tmp/told)"
traffic rates v0 v1 3000 1000 A1:0x10011:1000:8000000:0-3000 B2:0x10022:1000:8000000:0-3000 > /tmp/out &
process=$!
sleep 1.5
echo 1 > /sys/module/sch_fairlink/parameters/break_next
wait $process
cat /tmp/out
dmesg | grep fairlink: | tail -1
for class in A1 B2; do
    got=$(awk "/^PHASE 2 $class/ { print \$4 * 8 / 1e6 }" /tmp/out)
    near "$class mbit/s through the FIFO" "$got" 8 2
    sent=$(awk "/^SENT $class/ { print \$3 }" /tmp/out) got=$(awk "/^GOT $class/ { print \$3 }" /tmp/out)
    [ $((sent - got)) -le $((5 + late)) ] && say "ok $class sent $sent got $got" || fail "$class sent $sent got $got"
done
tc -s qdisc show dev v0 | tee /tmp/show
grep -q 'qdisc fairlink-broken 1:' /tmp/show && say "ok tc says $(head -1 /tmp/show)" || fail "tc does not say so"
tc -s class show dev v0 > /dev/null || fail "classes"
traffic tell v0 change /lab/hls-L > /tmp/told && fail "changed a broken one"
tc qdisc del dev v0 root || fail del
[ "$(cat $allocations)" = 0 ] && say "ok nothing is left" || fail "left: $(cat $allocations)"
traffic tell v0 add /lab/hls-L > /tmp/told || fail "add anew: $(cat /tmp/told)"
tc qdisc del dev v0 root
rmmod sch_fairlink || fail rmmod
