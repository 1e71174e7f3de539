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
    for scheduler in hls hvt htb hfsc hpfq hdrr; do
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

# in_order SCHEDULER DIR: DIR/SCHEDULER as the kernel takes it, and DIR/SCHEDULER.order with the numbers of the packets, from 0, in which the
# simulator sends those of DIR/SCHEDULER-scenario.toml.
in_order() {
    "$fairlink" qdisc add "$2/$1.toml" --out "$2/$1" || { rm -f "$2/$1"; return; }
    "$fairlink" sim "$2/$1-scenario.toml" --trace "$2/$1.csv" >/dev/null
    tail -n +2 "$2/$1.csv" | sort -t, -k4,4g | awk -F, '{ printf "ORDER %d\n", $3 * 1e6 + 0.5 }' > "$2/$1.order"
}

# drawn: a number from 0 to 32767, of a sequence that is the same each time.
drawn() { seed=$(((seed * 1103515245 + 12345) & 0x7fffffff)); number=$((seed >> 16)); }

# What the simulator reads arrivals from.
arrivals_head="packet,class,arrival_s,start_s,departure_s,bytes,accounted_bytes,queueing_delay_s,dropped_s,dropped"
# arrives NUMBER SOURCE BYTES: a line of it.
arrives() { printf '%d,%s,0.%09d,,,%d,%d,,,\n' $(($1 + 1)) "$2" $(($1 * 1000)) "$3" "$3"; }

# 300 packets of five classes, and the order in which the simulator sends them. The link is so slow that all have arrived before the
# second one leaves.
make_order() {
    local dir=$cache/build/files/order scheduler seed=7 at number class classid bytes
    mkdir -p "$dir"
    : > "$dir/packets"
    echo "$arrivals_head" > "$dir/arrivals.csv"
    for at in $(seq 0 299); do
        drawn
        case $((number % 5)) in 0) class=A1 classid=11 ;; 1) class=A2 classid=12 ;; 2) class=B1 classid=21 ;; 3) class=B2 classid=22 ;; *) class=C classid=03 ;; esac
        drawn
        bytes=$((64 + number % 1400))
        [ "$at" = 0 ] && bytes=1500
        echo "0x100$classid $bytes -" >> "$dir/packets"
        arrives "$at" $class "$bytes" >> "$dir/arrivals.csv"
    done
    for scheduler in hls hvt hdrr hpfq htb hfsc; do
        QUEUE=1000p hls_tree $scheduler 100 200 200 > "$dir/$scheduler.toml"
        {
            echo 'duration = "30s"'
            cat "$dir/$scheduler.toml"
            for class in A1 A2 B1 B2 C; do
                printf '[[source]]\nclass = "%s"\nmodel = "trace"\nfile = "arrivals.csv"\nof_class = "%s"\n' $class $class
            done
        } > "$dir/$scheduler-scenario.toml"
        in_order $scheduler "$dir"
    done
}

