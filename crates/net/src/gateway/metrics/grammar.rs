//! Test parser with the rules of OpenMetrics 1.0 text, written from its specification.

use std::collections::{BTreeMap, BTreeSet};

/// One sample line.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Sample {
    pub(super) name: String,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) value: f64,
}

/// Returns true if `name` is valid for a metric or, with `colons`, for a label.
fn is_name(name: &str, colons: bool) -> bool {
    let letter = |char: char| char.is_ascii_alphabetic() || char == '_' || (colons && char == ':');
    name.chars().enumerate().all(|(at, char)| letter(char) || (at > 0 && char.is_ascii_digit())) && !name.is_empty()
}

/// Parses a sample; panics if it is malformed.
fn sample(line: &str) -> Sample {
    let name_end = line.find(['{', ' ']).unwrap_or_else(|| panic!("no value: {line}"));
    let (name, mut rest) = line.split_at(name_end);
    assert!(is_name(name, true), "{line}");
    let mut labels = BTreeMap::new();
    if let Some(inside) = rest.strip_prefix('{') {
        rest = inside;
        while !rest.starts_with('}') {
            let (label, after) = rest.split_once("=\"").unwrap_or_else(|| panic!("{line}"));
            assert!(is_name(label, false), "{line}");
            let mut value = String::new();
            let mut chars = after.char_indices();
            let end = loop {
                match chars.next().unwrap_or_else(|| panic!("a value without end: {line}")) {
                    (at, '"') => break at,
                    (_, '\\') => match chars.next() {
                        Some((_, 'n')) => value.push('\n'),
                        Some((_, char @ ('\\' | '"'))) => value.push(char),
                        other => panic!("{other:?} is escaped: {line}"),
                    },
                    (_, char) => value.push(char),
                }
            };
            assert_eq!(labels.insert(label.to_owned(), value), None, "a label twice: {line}");
            rest = &after[end + 1..];
            if let Some(next) = rest.strip_prefix(',') {
                assert!(!next.starts_with('}'), "{line}");
                rest = next;
            }
        }
        rest = &rest[1..];
    }
    let value = rest.strip_prefix(' ').unwrap_or_else(|| panic!("no blank before the value: {line}"));
    assert!(!value.contains(' '), "nothing but a value: {line}");
    Sample { name: name.to_owned(), labels, value: value.parse().unwrap_or_else(|_| panic!("no number: {line}")) }
}

/// Parses a whole page; panics if it breaks a rule.
pub(super) fn read(text: &str) -> Vec<Sample> {
    let body = text.strip_suffix("# EOF\n").expect("it ends with # EOF");
    assert!(!body.contains("# EOF"));
    let mut kinds: BTreeMap<String, String> = BTreeMap::new();
    let mut family = String::new();
    let mut told = BTreeSet::new();
    let mut samples: Vec<Sample> = Vec::new();
    let mut begun = false;
    for line in body.lines() {
        assert!(!line.is_empty() && !line.contains('\r'), "{line:?}");
        if let Some(comment) = line.strip_prefix("# ") {
            let words: Vec<&str> = comment.splitn(3, ' ').collect();
            let &[what, name, rest] = &words[..] else { panic!("{line}") };
            assert!(is_name(name, true), "{line}");
            assert!(told.insert((what.to_owned(), name.to_owned())), "told twice: {line}");
            if name != family {
                assert!(!kinds.contains_key(name), "a family in two places: {line}");
                (family, begun) = (name.to_owned(), false);
            }
            assert!(!begun, "told after samples: {line}");
            match what {
                "HELP" => {}
                "TYPE" => {
                    assert!(["counter", "gauge", "histogram", "info"].contains(&rest), "{line}");
                    kinds.insert(name.to_owned(), rest.to_owned());
                }
                "UNIT" => assert!(name.ends_with(&format!("_{rest}")), "{line}"),
                _ => panic!("{line}"),
            }
            continue;
        }
        begun = true;
        let sample = sample(line);
        let suffixes: &[&str] = match kinds[&family].as_str() {
            "counter" => &["_total"],
            "histogram" => &["_bucket", "_sum", "_count"],
            "info" => &["_info"],
            _ => &[""],
        };
        assert!(suffixes.iter().any(|suffix| sample.name == format!("{family}{suffix}")), "{line} in {family}");
        if kinds[&family] == "counter" || kinds[&family] == "histogram" {
            assert!(sample.value >= 0.0, "{line}");
        }
        samples.push(sample);
    }
    let mut keys = BTreeSet::new();
    for sample in &samples {
        assert!(keys.insert((&sample.name, format!("{:?}", sample.labels))), "told twice: {sample:?}");
    }
    histograms(&samples);
    samples
}

/// Buckets of each histogram ascend, add up, and end with all.
fn histograms(samples: &[Sample]) {
    let mut last: BTreeMap<(String, String), (f64, f64)> = BTreeMap::new();
    for sample in samples.iter().filter(|sample| sample.name.ends_with("_bucket")) {
        let mut labels = sample.labels.clone();
        let limit = labels.remove("le").expect("a limit");
        let limit: f64 = if limit == "+Inf" { f64::INFINITY } else { limit.parse().unwrap() };
        let key = (sample.name.replace("_bucket", "_count"), format!("{labels:?}"));
        if let Some((before, count)) = last.insert(key, (limit, sample.value)) {
            assert!(before < limit && count <= sample.value, "{sample:?}");
        }
    }
    for sample in samples {
        if let Some(&(limit, count)) = last.get(&(sample.name.clone(), format!("{:?}", sample.labels))) {
            assert!(limit == f64::INFINITY && count == sample.value, "{sample:?}");
        }
    }
}
