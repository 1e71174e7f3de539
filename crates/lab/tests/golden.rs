//! Every claim, tried quickly, against small golden tables: a change that moves a claim fails here, even if the claim
//! still agrees.
//!
//! `golden/PAPER.csv` has a line for each quantity: claim, quantity, value, tolerance. Runs are seeded, so that the
//! same code finds the same value; the tolerance is a tenth of half of the confidence interval, or a part in a
//! thousand. For an intended change, `FAIRLINK_GOLDEN=write cargo test -p fairlink-lab --test golden` rewrites the tables; review the
//! difference. `FAIRLINK_CLAIMS=hls,htb.share` tries these alone; only tables of papers that are tried completely are
//! written.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use fairlink_figures::figure::Width;
use fairlink_lab::claims::run::{Outcome, try_claims};
use fairlink_lab::claims::{Claim, Effort, Lab, PAPERS, Verdict, select};

/// The least tolerance, as a part of the value.
const LEAST_PART: f64 = 1e-3;

struct Golden {
    value: f64,
    tolerance: f64,
}

fn file(paper: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("golden").join(format!("{paper}.csv"))
}

/// Quantities have no quotes in their names, so that a field in quotes ends with the next one.
fn read(paper: &str) -> BTreeMap<(String, String), Golden> {
    let text = std::fs::read_to_string(file(paper)).unwrap_or_default();
    let parse = |line: &str| {
        let (id, rest) = line.split_once(",\"")?;
        let (what, rest) = rest.split_once("\",")?;
        let (value, tolerance) = rest.split_once(',')?;
        let golden = Golden { value: value.parse().ok()?, tolerance: tolerance.parse().ok()? };
        Some(((id.to_owned(), what.to_owned()), golden))
    };
    text.lines().skip(1).map(|line| parse(line).unwrap_or_else(|| panic!("{paper}.csv: {line}"))).collect()
}

fn write(paper: &str, outcomes: &[&Outcome]) {
    let mut text = String::from("claim,quantity,value,tolerance\n");
    for outcome in outcomes {
        for row in outcome.rows() {
            let width = row.ours.ci95().filter(|width| width.is_finite()).unwrap_or(0.0);
            let tolerance = (width / 10.0).max(LEAST_PART * row.ours.mean.abs());
            let _ = writeln!(text, "{},\"{}\",{},{tolerance:.3e}", outcome.claim.id, row.what, row.ours.mean);
        }
    }
    std::fs::create_dir_all(file(paper).parent().unwrap()).unwrap();
    std::fs::write(file(paper), text).unwrap();
}

/// Claims whose quick runs take more than two seconds of processor time each, nine tenths of that of all: `scripts/check --long` tries them,
/// and so does a run that names them in `FAIRLINK_CLAIMS`.
const LONG: [&str; 26] = [
    "beyond.matrix",
    "drrpp.fig510",
    "drrpp.fig513",
    "drrpp.fig56",
    "hfsc.classifier",
    "hfsc.requests",
    "hls.exp2",
    "hls.exp2.spontaneous",
    "hls.exp3",
    "sds.bounds",
    "sds.edf",
    "sds.fig2",
    "sds.fig3",
    "sds.fig4",
    "sds.fig5",
    "sds.greedy",
    "sds.lb",
    "sds.ldf.small",
    "sds.lqf",
    "sds.lto",
    "sds.pareto",
    "sds.pgps",
    "sds.police",
    "sds.table1",
    "sds.trace",
    "sds.videoloss",
];

/// Returns true for a run that leaves them out: it names no claims, writes no tables, and is not a long one.
fn is_short(words: &[&str]) -> bool {
    words.is_empty() && ["FAIRLINK_LONG", "FAIRLINK_GOLDEN"].iter().all(|name| std::env::var_os(name).is_none())
}

/// Claims in which the text's sentence does not hold for ours. Any other that disagrees is a fault, and so is one of these that agrees
/// and is still listed.
const DISAGREE: [&str; 2] = ["htb.prio", "htb.delay"];

/// Texts of a drawing beyond its edges, and on paper those smaller than 7 pt. A letter counts as 0.6 of its height.
fn misplaced(svg: &str, width: Width) -> impl Iterator<Item = &str> {
    let value = |line: &str, key: &str| -> f64 {
        line.split_once(&format!(" {key}=\"")).unwrap().1.split_once('"').unwrap().0.parse().unwrap()
    };
    let view = svg.split_once("viewBox=\"0 0 ").unwrap().1.split_once('"').unwrap().0;
    let (wide, high) = view.split_once(' ').map(|(wide, high)| (wide.parse().unwrap(), high.parse().unwrap())).unwrap();
    let small = width.points().map_or(0.0, |points| 7.0 * wide / points);
    svg.lines().filter(|line| line.starts_with("<text")).filter(move |line| {
        let text = line.split_once('>').unwrap().1.split_once('<').unwrap().0;
        let letters = text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&").chars().count();
        let (size, x, y) = (value(line, "font-size"), value(line, "x"), value(line, "y"));
        let long = letters as f64 * size * 0.6;
        let (begin, end, limit): (f64, f64, f64) = match line {
            _ if line.contains("rotate") => (y - long / 2.0, y + long / 2.0, high),
            _ if line.contains("\"middle\"") => (x - long / 2.0, x + long / 2.0, wide),
            _ if line.contains("\"end\"") => (x - long, x, wide),
            _ => (x, x + long, wide),
        };
        size < small || begin < 0.0 || end > limit || y > high
    })
}

