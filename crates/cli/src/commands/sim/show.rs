//! Text output of simulations.

use std::path::Path;

use anyhow::anyhow;
use fairlink_api::Judged;
use fairlink_config::Scenario;
use fairlink_figures::measure::{SETTLE, TOLERANCE};
use fairlink_figures::rate_unit::RateUnit;
use fairlink_figures::report::{self, Style, estimates, metrics};
use fairlink_figures::sweep::Key;
use fairlink_sim::statistics::summary::{Difference, Summary};
use fairlink_sim::{ClassMetrics, Report, Run};

use crate::rows::{MOST_ROWS, RowArgs};
use fairlink_terminal::failure::CliError;
use fairlink_terminal::human;
use fairlink_terminal::out::Out;

/// Prints every run, and all of them against the ideal.
pub(super) fn runs(mut report: Report, rows: &RowArgs, out: &mut Out) -> Result<(), CliError> {
    // Of all phases.
    let deviations = report::runs(&report);
    let left_out = shorten(&mut report, rows);
    let report = &report;
    let style = Style { colour: out.colour(), tolerance: TOLERANCE, width: out.width() };
    for run in &report.runs {
        out.paragraph(&format!("{}, seed {}", run.scheduler, run.seed), 2)?;
        notes(run, out)?;
        out.line("")?;
        out.raw(report::classes(run, out.width()).as_bytes())?;
        out.line("")?;
        if !run.closed.is_empty() {
            out.raw(report::closed(run, out.width()).as_bytes())?;
            out.line("")?;
        }
        if !run.metrics.is_empty() {
            promises(&run.metrics, run.link_bps, rows, out)?;
        }
        if !run.routes.is_empty() {
            out.raw(report::routes(run, out.width()).as_bytes())?;
            out.line("")?;
        }
        counters(std::slice::from_ref(run), out)?;
    }
    misplaced(&report.runs, out)?;
    phases_follow(report.runs[0].link_bps, out)?;
    match &report.runs[..] {
        [run] => out.raw(report::measured_against_ideal(&run.phases, run.link_bps, style).as_bytes())?,
        _ => out.raw(report::side_by_side(report, style).as_bytes())?,
    }
    out.line("")?;
    deviations.lines().try_for_each(|line| out.paragraph(line, 2))?;
    left_out.iter().try_for_each(|text| out.paragraph(&format!("{text}; --all shows all, --class NAME one class"), 2))
}

/// Most expectations that a message has one by one.
const MOST_UNMET: usize = 20;

/// Prints the result of the expectations.
///
/// # Errors
/// [`CliError::Failed`] with the expectations that are not met.
pub(super) fn expectations(file: &Scenario, judged: &[Judged], path: &Path, out: &mut Out) -> Result<(), CliError> {
    if file.expectations.is_empty() {
        return Ok(());
    }
    let unmet: Vec<&Judged> = judged.iter().filter(|one| !one.met).collect();
    if unmet.is_empty() && !out.json {
        out.line("")?;
        let text = match judged.len() {
            0 => "no expectation of the scenario applies to these schedulers".to_owned(),
            1 => "1 expectation is met".to_owned(),
            all => format!("all {all} expectations are met"),
        };
        return out.paragraph(&text, 2);
    }
    if unmet.is_empty() {
        return Ok(());
    }
    let lines = unmet.iter().take(MOST_UNMET).map(|one| format!("\n  {}:{}", path.display(), one.text()));
    let more = match unmet.len().saturating_sub(MOST_UNMET) {
        0 => String::new(),
        more => format!("\n  and {more} more; --json has all"),
    };
    let lines: String = lines.collect();
    let (unmet, all) = (unmet.len(), human::count(judged.len(), "expectation", "expectations"));
    Err(CliError::Failed(anyhow!("{unmet} of {all} {} not met:{lines}{more}", if unmet == 1 { "is" } else { "are" })))
}

