//! Output of the demo: live rates on a terminal, and the outcome.

#[cfg(target_os = "linux")]
use fairlink_core::ClassId;
use fairlink_figures::beside;
use fairlink_figures::measure::relative;
use fairlink_figures::report::span;
use fairlink_report::ClassSpan;
use fairlink_testbed::{Accounting, DemoOutcome, DemoRun, KERNEL_HTB};
#[cfg(target_os = "linux")]
use fairlink_testbed::{DemoPlan, DemoProgress};

use super::picture::{Bar, canvas, draw};
use super::verdict::{closing, counts};
use fairlink_terminal::failure::CliError;
use fairlink_terminal::out::Out;

/// Explains why the shares of kernel HTB differ from the ideal.
const WHY_KERNEL_HTB: &str = "HTB lends what is left over by these quanta. The kernel's also passes over a class at times while that \
                              class lends: scripts/oracle-htb, docs/traffic.md.";

/// Draws progress and current rates of the classes in place.
#[cfg(target_os = "linux")]
pub(super) fn live(plan: &DemoPlan, progress: &DemoProgress<'_>, out: &mut Out) -> Result<(), CliError> {
    let names: Vec<String> = progress.classes.iter().map(|rate| plan.name(rate.class)).collect();
    let link_bps = plan.tree.link().rate.bps() as f64;
    let bars: Vec<Bar<'_>> = progress
        .classes
        .iter()
        .zip(&names)
        .filter(|(rate, _)| sends(plan, rate.class))
        .map(|(rate, name)| Bar { name, measured_bps: rate.rate_bps, ideal_bps: rate.ideal_bps })
        .collect();
    let head = format!(
        "{}   {:.1} of {:.1} s   phase {} of {}",
        title(progress.scheduler),
        progress.elapsed_s,
        progress.duration_s,
        progress.phase + 1,
        plan.phases.len()
    );
    let mut lines = vec![head];
    lines.extend(draw(&bars, link_bps, canvas(out)));
    out.redraw(&lines)
}

/// Returns true if the class sends in any phase: the others would be empty lines.
#[cfg(target_os = "linux")]
fn sends(plan: &DemoPlan, class: ClassId) -> bool {
    plan.sources.iter().any(|source| source.class == class)
}

fn title(scheduler: &str) -> &str {
    if scheduler == KERNEL_HTB { "the kernel's HTB" } else { scheduler }
}

/// Draws the rates of classes under each scheduler as SVG.
pub(super) fn drawing(outcome: &DemoOutcome) -> String {
    let runs = &outcome.experiments;
    let Some(first) = runs.first() else { return beside::svg("nothing was played", &[], &[]) };
    let names: Vec<&str> = runs.iter().map(|run| title(&run.scheduler)).collect();
    let phases: Vec<beside::Phase<'_>> =
        first
            .phases
            .iter()
            .enumerate()
            .map(|(at, phase)| {
                let got = |rate: &ClassSpan| {
                    let of = |run: &DemoRun| {
                        let classes = run.phases.get(at).map(|phase| phase.classes.iter());
                        let same = classes.and_then(|mut classes| classes.find(|other| other.name == rate.name));
                        same.map_or(f64::NAN, |rate| rate.rates.rate())
                    };
                    runs.iter().map(of).collect()
                };
                let classes = phase.classes.iter().filter(|rate| counts(rate, first.link_bps)).map(|rate| {
                    beside::Got { class: &rate.name, ideal_bps: rate.rates.fair(), measured_bps: got(rate) }
                });
                beside::Phase { name: span(phase.start_s, phase.end_s), classes: classes.collect() }
            })
            .collect();
    let packets = if outcome.real { "real packets" } else { "simulated" };
    let letter = first.scenario.as_ref().map_or_else(String::new, |letter| format!(" {letter}"));
    let title = format!("Experiment {}{letter} of the HLS paper, {packets}", first.experiment);
    beside::svg(&title, &names, &phases)
}

