load veth
say "insmod"
insmod /mod/fairlink.ko || fail insmod
ip link add v0 type veth peer name v1; ip link set v0 up; ip link set v1 up
tc qdisc add dev v0 root handle 1: fairlink
dmesg | tail -5
rmmod sch_fairlink || fail rmmod
