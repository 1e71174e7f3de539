# The module is loaded, shares a link, is unloaded, and leaves nothing behind.
cable
allocations=/sys/module/sch_fairlink/parameters/allocations
for round in 1 2 3; do
    load sch_fairlink
    [ "$(cat $allocations)" = 0 ] || fail "pieces of memory before the first link: $(cat $allocations)"
    traffic tell v0 add /lab/hls-H > /tmp/told || fail "add: $(cat /tmp/told)"
    [ $round = 1 ] && say "pieces of memory of a link: $(cat $allocations)"
    traffic flood v0 100 0x10011 1000 > /tmp/out
    tc -s qdisc show dev v0
    tc -s class show dev v0
    tc qdisc del dev v0 root || fail "del"
    [ "$(cat $allocations)" = 0 ] || fail "pieces of memory after the last link: $(cat $allocations)"
    rmmod sch_fairlink || fail "rmmod"
done
# A module in use is not unloaded.
load sch_fairlink
traffic tell v0 add /lab/hls-H > /tmp/told
rmmod sch_fairlink 2>/dev/null && fail "unloaded while in use"
ip link del v0
rmmod sch_fairlink || fail "rmmod after the interface went"
say "ok loaded and unloaded"
