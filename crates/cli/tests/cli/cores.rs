//! Links that several cores share.

use crate::{Scratch, fairlink};

/// Two greedy classes of weights 1 and 3 on two cores, with more lines in `[link]`.
fn two(dir: &Scratch, more: &str) -> String {
    let text = format!(
        "duration = \"1s\"\nwarmup = \"100ms\"\n[link]\nrate = \"1gbit\"\nmtu = \"1500B\"\n{more}\n\
         [[class]]\nname = \"a\"\nweight = 1\n[[class]]\nname = \"b\"\nweight = 3\n\
         [[source]]\nclass = \"a\"\nmodel = \"greedy\"\npacket = \"1500B\"\n\
         [[source]]\nclass = \"b\"\nmodel = \"greedy\"\npacket = \"1500B\"\n"
    );
    dir.write("two.toml", &text)
}

#[test]
fn sim_compares_ways_to_share_a_link_and_says_what_goes_to_the_wrong_leaf() {
    let dir = Scratch::new();
    let file = two(&dir, "cores = 2");
    let splits = ["--split", "one", "--split", "hub", "--split", "shared", "--split", "equal"];
    let out = dir.path("out");
    let json = fairlink(&[&["sim", &file, "--json", "--out", &out][..], &splits].concat()).json();
    let runs = json["runs"].as_array().expect("runs");
    let found: Vec<(String, f64)> = runs
        .iter()
        .map(|run| {
            let mean = run["misplaced"]["windows"][1]["mean"].as_f64().expect("windows of 10 ms");
            (run["link"]["scheduler"].as_str().expect("a name").to_owned(), mean)
        })
        .collect();
    let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["hls", "hls-hub", "shared", "hls-equal"]);
    // Half to each, where a quarter and three quarters are fair.
    assert!(found[..3].iter().all(|(_, mean)| *mean < 0.01) && (found[3].1 - 0.25).abs() < 0.001, "{found:?}");
    for name in ["misplaced.svg", "misplaced.csv", "hls-equal.csv", "schedulers.svg"] {
        assert!(std::path::Path::new(&out).join(name).exists(), "{name}");
    }
    let text = fairlink(&["sim", &file]).quiet().stdout;
    assert!(text.contains("hls-hub, seed 1") && text.contains("Traffic of the wrong leaves"), "{text}");
    // One core is measured on request.
    let text = fairlink(&["sim", &file, "--cores", "1", "--split", "one"]).quiet().stdout;
    assert!(!text.contains("wrong leaves"), "{text}");
    let text = fairlink(&["sim", &file, "--cores", "1", "--split", "one", "--metrics"]).quiet().stdout;
    assert!(text.contains("wrong leaves"), "{text}");
}

