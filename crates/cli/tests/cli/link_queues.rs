//! The keys of `[link]` for queues around a scheduler: `transmit_queue`, `transmit_priority` and `when_full`, from a
//! file.

use serde_json::Value;

use crate::{Run, Scratch, fairlink};

/// Two classes of equal weight on 1 Mbit/s, on which 500 B take 4 ms: `a` sends less than its share, `b` five times the
/// link.
fn scenario(dir: &Scratch, link: &str, class: &str) -> String {
    let source = |class: &str, model: &str, rate: &str| {
        format!("[[source]]\nclass = \"{class}\"\nmodel = \"{model}\"\nrate = \"{rate}\"\npacket = \"500B\"\n")
    };
    let classes = format!(
        "[[class]]\nname = \"a\"\nguarantee = \"500kbit\"\n{class}\n[[class]]\nname = \"b\"\nguarantee = \"500kbit\"\n"
    );
    let sources = source("a", "cbr", "400kbit") + &source("b", "saturating", "5mbit");
    dir.write("s.toml", &format!("duration = \"2s\"\n[link]\nrate = \"1mbit\"\n{link}\n{classes}{sources}"))
}

fn sim(link: &str, class: &str, more: &[&str]) -> Run {
    let dir = Scratch::new();
    let file = scenario(&dir, link, class);
    fairlink(&[&["sim", &file, "--json"], more].concat())
}

/// The first run.
fn a_run(run: &Run) -> Value {
    assert_eq!(run.code, 0, "{}", run.stderr);
    run.json()["runs"][0].clone()
}

/// Class `a` of it.
fn a(run: &Run) -> Value {
    a_run(run)["link"]["classes"][0].clone()
}

fn mean(class: &Value) -> f64 {
    class["delay_s"]["mean"].as_f64().expect("a number")
}

#[test]
fn a_packet_behind_a_transmit_queue_of_n_waits_for_n_more_under_any_scheduler() {
    for scheduler in ["wrr", "drr", "hls", "htb", "cbq-formal", "wf2q+", "hfsc", "fq-ldf"] {
        let [bare, with] = ["", "transmit_queue = \"8p\""].map(|link| a(&sim(link, "", &["--scheduler", scheduler])));
        // Eight packets of 4 ms. The scheduler decides the same at most a round earlier or later.
        let added = mean(&with) - mean(&bare);
        assert!((added - 0.032).abs() < 0.003, "{scheduler}: {added}");
    }
}

#[test]
fn latency_critical_packets_pass_a_transmit_queue_with_priority_and_nobody_else_does() {
    let (critical, args) = ("latency_critical = true", &["--scheduler", "drr++"][..]);
    let plain = "transmit_queue = \"8p\"\n";
    let first = "transmit_queue = \"8p\"\ntransmit_priority = true\n";
    let [bare, behind, ahead] = ["", plain, first].map(|link| mean(&a(&sim(link, critical, args))));
    // It waits for the packet under way, and not for the seven others.
    assert!(behind > bare + 0.025 && ahead < bare + 0.005, "{bare} {behind} {ahead}");
    let run = sim(first, "", args);
    let warning = "\"transmit_priority\" sends latency-critical classes first, and no class is latency_critical";
    assert!(run.stderr.contains(&warning[..60]) && run.stderr.contains("s.toml:5:"), "{}", run.stderr);
    assert_eq!(mean(&a(&run)), mean(&a(&sim(plain, "", args))), "without such a class it makes no difference");
    assert_eq!(sim(first, critical, args).stderr, "");
}

#[test]
fn push_out_keeps_a_class_that_floods_from_taking_the_buffer_of_others() {
    for scheduler in ["drr", "hls", "htb", "cbq-formal", "scfq", "wf2q+", "hfsc"] {
        let lost = |when_full: &str| {
            let run = sim(&format!("buffer = \"20p\"\n{when_full}"), "", &["--scheduler", scheduler]);
            a(&run)["counts"]["dropped"]["packets"].as_u64().expect("a number")
        };
        // `a` has 200 packets.
        let [absent, arrival, push_out] = ["", "when_full = \"drop_arrival\"", "when_full = \"push_out\""].map(lost);
        assert_eq!((absent, push_out), (arrival, 0), "{scheduler}");
        assert!(arrival > 180, "{scheduler}: {arrival}");
    }
}

#[test]
fn long_rounds_change_the_order_of_hls_and_not_what_classes_get_and_others_refuse_them() {
    let [short, long] = ["", "rounds = \"long\""].map(|rounds| a(&sim(rounds, "", &["--scheduler", "hls"])));
    // `a` asks for 400 kbit/s of its 500, and gets it either way.
    for run in [&short, &long] {
        assert_eq!(run["counts"]["dropped"]["packets"], 0, "{run}");
    }
    assert_ne!(mean(&short), mean(&long), "delays are those of other rounds");
    let run = sim("rounds = \"long\"", "", &["--scheduler", "drr"]);
    assert_eq!(run.code, 2);
    assert!(run.stderr.contains("rounds = \"long\"") && run.stderr.contains("s.toml:4:1"), "{}", run.stderr);
    let run = sim("rounds = \"endless\"", "", &[]);
    assert!(run.code == 2 && run.stderr.contains("endless") && run.stderr.contains("short"), "{}", run.stderr);
}

