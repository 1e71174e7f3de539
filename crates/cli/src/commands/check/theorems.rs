//! What `check` prints beside the bounds: theorems as their texts print them, virtual times and inner curves of H-FSC, and the mean delay that
//! DRR++ is to have under a load. All of it is computed in the theory crate.

use fairlink_config::demand::parse_demand;
use fairlink_config::link::LinkFile;
use fairlink_config::units::parse_size;
use fairlink_core::schedulers::drr_plus_plus;
use fairlink_core::{ClassId, Fairness};
use fairlink_theory::as_printed::{Arrivals, MeanDelay, Quantity, as_printed};
use fairlink_theory::inner_curves::InnerCurves;
use fairlink_theory::to_f64;
use fairlink_theory::virtual_time::{Spread, spreads};
use serde::Serialize;

use crate::commands::check::bounds::USEFUL_S;
use crate::failure::Failure;
use crate::human;
use crate::link::in_text;

/// Classes named in text; JSON has all.
const SHOWN: usize = 8;

/// What the latency-critical classes send.
#[derive(Debug, clap::Args)]
pub(super) struct Load {
    /// Mean rates of latency-critical classes, such as voice=64kbit, for the mean delay under drr++ (Theorem 1 of its text).
    #[arg(long, value_name = "LEAF=RATE,...")]
    demand: Option<String>,
    /// Mean packet length of these classes [default: the mtu].
    #[arg(long, value_name = "SIZE", requires = "demand")]
    packet: Option<String>,
}

/// The member `theorems`.
#[derive(Debug, Default, Serialize)]
pub(super) struct Theorems<'a> {
    /// Of texts whose theorem is not what holds.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    as_printed: Vec<AsPrinted<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    virtual_times: Option<VirtualTimes<'a>>,
    /// By how much a deadline is missed at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    deadlines_missed_by_s: Option<f64>,
    /// Inner classes whose curve is not always met; absent where the scheduler has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    inner_curves: Option<Vec<InnerCurve<'a>>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    mean_delays: Vec<Mean<'a>>,
}

#[derive(Debug, Serialize)]
struct AsPrinted<'a> {
    theorem: &'static str,
    /// `fairness_bytes`, `transmission_gap_s` or `delay_s`.
    quantity: &'static str,
    class: Option<&'a str>,
    value: f64,
    caution: &'static str,
}

#[derive(Debug, Serialize)]
struct VirtualTimes<'a> {
    /// The largest difference of children of one class; null where there is no bound.
    bound_s: Option<f64>,
    /// That class, or the one because of which there is no bound.
    class: &'a str,
    why_none: Option<&'static str>,
    /// Why the bound is too long to be of use, where it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    why_useless: Option<String>,
}

#[derive(Debug, Serialize)]
struct InnerCurve<'a> {
    class: &'a str,
    /// How long after it gets packets it may begin to fall short.
    from_s: f64,
    /// Null where it grows without end.
    short_by_bytes: Option<f64>,
    at_s: f64,
    /// Whatever comes when, link-sharing included; null where there is no bound.
    at_most_bytes: Option<f64>,
}

#[derive(Debug, Serialize)]
struct Mean<'a> {
    class: &'a str,
    /// Absent where its error is not known; `why_none` says why.
    #[serde(skip_serializing_if = "Option::is_none")]
    mean_delay_s: Option<f64>,
    /// By which factor the theorem is too long, at least and at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    times_too_long: Option<(f64, f64)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    why_none: Option<&'static str>,
    /// The part of its rate that the class uses while all classes have packets.
    load: f64,
    round_bytes: f64,
    packets_per_round: u64,
}