#[test]
fn claims_are_as_in_the_golden_tables() {
    let never = || false;
    let threads = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let lab = Lab::new(Effort::Quick, threads, &never);
    let only = std::env::var("FAIRLINK_CLAIMS").unwrap_or_default();
    let words: Vec<&str> = only.split(',').filter(|word| !word.is_empty()).collect();
    let short = is_short(&words);
    let left_out = |claim: &Claim| claim.timed || short && LONG.contains(&claim.id);
    let claims: Vec<_> = select(&words).unwrap().into_iter().filter(|claim| !left_out(claim)).collect();
    let outcomes = try_claims(&lab, &claims, |_| {});
    assert_eq!(outcomes.len(), claims.len());
    if std::env::var_os("FAIRLINK_GOLDEN").is_some() {
        let whole = |key: &&str| words.is_empty() || words.contains(key);
        for paper in PAPERS.iter().filter(|paper| whole(&paper.key)) {
            let of_paper: Vec<_> = outcomes.iter().filter(|outcome| outcome.claim.paper() == paper.key).collect();
            write(paper.key, &of_paper);
        }
        return;
    }
    let mut wrong = Vec::new();
    for outcome in &outcomes {
        let id = outcome.claim.id;
        let expected = DISAGREE.contains(&id);
        if (outcome.verdict() == Verdict::Disagrees) != expected {
            wrong.push(format!("{id} is judged {}: {}", outcome.verdict().as_str(), outcome.note()));
        }
        let mut known = read(outcome.claim.paper());
        known.retain(|(other, _), _| other == id);
        for row in outcome.rows() {
            match known.remove(&(id.to_owned(), row.what.clone())) {
                None => wrong.push(format!("{id}: \"{}\" is not in the golden table", row.what)),
                Some(golden) if (row.ours.mean - golden.value).abs() <= golden.tolerance => {}
                Some(golden) => {
                    wrong.push(format!("{id}: {} is {}, not {}", row.what, row.ours.mean, golden.value));
                }
            }
        }
        wrong.extend(known.keys().map(|(_, what)| format!("{id}: \"{what}\" is gone")));
        for (stem, figure) in outcome.figures() {
            let paper = PAPERS.iter().find(|paper| paper.key == outcome.claim.paper()).unwrap();
            if !figure.title.starts_with(paper.name) || !figure.title.contains(": ") || figure.title.contains(id) {
                wrong.push(format!("{stem}: the title \"{}\" does not say where it stands", figure.title));
            }
            for width in [Width::Screen, Width::Column, Width::Page] {
                wrong.extend(misplaced(&figure.svg_for(width), width).map(|text| format!("{stem}, {width:?}: {text}")));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_claim_has_an_id_of_its_own_and_names_tests_that_exist() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let claims: Vec<_> = PAPERS.iter().flat_map(|paper| paper.claims).collect();
    for claim in &claims {
        let id = claim.id;
        assert_eq!(claims.iter().filter(|other| other.id == id).count(), 1, "{id}");
        assert!(PAPERS.iter().any(|paper| paper.key == claim.paper()), "{id}");
        for text in [claim.place, claim.about, claim.says] {
            assert!(!text.is_empty(), "{id}");
        }
        for test in claim.tests {
            let (path, name) = test.split_once("::").unwrap_or_else(|| panic!("{id}: {test}"));
            let source = std::fs::read_to_string(root.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
            assert!(source.contains(&format!("fn {name}(")), "{id}: {path} has no test {name}");
        }
    }
}

#[test]
fn a_figure_is_titled_with_the_paper_and_its_place() {
    let title = |id: &str, own: &str| select(&[id]).unwrap()[0].figure_title(own);
    assert_eq!(title("hls.alpha", "Gap and bound"), "HLS, Theorem 3, Figure 1: Gap and bound");
    assert_eq!(title("hfsc.fig12", "Figure 12: bandwidth"), "H-FSC, Figure 12: bandwidth");
    assert_eq!(title("beyond.matrix", "Delays: all"), "Beyond the papers: Delays: all");
}

#[test]
fn words_that_name_nothing_get_the_nearest_names() {
    assert_eq!(select(&["hls.alpha"]).unwrap().len(), 1);
    assert!(select(&["hls"]).unwrap().len() > 1);
    let error = select(&["hls.alhpa"]).unwrap_err();
    assert_eq!(error.to_string(), "there is no claim or paper hls.alhpa; did you mean hls.alpha?");
    assert!(select(&["nothing at all"]).unwrap_err().to_string().contains("papers are hls"));
}
