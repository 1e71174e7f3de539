# The table of packets: it shrinks with the buffer, when the packets that are in the way are gone, and counts against memory_limit. And pieces of memory
# are those of the reader's network namespace.
cable
load sch_fairlink
allocations=/sys/module/sch_fairlink/parameters/allocations
memory_limit=/sys/module/sch_fairlink/parameters/memory_limit
# Bytes of tables of packets that are too large for the allocator of small memory.
tables() { awk '/fl_(table|slots)_/ { bytes += $2 } END { print bytes + 0 }' /proc/vmallocinfo; }
got() { cat /sys/class/net/v1/statistics/rx_packets; }

# A limit that the small buffer with its 501 slots keeps, and with 2,500 slots more does not.
echo 1 > $memory_limit
traffic tell v0 add /lab/memory/small > /tmp/told && fail "taken with one byte"
limit=$(($(sed -n 's/.*needs \([0-9]*\) B.*/\1/p' /tmp/told) + 20000))
echo 268435456 > $memory_limit
traffic tell v0 add /lab/memory/small > /tmp/told || fail "small: $(cat /tmp/told)"
least=$(tables)
traffic tell v0 change /lab/memory/large > /tmp/told || fail "large: $(cat /tmp/told)"
most=$(tables)
# 1,500,000 slots of 12 bytes.
[ $((most - least)) -ge 18000000 ] && say "ok $((most - least)) B for a large buffer" || fail "$((most - least)) B for a large buffer"
traffic tell v0 change /lab/memory/small > /tmp/told || fail "small again: $(cat /tmp/told)"
[ "$(tables)" = "$least" ] && say "ok given back at once where nothing waits" || fail "$(tables) B, $least before"

# 3000 packets are in slots of which 501 are kept; all leave, then the slots go.
traffic tell v0 change /lab/memory/large > /tmp/told || fail "large: $(cat /tmp/told)"
before=$(got)
traffic flood v0 3000 0x10001 1000 > /tmp/out
grep -q 'refused 0' /tmp/out || fail "$(cat /tmp/out)"
echo $limit > $memory_limit
traffic tell v0 change /lab/memory/small > /tmp/told && fail "slots of packets escape the limit"
grep -q "the limit is $limit[:;]" /tmp/told && say "ok slots count: $(cat /tmp/told)" || fail "$(cat /tmp/told)"
echo 268435456 > $memory_limit
traffic tell v0 change /lab/memory/small > /tmp/told || fail "small with packets: $(cat /tmp/told)"
[ "$(tables)" -gt "$least" ] || fail "given back with packets in it"
sleep 4
[ "$(tables)" = "$least" ] && [ $(($(got) - before)) = 3000 ] && say "ok given back when 3000 packets were gone" || fail "$(tables) B, $least before; $(($(got) - before)) packets"
# The same limit is enough without them.
echo $limit > $memory_limit
traffic tell v0 change /lab/memory/small > /tmp/told || fail "without packets: $(cat /tmp/told)"
echo 268435456 > $memory_limit
# The slots that are left are all that there are: 500 packets wait, and the one that is beyond is dropped.
before=$(got)
traffic flood v0 800 0x10001 1000 > /tmp/out
sleep 0.5
arrived=$(($(got) - before))
dropped=$(tc -s qdisc show dev v0 | sed -n 's/.*dropped \([0-9]*\),.*/\1/p')
[ $((arrived + dropped)) = 800 ] && [ $arrived -ge 500 ] && say "ok of 800 at once $arrived arrived and $dropped were dropped" || fail "of 800 $arrived arrived, $dropped dropped"

# Another namespace has a link of its own, and sees its own pieces.
here=$(cat $allocations)
[ "$here" -gt 0 ] || fail "no pieces of memory"
unshare -n sh -c "
    ip() { /sbin/ip \"\$@\"; }
    ip link add w0 type veth peer name w1
    ip link set w0 up
    cat $allocations
    traffic tell w0 add /lab/hls-H > /dev/null
    cat $allocations
    /sbin/tc -s qdisc show dev w0 | grep -c fairlink
" > /tmp/there
[ "$(sed -n 1p /tmp/there)" = 0 ] && [ "$(sed -n 2p /tmp/there)" -gt 0 ] && [ "$(cat $allocations)" = "$here" ] && say "ok $(sed -n 2p /tmp/there) pieces there, $here here" ||
    fail "there $(paste -sd' ' /tmp/there), here $here and then $(cat $allocations)"
tc qdisc del dev v0 root
[ "$(cat $allocations)" = 0 ] || fail "left: $(cat $allocations)"
# The namespace goes with its link.
for round in $(seq 50); do rmmod sch_fairlink 2>/dev/null && break; sleep 0.1; done
[ ! -e /sys/module/sch_fairlink ] && say "ok the other namespace left nothing" || fail rmmod
