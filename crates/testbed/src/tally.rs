//! Measurements of a receiver: counts, delays, loss, duplicates, order. Independent of the socket.

use std::collections::BTreeMap;

use fairlink_core::{Amount, ClassId};
use fairlink_report::{Buckets, Content, Delay, Histogram, Rates};
use fairlink_traffic::clocks::{OneWay, Sample};
use schemars::JsonSchema;
use serde::Serialize;

use crate::clock_report::{ClockReport, SampledDelays};
use crate::reassembly::{DatagramCounts, Datagrams, Outcome, Reassembly};
use fairlink_net::Stamp;

/// Maximum number of classes that a receiver counts. Frames of further classes are [`ReceiverReport::beyond_packets`].
/// A class takes under 400 B, all together under 26 MB.
pub(crate) const MAX_CLASSES: usize = 65_536;
/// Maximum number of classes with delays: the first ones. Delays take 139 kB per class, all together 72 MB.
pub(crate) const MAX_DELAYS: usize = 512;
/// Maximum number of flows, of all classes together. A flow takes under 400 B, all together under 26 MB.
pub(crate) const MAX_FLOWS: usize = 65_536;
/// Maximum number of senders whose clocks are tracked, identified by their run numbers; 200 kB each.
pub(crate) const MAX_CLOCKS: usize = 8;
/// Maximum number of classes with corrected delays: the first ones; 131 kB each, all together 9 MB.
pub(crate) const MAX_CORRECTED: usize = 64;
/// Longest delay that the histogram distinguishes, in ns.
const MAX_DELAY_NS: u64 = 60_000_000_000;

/// The sender's clock by which delays are measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DelayClock {
    /// `CLOCK_MONOTONIC`: sender and receiver run on the same machine.
    #[default]
    Monotonic,
    /// `CLOCK_REALTIME`: two machines. If their clocks disagree, the difference is estimated from the delays, and
    /// delays are corrected.
    Realtime,
}

/// Delays in ns: quantiles are exact to 0.1 % of the value or 1 us, whichever is larger.
const BUCKETS: Buckets = Buckets::new(10, 10);

/// Frames received of one class. A fragmented datagram counts as one frame, once it is complete: with the bytes of all
/// its fragments, and the delay of the last.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Delivered {
    /// Its name, or its number if it has none.
    pub name: String,
    /// Its number.
    pub class: u32,
    /// Frames received, duplicates included.
    pub received_packets: u64,
    /// Their bytes (whole Ethernet frames without check sequence).
    pub received_bytes: u64,
    /// Mean rate in bit/s from the first to the last frame of any class.
    pub rate_bps: f64,
    /// Delays; absent if no frame had a measurable delay, and for classes beyond the first 512.
    pub delay_s: Option<Delay>,
    /// Delays beyond the shortest one of all classes, corrected for the two clocks. Absent if delays are measured by
    /// `CLOCK_MONOTONIC`, if the clocks cannot be estimated, and for classes beyond the first 64. Packets are those of
    /// the class's first run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub corrected_delay_s: Option<SampledDelays>,
    /// Frames missing between the first and the last received of each run.
    pub lost_packets: u64,
    /// Frames received again.
    pub duplicate_packets: u64,
    /// Frames that arrived after one sent later.
    pub reordered_packets: u64,
    /// Frames that appear to have arrived before they were sent: the clocks disagree.
    pub negative_delays: u64,
}

/// Frames received of one flow.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct FlowReport {
    /// The name of its class, or the number if it has none.
    pub name: String,
    /// The class.
    pub class: u32,
    /// Its number in the class, from 0.
    pub flow: u32,
    /// Frames received, duplicates included.
    pub received_packets: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// Mean rate in bit/s from the first to the last frame of any class.
    pub rate_bps: f64,
    /// Mean delay in seconds, of frames that have one.
    pub delay_mean_s: Option<f64>,
    /// Frames missing between the first and the last received of each run.
    pub lost_packets: u64,
    /// Frames received again.
    pub duplicate_packets: u64,
    /// Frames that arrived after one of the same flow sent later.
    pub reordered_packets: u64,
}

