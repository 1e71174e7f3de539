//! Results of the bench.

use schemars::JsonSchema;
use serde::Serialize;

/// A quantity in several rounds.
#[derive(Clone, Copy, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Spread {
    /// Median of the rounds.
    pub median: f64,
    /// Smallest.
    pub min: f64,
    /// Largest.
    pub max: f64,
}

impl Spread {
    /// Summarises the values of the rounds; `None` if there are none.
    pub(crate) fn from_rounds(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let (&min, &max) = (values.first()?, values.last()?);
        let middle = values.len() / 2;
        let median = if values.len() % 2 == 1 { values[middle] } else { (values[middle - 1] + values[middle]) / 2.0 };
        Some(Self { median, min, max })
    }
}

/// The measurements.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct GatewayBench {
    /// Name of the scheduler.
    pub scheduler: String,
    /// Leaf classes of the gateway and of the kernel's HTB.
    pub classes: u16,
    /// Waiting mode of the gateway; for TCP it is `precise`.
    pub pacing: String,
    /// Cores that share the gateway's link.
    pub cores: u16,
    /// Number of times that each figure was measured, in turn with the others.
    pub rounds: u32,
    /// Time of a measurement in one round, in seconds.
    pub span_s: f64,
    /// True if the kernel does not count the work of softirqs as work of the thread that they interrupt. The time of all
    /// softirqs of the machine is added then, which the kernel gives in hundredths of a second.
    pub softirqs_apart: bool,
    /// One per frame length and path.
    pub paths: Vec<PathBench>,
    /// TCP, one per number of connections and path.
    pub tcp: Vec<TcpBench>,
    /// What was not measured.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<SkippedFigure>,
}

/// A figure that was not measured.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct SkippedFigure {
    /// The path or the figure.
    pub what: String,
    /// The reason.
    pub why: String,
}

/// Results of a path for frames of one length.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct PathBench {
    /// Length of the frames in bytes.
    pub frame_bytes: u32,
    /// `cable`, `bridge`, `kernel-htb` (on a bridge), `af_packet` or `af_xdp`.
    pub path: String,
    /// Frames that the sender offered per second, as fast as it could.
    pub offered_pps: Spread,
    /// Frames that arrived at the end of the path per second.
    pub arrived_pps: Spread,
    /// Processor time of sender, path and softirqs for a frame that arrived, in seconds. Absent if it cannot be known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine_s: Option<Spread>,
    /// The same, less the processor time for as many offered frames over the bare cable. Absent for the cable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub added_machine_s: Option<Spread>,
    /// What the gateway itself has counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gateway: Option<GatewayPart>,
    /// Counts of all rounds, without the measurements of delay.
    pub counts: PathCounts,
    /// Delay of 5,000 frames per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay_light: Option<PathDelay>,
    /// Delay while half of `arrived_pps` passes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay_half: Option<PathDelay>,
    /// True if every frame was accounted for in all rounds: those that left the path's output arrived; the gateway's own
    /// account is exact; the classes of HTB have sent what left.
    pub balanced: bool,
}

/// The gateway's share of a path's work.
#[derive(Clone, Copy, Debug, JsonSchema, Serialize)]
pub struct GatewayPart {
    /// True if the driver itself reads and writes frames of the packet pool.
    pub zero_copy: bool,
    /// Processor time of the data thread for a frame that it sent, without waiting, in seconds.
    pub data_thread_s: Spread,
    /// Fraction of the time for which a processor worked for the data thread, without waiting.
    pub busy: Spread,
    /// Fraction of the time for which a processor worked for the data thread, by the kernel's count.
    pub processor: Spread,
    /// The fraction of the data thread's work for the scheduler, the pacing and the driving loop.
    pub scheduler_share: Spread,
    /// The fraction of that work for classification.
    pub classify_share: Spread,
    /// The fraction of that work for sending. Over a cable it includes what the kernel does to receive at the other end.
    pub send_share: Spread,
    /// Frames that the kernel dropped because the gateway did not fetch them in time, per second.
    pub kernel_dropped_pps: Spread,
}

/// Frames in all rounds.
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema, Serialize)]
pub struct PathCounts {
    /// Frames that the kernel accepted from the sender.
    pub offered_packets: u64,
    /// Frames that left the output of the path; absent for the cable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left_packets: Option<u64>,
    /// Frames that arrived at the end of the path.
    pub arrived_packets: u64,
    /// Frames that each leaf class of the kernel's HTB sent.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub htb_class_packets: Vec<u64>,
}

/// Delays of a path at one load. Delays of probes are from right before the frame is handed to the kernel until the kernel
/// receives it at the end of the path.
#[derive(Clone, Copy, Debug, JsonSchema, Serialize)]
pub struct PathDelay {
    /// Load in frames per second, probes included.
    pub load_pps: f64,
    /// Probes that were sent in all rounds.
    pub probes_sent: u64,
    /// Probes that arrived.
    pub probes_arrived: u64,
    /// Median, in seconds.
    pub p50_s: Spread,
    /// 99th percentile, in seconds.
    pub p99_s: Spread,
    /// Median above that of the bare cable in the same round, at 5,000 frames or at half of its own rate, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub added_p50_s: Option<Spread>,
    /// The same of the 99th percentile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub added_p99_s: Option<Spread>,
    /// Median above that of the bridge in the same round, at 5,000 frames or at half of the bridge's own rate, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub over_bridge_p50_s: Option<Spread>,
    /// The same of the 99th percentile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub over_bridge_p99_s: Option<Spread>,
}

/// TCP of three classes that are guaranteed 60, 30 and 10 % of a link.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct TcpBench {
    /// Rate of the link in bit/s.
    pub link_bps: u64,
    /// Connections in each class.
    pub connections: u32,
    /// `kernel-htb` (on a bridge) or `af_packet`.
    pub path: String,
    /// `gso` of the gateway's link: `auto` or `split`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gso: Option<String>,
    /// Goodput of all classes: acknowledged user data, in bit/s.
    pub goodput_bps: Spread,
    /// Goodput of each class.
    pub class_goodput_bps: [Spread; 3],
    /// Goodput of all classes as a fraction of that through the kernel's HTB in the same round.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub of_kernel_htb: Option<Spread>,
    /// True if the gateway's account is exact in all rounds; for HTB, if every class has sent packets.
    pub balanced: bool,
}

/// Capacity of a gateway on one processor of this machine, over virtual cables and packet sockets, the default backend.
#[derive(Clone, Copy, Debug, PartialEq, JsonSchema, Serialize)]
pub struct GatewayThroughput {
    /// Length of the frames in bytes.
    pub frame_bytes: u32,
    /// Frames forwarded per second of work, in the thread's own processor time. Other load on the machine or a slow
    /// sender does not reduce it.
    pub frames_per_s: f64,
    /// The same in bits of frames per second.
    pub bps: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_has_the_median_between_its_ends() {
        assert_eq!(Spread::from_rounds([]), None);
        assert_eq!(Spread::from_rounds([3.0, 1.0, 2.0]), Some(Spread { median: 2.0, min: 1.0, max: 3.0 }));
        assert_eq!(Spread::from_rounds([4.0, 1.0]), Some(Spread { median: 2.5, min: 1.0, max: 4.0 }));
    }
}
