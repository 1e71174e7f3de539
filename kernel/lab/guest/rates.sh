# needs fairlink
# Rates, ideals and what is borrowed: those of tc, those of the kernel's averages and those of an interval, while A1 and B2 have the link of
# 20 Mbit/s to themselves. B2 asks for 8, which it gets, and A1 gets 12; guaranteed are 4 and 2.
cable
load sch_fairlink
fairlink qdisc add /lab/hls-M.toml --dev v0 || fail add
traffic rates v0 v1 16000 16000 A1:0x10011:1000:20000000:0-16000 B2:0x10022:1000:8000000:0-16000 > /tmp/out &
process=$!
sleep 11
tc -s class show dev v0 > /tmp/classes
fairlink qdisc show --dev v0 --json > /tmp/averages
fairlink qdisc show --dev v0 --interval 2s --json > /tmp/interval
fairlink qdisc show --dev v0 > /tmp/table
fairlink qdisc watch --dev v0 --interval 500ms --count 2 --json > /tmp/watched
wait $process
cat /tmp/table
# field FILE CLASS NAME: of a class of a JSON document of ours, in Mbit/s.
field() { tr -d ' ,"' < $1 | awk -F: -v name=$2 -v field=$3 '$1 == "name" { at = $2 } $1 == field && at == name { print $2 / 1e6 }'; }
for file in averages interval; do
    near "$file: A1 mbit/s" "$(field /tmp/$file A1 rate_bps)" 12 5
    near "$file: B2 mbit/s" "$(field /tmp/$file B2 rate_bps)" 8 5
    near "$file: ideal of A1" "$(field /tmp/$file A1 ideal_bps)" 12 5
    near "$file: ideal of B2" "$(field /tmp/$file B2 ideal_bps)" 8 5
    near "$file: B, which has B2 alone" "$(field /tmp/$file B rate_bps)" 8 5
done
near "A1 by tc" "$(awk '$3 == "1:11" { getline; getline; print ($2 ~ /Kbit/) ? $2 / 1000 : $2 + 0 }' /tmp/classes)" 12 5
# Of some 11 seconds at 12 and 8 Mbit/s all but 2 and 4 are borrowed.
ratio=$(echo "$(field /tmp/averages A1 borrowed_bytes) $(field /tmp/averages B2 borrowed_bytes)" | awk '{ print $1 / $2 }')
near "borrowed by A1 to B2" "$ratio" 2.5 8
near "borrowed by A1 in MB" "$(field /tmp/averages A1 borrowed_bytes)" 13 15
[ "$(field /tmp/averages A2 borrowed_bytes)" = 0 ] && say "ok A2 borrowed nothing" || fail "A2 borrowed"
[ "$(wc -l < /tmp/watched)" = 2 ] && say "ok watched twice" || fail "watched $(wc -l < /tmp/watched) times"
fairlink qdisc del --dev v0 || fail del
rmmod sch_fairlink || fail rmmod
dmesg | grep -E "BUG|WARN|Oops|Call Trace" && fail "the kernel complains"
