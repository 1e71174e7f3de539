//! `fairlink fluid` and `fairlink explain`.

use serde_json::{Value, json};

use crate::{Scratch, fairlink, scenario};

fn class<'a>(document: &'a Value, name: &str) -> &'a Value {
    let classes = document["link"]["classes"].as_array().expect("a list");
    classes.iter().find(|class| class["name"] == name).expect("the class")
}

#[test]
fn fluid_gives_what_c_leaves_to_a_and_b_evenly() {
    let args = ["fluid", &scenario("fig1.toml"), "--demand", "A1=inf,B2=inf,C=100mbit"];
    let json = fairlink(&[&args[..], &["--json"]].concat()).quiet().json();
    assert_eq!(json["link"]["capacity_bps"], 1_000_000_000);
    let expected = json!({"name": "A1", "parent": "A", "leaf": true, "ideal": {"request_bps": null,
        "allocation_bps": 450_000_000.0, "exact_bps": "450000000", "satisfied": false, "limited_by": "A"}});
    assert_eq!(class(&json, "A1"), &expected);
    let c = class(&json, "C");
    assert_eq!(
        (&c["ideal"]["request_bps"], &c["ideal"]["satisfied"], &c["ideal"]["limited_by"]),
        (&json!(100_000_000), &json!(true), &json!(null))
    );
    assert_eq!((&class(&json, "A")["parent"], &class(&json, "A")["leaf"]), (&json!(null), &json!(false)));
    assert_eq!(class(&json, "A")["ideal"]["limited_by"], "link");
    let text = fairlink(&args).quiet().stdout;
    let a1 = text.lines().find(|line| line.trim_start().starts_with("A1")).expect("a line");
    assert!(a1.contains("450 Mbit/s") && a1.contains("45 %"), "{text}");
}

#[test]
fn fair_is_exact_and_respects_ceilings_and_without_it_the_scheduler_has_its_own_rule() {
    let dir = Scratch::new();
    let link = dir.write(
        "link.toml",
        "link = { rate = '100mbit', scheduler = 'fifo' }\n\
         class = [{ name = 'a', ceiling = '10mbit' }, { name = 'b' }, { name = 'c' }, { name = 'd' }, { name = 'e', parent = 'd' }]",
    );
    let json = fairlink(&["fluid", &link, "--fair", "--json"]).quiet().json();
    let a = class(&json, "a");
    assert_eq!(
        (&a["ideal"]["allocation_bps"], &a["ideal"]["limited_by"], &a["ideal"]["satisfied"]),
        (&json!(1e7), &json!("a"), &json!(true))
    );
    assert_eq!(class(&json, "b")["ideal"]["exact_bps"], "30000000");
    let json = fairlink(&["fluid", &link, "--fair", "--json", "--demand", "b=inf,c=inf,e=inf"]).quiet().json();
    assert_eq!(class(&json, "e")["ideal"]["exact_bps"], "100000000/3");
    let text = fairlink(&["fluid", "--fair", &link]).quiet().stdout;
    assert!(text.contains("own ceiling"), "{text}");
    // A FIFO shares by queued packets: no number, and the reason.
    let json = fairlink(&["fluid", &link, "--json"]).quiet().json();
    assert_eq!((json["rule"].as_str(), class(&json, "a").get("ideal")), (Some("fifo"), None));
    assert!(json["link"]["notes"][0].as_str().is_some_and(|note| note.contains("not computed")), "{json}");
    let text = fairlink(&["fluid", &link]).quiet().stdout;
    assert!(text.contains("not computed") && text.contains("--fair"), "{text}");
    // All demands fit.
    let json = fairlink(&["fluid", &link, "--json", "--demand", "b=30mbit,c=20mbit"]).quiet().json();
    assert_eq!(class(&json, "b")["ideal"]["allocation_bps"], 3e7);
}

