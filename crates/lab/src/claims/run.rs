//! Many claims, on all processors, with results in the order of the claims as soon as they are available.

use std::borrow::Cow;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

use super::Claim;
use super::finding::{Finding, Row, Verdict};
use super::laboratory::{ClaimError, Lab};
use fairlink_figures::figure::Figure;

/// The outcome of a claim.
#[derive(Debug)]
pub struct Outcome {
    /// The claim.
    pub claim: &'static Claim,
    /// The finding, or the error.
    pub found: Result<Finding, ClaimError>,
}

impl Outcome {
    /// Returns the verdict. A claim that could not be tried to its end does not agree.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        self.found.as_ref().map_or(Verdict::Disagrees, Finding::verdict)
    }

    /// Returns true if the user stopped it.
    #[must_use]
    pub fn is_interrupted(&self) -> bool {
        matches!(self.found, Err(ClaimError::Stopped))
    }

    /// Returns the sentence that `row` judges. Claims beyond the papers are judged by their own statement.
    #[must_use]
    pub fn sentence(&self, row: &Row) -> &'static str {
        let own = if self.claim.sentence.is_empty() { self.claim.about } else { self.claim.sentence };
        row.sentence.unwrap_or(own)
    }

    /// Its quantities by the sentence that they judge, in their order.
    pub fn by_sentence(&self) -> impl Iterator<Item = (&'static str, &[Row])> {
        let same = |one: &Row, other: &Row| self.sentence(one) == self.sentence(other);
        self.rows().chunk_by(same).map(|rows| (self.sentence(&rows[0]), rows))
    }

    /// Returns its quantities; empty if it could not be tried.
    #[must_use]
    pub fn rows(&self) -> &[Row] {
        self.found.as_ref().map_or(&[], |finding| &finding.rows)
    }

    /// Returns the quantity that represents it: the worst of its rows, the first one if several are as bad.
    #[must_use]
    pub fn headline(&self) -> Option<&Row> {
        let worst = self.rows().iter().map(Row::verdict).max()?;
        self.rows().iter().find(|row| row.verdict() == worst)
    }

    /// Its figures for files of their own, each with the stem of the file's name and a title that names the paper and the place
    /// ([`Claim::figure_title`]).
    #[must_use]
    pub fn figures(&self) -> Vec<(String, Figure)> {
        let figures = self.found.as_ref().map_or(&[][..], |finding| &finding.figures);
        let stem = |place: usize| match figures.len() {
            1 => self.claim.id.to_owned(),
            _ => format!("{}-{}", self.claim.id, place + 1),
        };
        let titled = |figure: &Figure| Figure { title: self.claim.figure_title(&figure.title), ..figure.clone() };
        figures.iter().enumerate().map(|(place, figure)| (stem(place), titled(figure))).collect()
    }

    /// Returns the reason for a deviation from the paper, if it is known, or the error; empty if it agrees.
    #[must_use]
    pub fn reasons(&self) -> String {
        match &self.found {
            Ok(finding) => {
                let mut reasons: Vec<Cow<'_, str>> = Vec::new();
                for reason in finding.rows.iter().filter_map(Row::reason) {
                    if !reasons.contains(&reason) {
                        reasons.push(reason);
                    }
                }
                reasons.join(" ")
            }
            Err(trouble) => format!("could not be tried: {trouble}"),
        }
    }

    /// Returns the note: reasons first, then how it was run.
    #[must_use]
    pub fn note(&self) -> String {
        let note = self.found.as_ref().map_or("", |finding| &finding.note);
        format!("{} {note}", self.reasons()).trim().to_owned()
    }
}

/// Progress reports to the caller while claims are tried.
pub enum Progress<'o> {
    /// Work on this claim has begun.
    Begun(&'static Claim),
    /// The next outcome, in the order of the claims.
    Done(&'o Outcome),
}

/// Tries these claims, several at a time, and reports each in their order. Those that measure times are tried and
/// reported at the end, one at a time, so that the others do not disturb them. Once the laboratory is asked to stop,
/// claims that were not begun are left out, and those in progress end as interrupted.
pub fn try_claims(lab: &Lab<'_>, claims: &[&'static Claim], mut tell: impl FnMut(Progress<'_>)) -> Vec<Outcome> {
    let (timed, others): (Vec<usize>, Vec<usize>) = (0..claims.len()).partition(|&index| claims[index].timed);
    let order = others.iter().chain(&timed).copied().collect();
    let mut told = Told { claims, order, done: claims.iter().map(|_| None).collect(), told: 0 };
    let next = AtomicUsize::new(0);
    let (sender, receiver) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..lab.threads().min(others.len()) {
            let (sender, next, others) = (sender.clone(), &next, &others);
            scope.spawn(move || {
                while let Some(&index) = others.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if lab.go_on().is_err() {
                        return;
                    }
                    // The receiver is there as long as this scope.
                    let _ = sender.send((index, None));
                    let _ = sender.send((index, Some(attempt(lab, claims[index]))));
                }
            });
        }
        drop(sender);
        for (index, outcome) in receiver {
            told.on_progress(index, outcome, &mut tell);
        }
    });
    for index in timed {
        if lab.go_on().is_err() {
            break;
        }
        told.on_progress(index, None, &mut tell);
        told.on_progress(index, Some(attempt(lab, claims[index])), &mut tell);
    }
    told.done.into_iter().flatten().collect()
}

