# What is refused: bytes that are no configuration, trees too large, memory at every allocation in turn. Each is an error number and a
# text, and what was there stays.
cable
load sch_fairlink
allocations=/sys/module/sch_fairlink/parameters/allocations
refuse_at=/sys/kernel/debug/fairlink/refuse_at
memory_limit=/sys/module/sch_fairlink/parameters/memory_limit

tc qdisc add dev v0 root fairlink 2>&1 | grep -q 'fairlink qdisc add' && say "ok plain tc is told what to use" || fail "plain tc"
for file in /lab/refused/*; do
    traffic tell v0 add "$file" > /tmp/told && fail "${file##*/} was taken"
    grep -qE '^TOLD (22|34) .' /tmp/told || fail "${file##*/}: $(cat /tmp/told)"
    [ "$(cat $allocations)" = 0 ] || fail "${file##*/} leaves $(cat $allocations) pieces of memory"
done
say "ok $(ls /lab/refused | wc -l) configurations refused, the last with: $(cat /tmp/told)"
echo 10000 > $memory_limit
traffic tell v0 add /lab/hls-H > /tmp/told && fail "taken beyond the limit"
say "too large: $(cat /tmp/told)"
grep -q 'the limit is 10000[:;]' /tmp/told || fail "too large: $(cat /tmp/told)"
echo 268435456 > $memory_limit

# Every allocation in turn, of a link and of a change.
refused=0
while echo $((refused + 1)) > $refuse_at; ! traffic tell v0 add /lab/htb-H > /tmp/told; do
    grep -q '^TOLD 12 .*no memory' /tmp/told || fail "allocation $refused: $(cat /tmp/told)"
    [ "$(cat $allocations)" = 0 ] || fail "allocation $refused leaves $(cat $allocations)"
    refused=$((refused + 1))
    [ $refused -lt 200 ] || { fail "no end"; break; }
done
echo 0 > $refuse_at
say "ok each of $refused allocations of a link refused"
pieces=$(cat $allocations) refused=0
while echo $((refused + 1)) > $refuse_at; ! traffic tell v0 change /lab/hls-H > /tmp/told; do
    grep -q '^TOLD 12 .*no memory' /tmp/told || fail "allocation $refused of a change: $(cat /tmp/told)"
    [ "$(cat $allocations)" = $pieces ] || fail "allocation $refused of a change leaves $(cat $allocations), not $pieces"
    refused=$((refused + 1))
    [ $refused -lt 200 ] || { fail "no end"; break; }
done
echo 0 > $refuse_at
say "ok each of $refused allocations of a change refused"
for file in /lab/refused/*; do traffic tell v0 change "$file" > /tmp/told && fail "changed to ${file##*/}"; done
traffic flood v0 50 0x10011 1000
tc -s qdisc show dev v0 | grep -q 'fairlink 1:' && say "ok what was there stays" || fail "what was there is gone"
tc qdisc del dev v0 root
[ "$(cat $allocations)" = 0 ] || fail "left: $(cat $allocations)"
rmmod sch_fairlink || fail rmmod
