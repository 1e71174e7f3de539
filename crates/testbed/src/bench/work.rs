//! Throughput of a path, and the processor time of a frame.
//!
//! *What is counted.* The processor time of the sending thread, by its own clock; that of the gateway's data thread, less
//! the time in which it had nothing to do; and that of the kernel's threads `ksoftirqd`, by `schedstat`. All three clocks
//! are exact. The time in which the data thread had nothing to do is that of a clock of the machine: while others have the
//! processor, it is taken in proportion. A bridge, HTB and the receiving side of a cable work in softirqs: they run within
//! the system call of the thread that sent the frame, whose clock counts them, or in `ksoftirqd`. A kernel that counts
//! softirqs apart (`CONFIG_IRQ_TIME_ACCOUNTING`) is recognized by the sender's clock ([`Sent::softirqs_apart`]); its sum of
//! all softirqs in `/proc/stat` is added then.
//!
//! *What is not.* Softirqs that interrupt another thread or an idle processor, other than with such a kernel: there are
//! none here as long as no timer sends frames. The gateway's threads beside the data thread, which do nothing meanwhile;
//! of a gateway on several cores the processor time is not known, because its workers have their own.
//! Time of other processes does not count, but they share the processor's caches with us.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use fairlink_net::{Clock, GatewayStats, MonotonicClock};

use super::load::{Load, Sent};
use super::paths::{BenchPath, through};
use super::{GatewayBenchConfig, GatewayBenchError};

/// Interval of looking whether all frames have arrived.
const LOOK: Duration = Duration::from_millis(5);
/// Longest time to wait for frames that are in transit in the kernel, or lost.
const LONGEST_WAY: Duration = Duration::from_millis(200);
/// The kernel counts processor time in these parts of a second, on every architecture.
const TICK_NS: u64 = 10_000_000;

/// The kernel's threads for softirqs.
pub(super) struct SoftirqThreads {
    /// Their `schedstat`.
    files: Vec<PathBuf>,
}

impl SoftirqThreads {
    /// Finds the threads.
    ///
    /// # Errors
    /// The reason why their time cannot be known.
    pub(super) fn find() -> Result<Self, String> {
        let unreadable = |error| format!("/proc cannot be read: {error}");
        let is_one = |process: &PathBuf| {
            std::fs::read_to_string(process.join("comm")).is_ok_and(|name| name.starts_with("ksoftirqd/"))
        };
        let processes = std::fs::read_dir("/proc").map_err(unreadable)?.flatten().map(|process| process.path());
        let files: Vec<PathBuf> = processes.filter(is_one).map(|process| process.join("schedstat")).collect();
        if files.is_empty() {
            return Err("the kernel's threads ksoftirqd are not visible in /proc here".to_owned());
        }
        let threads = Self { files };
        threads.worked_ns().map(|_| threads)
    }

    /// Processor time of all of them so far.
    fn worked_ns(&self) -> Result<u64, String> {
        let time = |file: &PathBuf| {
            let text = std::fs::read_to_string(file);
            let first = text.ok().and_then(|text| text.split_whitespace().next()?.parse::<u64>().ok());
            first.ok_or_else(|| format!("{} does not have the time of ksoftirqd", file.display()))
        };
        self.files.iter().map(time).sum()
    }
}

/// Time of all softirqs of the machine so far, in ns, from the text of `/proc/stat`: the seventh number of its first line.
fn softirqs_ns(text: &str) -> Option<u64> {
    text.strip_prefix("cpu ")?.lines().next()?.split_whitespace().nth(6)?.parse().ok().map(|ticks: u64| ticks * TICK_NS)
}

/// Result of one round.
#[derive(Clone, Debug)]
pub(super) struct Flooded {
    pub(super) sent: Sent,
    /// Frames that had arrived when the sender ended.
    pub(super) in_time: u64,
    /// Frames that arrived, and that left the path's output.
    pub(super) arrived: u64,
    pub(super) left: Option<u64>,
    /// Processor time in ns: of sender and data thread, of `ksoftirqd` if that is known, and of softirqs that are counted
    /// apart.
    pub(super) worked: u64,
    pub(super) softirqs: Option<u64>,
    pub(super) apart: u64,
    pub(super) gateway: Option<GatewayStats>,
    pub(super) htb: Vec<u64>,
}

impl Flooded {
    /// Offered frames per second.
    pub(super) fn offered_pps(&self) -> f64 {
        self.sent.offered as f64 / self.seconds()
    }

    /// Frames per second that arrived while the sender was sending.
    pub(super) fn arrived_pps(&self) -> f64 {
        self.in_time as f64 / self.seconds()
    }

