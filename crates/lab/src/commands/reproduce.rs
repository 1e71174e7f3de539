//! `fairlink-lab reproduce`: the claims of the papers, tried.

#[cfg(target_os = "linux")]
mod disturbance;
#[cfg(target_os = "linux")]
mod real;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use anyhow::anyhow;
use fairlink_figures::figure::Width;
use fairlink_lab::claims::run::{Outcome, Progress, try_claims};
use fairlink_lab::claims::{Effort, Lab, ReproduceDoc, Row, Verdict, select};
use fairlink_lab::files::write_figures;
use fairlink_lab::page::{self, Facts};
use fairlink_report::Document;
use indicatif::{ProgressBar, ProgressStyle};
use time::OffsetDateTime;

use fairlink_terminal::args::{FigureWidth, JobArgs};
use fairlink_terminal::failure::CliError;
use fairlink_terminal::human;
use fairlink_terminal::interrupt;
use fairlink_terminal::out::{Out, make_directory, note};

/// Claims to try, and the effort.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Claims such as hls.alpha, papers (hls, hfsc, htb, drrpp, sds), or all, which is the default.
    #[arg(value_name = "ID|PAPER|all")]
    which: Vec<String>,
    /// Fewer and shorter runs: all claims in 150 s on two processors, with wider confidence intervals.
    #[arg(long)]
    quick: bool,
    /// Also run the claims that the papers measured on real systems with real packets, in a private network namespace:
    /// about ten minutes, or three with --quick.
    #[arg(long)]
    real: bool,
    /// Write the report, one HTML page with all plots and scenarios, into this directory, which is made if it is
    /// missing; and the plots as SVG and PDF.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Width of the figures of --out: a screen (960 pixels), a column of a paper (240 pt), or a page (504 pt).
    #[arg(long, value_name = "WIDTH", requires = "out")]
    width: Option<FigureWidth>,
    /// Directory with the files of the page in the browser. The report then opens its scenarios in a copy of it
    #[cfg_attr(feature = "page", doc = "[default: those in the program, or in share/fairlink/page].")]
    #[cfg_attr(not(feature = "page"), doc = "(refused: this program was built without the feature `page`).")]
    #[arg(long, value_name = "DIR", requires = "out")]
    page_files: Option<PathBuf>,
    #[command(flatten)]
    jobs: JobArgs,
}

/// Rows of real packets by claim, and the claims for which none could be sent.
type RealRows = (BTreeMap<&'static str, Vec<Row>>, Vec<&'static str>);