#[test]
fn fluid_knows_classes_that_do_not_borrow_or_lend() {
    let dir = Scratch::new();
    let link = dir.write(
        "link.toml",
        "link = { rate = '100mbit', scheduler = 'cbq-formal' }\n\
         class = [{ name = 'a', guarantee = '30mbit', isolated = true }, { name = 'b', guarantee = '20mbit', bounded = true },\n\
                  { name = 'c', guarantee = '50mbit' }]",
    );
    let gets = |demand: &str| {
        let json = fairlink(&["fluid", &link, "--json", "--demand", demand]).quiet().json();
        ["a", "b", "c"].map(|name| class(&json, name)["ideal"]["allocation_bps"].as_f64().expect("a rate") / 1e6)
    };
    // Up to 4 % more than the formal guidelines, by the error of estimators.
    let near = |demand: &str, formal: [f64; 3]| {
        let rates = gets(demand);
        let close = |(rate, formal): (&f64, f64)| (0.99..=1.04).contains(&(rate / formal)) || *rate == formal;
        assert!(rates.iter().zip(formal).all(close), "{demand}: {rates:?}");
    };
    near("a=inf,b=inf,c=inf", [30.0, 20.0, 50.0]);
    near("b=inf,c=inf", [0.0, 20.0, 50.0]);
    near("b=inf", [0.0, 20.0, 0.0]);
    let json = fairlink(&["fluid", &link, "--json"]).quiet().json();
    assert!(json["link"]["notes"][0].as_str().is_some_and(|note| note.contains("from a run of cbq-formal")), "{json}");
    // Differences between runs are no gains.
    let json = fairlink(&["explain", &link, "--class", "b", "--json"]).quiet().json();
    assert_eq!(json.get("changes"), None);
    assert!(json["notes"][1].as_str().is_some_and(|note| note.contains("changes are not computed")), "{json}");
    let text = fairlink(&["fluid", &link]).quiet().stdout;
    assert!(text.contains("own rate (isolated)") && text.contains("own rate (bounded)"), "{text}");
}

#[test]
fn schedulers_that_count_packets_say_that_shares_hold_for_packets_of_one_length() {
    let dir = Scratch::new();
    for (scheduler, told) in [("wrr", true), ("corr", true), ("drr", false)] {
        let text = format!(
            "link = {{ rate = '10mbit', scheduler = '{scheduler}' }}\n\
             class = [{{ name = 'a', guarantee = '7mbit' }}, {{ name = 'b', guarantee = '3mbit' }}]"
        );
        let link = dir.write("link.toml", &text);
        for command in ["check", "fluid", "explain"] {
            let mut args = vec![command, &*link, "--json"];
            if command == "explain" {
                args.extend(["--class", "a"]);
            }
            let json = fairlink(&args).quiet().json();
            let of = if command == "explain" { &json } else { &json["link"] };
            let notes = of["notes"].as_array().map_or(&[][..], Vec::as_slice);
            let says = |note: &Value| {
                note.as_str().is_some_and(|note| note.contains("packets of all classes have one length"))
            };
            assert_eq!(notes.iter().any(says), told, "{command} {scheduler}: {notes:?}");
            args.retain(|arg| *arg != "--json");
            let text = fairlink(&args).quiet().stdout;
            assert_eq!(text.contains("counts packets and not bytes"), told, "{text}");
            // Guarantees are whole packets a round: one more bit/s gains nothing or all at once.
            assert!(!text.contains("at first -"), "{text}");
        }
    }
}

#[test]
fn explain_names_the_chain_of_limits() {
    let args = ["explain", &scenario("fig1.toml"), "--demand", "A1=inf,A2=inf,C=inf", "--class", "A1"];
    let json = fairlink(&[&args[..], &["--json"]].concat()).quiet().json();
    assert_eq!((&json["class"], &json["limited_by"]), (&json!("A1"), &json!(["A", "link"])));
    let steps: Vec<_> = json["steps"].as_array().expect("a list").iter().map(|step| step["name"].clone()).collect();
    assert_eq!(steps, ["link", "A", "A1"]);
    let a = &json["steps"][1];
    assert_eq!((&a["siblings"]["idle"], &a["siblings"]["unsatisfied"]), (&json!(["B"]), &json!(["C"])));
    assert!((a["ideal"]["allocation_bps"].as_f64().expect("a number") - 3e9 / 7.0).abs() < 1.0, "{json}");
    // Guarantees are multiplied by a number, which is no rate: A gets 300 Mbit/s times 10 / 7.
    assert!((a["fair_share_per_weight"].as_f64().expect("a number") - 10.0 / 7.0).abs() < 1e-9, "{json}");
    assert!((a["entitled_bps"].as_f64().expect("a number") - 3e9 / 7.0).abs() < 1.0, "{json}");
    assert!(a.get("fair_share_bps").is_none());
    let text = fairlink(&args).quiet().stdout;
    assert_eq!(json["text"], text.as_str());
    assert!(text.contains("A1 is limited by A, then by the link."), "{text}");
}