    fn seconds(&self) -> f64 {
        self.sent.span.0.max(1) as f64 / 1e9
    }

    /// Processor time of everything in s, if it is known.
    pub(super) fn machine_s(&self, softirqs_apart: bool) -> Option<f64> {
        let apart = if softirqs_apart { self.apart } else { 0 };
        Some((self.worked + self.softirqs? + apart) as f64 / 1e9)
    }

    /// Returns true if all frames are accounted for.
    pub(super) fn is_balanced(&self) -> bool {
        let crossed = self.left.is_none_or(|left| left == self.arrived);
        let gateway = self
            .gateway
            .as_ref()
            .is_none_or(|stats| stats.gateway().balanced && stats.counts().sent.packets == self.arrived);
        let htb = self.htb.is_empty() || Some(self.htb.iter().sum::<u64>()) == self.left;
        self.arrived <= self.sent.offered && crossed && gateway && htb
    }
}

/// Sends as fast as possible through `path`, frames of `length` bytes.
pub(super) fn flood(
    config: &GatewayBenchConfig,
    path: BenchPath,
    length: u32,
    softirqs: Option<&SoftirqThreads>,
    stop: &AtomicBool,
) -> Result<Flooded, GatewayBenchError> {
    // The time of workers is not counted.
    let softirqs = softirqs.filter(|_| config.cores == 1 || !matches!(path, BenchPath::Gateway(_)));
    let ((before, mut flooded), account) = through(config, path, || {
        let mut load = Load::open(length, config.classes)?;
        let counters = || path.passed().map_err(GatewayBenchError::Counters);
        let before = counters()?;
        let kernel = || softirqs.and_then(|threads| threads.worked_ns().ok());
        let apart = || std::fs::read_to_string("/proc/stat").ok().and_then(|text| softirqs_ns(&text)).unwrap_or(0);
        let (started, kernel_before, apart_before) = (MonotonicClock::SHARED.worked(), kernel(), apart());
        let sent = load.flood(config.round(), stop)?;
        let in_time = counters()?.arrived - before.arrived;
        let worked = MonotonicClock::SHARED.worked().saturating_sub(started).0;
        // A gateway drops and counts what it has not sent at its end. A longer wait would change the time for a frame.
        let until = Instant::now() + if matches!(path, BenchPath::Gateway(_)) { LOOK } else { LONGEST_WAY };
        while counters()?.arrived - before.arrived < sent.offered && Instant::now() < until {
            std::thread::sleep(LOOK);
        }
        let flooded = Flooded {
            sent,
            in_time,
            arrived: 0,
            left: None,
            worked,
            softirqs: kernel().zip(kernel_before).map(|(after, before)| after.saturating_sub(before)),
            apart: apart().saturating_sub(apart_before),
            gateway: None,
            htb: Vec::new(),
        };
        Ok((before, flooded))
    })?;
    // The path has gone, and nothing more arrives.
    let after = path.passed().map_err(GatewayBenchError::Counters)?;
    flooded.arrived = after.arrived - before.arrived;
    flooded.left = after.left.zip(before.left).map(|(after, before)| after - before);
    flooded.worked += account.gateway.as_ref().map_or(0, |stats| (busy(stats) * stats.gateway().uptime_s * 1e9) as u64);
    flooded.gateway = account.gateway;
    flooded.htb = account.htb.iter().map(|count| count.sent_packets).collect();
    Ok(flooded)
}

/// Fraction of the time in which the data thread neither waited nor slept.
pub(super) fn awake(stats: &GatewayStats) -> f64 {
    1.0 - stats.gateway().time.idle - stats.gateway().time.spinning
}

/// Fraction of the time in which a processor worked for the data thread: the part of its processor time in which it did
/// not wait. Others have the processor while it works as often as while it waits, so both lose the same part.
pub(super) fn busy(stats: &GatewayStats) -> f64 {
    let running = 1.0 - stats.gateway().time.idle;
    if running > 0.0 { stats.gateway().time.processor.min(running) * awake(stats) / running } else { 0.0 }
}

/// Processor time of the data thread for a frame that it sent, in s; `None` if it sent none.
pub(super) fn data_thread_s(stats: &GatewayStats) -> Option<f64> {
    let sent = stats.counts().sent.packets;
    (sent > 0).then(|| busy(stats) * stats.gateway().uptime_s / sent as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn softirqs_are_read_in_hundredths_of_a_second() {
        let text = "cpu  10132153 290696 3084719 46828483 16683 0 25195 0 175628 0\ncpu0 1 2 3\n";
        assert_eq!(softirqs_ns(text), Some(251_950_000_000));
        assert_eq!(softirqs_ns("intr 1"), None);
    }
}
