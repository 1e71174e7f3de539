# Instructions for a packet from pktgen through the queueing discipline to a dummy interface: two nanoseconds are one instruction. The
# link is too fast to ever be full. The least of three runs, since a kernel that has just started does other things as well.
load dummy pktgen sch_htb sch_fairlink
ip link add d0 type dummy
ip link set d0 up

pg() { echo "$2" > /proc/net/pktgen/"$1" || fail "pktgen: $2"; }
pg kpktgend_0 rem_device_all
pg kpktgend_0 "add_device d0"
measure() {
    pg d0 "xmit_mode queue_xmit"
    pg d0 "count 20000"
    pg d0 "pkt_size 1000"
    pg d0 "clone_skb 0"
    pg d0 "delay 0"
    # pktgen reads decimals only: 1:11.
    pg d0 "skb_priority 65553"
    pg d0 "dst_mac 02:00:00:00:00:02"
    pg d0 "dst 10.0.0.2"
    us=999999999
    for round in 1 2 3; do
        pg pgctrl start
        # Result: OK: 123456(c120000+d3456) usec, 20000 (1000byte,0frags)
        now=$(sed -n 's/^Result: OK: \([0-9]*\)(.*/\1/p' /proc/net/pktgen/d0)
        [ "$now" -lt $us ] && us=$now
    done
    say "ok $1: $((us * 1000 / 20000 / 2)) instructions a packet"
}
tc qdisc add dev d0 root handle 1: htb default 3
for class in "1: 1:fff 1000" "1:fff 1:1 300" "1:1 1:11 60" "1:1 1:12 240" "1:fff 1:2 300" "1:2 1:21 60" "1:2 1:22 240" "1:fff 1:3 400"; do
    set -- $class
    tc class add dev d0 parent $1 classid $2 htb rate ${3}gbit ceil 1000gbit quantum 60000
done
measure "the kernel's HTB"
tc qdisc del dev d0 root
for scheduler in hls hvt htb hpfq hdrr hfsc; do
    traffic tell d0 add /lab/fast/$scheduler > /tmp/told || { fail "$scheduler: $(cat /tmp/told)"; continue; }
    measure "$scheduler"
    tc qdisc del dev d0 root
done
tc qdisc add dev d0 root handle 1: pfifo
measure "pfifo"
tc qdisc del dev d0 root
