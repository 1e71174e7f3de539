//! Files of which an ideal or a bound was printed that is not what happens.

use fairlink_api::{CheckOptions, FluidOptions, SETTLE, SimOptions, check, fluid, simulate};
use fairlink_config::SourceText;
use fairlink_sim::Run;

/// Runs a scenario to its end.
fn run(text: &str, metrics: bool) -> Run {
    let options = SimOptions { metrics, settle: SETTLE, ..SimOptions::default() };
    let mut simulation = simulate(&SourceText::new("case.toml", text), &options).unwrap();
    while !simulation.done() {
        simulation.step_until(fairlink_core::Nanos::MAX).unwrap();
    }
    simulation.report().unwrap()
}

/// Measured and ideal rates of the only phase in bit/s.
fn rates(run: &Run) -> Vec<(f64, Option<f64>)> {
    run.phases[0].classes.iter().map(|class| (class.rates.settled(), class.rates.ideal_bps)).collect()
}

/// The file without its sources, as a link file, and what `check` says about queues.
fn warnings(text: &str) -> Vec<String> {
    let link = &text[text.find("[link]").unwrap()..text.find("[[source]]").unwrap()];
    let checked = check(&SourceText::new("link.toml", link), &CheckOptions::default()).unwrap();
    checked.warnings.iter().map(ToString::to_string).filter(|warning| warning.contains("too short")).collect()
}

/// The same file with a queue of this length for each class.
fn with_buffer(text: &str, buffer: &str) -> String {
    text.replace("[[class]]\n", &format!("[[class]]\nbuffer = \"{buffer}\"\n"))
}

#[test]
fn there_is_no_ideal_where_a_round_overflows_a_queue_and_check_names_the_queue() {
    // The text, the class whose queue is the shortest, and a queue that is enough for all.
    let cases = [
        (include_str!("cases/drr-ideal-drops.toml"), "drr", "a", "1.5MB", "a=3mbit,b=inf,tiny=inf"),
        (include_str!("cases/wrr-ideal.toml"), "wrr", "c2", "1.1MB", "c0=50kbit,c1=50kbit,c2=8867085bit,c3=inf"),
    ];
    for (text, scheduler, class, enough, demand) in cases {
        let why = format!("the ideal of {scheduler} is not computed: {class}: its queue holds 1");
        let found = run(text, false);
        assert!(rates(&found).iter().all(|(_, ideal)| ideal.is_none()), "{scheduler}");
        assert!(found.notes.iter().any(|note| note.starts_with(&why)), "{:?}", found.notes);
        let link = &text[text.find("[link]").unwrap()..text.find("[[source]]").unwrap()];
        let options = FluidOptions { demand: Some(demand), fair: false };
        let solved = fluid(&SourceText::new("link.toml", link), &options).unwrap();
        assert!(solved.solved.is_err() && solved.notes[0].contains(&format!("not computed: {class}: its queue")));
        let named = format!("at class \"{class}\" is too short for the rounds of {scheduler}");
        assert!(warnings(text).iter().any(|warning| warning.contains(&named)), "{:?}", warnings(text));

        let text = with_buffer(text, enough);
        assert_eq!(warnings(&text), [""; 0]);
        for (measured, ideal) in rates(&run(&text, false)) {
            // A round more or less, of two seconds.
            let ideal = ideal.unwrap();
            assert!((measured - ideal).abs() <= 0.12 * ideal, "{scheduler}: {measured} of {ideal}");
        }
    }
}

#[test]
fn the_gap_between_packets_has_a_bound_of_its_own() {
    let found = run(include_str!("cases/hls-gap-metric.toml"), true);
    let gap = |class: usize| found.metrics[class].transmission_gap_s.unwrap();
    let (small, large) = (gap(0), gap(1));
    // Two rounds are 5.5 ms. The small class needs hundreds of them for a packet.
    assert!(small.measured > 0.5 && !small.is_exceeded(), "{small:?}");
    assert!(small.measured > 0.95 * small.bound.unwrap(), "{small:?}");
    assert!(large.measured < large.bound.unwrap() && large.bound.unwrap() < 0.01, "{large:?}");
}

#[test]
fn a_small_burst_at_a_ceiling_leaves_an_ideal_only_if_runs_agree_on_it() {
    // Two sources of a class have packets of different lengths.
    let found = run(include_str!("cases/hls42.toml"), false);
    assert!(rates(&found).iter().all(|(_, ideal)| ideal.is_none()));
    assert!(found.notes.iter().any(|note| note.contains("not computed: c2: how much of its ceiling it reaches")));
    // In one of these the burst costs the first class half of its ceiling, in the other nothing.
    for (text, least) in [
        (include_str!("cases/hls-small-ceiling-burst.toml"), 16.5e6),
        (include_str!("cases/hls-ceilburst.toml"), 1.79e6),
    ] {
        let rates = rates(&run(text, false));
        assert!(rates.iter().all(|&(measured, ideal)| (measured / ideal.unwrap() - 1.0).abs() < 0.01), "{rates:?}");
        assert!(rates.iter().any(|&(measured, _)| measured > least && measured < 1.02 * least), "{rates:?}");
    }
}