/// The receiver's clock against that of one sender.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct SenderClock {
    /// Number of the sender's run.
    pub run: u8,
    /// The clock's estimate.
    #[serde(flatten)]
    pub clock: ClockReport,
}

/// Report of a receiver.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct ReceiverReport {
    /// Length of the run in seconds.
    pub duration_s: f64,
    /// Per class, in the order of their numbers.
    pub classes: Vec<Delivered>,
    /// By flow, if flows are distinguished, in the order of classes and numbers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub flows: Vec<FlowReport>,
    /// Frames of flows beyond the first 65,536, which are counted in their classes only.
    pub beyond_flow_packets: u64,
    /// The senders' clocks, if delays are measured by `CLOCK_REALTIME`: the first 8 that can be estimated.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub clocks: Vec<SenderClock>,
    /// Datagrams that arrived in IP fragments; absent if there were none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub datagrams: Option<Datagrams>,
    /// Frames of other senders than the generator.
    pub foreign_packets: u64,
    /// Frames of classes that are not measured: with numbers that are not in `names`, if it has any, or of classes
    /// beyond the first 65,536. They take no memory, whatever the sender.
    pub beyond_packets: u64,
    /// Classes that are counted without delays, because only the first 512 have them.
    pub classes_without_delays: u64,
    /// Frames that the kernel dropped because this receiver was too slow: they are part of the loss, but not lost in
    /// the network.
    pub socket_drops: u64,
    /// Frames received of each class in each span of [`crate::receiver::ReceiverConfig::spans`].
    #[serde(skip)]
    pub spans: Vec<BTreeMap<ClassId, Amount>>,
}

impl Content for ReceiverReport {
    const KIND: &'static str = "receive";
}

impl ReceiverReport {
    /// The figures of `class`.
    #[must_use]
    pub fn class(&self, class: ClassId) -> Option<&Delivered> {
        self.classes.iter().find(|report| report.class == class.0)
    }
}

/// State of the sequence numbers of one class in one run. Numbers continue beyond 2^32 here.
#[derive(Clone, Debug)]
struct Sequence {
    run: u8,
    first: u64,
    highest: u64,
    /// The last 1024 numbers up to the highest: bit n % 1024 is set if number n was seen.
    seen: [u64; 16],
    missing: u64,
}

/// Order of a frame relative to those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Next,
    Late,
    Again,
}

impl Sequence {
    const WINDOW: u64 = 1024;

    fn new(run: u8, number: u32) -> Self {
        // Away from 0, so that numbers sent before the first one received exist.
        let first = u64::from(number) + (1 << 32);
        let mut sequence = Self { run, first, highest: first, seen: [0; 16], missing: 0 };
        sequence.mark(first);
        sequence
    }

    fn mark(&mut self, number: u64) {
        self.seen[(number % Self::WINDOW / 64) as usize] |= 1 << (number % 64);
    }

    fn is_marked(&self, number: u64) -> bool {
        self.seen[(number % Self::WINDOW / 64) as usize] & (1 << (number % 64)) != 0
    }

    fn record(&mut self, number: u32) -> Order {
        // The number nearest to the highest that has these low 32 bits.
        let ahead = number.wrapping_sub(self.highest as u32) as i32;
        let number = self.highest.saturating_add_signed(i64::from(ahead));
        if number > self.highest {
            for passed in (self.highest + 1).max((number + 1).saturating_sub(Self::WINDOW))..=number {
                self.seen[(passed % Self::WINDOW / 64) as usize] &= !(1 << (passed % 64));
            }
            self.missing += number - self.highest - 1;
            self.highest = number;
            self.mark(number);
            return Order::Next;
        }
        if number < self.first {
            // It was sent before the first one received, and so were those between.
            self.missing += self.first - number - 1;
            self.first = number;
        } else if number + Self::WINDOW <= self.highest {
            // Too old to know whether it was seen before: counted as late.
            self.missing = self.missing.saturating_sub(1);
            return Order::Late;
        } else if self.is_marked(number) {
            return Order::Again;
        } else {
            self.missing -= 1;
        }
        if number + Self::WINDOW > self.highest {
            self.mark(number);
        }
        Order::Late
    }
}

