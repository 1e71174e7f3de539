//! The last line of a demo: one sentence that says from the numbers who gave every class its ideal rate, and who did not.

use fairlink_lab::measure::{Deviation, TOLERANCE, relative, worst};
use fairlink_net::{DemoPhase, DemoRate, DemoRun, KERNEL_HTB};

use crate::human;

/// What was seen. `None` where nothing was measured.
pub(super) fn closing(runs: &[DemoRun]) -> Option<String> {
    let parts: Vec<_> = runs.iter().filter_map(said).collect();
    (!parts.is_empty()).then(|| format!("Seen: {}.", parts.join("; ")))
}

fn said(run: &DemoRun) -> Option<String> {
    let deviations = run.phases.iter().enumerate().flat_map(|(index, phase)| {
        let classes = phase.classes.iter();
        classes.map(move |class| Deviation::new(index, &class.name, class.rate_bps, class.ideal_bps, run.link_bps))
    });
    let Deviation { phase, relative: off, .. } = worst(deviations)?;
    let who = if run.scheduler == KERNEL_HTB { "the kernel's HTB" } else { &run.scheduler };
    let phases = run.phases.len();
    if off > TOLERANCE {
        let phase = run.phases.get(phase)?;
        if let Some((used, uneven)) = starved(run) {
            return Some(format!(
                "{who} kept the ideal shares to within {}, but in one phase only {} of what should be sent was: this machine \
                 had too little time for it, try again when it is less busy",
                least(uneven),
                human::percent(used)
            ));
        }
        return Some(format!("{who} missed the ideal by up to {}: {}", human::percent(off), seen(phase, run.link_bps)));
    }
    let in_phases = if phases == 1 { "in its phase".to_owned() } else { format!("in all {phases} phases") };
    Some(format!("{who} gave every class its ideal rate to within {} {in_phases}", least(off)))
}

/// At least so much, in hundredths of a percent.
fn least(off: f64) -> String {
    human::percent((off * 1e4).ceil().max(1.0) / 1e4)
}

/// Tells a link that was not full from shares that are wrong. Where every share is as it should be and too little was sent all the
/// same: the smallest part of the ideal total that was sent in a phase, and how far a share was from its ideal at most.
fn starved(run: &DemoRun) -> Option<(f64, f64)> {
    let (mut used, mut uneven) = (1.0f64, 0.0f64);
    for phase in &run.phases {
        let total: f64 = phase.classes.iter().map(|rate| rate.rate_bps).sum();
        let ideal: f64 = phase.classes.iter().map(|rate| rate.ideal_bps).sum();
        if total <= 0.0 || ideal <= 0.0 {
            return None;
        }
        used = used.min(total / ideal);
        let off = |rate: &DemoRate| relative(rate.rate_bps / total, rate.ideal_bps / ideal, 1.0);
        uneven = phase.classes.iter().map(off).fold(uneven, f64::max);
    }
    (used < 1.0 - TOLERANCE && uneven <= TOLERANCE).then_some((used, uneven))
}

/// The rates of one phase beside the ideal ones, of classes that got or should have got anything.
fn seen(phase: &DemoPhase, link_bps: f64) -> String {
    let shown: Vec<&DemoRate> = phase.classes.iter().filter(|rate| counts(rate, link_bps)).collect();
    let names: Vec<_> = shown.iter().map(|rate| rate.name.as_str()).collect();
    let list = |bps: fn(&DemoRate) -> f64| {
        let rates: Vec<_> = shown.iter().map(|rate| format!("{:.1}", bps(rate) / 1e6)).collect();
        rates.join("/")
    };
    format!(
        "{} got {} Mbit/s from {} to {} s, where {} is fair",
        names.join("/"),
        list(|rate| rate.rate_bps),
        phase.start_s,
        phase.end_s,
        list(|rate| rate.ideal_bps)
    )
}

/// Whether a class should get anything, or got more than a trace.
pub(super) fn counts(rate: &DemoRate, link_bps: f64) -> bool {
    rate.ideal_bps > 0.0 || relative(rate.rate_bps, 0.0, link_bps) > 0.001
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(scheduler: &str, rates: [(f64, f64); 2]) -> DemoRun {
        let class = |name: &str, (rate, ideal): (f64, f64)| DemoRate {
            name: name.to_owned(),
            rate_bps: rate * 1e6,
            ideal_bps: ideal * 1e6,
        };
        let phase = |start_s, rates: [(f64, f64); 2]| DemoPhase {
            start_s,
            end_s: start_s + 2.5,
            classes: vec![class("A1", rates[0]), class("B2", rates[1]), class("C", (0.0, 0.0))],
        };
        DemoRun {
            experiment: 2,
            scenario: Some("H".to_owned()),
            scheduler: scheduler.to_owned(),
            link_bps: 1e8,
            phases: vec![phase(0.0, [(30.0, 30.0), (30.0, 30.0)]), phase(2.5, rates)],
            quanta_bytes: None,
            accounting: None,
        }
    }

    #[test]
    fn the_sentence_says_what_the_numbers_say() {
        let kept = run("hls", [(49.9, 50.0), (50.05, 50.0)]);
        let missed = run(KERNEL_HTB, [(34.0, 50.0), (66.0, 50.0)]);
        assert_eq!(
            closing(&[kept, missed]).unwrap(),
            "Seen: hls gave every class its ideal rate to within 0.2 % in all 2 phases; the kernel's HTB missed the ideal \
             by up to 32 %: A1/B2 got 34.0/66.0 Mbit/s from 2.5 to 5 s, where 50.0/50.0 is fair."
        );
        let missed = run("hls", [(48.0, 50.0), (50.0, 50.0)]);
        assert!(closing(&[missed]).unwrap().contains("hls missed the ideal by up to 4 %"));
        assert_eq!(closing(&[]), None);
    }

    #[test]
    fn a_link_that_is_not_full_is_told_from_shares_that_are_wrong() {
        let said = closing(&[run("hls", [(30.0, 50.0), (30.1, 50.0)])]).unwrap();
        assert!(said.contains("hls kept the ideal shares to within 0.17 %, but in one phase only 60.1 %"), "{said}");
        let said = closing(&[run("hls", [(30.0, 50.0), (40.0, 50.0)])]).unwrap();
        assert!(said.contains("hls missed the ideal by up to 40 %"), "{said}");
    }
}
