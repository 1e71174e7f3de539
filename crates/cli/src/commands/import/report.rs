//! Report of an import: kept, changed and left-out settings, and rates of classes before and after.

use console::Term;
use fairlink_api::{Case, ImportDoc, ImportedLinkReport, PlanShare, Share};
use fairlink_config::Problem;
use fairlink_config::import::ImportedLink;
use fairlink_config::problem::ProblemKind;
use fairlink_figures::human;
use fairlink_figures::table::fitted;

use fairlink_terminal::out::{columns, note, note_paragraph};

/// Most lines of a table, and of what changed or was left out.
const MOST: usize = 20;
/// Relative change of the rates before above which they are reported as unsteady.
const UNSTEADY: f64 = 0.02;

pub(super) struct Report<'a> {
    pub(super) document: &'a ImportDoc,
    pub(super) links: &'a [ImportedLink],
    pub(super) notes: &'a [Problem],
    /// True if the files of the document were written.
    pub(super) is_written: bool,
}

impl Report<'_> {
    fn notes(&self, change: bool) -> impl Iterator<Item = &Problem> {
        self.notes.iter().filter(move |note| matches!(note.kind(), ProblemKind::Changed { .. }) == change)
    }

    /// Names the classes that no frame can reach, to standard error.
    pub(super) fn warn_of_unreachable(&self) {
        let reports = self.document.links.iter().zip(self.links);
        for (report, link) in reports.filter(|(report, _)| !report.unreachable.is_empty()) {
            let names = &report.unreachable;
            let listed = names[..names.len().min(MOST)].join(", ");
            let more = match names.len().saturating_sub(MOST) {
                0 => String::new(),
                more => format!(" and {more} more, which --json has"),
            };
            let of = human::count(link.link.tree.leaves().len(), "leaf", "leaves");
            let what = format!("no frame can reach {} of {of}: {listed}{more}", names.len());
            note_paragraph(&format!("WARNING: {}: {what}", link.name), 2);
        }
    }

    /// Names the links that are faster than the gateway on this machine, to standard error.
    pub(super) fn warn_of_rates(&self) {
        for link in &self.document.links {
            for warning in &link.problems {
                note_paragraph(&format!("WARNING: {}: {}", link.name, warning.message), 2);
            }
        }
    }

    /// The report for people, to standard error.
    pub(super) fn to_people(&self) {
        let ImportDoc { files, links, kept, ran, .. } = self.document;
        if !ran.is_empty() {
            note("The script:");
            ran.iter().for_each(|said| note_paragraph(&format!("  {said}"), 4));
        }
        note("Kept:");
        kept.iter().for_each(|kept| note_paragraph(&format!("  {kept}"), 4));
        for (title, change) in [("Changed in meaning:", true), ("Left out:", false)] {
            let all: Vec<&Problem> = self.notes(change).collect();
            if all.is_empty() {
                continue;
            }
            note(title);
            all.iter().take(MOST).for_each(|found| note_paragraph(&format!("  {}", in_a_line(found)), 4));
            if all.len() > MOST {
                note(format!("  and {} more, which --json has", all.len() - MOST));
            }
        }
        for link in links {
            link.cases.iter().for_each(|case| self.case(link, case));
            self.plans(link);
        }
        if self.is_written {
            let names: Vec<&str> = files.iter().map(|file| file.name.as_str()).collect();
            note_paragraph(&format!("Written: {}", names.join(", ")), 2);
        }
    }

    fn case(&self, link: &ImportedLinkReport, case: &Case) {
        let who = match &case.pauses {
            None => "all classes are busy".to_owned(),
            Some(class) => format!("{class} pauses and all others are busy"),
        };
        let which = if self.links.len() > 1 { format!("{}: ", link.name) } else { String::new() };
        let mut shares: Vec<&Share> = case.classes.iter().collect();
        let difference =
            |share: &Share| share.before_bps.zip(share.after_bps).map_or(0.0, |(before, after)| (after - before).abs());
        shares.sort_by(|one, other| difference(other).total_cmp(&difference(one)));
        let shown = shares.len().min(MOST);
        let order = match (shares.len() > MOST, link.before.is_some()) {
            (false, _) => String::new(),
            (true, true) => format!(" (the {MOST} largest differences of {}; --json has all)", shares.len()),
            (true, false) => format!(" ({MOST} of {}; --json has all)", shares.len()),
        };
        note_paragraph(&format!("{which}What classes get while {who}{order}:"), 2);
        let before = match &link.before {
            Some(scheduler) if *scheduler == link.scheduler => format!("as imported ({scheduler})"),
            Some(scheduler) => format!("before ({scheduler})"),
            None => "before".to_owned(),
        };
        let after = match &link.before {
            Some(scheduler) if *scheduler == link.scheduler => "ideal".to_owned(),
            _ => format!("after ({})", link.scheduler),
        };
        let head = ["class".to_owned(), before, after, "difference".to_owned()];
        let row = |share: &&Share| {
            let before = share.before_bps.map_or_else(|| "no rule".to_owned(), human::rate);
            let both = share.before_bps.filter(|&before| before > 0.0).zip(share.after_bps);
            let change = both.map(|(before, after)| after / before - 1.0);
            let change = change.map_or_else(|| "-".to_owned(), |change| format!("{:+.1} %", change * 100.0));
            vec![share.name.clone(), before, share.after_bps.map_or_else(|| "no rule".to_owned(), human::rate), change]
        };
        let rows: Vec<_> = shares[..shown].iter().map(row).collect();
        // They are set in by two blanks.
        let width = columns(&Term::stderr()).map(|width| width - 2);
        fitted(&head, &rows, 1..4, width).iter().for_each(|line| note(format!("  {}", line.text).trim_end()));
        if case.simulated.apart > UNSTEADY {
            let (apart, packets) = (human::percent(case.simulated.apart), case.simulated.packets);
            note_paragraph(&format!("  The rates before still changed by up to {apart} after {packets} packets."), 4);
        }
    }
}

impl Report<'_> {
    /// The share of each plan in the busiest hour, when all its classes are busy.
    fn plans(&self, link: &ImportedLinkReport) {
        let plans = &link.plans;
        if plans.is_empty() {
            return;
        }
        let which = if self.links.len() > 1 { format!("{}: ", link.name) } else { String::new() };
        note_paragraph(&format!("{which}What each plan gets while all classes are busy:"), 2);
        let head = ["plan", "classes", "least", "mean", "most", "mean / plan"].map(str::to_owned);
        let row = |plan: &PlanShare| {
            let name = plan.ceiling_bps.map_or_else(|| "no maximum".to_owned(), |bps| human::rate(bps as f64));
            let part = plan
                .ceiling_bps
                .map_or_else(|| "-".to_owned(), |bps| format!("{:.1} %", plan.mean_bps / bps as f64 * 100.0));
            let [least, mean, most] = [plan.least_bps, plan.mean_bps, plan.most_bps].map(human::rate);
            vec![name, plan.classes.to_string(), least, mean, most, part]
        };
        let rows: Vec<_> = plans.iter().take(MOST).map(row).collect();
        let width = columns(&Term::stderr()).map(|width| width - 2);
        fitted(&head, &rows, 1..6, width).iter().for_each(|line| note(format!("  {}", line.text).trim_end()));
        if plans.len() > MOST {
            note(format!("  and {} more, which --json has", plans.len() - MOST));
        }
    }
}

/// `file:line: what`.
fn in_a_line(found: &Problem) -> String {
    let place = found.location();
    match found.span() {
        Some(_) => format!("{}:{}: {found}", place.file, place.line),
        None => format!("{}: {found}", place.file),
    }
}
