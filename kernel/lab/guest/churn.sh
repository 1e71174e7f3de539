# The link is changed, replaced and deleted while packets pass, 100 times each; nothing is left, nothing is lost by a change.
cable
load sch_fairlink
allocations=/sys/module/sch_fairlink/parameters/allocations
traffic tell v0 add /lab/hls-L > /tmp/told || fail "add: $(cat /tmp/told)"
traffic rates v0 v1 6000 6000 A1:0x10011:1000:6000000:0-6000 B2:0x10022:300:6000000:0-6000 C:0x10003:1000:4000000:0-6000 > /tmp/out &
load_process=$!
changes=0
for round in $(seq 100); do
    case $((round % 4)) in 0) file=hls-M ;; 1) file=htb-H ;; 2) file=hpfq-M ;; 3) file=hls-H ;; esac
    traffic tell v0 change /lab/$file > /tmp/told && changes=$((changes + 1)) || fail "change $round to $file: $(cat /tmp/told)"
done
say "changed $changes times under load"
wait $load_process
# The offered load is below every share: nothing but a change could lose a packet.
for class in A1 B2 C; do
    sent=$(awk "/^SENT $class/ { print \$3 }" /tmp/out) got=$(awk "/^GOT $class/ { print \$3 }" /tmp/out)
    # What waits when the time is over is not lost.
    [ $((sent - got)) -le $((20 + late)) ] && say "ok $class sent $sent got $got" || fail "$class sent $sent got $got"
done
one=$(cat $allocations)
traffic rates v0 v1 6000 6000 A1:0x10011:1000:20000000:0-6000 B2:0x10022:300:20000000:0-6000 > /tmp/out &
load_process=$!
for round in $(seq 100); do
    tc qdisc del dev v0 root || fail "delete $round"
    traffic tell v0 add /lab/hls-L > /tmp/told || fail "add $round: $(cat /tmp/told)"
done
say "deleted and added 100 times under load"
for round in $(seq 100); do
    tc qdisc replace dev v0 root handle 9: pfifo || fail "replace $round"
    tc qdisc del dev v0 root
    traffic tell v0 add /lab/hdrr-M > /tmp/told || fail "add $round: $(cat /tmp/told)"
done
say "replaced 100 times under load"
wait $load_process
ip link set v0 down
ip link set v0 up
traffic tell v0 change /lab/hls-L > /tmp/told || fail "change after down and up: $(cat /tmp/told)"
[ "$(cat $allocations)" = $one ] && say "ok pieces of memory as before: $one" || say "pieces of memory $(cat $allocations), before $one"
tc qdisc del dev v0 root
[ "$(cat $allocations)" = 0 ] && say "ok nothing is left" || fail "left: $(cat $allocations) pieces of memory"
rmmod sch_fairlink || fail rmmod
