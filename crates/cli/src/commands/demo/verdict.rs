//! The last line of a demo: one sentence that says from the numbers who gave every class its ideal rate, and who did
//! not.

use fairlink_figures::measure::{TOLERANCE, relative};
use fairlink_report::{ClassSpan, Span};
use fairlink_testbed::{DemoRun, KERNEL_HTB};

use fairlink_terminal::human;

/// Summarises the runs. `None` if nothing was measured.
pub(super) fn closing(runs: &[DemoRun]) -> Option<String> {
    let parts: Vec<_> = runs.iter().filter_map(said).collect();
    (!parts.is_empty()).then(|| format!("Seen: {}.", parts.join("; ")))
}

/// Summarises one run. Each phase is judged separately, by the same rules for every player: if the link was not full
/// and the shares were right nevertheless, the machine is to blame, and not the scheduler.
fn said(run: &DemoRun) -> Option<String> {
    let judged: Vec<(&Span, Judgement)> =
        run.phases.iter().filter_map(|phase| Some((phase, judge(phase, run.link_bps)?))).collect();
    let who = if run.scheduler == KERNEL_HTB { "the kernel's HTB" } else { &run.scheduler };
    let mut kept = 0.0f64;
    let mut starved = Vec::new();
    let mut missed: Option<(&Span, f64)> = None;
    for &(phase, judgement) in &judged {
        match judgement {
            Judgement::Kept { off } => kept = kept.max(off),
            Judgement::Starved { used, uneven } => {
                kept = kept.max(uneven);
                starved.push((phase, used));
            }
            Judgement::Missed { off } if missed.is_none_or(|(_, most)| off > most) => missed = Some((phase, off)),
            Judgement::Missed { .. } => {}
        }
    }
    let all = |phases: usize| if phases == 1 { "in its phase".to_owned() } else { format!("in all {phases} phases") };
    let mut text = match missed {
        Some((phase, off)) => {
            format!("{who} missed the ideal by up to {}: {}", human::percent(off), seen(phase, run.link_bps))
        }
        None if judged.is_empty() => return None,
        None if starved.is_empty() => {
            return Some(format!(
                "{who} gave every class its ideal rate to within {} {}",
                least(kept),
                all(judged.len())
            ));
        }
        None => format!("{who} kept the ideal shares to within {} {}", least(kept), all(judged.len())),
    };
    if let Some(&(_, used)) = starved.iter().min_by(|(_, one), (_, other)| one.total_cmp(other)) {
        let when: Vec<_> = starved.iter().map(|(phase, _)| format!("{} to {} s", phase.start_s, phase.end_s)).collect();
        text += &format!(
            "; from {} only {} of what should be sent was: this machine had too little time, try again when it is less busy",
            when.join(" and "),
            human::percent(used)
        );
    }
    Some(text)
}

/// Judgement of one phase.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Judgement {
    /// Every class got its ideal rate, this far off at most.
    Kept {
        /// Relative to the ideal.
        off: f64,
    },
    /// The link was not full, and every class got its share of what was sent.
    Starved {
        /// The part of the ideal total that was sent.
        used: f64,
        /// Maximum deviation of a share from the ideal.
        uneven: f64,
    },
    /// Classes got other shares than they should.
    Missed {
        /// Maximum deviation of a rate from its ideal.
        off: f64,
    },
}

/// Judges a phase; `None` if nothing should be sent and nothing was.
fn judge(phase: &Span, link_bps: f64) -> Option<Judgement> {
    let off = |rate: &ClassSpan| relative(rate.rates.rate(), rate.rates.fair(), link_bps);
    let off = phase.classes.iter().map(off).fold(0.0, f64::max);
    let total: f64 = phase.classes.iter().map(|rate| rate.rates.rate()).sum();
    let ideal: f64 = phase.classes.iter().map(|rate| rate.rates.fair()).sum();
    if off <= TOLERANCE {
        return (ideal > 0.0).then_some(Judgement::Kept { off });
    }
    if total <= 0.0 || ideal <= 0.0 || total >= ideal * (1.0 - TOLERANCE) {
        return Some(Judgement::Missed { off });
    }
    let uneven = |rate: &ClassSpan| relative(rate.rates.rate() / total, rate.rates.fair() / ideal, 1.0);
    let uneven = phase.classes.iter().map(uneven).fold(0.0, f64::max);
    let used = total / ideal;
    Some(if uneven <= TOLERANCE { Judgement::Starved { used, uneven } } else { Judgement::Missed { off } })
}

