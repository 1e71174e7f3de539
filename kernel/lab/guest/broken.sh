# A panic of a scheduler: packets pass through a FIFO, tc says so, nothing leaks, and a new one can take its place.
cable
load sch_fairlink
allocations=/sys/module/sch_fairlink/parameters/allocations
traffic tell v0 add /lab/hls-H > /tmp/told || fail "add: $(cat /tmp/told)"
traffic rates v0 v1 3000 1000 A1:0x10011:1000:8000000:0-3000 B2:0x10022:1000:8000000:0-3000 > /tmp/out &
process=$!
sleep 1.5
echo enqueue > /sys/kernel/debug/fairlink/break_next
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

# Each function in turn, at its end: what the link is then, and that nothing is left.
for call in create prepare numbers commit about sample enqueue dequeue reset release; do
    [ $call = create ] || traffic tell v0 add /lab/hls-L > /tmp/told || fail "$call: add: $(cat /tmp/told)"
    [ $call != dequeue ] || traffic flood v0 20 0x10011 1000 > /dev/null
    echo $call > /sys/kernel/debug/fairlink/break_next || fail "no panic after $call"
    case $call in
        create) traffic tell v0 add /lab/hls-L > /tmp/told && fail "added by a panic"; state=none ;;
        prepare | numbers) traffic tell v0 change /lab/hls-M > /tmp/told && fail "changed by a panic"; state=sound ;;
        commit) traffic tell v0 change /lab/hls-M > /tmp/told && fail "changed by a panic"; state=broken ;;
        about) tc -s class show dev v0 > /dev/null; state=broken ;;
        sample) sleep 2; state=broken ;;
        enqueue | dequeue) traffic flood v0 20 0x10011 1000 > /dev/null; sleep 0.1; state=broken ;;
        reset) ip link set v0 down; ip link set v0 up; state=broken ;;
        release) tc qdisc del dev v0 root; state=none ;;
    esac
    tc qdisc show dev v0 > /tmp/show
    case $state in
        none) ! grep -q fairlink /tmp/show ;;
        sound) grep -q 'qdisc fairlink 1:' /tmp/show ;;
        broken) grep -q 'qdisc fairlink-broken 1:' /tmp/show ;;
    esac && broken="$broken $call:$state" || fail "$call: not $state: $(cat /tmp/show)"
    case $call in create | prepare | numbers) grep -q panicked /tmp/told || fail "$call says: $(cat /tmp/told)" ;; esac
    [ "$(cat /sys/kernel/debug/fairlink/break_next)" = none ] || fail "$call was not called"
    tc qdisc del dev v0 root 2>/dev/null
    [ "$(cat $allocations)" = 0 ] || fail "$call leaves $(cat $allocations)"
done
say "ok a panic after$broken"
rmmod sch_fairlink || fail rmmod