/// Prints measured values beside the scheduler's bounds.
fn promises(classes: &[ClassMetrics], link_bps: f64, rows: &RowArgs, out: &mut Out) -> Result<(), CliError> {
    let most = if rows.shows(classes.len()) { classes.len() } else { MOST_ROWS };
    let shown = &classes[..most.min(classes.len())];
    out.raw(metrics::metrics(shown, link_bps, out.colour(), out.width()).as_bytes())?;
    out.line("")?;
    let beyond: Vec<&str> =
        shown.iter().filter(|class| class.conforms == Some(false)).map(|class| class.name.as_str()).collect();
    if !beyond.is_empty() {
        let text = format!(
            "No delay bound for {}: sent more than the burst and rate that the bound assumes",
            beyond.join(", ")
        );
        out.paragraph(&text, 2)?;
        out.line("")?;
    }
    if shown.len() < classes.len() {
        let left_out = human::count(classes.len() - shown.len(), "class is", "classes are");
        out.paragraph(&format!("{left_out} not shown; --all shows all, --class NAME one class"), 2)?;
        out.line("")?;
    }
    Ok(())
}

fn notes(run: &Run, out: &mut Out) -> Result<(), CliError> {
    run.notes.iter().try_for_each(|note| out.paragraph(&format!("  note: {note}"), 8))
}

/// Prints the counters of the schedulers, if there are any.
fn counters(runs: &[Run], out: &mut Out) -> Result<(), CliError> {
    let Some(counted) = report::counters(runs, out.width()) else { return Ok(()) };
    out.paragraph("Scheduler counters (explained in docs/papers.md)", 2)?;
    out.raw(counted.as_bytes())?;
    out.line("")
}

/// Prints the traffic of the wrong leaves, if it was measured.
fn misplaced(runs: &[Run], out: &mut Out) -> Result<(), CliError> {
    let Some(table) = report::misplaced::misplaced(runs, out.width()) else { return Ok(()) };
    let head = "Traffic of the wrong leaves: bytes of leaves beyond the fluid max-min ideal of the same arrivals, in % of the bytes sent, by windows; and the leaf farthest from its ideal in any window";
    out.paragraph(head, 2)?;
    out.line("")?;
    out.raw(table.as_bytes())?;
    out.line("")
}

fn phases_follow(link_bps: f64, out: &mut Out) -> Result<(), CliError> {
    let unit = RateUnit::for_link(link_bps).name;
    let settle = SETTLE.0 as f64 / 1e9;
    out.paragraph(&format!("Rates by phase in {unit}, without the first {settle} s of longer phases"), 2)?;
    out.line("")
}

const INTERVALS: &str = "±: half-width of the 95 % confidence interval of the mean (Student's t)";

/// Several runs of each scheduler: means and intervals, and differences of pairs.
pub(super) fn summaries(
    runs: &[Run],
    summaries: &mut [Summary],
    differences: &mut [Difference],
    rows: &RowArgs,
    out: &mut Out,
) -> Result<(), CliError> {
    let Some(first) = runs.first() else { return Ok(()) };
    let left_out = shorten_summaries(summaries, differences, rows);
    for summary in summaries.iter() {
        out.paragraph(
            &format!("{}, mean of {} runs, seeds {} and up", summary.scheduler, summary.runs, first.seed),
            2,
        )?;
        let own = |run: &&Run| run.scheduler == summary.scheduler;
        runs.iter().find(own).map_or(Ok(()), |run| notes(run, out))?;
        out.line("")?;
        out.raw(estimates::classes(summary, first.link_bps, out.width()).as_bytes())?;
        out.line("")?;
        let worst = metrics::worst_of(runs.iter().filter(own));
        if !worst.is_empty() {
            out.paragraph("Worst case of all runs:", 2)?;
            out.line("")?;
            promises(&worst, first.link_bps, rows, out)?;
        }
    }
    phases_follow(first.link_bps, out)?;
    out.raw(estimates::phases(summaries, first.link_bps, out.width()).as_bytes())?;
    out.line("")?;
    for difference in differences.iter() {
        let Difference { scheduler, against, .. } = difference;
        out.paragraph(&format!("{scheduler} minus {against}, paired by run on the same arrivals"), 2)?;
        out.line("")?;
        out.raw(estimates::differences(difference, first.link_bps, out.width()).as_bytes())?;
        out.line("")?;
    }
    out.paragraph(INTERVALS, 2)?;
    if !differences.is_empty() {
        out.paragraph("*: the interval excludes zero, which happens by chance in 1 of 20 cases", 2)?;
        out.paragraph("Without *: these runs show no difference", 2)?;
    }
    let same = |summary: &&mut Summary| summary.classes.iter().all(|class| class.rate_bps.ci95 == Some(0.0));
    if summaries.iter_mut().all(|summary| same(&summary)) {
        out.paragraph("All runs gave the same rates: the seed does not affect them", 2)?;
    }
    left_out.iter().try_for_each(|text| out.paragraph(text, 2))
}

