# The kernel sends the packets of a recording in the order in which the simulator sends them, packet by packet.
cable
load sch_fairlink
for scheduler in hls hdrr hpfq htb hfsc; do
    [ -e /lab/order/$scheduler ] || { fail "$scheduler: no configuration"; continue; }
    traffic tell v0 add /lab/order/$scheduler > /tmp/told || { fail "$scheduler: $(cat /tmp/told)"; continue; }
    traffic order v0 v1 /lab/order/packets 40000 > /tmp/order
    if cmp -s /tmp/order /lab/order/$scheduler.order; then
        say "ok $scheduler: $(wc -l < /tmp/order) packets in the simulator's order"
    else
        fail "$scheduler: $(wc -l < /tmp/order) packets, the simulator $(wc -l < /lab/order/$scheduler.order)"
        diff /tmp/order /lab/order/$scheduler.order | head -20
    fi
    tc qdisc del dev v0 root
done