#[test]
fn explain_says_what_would_get_a_class_more_and_what_lies_gain() {
    let args =
        ["explain", &scenario("fig1.toml"), "--demand", "A1=inf,B2=inf,C=200mbit", "--class", "A", "--step", "50mbit"];
    let json = fairlink(&[&args[..], &["--json"]].concat()).quiet().json();
    assert_eq!(json["changes"]["step_bps"], 50_000_000);
    let helpful = json["changes"]["helpful"].as_array().expect("a list");
    let gain = |change: &str, class: &str| {
        let this = helpful.iter().find(|one| one["change"] == change && one["class"] == class);
        let this = this.unwrap_or_else(|| panic!("no {change} of {class} in {json}"));
        (this["gain_bps"].as_f64().expect("a rate") / 1e6, this["gain_per_bps"].as_f64().expect("a part"))
    };
    // 800 for A and B: what B leaves is A's, and half of what C does.
    assert_eq!(gain("asks_less", "B"), (50.0, 1.0));
    assert_eq!(gain("asks_less", "C"), (25.0, 0.5));
    assert_eq!(gain("link", "link"), (25.0, 0.5));
    // The link has no room for 350: B gives up a 14th of 300, and so does C.
    let b = 300.0 * 13.0 / 14.0;
    assert!((gain("guarantee", "A").0 - (800.0 * 350.0 / (350.0 + b) - 400.0)).abs() < 0.01, "{json}");
    assert_eq!(json["changes"]["useless"][0]["change"], "asks_more");
    assert!(helpful.iter().all(|one| one["from_bps"].is_u64() && one.get("from_weight").is_none()), "{json}");
    // Of 100 Mbit/s a has 1 of 4 parts; with one more unit of weight 2 of 5: 15 more.
    let dir = Scratch::new();
    let text = "link = { rate = '100mbit' }\nclass = [{ name = 'a', weight = 1 }, { name = 'b', weight = 3 }]\n";
    let weights = fairlink(&["explain", &dir.write("link.toml", text), "--class", "a", "--json"]).quiet().json();
    let all = weights["changes"]["helpful"].as_array().expect("a list");
    let weight = all.iter().find(|one| one["change"] == "weight").expect("a weight");
    assert_eq!((weight["from_weight"].as_u64(), weight["gain_per_weight"].as_f64()), (Some(1), Some(15e6)));
    assert!(weight.get("from_bps").is_none() && weight.get("gain_per_bps").is_none(), "{weight}");
    // Under HTB's rule 300 + 200 / 3, and 300 + 200 * 3 / 5 where A's guarantee is all in A1.
    let rearrange = &json["strategy"]["rearrange"];
    assert_eq!((&rearrange["hmm"]["gain_bps"], &rearrange["hmm"]["with"]), (&json!(0.0), &json!([])));
    let best = rearrange["htb"]["best_bps"].as_f64().expect("a rate") / 1e6;
    assert!((best - 420.0).abs() < 0.1 && rearrange["htb"]["with"][0]["class"] == "A1", "{rearrange}");
    assert_eq!(json["strategy"]["misreport"]["htb"]["with"], json!([{ "class": "A2", "bps": null }]));
    let text = fairlink(&args).quiet().stdout;
    let says = "htb's rule: A gets 420 Mbit/s instead of 366.7 Mbit/s with A1 at 300 Mbit/s";
    assert!(text.contains(says) && text.contains("max-min fairness (hls): no gain"), "{text}");
    assert_eq!(fairlink(&[&args[..6], &["--step", "5"]].concat()).code, 2);
}

#[test]
fn a_wrong_demand_or_class_exits_with_2_and_says_what_is_wrong() {
    let link = scenario("fig1.toml");
    for (args, says) in [
        (&["fluid", &link, "--demand", "A3=inf"][..], "no class \"A3\""),
        (&["fluid", &link, "--demand", "A=inf"], "\"A\" has classes below it"),
        (&["fluid", &link, "--demand", "A1=5"], "no unit"),
        (&["fluid", &link, "--demand", "A1=5kbps"], "kbps"),
        (&["fluid", &link, "--demand", "A1=1mbit,A1=inf"], "twice"),
        (&["explain", &link, "--class", "A11"], "did you mean \"A1\""),
        (&["explain", &link, "--class", "nope"], "there are: A, A1, A2, B, B1, B2, C"),
        (&["explain", &link], "--class"),
        (&["fluid"], "<LINK>"),
        (&["fluid", "no-such-file.toml"], "no-such-file.toml"),
    ] {
        let run = fairlink(args);
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{args:?}");
        assert!(run.stderr.contains(says), "{args:?}: {}", run.stderr);
    }
}
