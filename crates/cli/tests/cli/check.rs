//! `fairlink check`.

use serde_json::json;

use crate::{Scratch, fairlink, leaves, scenario};

#[test]
fn check_names_a_scheduler_with_shorter_delays_and_says_what_is_not_proved_of_it() {
    let file = scenario("beyond/rounds.toml");
    let json = fairlink(&["check", &file, "--scheduler", "hls", "--json"]).quiet().json();
    let shorter = &json["shorter_delays"];
    assert_eq!(
        (&shorter["scheduler"], &shorter["class"], &shorter["leaves"]),
        (&"hvt".into(), &"v".into(), &101.into())
    );
    let under = |name: &str| fairlink(&["check", &file, "--scheduler", name, "--json"]).quiet().json();
    let bound = |json: &serde_json::Value| json["link"]["classes"][0]["bounds"]["delay_bound_s"].clone();
    let hvt = under("hvt");
    assert_eq!((&shorter["delay_bound_s"], &shorter["shorter_s"]), (&bound(&json), &bound(&hvt)));
    assert!(hvt["shorter_delays"].is_null(), "{hvt}");
    let text = fairlink(&["check", &file, "--scheduler", "hls"]).quiet().stdout;
    let line = text.lines().find(|line| line.starts_with("shorter delays")).expect("a line");
    assert!(line.contains("101 leaves have delay bounds of more than 3 packets at their rates"), "{line}");
}

#[test]
fn check_prints_the_bounds_of_hvt_beside_latency_critical_classes_where_they_are_proved() {
    let file = scenario("voice.toml");
    let json = fairlink(&["check", &file, "--scheduler", "hvt", "--json"]).quiet().json();
    for class in json["link"]["classes"].as_array().expect("a list") {
        let bounds = &class["bounds"];
        assert!(bounds["fairness_bytes"].is_number(), "{class}");
        assert_eq!(bounds["delay_bound_s"].is_number(), class["name"] != "data", "{class}");
    }
    let text = fairlink(&["check", &file, "--scheduler", "hvt"]).quiet().stdout;
    assert!(text.contains("backlogged with packets that are not sent ahead of others"), "{text}");
    // Below a ceiling they are open.
    let dir = Scratch::new();
    let limited = std::fs::read_to_string(&file).expect("a scenario");
    let limited = limited.replace("name = \"voice\"", "name = \"voice\"\nparent = \"all\"");
    let limited = limited.replace("name = \"data\"", "name = \"data\"\nparent = \"all\"");
    let all = "[[class]]\nname = \"all\"\nguarantee = \"20mbit\"\nceiling = \"20mbit\"\n\n[[class]]\nname = \"voice\"";
    let file = dir.write("limited.toml", &limited.replace("[[class]]\nname = \"voice\"", all));
    let text = fairlink(&["check", &file, "--scheduler", "hvt"]).quiet().stdout;
    assert!(
        text.contains("not computed for all siblings, because with latency-critical classes")
            && !text.contains("Also promised"),
        "{text}"
    );
}

#[test]
fn check_prints_the_bounds_that_the_paper_gives_for_its_figure_1() {
    for file in ["fig1.toml", "fig1-weights.toml"] {
        let json = fairlink(&["check", &scenario(file), "--json"]).quiet().json();
        assert_eq!((&json["valid"], &json["link"]["scheduler"]), (&true.into(), &"hls".into()));
        let classes = json["link"]["classes"].as_array().expect("a list");
        let names: Vec<_> = classes.iter().map(|class| class["name"].as_str().expect("text")).collect();
        assert_eq!(names, ["A", "A1", "A2", "B", "B1", "B2", "C"]);
        let a1 = &classes[1];
        assert_eq!((&a1["parent"], &a1["leaf"], &a1["terms"]["ceiling_bps"]), (&"A".into(), &true.into(), &().into()));
        assert_eq!((a1["bounds"]["weight"].as_f64(), a1["bounds"]["weight_error"].as_f64()), (Some(100.0), Some(0.0)));
        assert_eq!(a1["terms"]["share_all_busy_bps"], 100_000_000);
        // For 1500 B at once and its guarantee; 13.8 kB off its part at most is 828 us at 100 Mbit/s.
        assert!((a1["bounds"]["delay_bound_s"].as_f64().expect("a number") - 405.6e-6).abs() < 1e-9, "{json}");
        assert_eq!(
            a1["bounds"]["delay_bound_for"],
            serde_json::json!([{"burst_bytes": 1500, "rate_bps": 100_000_000}])
        );
        assert!((a1["bounds"]["fairness_bytes"].as_f64().expect("a number") - 10_350.0).abs() < 1e-3, "{json}");
        assert!((a1["bounds"]["fairness_s"].as_f64().expect("a number") - 0.000_828).abs() < 1e-9, "{json}");
        let bound = |name: &str| json["link"]["bounds"][name].as_f64().expect("a number");
        assert!((bound("fairness_bytes") - 103.5).abs() < 1e-6, "{json}");
        assert!((bound("fairness_s") - 0.000_828).abs() < 1e-9, "{json}");
        assert!((bound("transmission_gap_s") - 0.000_145_6).abs() < 1e-9, "{json}");
        assert_eq!(json["problems"], serde_json::json!([]));
    }
    let guarantee = |file| {
        let json = fairlink(&["check", &scenario(file), "--json"]).quiet().json();
        json["link"]["classes"][1]["terms"]["guarantee_bps"].clone()
    };
    assert_eq!((guarantee("fig1.toml"), guarantee("fig1-weights.toml")), (100_000_000.into(), ().into()));
    let text = fairlink(&["check", &scenario("fig1.toml")]).quiet().stdout;
    assert!(text.contains("828 us") && text.contains("103.5 B") && text.contains("145.6 us"), "{text}");
}