impl<'a> Theorems<'a> {
    /// Those of the link's scheduler, under `load`.
    pub(super) fn of(link: &'a LinkFile, load: &Load) -> Result<Self, Failure> {
        let (info, tree) = (link.info(), &link.tree);
        let name = |class: ClassId| link.names.name(class);
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
        theorems.inner_curves = InnerCurves::of(tree).map(|found| {
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

    /// Whether how far virtual times are apart is said here.
    pub(super) fn says_fairness(&self) -> bool {
        self.virtual_times.is_some()
    }

    /// In words, a line each.
    pub(super) fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if let Some(times) = &self.virtual_times {
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
        if let Some(missed) = self.deadlines_missed_by_s {
            let missed = human::time(human::up(missed));
            lines.push(format!("deadlines         of leaves are missed by {missed} at most, the time of a largest packet, whatever the depth (Theorem 2)"));
        }
        for curve in self.inner_curves.iter().flatten().take(SHOWN) {
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
        let more = self.inner_curves.as_ref().map_or(0, |curves| curves.len().saturating_sub(SHOWN));
        if more > 0 {
            lines.push(format!(
                "inner curve       the same holds for {}",
                human::count(more, "more class", "more classes")
            ));
        }
        for printed in &self.as_printed {
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
            let of = printed.class.map(|class| format!(" of {class}")).unwrap_or_default();
            lines.push(format!(
                "as printed        {} has a {what}{of} of {value}; it {}",
                printed.theorem, printed.caution
            ));
        }
        for mean in &self.mean_delays {
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
}

fn virtual_times(link: &LinkFile) -> Option<VirtualTimes<'_>> {
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
            Some(Spread::Unbounded(class)) => {
                (*class, "has real-time curves below it that ask for more than its share")
            }
            Some(Spread::Unknown(class)) => (*class, "has a limit, takes no part in sharing, or is not sure of a rate"),
        };
        let class = link.names.name(class);
        return Some(VirtualTimes { bound_s: None, class, why_none: Some(why), why_useless: None });
    }
    let (seconds, parent) = widest?;
    let why_useless = (seconds > USEFUL_S).then(|| why_useless(link, parent)).flatten();
    Some(VirtualTimes { bound_s: Some(seconds), class: link.names.name(parent), why_none: None, why_useless })
}

/// Why the constant of Theorem 3 is so long below `parent`: it counts packets of all children in the virtual time of the slowest.
fn why_useless(link: &LinkFile, parent: ClassId) -> Option<String> {
    let tree = &link.tree;
    let slowest = tree.children(parent).iter().copied().min_by_key(|&child| tree.rate_all_busy(child))?;
    let bps = tree.rate_all_busy(slowest).max(1) as f64;
    Some(format!(
        "it counts packets and real-time bursts of all siblings in the virtual time of {}, which has {} of the link while all are busy and needs {} for a largest packet",
        link.names.name(slowest),
        human::rate(bps),
        human::time(f64::from(tree.link().max_packet) * 8.0 / bps)
    ))
}

fn mean_delays<'a>(link: &'a LinkFile, load: &Load) -> Result<Vec<Mean<'a>>, Failure> {
    let Some(text) = &load.demand else { return Ok(Vec::new()) };
    if link.info().name != drr_plus_plus::INFO.name {
        let message =
            format!("--demand: {} has no theorem for a mean delay; write --scheduler drr++", link.info().name);
        return Err(Failure::wrong(message));
    }
    let mean_packet = match &load.packet {
        None => link.mtu,
        Some(text) => {
            let size = parse_size(text, link.mtu.into());
            let size = size.map_err(|error| Failure::wrong(format!("--packet: {error}; {}", error.help())))?;
            u32::try_from(size)
                .ok()
                .filter(|&size| size > 0)
                .ok_or_else(|| Failure::wrong("--packet: 0 B; the smallest is 1 B"))?
        }
    };
    let demands =
        parse_demand(text, &link.tree, &link.names).map_err(|error| Failure::wrong(format!("--demand: {error}")))?;
    let mean = |(class, rate): (ClassId, Option<u64>)| {
        let arrivals = Arrivals { rate_bps: rate.unwrap_or(u64::MAX), mean_packet };
        let found = MeanDelay::of(&link.tree, class, arrivals).ok_or_else(|| {
            let class = in_text(link, class);
            Failure::wrong(format!(
                "--demand: {class} is not latency_critical, or its quantum holds no packet of {mean_packet} B; name a class that is, or a shorter --packet"
            ))
        })?;
        let (error, load) = (found.error(), to_f64(&found.load));
        Ok(Mean {
            class: link.names.name(class),
            mean_delay_s: found.seconds.as_ref().filter(|_| error.is_some()).map(to_f64),
            times_too_long: error,
            why_none: error.is_none().then_some(if load > 0.5 {
                "it uses more than half of its rate, where the theorem nears its pole and was up to 18 times too long"
            } else {
                "the error of the theorem is known for quanta of two to four packets only"
            }),
            load,
            round_bytes: to_f64(&found.round),
            packets_per_round: found.packets,
        })
    };
    demands.into_iter().map(mean).collect()
}
