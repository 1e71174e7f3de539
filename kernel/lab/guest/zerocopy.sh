# needs fairlink
# needs cards
# The gateway over AF_XDP without copies, which the driver of virtio offers on newer kernels: it is chosen automatically, and no frame is
# lost, doubled or reordered in either direction, except those that the gateway drops and counts. Older kernels get packet sockets. Four
# cards at two cables: eth0 and eth1, eth2 and eth3.
for module in virtio_ring virtio virtio_pci_legacy_dev virtio_pci_modern_dev virtio_pci failover net_failover virtio_net; do
    [ ! -e /mod/$module.ko ] || load $module
done
sysctl -qw net.ipv6.conf.all.disable_ipv6=1 2>/dev/null
for card in eth0 eth1 eth2 eth3; do ip link set $card up || fail "no $card"; done
# link RATE: the link and its sources.
link() {
    cat <<END
duration = "2s"
[link]
rate = "20mbit"
mtu = "1522B"
default = "b"
[[class]]
name = "a"
guarantee = "5mbit"
match = ["udp dst port 5001"]
[[class]]
name = "b"
guarantee = "15mbit"
buffer = "50p"
[[source]]
class = "a"
model = "poisson"
rate = "3mbit"
packet = "200B"
[[source]]
class = "b"
model = "cbr"
rate = "$1"
packet = "1400B"
END
}
# sum FILE NAME: of all numbers of that name in a document.
sum() { grep -o "\"$2\": [0-9]*" "$1" | awk '{ all += $2 } END { print all + 0 }'; }
# same WHAT A B: fails if they differ.
same() { [ "$2" = "$3" ] && say "ok $1: $2" || fail "$1: $2 and $3"; }

link 8mbit > /tmp/light.toml
link 30mbit > /tmp/heavy.toml
fairlink gateway /tmp/light.toml --in eth1 --out eth2 --fail-open never --control /tmp/control --json > /tmp/stats 2> /tmp/log &
gateway=$!
for round in $(seq 100); do grep -q backends: /tmp/log && break; sleep 0.1; done
send() { fairlink generate "/tmp/$1.toml" --run "$2" --out "$3" --receive "$4" --json > "/tmp/run-$2" 2> /dev/null || fail "generate"; }
send light 1 eth0 eth3
send light 2 eth3 eth0
send heavy 3 eth0 eth3
kill -INT $gateway
wait $gateway || fail "the gateway"
cat /tmp/log
for run in 1 2; do
    [ "$(sum /tmp/run-$run sent_packets)" -gt 3000 ] || fail "run $run: only $(sum /tmp/run-$run sent_packets) were sent"
    same "run $run, sent and received" "$(sum /tmp/run-$run sent_packets)" "$(sum /tmp/run-$run received_packets)"
done
for run in 1 2 3; do
    same "run $run, doubled or reordered" "$(($(sum /tmp/run-$run duplicate_packets) + $(sum /tmp/run-$run reordered_packets)))" 0
done
# The gateway's first counters are those of the link: received, sent, dropped.
dropped=$(awk '/"dropped": \{/ { getline; gsub(/[^0-9]/, ""); print; exit }' /tmp/stats)
[ "$dropped" -gt 500 ] || fail "only $dropped were dropped"
same "run 3, lost and dropped by the gateway" "$(($(sum /tmp/run-3 sent_packets) - $(sum /tmp/run-3 received_packets)))" "$dropped"
grep -q '"balanced": true' /tmp/stats || fail "the account of the gateway"
case $(uname -r) in
    6.1.* | 6.12.*) grep -q 'backends: .* by af_packet (auto: ' /tmp/log && say "ok $(grep -o 'auto: .*)' /tmp/log)" || fail "backends" ;;
    *) grep -q 'backends: .*(zero-copy), .*(zero-copy) (auto: ' /tmp/log && say "ok zero-copy" || fail "no zero-copy" ;;
esac