/// One table of all settings.
pub(super) fn sweep(
    keys: &[Key],
    runs: &[Run],
    summaries: &mut [Summary],
    rows: &RowArgs,
    out: &mut Out,
) -> Result<(), CliError> {
    let Some(first) = runs.first() else { return Ok(()) };
    let mut shown = &mut summaries[..];
    let mut left_out = Vec::new();
    let each = shown.first().map_or(0, |summary| summary.classes.len()).max(1);
    if !rows.shows(each * shown.len()) {
        let fit = (MOST_ROWS / each).max(1).min(shown.len());
        left_out.push(format!(
            "{} not shown; --all shows all, --class NAME one class of each",
            human::count(shown.len() - fit, "setting or scheduler is", "settings or schedulers are")
        ));
        shown = &mut shown[..fit];
        shown.iter_mut().for_each(|summary| summary.classes.truncate(MOST_ROWS));
    }
    let mut said: Vec<&str> = Vec::new();
    for run in runs {
        for note in &run.notes {
            if !said.contains(&note.as_str()) && said.len() < 20 {
                said.push(note);
                out.paragraph(&format!("note: {note}"), 6)?;
            }
        }
    }
    out.raw(estimates::sweep(keys, shown, first.link_bps, out.width()).as_bytes())?;
    out.line("")?;
    if rows.shows(each * runs.len()) {
        counters(runs, out)?;
    }
    if shown.iter().any(|summary| summary.runs > 1) {
        out.paragraph(INTERVALS, 2)?;
    }
    left_out.iter().try_for_each(|text| out.paragraph(text, 2))
}

/// Removes rows beyond the limit, and describes the number removed.
fn shorten(report: &mut Report, rows: &RowArgs) -> Vec<String> {
    let mut left_out = Vec::new();
    let leaves = report.runs[0].classes.len();
    if !rows.shows(leaves) {
        let mut shown = 0;
        for run in &mut report.runs {
            run.classes.retain(|class| class.counts().received.packets > 0);
            run.classes.truncate(MOST_ROWS);
            shown = shown.max(run.classes.len());
        }
        left_out.push(format!("{} not shown, idle ones first", human::count(leaves - shown, "leaf is", "leaves are")));
    }
    let busy = |phase: &fairlink_sim::Phase| {
        phase.classes.iter().filter(|class| class.rates.fair() > 0.0 || class.rates.settled() > 0.0).count()
    };
    let counts: Vec<usize> = report.runs[0].phases.iter().map(busy).collect();
    if !rows.shows(counts.iter().sum()) {
        let mut sum = 0;
        let fits = |count: &&usize| {
            sum += **count;
            sum <= MOST_ROWS
        };
        let shown = counts.iter().take_while(fits).count().max(1);
        for run in &mut report.runs {
            run.phases.truncate(shown);
            if shown == 1
                && let Some(phase) = run.phases.first_mut()
            {
                phase.classes.truncate(MOST_ROWS);
            }
        }
        if shown < counts.len() {
            left_out.push(format!("{} not shown", human::count(counts.len() - shown, "phase is", "phases are")));
        }
    }
    left_out
}

/// As [`shorten`].
fn shorten_summaries(summaries: &mut [Summary], differences: &mut [Difference], rows: &RowArgs) -> Option<String> {
    let classes = summaries.iter().map(|summary| summary.classes.len()).max().unwrap_or(0);
    let phases = summaries.iter().map(|summary| summary.phases.len()).max().unwrap_or(0);
    let fit = (MOST_ROWS / classes.max(1)).max(1);
    if rows.shows(classes * phases.max(1)) {
        return None;
    }
    for summary in summaries {
        summary.classes.truncate(MOST_ROWS);
        summary.phases.truncate(fit);
        summary.phases.iter_mut().for_each(|phase| phase.classes.truncate(MOST_ROWS));
    }
    differences.iter_mut().for_each(|difference| difference.classes.truncate(MOST_ROWS));
    let leaves = human::count(classes.saturating_sub(MOST_ROWS), "leaf", "leaves");
    let phases = human::count(phases.saturating_sub(fit), "phase", "phases");
    Some(format!("{leaves} and {phases} not shown; --all shows all, --class NAME one class"))
}