#[test]
fn check_prints_theorem_v_for_shared_virtual_times_and_says_where_there_is_nothing() {
    let dir = Scratch::new();
    let file = two(&dir, "cores = 2\nsplit = \"shared\"");
    let on = fairlink(&["check", &file, "--json"]).quiet().json()["on_cores"].clone();
    // At least 4 packets of 1500 B as mark and as ahead, 8 as credit; a batch of 32 for each of two cores. Lambda is one
    // packet for each leaf, and ahead.
    let (mark, credit, lambda, batches) = (6_000, 12_000, 9_000, 96_000);
    assert_eq!((&on["split"], &on["exact"]), (&"shared".into(), &false.into()));
    assert_eq!(on["interface_bytes"], mark + credit + lambda + batches);
    // (credit + Lambda) (1 / 1 + 1 / 3), in bytes of each.
    for (class, weight) in [(0, 1.0), (1, 3.0)] {
        let bytes = on["classes"][class]["fairness_bytes"].as_f64().expect("a number");
        assert!((bytes - 21_000.0 * (4.0 / 3.0) * weight).abs() < 1e-6, "{on}");
        assert!(on["classes"][class]["delay_bound_s"].is_number(), "{on}");
    }
    let text = fairlink(&["check", &file]).quiet().stdout;
    assert!(text.contains("on 2 cores, split = \"shared\"") && !text.contains("not measured"), "{text}");
    let text = fairlink(&["check", &file, "--lag", "2ms"]).quiet().stdout;
    assert!(text.contains("the link carries 166 of its largest packets; shares were measured up to 83"), "{text}");
    for (split, says) in [("hub", "its bounds hold"), ("cake-mq", "no bounds")] {
        let text = fairlink(&["check", &file, "--split", split]).quiet().stdout;
        assert!(text.contains(says), "{text}");
    }
    // One ring to the hub: a turn until it looks at it again, and one in which the packet leaves, of 64 packets each.
    let text = fairlink(&["check", &file, "--split", "hub"]).quiet().stdout;
    assert!(text.contains("add the time of 128 packets in it to the delay") && text.contains("not computed"), "{text}");
    let hub = ["--split", "hub", "--cores", "17", "--hub-packet", "50ns"];
    let text = fairlink(&[&["check", &file][..], &hub].concat()).quiet().stdout;
    assert!(text.contains("576 packets in it (28.8 us)") && !text.contains("not computed, because"), "{text}");
    let on = fairlink(&[&["check", &file, "--json"][..], &hub].concat()).json()["on_cores"].clone();
    assert_eq!((&on["ring_packets"], &on["exact"]), (&576.into(), &true.into()));
    // 1 Gbit/s are 60 bytes in 480 ns, 1,250 bytes in 10 us; the shortest frame has 60, the longest 1,500.
    for (split, packet, least, says) in [
        ("hub", "480ns", 60, "which way: one hub; with 480 ns for a packet, one hub keeps up"),
        ("shared", "500ns", 63, "For packets of 60 B it takes 2 hubs"),
        ("hub", "10us", 1250, "it takes 21 hubs"),
        ("shared", "20us", 2500, "which way: several hubs (--hubs) or split = \"shared\""),
    ] {
        let args = ["check", &file, "--split", split, "--hub-packet", packet];
        let text = fairlink(&args).quiet().stdout;
        assert!(text.split_whitespace().collect::<Vec<_>>().join(" ").contains(says), "{text}");
        let on = fairlink(&[&args[..], &["--json"]].concat()).json()["on_cores"].clone();
        assert_eq!(on["hub_keeps_up_from_bytes"], least, "{on}");
    }
    // Two hubs share virtual times, and 15 other cores receive: as many rings, 8 turns and one.
    let hubs = [&hub[..], &["--hubs", "2"]].concat();
    let text = fairlink(&[&["check", &file][..], &hubs].concat()).quiet().stdout;
    assert!(text.contains("on 17 cores, split = \"hub\", 2 hubs") && text.contains("from a sibling"), "{text}");
    let on = fairlink(&[&["check", &file, "--json"][..], &hubs].concat()).json()["on_cores"].clone();
    assert_eq!((&on["hubs"], &on["exact"], &on["ring_packets"]), (&2.into(), &false.into(), &576.into()), "{on}");
    assert!(on["classes"][0]["fairness_bytes"].is_number() && on["interface_bytes"].is_number(), "{on}");
    let limited = two(&dir, "cores = 2\nsplit = \"shared\"");
    let with =
        std::fs::read_to_string(&limited).expect("a file").replace("weight = 3", "weight = 3\nceiling = \"1mbit\"");
    let on = fairlink(&["check", &dir.write("limited.toml", &with), "--json"]).json()["on_cores"].clone();
    assert!(on["classes"].as_array().expect("classes").iter().all(|class| class["fairness_bytes"].is_null()), "{on}");
    assert!(on["classes"][0]["delay_bound_s"].is_number() && on["classes"][1]["delay_bound_s"].is_null(), "{on}");
}

/// The largest growth of g t - D(t), in bytes, over every interval in which packets of `class` are there, of a trace.
fn largest_lag(trace: &str, class: &str, bytes_per_s: f64) -> f64 {
    let (mut sent, mut left, mut least, mut most) = (0.0, 0.0f64, f64::MAX, 0.0f64);
    for line in trace.lines() {
        let cells: Vec<&str> = line.split(',').collect();
        let number = |at: usize| cells.get(at).and_then(|cell| cell.parse::<f64>().ok());
        let (Some(arrival), Some(start), Some(departure), Some(bytes)) = (number(2), number(3), number(4), number(5))
        else {
            continue;
        };
        if cells[1] != class {
            continue;
        }
        if arrival > left {
            least = bytes_per_s * arrival - sent;
        }
        most = most.max(bytes_per_s * start - sent - least);
        (sent, left) = (sent + bytes, departure);
        least = least.min(bytes_per_s * departure - sent);
    }
    most
}