/// The phases of a run that is over: pictures on a terminal, a line each elsewhere.
pub(super) fn run(run: &DemoRun, out: &mut Out) -> Result<(), CliError> {
    for phase in &run.phases {
        if out.is_terminal() {
            out.paragraph(&format!("{}   {}", title(&run.scheduler), span(phase.start_s, phase.end_s)), 2)?;
            let bars = phase.classes.iter().filter(|rate| counts(rate, run.link_bps));
            let bars: Vec<_> = bars
                .map(|rate| Bar { name: &rate.name, measured_bps: rate.rates.rate(), ideal_bps: rate.rates.fair() })
                .collect();
            draw(&bars, run.link_bps, canvas(out)).iter().try_for_each(|line| out.line(line))?;
            out.line("")?;
        } else {
            let rates = phase.classes.iter().filter(|rate| counts(rate, run.link_bps)).map(|rate| {
                format!("{} {:.2} (ideal {:.2})", rate.name, rate.rates.rate() / 1e6, rate.rates.fair() / 1e6)
            });
            let rates: Vec<_> = rates.collect();
            out.paragraph(
                &format!(
                    "{}, {}: {} Mbit/s",
                    title(&run.scheduler),
                    span(phase.start_s, phase.end_s),
                    rates.join(", ")
                ),
                2,
            )?;
        }
    }
    if !out.is_terminal() {
        out.line("")?;
    }
    out.flush()
}

/// All runs side by side, where the frames went, and what was seen.
pub(super) fn outcome(outcome: &DemoOutcome, settle_s: f64, out: &mut Out) -> Result<(), CliError> {
    let runs = &outcome.experiments;
    if runs.iter().any(|run| !run.phases.is_empty()) {
        out.paragraph(&format!("Mbit/s, the first {settle_s} s of each phase left out:"), 2)?;
        side_by_side(runs, out)?;
        out.line("")?;
    }
    for run in runs {
        if let Some(quanta) = &run.quanta_bytes {
            let quanta: Vec<_> = quanta.iter().map(|(name, bytes)| format!("{name} {bytes}")).collect();
            let quanta = format!("Quanta of {}, in bytes: {}.", title(&run.scheduler), quanta.join(", "));
            out.paragraph(&quanta, 2)?;
        }
        if run.scheduler == KERNEL_HTB {
            out.paragraph(WHY_KERNEL_HTB, 2)?;
        }
        if let Some(accounting) = &run.accounting {
            out.paragraph(&format!("Frames through {}: {}.", title(&run.scheduler), frames(accounting)), 2)?;
        }
    }
    for skipped in &outcome.skipped {
        out.paragraph(&format!("Left out: {}: {}.", title(&skipped.scheduler), skipped.why), 2)?;
    }
    closing(runs).map_or(Ok(()), |sentence| out.paragraph(&sentence, 2))
}

fn frames(accounting: &Accounting) -> String {
    let mut text = format!(
        "{} sent = {} received + {} dropped by its queues",
        accounting.sent_packets, accounting.received_packets, accounting.dropped_packets
    );
    let mut also = |what: &str, frames: u64| {
        if frames > 0 {
            text += &format!(" + {frames} {what}");
        }
    };
    also("left in them", accounting.left_packets);
    also("dropped by the kernel", accounting.kernel_dropped_packets);
    match accounting.unaccounted() {
        0 => {}
        frames => text += &format!("; {frames} are not accounted for"),
    }
    for (what, frames) in [
        ("out of order", accounting.reordered_packets),
        ("received twice", accounting.duplicate_packets),
        ("in another class than they were sent for", accounting.misplaced_packets),
    ] {
        if frames > 0 {
            text += &format!("; {frames} {what}");
        }
    }
    text
}

fn side_by_side(runs: &[DemoRun], out: &mut Out) -> Result<(), CliError> {
    let mut head = vec!["phase".to_owned(), "class".to_owned(), "ideal".to_owned()];
    for run in runs {
        head.extend([title(&run.scheduler).to_owned(), "off by".to_owned()]);
    }
    let longest = runs.iter().max_by_key(|run| run.phases.len()).map_or(&[][..], |run| &run.phases);
    let mut rows = Vec::new();
    for (index, phase) in longest.iter().enumerate() {
        let mut name = span(phase.start_s, phase.end_s);
        for (place, class) in phase.classes.iter().enumerate() {
            let measured: Vec<_> = runs
                .iter()
                .map(|run| run.phases.get(index).map(|phase| (&phase.classes[place], run.link_bps)))
                .collect();
            if measured.iter().flatten().all(|&(rate, link_bps)| !counts(rate, link_bps)) {
                continue;
            }
            let mut row =
                vec![std::mem::take(&mut name), class.name.clone(), format!("{:.2}", class.rates.fair() / 1e6)];
            for rate in measured {
                row.extend(match rate {
                    Some((rate, link_bps)) => {
                        let off = relative(rate.rates.rate(), rate.rates.fair(), link_bps);
                        [format!("{:.2}", rate.rates.rate() / 1e6), format!("{:.2} %", off * 100.0)]
                    }
                    None => ["-".to_owned(), "-".to_owned()],
                });
            }
            rows.push(row);
        }
    }
    let columns = head.len();
    out.table(&head, rows, 2..columns)
}
