//! The theorems that `check` prints beside the bounds, in words.

use fairlink_api::Theorems;

use fairlink_terminal::human;

/// Classes named in text; JSON has all.
const SHOWN: usize = 8;

/// The theorems in words, a line each.
pub(super) fn lines(theorems: &Theorems) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(times) = &theorems.virtual_times {
        lines.push(match (times.bound_s, times.why_none) {
            (Some(bound), _) if let Some(why) = &times.why_useless => format!(
                "virtual times     no useful bound (at most {} between children of {}, the largest value): {why}",
                human::time(human::up(bound)),
                times.class
            ),
            (Some(bound), _) => format!(
                "virtual times     of backlogged children of {} differ by at most {}, of other siblings by no more than that (Theorem 3)",
                times.class,
                human::time(human::up(bound))
            ),
            (None, why) => format!("virtual times     no bound: {} {}", times.class, why.unwrap_or("prevents it")),
        });
    }
    if let Some(missed) = theorems.deadlines_missed_by_s {
        let missed = human::time(human::up(missed));
        lines.push(format!("deadlines         of leaves are missed by at most {missed}, the time of one packet of maximum length, at any depth (Theorem 2)"));
    }
    for curve in theorems.inner_curves.iter().flatten().take(SHOWN) {
        let from = if curve.from_s == 0.0 {
            "as soon as it gets packets".to_owned()
        } else {
            format!("{} after it gets packets", human::time(curve.from_s))
        };
        let short = match curve.short_by_bytes {
            Some(bytes) => {
                format!("by up to {} ({} later)", human::size(human::up(bytes)), human::time(curve.at_s))
            }
            None => "without limit".to_owned(),
        };
        let most = curve
            .at_most_bytes
            .map(|bytes| format!("; with link-sharing by at most {}", human::size(human::up(bytes))));
        lines.push(format!(
            "inner curve       {} can miss its curve, because real-time leaves outside it take precedence: {from}, {short}{}",
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
        let value = match printed.quantity {
            "fairness_bytes" => human::bytes(printed.value),
            _ => human::time(printed.value),
        };
        let what = match printed.quantity {
            "fairness_bytes" => "fairness",
            "transmission_gap_s" => "transmission gap",
            _ => "delay",
        };
        let of = printed.class.as_ref().map(|class| format!(" of {class}")).unwrap_or_default();
        lines.push(format!(
            "as printed        {} gives a {what}{of} of {value}; it {}",
            printed.theorem, printed.caution
        ));
    }
    for mean in &theorems.mean_delays {
        lines.push(match mean.mean_delay_s.zip(mean.times_too_long) {
            Some((seconds, (least, most))) => format!(
                "mean delay        of {} about {} while all classes are backlogged ([drrpp] Theorem 1, an estimate for loads up to 50 % of the class's rate, here {}; {least} to {most} times the measured delay): rounds of {} with {}",
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