# The same of hosts that share classes, by addresses of each kind, with tags and without. A host is a source of the simulator.
make_hosts() {
    local dir=$cache/build/files/hosts scheduler seed=11 at number class classid host bytes tag head per
    mkdir -p "$dir"
    : > "$dir/packets"
    echo "$arrivals_head" > "$dir/arrivals.csv"
    for at in $(seq 0 299); do
        drawn
        case $((number % 5)) in 0) class=senders classid=1 ;; 1) class=receivers classid=2 ;; 2) class=stations classid=3 ;; 3) class=ports classid=4 ;; *) class=rest classid=5 ;; esac
        drawn
        # The first host of a class sends half of what it gets.
        host=$((number % 8 < 4 ? 0 : number % 4))
        drawn
        bytes=$((100 + number % 1400))
        [ "$at" = 0 ] && bytes=1500
        drawn
        tag=$([ $((number % 2)) = 0 ] || printf '8100%04x' $((number % 4000)))
        # Both addresses of a kind of its own, of which one is the host's; the ports are anything.
        case $class in
            stations) head=$(printf '02000000%04x0200000000%02x%s88b5' $((number % 999)) $host "$tag") ;;
            ports) head=$(printf '0200000000%02x02000000%04x%s88b5' $host $((number % 999)) "$tag") ;;
            *)
                if [ $host = 3 ]; then
                    head=$(printf '0200000000aa0200000000bb%s86dd600000000000%02x40' "$tag" 17)
                    case $class in
                        receivers) head+=$(printf '20010db8%020x%04x20010db8%020x%04x' 0 $((number % 999)) 0 3) ;;
                        *) head+=$(printf '20010db8%020x%04x20010db8%020x%04x' 0 3 0 $((number % 999))) ;;
                    esac
                else
                    head=$(printf '0200000000aa0200000000bb%s08004500%04x0000000040110000' "$tag" 400)
                    case $class in
                        receivers) head+=$(printf '0a01%04x0a0000%02x' $((number % 999)) $host) ;;
                        *) head+=$(printf '0a0000%02x0a01%04x' $host $((number % 999))) ;;
                    esac
                fi
                head+=$(printf '%04x%04x' $((number % 5000)) $((number % 3000)))
                ;;
        esac
        echo "0x1000$classid $bytes $head" >> "$dir/packets"
        arrives "$at" $class-$host "$bytes" >> "$dir/arrivals.csv"
    done
    for scheduler in hls htb hfsc drr; do
        {
            printf '[link]\nrate = "200kbit"\nscheduler = "%s"\nbuffer = "2000p"\ndefault = "rest"\n' $scheduler
            classid=0
            for class in senders=src-ip receivers=dst-ip stations=src-mac ports=dst-mac rest; do
                classid=$((classid + 1)) per=${class#*=}
                printf '[[class]]\nname = "%s"\nclassid = "1:%d"\nguarantee = "40kbit"\nbuffer = "1000p"\n' "${class%=*}" $classid
                [ "$per" = rest ] || printf 'per = "%s"\nhosts = 64\n' "$per"
            done
        } > "$dir/$scheduler.toml"
        {
            echo 'duration = "30s"'
            cat "$dir/$scheduler.toml"
            for class in senders receivers stations ports rest; do
                for host in 0 1 2 3; do
                    printf '[[source]]\nclass = "%s"\nmodel = "trace"\nfile = "arrivals.csv"\nof_class = "%s"\n' $class $class-$host
                done
            done
        } > "$dir/$scheduler-scenario.toml"
        in_order $scheduler "$dir"
    done
}

make_refused
make_order
make_hosts

# The same tree on 1 Tbit/s, which no packet waits for.
make_fast() {
    local out=$cache/build/files/fast scheduler
    mkdir -p "$out"
    for scheduler in hls hvt htb hpfq hdrr hfsc; do
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

# Below other queueing disciplines, which are what limits: `hls` first, another scheduler with the same classes, and without the class 1:11.
make_parents() {
    local out=$cache/build/files/parents name class classid
    mkdir -p "$out"
    for name in hls htb less; do
        {
            printf '[link]\nrate = "1000gbit"\nscheduler = "%s"\ndefault = "C"\nbuffer = "2000p"\n' "${name/less/hls}"
            for class in A1=11=1000p A2=12=20p C=3=1000p; do
                classid=${class#*=}
                [ "$name" = less ] && [ "$classid" = 11=1000p ] && continue
                printf '[[class]]\nname = "%s"\nclassid = "1:%s"\nguarantee = "100gbit"\nbuffer = "%s"\n' "${class%%=*}" "${classid%=*}" "${classid#*=}"
            done
        } > "$out/$name.toml"
        "$fairlink" qdisc add "$out/$name.toml" --out "$out/$name"
    done
}
make_parents

# A buffer of 500 packets, and one of 1,500,000.
make_memory() {
    local out=$cache/build/files/memory name
    mkdir -p "$out"
    for name in small=500 large=1500000; do
        printf '[link]\nrate = "20mbit"\ndefault = "A"\nbuffer = "%sp"\n[[class]]\nname = "A"\nclassid = "1:1"\nbuffer = "%sp"\n' "${name#*=}" "${name#*=}" > "$out/memory.toml"
        "$fairlink" qdisc add "$out/memory.toml" --out "$out/${name%=*}"
    done
    rm "$out/memory.toml"
}
make_memory

# Subscribers with an IPv4 address and an IPv6 prefix each.
make_subscribers() {
    local out=$cache/build/files/subscribers count
    mkdir -p "$out"
    for count in 2000 10000; do
        awk -v count=$count 'BEGIN {
            print "[link]\nrate = \"1000gbit\"\nbuffer = \"1000p\""
            for (i = 1; i <= count; i++) {
                printf "[[class]]\nname = \"s%d\"\nclassid = \"1:%x\"\nbuffer = \"10p\"\n", i, i
                printf "match = [\"dst host 10.%d.%d.%d\", \"dst net 2001:db8:%x:%x00::/56\"]\n", i / 65536, i / 256 % 256, i % 256, i / 256, i % 256
            }
        }' > "$out/$count.toml"
    done
}
make_subscribers

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