#[test]
fn long_rounds_of_figure_1_have_bounds_of_at_most_twice_the_limit_for_small_weights() {
    let dir = Scratch::new();
    let text = std::fs::read_to_string(scenario("fig1-weights.toml")).expect("the scenario");
    let long = text.replacen("[link]", "[link]\nrounds = \"long\"", 1);
    let json = fairlink(&["check", &dir.write("link.toml", &long), "--json"]).quiet().json();
    // The root's group has its half of the five largest packets, that below A half of two.
    let weight = |class: usize| json["link"]["classes"][class]["bounds"]["weight"].as_f64().expect("a number");
    assert_eq!([0, 1, 2, 6].map(weight), [1125.0, 500.0, 1000.0, 1500.0]);
    // Theorem 5: twice the weights and largest packets on 1 Gbit/s. Without the weights it would be 120 us.
    let bound = |name: &str| json["link"]["bounds"][name].as_f64().expect("a number");
    let round = 2.0 * 1125.0 + 1500.0 + 2.0 * 1500.0 + 5.0 * 1500.0;
    assert!((bound("transmission_gap_s") - 2.0 * round * 8e-9).abs() < 1e-9 && round == 14_250.0, "{json}");
    // Theorem 3 of A1 and A2: A~ is 1500 B, that of A 4500 B; A- is 4500 + 1125 + the most of (1125 / w_j) A~_j, which
    // is 4500 B, of either. In time at the guarantee: 8 / 100 Mbit/s (10125 + 10125 / 2). In the limit for small
    // weights it is 720 us.
    assert!((bound("fairness_s") - 8e-8 * 1.5 * 10_125.0).abs() < 1e-9, "{json}");
}

#[test]
fn check_prints_what_hdrr_comes_to_on_the_same_tree() {
    let json = fairlink(&["check", &scenario("fig1.toml"), "--scheduler", "hdrr", "--json"]).quiet().json();
    let bound = |name: &str| json["link"]["bounds"][name].as_f64().expect("a number");
    // With the smallest whole weights: 1500 / 1 + 1500 / 2 for packets and as much for visits between A1 and A2; 10 * 3
    // visits of 1500 B less one, and a packet of each leaf. With the guarantees in Mbit/s for weights it is the paper's
    // 3600 ms.
    assert!((bound("fairness_bytes") - 4500.0).abs() < 1e-6, "{json}");
    assert!((bound("transmission_gap_s") - (29.0 * 1500.0 + 7500.0) * 8.0 / 1e9).abs() < 1e-12, "{json}");
    assert_eq!(json["link"]["classes"][2]["bounds"]["weight"], 2.0);
    let text = fairlink(&["check", &scenario("fig1.toml"), "--scheduler", "hdrr"]).quiet().stdout;
    assert!(text.contains("2 visits") && text.contains("4.5 kB per visit"), "{text}");
}

#[test]
fn check_prints_the_rounding_error_of_a_share() {
    let dir = Scratch::new();
    let link = dir.write(
        "link.toml",
        r#"
        link = { rate = "1gbit" }
        class = [{ name = "a", guarantee = "333333333bit" }, { name = "b", guarantee = "666666667bit" }]
        "#,
    );
    let json = fairlink(&["check", &link, "--json"]).quiet().json();
    let errors: Vec<_> =
        [0, 1].map(|n| json["link"]["classes"][n]["bounds"]["weight_error"].as_f64().expect("a number")).into();
    assert!(errors.iter().all(|error| *error != 0.0 && error.abs() < 1e-7), "{json}");
    assert!(errors[0].signum() != errors[1].signum(), "what one gains the other loses: {json}");
}

#[test]
fn weights_too_far_apart_for_the_arithmetic_are_warned_of() {
    let dir = Scratch::new();
    let link = dir.write(
        "link.toml",
        r#"
        link = { rate = "1gbit" }
        class = [{ name = "tiny", weight = 1 }, { name = "huge", weight = 1000000000000 }]
        "#,
    );
    let json = fairlink(&["check", &link, "--json"]).json();
    let warning = json["problems"][0]["message"].as_str().expect("a warning");
    assert!(warning.contains("\"tiny\"") && warning.contains("+5860.5 %"), "{warning}");
    // Other schedulers use weights as they are written.
    let json = fairlink(&["check", &link, "--scheduler", "wfq", "--json"]).quiet().json();
    assert_eq!(json["problems"], serde_json::json!([]));
}

#[test]
fn a_ceiling_burst_that_costs_rate_is_warned_of_with_the_rate_and_a_burst_that_costs_none() {
    let dir = Scratch::new();
    let link = |burst: &str| {
        let mut text = String::from("[link]\nrate = \"100mbit\"\nrounds = \"long\"\n");
        text += &format!("[[class]]\nname = \"x\"\nweight = 10\nceiling = \"31mbit\"\n{burst}\n");
        for other in 0..17 {
            text += &format!("[[class]]\nname = \"o{other}\"\nweight = 1\n");
        }
        dir.write("link.toml", &text)
    };
    let json = fairlink(&["check", &link("ceiling_burst = \"1500B\""), "--json"]).json();
    let warning = &json["problems"][0];
    let (message, help) = (warning["message"].as_str().expect("words"), warning["help"].as_str().expect("a remedy"));
    assert!(message.starts_with("\"x\" has a ceiling_burst of 1.5 kB and reaches "), "{message}");
    assert_eq!(warning["line"], 8, "{warning}");
    // With four digits. With packets of other lengths it is another rate, so that there is no share.
    let reached = message.split("reaches ").nth(1).and_then(|text| text.split(' ').next()).expect("a rate");
    assert!(reached.len() == 5 && (10.0..25.0).contains(&reached.parse::<f64>().expect("a number")), "{message}");
    assert!(message.contains("Mbit/s of its ceiling of 31 Mbit/s while 18 of 18 leaves"), "{message}");
    assert_eq!(json["link"]["classes"][0]["terms"]["share_all_busy_bps"], serde_json::Value::Null);
    let note = json["link"]["notes"][0].as_str().expect("a reason");
    assert!(note.starts_with("share, all busy: not computed: x: how much of its ceiling it reaches"), "{note}");
    let enough = help.split('"').nth(1).expect("a burst");
    let json = fairlink(&["check", &link(&format!("ceiling_burst = \"{enough}\"")), "--json"]).json();
    assert_eq!(
        (&json["problems"], &json["link"]["classes"][0]["terms"]["share_all_busy_bps"]),
        (&serde_json::json!([]), &31_000_000.into())
    );
    // A class with a share below its ceiling gets a warning with its rate while fewer are busy.
    let text = std::fs::read_to_string(link("ceiling_burst = \"1500B\"")).unwrap().replace("weight = 10", "weight = 6");
    let json = fairlink(&["check", &dir.write("fewer.toml", &text), "--json"]).json();
    assert!(json["problems"].to_string().contains("of 18 leaves are busy"), "{json}");
    // Other schedulers refill as they send.
    let json =
        fairlink(&["check", &link("ceiling_burst = \"1500B\""), "--scheduler", "htb", "--json", "--lenient"]).json();
    assert!(!json["problems"].to_string().contains("reaches"), "{json}");
}

