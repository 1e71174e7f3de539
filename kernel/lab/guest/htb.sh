# The laboratory itself: the kernel's HTB shares a link of 20 Mbit/s between two classes of 15 and 5, to within a percent.
cable
load sch_htb
tc qdisc add dev v0 root handle 1: htb
tc class add dev v0 parent 1: classid 1:1 htb rate 20mbit
tc class add dev v0 parent 1:1 classid 1:10 htb rate 15mbit ceil 20mbit
tc class add dev v0 parent 1:1 classid 1:20 htb rate 5mbit ceil 20mbit
traffic rates v0 v1 2000 2000 A:0x10010:1000:20000000:0-2000 B:0x10020:1000:20000000:0-2000 > /tmp/out
near "A mbit/s" "$(awk '/^PHASE 0 A/ { print $4 * 8 / 2e6 }' /tmp/out)" 15 1
near "B mbit/s" "$(awk '/^PHASE 0 B/ { print $4 * 8 / 2e6 }' /tmp/out)" 5 1
