# needs fairlink
# TCP with super-frames: they are queued as the packets that they stand for, the link's rate holds, and a filter of tc finds the class. All
# by the command `fairlink qdisc`.
cable
load sch_fairlink sch_prio cls_u32
# Two hosts: the far end is in another network namespace.
unshare -n sleep 1000 &
far=$!
sleep 0.2
ip link set v1 netns $far
ip addr add 10.0.0.1/24 dev v0
nsenter -t $far -n /sbin/ip addr add 10.0.0.2/24 dev v1
nsenter -t $far -n /sbin/ip link set v1 up
ip link set v0 up
sleep 1
fairlink qdisc add /lab/tcp.toml --dev v0 2>&1 || fail "add"
tc filter add dev v0 parent 1: protocol ip u32 match ip dport 5001 0xffff flowid 1:1 || fail "filter"
fairlink qdisc show --dev v0 || fail "show"
sleep 1000 | nsenter -t $far -n /bin/nc -l -p 5001 > /dev/null &
sleep 1000 | nsenter -t $far -n /bin/nc -l -p 5002 > /dev/null &
sleep 0.2
dd if=/dev/zero bs=1000 count=100000 2>/dev/null | nc 10.0.0.2 5001 &
one=$!
dd if=/dev/zero bs=1000 count=100000 2>/dev/null | nc 10.0.0.2 5002 &
two=$!
count() { awk '$2 == "fairlink" && $3 == "'"$1"'" { getline; print $2 }' /tmp/classes; }
tc -s class show dev v0 > /tmp/classes
sleep 2
tc -s class show dev v0 > /tmp/classes
before_one=$(count 1:1) before_two=$(count 1:2)
sleep 4
tc -s class show dev v0 > /tmp/classes
kill $one $two 2>/dev/null
cat /tmp/classes
# Packets and bytes that the class, the queueing discipline and the one above have sent. They count a super-frame's packets each in its own way.
sent() { tc -s qdisc show dev v0 | awk -v handle="$1" '$2 && $1 == "qdisc" { on = $3 == handle } on && /Sent/ { print $4, $2 }'; }
same() {
    # Until nothing waits any more.
    for round in $(seq 20); do tc -s qdisc show dev v0 | grep -q 'backlog 0b 0p' && break; sleep 0.2; done
    tc -s class show dev v0 > /tmp/classes
    of_classes=$(awk '$2 == "fairlink" { getline; packets += $4; bytes += $2 } END { print packets, bytes }' /tmp/classes)
    for handle in "$@"; do
        [ "$(sent $handle)" = "$of_classes" ] && say "ok $handle and the classes have sent $of_classes packets and bytes" ||
            fail "$handle has sent $(sent $handle), its classes $of_classes packets and bytes"
    done
}
near "port 5001 mbit/s" "$(echo $(count 1:1) $before_one | awk '{ print ($1 - $2) * 8 / 4e6 }')" 30 2
near "the default class mbit/s" "$(echo $(count 1:2) $before_two | awk '{ print ($1 - $2) * 8 / 4e6 }')" 10 2
sleep 1
same 1:
fairlink qdisc show --dev v0 --json > /tmp/json
grep -q '"scheduler": *"hls"' /tmp/json || fail "show --json"
grep -q '"super_frames": *[1-9]' /tmp/json && say "ok$(grep super_frames /tmp/json) were segmented" || fail "no super-frames"
fairlink qdisc change /lab/tcp-other.toml --dev v0 || fail "change"
fairlink qdisc show --dev v0 || fail "show"
fairlink qdisc add /lab/tcp.toml --dev v0 2>&1 | grep -q 'already has a queueing discipline at its root, or one with the handle 1:' && say "ok added twice is refused" || fail "added twice"
fairlink qdisc add /lab/tcp.toml --dev nobody 2>&1 | grep -q 'there is no interface "nobody"' || fail "no interface"
fairlink qdisc del --dev v0 || fail "del"
fairlink qdisc del --dev v0 2>&1 | grep -q 'has no queueing discipline' && say "ok deleted twice is refused" || fail "deleted twice"

# Below a class of another queueing discipline: all of the command's verbs find it there.
tc qdisc add dev v0 root handle 1: prio bands 2 priomap 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 || fail prio
fairlink qdisc add /lab/tcp.toml --dev v0 --parent 1:1 2>&1 | grep -q 'give another one with --handle' && say "ok the parent's own handle is refused" || fail "the parent's own handle"
fairlink qdisc add /lab/tcp.toml --dev v0 --parent 1:7 --handle 20: > /tmp/told 2>&1 && fail "added below a class that is not there"
fairlink qdisc add /lab/tcp.toml --dev v0 --parent 1:1 --handle 20: 2> /tmp/told || fail "add below prio: $(cat /tmp/told)"
tc qdisc show dev v0 | grep -q 'fairlink 20: parent 1:1' && say "ok it stands below 1:1" || fail "$(tc qdisc show dev v0)"
tc filter add dev v0 parent 20: protocol ip u32 match ip dport 5003 0xffff flowid 20:1 || fail "filter"
sleep 1000 | nsenter -t $far -n /bin/nc -l -p 5003 > /dev/null &
sleep 0.2
dd if=/dev/zero bs=1000 count=2000 2>/dev/null | nc 10.0.0.2 5003 &
two=$!
sleep 2
kill $two 2>/dev/null
sleep 1
same 20: 1:
[ "$(awk '$3 == "20:1" { getline; print $4 }' /tmp/classes)" -gt 1000 ] || fail "class 20:1: $(cat /tmp/classes)"
fairlink qdisc show --dev v0 --parent 1:1 --json | grep -q '"super_frames": *[1-9]' || fail "no super-frames below 1:1"
fairlink qdisc show --dev v0 2>&1 | grep -q 'at its root' || fail "shown at the root"
fairlink qdisc show --dev v0 --parent 1:1 > /tmp/show || fail "show --parent"
grep -q '20:1' /tmp/show || fail "$(cat /tmp/show)"
fairlink qdisc watch --dev v0 --parent 1:1 --interval 100ms --count 1 > /dev/null || fail "watch --parent"
fairlink qdisc change /lab/tcp-other.toml --dev v0 --parent 1:1 || fail "change --parent"
fairlink qdisc show --dev v0 --parent 1:1 | grep -q 'htb' && say "ok changed below 1:1" || fail "not changed"
fairlink qdisc del --dev v0 --parent 1:1 || fail "del --parent"
tc qdisc show dev v0 | grep -q fairlink && fail "it is still there"
tc qdisc del dev v0 root
kill $far $(pidof sleep)
rmmod sch_fairlink || fail rmmod
fairlink qdisc add /lab/tcp.toml --dev lo > /tmp/told 2>&1
grep -q modprobe /tmp/told && say "ok without the module it says what to do" || fail "no module: $(cat /tmp/told)"