#[test]
fn hosts_of_a_class_are_printed_with_how_far_apart_they_may_be() {
    let dir = Scratch::new();
    let link = dir.write(
        "link.toml",
        "link = { rate = '8mbit' }\nclass = [{ name = 'guests', per = 'src-ip' }, { name = 'other' }]\n",
    );
    let json = fairlink(&["check", &link, "--json"]).quiet().json();
    assert_eq!(json["link"]["classes"][0]["bounds"]["hosts_apart_bytes"], 4 * 1500 - 2);
    assert!(json["link"]["classes"][1]["bounds"].get("hosts_apart_bytes").is_none(), "{json}");
    // Behind a transmit queue of 12 packets two greedy hosts were 14,000 B apart.
    let text = std::fs::read_to_string(&link).unwrap().replace("'8mbit'", "'8mbit', transmit_queue = '12p'");
    let json = fairlink(&["check", &dir.write("behind.toml", &text), "--json"]).json();
    assert!(json["link"]["classes"][0]["bounds"].get("hosts_apart_bytes").is_none(), "{json}");
    assert!(json["problems"].to_string().contains("hosts that share a class are not proven"), "{json}");
}

#[test]
fn the_wait_for_the_next_packet_of_a_small_weight_stands_beside_the_gap_and_is_kept_in_a_simulation() {
    let dir = Scratch::new();
    let link = "[link]\nrate = \"100mbit\"\n[[class]]\nname = \"small\"\nweight = 1\n[[class]]\nname = \"large\"\nweight = 1000\n";
    let json = fairlink(&["check", &dir.write("link.toml", link), "--json"]).quiet().json();
    let bounds = &json["link"]["bounds"];
    let [gap, next] = ["transmission_gap_s", "next_packet_s"].map(|key| bounds[key].as_f64().expect("a time"));
    assert_eq!(bounds["next_packet_of"], "small");
    let sources = ["small", "large"]
        .map(|class| format!("[[source]]\nclass = \"{class}\"\nmodel = \"greedy\"\npacket = \"1500B\"\n"));
    let scenario = dir.write("scenario.toml", &format!("duration = \"3s\"\n{link}{}", sources.concat()));
    let trace = dir.path("trace.csv");
    let table = fairlink(&["sim", &scenario, "--trace", &trace]).stdout;
    assert!(table.contains("small"), "{table}");
    let text = std::fs::read_to_string(&trace).expect("a trace");
    let departures: Vec<f64> = text
        .lines()
        .map(|line| line.split(',').collect::<Vec<_>>())
        .filter(|cells| cells[1] == "small")
        .filter_map(|cells| cells[4].parse().ok())
        .collect();
    let longest = departures.windows(2).map(|pair| pair[1] - pair[0]).fold(0.0, f64::max);
    assert!(departures.len() > 10 && longest > 10.0 * gap && longest <= next, "{gap} {longest} {next}");
}

#[test]
fn a_latency_critical_leaf_beyond_its_contract_has_the_wait_for_the_next_packet_that_a_simulation_shows() {
    let dir = Scratch::new();
    let greedy = |class: &str| format!("[[source]]\nclass = \"{class}\"\nmodel = \"greedy\"\npacket = \"1500B\"\n");
    let link = "[link]\nrate = \"10mbit\"\nscheduler = \"hls\"\n[[class]]\nname = \"voice\"\nguarantee = \"100kbit\"\n\
                latency_critical = true\n[[class]]\nname = \"rest\"\nguarantee = \"9.9mbit\"\n";
    let file = dir.write("next.toml", &format!("duration = \"4s\"\n{link}{}{}", greedy("voice"), greedy("rest")));
    let json = fairlink(&["check", &file, "--json"]).json();
    let bounds = &json["link"]["bounds"];
    let next = bounds["next_packet_s"].as_f64().expect("a time");
    assert_eq!(bounds["next_packet_of"], "voice");
    let text = fairlink(&["check", &file]).stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("(worst: voice); a latency-critical leaf that sends more than its burst and rate"), "{text}");
    let trace = dir.path("trace.csv");
    assert!(fairlink(&["sim", &file, "--trace", &trace]).stdout.contains("voice"));
    let text = std::fs::read_to_string(&trace).expect("a trace");
    let rows = text.lines().map(|line| line.split(',').collect::<Vec<_>>()).filter(|cells| cells[1] == "voice");
    let times: Vec<(f64, f64)> =
        rows.filter_map(|cells| Some((cells[3].parse().ok()?, cells[4].parse().ok()?))).collect();
    // From the start of a packet, which is the first instant at which the one behind it is the next.
    let longest = times.windows(2).map(|pair| pair[1].1 - pair[0].0).fold(0.0, f64::max);
    assert!(longest > 0.12 && longest <= next, "{longest} of {next} s");
}

#[test]
fn bounds_of_no_use_say_so_and_why() {
    let dir = Scratch::new();
    let link = dir.write(
        "link.toml",
        "link = { rate = '1mbit' }\nclass = [{ name = 'tiny', weight = 1 }, { name = 'huge', weight = 1000000 }]\n",
    );
    let text = fairlink(&["check", &link]).stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("fairness no useful bound (") && text.contains("next packet no useful bound ("), "{text}");
    assert!(text.contains("tiny gets 1 bit/s and needs") || text.contains("tiny gets 0.999"), "{text}");
    // The constant of Theorem 3 of H-FSC on the text's own tree.
    let fig10 =
        fairlink(&["check", &scenario("hfsc-fig10.toml")]).stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(fig10.contains("virtual times no useful bound (at most 137.9 s between children of A"), "{fig10}");
    assert!(fig10.contains("in the virtual time of audio, which gets 64 kbit/s while"), "{fig10}");
}

