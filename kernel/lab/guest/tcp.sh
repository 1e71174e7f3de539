# needs fairlink
# TCP with super-frames: they are queued as the packets that they stand for, the link's rate holds, and a filter of tc finds the class. All
# by the command `fairlink qdisc`.
cable
load sch_fairlink cls_u32
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
near "port 5001 mbit/s" "$(echo $(count 1:1) $before_one | awk '{ print ($1 - $2) * 8 / 4e6 }')" 30 2
near "the default class mbit/s" "$(echo $(count 1:2) $before_two | awk '{ print ($1 - $2) * 8 / 4e6 }')" 10 2
fairlink qdisc show --dev v0 --json > /tmp/json
grep -q '"scheduler": *"hls"' /tmp/json || fail "show --json"
grep -q '"super_frames": *[1-9]' /tmp/json && say "ok$(grep super_frames /tmp/json) were segmented" || fail "no super-frames"
fairlink qdisc change /lab/tcp-other.toml --dev v0 || fail "change"
fairlink qdisc show --dev v0 || fail "show"
fairlink qdisc add /lab/tcp.toml --dev v0 2>&1 | grep -q 'has a queueing discipline at its root already' && say "ok added twice is refused" || fail "added twice"
fairlink qdisc add /lab/tcp.toml --dev nobody 2>&1 | grep -q 'there is no interface "nobody"' || fail "no interface"
fairlink qdisc del --dev v0 || fail "del"
fairlink qdisc del --dev v0 2>&1 | grep -q 'has no queueing discipline' && say "ok deleted twice is refused" || fail "deleted twice"
kill $far $(pidof sleep)
rmmod sch_fairlink || fail rmmod
fairlink qdisc add /lab/tcp.toml --dev lo > /tmp/told 2>&1
grep -q modprobe /tmp/told && say "ok without the module it says what to do" || fail "no module: $(cat /tmp/told)"
