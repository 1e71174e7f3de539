//! Findings on claims, as a document.

use fairlink_report::{Content, Document};
use schemars::JsonSchema;
use serde::Serialize;

use super::finding::{Row, Unit, Verdict};
use super::run::{Outcome, try_claims};
use super::{Effort, Lab, UnknownClaim, select};

/// The document of [`reproduce`].
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct ReproduceDoc {
    /// The claims, in the order of the papers.
    pub claims: Vec<ClaimReport>,
    /// True if runs were fewer and shorter.
    pub quick: bool,
    /// True if it was interrupted; claims are missing then.
    pub interrupted: bool,
}

impl Content for ReproduceDoc {
    const KIND: &'static str = "reproduce";
}

impl ReproduceDoc {
    /// Makes the document of the outcomes of so many claims. Outcomes that the user interrupted are left out.
    #[must_use]
    pub fn of_outcomes(claims: usize, outcomes: &[Outcome], effort: Effort) -> Document<Self> {
        let ended: Vec<ClaimReport> =
            outcomes.iter().filter(|outcome| !outcome.is_interrupted()).map(ClaimReport::from).collect();
        let interrupted = ended.len() < claims;
        Document::new(Self { claims: ended, quick: effort == Effort::Quick, interrupted })
    }
}

/// A claim, and what was found of it. Its numbers are those of the quantity that agrees least.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct ClaimReport {
    /// Its id, such as `hls.alpha`.
    pub id: &'static str,
    /// The key of its paper.
    pub paper: &'static str,
    /// Its place in the paper.
    pub place: &'static str,
    /// Its subject.
    pub about: &'static str,
    /// The value that the paper gives, in words.
    pub says: &'static str,
    /// The sentence that is judged.
    pub sentence: &'static str,
    /// The number of the paper in `unit`; `null` if it gives none.
    pub expected: Option<f64>,
    /// The number that was measured, in `unit`; `null` if the claim could not be tried.
    pub measured: Option<f64>,
    /// Half of the 95 % confidence interval of `measured`, in `unit`; `null` for a single run.
    pub ci95: Option<f64>,
    /// The lower end of the interval, in `unit`; `null` also where it is infinite.
    pub low: Option<f64>,
    /// The upper end of the interval, in `unit`; `null` also where it is infinite.
    pub high: Option<f64>,
    /// The unit of these numbers.
    pub unit: Option<Unit>,
    /// True if the verdict is that it agrees.
    pub agrees: bool,
    /// The verdict.
    pub verdict: Verdict,
    /// Reasons, and how it was run.
    pub note: String,
    /// All quantities.
    pub checks: Vec<QuantityReport>,
}

/// One quantity of a claim.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct QuantityReport {
    /// The quantity.
    pub what: String,
    /// The sentence that it judges.
    pub sentence: &'static str,
    /// The value of the paper, in words.
    pub paper: String,
    /// The number of the paper in `unit`; `null` if it gives none.
    pub expected: Option<f64>,
    /// The number that was measured, in `unit`.
    pub measured: f64,
    /// Half of the 95 % confidence interval of `measured`, in `unit`; `null` for a single run.
    pub ci95: Option<f64>,
    /// The lower end of the interval, in `unit`; `null` also where it is infinite.
    pub low: Option<f64>,
    /// The upper end of the interval, in `unit`; `null` also where it is infinite.
    pub high: Option<f64>,
    /// The unit of these numbers.
    pub unit: Unit,
    /// The verdict.
    pub verdict: Verdict,
}

impl From<&Outcome> for ClaimReport {
    fn from(outcome: &Outcome) -> Self {
        let Outcome { claim, .. } = outcome;
        let headline = outcome.headline();
        let verdict = outcome.verdict();
        let check = |row: &Row| QuantityReport {
            what: row.what.clone(),
            sentence: outcome.sentence(row),
            paper: row.show_paper(),
            expected: row.paper.number(),
            measured: row.ours.mean,
            ci95: row.ours.ci95(),
            low: row.ours.interval.map(|(low, _)| low),
            high: row.ours.interval.map(|(_, high)| high),
            unit: row.unit,
            verdict: row.verdict(),
        };
        Self {
            id: claim.id,
            paper: claim.paper(),
            place: claim.place,
            about: claim.about,
            says: claim.says,
            sentence: headline.map_or(claim.sentence, |row| outcome.sentence(row)),
            expected: headline.and_then(|row| row.paper.number()),
            measured: headline.map(|row| row.ours.mean),
            ci95: headline.and_then(|row| row.ours.ci95()),
            low: headline.and_then(|row| row.ours.interval).map(|(low, _)| low),
            high: headline.and_then(|row| row.ours.interval).map(|(_, high)| high),
            unit: headline.map(|row| row.unit),
            agrees: verdict == Verdict::Agrees,
            verdict,
            note: outcome.note(),
            checks: outcome.rows().iter().map(check).collect(),
        }
    }
}

/// Tries the claims that `words` name (ids, keys of papers, or `all`; none for all) on one thread besides the caller's.
///
/// ```
/// use fairlink_lab::claims::{Effort, reproduce};
///
/// let found = reproduce(&["hls.superadditive"], Effort::Quick)?.content;
/// assert!(found.claims[0].agrees, "{}", found.claims[0].note);
/// # Ok::<(), fairlink_lab::claims::UnknownClaim>(())
/// ```
///
/// # Errors
/// The first word that names no claim, with the nearest names.
pub fn reproduce(words: &[impl AsRef<str>], effort: Effort) -> Result<Document<ReproduceDoc>, UnknownClaim> {
    let claims = select(words)?;
    let outcomes = try_claims(&Lab::new(effort, 1, &|| false), &claims, |_| ());
    Ok(ReproduceDoc::of_outcomes(claims.len(), &outcomes, effort))
}