#[derive(Debug)]
struct Class {
    total: Amount,
    sequence: Sequence,
    lost_before: u64,
    duplicates: u64,
    reordered: u64,
    negative: u64,
    delays: Option<Histogram>,
    delay_sum_ns: u128,
}

impl Class {
    fn new(stamp: &Stamp, with_delays: bool) -> Self {
        let delays = with_delays.then(|| Histogram::new(BUCKETS, MAX_DELAY_NS));
        Self {
            total: Amount::default(),
            sequence: Sequence::new(stamp.run, stamp.sequence),
            lost_before: 0,
            duplicates: 0,
            reordered: 0,
            negative: 0,
            delays,
            delay_sum_ns: 0,
        }
    }

    fn record(&mut self, stamp: &Stamp, bytes: u64, delay_ns: i64) {
        if stamp.run != self.sequence.run {
            self.lost_before += self.sequence.missing;
            self.sequence = Sequence::new(stamp.run, stamp.sequence);
        } else if self.total.packets > 0 {
            match self.sequence.record(stamp.sequence) {
                Order::Next => {}
                Order::Late => self.reordered += 1,
                Order::Again => self.duplicates += 1,
            }
        }
        self.total.count(bytes);
        if let Ok(delay) = u64::try_from(delay_ns) {
            if let Some(delays) = &mut self.delays {
                delays.record(delay);
            }
            self.delay_sum_ns += u128::from(delay);
        } else {
            self.negative += 1;
        }
    }

    fn flow_report(&self, (class, flow): (ClassId, u32), name: Option<&String>, seconds: f64) -> FlowReport {
        let told = self.total.packets - self.negative;
        FlowReport {
            name: name.cloned().unwrap_or_else(|| class.0.to_string()),
            class: class.0,
            flow,
            received_packets: self.total.packets,
            received_bytes: self.total.bytes,
            rate_bps: Rates::bps(self.total, seconds),
            delay_mean_s: (told > 0).then(|| self.delay_sum_ns as f64 / told as f64 / 1e9),
            lost_packets: self.lost_before + self.sequence.missing,
            duplicate_packets: self.duplicates,
            reordered_packets: self.reordered,
        }
    }

    fn report(&self, class: ClassId, name: Option<&String>, seconds: f64) -> Delivered {
        Delivered {
            name: name.cloned().unwrap_or_else(|| class.0.to_string()),
            class: class.0,
            received_packets: self.total.packets,
            received_bytes: self.total.bytes,
            rate_bps: Rates::bps(self.total, seconds),
            delay_s: self.delays.as_ref().filter(|delays| delays.tally().count > 0).map(Histogram::delay),
            corrected_delay_s: None,
            lost_packets: self.lost_before + self.sequence.missing,
            duplicate_packets: self.duplicates,
            reordered_packets: self.reordered,
            negative_delays: self.negative,
        }
    }
}

/// Frames received of a class in a window.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Seen {
    /// Frames and bytes.
    pub amount: Amount,
    /// Number of frames with non-negative delays, and the sum of these delays in seconds.
    delayed: (u64, f64),
    /// The longest delay, in seconds.
    pub longest_s: Option<f64>,
}

impl Seen {
    fn count(&mut self, bytes: u64, delay_ns: i64) {
        self.amount.count(bytes);
        // A negative one says that two clocks disagree.
        if delay_ns >= 0 {
            let delay = delay_ns as f64 / 1e9;
            self.delayed = (self.delayed.0 + 1, self.delayed.1 + delay);
            self.longest_s = Some(self.longest_s.map_or(delay, |longest| longest.max(delay)));
        }
    }