/// Tries claims and prints a row for each as soon as it is there.
pub(crate) fn run(args: &Args, out: &mut Out) -> Result<(), CliError> {
    let claims = select(&args.which).map_err(CliError::wrong)?;
    let mut runner = None;
    if let Some(dir) = &args.out {
        make_directory(dir)?;
        writable(dir)?;
        runner = page_beside(dir, args.page_files.as_deref())?;
    }
    let stop = interrupt::stop_flag()?;
    let asked = Arc::clone(&stop);
    let asked = move || asked.load(Ordering::Relaxed);
    let effort = if args.quick { Effort::Quick } else { Effort::Full };
    let mut lab = Lab::new(effort, args.jobs.threads(), &asked);
    let begun = Instant::now();
    let mut unplayed = Vec::new();
    if args.real {
        // Before any thread is started: a namespace can only be entered without.
        (lab.real, unplayed) = real::rows(&lab, &claims, &stop)?;
    }
    let bar = Bar::new(claims.len() as u64);
    let rows = Rows::new(&claims.iter().map(|claim| claim.id).collect::<Vec<_>>());
    let mut failure = None;
    if !out.json {
        rows.head(out)?;
    }
    let outcomes = try_claims(&lab, &claims, |progress| match progress {
        Progress::Begun(claim) => bar.begun(claim.id),
        Progress::Done(outcome) => {
            let silent = out.json || outcome.is_interrupted();
            let said = if silent { Ok(()) } else { bar.suspend(|| rows.row(outcome, claims.len() == 1, out)) };
            if let Err(error) = said {
                failure.get_or_insert(error);
                // The reader has gone: end running work.
                stop.store(true, Ordering::Relaxed);
            }
            bar.done(outcome.claim.id);
        }
    });
    bar.end();
    if let Some(failure) = failure {
        return Err(failure);
    }
    let document = ReproduceDoc::of_outcomes(claims.len(), &outcomes, effort);
    let interrupted = document.content.interrupted;
    let outcomes: Vec<Outcome> = outcomes.into_iter().filter(|outcome| !outcome.is_interrupted()).collect();
    if let Some(dir) = &args.out {
        let facts = Facts {
            date: OffsetDateTime::now_utc().date().to_string(),
            machine: fairlink_lab::bench::machine(),
            version: version(),
            command: command(args),
            quick: args.quick,
            took_s: begun.elapsed().as_secs_f64(),
            interrupted,
        };
        write(dir, args.width.unwrap_or_default().into(), &outcomes, &document, &facts, runner)?;
    }
    if out.json {
        out.document(&document)?;
    } else {
        summary(&outcomes, args.quick, out)?;
    }
    out.flush()?;
    if interrupted {
        let done = human::count(outcomes.len(), "claim was", "claims were");
        return Err(CliError::failed(anyhow!("interrupted: {done} tried to the end, of {}", claims.len())));
    }
    let wrong: Vec<&str> = outcomes
        .iter()
        .filter(|outcome| outcome.verdict() == Verdict::Disagrees)
        .map(|outcome| outcome.claim.id)
        .collect();
    match wrong.len() {
        0 if unplayed.is_empty() => Ok(()),
        0 => Err(CliError::failed(anyhow!("real packets could not be played for {}", unplayed.join(", ")))),
        count => {
            let disagree = human::count(count, "claim does", "claims do");
            Err(CliError::failed(anyhow!("{disagree} not agree: {}", wrong.join(", "))))
        }
    }
}

/// The program and the commit that it was built from.
fn version() -> String {
    let of = match (env!("FAIRLINK_COMMIT"), env!("FAIRLINK_CHANGED")) {
        ("", _) => " (commit unknown)".to_owned(),
        (commit, "") => format!(" (commit {commit})"),
        (commit, _) => format!(" (commit {commit} WITH UNCOMMITTED CHANGES)"),
    };
    format!("fairlink {}{of}", env!("CARGO_PKG_VERSION"))
}

/// Command line that repeats this run.
fn command(args: &Args) -> String {
    let quick = [(args.quick, "--quick"), (args.real, "--real")];
    let quick = quick.into_iter().filter(|(set, _)| *set).map(|(_, flag)| flag.to_owned());
    let words = ["fairlink-lab".to_owned(), "reproduce".to_owned()];
    words.into_iter().chain(args.which.iter().cloned()).chain(quick).collect::<Vec<_>>().join(" ")
}

/// Writes the page, the same as JSON and Markdown, the scenarios, and the figures of this width as SVG and PDF.
fn write(
    dir: &Path,
    width: Width,
    outcomes: &[Outcome],
    document: &Document<ReproduceDoc>,
    facts: &Facts,
    runner: Option<&str>,
) -> Result<(), CliError> {
    let json = serde_json::to_string_pretty(document).map_err(CliError::failed)?;
    let mut files = vec![
        (dir.join("index.html"), page::html(outcomes, facts, runner)),
        (dir.join("claims.json"), json + "\n"),
        (dir.join("reproduced.md"), page::markdown(outcomes, facts)),
    ];
    for outcome in outcomes {
        // A claim names its files as it likes.
        let scenarios = dir.join("scenarios").join(outcome.claim.id);
        let reruns = outcome.found.as_ref().map_or(&[][..], |found| &found.reruns);
        if !reruns.is_empty() {
            std::fs::create_dir_all(&scenarios).map_err(|error| unwritten(&scenarios, &error))?;
        }
        files.extend(reruns.iter().map(|again| (scenarios.join(&again.file), again.text.clone())));
    }
    for (path, text) in &files {
        std::fs::write(path, text).map_err(|error| unwritten(path, &error))?;
    }
    let figures: Vec<_> = outcomes.iter().flat_map(Outcome::figures).collect();
    let figures = figures.iter().map(|(stem, figure)| (stem.as_str(), figure));
    write_figures(figures, width, &dir.join("figures")).map_err(CliError::failed)?;
    note(format!("written: {}", files[0].0.display()));
    if cfg!(not(feature = "pdf")) {
        note("NOTE: figures are SVG alone: this fairlink-lab was built without the feature `pdf`");
    }
    Ok(())
}

