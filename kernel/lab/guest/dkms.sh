# needs dkms
# The module that DKMS built and installed of what kernel/package writes: it is loaded, shares a link as the one of the Makefile
# does, and is unloaded.
cable
insmod /mod/by-dkms.ko || fail "no module"
traffic tell v0 add /lab/hls-H > /tmp/told || fail "add: $(cat /tmp/told)"
traffic rates v0 v1 2000 250 A1:0x10011:1000:20000000:0-2000 B2:0x10022:1000:20000000:0-2000 > /tmp/out
near "A1 mbit/s" "$(rate 1 A1)" 10 2
near "B2 mbit/s" "$(rate 1 B2)" 10 2
tc qdisc del dev v0 root || fail del
rmmod sch_fairlink || fail rmmod