    /// Mean of the delays, in seconds.
    #[must_use]
    pub fn mean_s(&self) -> Option<f64> {
        (self.delayed.0 > 0).then(|| self.delayed.1 / self.delayed.0 as f64)
    }
}

/// Everything that one receiver measures.
#[derive(Debug)]
pub(crate) struct Tally {
    clock: DelayClock,
    /// Names of classes; if there are any, no others are measured.
    names: BTreeMap<ClassId, String>,
    classes: BTreeMap<ClassId, Class>,
    /// Flows of each class; with 1, flows are not distinguished.
    flows_of_class: u32,
    flows: BTreeMap<(ClassId, u32), Class>,
    beyond_flows: u64,
    /// By the number of a run.
    clocks: BTreeMap<u8, OneWay>,
    /// With the run that they belong to.
    samples: BTreeMap<ClassId, (u8, Sample)>,
    reassembly: Reassembly,
    datagrams: DatagramCounts,
    foreign: u64,
    beyond: u64,
    window: BTreeMap<ClassId, Seen>,
    spans: Vec<((u64, u64), BTreeMap<ClassId, Amount>)>,
    /// Arrival times hardly decrease, so the search for a span starts at the last one found.
    span: usize,
    first_ns: Option<u64>,
    last_ns: u64,
}

impl Tally {
    pub(crate) fn new(
        clock: DelayClock,
        spans: &[(u64, u64)],
        names: BTreeMap<ClassId, String>,
        flows_of_class: u32,
    ) -> Self {
        Self {
            clock,
            names,
            classes: BTreeMap::new(),
            flows_of_class: flows_of_class.max(1),
            flows: BTreeMap::new(),
            beyond_flows: 0,
            clocks: BTreeMap::new(),
            samples: BTreeMap::new(),
            reassembly: Reassembly::default(),
            datagrams: DatagramCounts::default(),
            foreign: 0,
            beyond: 0,
            window: BTreeMap::new(),
            spans: spans.iter().map(|&span| (span, BTreeMap::new())).collect(),
            span: 0,
            first_ns: None,
            last_ns: 0,
        }
    }

    /// Processes a frame of `bytes` bytes that begins with `frame` and arrived at `realtime_ns`, which was
    /// `monotonic_ns`.
    pub(crate) fn record(&mut self, frame: &[u8], bytes: u64, monotonic_ns: u64, realtime_ns: u64) {
        let Self { reassembly, datagrams, names, .. } = self;
        let outcome =
            reassembly.record(frame, bytes, monotonic_ns, |lost| datagrams.count(&lost, false, names, MAX_CLASSES));
        let (stamp, bytes) = match outcome {
            Outcome::Whole => (Stamp::read(frame), bytes),
            Outcome::Complete(datagram) => {
                datagrams.count(&datagram, true, names, MAX_CLASSES);
                (datagram.stamp, datagram.bytes)
            }
            Outcome::Waiting | Outcome::Refused => return,
        };
        let Some(stamp) = stamp else {
            self.foreign += 1;
            return;
        };
        self.see_packet(&stamp, bytes, monotonic_ns, realtime_ns);
    }

    /// Counts a frame or datagram of `bytes` bytes with this stamp.
    fn see_packet(&mut self, stamp: &Stamp, bytes: u64, monotonic_ns: u64, realtime_ns: u64) {
        if !self.classes.contains_key(&stamp.class) {
            let unnamed = !self.names.is_empty() && !self.names.contains_key(&stamp.class);
            let count = self.classes.len();
            if unnamed || count >= MAX_CLASSES {
                self.beyond += 1;
                return;
            }
            self.classes.insert(stamp.class, Class::new(stamp, count < MAX_DELAYS));
        }
        let delay_ns = match self.clock {
            DelayClock::Monotonic => monotonic_ns.wrapping_sub(stamp.monotonic_ns) as i64,
            // The nearest time to now that has these low 32 bits.
            DelayClock::Realtime => {
                i64::from(((realtime_ns / 1000) as u32).wrapping_sub(stamp.realtime_us) as i32) * 1000
            }
        };
        if let Some(class) = self.classes.get_mut(&stamp.class) {
            class.record(stamp, bytes, delay_ns);
        }
        if self.flows_of_class > 1 {
            self.see_flow(stamp, bytes, delay_ns);
        }
        if self.clock == DelayClock::Realtime {
            self.see_clock(stamp, monotonic_ns, delay_ns);
        }
        self.window.entry(stamp.class).or_default().count(bytes, delay_ns);
        self.first_ns.get_or_insert(monotonic_ns);
        self.last_ns = self.last_ns.max(monotonic_ns);
        while let Some(((_, end), _)) = self.spans.get(self.span)
            && *end <= monotonic_ns
        {
            self.span += 1;
        }
        if let Some(((start, _), counts)) = self.spans.get_mut(self.span)
            && *start <= monotonic_ns
        {
            counts.entry(stamp.class).or_default().count(bytes);
        }
    }

