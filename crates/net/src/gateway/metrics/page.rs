//! The metrics as text: names, units and labels.
//!
//! Inner classes carry `leaf="false"`, so that sums over `leaf="true"` count each packet once. Histograms have few
//! buckets, because each class with its own delays has one: limits are powers of four from 1 us to 4 s. They are exact
//! for whole nanoseconds below a limit.

use std::fmt;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use fairlink_core::ClassId;
use fairlink_report::{Kind, MEASURES, Measure, Measured, Terms, Value, measure};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, MetricEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};

use super::class_filter::ClassFilter;
use crate::gateway::account::{ClassInterval, DelayTally, GatewayCounts, Interval, Observation, Totals};
use crate::gateway::links::Reloads;

/// Limits of the histograms' buckets are these powers of two, in ns.
const LIMITS: [u32; 12] = [10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30, 32];

/// Data of one link.
#[derive(Debug)]
pub(super) struct LinkPage {
    pub(super) name: String,
    /// `None` if its data thread did not answer in time, or never ran.
    pub(super) observation: Option<Arc<Observation>>,
    pub(super) interval: Option<Interval>,
}

/// Data of all links.
#[derive(Clone, Debug)]
pub(super) struct Page {
    links: Arc<Vec<LinkPage>>,
    reloads: Reloads,
    filter: ClassFilter,
}

impl Page {
    pub(super) fn new(links: Vec<LinkPage>, reloads: Reloads) -> Self {
        Self { links: Arc::new(links), reloads, filter: ClassFilter::default() }
    }

    /// Formats OpenMetrics text, with the classes that `filter` selects.
    pub(super) fn text(&self, filter: &ClassFilter) -> String {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Self { filter: filter.clone(), ..self.clone() }));
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = text::encode(&mut text, &registry);
        text
    }

    /// The links, in their order.
    pub(super) fn links(&self) -> &[LinkPage] {
        &self.links
    }

    fn observations(&self) -> impl Iterator<Item = (&LinkPage, &Observation)> {
        self.links.iter().filter_map(|link| Some((link, link.observation.as_deref()?)))
    }

    /// Returns all classes of all links except the links themselves.
    fn classes(&self) -> impl Iterator<Item = Class<'_>> {
        let filter = &self.filter;
        self.observations().flat_map(move |(link, observation)| {
            let generation = observation.generation();
            let asked = move |id: &ClassId| filter.takes(&generation.tree, *id, generation.names[id.index()].as_str());
            generation.tree.classes().filter(asked).map(move |id| Class {
                labels: (
                    ("link", link.name.as_str()),
                    ("class", generation.names[id.index()].as_str()),
                    ("leaf", if generation.tree.is_leaf(id) { "true" } else { "false" }),
                ),
                id,
                link,
                observation,
            })
        })
    }
}

/// Name, description and accessor.
type Column<T, V> = (&'static str, &'static str, fn(&T) -> V);
/// The same with its unit in the second place.
type Gauge = (&'static str, Option<&'static str>, &'static str, fn(&Observation) -> f64);
type ClassLabels<'a> = ((&'static str, &'a str), (&'static str, &'a str), (&'static str, &'static str));

/// One class.
#[derive(Clone, Copy)]
struct Class<'a> {
    labels: ClassLabels<'a>,
    id: ClassId,
    link: &'a LinkPage,
    observation: &'a Observation,
}

impl<'a> Class<'a> {
    fn labels(&self) -> [(&'static str, &'a str); 3] {
        let (link, class, leaf) = self.labels;
        [link, class, leaf]
    }

    fn totals(&self) -> &'a Totals {
        &self.observation.totals[self.id.index()]
    }

    fn value(&self, measure: &Measure) -> Option<Value> {
        let generation = self.observation.generation();
        let rates = self.interval().map(ClassInterval::rates);
        let measured = Measured {
            counts: Some(&self.totals().counts),
            rates: rates.as_ref(),
            terms: Some(&Terms::new(&generation.tree, self.id)),
            delay_bound_s: generation.delay_bound_s(self.id),
        };
        (measure.get)(&measured)
    }

    fn interval(&self) -> Option<&'a ClassInterval> {
        self.link.interval.as_ref()?.class(self.id)
    }
}

/// Writes families one after the other.
struct Writer<'a>(DescriptorEncoder<'a>);

