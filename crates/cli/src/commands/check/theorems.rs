//! The theorems that `check` prints beside the bounds, in words.

use fairlink_api::Theorems;

use crate::human;

/// Classes named in text; JSON has all.
const SHOWN: usize = 8;

/// The theorems in words, a line each.
pub(super) fn lines(theorems: &Theorems) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(times) = &theorems.virtual_times {
        lines.push(match (times.bound_s, times.why_none) {
            (Some(bound), _) if let Some(why) = &times.why_useless => format!(
                "virtual times     no useful bound (they differ by {} at most below {}, elsewhere by no more): {why}",
                human::time(human::up(bound)),
                times.class
            ),
            (Some(bound), _) => format!(
                "virtual times     of classes that share below {} and have packets differ by {} at most, elsewhere by no more (Theorem 3 of the text)",
                times.class,
                human::time(human::up(bound))
            ),
            (None, why) => format!("virtual times     have no bound: {} {}", times.class, why.unwrap_or("is in the way")),
        });
    }
    if let Some(missed) = theorems.deadlines_missed_by_s {
        let missed = human::time(human::up(missed));
        lines.push(format!("deadlines         of leaves are missed by {missed} at most, the time of a largest packet, whatever the depth (Theorem 2)"));
    }
    for curve in theorems.inner_curves.iter().flatten().take(SHOWN) {
        let from =
            if curve.from_s == 0.0 { "at once".to_owned() } else { format!("{} later", human::time(curve.from_s)) };
        let short = match curve.short_by_bytes {
            Some(bytes) => {
                format!("by up to {} {} after it", human::size(human::up(bytes)), human::time(curve.at_s))
            }
            None => "by more and more".to_owned(),
        };
        let most = curve
            .at_most_bytes
            .map(|bytes| format!("; with link-sharing by {} at most", human::size(human::up(bytes))));
        lines.push(format!(
            "inner curve       {} cannot always be given its curve: real-time leaves outside it may take so much that it is short from the instant it gets \
             packets ({from}), {short}{}",
            curve.class,
            most.unwrap_or_default()
        ));
    }
    let more = theorems.inner_curves.as_ref().map_or(0, |curves| curves.len().saturating_sub(SHOWN));
    if more > 0 {
        lines
            .push(format!("inner curve       the same holds for {}", human::count(more, "more class", "more classes")));
    }
    for printed in &theorems.as_printed {
        // As the text has it, with all its digits.
        let value = match printed.quantity {
            "fairness_bytes" => format!("{} B", printed.value),
            _ => human::time(printed.value),
        };
        let what = match printed.quantity {
            "fairness_bytes" => "fairness",
            "transmission_gap_s" => "transmission gap",
            _ => "delay",
        };
        let of = printed.class.as_ref().map(|class| format!(" of {class}")).unwrap_or_default();
        lines
            .push(format!("as printed        {} has a {what}{of} of {value}; it {}", printed.theorem, printed.caution));
    }
    for mean in &theorems.mean_delays {
        lines.push(match mean.mean_delay_s.zip(mean.times_too_long) {
            Some((seconds, (least, most))) => format!(
                "mean delay        of {} about {} while all classes have packets ([drrpp] Theorem 1, an estimate for loads up to 50 % of its rate, here {}; measured: \
                 {least} to {most} times what packets wait): rounds of {} with {}",
                mean.class,
                human::time(seconds),
                human::percent(mean.load),
                human::size(mean.round_bytes),
                human::count(mean.packets_per_round as usize, "packet", "packets")
            ),
            None => format!(
                "mean delay        of {}: no useful estimate at a load of {}: {}",
                mean.class,
                human::percent(mean.load),
                mean.why_none.unwrap_or_default()
            ),
        });
    }
    lines
}