/// Tries one claim, and adds the results of real packets.
fn attempt(lab: &Lab<'_>, claim: &'static Claim) -> Outcome {
    // A bug that ends one claim must not cost the others.
    let run = || lab.while_busy(|| (claim.run)(lab));
    let mut found = panic::catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        let said = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref().copied());
        Err(ClaimError::Other(format!("it panicked: {}", said.unwrap_or("without a word"))))
    });
    if let Ok(found) = &mut found {
        found.rows.extend(lab.real.get(claim.id).into_iter().flatten().cloned());
    }
    Outcome { claim, found }
}

/// Outcomes by claim.
struct Told<'c> {
    claims: &'c [&'static Claim],
    /// Order of the reports.
    order: Vec<usize>,
    done: Vec<Option<Outcome>>,
    told: usize,
}

impl Told<'_> {
    /// Records that the claim with this index has begun, or has ended with this outcome.
    fn on_progress(&mut self, index: usize, outcome: Option<Outcome>, tell: &mut impl FnMut(Progress<'_>)) {
        match outcome {
            None => tell(Progress::Begun(self.claims[index])),
            Some(outcome) => self.done[index] = Some(outcome),
        }
        while let Some(Some(outcome)) = self.order.get(self.told).map(|&index| &self.done[index]) {
            tell(Progress::Done(outcome));
            self.told += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claims::laboratory::Effort;
    use std::sync::atomic::AtomicBool;

    fn agreeing(_: &Lab<'_>) -> Result<Finding, ClaimError> {
        Ok(Finding::new("", vec![Row::never("bound exceeded", 0)]))
    }

    fn failing(_: &Lab<'_>) -> Result<Finding, ClaimError> {
        Err(ClaimError::other("no such thing"))
    }

    static AGREES: Claim =
        Claim { id: "test.one", place: "", about: "", says: "", sentence: "", tests: &[], timed: false, run: agreeing };
    static FAILS: Claim = Claim { id: "test.two", run: failing, ..AGREES };
    static TIMED: Claim = Claim { id: "test.timed", timed: true, ..AGREES };

    fn panicking(_: &Lab<'_>) -> Result<Finding, ClaimError> {
        panic!("a bug")
    }

    static PANICS: Claim = Claim { id: "test.panic", run: panicking, ..AGREES };

    #[test]
    fn a_claim_that_panics_does_not_agree_and_costs_no_other() {
        let never = || false;
        let lab = Lab::new(Effort::Quick, 1, &never);
        let outcomes = try_claims(&lab, &[&PANICS, &AGREES], |_| {});
        assert_eq!(outcomes[0].note(), "could not be tried: it panicked: a bug");
        let verdicts: Vec<Verdict> = outcomes.iter().map(Outcome::verdict).collect();
        assert_eq!(verdicts, [Verdict::Disagrees, Verdict::Agrees]);
    }

    #[test]
    fn outcomes_come_in_the_order_of_the_claims_and_a_claim_that_fails_does_not_agree() {
        let never = || false;
        let lab = Lab::new(Effort::Quick, 3, &never);
        let claims = [&TIMED, &AGREES, &FAILS, &AGREES, &FAILS];
        let (mut told, mut begun) = (Vec::new(), Vec::new());
        let outcomes = try_claims(&lab, &claims, |progress| match progress {
            Progress::Begun(claim) => begun.push(claim.id),
            Progress::Done(outcome) => told.push(outcome.claim.id),
        });
        assert_eq!(told, ["test.one", "test.two", "test.one", "test.two", "test.timed"]);
        assert_eq!(begun.last(), Some(&"test.timed"), "times are measured when nothing else runs");
        assert_eq!(outcomes[0].claim.id, "test.timed", "outcomes are in the order of the claims");
        let verdicts: Vec<Verdict> = outcomes.iter().map(Outcome::verdict).collect();
        let (yes, no) = (Verdict::Agrees, Verdict::Disagrees);
        assert_eq!(verdicts, [yes, yes, no, yes, no]);
        assert_eq!(outcomes[2].note(), "could not be tried: no such thing");
    }

    /// Set by the claim below, before its outcome is reported.
    static STOP: AtomicBool = AtomicBool::new(false);

    fn stopping(lab: &Lab<'_>) -> Result<Finding, ClaimError> {
        STOP.store(true, Ordering::Relaxed);
        agreeing(lab)
    }

    static STOPS: Claim = Claim { id: "test.stop", run: stopping, ..AGREES };

    #[test]
    fn an_end_keeps_what_was_done() {
        let asked = || STOP.load(Ordering::Relaxed);
        let lab = Lab::new(Effort::Quick, 1, &asked);
        let outcomes = try_claims(&lab, &[&AGREES, &STOPS, &AGREES], |_| {});
        assert_eq!(outcomes.iter().map(|outcome| outcome.claim.id).collect::<Vec<_>>(), ["test.one", "test.stop"]);
    }
}