#[test]
fn a_bound_is_for_the_traffic_that_stands_beside_it_and_gone_where_there_is_none() {
    let dir = Scratch::new();
    let bound = |scheduler: &str, class: usize, classes: &str| {
        let text = format!("link = {{ rate = \"8mbit\" }}\nclass = [{classes}]\n");
        let json = fairlink(&["check", &dir.write("link.toml", &text), "--scheduler", scheduler, "--json"]).json();
        let entry = &json["link"]["classes"][class];
        (entry["bounds"]["delay_bound_s"].as_f64(), entry["bounds"]["delay_bound_for"].clone())
    };
    let quanta = r#"{ name = "a", guarantee = "4mbit", quantum = "1500B" }, { name = "b", guarantee = "4mbit", quantum = "15000B" }"#;
    let (_, traffic) = bound("drr", 0, quanta);
    // 1500 of 16500 bytes of a round, not its guarantee.
    assert_eq!(traffic[0]["rate_bps"], 727_272);
    let ceilings = r#"
        { name = "c", guarantee = "4mbit", ceiling = "5mbit" }, { name = "x", parent = "c", latency_critical = true },
        { name = "y", guarantee = "4mbit" }"#;
    assert_eq!(bound("hls", 1, ceilings).0, None);
    assert!(bound("hls", 2, ceilings).0.is_some());
    let codel = r#"{ name = "a", weight = 1, queue = "fq_codel" }, { name = "b", weight = 1, queue = "codel" }"#;
    assert_eq!(bound("wf2q+", 0, codel).0, None);
    assert!(bound("wf2q+", 1, codel).0.is_some());
    let flat_first =
        r#"{ name = "a", weight = 1, real_time = { m2 = "2mbit", d = "10ms" } }, { name = "b", weight = 1 }"#;
    let (seconds, traffic) = bound("hfsc", 0, flat_first);
    assert!((seconds.expect("a bound") - (0.010 + 0.006 + 0.0015)).abs() < 1e-9);
    assert_eq!(traffic, serde_json::json!([{"burst_bytes": 1500, "rate_bps": 2_000_000}]));
}

#[test]
fn a_latency_critical_class_is_never_delayed_beyond_what_check_prints() {
    let file = scenario("voice.toml");
    let json = fairlink(&["check", &file, "--json"]).quiet().json();
    let bound = json["link"]["classes"][0]["bounds"]["delay_bound_s"].as_f64().expect("a number");
    // A frame of another class and voice's own burst: 1900 B at 20 Mbit/s.
    assert!((bound - 1900.0 * 8.0 / 20e6).abs() < 1e-9, "{json}");
    assert_eq!(
        json["link"]["classes"][0]["bounds"]["delay_bound_for"],
        serde_json::json!([{"burst_bytes": 400, "rate_bps": 2_000_000}])
    );
    let run = fairlink(&["sim", &file, "--json"]).quiet().json();
    let voice = &run["runs"][0]["link"]["classes"][0];
    assert_eq!(voice["name"], "voice");
    let longest = voice["delay_s"]["max"].as_f64().expect("a number");
    assert!(longest <= bound && longest > bound / 3.0, "{longest} s of {bound} s");
    // The others share what voice leaves of the link as if it were not there: 18.4 Mbit/s as 2 : 1.
    for (class, expected) in [(1, 18.4e6 * 2.0 / 3.0), (2, 18.4e6 / 3.0)] {
        let rate = leaves(&run["runs"][0])[class]["rates"]["rate_bps"].as_f64().expect("a number");
        assert!((rate - expected).abs() < expected * 0.002, "{rate} {expected}");
    }
    // It is the setting that does this.
    let dir = Scratch::new();
    let text = std::fs::read_to_string(&file).expect("a file");
    let plain = dir.write("plain.toml", &text.replace("latency_critical = true\nburst", "# burst"));
    let run = fairlink(&["sim", &plain, "--json"]).quiet().json();
    let waits = run["runs"][0]["link"]["classes"][0]["delay_s"]["max"].as_f64().expect("a number");
    assert!(waits > 1.5 * bound, "{waits} s");
    let text = fairlink(&["check", &file]).quiet().stdout;
    assert!(text.contains("760 us") && text.contains("400 B + 2 Mbit/s"), "{text}");
}

/// The curves of Figure 10 of \[hfsc\] on 10 Mbit/s, the rest as one line; FTP's 4 kB are due in `ftp_ms`.
fn figure_10(ftp_ms: &str) -> String {
    format!(
        r#"
        link = {{ rate = "10mbit", scheduler = "hfsc", mtu = "8000B" }}
        class = [
            {{ name = "audio", real_time = {{ burst = "160B", delay = "5ms", rate = "64kbit" }} }},
            {{ name = "video", real_time = {{ burst = "8kB", delay = "10ms", rate = "2mbit" }} }},
            {{ name = "ftp", real_time = {{ burst = "4kB", delay = "{ftp_ms}ms", rate = "5mbit" }} }},
            {{ name = "rest", real_time = {{ rate = "2.936mbit" }} }},
        ]
        "#
    )
}