impl Writer<'_> {
    fn family(
        &mut self,
        name: &str,
        unit: Option<&str>,
        help: &str,
        kind: MetricType,
        write: impl FnOnce(&mut MetricEncoder<'_>) -> fmt::Result,
    ) -> fmt::Result {
        let unit = unit.map(|unit| Unit::Other(unit.to_owned()));
        write(&mut self.0.encode_descriptor(name, help, unit.as_ref(), kind)?)
    }

    /// Writes a measure of each `class` or `link`: two families if it has packets and bytes.
    fn measure<L: EncodeLabelSet, I: Iterator<Item = (L, Value)>>(
        &mut self,
        of: &str,
        measure: &Measure,
        samples: impl Fn() -> I,
    ) -> fmt::Result {
        let name = format!("fairlink_{of}_{}", measure.key);
        for &unit in measure.unit.metrics() {
            let family = (name.as_str(), Some(unit), measure.help);
            match measure.kind {
                Kind::Gauge => self.gauge(family, samples().map(|(labels, value)| (labels, value.number(unit))))?,
                Kind::Counter => self.counter(family, samples().map(|(labels, value)| (labels, value.count(unit))))?,
            }
        }
        Ok(())
    }

    fn counter<L: EncodeLabelSet>(
        &mut self,
        (name, unit, help): (&str, Option<&str>, &str),
        samples: impl Iterator<Item = (L, u64)>,
    ) -> fmt::Result {
        self.family(name, unit, help, MetricType::Counter, |metric| {
            for (labels, value) in samples {
                metric.encode_family(&labels)?.encode_counter::<NoLabelSet, _, f64>(&value, None)?;
            }
            Ok(())
        })
    }

    fn gauge<L: EncodeLabelSet>(
        &mut self,
        (name, unit, help): (&str, Option<&str>, &str),
        samples: impl Iterator<Item = (L, f64)>,
    ) -> fmt::Result {
        self.family(name, unit, help, MetricType::Gauge, |metric| {
            for (labels, value) in samples {
                metric.encode_family(&labels)?.encode_gauge(&value)?;
            }
            Ok(())
        })
    }

    fn delays<'d, L: EncodeLabelSet>(
        &mut self,
        (name, help): (&str, &str),
        samples: impl Iterator<Item = (L, &'d DelayTally)>,
    ) -> fmt::Result {
        self.family(name, Some("seconds"), help, MetricType::Histogram, |metric| {
            for (labels, delays) in samples {
                let mut before = 0;
                let below = delays.shorter_than(LIMITS.iter().map(|&power| 1 << power));
                let mut buckets: Vec<(f64, u64)> = Vec::with_capacity(LIMITS.len() + 1);
                for (&power, count) in LIMITS.iter().zip(below) {
                    buckets.push(((1u64 << power) as f64 / 1e9, count - before));
                    before = count;
                }
                let packets = delays.packets();
                buckets.push((f64::INFINITY, packets - before));
                metric.encode_family(&labels)?.encode_histogram::<NoLabelSet>(
                    delays.sum_s(),
                    packets,
                    &buckets,
                    None,
                )?;
            }
            Ok(())
        })
    }
}

impl Collector for Page {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut writer = Writer(encoder);
        self.of_classes(&mut writer)?;
        self.of_links(&mut writer)?;
        self.of_gateways(&mut writer)?;
        self.of_process(&mut writer)
    }
}

impl Page {
    fn of_classes(&self, writer: &mut Writer<'_>) -> fmt::Result {
        // Each family has all its samples together, so that a class is visited once for each.
        for measure in MEASURES.iter().filter(|measure| measure.key != "dropped") {
            let samples = || self.classes().filter_map(|class| Some((class.labels(), class.value(measure)?)));
            writer.measure("class", measure, samples)?;
        }
        if let Some(measure) = measure("dropped") {
            let samples = || {
                self.classes().flat_map(|class| {
                    let causes = class.totals().counts.dropped_by.unwrap_or_default();
                    let causes: Vec<_> = causes.iter().collect();
                    causes.into_iter().map(move |(cause, amount)| {
                        let [link, name, leaf] = class.labels();
                        ([link, name, leaf, ("reason", cause.key())], Value::Amount(amount))
                    })
                })
            };
            writer.measure("class", measure, samples)?;
        }
        let limited = self.classes().filter_map(|class| {
            let limited = class.interval()?.limited?;
            let end = class.link.interval.as_ref()?.end();
            let by = match limited.by {
                None => "",
                Some(ClassId::ROOT) => "link",
                Some(by) => &class.observation.generation().names[by.index()],
            };
            let [link, name, leaf] = class.labels();
            let labels = [link, name, leaf, ("limit", limited.cause.key()), ("limited_by", by)];
            Some((labels, end.saturating_sub(limited.since).0 as f64 / 1e9))
        });
        let help = "Time for which this reason has limited the class, if known";
        writer.gauge(("fairlink_class_limited", Some("seconds"), help), limited)?;
        let delays = self.classes().filter_map(|class| Some((class.labels(), class.totals().delays.as_ref()?)));
        writer.delays(("fairlink_class_delay", "Delay of packets in the gateway"), delays)
    }

