# The kernel sends the packets of a recording in the order in which the simulator sends them, packet by packet; then those of hosts that
# share classes.
cable
load sch_fairlink
for case in order/hls order/hvt order/hdrr order/hpfq order/htb order/hfsc hosts/hls hosts/htb hosts/hfsc hosts/drr; do
    [ -e /lab/$case ] || { fail "$case: no configuration"; continue; }
    traffic tell v0 add /lab/$case > /tmp/told || { fail "$case: $(cat /tmp/told)"; continue; }
    traffic order v0 v1 "/lab/${case%/*}/packets" 40000 > /tmp/order
    if cmp -s /tmp/order /lab/$case.order; then
        say "ok $case: $(wc -l < /tmp/order) packets in the simulator's order"
    else
        fail "$case: $(wc -l < /tmp/order) packets, the simulator $(wc -l < /lab/$case.order)"
        diff /tmp/order /lab/$case.order | head -20
    fi
    tc qdisc del dev v0 root
done
