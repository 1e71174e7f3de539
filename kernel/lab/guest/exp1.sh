# Experiment 1 of the HLS paper: all leaves send, and A1, B1, C and A2 stop in turn. Then three more schedulers in its first phase.
cable
load sch_fairlink

play() {
    traffic rates v0 v1 5000 250 A1:0x10011:1000:20000000:0-1000 A2:0x10012:1000:20000000:0-4000 \
        B1:0x10021:1000:20000000:0-2000 B2:0x10022:1000:20000000:0-5000 C:0x10003:1000:20000000:0-3000 > /tmp/out
}
# Guarantees of Figure 1 on 20 Mbit/s; what C, A and B leave is shared by the guarantees of who is left.
traffic tell v0 add /lab/hls-M > /tmp/told || fail "hls-M: $(cat /tmp/told)"
play
while read -r phase class ideal; do near "hls phase $((phase + 1)) $class mbit/s" "$(rate "$phase" "$class")" "$ideal" 2; done <<IDEAL
0 A1 2
0 A2 4
0 B1 2
0 B2 4
0 C 8
1 A2 6
1 B1 2
1 B2 4
1 C 8
2 A2 6
2 B2 6
2 C 8
3 A2 10
3 B2 10
4 B2 20
IDEAL
tc qdisc del dev v0 root
for scheduler in hvt hpfq hdrr htb hfsc; do
    traffic tell v0 add /lab/$scheduler-M > /tmp/told || { say "$scheduler: $(cat /tmp/told)"; continue; }
    play
    for pair in A1=2 A2=4 B1=2 B2=4 C=8; do near "$scheduler ${pair%=*} mbit/s" "$(rate 0 "${pair%=*}")" "${pair#*=}" 2; done
    tc qdisc del dev v0 root
done
