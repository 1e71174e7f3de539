# What the tests are given: configurations of link files as the kernel takes them, and what the simulator says.
# Sourced by kernel/lab/boot.sh; uses $fairlink and $cache.

# The tree of the HLS paper's Section VIII: A with A1 and A2, B with B1 and B2, C, in parts of 1000 of the link.
# hls_tree SCHEDULER PARTS_1 PARTS_2 [KBIT/S]
hls_tree() {
    local class parent parts classid rate=${4:-20000}
    printf '[link]\nrate = "%dkbit"\nscheduler = "%s"\ndefault = "C"\nbuffer = "2000p"\n' "$rate" "$1"
    while read -r class parent parts classid; do
        printf '[[class]]\nname = "%s"\nclassid = "1:%s"\n' "$class" "$classid"
        case $class in A | B) ;; *) [ -z "${QUEUE-50p}" ] || printf 'buffer = "%s"\n' "${QUEUE-50p}" ;; esac
        [ "$parent" = - ] || printf 'parent = "%s"\n' "$parent"
        printf 'guarantee = "%dbit"\n' $((rate * parts))
    done <<TREE
A - 300 1
A1 A $2 11
A2 A $3 12
B - 300 2
B1 B $2 21
B2 B $3 22
C - 400 3
TREE
}

make_files() {
    local out=$cache/build/files letter scheduler
    for scheduler in hls htb hfsc hpfq hdrr; do
        hls_tree $scheduler 140 160 > "$out/$scheduler-L.toml"
        hls_tree $scheduler 100 200 > "$out/$scheduler-M.toml"
        hls_tree $scheduler 60 240 > "$out/$scheduler-H.toml"
        for letter in L M H; do
            "$fairlink" qdisc add "$out/$scheduler-$letter.toml" --out "$out/$scheduler-$letter" ||
                rm -f "$out/$scheduler-$letter"
        done
    done
}

make_files

# Numbers as the configuration has them: little-endian, of so many bytes.
little() {
    local value=$1 bytes=$2 text=''
    while [ "$bytes" -gt 0 ]; do
        text+=$(printf '\\x%02x' $((value & 255)))
        value=$((value >> 8)) bytes=$((bytes - 1))
    done
    printf '%b' "$text"
}

# What the kernel has to refuse.
make_refused() {
    local out=$cache/build/files/refused sound=$cache/build/files/hls-H size len class
    mkdir -p "$out"
    size=$(stat -c %s "$sound")
    : > "$out/empty"
    for len in 1 15 16 17 40 80 $((size / 2)) $((size - 1)); do head -c "$len" "$sound" > "$out/cut-to-$len"; done
    { cat "$sound"; printf '\0'; } > "$out/longer"
    { printf 'X'; tail -c +2 "$sound"; } > "$out/magic"
    { head -c 4 "$sound"; little 2 2; tail -c +7 "$sound"; } > "$out/version"
    { head -c 8 "$sound"; little 4294967295 4; tail -c +13 "$sound"; } > "$out/classes"
    { head -c 19 "$sound"; printf 'xyz'; tail -c +23 "$sound"; } > "$out/scheduler"
    { head -c 22 "$sound"; little 0 8; tail -c +31 "$sound"; } > "$out/no-rate"
    { head -c 34 "$sound"; little 4294967295 4; tail -c +39 "$sound"; } > "$out/endless-buffer"
    head -c 60000 "$cache/build/traffic" > "$out/a-program"
    # A class below a class, 65 levels deep.
    {
        printf 'FLNK'; little 1 2; little 0 2; little 65 4
        link=$(($(od -An -tu2 -j16 -N2 "$sound") + 2))
        little $((16 + link + 65 * 13)) 4
        # Without the default class, which is in the last 20 bytes of the record.
        tail -c +17 "$sound" | head -c $((link - 20)); little 0 4
        tail -c +17 "$sound" | head -c $link | tail -c 16
        for class in $(seq 65); do little 11 2; little $((class - 1)) 4; little "$class" 2; little 0 1; little 0 4; done
    } > "$out/too-deep"
}

