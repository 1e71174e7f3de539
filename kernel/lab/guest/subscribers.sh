# needs fairlink
# 10,000 subscribers with an IPv4 address and an IPv6 prefix each, told apart by filters of tc: how many priorities those take, and how many
# instructions a packet of the last of them costs beyond one whose class is said by skb->priority.
load dummy pktgen sch_fairlink cls_flower
ip link add d0 type dummy
sysctl -qw net.ipv6.conf.all.disable_ipv6=1 2>/dev/null
ip link set d0 up
pg() { echo "$2" > /proc/net/pktgen/"$1" || fail "pktgen: $2"; }
pg kpktgend_0 rem_device_all
pg kpktgend_0 "add_device d0"
# pktgen reads decimal numbers alone. measure COUNT COMMAND...: instructions a packet, the least of three runs.
measure() {
    local count=$1 us=999999999 round now command
    shift
    for command in "xmit_mode queue_xmit" "count $count" "pkt_size 200" "clone_skb 0" "delay 0" "dst_mac 02:00:00:00:00:02" "$@"; do pg d0 "$command"; done
    for round in 1 2 3; do
        pg pgctrl start
        now=$(sed -n 's/^Result: OK: \([0-9]*\)(.*/\1/p' /proc/net/pktgen/d0)
        [ "$now" -lt $us ] && us=$now
    done
    echo $((us * 1000 / count / 2))
}
sent() { tc -s class show dev d0 classid $1 | awk '/Sent/ { print $4 }'; }
for count in 2000 10000; do
    fairlink qdisc add /lab/subscribers/$count.toml --dev d0 --json > /tmp/told || { fail "$count: $(tail -3 /tmp/told)"; continue; }
    priorities=$(tc filter show dev d0 parent 1: | grep -o 'pref [0-9]*' | sort -u | wc -l)
    filters=$(grep -o '"filters": *[0-9]*' /tmp/told | grep -o '[0-9]*$')
    [ "$filters" = $((2 * count)) ] && [ "$priorities" -le 2 ] && say "ok $count subscribers: $filters filters in $priorities priorities" || fail "$count: $filters filters in $priorities priorities"
    last=$(printf '1:%x' $count)
    # The address of the last one: see files.sh.
    v4=10.$((count / 65536)).$((count / 256 % 256)).$((count % 256)) v6=$(printf '2001:db8:%x:%x00::1' $((count / 256)) $((count % 256)))
    plain=$(measure 2000 "skb_priority $((65536 + count))" "dst $v4")
    [ "$(tc -s class show dev d0 | awk -v class=$last '$3 == class { getline; print $4 }')" = 6000 ] || fail "$count: by skb->priority"
    four=$(measure 2000 "skb_priority 0" "dst $v4")
    six=$(measure 2000 "dst6 $v6")
    # pktgen takes longer for the longer header.
    plain_six=$(measure 2000 "skb_priority $((65536 + count))" "dst6 $v6")
    [ "$(tc -s class show dev d0 | awk -v class=$last '$3 == class { getline; print $4 }')" = 24000 ] && say "ok $count: all packets are the last subscriber's" ||
        fail "$count: $(tc -s class show dev d0 | awk '$2 == "fairlink" { class = $3; getline; if ($4 > 0) print class, $4 }' | paste -sd' ')"
    say "shown $count: $plain instructions a packet by skb->priority; beyond that IPv4 $((four - plain)), IPv6 $((six - plain_six))"
    [ $((four - plain)) -lt 3000 ] && [ $((six - plain_six)) -lt 3000 ] || fail "$count: too many instructions"
    fairlink qdisc del --dev d0 || fail del
    pg d0 "dst6 ::"
    pg kpktgend_0 rem_device_all
    pg kpktgend_0 "add_device d0"
done
pg kpktgend_0 rem_device_all
rmmod sch_fairlink || fail rmmod
