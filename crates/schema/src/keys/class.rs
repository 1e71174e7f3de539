//! The keys of `[[class]]`.

#[cfg(feature = "text")]
use fairlink_core::Feature;
use fairlink_core::{ClassConfig, HostKey, MAX_WEIGHT, QueueKind, QueueLimits, Share};

use super::{ClassKey, Kind, Value, keys};

/// The words of `per`, with their meanings. The kernel module supports all but the last.
pub const HOST_KEYS: [(&str, HostKey); 5] = [
    ("src-ip", HostKey::SourceIp),
    ("dst-ip", HostKey::DestinationIp),
    ("src-mac", HostKey::SourceMac),
    ("dst-mac", HostKey::DestinationMac),
    ("flow", HostKey::Flow),
];
/// Hosts that a class with `per` and without `hosts` keeps apart.
pub const DEFAULT_HOSTS: u16 = 256;
/// The words of `queue`, in the order of their bytes.
const QUEUES: [QueueKind; 3] = [QueueKind::Fifo, QueueKind::CoDel, QueueKind::FqCoDel];
const NAME: Kind = Kind::text(r#"^[^=,"\x00-\x1f\x7f]{1,255}$"#);

/// The keys, in the order of messages and of the manual. Those with bytes are in the order of their bits.
pub static CLASS: [ClassKey; 26] = keys! {
    ClassConfig;
    Any - "name" NAME, [] -, "required",
        "Unique, 1 to 255 bytes, without `=`, comma, quotes and control characters. `link` is the link itself.";
    Any - "parent" NAME, [] -, "the link", "Parent class.";
    Any 0 "guarantee" Kind::Rate, [] (
            |class: &ClassConfig| match class.share {
                Some(Share::Guarantee(rate)) => Some(Value::Rate(rate)),
                _ => None,
            },
            |class: &mut ClassConfig, value| {
                if let Value::Rate(rate) = value {
                    class.share = Some(Share::Guarantee(rate));
                }
            }
        ), "",
        "Minimum rate while the class has traffic, and its weight when siblings share spare bandwidth. The guarantees of its children add up to no more than its own.";
    Any 1 "weight" Kind::Number { min: 1, max: MAX_WEIGHT }, [] (
            |class: &ClassConfig| match class.share {
                Some(Share::Weight(weight)) => Some(Value::Number(weight)),
                _ => None,
            },
            |class: &mut ClassConfig, value| {
                if let Value::Number(weight) = value {
                    class.share = Some(Share::Weight(weight));
                }
            }
        ), "`1` where no sibling has a share", "Instead of a guarantee: a whole number from 1 to 10^12, relative to its siblings.";
    Any 2 "ceiling" Kind::Rate, [Feature::Ceiling] (option ceiling Rate), "none", "Maximum rate.";
    Any 3 "burst" Kind::Size { max: u64::MAX }, [Feature::Burst, Feature::LatencyBurst] (option burst Bytes), "derived",
        "Size of the guarantee's token bucket in bytes. Under schedulers without token buckets that promise a delay, and for latency-critical leaves under `hls`: the burst for which `check` bounds the leaf's delay; one largest frame when absent.";
    Any 4 "ceiling_burst" Kind::Size { max: u64::MAX }, [Feature::CeilingBurst] (option ceiling_burst Bytes), "derived",
        "Size of the ceiling's token bucket in bytes. Under `hls` the default suffices for at least 0.99 of the ceiling, whatever other classes send; a smaller one may lose much of it, and a warning names the rate that is reached and a sufficient burst. Under `hvt` the default is a largest frame, and four for each level of the class; it suffices for a ceiling of at most the guarantee. Under `hfsc` it is the credit that a waiting class can save; the default is two largest frames, and at most two for each child of each class above it.";
    Any 5 "priority" Kind::Number { min: 0, max: u8::MAX as u64 }, [Feature::Priority] (narrow priority Number u8),
        "depends on the scheduler", "0 to 255; 0 is served first.";
    Any 6 "bounded" Kind::Flag, [Feature::Borrowing] (flag bounded), "`false`",
        "CBQ: `true` for a class that does not borrow and is limited to its guarantee.";
    Any 7 "isolated" Kind::Flag, [Feature::Borrowing] (flag isolated), "`false`",
        "CBQ: `true` for a class that neither borrows nor lends. The unused part of its guarantee is lost.";
    Leaf 8 "latency_critical" Kind::Flag, [Feature::LatencyCritical] (flag latency_critical), "`false`",
        "`true` for a delay-sensitive leaf. Under `hls` and `hvt` its packets are sent first, within its own share. `check` prints the bound on their delay.";
    Any 10 "quantum" Kind::Size { max: u32::MAX as u64 }, [Feature::Quantum] (narrow quantum Bytes u32),
        "in proportion to the share", "Bytes served in one turn.";
    Leaf 11 "contract" Kind::Contract, [Feature::Contract] (option contract Contract), "none",
        "`{ bytes = \"3kB\", every = \"1s\" }`: the traffic limit of a latency-critical leaf under DRR+.";
    Leaf 12 "real_time" Kind::Curve { slope: "slope of the real-time curve" }, [Feature::ServiceCurves]
        (option real_time Curve), "none", "Guaranteed service curve of a leaf under H-FSC.";
    Any 13 "link_share" Kind::Curve { slope: "slope of the link-sharing curve" }, [Feature::LinkCurves]
        (option link_share Curve), "the share", "Service curve of H-FSC by which siblings share spare bandwidth.";
    Any 14 "upper_limit" Kind::Curve { slope: "slope of the upper limit" }, [Feature::LinkCurves]
        (option upper_limit Curve), "none", "Service curve of H-FSC that the class does not exceed.";
    Leaf 15 "max_delay" Kind::Time, [Feature::MaxDelay] (option max_delay Time), "none", "Target delay of FQ-LTO.";
    Leaf 16 "leaky_bucket" Kind::Buckets, [Feature::LeakyBucket] (
            |class: &ClassConfig| (!class.leaky_buckets.is_empty()).then_some(Value::Buckets(class.leaky_buckets)),
            |class: &mut ClassConfig, value| {
                if let Value::Buckets(buckets) = value {
                    class.leaky_buckets = buckets;
                }
            }
        ), "none",
        "`{ burst = \"10kB\", peak = \"2mbit\", rate = \"1mbit\" }` for FQ-LTO.LB, or a list of up to 4, all of which the traffic conforms to. The peak is at least the rate. `check` prints the delay of such traffic if the class's rate is sufficient.";
    Leaf 17 "buffer" Kind::Buffer, [] (
            |class: &ClassConfig| (class.limits != QueueLimits::default()).then_some(Value::Limits(class.limits)),
            |class: &mut ClassConfig, value| {
                if let Value::Limits(limits) = value {
                    class.limits = limits;
                }
            }
        ), "100 ms at the maximum rate of the class",
        "Queue limit of a leaf: packets, bytes, or a time at the guarantee.";
    Leaf 18 "queue" Kind::word("queue discipline", &["fifo", "codel", "fq_codel"]), [Feature::ActiveQueue] (
            |class: &ClassConfig| match QUEUES.iter().position(|&queue| queue == class.queue) {
                None | Some(0) => None,
                Some(word) => Some(Value::Word(word as u8)),
            },
            |class: &mut ClassConfig, value| {
                if let Value::Word(word) = value {
                    class.queue = QUEUES.get(usize::from(word)).copied().unwrap_or_default();
                }
            }
        ), "`\"fifo\"`", "Queue discipline of a leaf: `\"fifo\"`, `\"codel\"` (RFC 8289) or `\"fq_codel\"` (RFC 8290).";
    Leaf 9 "ecn" Kind::Flag, [] (flag ecn), "`false`",
        "`true`: an active queue marks ECN-capable packets (ECT, RFC 3168) instead of dropping them.";
    Leaf 19 "per" Kind::Per, [Feature::ActiveQueue] (option hosts Hosts), "none",
        "`\"src-ip\"`, `\"dst-ip\"`, `\"src-mac\"` or `\"dst-mac\"`: hosts share the leaf equally. `\"flow\"`: flows share it equally.";
    Leaf - "hosts" Kind::Number { min: 2, max: u16::MAX as u64 }, [] -, "`256`",
        "Maximum number of separate hosts of such a leaf: 2 to 65,535.";
    Leaf - "match" Kind::Matches, [] -, "none", "Frames that belong to a leaf.";
    Any - "pool" Kind::text(""), [Feature::Pool] -, "none",
        "Pool that a class directly below the link borrows from; links can share a pool. For `hls`, `htb` and `htb-common-deficit`.";
    Any - "classid" Kind::text("^[0-9a-fA-F]{1,4}:[0-9a-fA-F]{1,4}$"), [] -, "none",
        "Number of the class in tc, such as `\"1:2\"`, both parts hexadecimal and unique in the link, with the same number before the colon in all classes. A script's `P 0x10002` names this class, and `fairlink tc export` writes it.";
};