/// Writes the page in the browser beside the report, where it is installed or named. Returns its address there.
#[cfg(all(target_os = "linux", feature = "page"))]
fn page_beside(dir: &Path, page_files: Option<&Path>) -> Result<Option<&'static str>, CliError> {
    match fairlink_http::PageFiles::find(page_files) {
        Ok(page) => {
            page.write(&dir.join("page")).map_err(|(path, error)| unwritten(&path, &error))?;
            Ok(Some("page/index.html"))
        }
        Err(error) if page_files.is_some() => Err(CliError::wrong(format!("--page-files: {error}"))),
        Err(_) => Ok(None),
    }
}

#[cfg(not(all(target_os = "linux", feature = "page")))]
fn page_beside(_: &Path, page_files: Option<&Path>) -> Result<Option<&'static str>, CliError> {
    match page_files {
        Some(_) if cfg!(target_os = "linux") => {
            Err(fairlink_terminal::program::needs_feature("--page-files", "fairlink-lab", "page"))
        }
        _ => Ok(None),
    }
}

fn unwritten(path: &Path, error: &std::io::Error) -> CliError {
    CliError::failed(anyhow!("{}: cannot be written: {error}", path.display()))
}

/// Finds out before the work that a directory cannot be written into.
fn writable(dir: &Path) -> Result<(), CliError> {
    let refused = |error| CliError::wrong(format!("--out {}: it cannot be written into: {error}", dir.display()));
    let probe = dir.join(".fairlink-probe");
    std::fs::write(&probe, b"").map_err(refused)?;
    std::fs::remove_file(&probe).map_err(refused)
}

/// A progress bar on standard error, where that is a terminal, with the claims under way.
struct Bar {
    bar: ProgressBar,
    under_way: std::cell::RefCell<Vec<&'static str>>,
}

impl Bar {
    fn new(claims: u64) -> Self {
        let style = ProgressStyle::with_template("{wide_bar} {pos} of {len}  {msg}").expect("a template");
        let bar = ProgressBar::new(claims).with_style(style);
        bar.enable_steady_tick(std::time::Duration::from_millis(200));
        Self { bar, under_way: std::cell::RefCell::default() }
    }

    fn begun(&self, id: &'static str) {
        self.under_way.borrow_mut().push(id);
        self.show();
    }

    fn done(&self, id: &'static str) {
        self.under_way.borrow_mut().retain(|other| *other != id);
        self.bar.inc(1);
        self.show();
    }

    fn show(&self) {
        self.bar.set_message(self.under_way.borrow().join(" "));
    }

    fn suspend<T>(&self, work: impl FnOnce() -> T) -> T {
        self.bar.suspend(work)
    }

    fn end(&self) {
        self.bar.finish_and_clear();
    }
}

/// Rows as wide as the longest id.
struct Rows {
    id: usize,
}

impl Rows {
    fn new(ids: &[&str]) -> Self {
        Self { id: ids.iter().map(|id| id.len()).max().unwrap_or(0).max(5) }
    }

    fn head(&self, out: &mut Out) -> Result<(), CliError> {
        out.line(format!("{:<9} {:<id$}  {:<24} ours", "", "claim", "paper", id = self.id))
    }

