//! Examples of every command, which its help and its manual page end with.

use fairlink_terminal::examples::Examples;

/// Examples of each command, subcommands with both names: a command line and its effect.
pub(crate) const EXAMPLES: Examples = &[
    (
        "fairlink",
        &[
            ("fairlink", "Run the demo: real packets in a private network namespace."),
            ("fairlink check scenarios/fig1.toml", "Print the bounds of a link file."),
            ("fairlink sim scenarios/exp2-H.toml", "Simulate the rates of classes."),
        ],
    ),
    (
        "demo",
        &[
            ("fairlink demo --scheduler hls --scheduler kernel-htb", "Run two schedulers one after the other."),
            ("fairlink demo --experiment 1 --simulate", "Run the other experiment in the simulator."),
        ],
    ),
    (
        "check",
        &[
            ("fairlink check scenarios/fig1.toml", "Shares, weights and bounds under the file's scheduler."),
            ("fairlink check scenarios/fig1.toml --scheduler hdrr", "The same under another scheduler."),
            ("fairlink check scenarios/fig1.toml --svg tree.svg", "Draw the tree with its shares."),
            ("fairlink check scenarios/gateway.toml --gateway", "Check the file for a gateway."),
            ("fairlink check big.toml --class office --json", "Print one class of a large file as JSON."),
        ],
    ),
    (
        "init",
        &[
            ("fairlink init", "Ask for interfaces, rates and kind of use."),
            (
                "fairlink init --kind home --in lan0 --out wan0 --down 100mbit --up 20mbit --file home.toml",
                "The same without questions, for a machine between lan0 and wan0: home-down.toml and home-up.toml.",
            ),
            (
                "fairlink init --kind office --egress eth0 --rate 40mbit",
                "Shape the traffic that this machine sends on eth0; print the file.",
            ),
        ],
    ),
    (
        "diff",
        &[
            ("fairlink diff scenarios/simple.toml scenarios/simple-after.toml", "Show the effects of a reload."),
            ("fairlink diff old.toml new.toml --json", "The same as JSON."),
        ],
    ),
    (
        "schema",
        &[
            ("fairlink schema link > link.schema.json", "Completion and validation in a TOML editor."),
            ("fairlink schema scenario > scenario.schema.json", "The same for scenarios."),
            ("fairlink schema documents", "Schema of the documents of --json."),
            ("fairlink schema keys", "The keys of link files, and the schedulers that honour them."),
        ],
    ),
    ("schema link", &[("fairlink schema link > link.schema.json", "Schema for the first line of a link file.")]),
    ("schema scenario", &[("fairlink schema scenario > scenario.schema.json", "The same for scenarios.")]),
    ("schema documents", &[("fairlink schema documents", "Schema of the documents of --json.")]),
    (
        "schema keys",
        &[
            ("fairlink schema keys", "Defaults, and the schedulers that honour each key."),
            ("fairlink schema keys --json", "The same with descriptions."),
        ],
    ),
    ("expand", &[("fairlink expand scenarios/provider.toml", "Expand the subscribers of a table to classes.")]),
    (
        "fluid",
        &[
            ("fairlink fluid scenarios/fig1.toml", "Rates with unlimited demand of all classes."),
            (
                "fairlink fluid scenarios/fig1.toml --demand A1=inf,B2=inf,C=100mbit",
                "Rates with demand of three classes only.",
            ),
        ],
    ),
    (
        "explain",
        &[(
            "fairlink explain scenarios/fig1.toml --demand A1=inf,A2=inf --class A1",
            "Explain the rate of A1, from the link down.",
        )],
    ),
    (
        "sim",
        &[
            ("fairlink sim scenarios/exp2-H.toml", "Simulate under the scheduler of the link file."),
            (
                "fairlink sim scenarios/exp2-H.toml --scheduler hls --scheduler drr --out plots",
                "Two schedulers on the same arrivals, with rates against time as CSV and SVG in plots/.",
            ),
        ],
    ),
    (
        "gateway",
        &[
            (
                "fairlink gateway scenarios/gateway.toml --in eth1 --out eth0",
                "Shape traffic from eth1 to eth0; the other direction is not shaped.",
            ),
            (
                "fairlink gateway scenarios/gateway.toml --in eth1 --out eth0 --drain 1s",
                "The same, and send queued packets for up to a second after Ctrl-C.",
            ),
            (
                "fairlink gateway scenarios/gateway-home.toml --egress eth0",
                "Shape the traffic that this machine sends on eth0, until Ctrl-C.",
            ),
        ],
    ),
    (
        "ctl",
        &[
            ("fairlink ctl stats", "Packets received, sent, dropped and queued, and delays."),
            (
                "fairlink ctl stats --interval 1s",
                "Also the rate of each class in the next second, with its fluid ideal.",
            ),
            ("fairlink ctl watch", "The same every second, drawn in place."),
            ("fairlink ctl watch --count 60 --json", "A line of JSON for each of the next sixty seconds."),
            (
                "fairlink ctl trace t.pcapng",
                "Record packets, with class, queueing delay and drops in comments, until Ctrl-C.",
            ),
            ("fairlink ctl trace t.csv --duration 10s", "The same as a table, for ten seconds."),
        ],
    ),
    (
        "import",
        &[
            (
                "fairlink import libreqos ShapedDevices.csv --network network.json --direction both --out isp",
                "A provider's circuits as tables, a link for each direction, and rates before and after.",
            ),
            (
                "fairlink import tc scenarios/import/eth0.show",
                "Output of: (tc -d qdisc show dev eth0; tc -d class show dev eth0; tc filter show dev eth0) > eth0.show.",
            ),
            (
                "fairlink import tc scenarios/htb/htb.tc > htb.toml",
                "A script of tc commands; the report goes to standard error.",
            ),
            (
                "fairlink import mikrotik scenarios/import/export.rsc --as-is",
                "Simple queues of RouterOS, with HTB's own way of lending.",
            ),
        ],
    ),
    (
        "tc",
        &[
            ("fairlink tc import scenarios/htb/htb.tc --rate 10mbit", "Convert tc commands to a link file."),
            ("fairlink tc export scenarios/simple.toml --dev eth1", "Convert a link file to tc commands."),
        ],
    ),
    (
        "qdisc",
        &[
            ("fairlink qdisc add scenarios/fig1.toml --dev eth0", "Shape the traffic of eth0 in the kernel."),
            ("fairlink qdisc show --dev eth0", "Rate and ideal of each class; packets sent, dropped and queued."),
            ("fairlink qdisc watch --dev eth0", "The same every second, until Ctrl-C."),
            ("fairlink qdisc change new.toml --dev eth0", "Change classes or rates while packets are queued."),
        ],
    ),
    (
        "generate",
        &[
            (
                "fairlink generate --tcp 192.0.2.1:5201 --connections 4 --congestion-control reno",
                "Send over four TCP connections of the kernel.",
            ),
            ("fairlink generate scenarios/exp2-H.toml --out eth1", "Send a scenario as real frames."),
            (
                "fairlink generate scenarios/htb/one-device.script --out eth1",
                "Send a script of the HTB text's generator.",
            ),
        ],
    ),
    (
        "receive",
        &[
            ("fairlink receive --in eth0", "Measure the traffic of a generator, until Ctrl-C."),
            ("fairlink receive --in eth0 --clock realtime", "From another machine: also compare the clocks."),
            ("fairlink receive --tcp 5201", "Receive the connections of `generate --tcp`."),
        ],
    ),
    (
        "schedulers",
        &[
            ("fairlink schedulers", "All schedulers with their features and bounds."),
            ("fairlink schedulers --for latency,ceilings", "Schedulers with these features."),
            ("fairlink schedulers --json", "The same as JSON."),
        ],
    ),
    (
        "completions",
        &[(
            "fairlink completions bash > ~/.local/share/bash-completion/completions/fairlink",
            "Complete the command line in bash.",
        )],
    ),
    (
        "man",
        &[
            ("fairlink man --out man", "Write a page for each command into man/."),
            ("man -l man/fairlink-check.1", "Read one of them."),
        ],
    ),
    ("ctl stats", &[("fairlink ctl stats --interval 1s", "Counters, and the rate of each class in the next second.")]),
    (
        "ctl watch",
        &[
            ("fairlink ctl watch", "Rates and ideals every second, drawn in place."),
            ("fairlink ctl watch --class office --interval 5s", "One class, with its ancestors and descendants."),
        ],
    ),
    (
        "ctl trace",
        &[("fairlink ctl trace t.pcapng --duration 10s --snap 64B", "Ten seconds; the first 64 bytes of each packet.")],
    ),
    (
        "ctl reload",
        &[
            ("fairlink ctl reload home.toml --dry-run", "Show the changes only."),
            ("fairlink ctl reload home.toml", "Apply the file between two packets."),
        ],
    ),
    (
        "ctl rate",
        &[
            ("fairlink ctl rate link 35mbit", "Lower the rate of the link."),
            ("fairlink ctl rate office 20mbit", "Set a guarantee, until the next reload."),
        ],
    ),
    ("ctl scheduler", &[("fairlink ctl scheduler htb", "The same classes under HTB, until the next reload.")]),
    (
        "import libreqos",
        &[(
            "fairlink import libreqos ShapedDevices.csv --network network.json --direction both --out isp",
            "A link for each direction, and tables of circuits, into isp/.",
        )],
    ),
    (
        "import tc",
        &[
            ("fairlink import tc scenarios/import/eth0.show", "Output of `tc -d` of a running system."),
            ("fairlink import tc scenarios/htb/htb.tc --rate 10mbit > htb.toml", "A script of tc commands."),
            (
                "fairlink import tc --run shape.sh --set IF=eth0 -- 8000",
                "The commands of a shell script, recorded in a sandbox.",
            ),
        ],
    ),
    (
        "import mikrotik",
        &[("fairlink import mikrotik scenarios/import/export.rsc", "Output of `/export` of RouterOS.")],
    ),
    (
        "import k8s",
        &[(
            "fairlink import k8s scenarios/import/pods.json --rate 1gbit",
            "Traffic to the pods of `kubectl get pods -A -o json`.",
        )],
    ),
    (
        "import libvirt",
        &[(
            "fairlink import libvirt scenarios/import/machine.xml scenarios/import/network.xml",
            "Output of `virsh dumpxml` and `virsh net-dumpxml`.",
        )],
    ),
    ("import pf", &[("fairlink import pf scenarios/import/pf.conf", "pf.conf with ALTQ; hfsc keeps its curves.")]),
    ("tc import", &[("fairlink tc import scenarios/htb/htb.tc --rate 10mbit", "Convert tc commands to a link file.")]),
    ("tc export", &[("fairlink tc export scenarios/simple.toml --dev eth1", "Convert a link file to tc commands.")]),
    (
        "qdisc add",
        &[(
            "fairlink qdisc add scenarios/fig1.toml --dev eth0",
            "Shape the traffic of eth0, with filters for the file's matches.",
        )],
    ),
    (
        "qdisc change",
        &[("fairlink qdisc change new.toml --dev eth0", "Change classes or rates while packets are queued.")],
    ),
    (
        "qdisc show",
        &[("fairlink qdisc show --dev eth0 --interval 1s", "Counters, and the rate of each class in the next second.")],
    ),
    ("qdisc watch", &[("fairlink qdisc watch --dev eth0", "The same every second, until Ctrl-C.")]),
    ("qdisc del", &[("fairlink qdisc del --dev eth0", "Restore the default queueing discipline of eth0.")]),
];
