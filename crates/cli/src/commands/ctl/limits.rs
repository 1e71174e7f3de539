//! Why classes got no more, as lines of text.

use std::collections::BTreeMap;

use fairlink_net::{ClassStats, LimitCause};

use crate::human;

/// So many classes with one limit are named.
const NAMED: usize = 8;

/// A line for each limit that held leaves in the last `seconds`; one that says so where none was held.
pub(super) fn lines(classes: &[ClassStats], seconds: f64) -> Vec<String> {
    let mut held: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    let mut unmeasured = Vec::new();
    for class in classes.iter().filter(|class| class.leaf) {
        let Some(interval) = &class.interval else {
            unmeasured.push(class.name.as_str());
            continue;
        };
        let why = match interval.limited.as_ref().map(|limited| (limited.limit, limited.limited_by.as_deref())) {
            Some((LimitCause::Demand, _)) => continue,
            Some((LimitCause::Ceiling, _)) => "held by its own ceiling".to_owned(),
            Some((LimitCause::Parent, by)) => format!("held by its parent {}", by.unwrap_or("-")),
            Some((LimitCause::Link, _)) => "held by the link".to_owned(),
            Some((LimitCause::Pool, _)) => "held by its pool".to_owned(),
            Some((LimitCause::Processor, _)) => "held by the processor, which came late".to_owned(),
            None => "got less than it asked for, why is not known".to_owned(),
        };
        held.entry(why).or_default().push(&class.name);
    }
    let span = human::time(seconds);
    let mut lines: Vec<String> =
        held.iter().map(|(why, classes)| format!("{why}, in the last {span}: {}", named(classes))).collect();
    if lines.is_empty() {
        let measured = if unmeasured.is_empty() { "every class" } else { "every measured class" };
        lines.push(format!("in the last {span} {measured} got all it asked for"));
    }
    if !unmeasured.is_empty() {
        lines.push(format!("not measured, because new since then: {}", named(&unmeasured)));
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

    /// Leaves with these limits; `None` is a class without an interval.
    fn of(leaves: &[(&str, Option<Value>)]) -> Vec<String> {
        let none = json!({"packets": 0, "bytes": 0});
        let class = |(name, limited): &(&str, Option<Value>)| {
            let interval = limited.as_ref().map(|limited| {
                let mut interval = json!({
                    "received": none, "sent": none, "dropped": none, "demand_bps": 0.0, "rate_bps": 0.0, "of_guarantee": 0.0,
                    "delay_s": null,
                });
                let known = limited.as_object().expect("an object").clone();
                interval.as_object_mut().expect("an object").extend(known);
                interval
            });
            json!({
                "name": name, "received": none, "sent": none, "dropped": none, "queued": none, "dropped_by_reason": {},
                "delay_s": null, "interval": interval,
            })
        };
        let classes: Vec<ClassStats> =
            serde_json::from_value(leaves.iter().map(class).collect()).expect("statistics of classes");
        lines(&classes, 0.25)
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
                "got less than it asked for, why is not known, in the last 250 ms: f",
                "held by its own ceiling, in the last 250 ms: b",
                "held by its parent house, in the last 250 ms: c, d",
                "held by the link, in the last 250 ms: e",
                "not measured, because new since then: g",
            ]
        );
    }

    #[test]
    fn where_no_class_is_held_it_says_so() {
        let content = of(&[("a", limit("demand", None)), ("b", limit("demand", None))]);
        assert_eq!(content, ["in the last 250 ms every class got all it asked for"]);
        let other = of(&[("a", limit("demand", None)), ("b", None)]);
        let expected =
            ["in the last 250 ms every measured class got all it asked for", "not measured, because new since then: b"];
        assert_eq!(other, expected);
    }

    #[test]
    fn many_leaves_are_counted() {
        let names: Vec<String> = (0..11).map(|number| format!("n{number}")).collect();
        let leaves: Vec<_> = names.iter().map(|name| (name.as_str(), limit("link", Some("link")))).collect();
        assert_eq!(of(&leaves), ["held by the link, in the last 250 ms: n0, n1, n2, n3, n4, n5, n6, n7 and 3 more"]);
    }
}
