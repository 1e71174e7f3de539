//! Beside the bounds: theorems as their texts print them, virtual times and inner curves of H-FSC, and the mean delay
//! that DRR++ is to have under a load. All of it is computed in the theory crate.

use fairlink_config::demand::parse_demand;
use fairlink_config::human;
use fairlink_config::link::LinkFile;
use fairlink_config::units::parse_size;
use fairlink_core::{ClassId, Fairness};
use fairlink_theory::as_printed::{Arrivals, MeanDelay, Quantity, as_printed};
use fairlink_theory::inner_curves::InnerCurves;
use fairlink_theory::to_f64;
use fairlink_theory::virtual_time::{Spread, spreads};
use schemars::JsonSchema;
use serde::Serialize;

use super::USEFUL_S;
use crate::refused::Refused;
use crate::tree::in_text;

/// Traffic of the latency-critical classes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Load<'a> {
    /// Their mean rates, such as `voice=64kbit`.
    pub demand: Option<&'a str>,
    /// Mean length of their packets; the mtu without it.
    pub packet: Option<&'a str>,
}

/// Theorems beside the bounds.
#[derive(Clone, Debug, Default, JsonSchema, Serialize)]
pub struct Theorems {
    /// Theorems that do not hold as printed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub as_printed: Vec<AsPrinted>,
    /// Absent if the scheduler has no virtual times.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub virtual_times: Option<VirtualTimes>,
    /// By how much a deadline is missed at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadlines_missed_by_s: Option<f64>,
    /// Inner classes whose curve is not always met; absent if the scheduler has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inner_curves: Option<Vec<InnerCurve>>,
    /// Of latency-critical classes, if a load was given.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mean_delays: Vec<MeanDelayEstimate>,
}

/// A theorem as printed in its text, if it does not hold as printed.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct AsPrinted {
    /// Its name.
    pub theorem: &'static str,
    /// `fairness_bytes`, `transmission_gap_s` or `delay_s`.
    pub quantity: &'static str,
    /// Of which class; `null` for the link.
    pub class: Option<String>,
    /// The value, in the unit of the quantity.
    pub value: f64,
    /// The reason why it does not hold as printed.
    pub caution: &'static str,
}

/// Largest difference of the virtual times of siblings, \[hfsc\] Theorem 3.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct VirtualTimes {
    /// The largest difference of children of one class; null if there is no bound.
    pub bound_s: Option<f64>,
    /// The parent of these children, or the class that prevents a bound.
    pub class: String,
    /// Reason for no bound.
    pub why_none: Option<&'static str>,
    /// Reason for a bound that is too long to be of use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why_useless: Option<String>,
}

/// An inner class whose curve is not always met.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct InnerCurve {
    /// Its name.
    pub class: String,
    /// Earliest time of a shortfall, in seconds after it gets packets.
    pub from_s: f64,
    /// Null if it grows without limit.
    pub short_by_bytes: Option<f64>,
    /// When it is short by so much, in seconds after it gets packets.
    pub at_s: f64,
    /// Upper bound under any arrivals, including link-sharing; null without a bound.
    pub at_most_bytes: Option<f64>,
}

/// The mean delay of a latency-critical class under a load, \[drrpp\] Theorem 1.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct MeanDelayEstimate {
    /// Its name.
    pub class: String,
    /// Absent if its error is unknown; `why_none` has the reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean_delay_s: Option<f64>,
    /// By which factor the theorem is too long, at least and at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub times_too_long: Option<(f64, f64)>,
    /// Reason for no estimate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why_none: Option<&'static str>,
    /// The part of its rate that the class uses while all classes have packets.
    pub load: f64,
    /// Bytes of a round.
    pub round_bytes: f64,
    /// Number of packets of the class in a round.
    pub packets_per_round: u64,
}

impl Theorems {
    /// Computes the theorems of the link's scheduler, under `load`.
    pub(crate) fn for_link(link: &LinkFile, load: &Load<'_>) -> Result<Self, Refused> {
        let (info, tree) = (link.info(), &link.tree);
        let name = |class: ClassId| link.names.name(class).to_owned();
        let mut theorems = Self { mean_delays: mean_delays(link, load)?, ..Self::default() };
        if tree.link().transmit_queue.is_some() {
            return Ok(theorems);
        }
        let printed = as_printed(info, tree).into_iter().map(|printed| AsPrinted {
            theorem: printed.theorem,
            quantity: match printed.quantity {
                Quantity::Fairness => "fairness_bytes",
                Quantity::TransmissionGap => "transmission_gap_s",
                Quantity::Delay => "delay_s",
            },
            class: printed.class.map(name),
            value: to_f64(&printed.value),
            caution: printed.caution,
        });
        theorems.as_printed = printed.collect();
        if !matches!(info.promises.fairness, Some(Fairness::VirtualTimes)) {
            return Ok(theorems);
        }
        theorems.virtual_times = virtual_times(link);
        if tree.leaves().iter().any(|&leaf| tree.config(leaf).real_time.is_some()) {
            let head = tree.link();
            theorems.deadlines_missed_by_s = Some(f64::from(head.max_packet) * 8.0 / head.rate.bps() as f64);
        }
        theorems.inner_curves = InnerCurves::for_tree(tree).map(|found| {
            let entry = |short: &fairlink_theory::inner_curves::Shortfall| InnerCurve {
                class: name(short.class),
                from_s: to_f64(&short.from),
                short_by_bytes: short.bytes.as_ref().map(to_f64),
                at_s: to_f64(&short.at),
                at_most_bytes: found.at_most[short.class.index()].as_ref().map(to_f64),
            };
            found.short.iter().map(entry).collect()
        });
        Ok(theorems)
    }
}