    fn of_links(&self, writer: &mut Writer<'_>) -> fmt::Result {
        let label = |link: &LinkPage| [("link", link.name.clone())];
        let bps = Some("bits_per_second");
        let capacity =
            self.observations().map(|(link, seen)| (label(link), seen.generation().tree.link().rate.bps() as f64));
        writer.gauge(("fairlink_link_capacity", bps, "Configured rate"), capacity)?;
        for measure in MEASURES.iter().filter(|measure| measure.of_link) {
            let samples = || {
                self.observations().filter_map(|(link, seen)| {
                    let rates = link.interval.as_ref().and_then(|interval| interval.class(ClassId::ROOT));
                    let rates = rates.map(ClassInterval::rates);
                    let counts = Some(&seen.totals[ClassId::ROOT.index()].counts);
                    let measured = Measured { counts, rates: rates.as_ref(), ..Measured::default() };
                    Some((label(link), (measure.get)(&measured)?))
                })
            };
            writer.measure("link", measure, samples)?;
        }
        let delays = self.observations().map(|(link, seen)| (label(link), &seen.all_delays));
        writer.delays(("fairlink_link_delay", "Delay of packets of all classes in the gateway"), delays)
    }

    fn of_gateways(&self, writer: &mut Writer<'_>) -> fmt::Result {
        let label = |link: &LinkPage| [("link", link.name.clone())];
        let up = self.links.iter().map(|link| (label(link), f64::from(u8::from(link.observation.is_some()))));
        writer.gauge(("fairlink_gateway_up", None, "1 if the data thread has answered"), up)?;
        writer.family(
            "fairlink_gateway",
            None,
            "Interfaces and scheduler of the gateway",
            MetricType::Info,
            |metric| {
                for (link, seen) in self.observations() {
                    let generation = seen.generation();
                    let labels = [
                        ("link", link.name.as_str()),
                        ("input", &generation.input),
                        ("output", &generation.output),
                        ("scheduler", generation.scheduler.name),
                    ];
                    metric.encode_info(&labels)?;
                }
                Ok(())
            },
        )?;
        let gateway = || self.observations().map(|(link, seen)| (label(link), &seen.snapshot.gateway, seen));
        let gauges: [Gauge; 7] = [
            ("uptime", Some("seconds"), "Time since the data thread started", |seen| {
                seen.snapshot.gateway.uptime.0 as f64 / 1e9
            }),
            ("longest_pause", Some("seconds"), "Longest pause of the data thread, above 300 ms", |seen| {
                seen.snapshot.gateway.liveness.longest_pause_s
            }),
            ("longest_stall", Some("seconds"), "Longest stall of a direction", |seen| {
                seen.snapshot.gateway.liveness.longest_stall_s
            }),
            ("balanced", None, "1 if every packet is accounted for", |seen| f64::from(u8::from(seen.is_balanced()))),
            ("generation", None, "Number of changes so far", |seen| seen.generation().number as f64),
            ("processor", Some("ratio"), "Fraction of the time for which the data thread had a processor", |seen| {
                seen.snapshot.gateway.time.processor
            }),
            ("idle", Some("ratio"), "Fraction of the time for which the data thread slept", |seen| {
                seen.snapshot.gateway.time.idle
            }),
        ];
        for (what, unit, help, of) in gauges {
            let samples = gateway().map(|(labels, _, seen)| (labels, of(seen)));
            writer.gauge((&format!("fairlink_gateway_{what}"), unit, help), samples)?;
        }
        let times: [Column<GatewayCounts, f64>; 3] = [
            ("forfeited", "Link time lost while packets were queued", |counts| counts.forfeited.0 as f64 / 1e9),
            ("without_interface", "Time for which an interface was down or missing", |counts| {
                counts.liveness.without_interface_s
            }),
            ("without_carrier", "Time for which frames waited for an interface without carrier", |counts| {
                counts.liveness.without_carrier_s
            }),
        ];
        for (what, help, of) in times {
            writer.family(
                &format!("fairlink_gateway_{what}"),
                Some("seconds"),
                help,
                MetricType::Counter,
                |metric| {
                    for (labels, counts, _) in gateway() {
                        metric.encode_family(&labels)?.encode_counter::<NoLabelSet, _, f64>(&of(counts), None)?;
                    }
                    Ok(())
                },
            )?;
        }
        let fail_open =
            || gateway().filter_map(|(labels, counts, _)| Some((labels, counts, counts.fail_open.as_deref()?)));
        let whole = fail_open().map(|([link], counts, stats)| {
            let by = stats.by.clone().unwrap_or_default();
            let passes = stats.by.is_some() && !counts.upkeep.broken;
            ([link, ("by", by)], f64::from(u8::from(passes)))
        });
        let help = "1 if the kernel passes frames while the gateway does not run";
        writer.gauge(("fairlink_gateway_fail_open", None, help), whole)?;
        let repairs = fail_open().map(|(labels, counts, _)| (labels, counts.upkeep.repairs));
        let help = "Parts of the fail-open arrangement that were removed and installed again";
        writer.counter(("fairlink_gateway_fail_open_repairs", None, help), repairs)?;
        let events: [Column<Observation, u64>; 3] = [
            ("stalls", "Stalls of a direction although frames could be sent", |seen| {
                seen.snapshot.gateway.liveness.stalls
            }),
            ("pauses", "Pauses of the data thread of more than 300 ms", |seen| seen.snapshot.gateway.liveness.pauses),
            ("interface_losses", "Times that an interface went down or disappeared", |seen| {
                seen.snapshot.gateway.liveness.interface_losses
            }),
        ];
        for (what, help, of) in events {
            let samples = gateway().map(|(labels, _, seen)| (labels, of(seen)));
            writer.counter((&format!("fairlink_gateway_{what}"), None, help), samples)?;
        }
        let counters: [Column<Observation, u64>; 8] = [
            ("shed_unknown", "Frames of unknown flows that the kernel dropped while load was shed", |seen| {
                seen.snapshot.gateway.shed_unknown
            }),
            ("kernel_dropped", "Frames that the kernel dropped before the gateway fetched them", |seen| {
                seen.snapshot.gateway.interfaces.kernel_dropped
            }),
            ("super", "Super-frames, joined by an offload, that could not be split", |seen| {
                seen.snapshot.gateway.interfaces.super_packets()
            }),
            ("split", "Super-frames, joined by an offload, that were split", |seen| {
                seen.snapshot.gateway.splits.frames
            }),
            ("segment", "Packets that super-frames were split into", |seen| seen.snapshot.gateway.splits.packets),
            ("unreadable", "Frames that the kernel discarded because it cannot describe them", |seen| {
                seen.snapshot.gateway.interfaces.unreadable
            }),
            ("reverse_sent", "Packets sent in the direction that is not shaped", |seen| {
                seen.snapshot.gateway.reverse.unwrap_or_default().sent.packets
            }),
            ("reverse_dropped", "Packets dropped in the direction that is not shaped", |seen| {
                seen.snapshot.gateway.reverse.unwrap_or_default().dropped.packets
            }),
        ];
        for (what, help, of) in counters {
            let samples = gateway().map(|(labels, _, seen)| (labels, of(seen)));
            writer.counter((&format!("fairlink_gateway_{what}"), Some("packets"), help), samples)?;
        }
        Ok(())
    }

    /// Writes the metrics of reloads of the link files, however they were requested.
    fn of_process(&self, writer: &mut Writer<'_>) -> fmt::Result {
        let Reloads { done, refused, last } = &self.reloads;
        let none: [(&str, &str); 0] = [];
        let help = "Reloads by result";
        let counts = [("done", *done), ("refused", *refused)];
        let counts = counts.into_iter().map(|(result, count)| ([("result", result)], count));
        writer.counter(("fairlink_reloads", None, help), counts)?;
        let Some(last) = last else { return Ok(()) };
        let of = |value: f64| std::iter::once((none, value));
        let success = f64::from(u8::from(last.done));
        writer.gauge(("fairlink_reload_last_success", None, "1 if the last reload succeeded"), of(success))?;
        let at = last.at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        let help = "Time of the last reload's end, since 1970";
        writer.gauge(("fairlink_reload_last_timestamp", Some("seconds"), help), of(at))?;
        let help = "Duration of the last reload";
        writer.gauge(("fairlink_reload_last_duration", Some("seconds"), help), of(last.took.as_secs_f64()))
    }
}
