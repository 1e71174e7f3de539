# Below every classful queueing discipline of the kernel that takes ours: packets that it drops, changes, and panics. Parents look at packets before
# they take them, and count what is below them: at the end each has what we have, everything that was not dropped arrives, and what comes later passes.
load veth
ip link add v0 numtxqueues 2 type veth peer name v1
sysctl -qw net.ipv6.conf.all.disable_ipv6=1 2>/dev/null
ip link set v0 up
ip link set v1 up
load sch_fairlink sch_tbf sch_htb sch_hfsc sch_qfq sch_drr sch_ets sch_prio sch_multiq sch_red sch_sfb sch_netem cls_matchall
# In newer kernels a part is a module of its own.
[ ! -e /mod/sch_mqprio_lib.ko ] || load sch_mqprio_lib
load sch_mqprio
allocations=/sys/module/sch_fairlink/parameters/allocations
break_next=/sys/kernel/debug/fairlink/break_next
priomap="priomap 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0"

# slow HANDLE: a shaper of 40 Mbit/s at the root, so that packets wait below it; what is below looks at packets for it.
slow() { tc qdisc add dev v0 root handle 8: tbf rate 40mbit burst 3000 limit 4mb || fail "tbf"; }
# A parent and the class of it that all packets are of, to /tmp/at.
parent() {
    at=9:1
    # All processors, one or two, send by the first queue; mqprio forgets that.
    echo $((2 * $(grep -c ^processor /proc/cpuinfo) - 1)) > /sys/class/net/v0/queues/tx-0/xps_cpus || fail "xps_cpus"
    case $1 in
        tbf) slow; at=8:1 ;;
        hfsc-root) tc qdisc add dev v0 root handle 9: hfsc default 1 && tc class add dev v0 parent 9: classid 9:1 hfsc sc rate 40mbit ul rate 40mbit ;;
        htb-root) tc qdisc add dev v0 root handle 9: htb default 1 && tc class add dev v0 parent 9: classid 9:1 htb rate 40mbit burst 3000 cburst 3000 quantum 3000 ;;
        mq) tc qdisc add dev v0 root handle 9: mq ;;
        mqprio) tc qdisc add dev v0 root handle 9: mqprio num_tc 2 map 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 queues 1@0 1@1 hw 0 ;;
        *) slow; below $1 ;;
    esac || fail "no $1"
}
below() {
    local add="dev v0 parent 8:1 handle 9:"
    case $1 in
        hfsc) tc qdisc add $add hfsc default 1 && tc class add dev v0 parent 9: classid 9:1 hfsc sc rate 1gbit ul rate 1gbit ;;
        htb) tc qdisc add $add htb default 1 && tc class add dev v0 parent 9: classid 9:1 htb rate 1gbit quantum 3000 ;;
        qfq) tc qdisc add $add qfq && tc class add dev v0 parent 9: classid 9:1 qfq weight 1 maxpkt 2048 ;;
        drr) tc qdisc add $add drr && tc class add dev v0 parent 9: classid 9:1 drr ;;
        ets) tc qdisc add $add ets bands 2 quanta 3000 3000 $priomap ;;
        prio) tc qdisc add $add prio bands 2 $priomap ;;
        multiq) tc qdisc add $add multiq ;;
        red) tc qdisc add $add red limit 4mb min 1mb max 3mb avpkt 1000 burst 1500 probability 0.01 bandwidth 40mbit ;;
        sfb) tc qdisc add $add sfb limit 4000 max 2000 target 1900 ;;
        netem) tc qdisc add $add netem limit 4000 ;;
    esac || return 1
    case $1 in qfq | drr) tc filter add dev v0 parent 9: matchall flowid 9:1 ;; esac
}
got() { cat /sys/class/net/v1/statistics/rx_packets; }
# What tc says of a queueing discipline: packets sent, dropped, or queued.
number() { # HANDLE FIELD
    tc -s qdisc show dev v0 | awk -v handle="$1" -v field="$2" '$1 == "qdisc" { on = $3 == handle } on && /Sent/ { gsub(/[(),]/, ""); sent = $4; dropped = $7 }
        on && /backlog/ { sub(/p$/, "", $3); queued = $3 } END { print field == "sent" ? sent : field == "dropped" ? dropped : queued }'
}
# What waits is as many packets and bytes for each that stands above us as for us. While packets leave, also between two lines of tc, those
# above may seem to have a few more or less, and netem has what is delayed. multiq counts no bytes, but has those taken away that are dropped below it.
agree() { # WHAT [PACKETS]: that may be apart
    tc -s qdisc show dev v0 | awk -v most="${2:-0}" '$1 == "qdisc" { handle = $3; kinds[handle] = $2 } /backlog/ { bytes[handle] = $2; packets[handle] = $3 + 0 }
        END {
            if (most && kinds["9:"] == "netem") exit
            for (handle in packets) if (handle == "8:" || handle == "9:") {
                more = packets[handle] - packets["1:"]
                if (more < -most || more > most || (!most && kinds[handle] != "multiq" && bytes[handle] != bytes["1:"]))
                    print handle, "has", packets[handle], bytes[handle], "and 1:", packets["1:"], bytes["1:"]
            }
        }' > /tmp/apart
    [ ! -s /tmp/apart ] || fail "$1: $(cat /tmp/apart)"
}
# Until nothing is left; then whether all that was sent and not dropped arrived, and whether later ones pass.
drained() { # WHAT SENT BEFORE
    local tries=0 lost
    while [ "$(number 1: queued)" != 0 ] && [ $tries -lt 40 ]; do sleep 0.1; tries=$((tries + 1)); done
    sleep 0.1
    agree "$1, at the end"
    lost=$(number 1: dropped)
    [ $(($(got) - $3 + lost)) = "$2" ] || fail "$1: $2 sent, $(($(got) - $3)) arrived, $lost dropped: $(tc -s qdisc show dev v0)"
    before=$(got)
    for round in 1 2 3; do traffic flood v0 10 0x10003 1000 > /dev/null; sleep 0.05; done
    [ $(($(got) - before)) = 30 ] || fail "$1: of 30 later packets $(($(got) - before)) arrived: $(tc -s qdisc show dev v0)"
    agree "$1, later"
}
for kind in tbf hfsc-root htb-root mq mqprio hfsc htb qfq drr ets prio multiq red sfb netem; do
    done=''
    for what in drops other less dequeue enqueue commit about; do
        parent $kind
        traffic tell v0/$at add /lab/parents/hls > /tmp/told || { fail "$kind: add: $(cat /tmp/told)"; tc qdisc del dev v0 root; break; }
        start=$(got)
        # The buffer of 1:12 holds 20.
        traffic flood v0 150 0x10011 1000 > /dev/null
        traffic flood v0 60 0x10012 1000 > /dev/null
        traffic flood v0 60 0x10003 600 > /dev/null
        sent=270
        case $what in
            drops) ;;
            other) traffic tell v0 change /lab/parents/htb 2> /dev/null > /tmp/told && fail "changed at the root"
                traffic tell v0/$at change /lab/parents/htb > /tmp/told || fail "$kind: other: $(cat /tmp/told)" ;;
            less) traffic tell v0/$at change /lab/parents/less > /tmp/told || fail "$kind: less: $(cat /tmp/told)" ;;
            *)
                echo $what > $break_next
                case $what in
                    commit) traffic tell v0/$at change /lab/parents/less > /tmp/told && fail "changed by a panic" ;;
                    about) tc -s class show dev v0 > /dev/null ;;
                    enqueue) traffic flood v0 1 0x10003 600 > /dev/null; sent=271 ;;
                    dequeue) traffic flood v0 1 0x10003 600 > /dev/null; sent=271; sleep 0.01 ;;
                esac
                [ "$(cat $break_next)" = none ] || fail "$kind: $what was not called"
                tc qdisc show dev v0 | grep -q 'fairlink-broken 1:' || fail "$kind: $what did not break"
                ;;
        esac
        agree "$kind: $what" 4
        drained "$kind: $what" $sent $start
        done="$done $what"
        tc qdisc del dev v0 root || fail "$kind: del"
        [ "$(cat $allocations)" = 0 ] || fail "$kind: $what leaves $(cat $allocations) pieces"
    done
    say "ok below $kind:$done"
done
rmmod sch_fairlink || fail rmmod
