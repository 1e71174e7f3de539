# Experiment 2 of the HLS paper: A1, B2 and C send all they can, and C pauses in the second phase. Whatever the guarantees of the
# leaves (L, M, H), A1 and B2 share what is left evenly. Beside it, the kernel's HTB and HFSC with the same guarantees.
cable
load sch_fairlink sch_htb sch_hfsc

play() { # what, and whether it is judged
    traffic rates v0 v1 3000 250 A1:0x10011:1000:20000000:0-3000 B2:0x10022:1000:20000000:0-3000 \
        C:0x10003:1000:20000000:0-1000,2000-3000 > /tmp/out
    set -- "$1" "$2" "$(rate 1 A1)" "$(rate 1 B2)" "$(rate 2 C)"
    if [ "$2" = judged ]; then
        near "$1 A1 mbit/s" "$3" 10 2
        near "$1 B2 mbit/s" "$4" 10 2
        near "$1 C mbit/s" "$5" 8 2
    else
        say "$1 A1 $3 B2 $4 mbit/s while C pauses"
    fi
    tc qdisc del dev v0 root
}

for letter in L M H; do
    traffic tell v0 add /lab/hls-$letter > /tmp/told || fail "hls-$letter: $(cat /tmp/told)"
    play "hls $letter" judged
    case $letter in L) one=2800 two=3200 ;; M) one=2000 two=4000 ;; H) one=1200 two=4800 ;; esac
    for kind in htb hfsc; do
        if [ $kind = htb ]; then share() { echo "rate ${1}kbit ceil 20mbit burst 2kb cburst 2kb"; }; else share() { echo "ls rate ${1}kbit ul rate 20mbit"; }; fi
        tc qdisc add dev v0 root handle 1: $kind default 3
        tc class add dev v0 parent 1: classid 1:fff $kind $(share 20000)
        tc class add dev v0 parent 1:fff classid 1:1 $kind $(share 6000)
        tc class add dev v0 parent 1:1 classid 1:11 $kind $(share $one)
        tc class add dev v0 parent 1:1 classid 1:12 $kind $(share $two)
        tc class add dev v0 parent 1:fff classid 1:2 $kind $(share 6000)
        tc class add dev v0 parent 1:2 classid 1:21 $kind $(share $one)
        tc class add dev v0 parent 1:2 classid 1:22 $kind $(share $two)
        tc class add dev v0 parent 1:fff classid 1:3 $kind $(share 8000)
        for leaf in 11 12 21 22 3; do tc qdisc add dev v0 parent 1:$leaf pfifo limit 50; done
        play "the kernel's $kind $letter" shown
    done
done