#[test]
fn service_curves_are_admitted_or_refused_with_the_time_and_give_delay_bounds() {
    let dir = Scratch::new();
    let link = dir.write("fits.toml", &figure_10("16.25"));
    let json = fairlink(&["check", &link, "--json"]).quiet().json();
    assert_eq!(json["admission"], serde_json::json!({"admitted": true, "fails_at_s": null}));
    let delay = |class: usize| json["link"]["classes"][class]["bounds"]["delay_bound_s"].as_f64().expect("a number");
    // The delay of the curve, and one frame of 8000 B.
    assert!((delay(0) - 0.0114).abs() < 1e-6 && (delay(1) - 0.0164).abs() < 1e-6, "{json}");
    let text = fairlink(&["check", &link]).quiet().stdout;
    assert!(text.contains("admission") && text.contains("11.4 ms"), "{text}");

    let link = dir.write("exceeds.toml", &figure_10("10"));
    let run = fairlink(&["check", &link, "--json"]);
    assert_eq!(run.code, 2);
    let json = run.json();
    assert_eq!((&json["valid"], &json["admission"]["admitted"]), (&false.into(), &false.into()));
    // All but FTP: 256 k, 6.4 M and 2.936 Mbit/s in the first 3.6 ms; then its 5 Mbit/s, and 408 kbit/s are not left
    // for long.
    let fails = json["admission"]["fails_at_s"].as_f64().expect("a number");
    assert!(fails > 0.0036 && fails < 0.0040, "{json}");
    // Nothing is asked for: nothing is tested.
    let json = fairlink(&["check", &scenario("fig1.toml"), "--json"]).quiet().json();
    assert!(json.get("admission").is_none(), "{json}");
}

#[test]
fn delay_bounds_are_printed_for_schedulers_that_have_one() {
    let dir = Scratch::new();
    let link = dir.write(
        "flat.toml",
        r#"
        link = { rate = "12mbit", scheduler = "wfq" }
        class = [{ name = "a", guarantee = "3mbit" }, { name = "b", guarantee = "9mbit" }]
        "#,
    );
    // A frame of 1500 B takes 1 ms on the link, and 4 ms at a quarter of it.
    for (scheduler, expected) in [("wfq", 0.005), ("scfq", 0.005), ("sfq", 0.006), ("drr", 0.004 + 0.012 - 0.002)] {
        let json = fairlink(&["check", &link, "--scheduler", scheduler, "--json"]).quiet().json();
        let bound = json["link"]["classes"][0]["bounds"]["delay_bound_s"].as_f64().expect("a number");
        assert!((bound - expected).abs() < 1e-9, "{scheduler}: {json}");
    }
}

#[test]
fn the_delay_of_a_class_with_leaky_buckets_is_that_of_traffic_that_keeps_them_all() {
    let dir = Scratch::new();
    let link = |buckets: &str| {
        let text = format!(
            "link = {{ rate = '8mbit', mtu = '1000B', scheduler = 'fq-lto-lb' }}\n\
             class = [{{ name = 'a', guarantee = '2mbit', leaky_bucket = {buckets} }}, {{ name = 'b', guarantee = '6mbit' }}]"
        );
        dir.write("buckets.toml", &text)
    };
    let one = "{ burst = '10kB', peak = '8mbit', rate = '1mbit' }";
    let file = link(&format!("[{one}, {{ burst = '4kB', peak = '8mbit', rate = '1.5mbit' }}]"));
    let class = fairlink(&["check", &file, "--json"]).quiet().json()["link"]["classes"][0].clone();
    // 1000 + 3000 * 6 / 6.5 bytes wait at the worst, at 2 Mbit/s, and a packet of the other class for 1 ms.
    let expected = (1000.0 + 3000.0 * 6.0 / 6.5) * 8.0 / 2e6 + 0.001;
    assert!((class["bounds"]["delay_bound_s"].as_f64().unwrap() - expected).abs() < 1e-12, "{class}");
    let limits = serde_json::json!([
        { "burst_bytes": 10_000, "rate_bps": 1_000_000 },
        { "burst_bytes": 4000, "rate_bps": 1_500_000 },
        { "burst_bytes": 1000, "rate_bps": 8_000_000 },
    ]);
    assert_eq!(class["bounds"]["delay_bound_for"], limits);
    let text = fairlink(&["check", &file]).quiet().stdout;
    assert!(text.contains("10 kB + 1 Mbit/s, 4 kB + 1.5 Mbit/s, 1 kB + 8 Mbit/s"), "{text}");
    // A long-run rate above the guarantee has no bound; the column has its traffic.
    let class = fairlink(&["check", &link(&one.replace("1mbit", "3mbit")), "--json"]).quiet().json()["link"]["classes"]
        [0]
    .clone();
    assert_eq!(class["bounds"]["delay_bound_for"], serde_json::json!([{"burst_bytes": 1000, "rate_bps": 2_000_000}]));
}

#[test]
fn a_scheduler_without_bounds_promises_none() {
    let dir = Scratch::new();
    let link = dir.write("link.toml", "link = { rate = '1mbit', scheduler = 'fifo' }\nclass = [{ name = 'a' }]");
    let json = fairlink(&["check", &link, "--json"]).quiet().json();
    assert_eq!(json["link"]["bounds"], serde_json::json!({}));
    assert!(json["link"]["classes"][0]["bounds"]["weight"].is_null());
    assert!(fairlink(&["check", &link]).quiet().stdout.contains("promises no bounds"));
    let drr = fairlink(&["check", &link, "--scheduler", "drr"]).quiet().stdout;
    assert!(drr.contains("Also promised, but not computed here: fairness, transmission gap."), "{drr}");
}

#[test]
fn what_the_scheduler_cannot_honour_is_refused_or_with_lenient_a_warning() {
    let link = scenario("fig1.toml");
    let refused = fairlink(&["check", &link, "--scheduler", "fifo"]);
    assert_eq!((refused.code, refused.stdout.as_str()), (2, ""));
    assert!(
        refused.stderr.contains("supported by: ")
            && refused.stderr.contains("hls")
            && refused.stderr.contains("fig1.toml"),
        "{}",
        refused.stderr
    );
    let warned = fairlink(&["check", &link, "--scheduler", "fifo", "--lenient"]);
    assert_eq!(warned.code, 0);
    assert!(warned.stderr.contains("it is ignored"), "{}", warned.stderr);
    let json = fairlink(&["check", &link, "--scheduler", "fifo", "--lenient", "--json"]).quiet().json();
    assert!(
        json["problems"][0]["message"].as_str().is_some_and(|text| text.contains("fifo does not support")),
        "{json}"
    );
    assert!(json["problems"][0]["line"].as_u64().is_some_and(|line| line > 1), "{json}");
}

