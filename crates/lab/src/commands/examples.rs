//! Examples of every command, which its help and its manual page end with.

use fairlink_terminal::examples::Examples;

/// Examples of each command, subcommands with both names: a command line and its effect.
pub(crate) const EXAMPLES: Examples = &[
    (
        "fairlink-lab",
        &[
            ("fairlink-lab reproduce --quick", "Try all claims of the five papers with few runs."),
            ("fairlink-lab bench", "Cost per packet of each scheduler on this machine."),
        ],
    ),
    (
        "reproduce",
        &[
            ("fairlink-lab reproduce --quick", "Try all claims with few runs."),
            (
                "fairlink-lab reproduce hls --out report",
                "Claims of one paper, with a page of plots: report/index.html.",
            ),
            ("fairlink-lab reproduce drrpp.fig51", "One claim, with all quantities and commands to repeat it."),
        ],
    ),
    (
        "traffic",
        &[
            (
                "fairlink-lab traffic scenarios/thesis/mpeg.toml --runs 5 --rho 102%",
                "Rates and burstiness of the sources alone.",
            ),
            (
                "fairlink-lab traffic scenarios/thesis/exponential.toml --rho 100%,110%,135%,200%",
                "Burstiness as a function of the drain rate.",
            ),
        ],
    ),
    (
        "clock",
        &[
            (
                "fairlink-lab clock stamps.csv --make --jump 200s:5ms --jump 350s:-3ms --out plots",
                "Simulate two clocks and estimate their skew, drift and jumps.",
            ),
            (
                "fairlink-lab clock measured.csv --reference receive",
                "Use the receiver's clock as reference, if the sender's was set back.",
            ),
        ],
    ),
    (
        "between",
        &[
            (
                "fairlink-lab between before.pcapng after.pcapng --link scenarios/gateway.toml",
                "Delay, loss and order of each class, from recordings with one clock.",
            ),
            (
                "fairlink-lab between before.pcap after.pcap --offset -12ms --out stamps",
                "The second clock is 12 ms behind; stamps/stamps.csv is for `fairlink-lab clock`.",
            ),
        ],
    ),
    (
        "bench",
        &[
            ("fairlink-lab bench", "Cost per packet of each scheduler on this machine."),
            ("fairlink-lab bench --gateway", "The gateway beside the kernel's bridge and HTB on this machine."),
        ],
    ),
    (
        "campaign",
        &[
            (
                "fairlink-lab campaign scenarios/office.toml --sweep seed=1..5..1 --runs 100 --out campaign",
                "500 runs in all, as CSV files. The same command goes on after an interruption.",
            ),
            (
                "fairlink-lab campaign scenarios/office.toml --out campaign --shard 1/2 --format parquet",
                "Half of the runs; another process or machine makes the share 2/2 in the same directory.",
            ),
        ],
    ),
    (
        "pdf",
        &[("fairlink-lab pdf plots/hls.svg", "Convert a figure that `fairlink sim --out plots` wrote: plots/hls.pdf.")],
    ),
    ("schema", &[("fairlink-lab schema documents", "Schema of the documents of --json.")]),
    ("schema documents", &[("fairlink-lab schema documents", "Schema of the documents of --json.")]),
    ("completions", &[("source <(fairlink-lab completions bash)", "Complete in this shell.")]),
    ("man", &[("fairlink-lab man --out man", "Write a manual page for each command.")]),
];
