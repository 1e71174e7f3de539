//! Transmit queues and the counters of schedulers: Figures 5.1, 5.4 and 5.8 of the DRR++ thesis by command.

use serde_json::{Value, json};

use crate::{Scratch, fairlink, leaves, scenario};

fn runs(args: &[&str]) -> Vec<Value> {
    fairlink(args).json()["runs"].as_array().expect("a list").clone()
}

/// The mean over the runs of the mean delay of `class`, in ms.
fn delay_ms(runs: &[Value], class: usize) -> f64 {
    let of = |run: &Value| run["link"]["classes"][class]["delay_s"]["mean"].as_f64().expect("a number") * 1e3;
    runs.iter().map(of).sum::<f64>() / runs.len() as f64
}

/// A link file with nothing but the scheduler where `fig51.toml` has a transmit queue.
fn fig51(dir: &Scratch, queue: &str) -> String {
    let text = std::fs::read_to_string(scenario("thesis/fig51.toml")).expect("the scenario");
    let own = "transmit_queue = \"1p\"\ntransmit_priority = true\n";
    assert!(text.contains(own));
    dir.write("fig51.toml", &text.replace(own, queue))
}

#[test]
fn figure_5_1_the_delay_grows_by_about_half_a_quantum_and_with_transmit_queues_by_no_more_than_1_1() {
    let dir = Scratch::new();
    let alone = delay_ms(&runs(&["sim", &scenario("thesis/fig51-alone.toml"), "--runs", "5", "--json"]), 0);
    assert!((alone / 15.0 - 1.0).abs() < 0.1, "{alone} ms with nobody else");
    let quantum = 2666.0 * 8.0 / 250.0;
    let growth = |queue: &str| {
        let runs = runs(&["sim", &fig51(&dir, queue), "--runs", "5", "--json"]);
        (delay_ms(&runs, 0) - alone) / quantum
    };
    let bare = growth("");
    let with = |packets: u32, priority: bool| {
        growth(&format!("transmit_queue = \"{packets}p\"\ntransmit_priority = {priority}\n"))
    };
    let prio = [1, 2, 4].map(|packets| with(packets, true));
    let plain = [1, 2].map(|packets| with(packets, false));
    println!("growth in quanta: bare {bare:.2}, priority 1, 2, 4: {prio:.2?}, plain 1, 2: {plain:.2?}");
    for growth in [bare].iter().chain(&prio).chain(&plain) {
        assert!((0.4..=1.1).contains(growth), "{growth} quanta");
    }
    assert!(bare < plain[0] && plain[0] < plain[1], "{bare}, {plain:?}");
}

/// By quantum: total rounds, services and backlogs of the latency-critical class, under both schedulers.
fn figure(name: &str) -> Vec<[[f64; 3]; 2]> {
    let sweep = "class.lc.quantum=800B,1200B,2000B,4000B";
    let file = scenario(name);
    let args = ["sim", &file, "--lenient", "--scheduler", "drr++", "--scheduler", "drr+", "--sweep", sweep];
    let runs = runs(&[&args[..], &["--runs", "3", "--json"]].concat());
    let of = |quantum: f64, scheduler: &str| {
        let of_this = |run: &&Value| {
            run["link"]["scheduler"] == scheduler && run["sweep"]["class.lc.quantum"].as_f64() == Some(quantum)
        };
        let runs: Vec<&Value> = runs.iter().filter(of_this).collect();
        assert_eq!(runs.len(), 3, "{quantum} {scheduler}");
        let mean = |count: &dyn Fn(&Value) -> &Value| {
            runs.iter().map(|run| count(run).as_f64().expect("a count")).sum::<f64>() / runs.len() as f64
        };
        let lc = |name: &'static str| move |run: &Value| run["link"]["classes"][0]["counters"][name].as_f64();
        let class = |name: &'static str| runs.iter().filter_map(|run| lc(name)(run)).sum::<f64>() / runs.len() as f64;
        [mean(&|run| &run["link"]["counters"]["total_rounds"]), class("services"), class("backlogs")]
    };
    [800.0, 1200.0, 2000.0, 4000.0].map(|quantum| ["drr++", "drr+"].map(|scheduler| of(quantum, scheduler))).to_vec()
}

/// Backlogs fall with the quantum and are fewer under DRR++; the class is visited more often per round there.
fn is_ordered(figure: &[[[f64; 3]; 2]]) {
    println!("{figure:?}");
    for [plus_plus, plus] in figure {
        assert!(plus_plus[2] <= plus[2], "backlogs {} and {}", plus_plus[2], plus[2]);
        assert!(plus_plus[1] >= plus[1], "services {} and {}", plus_plus[1], plus[1]);
        assert!(plus_plus[1] / plus_plus[0] > plus[1] / plus[0], "services per round: {plus_plus:?}, {plus:?}");
    }
    for (less, more) in figure.iter().zip(&figure[1..]) {
        for scheduler in 0..2 {
            assert!(more[scheduler][2] < less[scheduler][2], "fewer backlogs with more quantum");
            assert!(more[scheduler][1] < less[scheduler][1], "fewer visits with more quantum");
        }
    }
    // From 800 to 4000 B.
    let rounds = |scheduler: usize| figure[0][scheduler][0] / figure[figure.len() - 1][scheduler][0];
    assert!((0.95..1.05).contains(&rounds(0)), "drr++: {} times the rounds", rounds(0));
    assert!(rounds(1) > rounds(0) + 0.02, "drr+: {} times the rounds, drr++ {}", rounds(1), rounds(0));
}