# 300 packets of five classes, and the order in which the simulator sends them. The link is so slow that all have arrived before the
# second one leaves.
make_order() {
    local dir=$cache/build/files/order scheduler seed=7 number class classid bytes
    mkdir -p "$dir"
    : > "$dir/packets"
    echo "packet,class,arrival_s,start_s,departure_s,bytes,accounted_bytes,queueing_delay_s,dropped_s,dropped" > "$dir/arrivals.csv"
    for number in $(seq 0 299); do
        seed=$(((seed * 1103515245 + 12345) & 0x7fffffff))
        case $(((seed >> 16) % 5)) in 0) class=A1 classid=11 ;; 1) class=A2 classid=12 ;; 2) class=B1 classid=21 ;; 3) class=B2 classid=22 ;; *) class=C classid=3 ;; esac
        seed=$(((seed * 1103515245 + 12345) & 0x7fffffff))
        bytes=$((64 + (seed >> 16) % 1400))
        [ "$number" = 0 ] && bytes=1500
        printf '0x100%02d %d\n' "$classid" "$bytes" | sed 's/0x1003 /0x10003 /' >> "$dir/packets"
        printf '%d,%s,0.%09d,,,%d,%d,,,\n' $((number + 1)) $class $((number * 1000)) "$bytes" "$bytes" >> "$dir/arrivals.csv"
    done
    for scheduler in hls hdrr hpfq htb hfsc; do
        QUEUE= hls_tree $scheduler 100 200 200 > "$dir/$scheduler.toml"
        {
            echo 'duration = "30s"'
            cat "$dir/$scheduler.toml"
            for class in A1 A2 B1 B2 C; do
                printf '[[source]]\nclass = "%s"\nmodel = "trace"\nfile = "arrivals.csv"\nof_class = "%s"\n' $class $class
            done
        } > "$dir/$scheduler-scenario.toml"
        "$fairlink" qdisc add "$dir/$scheduler.toml" --out "$dir/$scheduler" || { rm -f "$dir/$scheduler"; continue; }
        "$fairlink" sim "$dir/$scheduler-scenario.toml" --trace "$dir/$scheduler.csv" >/dev/null
        # In the order of departure: the numbers of the packets, from 0.
        tail -n +2 "$dir/$scheduler.csv" | sort -t, -k4,4g | awk -F, '{ printf "ORDER %d\n", $3 * 1e6 + 0.5 }' > "$dir/$scheduler.order"
    done
}

make_refused
make_order

# The same tree on 1 Tbit/s, which no packet waits for.
make_fast() {
    local out=$cache/build/files/fast scheduler
    mkdir -p "$out"
    for scheduler in hls htb hpfq hdrr hfsc; do
        hls_tree $scheduler 60 240 1000000000 > "$out/$scheduler.toml"
        "$fairlink" qdisc add "$out/$scheduler.toml" --out "$out/$scheduler"
    done
}
make_fast

# Two classes on 40 Mbit/s; the second for packets of no filter.
make_tcp() {
    local out=$cache/build/files
    printf '[link]\nrate = "40mbit"\nmtu = "1514B"\ndefault = "rest"\n[[class]]\nname = "one"\nguarantee = "30mbit"\nbuffer = "100p"\n[[class]]\nname = "rest"\nguarantee = "10mbit"\nbuffer = "100p"\n' > "$out/tcp.toml"
    printf '[link]\nrate = "50mbit"\nmtu = "1514B"\nscheduler = "htb"\ndefault = "rest"\n[[class]]\nname = "new"\nguarantee = "10mbit"\n[[class]]\nname = "rest"\nguarantee = "10mbit"\n[[class]]\nname = "one"\nguarantee = "30mbit"\n' > "$out/tcp-other.toml"
}
make_tcp

# Matches of every kind with frames for them, and the same with one match moved to another class.
make_filters() {
    local out=$cache/build/files/filters
    mkdir -p "$out"
    cp "$root/kernel/lab/filters/link.toml" "$out/"
    sed 's/"ethertype 0x88b5", //; s/^match = \["src net/match = ["ethertype 0x88b5", "src net/' "$out/link.toml" > "$out/moved.toml"
    grep -v '^#' "$root/kernel/lab/filters/frames" > "$out/frames"
}
make_filters

# As many leaves as tc has numbers for, less three classes that hold them, and five thousand.
# subscribers NAME LEAVES
subscribers() {
    local out=$cache/build/files/many
    mkdir -p "$out"
    {
        printf '[link]\nrate = "10gbit"\nbuffer = "1000p"\n'
        for part in a b c; do printf '[[class]]\nname = "%s"\n' $part; done
        printf '[[classes]]\nfrom = "%s.csv"\nbuffer = "100p"\n' "$1"
    } > "$out/$1.toml"
    { echo name,parent; awk -v leaves="$2" 'BEGIN { for (i = 1; i <= leaves; i++) printf "s%d,%s\n", i, substr("abc", 1 + i % 3, 1) }'; } > "$out/$1.csv"
    "$fairlink" qdisc add "$out/$1.toml" --out "$out/$1"
}
subscribers most 65531
subscribers other 65531
subscribers some 5000
sed -i 's/"10gbit"/"5gbit"/' "$cache/build/files/many/other.toml"
"$fairlink" qdisc add "$cache/build/files/many/other.toml" --out "$cache/build/files/many/other"
rm "$cache"/build/files/many/{most,other}.{toml,csv}
