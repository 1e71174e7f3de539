//! Why classes got no more, as lines of text.

use std::collections::BTreeMap;

use fairlink_report::{ClassReport, ClassSpan, LimitCause, Span};

use fairlink_terminal::human;

/// Maximum number of names of classes with the same limit.
const NAMED: usize = 8;

/// Returns a line for each limit that applied to leaves in `span`, or one line if none did.
pub(super) fn lines(classes: &[ClassReport], span: &Span) -> Vec<String> {
    let measured: BTreeMap<&str, &ClassSpan> = span.classes.iter().map(|class| (class.name.as_str(), class)).collect();
    let mut held: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    let mut unmeasured = Vec::new();
    for class in classes.iter().filter(|class| class.leaf) {
        let Some(interval) = measured.get(class.name.as_str()) else {
            unmeasured.push(class.name.as_str());
            continue;
        };
        let why = match interval.limit.as_ref().map(|limit| (limit.cause, limit.limited_by.as_deref())) {
            Some((LimitCause::Demand, _)) => continue,
            Some((LimitCause::Ceiling, _)) => "limited by its own ceiling".to_owned(),
            Some((LimitCause::Parent, by)) => format!("limited by its parent {}", by.unwrap_or("-")),
            Some((LimitCause::Link, _)) => "limited by the link".to_owned(),
            Some((LimitCause::Pool, _)) => "limited by its pool".to_owned(),
            Some((LimitCause::Processor, _)) => "limited by the processor (late wake-ups)".to_owned(),
            None => "below its demand, cause unknown".to_owned(),
        };
        held.entry(why).or_default().push(&class.name);
    }
    let span = human::time(span.seconds());
    let mut lines: Vec<String> =
        held.iter().map(|(why, classes)| format!("{why}, in the last {span}: {}", named(classes))).collect();
    if lines.is_empty() {
        let measured = if unmeasured.is_empty() { "every class" } else { "every measured class" };
        lines.push(format!("in the last {span} {measured} got its full demand"));
    }
    if !unmeasured.is_empty() {
        lines.push(format!("not measured (new classes): {}", named(&unmeasured)));
    }
    lines
}

/// Some of them by name, the others by number.
fn named(classes: &[&str]) -> String {
    let first = classes[..classes.len().min(NAMED)].join(", ");
    match classes.len().saturating_sub(NAMED) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// Leaves with these limits; `None` is a class that was not measured.
    fn of(leaves: &[(&str, Option<Value>)]) -> Vec<String> {
        let class = |(name, _): &(&str, Option<Value>)| json!({"name": name, "parent": null, "leaf": true});
        let measured = |(name, limit): &(&str, Option<Value>)| {
            let mut span = limit.clone()?;
            span["name"] = (*name).into();
            span["rates"] = json!({});
            Some(span)
        };
        let classes: Vec<ClassReport> =
            serde_json::from_value(leaves.iter().map(class).collect()).expect("reports of classes");
        let spans: Value = leaves.iter().filter_map(measured).collect();
        let span = json!({"kind": "interval", "start_s": 1.0, "end_s": 1.25, "classes": spans});
        lines(&classes, &serde_json::from_value(span).expect("a span"))
    }

    fn limit(kind: &str, by: Option<&str>) -> Option<Value> {
        Some(json!({"limit": kind, "limited_by": by, "limited_for_s": 0.25}))
    }

    #[test]
    fn each_limit_names_its_leaves() {
        let lines = of(&[
            ("a", limit("demand", None)),
            ("b", limit("ceiling", Some("b"))),
            ("c", limit("parent", Some("house"))),
            ("d", limit("parent", Some("house"))),
            ("e", limit("link", Some("link"))),
            ("f", Some(json!({}))),
            ("g", None),
        ]);
        assert_eq!(
            lines,
            [
                "below its demand, cause unknown, in the last 250 ms: f",
                "limited by its own ceiling, in the last 250 ms: b",
                "limited by its parent house, in the last 250 ms: c, d",
                "limited by the link, in the last 250 ms: e",
                "not measured (new classes): g",
            ]
        );
    }

    #[test]
    fn where_no_class_is_held_it_says_so() {
        let content = of(&[("a", limit("demand", None)), ("b", limit("demand", None))]);
        assert_eq!(content, ["in the last 250 ms every class got its full demand"]);
        let other = of(&[("a", limit("demand", None)), ("b", None)]);
        let expected = ["in the last 250 ms every measured class got its full demand", "not measured (new classes): b"];
        assert_eq!(other, expected);
    }

    #[test]
    fn many_leaves_are_counted() {
        let names: Vec<String> = (0..11).map(|number| format!("n{number}")).collect();
        let leaves: Vec<_> = names.iter().map(|name| (name.as_str(), limit("link", Some("link")))).collect();
        assert_eq!(of(&leaves), ["limited by the link, in the last 250 ms: n0, n1, n2, n3, n4, n5, n6, n7 and 3 more"]);
    }
}
