//! A source with a window of packets in flight, as in TCP: Reno or CUBIC.
//!
//! It always has something to send. It is not TCP: there are no connections, no receive window, no delayed or lost
//! acknowledgements, and each transmission has a number of its own, as in QUIC. Only the reaction of the window to
//! loss, marks and time is that of TCP:
//!
//! * Slow start and congestion avoidance, and half of the window after a loss: RFC 5681.
//! * CUBIC: RFC 9438, with C = 0.4, beta = 0.7, and its Reno-friendly region.
//! * A packet is lost when one that was sent three later has arrived (RFC 9002, Section 6.1.1). The window is cut once
//!   for all packets that were in flight then.
//! * Without any acknowledgement, all packets in flight are given up after the timeout of RFC 6298, which is at least
//!   200 ms and doubles each time. The window begins at one packet again.
//! * A mark (RFC 3168) cuts the window like a loss.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use fairlink_core::{NANOS_PER_SEC, Nanos};

use crate::fine::seconds;

/// Number of later packets of which the last must arrive before a packet counts as lost.
const REORDERED: u32 = 3;
/// Packets of the first window (RFC 6928).
const FIRST_WINDOW: f64 = 10.0;
/// Least and longest timeout, and the one before the first acknowledgement.
const MIN_TIMEOUT: Nanos = Nanos::from_millis(200);
const MAX_TIMEOUT: Nanos = Nanos::from_secs(60);
const FIRST_TIMEOUT: Nanos = Nanos::from_secs(1);
/// Largest window, in packets: memory is bounded by it.
const MAX_WINDOW: f64 = 100_000.0;
/// RFC 9438: packets per second^3, and the factor of the window after a loss.
const CUBIC_C: f64 = 0.4;
const CUBIC_BETA: f64 = 0.7;

/// The reaction of a window to congestion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CongestionControl {
    /// Half of the window, then a packet more each round trip.
    Reno,
    /// 0.7 of the window, then a cubic function of time.
    Cubic,
}

/// A source with a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tcp {
    /// Reaction to congestion.
    pub congestion_control: CongestionControl,
    /// Round-trip time of a packet and its acknowledgement beside the simulated links.
    pub rtt: Nanos,
}

/// The results of a window source.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Flow {
    /// Packets sent, those sent again included.
    pub sent_packets: u64,
    /// Acknowledged packets.
    pub delivered_packets: u64,
    /// Their bytes.
    pub delivered_bytes: u64,
    /// Packets taken for lost.
    pub lost_packets: u64,
    /// Acknowledged marks of congestion.
    pub marks: u64,
    /// Number of timeouts.
    pub timeouts: u64,
    /// Largest window, in packets.
    pub largest_window: f64,
    /// Mean time from sending a packet to hearing of it, in seconds; 0 before the first.
    pub mean_rtt_s: f64,
    /// Longest such time.
    pub max_rtt_s: f64,
}

#[derive(Clone, Copy, Debug)]
struct UnderWay {
    sent: Nanos,
    len: u32,
}

#[derive(Clone, Debug)]
pub(super) struct Window {
    tcp: Tcp,
    next: u32,
    under_way: BTreeMap<u32, UnderWay>,
    /// Pending acknowledgements: time, packet, and true if it was marked.
    coming: BinaryHeap<Reverse<(Nanos, u32, bool)>>,
    pub(super) window: f64,
    threshold: f64,
    /// Packets before this one were sent before the window was cut last.
    cut_at: u32,
    smoothed: Option<(f64, f64)>,
    /// Doublings of the timeout.
    backoff: u32,
    timeout_at: Option<Nanos>,
    cubic: Option<Epoch>,
    /// The window before it was cut last, in packets (CUBIC).
    before_cut: f64,
    flow: Flow,
    rtt_sum_s: f64,
}

/// CUBIC since the window was cut last.
#[derive(Clone, Copy, Debug)]
struct Epoch {
    start: Nanos,
    /// Seconds after which the window regains its size.
    k: f64,
    /// The window that Reno would have.
    friendly: f64,
}

impl Window {
    pub(super) fn new(tcp: Tcp) -> Self {
        Self {
            tcp,
            next: 0,
            under_way: BTreeMap::new(),
            coming: BinaryHeap::new(),
            window: FIRST_WINDOW,
            threshold: f64::INFINITY,
            cut_at: 0,
            smoothed: None,
            backoff: 0,
            timeout_at: None,
            cubic: None,
            before_cut: 0.0,
            flow: Flow { largest_window: FIRST_WINDOW, ..Flow::default() },
            rtt_sum_s: 0.0,
        }
    }

    pub(super) fn may_send(&self) -> bool {
        (self.under_way.len() as f64) < libm::floor(self.window)
    }

    pub(super) fn next_time(&self) -> Option<Nanos> {
        let coming = self.coming.peek().map(|Reverse((at, ..))| *at);
        [coming, self.timeout_at].into_iter().flatten().min()
    }

    /// Sends a packet of `len` bytes; its tag.
    pub(super) fn send(&mut self, now: Nanos, len: u32) -> u32 {
        let tag = self.next;
        self.next = self.next.wrapping_add(1);
        self.under_way.insert(tag, UnderWay { sent: now, len });
        self.flow.sent_packets += 1;
        self.timeout_at.get_or_insert(now.saturating_add(self.timeout()));
        tag
    }

