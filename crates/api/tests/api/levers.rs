//! `explain` prints what `fluid` gives after the change: each change is made in the text of the file or in the demand.

use std::collections::BTreeMap;

use fairlink_api::explain;
use fairlink_config::SourceText;
use fairlink_core::Rate;
use rand::Rng;
use serde_json::Value;

use crate::files::{Demand, File, LINK_BPS, for_each_file};

/// Rounding of `f64` and of demands in whole bit/s.
const CLOSE_BPS: f64 = 20.0;

#[test]
fn every_gain_is_that_of_the_changed_file_or_demand() {
    let mut compared: BTreeMap<String, usize> = BTreeMap::new();
    let mut wrong = Vec::new();
    for_each_file(18, |info, file, _, rng| {
        let mut demand = Demand::default();
        for leaf in file.leaves() {
            match rng.random_range(0..6) {
                0 => {}
                1..5 => demand.set(leaf, None),
                _ => demand.set(leaf, Some(LINK_BPS / 100 * rng.random_range(2..60))),
            }
        }
        let class = rng.random_range(0..file.classes.len());
        let step = Rate::from_bps(LINK_BPS / 20 * rng.random_range(1..4)).ok();
        let before = file.fluid(&demand);
        let source = SourceText::new("file.toml", file.text());
        let found = explain(&source, &format!("c{class}"), Some(&demand.text()), step).unwrap().document;
        let found = serde_json::to_value(&found).unwrap();
        let Some(changes) = found.get("changes") else { return };
        let rate = |fluid: &fairlink_api::Fluid, class: usize| {
            let ideal = fluid.solved.as_ref().expect("explain has a rate");
            assert_eq!(ideal.run_because(), None, "a run is too coarse for a gain");
            ideal.bps(fluid.link.names.find(&format!("c{class}")).unwrap())
        };
        for change in ["helpful", "useless"].iter().flat_map(|list| changes[list].as_array().unwrap()) {
            let (mut changed, mut asked) = (file.clone(), demand.clone());
            apply(change, &mut changed, &mut asked, class, |class| rate(&before, class));
            let after = rate(&changed.fluid(&asked), class);
            let (gain, expected) = (change["gain_bps"].as_f64().unwrap(), after - rate(&before, class));
            if (gain - expected).abs() > CLOSE_BPS {
                wrong.push(format!("{change}: {expected} of c{class} with {} under\n{}", demand.text(), file.text()));
            }
            *compared.entry(format!("{} {}", info.name, change["change"].as_str().unwrap())).or_default() += 1;
        }
    });
    let all: usize = compared.values().sum();
    println!("{all} gains, by scheduler and change: {compared:?}");
    assert!(wrong.is_empty(), "{} of {all} are wrong; the first: {}", wrong.len(), wrong[0]);
}

/// The leaf a asks for less than its real-time curve, which passes ceilings: as a ceiling, 3.5 Mbit/s left it 4.
#[test]
fn less_demand_than_a_real_time_curve_is_no_ceiling() {
    let text = "[link]\nrate = '10mbit'\nscheduler = 'hfsc'\n\
                [[class]]\nname = 'a'\nguarantee = '5mbit'\nreal_time = { rate = '4mbit' }\n\
                [[class]]\nname = 'c'\nguarantee = '1mbit'\n[[class]]\nname = 'b'\nguarantee = '4mbit'\n";
    let found = explain(&SourceText::new("file.toml", text), "b", Some("a=4.5mbit,b=inf,c=inf"), None).unwrap();
    let found = serde_json::to_value(&found.document).unwrap();
    let helpful = found["changes"]["helpful"].as_array().unwrap();
    let less = helpful.iter().find(|change| change["change"] == "asks_less" && change["class"] == "a").unwrap();
    assert_eq!((&less["to_bps"], &less["gain_bps"]), (&3_500_000.into(), &800_000.0.into()));
}

/// Makes a change in the file or the demand of which `class` was explained.
fn apply(change: &Value, file: &mut File, demand: &mut Demand, class: usize, rate: impl Fn(usize) -> f64) {
    let at = change["class"].as_str().unwrap().strip_prefix('c').map(|index| index.parse::<usize>().unwrap());
    let number = |key: &str| change[key].as_u64();
    match (change["change"].as_str().unwrap(), at) {
        ("link", _) => file.rate = number("to_bps").unwrap(),
        ("asks_more", _) => file.leaves_below(class).into_iter().for_each(|leaf| demand.set(leaf, None)),
        ("asks_less", Some(at)) => ask_less(file, demand, at, number("to_bps").unwrap(), rate),
        ("guarantee", Some(at)) => {
            let to = number("to_bps").unwrap();
            if change["fits"] == false {
                give_up(file, at, to);
            }
            file.classes[at].guarantee = Some(to);
        }
        ("weight", Some(at)) => {
            for sibling in file.siblings(at) {
                file.classes[sibling].weight.get_or_insert(1);
            }
            file.classes[at].weight = number("to_weight");
        }
        ("no_limit", Some(at)) => {
            let class = &mut file.classes[at];
            let limit = number("from_bps");
            if class.ceiling == limit {
                class.ceiling = None;
            } else if class.upper_limit == limit {
                class.upper_limit = None;
            } else if class.isolated {
                class.isolated = false;
            } else if class.bounded {
                class.bounded = false;
            } else {
                assert_eq!(class.real_time, limit);
                class.link_share = class.real_time;
            }
        }
        other => panic!("an unknown change: {other:?}"),
    }
}

/// All leaves below a class ask together for `to`, each in proportion to what it gets.
fn ask_less(file: &File, demand: &mut Demand, at: usize, to: u64, rate: impl Fn(usize) -> f64) {
    let leaves = file.leaves_below(at);
    let all: f64 = leaves.iter().map(|&leaf| rate(leaf)).sum();
    for &leaf in &leaves {
        demand.set(leaf, Some((rate(leaf) * to as f64 / all).round() as u64));
    }
}

/// The siblings of a class and all below them give up what its parent lacks for the guarantee `to`.
fn give_up(file: &mut File, at: usize, to: u64) {
    let guarantee = |class: usize| file.classes[class].guarantee.unwrap();
    let siblings = file.siblings(at);
    let all: u64 = siblings.iter().map(|&sibling| guarantee(sibling)).sum();
    let has = file.classes[at].parent.map_or(file.rate, guarantee);
    let part = (has - to) as f64 / all as f64;
    for class in 0..file.classes.len() {
        let mut up = std::iter::successors(Some(class), |&at| file.classes[at].parent);
        if up.any(|at| siblings.contains(&at)) {
            let one = &mut file.classes[class].guarantee;
            *one = one.map(|bps| ((bps as f64 * part) as u64).max(1));
        }
    }
}