#[test]
fn figure_5_4_rounds_are_flat_under_drr_plus_plus_and_fall_with_the_quantum_under_drr_plus() {
    is_ordered(&figure("thesis/fig54.toml"));
}

#[test]
fn figure_5_8_shows_the_same_on_a_busy_link() {
    is_ordered(&figure("thesis/fig58.toml"));
}

#[test]
fn what_schedulers_count_is_in_text_and_json_and_adds_up_over_a_change() {
    let dir = Scratch::new();
    let classes = "[[class]]\nname = \"A\"\nguarantee = \"4mbit\"\n[[class]]\nname = \"a\"\nparent = \"A\"\nguarantee = \"1mbit\"\n\
                   [[class]]\nname = \"b\"\nguarantee = \"1mbit\"\n";
    dir.write("after.toml", &format!("[link]\nrate = \"20mbit\"\nscheduler = \"htb\"\n{classes}"));
    let change = "[[change]]\nat = \"1s\"\nlink = \"after.toml\"\n";
    let source = "[[source]]\nclass = \"a\"\nmodel = \"greedy\"\npacket = \"1000B\"\n";
    let head = "duration = \"2s\"\n[link]\nrate = \"10mbit\"\nscheduler = \"htb\"\n";
    let file = |name: &str, change: &str| dir.write(name, &format!("{head}{classes}{source}{change}"));
    let borrowed = |file: &str| {
        let json = fairlink(&["sim", file, "--json"]).json();
        let run = &json["runs"][0];
        let class = &leaves(run)[0];
        let lent = run["link"]["counters"]["lent_bytes"].as_u64().expect("a count")
            + run["link"]["classes"][0]["counters"]["lent_bytes"].as_u64().expect("a count");
        assert_eq!(class["counters"]["borrowed_bytes"], json!(lent), "{run}");
        (
            class["counters"]["borrowed_bytes"].as_u64().expect("a count"),
            class["counts"]["sent"]["bytes"].as_u64().expect("a count"),
        )
    };
    let (one, sent) = borrowed(&file("one.toml", ""));
    // 1 Mbit/s of 10 is its own, and a burst.
    assert!(one * 10 < sent * 9 && one * 100 > sent * 88, "{one} of {sent}");
    let (both, sent_both) = borrowed(&file("two.toml", change));
    assert!(both > one && sent_both > sent, "{both} of {sent_both}, {one} of {sent}");
    let text = fairlink(&["sim", &file("one.toml", "")]).stdout;
    assert!(text.contains("borrowed bytes") && text.contains(&one.to_string()), "{text}");
}

#[test]
fn check_adds_the_transmit_queue_to_what_is_proven_and_warns_of_the_rest() {
    let dir = Scratch::new();
    let link = |scheduler: &str, queue: &str| {
        let class = |name: &str, more: &str| format!("[[class]]\nname = \"{name}\"\n{more}\n");
        let classes = class("lc", "latency_critical = true\nquantum = \"1500B\"") + &class("be", "quantum = \"1500B\"");
        let classes = if scheduler == "drr++" { classes } else { class("lc", "") + &class("be", "") };
        dir.write("link.toml", &format!("[link]\nrate = \"12mbit\"\nscheduler = \"{scheduler}\"\n{queue}{classes}"))
    };
    let check = |scheduler: &str, queue: &str| fairlink(&["check", &link(scheduler, queue), "--json"]).json();
    let delay = |json: &Value, class: usize| json["link"]["classes"][class]["bounds"]["delay_bound_s"].as_f64();
    let four = "transmit_queue = \"4p\"\n";
    let first = "transmit_queue = \"4p\"\ntransmit_priority = true\n";
    // 1500 B take 1 ms.
    let bare = delay(&check("drr++", ""), 0).expect("a bound");
    for queue in [four, first] {
        let with = delay(&check("drr++", queue), 0).expect("a bound");
        assert!((with - bare - 0.004).abs() < 1e-9, "{with} {bare}");
    }
    let bare = delay(&check("drr", ""), 1).expect("a bound");
    let json = check("drr", four);
    assert!((delay(&json, 1).expect("a bound") - bare - 0.004).abs() < 1e-9, "{json}");
    let warning = json["problems"][0]["message"].as_str().expect("a warning");
    assert!(warning.contains("fairness"), "{json}");
    let json = check("wf2q+", four);
    assert_eq!(
        (delay(&json, 0), &json["link"]["classes"][0]["bounds"]["worst_case_bytes"]),
        (None, &Value::Null),
        "{json}"
    );
    assert!(json["problems"][0]["message"].as_str().expect("a warning").contains("delay"), "{json}");
}

#[test]
fn transmit_queues_that_cannot_be_are_refused_with_the_limits() {
    let dir = Scratch::new();
    let refused = |queue: &str| {
        let file = dir.write("link.toml", &format!("[link]\nrate = \"1mbit\"\n{queue}\n[[class]]\nname = \"a\"\n"));
        let done = fairlink(&["check", &file]);
        assert_eq!(done.code, 2, "{queue}");
        done.stderr
    };
    assert!(refused("transmit_queue = \"65537p\"").contains("65536p"));
    assert!(refused("transmit_queue = \"1500B\"").contains("with the unit p"));
    assert!(refused("transmit_priority = true").contains("there is none"));
}
