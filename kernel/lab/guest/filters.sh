# needs fairlink
# The matches of a link file as filters of tc: each frame is counted for the class that the gateway's classifier says (a test of crates/net
# reads the same file with it). Filters are replaced without a frame in the default class, and those of others stay.
cable
load llc stp garp mrp 8021q bridge sch_fairlink cls_u32
for vlan in 5 6; do
    ip link add link v0 name v0.$vlan type vlan id $vlan
    ip link set v0.$vlan up
done
# What this machine forwards, with the tags that it came with, comes from w0 over a bridge.
ip link add w0 type veth peer name w1
ip link add br0 type bridge
ip link set w1 master br0
for port in w0 w1 br0; do ip link set $port up; done
fairlink qdisc add /lab/filters/link.toml --dev v0 > /tmp/told 2>&1 && fail "added without classifiers"
grep -q "modprobe -a cls_flower" /tmp/told && say "ok without the classifiers it says what to load" || fail "no classifiers: $(cat /tmp/told)"
tc qdisc show dev v0 | grep -q fairlink && fail "half of it is there"
load cls_flower cls_matchall
fairlink qdisc add /lab/filters/link.toml --dev v0 --json > /tmp/told || fail "add"
say "$(grep '"filters"' /tmp/told) in $(tc filter show dev v0 parent 1: | grep -o 'pref [0-9]*' | sort -u | wc -l) priorities"

# Packets that each class got, in the order of the classes.
got() { tc -s class show dev v0 | awk '$2 == "fairlink" { class = $3; getline; print class, $4 }'; }
# grew FILE FILE: classes that have more packets in the second.
grew() { paste -d' ' $1 $2 | awk '$4 != $2 { printf "%s%s+%d", sep, $1, $4 - $2; sep = " " }'; }
# judge WAY CLASS: all frames of a class by their interfaces or over the bridge; one by one where one of them goes elsewhere.
judge() {
    awk -v way=$1 -v class=$2 '$2 == class && (way == "bridge" || $1 !~ /\..*\./) { print (way == "bridge" ? "w0" : $1), $3 }' /lab/filters/frames > /tmp/frames
    got > /tmp/before
    while read -r device hex; do traffic frame $device $hex || fail "send"; done < /tmp/frames
    sleep 0.05
    got > /tmp/after
    count=$(wc -l < /tmp/frames)
    frames=$((frames + count))
    [ "$(grew /tmp/before /tmp/after)" = "$2+$count" ] && return
    while read -r device hex; do
        got > /tmp/before
        traffic frame $device $hex
        sleep 0.05
        got > /tmp/after
        [ "$(grew /tmp/before /tmp/after)" = "$2+1" ] || fail "$device $hex: class $2, not $(grew /tmp/before /tmp/after)"
    done < /tmp/frames
    fail "$1: frames of class $2 in others"
    wrong=1
}
frames=0 wrong=0
classes=$(cut -d' ' -f2 /lab/filters/frames | sort -u)
# By interfaces of this machine. Of two tags the kernel's dissector sees one there.
for class in $classes; do judge own $class; done
ip link set v0 master br0
sleep 0.5
for class in $classes; do judge bridge $class; done
[ $wrong = 0 ] && say "ok $frames frames in the classes of the gateway, by interfaces and over a bridge"
ip link set v0 nomaster

# 0x88b5 is of one class by one file and of another by the other; the default has none of it.
tc filter add dev v0 parent 1: protocol ip pref 9 u32 match ip dport 9 0xffff flowid 1:6 || fail "a filter of our own"
before=$(got | awk '$1 == "1:8" { print $2 }')
traffic rates v0 v1 4000 4000 A:0:300:8000000:0-4000 > /tmp/out &
load_process=$!
for round in $(seq 12); do
    [ $((round % 2)) = 1 ] && file=moved || file=link
    fairlink qdisc change /lab/filters/$file.toml --dev v0 || fail "change $round"
done
wait $load_process
after=$(got | awk '$1 == "1:8" { print $2 }')
sent=$(awk '/^SENT A/ { print $3 }' /tmp/out)
[ "$before" = "$after" ] && say "ok none of $sent packets in the default class while filters were replaced 12 times" || fail "$((after - before)) of $sent packets in the default class"
tc filter show dev v0 parent 1: > /tmp/filters
grep -q 'pref 9 u32' /tmp/filters && say "ok a filter of our own stays" || fail "a filter of our own is gone"
one=$(grep -c 'pref .* flower .*handle' /tmp/filters)
told=$(grep -o '"filters": *[0-9]*' /tmp/told | grep -o '[0-9]*$')
[ "$one" = "$told" ] && say "ok $one filters, as in the beginning" || fail "$one filters, $told in the beginning"
fairlink qdisc change /lab/filters/moved.toml --dev v0 --no-filters 2> /tmp/note || fail "change without filters"
tc filter show dev v0 parent 1: | cmp -s - /tmp/filters && say "ok --no-filters leaves them" || fail "--no-filters changed them"
sed 's/"icmp"/"ethertype 0x8864"/' /lab/filters/link.toml > /tmp/unspoken.toml
fairlink qdisc change /tmp/unspoken.toml --dev v0 2> /tmp/note && fail "a match that is no filter was taken"
grep -q 'class "kinds": the match "ethertype 0x8864" cannot be a filter' /tmp/note && say "ok $(head -1 /tmp/note)" || fail "$(cat /tmp/note)"
tc filter show dev v0 parent 1: | cmp -s - /tmp/filters || fail "what was refused changed filters"
fairlink qdisc change /tmp/unspoken.toml --dev v0 --lenient 2> /tmp/note || fail "--lenient"
grep -q 'cannot be a filter' /tmp/note || fail "--lenient says nothing"
fairlink qdisc del --dev v0 || fail del
rmmod sch_fairlink || fail rmmod
dmesg | grep -E "BUG|WARN|Oops|Call Trace" && fail "the kernel complains"
