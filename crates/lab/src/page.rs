//! The report on tried claims: one self-contained HTML page, and the same as Markdown without plots.

use std::fmt::Write as _;
use std::io::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use flate2::Compression;
use flate2::write::DeflateEncoder;

use crate::claims::finding::{Rerun, Table};
use crate::claims::run::Outcome;
use crate::claims::{PAPERS, Verdict};
use fairlink_figures::figure::Figure;

/// Table of claims without a paper.
const BEYOND: &str = "beyond";
/// The look that it has in common with the page in the browser, and its own style.
const STYLES: [&str; 2] = [include_str!("page/look.css"), include_str!("page/style.css")];

/// Date, machine and claims of a run.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The day.
    pub date: String,
    /// The machine.
    pub machine: String,
    /// Version and commit of fairlink.
    pub version: String,
    /// Command line.
    pub command: String,
    /// True if fewer runs were made.
    pub quick: bool,
    /// Duration, in seconds.
    pub took_s: f64,
    /// True if claims are missing because the user stopped the run.
    pub interrupted: bool,
}

impl Facts {
    fn sentences(&self) -> String {
        let effort = if self.quick { "Tier: quick, with fewer and shorter runs." } else { "Tier: full." };
        let took = if self.took_s < 120.0 {
            format!("{:.0} s", self.took_s)
        } else {
            format!("{:.0} minutes", self.took_s / 60.0)
        };
        let ended = if self.interrupted { " It was interrupted: claims are missing." } else { "" };
        format!(
            "Tried on {} by {} with {}, on {}, in {took}. {effort} Run k of a scenario has the scenario's own seed plus k - 1, so that the \
             same commit gives the same numbers, except for times and real packets.{ended}",
            self.date, self.version, self.command, self.machine
        )
    }
}

/// Converts plain text to HTML.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// The word, and a sign that is distinct without colour.
fn said(verdict: Verdict) -> (&'static str, &'static str) {
    let sign = match verdict {
        Verdict::Agrees => "✓",
        Verdict::Explained => "≈",
        Verdict::WeakerThanText => "<",
        Verdict::Undecided => "?",
        Verdict::Shown => "·",
        Verdict::Disagrees => "✗",
    };
    (verdict.as_str(), sign)
}

fn badge(verdict: Verdict) -> String {
    let (word, sign) = said(verdict);
    format!("<span class=\"badge {word}\">{} {word}</span>", escaped(sign))
}

fn count(outcomes: &[&Outcome], verdict: Verdict) -> usize {
    outcomes.iter().filter(|outcome| outcome.verdict() == verdict).count()
}

/// Returns the number of claims with each verdict, in words.
#[must_use]
pub fn tally(outcomes: &[&Outcome]) -> String {
    let mut text = format!("{} of {} agree", count(outcomes, Verdict::Agrees), outcomes.len());
    for verdict in [Verdict::Explained, Verdict::WeakerThanText, Verdict::Undecided, Verdict::Disagrees] {
        let number = count(outcomes, verdict);
        if number > 0 {
            let _ = write!(text, ", {}", verdict.counted(number));
        }
    }
    text
}

/// Returns the outcomes of each paper, in the order of the papers. Papers without outcomes are left out.
fn by_paper(outcomes: &[Outcome]) -> Vec<(&'static crate::claims::Paper, Vec<&Outcome>)> {
    let of = |paper: &'static crate::claims::Paper| {
        let outcomes: Vec<&Outcome> = outcomes.iter().filter(|outcome| outcome.claim.paper() == paper.key).collect();
        (!outcomes.is_empty()).then_some((paper, outcomes))
    };
    PAPERS.iter().filter_map(of).collect()
}

/// Returns the part of an address behind `#` with which the page in the browser opens this file: deflated, in base64 for
/// addresses.
#[must_use]
pub fn fragment(text: &str) -> String {
    let mut packed = DeflateEncoder::new(Vec::new(), Compression::best());
    // Writing to a vector cannot fail.
    let packed = packed.write_all(text.as_bytes()).and_then(|()| packed.finish()).unwrap_or_default();
    format!("#1,{}", URL_SAFE_NO_PAD.encode(packed))
}