#[test]
fn a_wrong_file_exits_with_2_and_names_the_place() {
    let dir = Scratch::new();
    let link = dir.write("link.toml", "[link]\nrate = \"1gbit\"\n[[class]]\nname = \"a\"\nguarantee = \"5kbps\"\n");
    let run = fairlink(&["check", &link]);
    assert_eq!((run.code, run.stdout.as_str()), (2, ""));
    assert!(run.stderr.contains("link.toml:5:13") && run.stderr.contains("kbps"), "{}", run.stderr);
    let run = fairlink(&["check", &link, "--json"]);
    let json = run.json();
    assert_eq!((run.code, &json["valid"]), (2, &false.into()));
    assert_eq!((&json["problems"][0]["line"], &json["problems"][0]["column"]), (&5.into(), &13.into()));
    for (file, says) in
        [("no-such-file.toml", "no-such-file.toml"), ("/dev/null", "/dev/null"), ("/", "it is a directory")]
    {
        let run = fairlink(&["check", file]);
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{file}");
        assert!(run.stderr.contains(says), "{file}: {}", run.stderr);
    }
    let run = fairlink(&["check", &link, "--scheduler", "hsl"]);
    assert_eq!(run.code, 2);
    assert!(run.stderr.contains("hls"), "{}", run.stderr);
}

#[test]
fn errors_have_no_colour_where_there_is_no_terminal_or_no_color_is_set() {
    let run = fairlink(&["check", "/dev/null"]);
    assert!(!run.stderr.contains('\u{1b}'), "{}", run.stderr);
}

#[test]
fn a_file_that_takes_more_memory_than_it_allows_is_refused_with_both_numbers() {
    let dir = Scratch::new();
    let file = |link: &str| {
        format!(
            "duration = '1s'\n[link]\nrate = '10mbit'\n{link}\n[[class]]\nname = 'a'\n\
             [[source]]\nclass = 'a'\nmodel = 'greedy'\npacket = '1kB'\n"
        )
    };
    let large = dir.write("large.toml", &file("buffer = '4294967295p'"));
    let raised = dir.write("raised.toml", &file("buffer = '1000000p'\nmemory = '16MiB'"));
    let lowered = dir.write("lowered.toml", &file("buffer = '1000000p'\nmemory = '15MiB'"));
    for command in ["check", "sim"] {
        let run = fairlink(&[command, &large]);
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{command}");
        for says in ["64.0 GiB", "4.0 GiB", "large.toml:4:10", "memory = \"65GiB\""] {
            assert!(run.stderr.contains(says), "{command}: {says}: {}", run.stderr);
        }
        let _allowed = fairlink(&[command, &raised]).quiet();
        let run = fairlink(&[command, &lowered]);
        assert_eq!(run.code, 2, "{command}");
        assert!(
            run.stderr.contains("15.3 MiB of memory for this tree; the limit is 15.0 MiB"),
            "{command}: {}",
            run.stderr
        );
    }
    let json = fairlink(&["check", &raised, "--json"]).quiet().json();
    assert!((16_000_000..16 << 20).contains(&json["link"]["memory_bytes"].as_u64().expect("bytes")), "{json}");
    let text = fairlink(&["check", &raised]).quiet().stdout;
    assert!(text.contains("memory at most 15.3 MiB"), "{text}");
}

#[test]
fn the_share_when_all_are_busy_is_the_fluid_ideal_within_the_limits_that_the_scheduler_honours() {
    let dir = Scratch::new();
    // By weight alone A1 would get 56.25 of 75, above its ceiling of 30.
    let link = dir.write(
        "link.toml",
        "[link]\nrate = \"100mbit\"\n\
         [[class]]\nname = \"A\"\nweight = 3\n[[class]]\nname = \"A1\"\nparent = \"A\"\nweight = 3\nceiling = \"30mbit\"\n\
         [[class]]\nname = \"A2\"\nparent = \"A\"\nweight = 1\nceiling = \"35mbit\"\n[[class]]\nname = \"B\"\nweight = 1\n",
    );
    let shares = |args: &[&str]| -> Vec<u64> {
        let run = fairlink(&[&["check", &link, "--json"], args].concat());
        let json = run.json();
        let classes = json["link"]["classes"].as_array().expect("a list").iter();
        classes.map(|class| class["terms"]["share_all_busy_bps"].as_u64().expect("a rate") / 10_000).collect()
    };
    assert_eq!(shares(&[]), [6_500, 3_000, 3_500, 3_500]);
    // One that ignores ceilings shares by weight.
    assert_eq!(shares(&["--scheduler", "drr", "--lenient"]), [7_500, 5_625, 1_875, 2_500]);
    let json = fairlink(&["fluid", &link, "--json"]).quiet().json();
    let gets = |index: usize| json["link"]["classes"][index]["ideal"]["allocation_bps"].as_f64();
    assert_eq!([0, 1, 2, 3].map(gets), [6.5e7, 3e7, 3.5e7, 3.5e7].map(Some));
    let text = fairlink(&["check", &link]).quiet().stdout;
    assert!(text.contains("30 Mbit/s") && !text.contains("56.25"), "{text}");
}

