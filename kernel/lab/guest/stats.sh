# What tc shows adds up: sent and dropped and queued are what came, for each class and for the link. And packets come
# into the class of their priority, of their mark, or into the default.
cable
load sch_fairlink cls_matchall act_police
traffic tell v0 add /lab/hls-M > /tmp/told || fail "add: $(cat /tmp/told)"
traffic rates v0 v1 2000 1000 A1:0x10011:1000:20000000:0-2000 B1:0x10021:200:9000000:0-2000 C:0x10003:1400:30000000:0-2000 > /tmp/out
tc -s class show dev v0 > /tmp/classes
tc -s qdisc show dev v0 > /tmp/qdisc
number() { # class, field: packets sent, dropped, or queued
    awk -v class="$1" -v field="$2" '$2 == "fairlink" && $3 == class { getline
        gsub(/[(),]/, ""); sent = $4; dropped = $7; getline; if ($1 == "rate") getline; sub(/p$/, "", $3)
        print field == "sent" ? sent : field == "dropped" ? dropped : $3 }' "$3"
}
all=0
for pair in A1=1:11 B1=1:21 C=1:3; do
    class=${pair#*=} name=${pair%=*}
    came=$(awk "/^SENT $name/ { print \$3 }" /tmp/out)
    sent=$(number $class sent /tmp/classes) dropped=$(number $class dropped /tmp/classes) queued=$(number $class queued /tmp/classes)
    [ "$came" = $((sent + dropped + queued)) ] && say "ok $name: $came came = $sent sent + $dropped dropped + $queued queued" ||
        fail "$name: $came came, $sent sent, $dropped dropped, $queued queued"
    all=$((all + came))
done
sent=$(number 1: sent /tmp/qdisc) dropped=$(number 1: dropped /tmp/qdisc) queued=$(number 1: queued /tmp/qdisc)
[ $all = $((sent + dropped + queued)) ] && say "ok the link: $all came = $sent sent + $dropped dropped + $queued queued" ||
    { fail "the link: $all came, $sent sent, $dropped dropped, $queued queued"; cat /tmp/qdisc; }

came() { tc -s class show dev v0 > /tmp/classes; echo $(($(number "$1" sent /tmp/classes) + $(number "$1" dropped /tmp/classes) + $(number "$1" queued /tmp/classes))); }
# How the packet says its class, and where it belongs: a leaf, an inner class, none, one of another discipline.
while read -r label class; do
    before=$(came $class)
    traffic flood v0 40 "$label" 500 > /dev/null
    now=$(came $class)
    [ $((now - before)) = 40 ] && say "ok $label is of class $class" || fail "$label: class $class got $((now - before)) of 40"
done <<LABELS
0x10022 1:22
m0x10022 1:22
0x10001 1:3
m0x10001 1:3
0x100ff 1:3
0x20022 1:3
m0x20022 1:3
LABELS

# A filter that names a class of another queueing discipline names none of ours: the packet is of the default class.
while read -r flowid class; do
    tc filter add dev v0 parent 1: pref 5 matchall flowid $flowid || fail "a filter for $flowid"
    before=$(came $class)
    traffic flood v0 40 0 500 > /dev/null
    now=$(came $class)
    [ $((now - before)) = 40 ] && say "ok by flowid $flowid it is of class $class" || fail "flowid $flowid: class $class got $((now - before)) of 40"
    tc filter del dev v0 parent 1: pref 5
done <<FLOWIDS
1:22 1:22
7:22 1:3
FLOWIDS
# One that asks for a redirection (7), which no queueing discipline makes: the packet is dropped and counted, and in no class.
tc filter add dev v0 parent 1: pref 5 matchall action police rate 1gbit burst 100k conform-exceed 7/7 || fail "a filter that redirects"
before=$(came 1:3)
tc -s qdisc show dev v0 > /tmp/qdisc
dropped=$(number 1: dropped /tmp/qdisc)
traffic flood v0 40 0 500 > /dev/null
tc -s qdisc show dev v0 > /tmp/qdisc
[ $(($(number 1: dropped /tmp/qdisc) - dropped)) = 40 ] && [ "$(came 1:3)" = "$before" ] && say "ok what would be redirected is dropped" ||
    fail "redirected: $(($(number 1: dropped /tmp/qdisc) - dropped)) of 40 dropped, the default class got $(($(came 1:3) - before))"