    /// Schedules the acknowledgement of a packet. `at` is not before the last call of [`Window::hear`] or
    /// [`Window::send`], which `TrafficMix` ensures. So no packet is acknowledged before it was sent, and
    /// acknowledgements come in time order.
    pub(super) fn arrived(&mut self, at: Nanos, tag: u32, marked: bool) {
        self.coming.push(Reverse((at.saturating_add(self.tcp.rtt), tag, marked)));
    }

    /// Processes all acknowledgements due by `now`, and gives up lost packets.
    pub(super) fn on_time(&mut self, now: Nanos) {
        while let Some(&Reverse((at, tag, marked))) = self.coming.peek().filter(|Reverse((at, ..))| *at <= now) {
            self.coming.pop();
            self.acknowledged(at, tag, marked);
        }
        if self.timeout_at.is_some_and(|at| at <= now) {
            self.timed_out();
        }
    }

    fn acknowledged(&mut self, now: Nanos, tag: u32, marked: bool) {
        // One that was given up but arrives.
        let Some(UnderWay { sent, len }) = self.under_way.remove(&tag) else { return };
        self.flow.delivered_packets += 1;
        self.flow.delivered_bytes += u64::from(len);
        self.sample(seconds(now - sent));
        self.backoff = 0;
        if marked {
            self.flow.marks += 1;
        }
        let lost: Vec<u32> = self.under_way.range(..tag.saturating_sub(REORDERED - 1)).map(|(&lost, _)| lost).collect();
        for lost in &lost {
            self.under_way.remove(lost);
        }
        self.flow.lost_packets += lost.len() as u64;
        // Packets that were in flight when the window was cut carry no new information.
        let news = lost.iter().any(|&lost| lost >= self.cut_at) || (marked && tag >= self.cut_at);
        if news {
            self.cut();
        } else if tag >= self.cut_at {
            self.grow(now);
        }
        self.timeout_at = (!self.under_way.is_empty()).then(|| now.saturating_add(self.timeout()));
    }

    fn sample(&mut self, rtt: f64) {
        self.rtt_sum_s += rtt;
        self.flow.max_rtt_s = self.flow.max_rtt_s.max(rtt);
        self.smoothed = Some(match self.smoothed {
            None => (rtt, rtt / 2.0),
            Some((mean, deviation)) => (mean + (rtt - mean) / 8.0, deviation + ((rtt - mean).abs() - deviation) / 4.0),
        });
    }

    fn timeout(&self) -> Nanos {
        let plain = match self.smoothed {
            None => FIRST_TIMEOUT,
            Some((mean, deviation)) => Nanos(((mean + 4.0 * deviation) * NANOS_PER_SEC as f64) as u64).max(MIN_TIMEOUT),
        };
        Nanos(plain.0.saturating_mul(1 << self.backoff.min(16))).min(MAX_TIMEOUT)
    }

    fn grow(&mut self, now: Nanos) {
        if self.window < self.threshold {
            self.window += 1.0;
        } else {
            match self.tcp.congestion_control {
                CongestionControl::Reno => self.window += 1.0 / self.window,
                CongestionControl::Cubic => self.grow_cubic(now),
            }
        }
        self.window = self.window.min(MAX_WINDOW);
        self.flow.largest_window = self.flow.largest_window.max(self.window);
    }

    fn grow_cubic(&mut self, now: Nanos) {
        let (window, most) = (self.window, self.before_cut.max(self.window));
        let epoch = self.cubic.get_or_insert_with(|| Epoch {
            start: now,
            k: libm::cbrt((most - window) / CUBIC_C),
            friendly: window,
        });
        let rtt = self.smoothed.map_or(0.0, |(mean, _)| mean);
        let after = seconds(now - epoch.start) + rtt - epoch.k;
        let target = (CUBIC_C * after * after * after + most).clamp(window, 1.5 * window);
        // Packets more each round trip with which Reno at this beta would be as fast.
        let alpha = 3.0 * (1.0 - CUBIC_BETA) / (1.0 + CUBIC_BETA);
        epoch.friendly += alpha / window;
        self.window = (window + (target - window) / window).max(epoch.friendly);
    }

    fn cut(&mut self) {
        let (least, window) = (2.0, self.window);
        let left = match self.tcp.congestion_control {
            CongestionControl::Reno => window / 2.0,
            CongestionControl::Cubic => {
                // Fast convergence: a window that did not regain its size leaves room for others.
                self.before_cut = if window < self.before_cut { window * (1.0 + CUBIC_BETA) / 2.0 } else { window };
                window * CUBIC_BETA
            }
        };
        self.threshold = left.max(least);
        self.window = self.threshold;
        self.cubic = None;
        self.cut_at = self.next;
    }

    fn timed_out(&mut self) {
        self.flow.timeouts += 1;
        self.flow.lost_packets += self.under_way.len() as u64;
        self.under_way.clear();
        self.cut();
        self.window = 1.0;
        self.backoff += 1;
        self.timeout_at = None;
    }

    pub(super) fn flow(&self) -> Flow {
        let heard = self.flow.delivered_packets.max(1) as f64;
        Flow { mean_rtt_s: self.rtt_sum_s / heard, ..self.flow.clone() }
    }
}