#[test]
#[cfg(target_os = "linux")]
fn check_refuses_for_a_gateway_what_a_gateway_refuses_of_the_file() {
    fairlink(&["check", &scenario("gateway.toml"), "--gateway"]).quiet();
    let dir = Scratch::new();
    let two = "[[class]]\nname = \"a\"\n[[class]]\nname = \"b\"\n";
    for (name, text, says) in [
        (
            "no-default",
            format!("[link]\nrate = \"10mbit\"\n{two}"),
            "there is no default class for frames that no class matches",
        ),
        ("memory", format!("[link]\nrate = \"10mbit\"\nmemory = \"2MiB\"\ndefault = \"a\"\n{two}"), "a packet pool of"),
    ] {
        let link = dir.write(name, &text);
        assert_eq!(fairlink(&["check", &link]).code, 0, "{name}");
        let run = fairlink(&["check", &link, "--gateway"]);
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{name}");
        assert!(run.stderr.contains(says), "{name}: {}", run.stderr);
        // The gateway itself says the same of the file.
        let run = fairlink(&["gateway", &link, "--in", "lo", "--out", "no-such"]);
        assert!(run.code == 2, "{name}: {}", run.stderr);
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_link_that_is_faster_than_the_gateway_on_this_machine_is_warned_of_with_both_rates() {
    let dir = Scratch::new();
    let file = |rate: &str| {
        let two = "[[class]]\nname = \"a\"\nmatch = [\"tcp\"]\n[[class]]\nname = \"b\"\n";
        dir.write(
            &format!("{rate}.toml"),
            &format!("[link]\nrate = \"{rate}\"\nmtu = \"1522B\"\ndefault = \"b\"\n{two}"),
        )
    };
    let checked = |rate: &str| fairlink(&["check", &file(rate), "--gateway", "--json"]).quiet().json();
    // No processor moves as much.
    let fast = checked("1tbit");
    let said = fast["problems"][0]["message"].as_str().expect("a warning");
    assert!(said.contains("of 1 Tbit/s"), "{said}");
    match fast["gateway_bps"].as_f64() {
        Some(moves) => assert!(moves > 1e7 && moves < 1e12 && said.contains("on this machine: "), "{fast}"),
        None => assert!(said.contains("was not measured: "), "{said}"),
    }
    // A rate that every machine reaches is not measured, and a check without --gateway does not depend on this machine.
    assert!(checked("1gbit").get("gateway_bps").is_none());
    fairlink(&["check", &file("1tbit")]).quiet();
    // An import says the same.
    let pods = scenario("import/pods.json");
    let run = fairlink(&["import", "k8s", &pods, "--rate", "1tbit", "--json"]).quiet().json();
    assert_eq!(run["links"][0]["gateway_bps"].is_number(), fast["gateway_bps"].is_number());
    assert!(
        run["links"][0]["problems"][0]["message"].as_str().is_some_and(|said| said.contains("of 1 Tbit/s")),
        "{run}"
    );
}

#[test]
fn check_prints_hdrr_as_the_paper_does_beside_what_holds() {
    let json = fairlink(&["check", &scenario("fig1.toml"), "--scheduler", "hdrr", "--json"]).quiet().json();
    let printed = &json["theorems"]["as_printed"];
    assert_eq!((&printed[0]["theorem"], &printed[0]["value"]), (&json!("[hls] Theorem 4"), &json!(1522.5)));
    let gap = printed[1]["value"].as_f64().expect("a time");
    assert!(
        (gap - 3.6).abs() < 1e-4 && json["link"]["bounds"]["transmission_gap_s"].as_f64().expect("a time") < gap,
        "{json}"
    );
    let text = fairlink(&["check", &scenario("fig1.toml"), "--scheduler", "hdrr"]).quiet().stdout;
    assert!(text.contains("[hls] Theorem 4 gives a fairness of 1522.5 B"), "{text}");
    assert!(text.contains("[hls] Theorem 6 gives a transmission gap of 3.6 s"), "{text}");
}

#[test]
fn check_names_the_inner_curves_that_hfsc_cannot_meet_and_how_far_virtual_times_are_apart() {
    let class = |name: &str, parent: &str, curves: &str| format!("[[class]]\nname = \"{name}\"\n{parent}\n{curves}\n");
    let half = "link_share = { m1 = \"4mbit\", d = \"0s\", m2 = \"4mbit\" }";
    let steep = "{ m1 = \"4mbit\", d = \"100ms\", m2 = \"800kbit\" }";
    let late = "{ m1 = \"0bit\", d = \"100ms\", m2 = \"3200kbit\" }";
    let both = |curve: &str| format!("real_time = {curve}\nlink_share = {curve}");
    let mut file = "[link]\nrate = \"8mbit\"\nscheduler = \"hfsc\"\nmtu = \"500B\"\n".to_owned();
    file += &[class("A", "", half), class("B", "", half)].concat();
    for (name, parent, curve) in [("1", "A", steep), ("2", "A", late), ("3", "B", steep), ("4", "B", late)] {
        file += &class(name, &format!("parent = \"{parent}\""), &both(curve));
    }
    let scratch = Scratch::new();
    let link = scratch.write("fig4.toml", &file);
    let json = fairlink(&["check", &link, "--json"]).json();
    let curves = json["theorems"]["inner_curves"].as_array().unwrap_or_else(|| panic!("{json}"));
    assert_eq!(curves.iter().map(|curve| curve["class"].as_str().expect("a name")).collect::<Vec<_>>(), ["A", "B"]);
    let b = &curves[1];
    assert_eq!((&b["from_s"], &b["short_by_bytes"], &b["at_s"]), (&json!(0.0), &json!(40_000.0), &json!(0.1)));
    assert!(b["at_most_bytes"].as_f64().expect("a size") > 40_000.0);
    assert_eq!(json["theorems"]["deadlines_missed_by_s"], 0.0005);
    assert!(json["theorems"]["virtual_times"]["bound_s"].as_f64().expect("a time") > 0.0);
    let text = fairlink(&["check", &link]).stdout;
    assert!(text.contains("B can miss its curve") && text.contains("40 kB (100 ms later)"), "{text}");
    assert!(!text.contains("Also promised"), "{text}");
}

#[test]
fn check_estimates_the_mean_delay_under_drr_plus_plus_from_a_demand() {
    let mut file = "[link]\nrate = \"250kbit\"\nscheduler = \"drr++\"\nmtu = \"740B\"\n".to_owned();
    file += "[[class]]\nname = \"lc\"\nquantum = \"2000B\"\nlatency_critical = true\n";
    for name in ["x", "y", "z"] {
        file += &format!("[[class]]\nname = \"{name}\"\nquantum = \"1500B\"\n");
    }
    let scratch = Scratch::new();
    let link = scratch.write("thesis.toml", &file);
    let load = ["check", &link, "--demand", "lc=49200bit", "--packet", "410B"];
    let json = fairlink(&[&load[..], &["--json"]].concat()).json();
    let mean = &json["theorems"]["mean_delays"][0];
    // 0.5 * 28000 / (250000 - 28000 * 15 / 4) s.
    assert!((mean["mean_delay_s"].as_f64().expect("a time") - 14.0 / 145.0).abs() < 1e-9, "{json}");
    assert_eq!(json["theorems"]["as_printed"][0]["theorem"], "[drrpp] Theorem 2");
    let text = fairlink(&load).stdout;
    assert!(
        text.contains("mean delay        of lc about 96.55 ms") && text.contains("0.95 to 3 times the measured delay"),
        "{text}"
    );
    // 120 of the 142.9 kbit/s that it has while all are busy; and quanta of one packet.
    for (demand, packet, says) in [("lc=120kbit", "410B", "above half"), ("lc=20kbit", "740B", "two to four")] {
        let load = ["check", &link, "--demand", demand, "--packet", packet, "--json"];
        let load = if says == "two to four" {
            ["check", &link, "--demand", demand, "--packet", "100B", "--json"]
        } else {
            load
        };
        let json = fairlink(&load).json();
        let mean = &json["theorems"]["mean_delays"][0];
        assert!(mean.get("mean_delay_s").is_none() && mean["why_none"].to_string().contains(says), "{mean} {packet}");
    }
    for (args, says) in [
        (&["--demand", "x=1kbit"][..], "x is not latency_critical"),
        (&["--demand", "lc=1kbit", "--packet", "0B"], "the smallest is 1 B"),
        (&["--demand", "lc=1kbit", "--scheduler", "drr"], "write --scheduler drr++"),
        (&["--demand", "nope=1kbit"], "no class \"nope\""),
        (&["--packet", "410B"], "--demand"),
    ] {
        let run = fairlink(&[&["check", &link, "--lenient"][..], args].concat());
        assert_eq!(run.code, 2, "{args:?}: {}", run.stderr);
        assert!(run.stderr.contains(says), "{args:?}: {}", run.stderr);
    }
}

#[test]
fn a_limit_or_a_quantum_that_cannot_be_kept_as_written_is_warned_of_with_both_numbers() {
    let dir = Scratch::new();
    let warned = |scheduler: &str, classes: &str| {
        let text = format!("link = {{ rate = '10mbit', scheduler = '{scheduler}' }}\nclass = [{classes}]\n");
        fairlink(&["check", &dir.write("link.toml", &text), "--json"]).quiet().json()["problems"].to_string()
    };
    let curve = warned(
        "hfsc",
        "{ name = 'a', weight = 1, real_time = { rate = '8mbit' }, upper_limit = { rate = '2mbit' } }, { name = 'b', weight = 1 }",
    );
    assert!(curve.contains("of 2 Mbit/s") && curve.contains("of 8 Mbit/s"), "{curve}");
    let quantum = warned("htb", "{ name = 'a', quantum = '500B' }, { name = 'b', quantum = '3000B' }");
    assert!(quantum.contains("of 500 B") && quantum.contains("1500 B"), "{quantum}");
    let kept = warned("htb", "{ name = 'a', quantum = '1500B' }, { name = 'b', quantum = '3000B' }");
    assert_eq!(kept, "[]");
}

#[test]
fn check_bounds_the_delay_over_the_links_of_a_route() {
    let file = scenario("network/bounds.toml");
    let json = fairlink(&["check", &file, "--json"]).quiet().json();
    let (flow, servers) = (&json["network"]["flows"][0], &json["network"]["servers"]);
    assert_eq!(
        (&flow["name"], &flow["method"]),
        (&"control > core:control > exit:control".into(), &"bursts_once".into())
    );
    // 3 kB at 4 Mbit/s; latencies; 6 kB of the other source at 6 Mbit/s; a packet of 500 B at the first link, where the
    // source is alone, and at the 4 Mbit/s that the other leaves at the second; propagation.
    let latency = |server: &serde_json::Value| server["latency_s"].as_f64().expect("a number");
    let latencies: f64 = servers
        .as_array()
        .expect("a list")
        .iter()
        .filter(|server| server["delay_bound_s"].is_number())
        .map(latency)
        .sum();
    let own = 24e3 / 4e6 + latencies + 48e3 / 6e6 + 4e3 / 4e6 + f64::min(12e3 / 6e6, 4e3 / 4e6) + 0.006;
    let bound = flow["delay_bound_s"].as_f64().expect("a number");
    assert!((bound - own).abs() < 1e-9, "{bound} and {own}");
    let text = fairlink(&["check", &file]).quiet().stdout;
    assert!(text.contains("Routes, over all their links:") && text.contains("  at core:control"), "{text}");
    let sim = fairlink(&["sim", &file]).quiet();
    assert!(!sim.stdout.is_empty(), "the expectations are the bounds at each link");
}

#[test]
fn check_says_why_a_route_has_no_bound() {
    let dir = Scratch::new();
    let plain = std::fs::read_to_string(scenario("network/bounds.toml")).expect("a scenario");
    let without = |from: &str, to: &str| {
        assert!(plain.contains(from), "{from}");
        let file = dir.write("changed.toml", &plain.replacen(from, to, 1));
        let text = fairlink(&["check", &file]).stdout;
        let line = text.lines().find(|line| line.starts_with("not computed      control > "));
        line.unwrap_or_else(|| panic!("{from}: {text}")).to_owned()
    };
    let shape = "shape = { burst = \"3kB\", rate = \"2mbit\" }\n";
    assert!(without(shape, "").contains("because no arrival curve limits it: add shape or police to the source"));
    let other = "shape = { burst = \"6kB\", rate = \"2mbit\" }\n";
    let why = "because it meets the source of core:control, which has no bound: no arrival curve limits it";
    assert!(without(other, "").contains(why));
    assert!(
        without("scheduler = \"hls\"", "scheduler = \"htb\"").contains("htb promises control no rate with a latency")
    );
    assert!(
        without("rate = \"2mbit\" }", "rate = \"5mbit\" }")
            .contains("send 5000000 bit/s, and 4000000 bit/s are guaranteed")
    );
    let critical = "guarantee = \"4mbit\"\nlatency_critical = true\nburst = \"1kB\"";
    assert!(without("guarantee = \"4mbit\"", critical).contains("set burst = \"3000B\""));
}