/// Returns the page. `runner` is the address of the page in the browser, relative to this one: scenarios then have a
/// link that opens them there.
#[must_use]
pub fn html(outcomes: &[Outcome], facts: &Facts, runner: Option<&str>) -> String {
    let papers = by_paper(outcomes);
    let all: Vec<&Outcome> = outcomes.iter().collect();
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>fairlink: the papers, reproduced</title>\n<style>\n{}</style>\n</head>\n<body>\n<header>\n\
         <h1>fairlink</h1>\n<nav aria-label=\"Papers\">{}</nav>\n<span>The papers, reproduced</span>{}\n</header>\n<main>\n\
         <p>{} claims of {} papers on link sharing, tried on one engine. <b>{}.</b></p>\n\
         <p class=\"facts soft\">{}</p>\n<nav class=\"overview\" aria-label=\"Claims\">\n",
        STYLES.concat(),
        papers.iter().map(|(paper, _)| button(&format!("#{}", paper.key), paper.key)).collect::<String>(),
        runner.map_or_else(String::new, |page| button(page, "The page")),
        outcomes.len(),
        papers.iter().filter(|(paper, _)| paper.key != BEYOND).count(),
        tally(&all),
        escaped(&facts.sentences())
    );
    for (paper, outcomes) in &papers {
        let _ = write!(
            page,
            "<section><h2><a href=\"#{}\">{}</a> <span class=\"soft\">{}</span></h2><div class=\"tiles\">",
            paper.key,
            escaped(paper.title),
            tally(outcomes)
        );
        for outcome in outcomes {
            let (word, sign) = said(outcome.verdict());
            let (id, about) = (outcome.claim.id, escaped(outcome.claim.about));
            let short = id.split_once('.').map_or(id, |(_, short)| short);
            let sign = escaped(sign);
            let _ = write!(page, "<a class=\"tile {word}\" href=\"#{id}\" title=\"{about}\">{sign} {short}</a>");
        }
        page += "</div></section>\n";
    }
    page += "</nav>\n";
    for (paper, outcomes) in &papers {
        let _ = writeln!(
            page,
            "<section>\n<h2 id=\"{}\">{}</h2>\n<p class=\"soft\">{}. {}.</p>",
            paper.key,
            escaped(paper.title),
            escaped(paper.authors),
            tally(outcomes)
        );
        outcomes.iter().for_each(|outcome| article(outcome, runner, &mut page));
        page += "</section>\n";
    }
    page += "</main>\n</body>\n</html>\n";
    page
}

/// A link that looks like a button of the page.
fn button(address: &str, label: &str) -> String {
    format!("<a class=\"button\" href=\"{address}\">{}</a>", escaped(label))
}

fn article(outcome: &Outcome, runner: Option<&str>, page: &mut String) {
    let claim = outcome.claim;
    let id = claim.id;
    let _ = writeln!(
        page,
        "<article id=\"{id}\">\n<h3><a href=\"#{id}\">{id}</a> {}</h3>\n<p class=\"place\">{}</p>\n<p>{}</p>\n\
         <p><b>{}:</b> {}</p>",
        badge(outcome.verdict()),
        escaped(claim.place),
        escaped(claim.about),
        if claim.paper() == BEYOND { "Expected" } else { "Paper" },
        escaped(claim.says)
    );
    let found = outcome.found.as_ref().ok();
    found.iter().flat_map(|finding| &finding.figures).for_each(|picture| figure(picture, page));
    quantities(outcome, page);
    found.iter().flat_map(|finding| &finding.tables).for_each(|shown| table(shown, page));
    let _ = writeln!(page, "<p>{}</p>", escaped(&outcome.note()));
    found.iter().flat_map(|finding| &finding.reruns).for_each(|again| rerun(again, runner, page));
    if !claim.tests.is_empty() {
        let tests: Vec<String> = claim.tests.iter().map(|test| format!("<code>{}</code>", escaped(test))).collect();
        let _ = writeln!(page, "<details><summary>Tests that hold it</summary><p>{}</p></details>", tests.join("<br>"));
    }
    page.push_str("</article>\n");
}

fn figure(picture: &Figure, page: &mut String) {
    let [wide, narrow] = picture.for_page();
    let _ = write!(page, "<figure><figcaption><b>{}</b>", escaped(&picture.title));
    picture.notes.iter().for_each(|note| {
        let _ = write!(page, " {}", escaped(note));
    });
    let _ = writeln!(
        page,
        "</figcaption><div class=\"wide\">{}</div><div class=\"narrow\">{}</div></figure>",
        inline(&wide),
        inline(&narrow)
    );
}