#[test]
fn the_service_of_a_small_leaf_stays_within_what_check_prints_in_every_interval() {
    let dir = Scratch::new();
    let class = |name: &str, rate: &str| {
        let source = format!("class = \"{name}\"\npacket = \"1500B\"\nmodel = \"saturating\"\n");
        (format!("[[class]]\nname = \"{name}\"\nguarantee = \"{rate}\"\n"), source)
    };
    let ((small, of_small), (large, of_large)) = (class("small", "1mbit"), class("large", "99mbit"));
    let text = format!(
        "duration = \"2s\"\n[link]\nrate = \"100mbit\"\nscheduler = \"hls\"\ncores = 2\nsplit = \"shared\"\n{small}{large}\
         [[source]]\n{of_small}rate = \"20mbit\"\n[[source]]\n{of_large}rate = \"200mbit\"\n"
    );
    let file = dir.write("lag.toml", &text);
    let on = fairlink(&["check", &file, "--json"]).json()["on_cores"].clone();
    let printed = on["classes"][0]["guarantee_lag_bytes"].as_f64().expect("a number");
    // l is 6,000 B, Nmax 123,000 B, B of the link 6,000 B; 125 B in a pass; a hundredth of the link.
    assert!((printed - (6_000.0 + 0.01 * (2.0 * 125.0 + 3.0 * 123_000.0 + 2.0 * 6_000.0))).abs() < 1e-6, "{on}");
    let trace = dir.path("trace.csv");
    assert!(fairlink(&["sim", &file, "--trace", &trace]).stdout.contains("small"));
    let seen = largest_lag(&std::fs::read_to_string(&trace).expect("a trace"), "small", 125_000.0);
    assert!(seen > 5_000.0 && seen <= printed, "{seen} of {printed} B");
}

#[test]
fn cores_that_cannot_share_are_refused_with_place_and_remedy() {
    let dir = Scratch::new();
    let one = two(&dir, "");
    let several = dir.write("several.toml", &std::fs::read_to_string(two(&dir, "cores = 4")).expect("a file"));
    let critical =
        std::fs::read_to_string(&several).expect("a file").replace("weight = 3", "weight = 3\nlatency_critical = true");
    let critical = dir.write("critical.toml", &critical);
    let none = dir.write("none.toml", &std::fs::read_to_string(two(&dir, "cores = 65")).expect("a file"));
    let word =
        dir.write("word.toml", &std::fs::read_to_string(two(&dir, "cores = 2\nsplit = \"shard\"")).expect("a file"));
    let shared = dir.write(
        "shared.toml",
        &std::fs::read_to_string(two(&dir, "cores = 2\nsplit = \"shared\"\ndefault = \"a\"")).expect("a file"),
    );
    let text = |cores: &str| std::fs::read_to_string(two(&dir, cores)).expect("a file");
    let hubs = dir.write("hubs.toml", &text("cores = 4\nsplit = \"hub\"\nhubs = 2\ndefault = \"a\""));
    let many = dir.write("many.toml", &text("cores = 4\nsplit = \"hub\"\nhubs = 4"));
    let one_again = two(&dir, "");
    assert_eq!(one, one_again);
    for (args, says) in [
        (&["sim", &one, "--split", "hub"][..], "this link has 1 core; add --cores N, or cores = N to [link]"),
        (&["sim", &one, "--cores", "2", "--split", "half"], "one, hub, shared, equal, cake-mq, per-core"),
        (&["sim", &one, "--cores", "2", "--lag", "10ns"], "10 ns; the limits are 100 ns and 1 s"),
        (&["check", &several, "--split", "hub", "--split", "shared"], "only `sim` compares several ways"),
        (&["check", &critical, "--split", "shared"], "\"b\" has latency_critical, which several cores cannot honour"),
        (&["sim", &critical, "--split", "shared"], "class b has latency_critical"),
        (&["check", &several, "--split", "equal", "--hub-packet", "50ns"], "no hub is looked at"),
        (&["check", &many], "\"hubs\" is 4; with 4 cores and split = \"hub\" it is at most 3"),
        (&["sim", &several, "--hubs", "4"], "--hubs 4: with 4 cores there are at most 3"),
        (&["sim", &several, "--split", "shared", "--hubs", "2"], "--hubs 2: this link has no hub"),
        (&["sim", &one, "--hubs", "2"], "--hubs 2: this link has no hub; add --cores N --split hub"),
        (&["gateway", &hubs, "--in", "x", "--out", "y"], "\"hubs\" is 2; the gateway has 1 hub"),
        (&["qdisc", "add", &hubs, "--out", "x"], "the kernel module runs each link on one core"),
        (&["check", &none], "65"),
        (&["check", &word], "shared"),
        (
            &["gateway", &shared, "--in", "x", "--out", "y"],
            "\"cores\" is 2, with split = \"shared\"; the gateway shares a link among cores by a hub",
        ),
        (&["qdisc", "add", &several, "--out", "x"], "the kernel module runs each link on one core"),
    ] {
        let outcome = fairlink(args);
        assert_ne!(outcome.code, 0, "{args:?}");
        let said = outcome.stderr.replace('│', " ").split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(said.contains(says), "{args:?}: {}", outcome.stderr);
    }
}