    /// Frames use the flows of their class in turn, so a frame's number gives its flow and its number there.
    fn see_flow(&mut self, stamp: &Stamp, bytes: u64, delay_ns: i64) {
        let key = (stamp.class, stamp.sequence % self.flows_of_class);
        let stamp = Stamp { sequence: stamp.sequence / self.flows_of_class, ..*stamp };
        if !self.flows.contains_key(&key) {
            if self.flows.len() >= MAX_FLOWS {
                self.beyond_flows += 1;
                return;
            }
            self.flows.insert(key, Class::new(&stamp, false));
        }
        if let Some(flow) = self.flows.get_mut(&key) {
            flow.record(&stamp, bytes, delay_ns);
        }
    }

    /// Times are those of this machine's `CLOCK_MONOTONIC`, which cannot be set.
    fn see_clock(&mut self, stamp: &Stamp, monotonic_ns: u64, delay_ns: i64) {
        if self.clocks.len() < MAX_CLOCKS || self.clocks.contains_key(&stamp.run) {
            self.clocks.entry(stamp.run).or_default().record(monotonic_ns, delay_ns);
        }
        if self.samples.len() < MAX_CORRECTED || self.samples.contains_key(&stamp.class) {
            let new = || (stamp.run, Sample::new(stamp.class.0));
            let (run, sample) = self.samples.entry(stamp.class).or_insert_with(new);
            if *run == stamp.run {
                sample.record(monotonic_ns, delay_ns);
            }
        }
    }

    /// Time from the first frame to `now`, by this machine's `CLOCK_MONOTONIC`.
    pub(crate) fn since_first_ns(&self, now: u64) -> Option<u64> {
        self.first_ns.map(|first| now.saturating_sub(first))
    }

    /// Returns the frames received in the window that ends now.
    pub(crate) fn take_window(&mut self) -> BTreeMap<ClassId, Seen> {
        std::mem::take(&mut self.window)
    }