/// An inline drawing declares no name space, and the page sets its size.
fn inline(svg: &str) -> String {
    let Some((_, size)) = svg.split_once(" viewBox=") else { return svg.to_owned() };
    format!("<svg viewBox={size}")
}

fn quantities(outcome: &Outcome, page: &mut String) {
    if outcome.rows().is_empty() {
        return;
    }
    page.push_str(
        "<div class=\"scroll\"><table class=\"results\">\n<tr><th>quantity</th><th>paper</th><th>ours</th><th class=\"word\">verdict</th></tr>\n",
    );
    for (sentence, rows) in outcome.by_sentence() {
        let _ = writeln!(page, "<tr class=\"sentence\"><td colspan=\"4\">{}</td></tr>", escaped(sentence));
        for row in rows {
            let verdict = row.verdict();
            let badge = if verdict == Verdict::Shown { String::new() } else { badge(verdict) };
            let _ = writeln!(
                page,
                "<tr><td>{}</td><td>{}</td><td>{}</td><td class=\"word\">{badge}</td></tr>",
                escaped(&row.what),
                escaped(&row.show_paper()),
                escaped(&row.show_ours())
            );
        }
    }
    page.push_str("</table></div>\n");
}

fn table(shown: &Table, page: &mut String) {
    let _ = write!(
        page,
        "<div class=\"scroll\"><table class=\"results\"><caption>{}</caption>\n<tr>",
        escaped(&shown.title)
    );
    shown.head.iter().for_each(|title| {
        let _ = write!(page, "<th>{}</th>", escaped(title));
    });
    page.push_str("</tr>\n");
    for row in &shown.rows {
        page.push_str("<tr>");
        row.iter().for_each(|cell| {
            let best = if cell.starts_with('★') { " class=\"best\"" } else { "" };
            let _ = write!(page, "<td{best}>{}</td>", escaped(cell));
        });
        page.push_str("</tr>\n");
    }
    page.push_str("</table></div>\n");
}

fn rerun(again: &Rerun, runner: Option<&str>, page: &mut String) {
    if let Some(runner) = runner.filter(|_| again.command.starts_with("sim ")) {
        let link = button(&format!("{runner}{}", fragment(&again.text)), "Run it in the page");
        let _ = writeln!(page, "<p class=\"run\">{link} <span class=\"soft\">{}</span></p>", escaped(&again.file));
    }
    let _ = write!(page, "<details><summary>Run it alone: <code>fairlink {}</code></summary>", escaped(&again.command));
    let _ = writeln!(page, "<pre>{}</pre></details>", escaped(&again.text));
}

/// Breaks a paragraph into lines of at most 120 letters, as the other documents have them.
fn filled(text: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= 120 => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines.join("\n")
}