/// At least so much, in hundredths of a percent.
fn least(off: f64) -> String {
    human::percent((off * 1e4).ceil().max(1.0) / 1e4)
}

/// The rates of one phase beside the ideal ones, of classes that got or should have got anything.
fn seen(phase: &Span, link_bps: f64) -> String {
    let shown: Vec<&ClassSpan> = phase.classes.iter().filter(|rate| counts(rate, link_bps)).collect();
    let names: Vec<_> = shown.iter().map(|rate| rate.name.as_str()).collect();
    let list = |bps: fn(&ClassSpan) -> f64| {
        let rates: Vec<_> = shown.iter().map(|rate| format!("{:.1}", bps(rate) / 1e6)).collect();
        rates.join("/")
    };
    format!(
        "{} got {} Mbit/s from {} to {} s, where {} is fair",
        names.join("/"),
        list(|rate| rate.rates.rate()),
        phase.start_s,
        phase.end_s,
        list(|rate| rate.rates.fair())
    )
}

/// Returns true if a class should get anything, or got more than a trace.
pub(super) fn counts(rate: &ClassSpan, link_bps: f64) -> bool {
    rate.rates.fair() > 0.0 || relative(rate.rates.rate(), 0.0, link_bps) > 0.001
}

#[cfg(test)]
mod tests {
    use fairlink_report::SpanKind;
    use fairlink_testbed::demo_rate;

    use super::*;

    fn run(scheduler: &str, rates: [(f64, f64); 2]) -> DemoRun {
        let class = |name: &str, (rate, ideal): (f64, f64)| demo_rate(name, rate * 1e6, ideal * 1e6);
        let phase = |start_s, rates: [(f64, f64); 2]| Span {
            classes: vec![class("A1", rates[0]), class("B2", rates[1]), class("C", (0.0, 0.0))],
            ..Span::new(SpanKind::Phase, start_s, start_s + 2.5)
        };
        DemoRun {
            experiment: 2,
            scenario: Some("H".to_owned()),
            scheduler: scheduler.to_owned(),
            link_bps: 1e8,
            phases: vec![phase(0.0, [(30.0, 30.0), (30.0, 30.0)]), phase(2.5, rates)],
            quanta_bytes: None,
            accounting: None,
            forfeited_s: None,
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
    fn a_link_that_is_not_full_is_told_from_shares_that_are_wrong_in_each_phase_and_for_everybody() {
        for (scheduler, who) in [("hls", "hls"), (KERNEL_HTB, "the kernel's HTB")] {
            let said = closing(&[run(scheduler, [(30.0, 50.0), (30.1, 50.0)])]).unwrap();
            let expected = format!(
                "Seen: {who} kept the ideal shares to within 0.17 % in all 2 phases; from 2.5 to 5 s only 60.1 % of what should \
                 be sent was: this machine had too little time, try again when it is less busy."
            );
            assert_eq!(said, expected);
            let said = closing(&[run(scheduler, [(30.0, 50.0), (40.0, 50.0)])]).unwrap();
            assert!(said.starts_with(&format!("Seen: {who} missed the ideal by up to 40 %")), "{said}");
            assert!(!said.contains("too little time"), "{said}");
        }
    }

    #[test]
    fn one_phase_with_too_little_time_excuses_no_wrong_shares_in_another() {
        for (scheduler, who) in [("hls", "hls"), (KERNEL_HTB, "the kernel's HTB")] {
            let mut both = run(scheduler, [(34.0, 50.0), (66.0, 50.0)]);
            both.phases[0].classes[0].rates.rate_bps = Some(2e7);
            both.phases[0].classes[1].rates.rate_bps = Some(2e7);
            let said = closing(&[both]).unwrap();
            assert!(said.starts_with(&format!("Seen: {who} missed the ideal by up to 32 %")), "{said}");
            assert!(said.contains("from 0 to 2.5 s only 66.67 % of what should be sent was"), "{said}");
        }
    }

    #[test]
    fn nothing_is_said_of_what_was_not_measured() {
        let mut empty = run("hls", [(0.0, 0.0), (0.0, 0.0)]);
        empty.phases.remove(0);
        assert_eq!(closing(&[empty]), None);
    }
}