#[test]
fn schedulers_without_push_out_refuse_it_with_those_that_have_it() {
    for scheduler in ["fifo", "wfq", "virtual-clock", "rcsp", "fq-ldf", "fq-lto", "fq-lto-lb"] {
        let push_out = "buffer = \"20p\"\nwhen_full = \"push_out\"";
        let run = sim(push_out, "", &["--scheduler", scheduler]);
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{scheduler}");
        let says = format!("sets when_full = \"push_out\", which {scheduler} does not support");
        let words = |text: &str| text.split_whitespace().filter(|word| *word != "│").collect::<Vec<_>>().join(" ");
        assert!(words(&run.stderr).contains(&says), "{}", run.stderr);
        assert!(run.stderr.contains("s.toml:5:1"), "the line that asks for it: {}", run.stderr);
        assert!(run.stderr.contains("supported by: wrr") && run.stderr.contains("--lenient"), "{}", run.stderr);
        // Ignored where that is asked for, and where several are compared.
        let lenient = sim(push_out, "", &["--scheduler", scheduler, "--lenient"]);
        let notes = a_run(&lenient)["link"]["notes"].to_string();
        assert!(notes.contains(&format!("{scheduler} ignores")) && notes.contains("push_out"), "{notes}");
        let dropped = &a(&lenient)["counts"]["dropped"]["packets"];
        assert_eq!(
            *dropped,
            a(&sim("buffer = \"20p\"", "", &["--scheduler", scheduler]))["counts"]["dropped"]["packets"]
        );
    }
    let both = sim("buffer = \"20p\"\nwhen_full = \"push_out\"", "", &["--scheduler", "fifo", "--scheduler", "drr"]);
    assert_eq!(both.code, 0, "{}", both.stderr);
}

#[test]
fn values_that_cannot_be_are_refused_with_place_value_limit_and_what_to_do() {
    let four = |more: &str| format!("transmit_queue = \"4p\"\n{more}");
    for (link, class, says) in [
        ("transmit_queue = \"0p\"", "", &["s.toml:4:18", "0p is zero", "write at least 1p"][..]),
        ("transmit_queue = \"65537p\"", "", &["s.toml:4:18", "65537p is outside 1p .. 65536p"]),
        ("transmit_queue = 4", "", &["s.toml:4:18", "4 has no unit", "write \"4p\""]),
        ("transmit_queue = \"4.5p\"", "", &["s.toml:4:18", "not a whole number"]),
        ("transmit_queue = \"-4p\"", "", &["s.toml:4:18", "-4p"]),
        ("transmit_queue = \"4ms\"", "", &["s.toml:4:18", "number of packets", "with the unit p"]),
        ("transmit_queue = \"6000B\"", "", &["s.toml:4:18", "with the unit p"]),
        ("transmit_queue = true", "", &["s.toml:4:18", "a number of packets such as"]),
        ("transmit_priority = true", "", &["s.toml:4:21", "there is none", "set transmit_queue"]),
        (&four("transmit_priority = \"yes\""), "", &["s.toml:5:21", "must be true or false"]),
        (&four("transmit_priority = 1"), "", &["s.toml:5:21", "must be true or false"]),
        ("when_full = \"push\"", "", &["s.toml:4:13", "there is no when_full \"push\"", "drop_arrival, push_out"]),
        ("when_full = 3", "", &["s.toml:4:13", "must be a word in quotes"]),
        ("when_ful = \"push_out\"", "", &["s.toml:4:1", "when_full"]),
        ("when_full = \"push_out\"", "queue = \"codel\"", &["s.toml:6:8", "is an AQM", "remove one"]),
        ("when_full = \"push_out\"", "queue = \"fq_codel\"", &["s.toml:6:8", "is an AQM", "remove one"]),
        ("", "transmit_queue = \"4p\"", &["s.toml:8:1", "transmit_queue"]),
    ] {
        let run = sim(link, class, &["--scheduler", "drr"]);
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{link} {class}: {}", run.stderr);
        for part in says {
            assert!(run.stderr.contains(part), "{link} {class}: {part}: {}", run.stderr);
        }
    }
    // The limits themselves are taken.
    for link in ["transmit_queue = \"1p\"", "transmit_queue = \"65536p\""] {
        assert_eq!(sim(link, "", &["--scheduler", "drr"]).code, 0, "{link}");
    }
}
