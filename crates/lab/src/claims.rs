//! Every claim of the five papers that can be checked, as something that runs.
//!
//! A paper has a module; a claim is a [`Claim`] there and a line of the paper's table: its id, its place, its text, and
//! a function. The function tries it on a [`Lab`] and returns a [`Finding`]: quantities beside the paper's, tables,
//! figures and scenarios to run again. [`run::try_claims`] tries many. `beyond` has results beyond the papers, in the
//! same form.

use strsim::damerau_levenshtein;

mod beyond;
mod drrpp;
pub mod finding;
mod hfsc;
mod hls;
mod htb;
pub mod laboratory;
mod plain_link;
mod random;
pub mod real;
mod report;
pub mod run;
mod sds;
pub mod words;

pub use finding::{Expected, Finding, Row, Table, Unit, Value, Verdict};
pub use laboratory::{ClaimError, Effort, Lab, Workload};
pub use report::{ClaimReport, QuantityReport, ReproduceDoc, reproduce};

/// A paper and its claims.
#[derive(Debug)]
pub struct Paper {
    /// Its key in `docs/papers.md`.
    pub key: &'static str,
    /// Name of its scheduler, for titles of figures.
    pub name: &'static str,
    /// Authors.
    pub authors: &'static str,
    /// Its title.
    pub title: &'static str,
    /// Its claims, in the order of the paper.
    pub claims: &'static [Claim],
}

/// A claim of a paper, and the function that tries it.
#[derive(Clone, Copy, Debug)]
pub struct Claim {
    /// Its name, which no other claim has: the paper's key, a point, and a word or several, such as `hls.alpha.hdrr`.
    pub id: &'static str,
    /// Its place in the paper.
    pub place: &'static str,
    /// The claim, as a sentence.
    pub about: &'static str,
    /// The paper's value or ordering in a few words, such as `103.5 B`.
    pub says: &'static str,
    /// The judged sentence, quoted from the paper; for a figure that the text lacks, the sentence about it. A row that
    /// judges another sentence names it ([`Row::judging`]).
    pub sentence: &'static str,
    /// The tests that hold it besides the golden table: a file from the root of the project, two colons, and the name.
    pub tests: &'static [&'static str],
    /// True if the measurements are times on this machine, which no golden table can have.
    pub timed: bool,
    /// Tries it.
    pub run: fn(&Lab<'_>) -> Result<Finding, ClaimError>,
}

impl Claim {
    /// Returns the paper's key.
    #[must_use]
    pub fn paper(&self) -> &'static str {
        self.id.split_once('.').map_or(self.id, |(paper, _)| paper)
    }

    /// Returns the full title of a figure of this claim: the paper's name, the place, and the figure's own title. An
    /// example is `H-FSC, Section 6.1, Figures 10 and 11: delays`. An own title that begins with a place keeps that
    /// place instead of the claim's.
    #[must_use]
    pub fn figure_title(&self, own: &str) -> String {
        let name = PAPERS.iter().find(|paper| paper.key == self.paper()).map_or(self.paper(), |paper| paper.name);
        let first = own.split_once(": ").and_then(|(label, _)| label.split(' ').next());
        match first {
            Some("Figure" | "Figures" | "Table" | "Section" | "Theorem" | "Experiment") => format!("{name}, {own}"),
            _ if self.paper() == beyond::PAPER.key => format!("{name}: {own}"),
            _ => format!("{name}, {}: {own}", self.place),
        }
    }
}

/// All papers, and claims beyond them last.
pub static PAPERS: &[Paper] = &[hls::PAPER, hfsc::PAPER, htb::PAPER, drrpp::PAPER, sds::PAPER, beyond::PAPER];

/// A word that names neither a claim nor a paper.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no claim or paper {word}; {}", match &nearest[..] {
    [] => format!("papers are {}", keys().join(", ")),
    nearest => format!("did you mean {}?", nearest.join(", ")),
})]
pub struct UnknownClaim {
    /// The word as written.
    pub word: String,
    /// The nearest names.
    pub nearest: Vec<&'static str>,
}

/// Returns the keys of all papers.
#[must_use]
pub fn keys() -> Vec<&'static str> {
    PAPERS.iter().map(|paper| paper.key).collect()
}

/// Returns the claims that these words name, each once, in the order of the papers. A word is an id, a paper's key, or
/// `all`. No words mean all.
///
/// # Errors
/// The first word that matches no name, with the nearest names.
pub fn select(words: &[impl AsRef<str>]) -> Result<Vec<&'static Claim>, UnknownClaim> {
    let all = || PAPERS.iter().flat_map(|paper| paper.claims);
    let names = |word: &str, claim: &Claim| word == "all" || word == claim.paper() || word == claim.id;
    for word in words.iter().map(AsRef::as_ref) {
        if !all().any(|claim| names(word, claim)) {
            return Err(UnknownClaim { word: word.to_owned(), nearest: nearest(word) });
        }
    }
    let wanted = |claim: &&Claim| words.is_empty() || words.iter().any(|word| names(word.as_ref(), claim));
    Ok(all().filter(wanted).collect())
}

/// Returns up to five names that are close to `word` or begin with it, the closest first.
fn nearest(word: &str) -> Vec<&'static str> {
    let ids = PAPERS.iter().flat_map(|paper| paper.claims.iter().map(|claim| claim.id)).chain(keys());
    // A part of a name is closer than any misspelling.
    let distance = |id: &str| if id.contains(word) { 0 } else { damerau_levenshtein(word, id) };
    let mut close: Vec<(usize, &str)> = ids.map(|id| (distance(id), id)).collect();
    close.retain(|&(distance, id)| distance <= 2.max(id.len() / 3));
    close.sort_unstable();
    close.into_iter().map(|(_, id)| id).take(5).collect()
}