    /// The worst of its quantities, and the note where it does not agree; all quantities where `all`.
    fn row(&self, outcome: &Outcome, all: bool, out: &mut Out) -> Result<(), CliError> {
        let verdict = outcome.verdict();
        let mark = mark(verdict, out.colour());
        let id = outcome.claim.id;
        let (paper, ours) = match outcome.headline() {
            Some(row) if outcome.rows().len() > 1 => {
                let agreeing = outcome.rows().iter().filter(|row| row.verdict() == Verdict::Agrees).count();
                let judged = outcome.rows().iter().filter(|row| row.verdict() != Verdict::Shown).count();
                (row.show_paper(), format!("{}  ({}; {agreeing} of {judged} agree)", row.show_ours(), row.what))
            }
            Some(row) => (row.show_paper(), row.show_ours()),
            None => (outcome.claim.says.to_owned(), "-".to_owned()),
        };
        out.paragraph(&format!("{mark} {id:<width$}  {paper:<24} {ours}", width = self.id), self.id + 12)?;
        if all {
            out.paragraph(&format!("  {} ({})", outcome.claim.about, outcome.claim.place), 2)?;
            for (sentence, rows) in outcome.by_sentence() {
                out.paragraph(&format!("  {sentence}"), 2)?;
                let rows = rows.iter();
                let rows = rows.map(|row| {
                    vec![row.what.clone(), row.show_paper(), row.show_ours(), word(row.verdict()).to_owned()]
                });
                out.table(&["  quantity", "paper", "ours", "verdict"], rows.map(indented).collect(), 1..3)?;
            }
            if let Ok(finding) = &outcome.found {
                for table in &finding.tables {
                    out.line("")?;
                    out.paragraph(&format!("  {}", table.title), 2)?;
                    let head: Vec<String> = indented(table.head.clone());
                    let rows = table.rows.iter().cloned().map(indented).collect();
                    out.table(&head, rows, 1..table.head.len())?;
                }
            }
            out.line("")?;
        }
        let said = if all { outcome.note() } else { outcome.reasons() };
        if !said.is_empty() {
            out.paragraph(&format!("  {said}"), 2)?;
        }
        if all && let Ok(finding) = &outcome.found {
            finding.reruns.iter().try_for_each(|rerun| out.line(format!("  alone: fairlink {}", rerun.command)))?;
        }
        out.flush()
    }
}

fn indented(mut cells: Vec<String>) -> Vec<String> {
    if let Some(first) = cells.first_mut()
        && !first.starts_with("  ")
    {
        first.insert_str(0, "  ");
    }
    cells
}

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Disagrees => "DISAGREES",
        other => other.as_str(),
    }
}

fn mark(verdict: Verdict, colour: bool) -> String {
    let text = format!("{:<9}", word(verdict));
    if !colour {
        return text;
    }
    let style = match verdict {
        Verdict::Agrees => console::Style::new().green(),
        Verdict::Explained | Verdict::WeakerThanText | Verdict::Undecided | Verdict::Shown => {
            console::Style::new().yellow()
        }
        Verdict::Disagrees => console::Style::new().red().bold(),
    };
    style.apply_to(text).to_string()
}

fn summary(outcomes: &[Outcome], quick: bool, out: &mut Out) -> Result<(), CliError> {
    let mut text = fairlink_lab::page::tally(&outcomes.iter().collect::<Vec<_>>());
    if quick {
        text += ". Quick: fewer and shorter runs than without --quick, and wider intervals";
    }
    out.line("")?;
    out.paragraph(&format!("{text}."), 0)
}

/// Real packets need Linux.
#[cfg(not(target_os = "linux"))]
mod real {
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    use fairlink_lab::claims::{Claim, Lab};
    use fairlink_net::Unsupported;

    use fairlink_terminal::failure::CliError;

    pub(super) fn rows(_: &Lab<'_>, _: &[&'static Claim], _: &Arc<AtomicBool>) -> Result<super::RealRows, CliError> {
        Err(CliError::wrong(format!("--real: {Unsupported}")))
    }
}