/// Returns the report as Markdown: a table for each paper, and notes on claims that do not simply agree.
#[must_use]
pub fn markdown(outcomes: &[Outcome], facts: &Facts) -> String {
    let all: Vec<&Outcome> = outcomes.iter().collect();
    let head = filled(&format!("{} {}.", facts.sentences(), tally(&all)));
    let mut text = format!("# The papers, reproduced\n\n{head}\n");
    for (paper, outcomes) in by_paper(outcomes) {
        let _ = write!(
            text,
            "\n## {}\n\n{}\n\n| claim | place | sentence | ours | |\n| --- | --- | --- | --- | --- |\n",
            paper.key,
            filled(&format!("{}: *{}*. {}.", paper.authors, paper.title, tally(&outcomes)))
        );
        for outcome in &outcomes {
            let ours = outcome.headline().map_or_else(
                || "-".to_owned(),
                |row| {
                    if outcome.rows().len() > 1 {
                        format!("{}: {}", row.what, row.show_ours())
                    } else {
                        row.show_ours()
                    }
                },
            );
            let (word, _) = said(outcome.verdict());
            let sentence = outcome.headline().map_or(outcome.claim.sentence, |row| outcome.sentence(row));
            let cells = [outcome.claim.id, outcome.claim.place, sentence, &ours, word];
            let _ = writeln!(text, "| {} |", cells.map(|cell| cell.replace('|', "\\|")).join(" | "));
        }
        let has_reasons = |outcome: &&&Outcome| outcome.verdict() != Verdict::Agrees || !outcome.reasons().is_empty();
        for outcome in outcomes.iter().filter(has_reasons) {
            text += &format!("\n{}\n", filled(&format!("**{}** {}", outcome.claim.id, outcome.note())));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claims::{Claim, Finding, Row, Unit};
    use fairlink_figures::axis::Axis;
    use fairlink_figures::figure::{Panel, Series, SeriesStyle};

    fn outcomes() -> Vec<Outcome> {
        let claim = |id: &str| -> &'static Claim { crate::claims::select(&[id]).unwrap()[0] };
        let mut panel = Panel::new("", Axis::linear("x", 0.0, 1.0), Axis::linear("y", 0.0, 1.0));
        panel.series.push(Series::line("a < b", vec![(0.0, 0.0), (1.0, 1.0)], SeriesStyle::nth(0)));
        let good = Finding::new("Sums of <weights> & packets.", vec![Row::never("exceeded", 0)])
            .with_figure(Figure::new("Gap & bound", vec![panel]))
            .with_rerun(Rerun { file: "a.toml".into(), text: "[link]\n".into(), command: "sim a.toml".into() });
        let bad = Finding::new("", vec![Row::never("exceeded", 3), Row::shown("length", Unit::Bytes, 7.0)]);
        vec![
            Outcome { claim: claim("hls.alpha"), found: Ok(good) },
            Outcome { claim: claim("hls.alpha.hdrr"), found: Ok(bad) },
        ]
    }

    fn facts() -> Facts {
        Facts {
            date: "2026-11-22".into(),
            machine: "two cores".into(),
            version: "fairlink 0.1.0".into(),
            command: "fairlink-lab reproduce".into(),
            quick: true,
            took_s: 61.0,
            interrupted: false,
        }
    }

    #[test]
    fn the_page_needs_nothing_else_and_shows_every_claim_with_its_verdict() {
        let page = html(&outcomes(), &facts(), None);
        for outside in ["<script", "src=", "http", "@import", "url("] {
            assert!(!page.contains(outside), "{outside}");
        }
        assert!(
            page.contains("<article id=\"hls.alpha\">") && page.contains("✓ agrees") && page.contains("✗ disagrees")
        );
        assert!(page.contains("a &lt; b") && page.contains("&lt;weights&gt; &amp; packets"));
        assert!(page.contains("1 of 2 agree, 1 not as the text says") && page.contains("fairlink sim a.toml"));
        assert_eq!(page.matches("<svg ").count(), 2, "one for wide screens and one for narrow ones");
        assert!(page.contains(STYLES[0]), "the look of the page in the browser");
        for tag in ["article", "section", "table", "figure", "details", "div"] {
            let (open, close) = (page.matches(&format!("<{tag}")).count(), page.matches(&format!("</{tag}>")).count());
            assert_eq!(open, close, "{tag}");
        }
    }

    #[test]
    fn scenarios_open_in_the_page_beside_the_report() {
        use std::io::Read as _;
        let page = html(&outcomes(), &facts(), Some("page/index.html"));
        let (_, link) = page.split_once("href=\"page/index.html#1,").expect("a link");
        let (packed, rest) = link.split_once('"').unwrap();
        assert!(rest.starts_with(">Run it in the page</a>"));
        let packed = URL_SAFE_NO_PAD.decode(packed).unwrap();
        let mut text = String::new();
        flate2::read::DeflateDecoder::new(&packed[..]).read_to_string(&mut text).unwrap();
        let outcomes = outcomes();
        let again = &outcomes[0].found.as_ref().unwrap().reruns[0];
        assert_eq!(text, again.text);
    }

    #[test]
    fn the_page_in_markdown_has_a_row_for_each_claim_and_notes_where_one_does_not_agree() {
        let text = markdown(&outcomes(), &facts());
        let outcome = &outcomes()[0];
        let sentence = outcome.sentence(&outcome.rows()[0]);
        assert!(text.contains(&format!("| hls.alpha | Theorem 3, Figure 1 | {sentence} | 0 | agrees |")), "{text}");
        assert!(text.contains("**hls.alpha.hdrr**"), "{text}");
        // What was run: date, commit, command, tier, seeds.
        let head = text.lines().skip(2).take_while(|line| !line.is_empty()).collect::<Vec<_>>().join(" ");
        let says =
            "Tried on 2026-11-22 by fairlink 0.1.0 with fairlink-lab reproduce, on two cores, in 61 s. Tier: quick,";
        assert!(head.starts_with(says) && head.contains("own seed plus k - 1"), "{head}");
        let prose = text.lines().filter(|line| !line.starts_with('|'));
        assert!(prose.clone().all(|line| line.chars().count() <= 120) && prose.count() > 10, "{text}");
    }
}