    pub(crate) fn report(mut self, duration_s: f64, socket_drops: u64) -> ReceiverReport {
        let fragments = self.reassembly.counts();
        self.reassembly.end(|lost| self.datagrams.count(&lost, false, &self.names, MAX_CLASSES));
        let seconds = self.first_ns.map_or(0.0, |first| self.last_ns.saturating_sub(first) as f64 / 1e9);
        let clocks: BTreeMap<u8, _> = (self.clocks.iter())
            .filter_map(|(&run, one_way)| Some((run, (one_way.clocks()?, one_way.first_ns()?))))
            .collect();
        let corrected = |class: ClassId| {
            let (run, sample) = self.samples.get(&class)?;
            let (clocks, first) = clocks.get(run)?;
            sample.corrected(clocks, *first).map(SampledDelays::from)
        };
        let class_report = |(&class, state): (&ClassId, &Class)| Delivered {
            corrected_delay_s: corrected(class),
            ..state.report(class, self.names.get(&class), seconds)
        };
        ReceiverReport {
            duration_s,
            classes: self.classes.iter().map(class_report).collect(),
            flows: (self.flows.iter())
                .map(|(&key, state)| state.flow_report(key, self.names.get(&key.0), seconds))
                .collect(),
            beyond_flow_packets: self.beyond_flows,
            clocks: clocks.iter().map(|(&run, (clocks, _))| SenderClock { run, clock: clocks.into() }).collect(),
            datagrams: self.datagrams.report(fragments, &self.names),
            foreign_packets: self.foreign,
            beyond_packets: self.beyond,
            classes_without_delays: self.classes.len().saturating_sub(MAX_DELAYS) as u64,
            socket_drops,
            spans: self.spans.into_iter().map(|(_, counts)| counts).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairlink_net::{FrameTemplate, Headers};

    fn frame(run: u8, class: u32, sequence: u32, monotonic_ns: u64, realtime_us: u32) -> [u8; 64] {
        let mut frame = [0; 64];
        let stamp = Stamp { run, class: ClassId(class), sequence, monotonic_ns, realtime_us };
        FrameTemplate::new(&Headers::udp(5001)).write(&mut frame, &stamp);
        frame
    }

    fn tally(clock: DelayClock, spans: &[(u64, u64)]) -> Tally {
        Tally::new(clock, spans, BTreeMap::new(), 1)
    }

    fn order_of(numbers: &[u32]) -> (u64, u64, u64, u64) {
        let mut tally = tally(DelayClock::Monotonic, &[]);
        for &number in numbers {
            tally.record(&frame(1, 3, number, 0, 0), 64, 1000, 0);
        }
        let report = tally.report(1.0, 0);
        let class = report.class(ClassId(3)).unwrap();
        (class.received_packets, class.lost_packets, class.reordered_packets, class.duplicate_packets)
    }

    #[test]
    fn loss_disorder_and_duplicates_are_told_apart() {
        assert_eq!(order_of(&[5, 6, 7, 8]), (4, 0, 0, 0));
        assert_eq!(order_of(&[0, 1, 4, 5]), (4, 2, 0, 0));
        assert_eq!(order_of(&[0, 1, 4, 3, 5, 2]), (6, 0, 2, 0));
        assert_eq!(order_of(&[0, 1, 1, 4, 4, 3, 3]), (7, 1, 1, 3));
        // Late ones from before the first frame seen.
        assert_eq!(order_of(&[4, 2, 5, 3]), (4, 0, 2, 0));
        assert_eq!(order_of(&[4, 2, 5, 2]), (4, 1, 1, 1));
        // Numbers are modulo 2^32.
        assert_eq!(order_of(&[u32::MAX - 1, u32::MAX, 0, 2, 1]), (5, 0, 1, 0));
        // A gap longer than the remembered range; a late frame outside of it.
        assert_eq!(order_of(&[0, 5000, 5001, 4999, 4999, 1]), (6, 4997, 2, 1));
    }

    #[test]
    fn a_new_run_is_not_disorder() {
        let mut tally = tally(DelayClock::Monotonic, &[]);
        for (run, number) in [(1, 0), (1, 1), (1, 4), (2, 0), (2, 1), (2, 3)] {
            tally.record(&frame(run, 3, number, 0, 0), 64, 1000, 0);
        }
        let report = tally.report(1.0, 0);
        let class = &report.classes[0];
        assert_eq!((class.lost_packets, class.reordered_packets, class.duplicate_packets), (3, 0, 0));
    }

    #[test]
    fn delays_are_those_of_the_clock_chosen() {
        let names = || BTreeMap::from([(ClassId(3), "A1".to_owned())]);
        let mut monotonic = Tally::new(DelayClock::Monotonic, &[], names(), 1);
        let mut realtime = Tally::new(DelayClock::Realtime, &[], names(), 1);
        let now_us: u64 = (7 << 32) + 100;
        for (number, delay_us) in (0..1000).map(|number| (number, 100 + u64::from(number))) {
            // The sender's 32 bits of microseconds wrapped between sending and receiving.
            let sent = frame(1, 3, number, 50_000_000, (now_us - delay_us) as u32);
            monotonic.record(&sent, 1000, 50_000_000 + 2_000 * delay_us, 0);
            realtime.record(&sent, 1000, 0, now_us * 1000);
        }
        for (tally, factor) in [(monotonic, 2.0), (realtime, 1.0)] {
            let report = tally.report(1.0, 7);
            let delay = report.classes[0].delay_s.unwrap();
            let close = |value: Option<f64>, us: f64| (value.unwrap() / (us * factor / 1e6) - 1.0).abs() < 0.002;
            assert!(close(delay.min, 100.0) && close(delay.mean, 599.5) && close(delay.max, 1099.0), "{delay:?}");
            assert!(close(delay.p50, 600.0) && close(delay.p99, 1090.0), "{delay:?}");
            assert_eq!((report.classes[0].name.as_str(), report.socket_drops), ("A1", 7));
        }
    }

    #[test]
    fn delays_between_two_clocks_are_corrected_and_the_clocks_reported() {
        let mut tally = tally(DelayClock::Realtime, &[]);
        // The sender's clock is 90 s ahead and 80 ppm slow; it is set back by 20 ms after 60 s. Class 4 waits 2 ms
        // longer.
        for n in 0..40_000u64 {
            let at_us = 3_000 * n;
            let (class, more) = if n % 2 == 0 { (3, 0) } else { (4, 2_000) };
            let delay = 300 + more + (n * 7919 % 1000) * (n * 104_729 % 1000) / 1000;
            let set = if at_us > 60_000_000 { 20_000 } else { 0 };
            let sent_us = 5_000_000_000 + at_us - at_us * 8 / 100_000 + 90_000_000 - set;
            let arrived_ns = (5_000_000_000 + at_us + delay) * 1000;
            tally.record(&frame(1, class, (n / 2) as u32, 0, sent_us as u32), 100, arrived_ns, arrived_ns);
        }
        let report = tally.report(1.0, 0);
        assert!(report.classes.iter().all(|class| class.negative_delays > 0 && class.delay_s.is_none()));
        let [clock] = &report.clocks[..] else { panic!("{:?}", report.clocks) };
        let [jump] = &clock.clock.jumps[..] else { panic!("{clock:?}") };
        assert!((jump.size_s.value - 0.02).abs() < 20e-6 && (jump.at_s.value - 60.0).abs() < 0.5, "{jump:?}");
        assert!(clock.clock.stretches.iter().all(|part| (part.skew.value - 80e-6).abs() < 1e-6), "{clock:?}");
        let corrected = |class| report.class(ClassId(class)).unwrap().corrected_delay_s.unwrap();
        assert!(corrected(3).min.abs() < 20e-6 && (corrected(3).mean - 250e-6).abs() < 30e-6, "{:?}", corrected(3));
        assert!((corrected(4).min - 2e-3).abs() < 20e-6, "{:?}", corrected(4));
    }

    #[test]
    fn clocks_and_samples_of_any_number_of_runs_and_classes_take_the_stated_memory() {
        let mut tally = tally(DelayClock::Realtime, &[]);
        for n in 0..100_000u32 {
            tally.record(&frame(n as u8, n % 300, n, 0, 0), 64, u64::from(n) * 1_000_000, 0);
        }
        assert_eq!((tally.clocks.len(), tally.samples.len()), (MAX_CLOCKS, MAX_CORRECTED));
        let report = tally.report(1.0, 0);
        assert!(report.clocks.len() <= MAX_CLOCKS);
    }

    #[test]
    fn flows_of_a_class_are_told_apart_and_their_order_is_their_own() {
        let mut tally = Tally::new(DelayClock::Monotonic, &[], BTreeMap::new(), 3);
        // Flow 0 has 0, 3, 6, 9; flow 1 has 1, 7 and loses 4; flow 2 has 8 before 5. Number 2 is lost.
        for number in [0, 1, 3, 8, 5, 6, 7, 9] {
            tally.record(&frame(1, 3, number, 0, 0), 64, 1000, 0);
        }
        let report = tally.report(1.0, 0);
        let of = |flow: &FlowReport| (flow.flow, flow.received_packets, flow.lost_packets, flow.reordered_packets);
        assert_eq!(report.flows.iter().map(of).collect::<Vec<_>>(), [(0, 4, 0, 0), (1, 2, 1, 0), (2, 2, 0, 1)]);
        assert_eq!((report.classes[0].lost_packets, report.flows[0].delay_mean_s), (2, Some(1e-6)));
        let mut many = Tally::new(DelayClock::Monotonic, &[], BTreeMap::new(), u32::MAX);
        for number in 0..70_000 {
            many.record(&frame(1, 3, number, 0, 0), 64, 1000, 0);
        }
        assert_eq!(many.report(1.0, 0).beyond_flow_packets, 70_000 - MAX_FLOWS as u64);
    }

    #[test]
    fn frames_from_the_future_are_counted_and_not_measured() {
        let mut tally = tally(DelayClock::Monotonic, &[]);
        tally.record(&frame(1, 3, 0, 2000, 0), 64, 1000, 0);
        let report = tally.report(1.0, 0);
        assert_eq!((report.classes[0].negative_delays, report.classes[0].delay_s), (1, None));
    }

    #[test]
    fn foreign_frames_are_counted_and_ignored() {
        let mut tally = tally(DelayClock::Monotonic, &[]);
        tally.record(&[0; 60], 60, 1, 1);
        tally.record(&[], 0, 1, 1);
        let report = tally.report(1.0, 0);
        assert_eq!((report.foreign_packets, report.classes.len()), (2, 0));
    }

    #[test]
    fn no_number_of_classes_that_a_stranger_makes_up_takes_more_than_the_stated_memory() {
        let named = [ClassId(7), ClassId(150_000)].map(|class| (class, class.0.to_string()));
        for names in [BTreeMap::new(), BTreeMap::from(named)] {
            let (most, known) = if names.is_empty() { (MAX_CLASSES, false) } else { (2, true) };
            let mut tally = Tally::new(DelayClock::Monotonic, &[], names, 1);
            for class in 0..200_000 {
                tally.record(&frame(1, class, 0, 0, 0), 64, 1000, 0);
            }
            assert_eq!((tally.classes.len(), tally.window.len()), (most, most));
            let histograms = tally.classes.values().filter(|class| class.delays.is_some()).count();
            let bytes = histograms as u64 * Histogram::<u64>::memory(BUCKETS, MAX_DELAY_NS);
            assert!(bytes <= 72_000_000 && most * size_of::<Class>() < 26_000_000, "{bytes}, {}", size_of::<Class>());
            let report = tally.report(1.0, 0);
            assert_eq!((report.beyond_packets, report.foreign_packets), (200_000 - most as u64, 0));
            assert_eq!(report.classes_without_delays, most.saturating_sub(MAX_DELAYS) as u64);
            // A class with a name is measured, whatever came before it.
            assert_eq!(report.class(ClassId(150_000)).is_some_and(|class| class.delay_s.is_some()), known);
        }
    }

    #[test]
    fn each_frame_counts_in_the_span_it_arrives_in() {
        let mut tally = tally(DelayClock::Monotonic, &[(100, 200), (200, 300), (400, 500)]);
        for (number, at) in [99, 100, 199, 200, 250, 299, 300, 399, 450, 500].into_iter().enumerate() {
            tally.record(&frame(1, 3, number as u32, 0, 0), 1000, at, 0);
        }
        let seen = tally.take_window()[&ClassId(3)];
        assert_eq!(seen.amount, Amount { packets: 10, bytes: 10_000 });
        assert!(seen.mean_s() <= seen.longest_s);
        assert!(tally.take_window().is_empty());
        let report = tally.report(1.0, 0);
        let packets: Vec<u64> = report.spans.iter().map(|span| span[&ClassId(3)].packets).collect();
        assert_eq!(packets, [2, 3, 1]);
        assert_eq!(report.classes[0].rate_bps, 10_000.0 * 8.0 / 401e-9);
    }
}