fn virtual_times(link: &LinkFile) -> Option<VirtualTimes> {
    let spreads = spreads(&link.tree);
    let mut widest: Option<(f64, ClassId)> = None;
    for (index, spread) in spreads.iter().enumerate() {
        let parent = ClassId(index as u32);
        let (class, why) = match spread {
            None => continue,
            Some(Spread::Bounded(bound)) => {
                let seconds = to_f64(&bound.seconds);
                if widest.is_none_or(|(most, _)| seconds > most) {
                    widest = Some((seconds, parent));
                }
                continue;
            }
            Some(Spread::Unbounded(class)) => (*class, "has real-time curves below it that exceed its share"),
            Some(Spread::Unknown(class)) => {
                (*class, "has a limit, does not take part in sharing, or has no assured rate")
            }
        };
        let class = link.names.name(class).to_owned();
        return Some(VirtualTimes { bound_s: None, class, why_none: Some(why), why_useless: None });
    }
    let (seconds, parent) = widest?;
    let why_useless = (seconds > USEFUL_S).then(|| why_useless(link, parent)).flatten();
    Some(VirtualTimes {
        bound_s: Some(seconds),
        class: link.names.name(parent).to_owned(),
        why_none: None,
        why_useless,
    })
}

/// Explains a long constant of Theorem 3 below `parent`: it counts packets of all children in the virtual time of the
/// slowest.
fn why_useless(link: &LinkFile, parent: ClassId) -> Option<String> {
    let tree = &link.tree;
    let slowest = tree.children(parent).iter().copied().min_by_key(|&child| tree.rate_all_busy(child))?;
    let bps = tree.rate_all_busy(slowest).max(1) as f64;
    Some(format!(
        "it counts packets and real-time bursts of all siblings in the virtual time of {}, which gets {} while all are busy and needs {} for one packet of maximum length",
        link.names.name(slowest),
        human::rate(bps),
        human::time(f64::from(tree.link().max_packet) * 8.0 / bps)
    ))
}

fn mean_delays(link: &LinkFile, load: &Load<'_>) -> Result<Vec<MeanDelayEstimate>, Refused> {
    let Some(text) = load.demand else { return Ok(Vec::new()) };
    if !MeanDelay::is_of(link.info()) {
        let message = format!("{} has no theorem for a mean delay; write --scheduler drr++", link.info().name);
        return Err(Refused::argument("demand", message));
    }
    let mean_packet = match load.packet {
        None => link.mtu,
        Some(text) => {
            let size = parse_size(text, link.mtu.into());
            let size = size.map_err(|error| Refused::argument("packet", format!("{error}; {}", error.help())))?;
            u32::try_from(size)
                .ok()
                .filter(|&size| size > 0)
                .ok_or_else(|| Refused::argument("packet", "0 B; the smallest is 1 B"))?
        }
    };
    let demands = parse_demand(text, &link.tree, &link.names).map_err(|error| Refused::argument("demand", error))?;
    let mean = |(class, rate): (ClassId, Option<u64>)| {
        let arrivals = Arrivals { rate_bps: rate.unwrap_or(u64::MAX), mean_packet };
        let found = MeanDelay::for_class(&link.tree, class, arrivals).ok_or_else(|| {
            let class = in_text(link, class);
            Refused::argument("demand", format!(
                "{class} is not latency_critical, or its quantum holds no packet of {mean_packet} B; name a class that is, or a shorter --packet"
            ))
        })?;
        let (error, load) = (found.error(), to_f64(&found.load));
        Ok(MeanDelayEstimate {
            class: link.names.name(class).to_owned(),
            mean_delay_s: found.seconds.as_ref().filter(|_| error.is_some()).map(to_f64),
            times_too_long: error,
            why_none: error.is_none().then_some(if load > 0.5 {
                "above half of the class's rate the theorem approaches its pole; it was up to 18 times too long"
            } else {
                "the theorem's error is known only for quanta of two to four packets"
            }),
            load,
            round_bytes: to_f64(&found.round),
            packets_per_round: found.packets,
        })
    };
    demands.into_iter().map(mean).collect()
}
