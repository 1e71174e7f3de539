//! The keys of `[link]`. The bytes of the kernel module have them at fixed places.

use fairlink_core::{
    Feature, LinkConfig, MAX_CORES, MAX_PACKET, MAX_TRANSMIT_QUEUE, Overhead, RoundLength, Split, TransmitQueue,
    WhenFull,
};

use super::{Kind, LinkKey, Value, keys};

/// The words of `overhead`.
pub const OVERHEADS: [(&str, Overhead); 4] =
    [("ethernet", Overhead::ETHERNET), ("docsis", Overhead::DOCSIS), ("ptm", Overhead::PTM), ("atm", Overhead::ATM)];
/// The largest overhead that may be given in bytes.
pub const MAX_OVERHEAD: u64 = 1024;
/// The most memory that a file may allow, in bytes: 1 TiB.
pub const MAX_MEMORY: u64 = 1 << 40;
const INTERFACE: Kind = Kind::text(r"^[^\s/\x00-\x1f\x7f]{1,15}$");
const NAME: Kind = Kind::text(r#"^[^=,"\x00-\x1f\x7f]{1,255}$"#);

/// The keys, in the order of messages.
pub static LINK: [LinkKey; 19] = keys! {
    LinkConfig;
    Any - "name" NAME, [] -, "the interface `out`",
        "Name of the link in a process with several links: in statistics, metrics and for `ctl --link`.";
    Any - "in" INTERFACE, [] -, "",
        "Input interface, for `fairlink gateway`; `--in` overrides it.";
    Any - "out" INTERFACE, [] -, "", "Output interface; `--out` overrides it.";
    Any - "egress" INTERFACE, [] -, "",
        "Instead of `in` and `out`: the interface on which the machine sends [its own traffic](gateway.md#the-hosts-own-traffic); `--egress` overrides it.";
    Any - "rate" Kind::Rate, [] (
            |link: &LinkConfig| Some(Value::Rate(link.rate)),
            |link: &mut LinkConfig, value| {
                if let Value::Rate(rate) = value {
                    link.rate = rate;
                }
            }
        ), "required", "Rate of the link.";
    Any - "scheduler" Kind::Scheduler, [] -, "`\"hls\"`",
        "Scheduler of the link. `fairlink schedulers` lists all. `pgps` is another name of `wfq`.";
    Any - "mtu" Kind::Size { max: MAX_PACKET as u64 }, [] -, "`\"1500B\"`",
        "Longest accepted frame, 1 B to 1 MiB including the overhead. Longer frames are dropped. On a real Ethernet link a frame counts with its header of 14 B and with 4 B for each VLAN tag: an IP packet of 1500 B needs `\"1514B\"`.";
    Any - "overhead" Kind::Overhead, [] -, "`\"0B\"`",
        "Bytes that the link layer adds to each frame: a size up to 1024 B, or `ethernet`, `docsis`, `ptm` or `atm`.";
    Any - "gso" Kind::Gso, [] -, "`\"split\"`",
        "Treatment of super-frames in the gateway: frames that an offload (GSO, TSO, GRO) has joined from several packets. With `\"split\"` their packets are scheduled one by one. With a time such as `\"0.5ms\"`, as many consecutive packets of a super-frame as last that long on the link are scheduled as one, at most 64; `\"auto\"` is `\"0.25ms\"`. That costs less, and all bounds are those for packets of that length. It has no effect where two frames of the `mtu` last longer. See [Super-frames](gateway.md#super-frames).";
    Any - "cores" Kind::Number { min: 1, max: MAX_CORES as u64 }, [] -, "`1`",
        "Number of cores that share the link, 1 to 64, in the way that `split` says; `--cores` of `gateway`, `sim` and `check` overrides it. The gateway takes one core, or several with a hub. See [Cores](cores.md).";
    Any - "split" Kind::word("split", &Split::NAMES), [] -, "`\"hub\"` of several cores, else `\"one\"`",
        "Way in which the cores share the link: `\"one\"` core does all; `\"hub\"`: one has the scheduler, the others receive and send; `\"shared\"`: each sends from queues of its own by virtual times that all share. For comparison in `sim`: `\"equal\"` parts of the link, each with a scheduler of its own; `\"cake-mq\"`: parts for the cores that had packets within 200 us; `\"per-core\"`: each class directly below the link belongs to one core. `--split` overrides it.";
    Any - "hubs" Kind::Number { min: 1, max: MAX_CORES as u64 }, [] -, "`1`",
        "Number of cores that schedule, with `split = \"hub\"`: 1 to `cores` - 1. Each has some of the classes directly below the link, and they share its virtual time; classes move to hubs with less load. `--hubs` overrides it. For `sim`, `check` and programs that use the library; the gateway has one hub. See [Several hubs](cores.md#several-hubs).";
    Any - "default" NAME, [] -, "", "Class of frames that no `match` takes.";
    Any - "buffer" Kind::Packets { max: u32::MAX }, [] (
            |link: &LinkConfig| Some(Value::Packets(link.max_queued)),
            |link: &mut LinkConfig, value| {
                if let Value::Packets(packets) = value {
                    link.max_queued = packets;
                }
            }
        ), "`\"65536p\"`, or four packets for each class if that is more", "Maximum number of packets in all queues together.";
    Any - "when_full" Kind::word("when_full", &["drop_arrival", "push_out"]), [Feature::PushOut] (
            |link: &LinkConfig| (link.when_full == WhenFull::PushOut).then_some(Value::Word(1)),
            |link: &mut LinkConfig, value| {
                link.when_full = if value == Value::Word(1) { WhenFull::PushOut } else { WhenFull::DropArrival };
            }
        ), "`\"drop_arrival\"`",
        "Packet to drop when `buffer` is full: the arriving packet, or with `\"push_out\"` a packet of the longest queue, so that a class that floods the link does not take the buffer space of others.";
    Any - "rounds" Kind::word("rounds", &["short", "long"]), [Feature::LongRounds] (
            |link: &LinkConfig| (link.rounds == RoundLength::Long).then_some(Value::Word(1)),
            |link: &mut LinkConfig, value| {
                link.rounds = if value == Value::Word(1) { RoundLength::Long } else { RoundLength::Short };
            }
        ), "`\"short\"`",
        "Length of the rounds of `hls`, where weights count as bytes. `\"short\"` uses weights as written, or divided if they are too large for a round. `\"long\"` scales the weights of each group of siblings up to the limit, so that nearly every visit of a class sends a packet. That saves 28 % of the instructions per packet in three levels with small weights, 34 % where classes become idle and busy, and almost nothing with large weights, as guarantees are. The bounds on fairness and transmission gap, which `check` prints, are then up to twice those of the smallest weights.";
    Any - "memory" Kind::Size { max: MAX_MEMORY }, [] -, "`\"4GiB\"`",
        "Memory limit of the scheduler with its queues. `check` prints the required memory. A file that needs more is refused before anything is built.";
    Any - "transmit_queue" Kind::Packets { max: MAX_TRANSMIT_QUEUE }, [] (
            |link: &LinkConfig| link.transmit_queue.map(|queue| Value::Packets(queue.packets)),
            |link: &mut LinkConfig, value| {
                if let Value::Packets(packets) = value {
                    let priority = link.transmit_queue.is_some_and(|queue| queue.priority);
                    link.transmit_queue = Some(TransmitQueue { packets, priority });
                }
            }
        ), "none",
        "Length of the queue between the scheduler and the link, as in the driver of a network interface: `\"4p\"`, 1 to 65536. The scheduler decides the order when a packet enters this queue.";
    Any - "transmit_priority" Kind::Flag, [] (
            |link: &LinkConfig| link.transmit_queue.is_some_and(|queue| queue.priority).then_some(Value::Flag(true)),
            |link: &mut LinkConfig, value| {
                if let Some(queue) = &mut link.transmit_queue {
                    queue.priority = value == Value::Flag(true);
                }
            }
        ), "`false`",
        "`true` sends packets of latency-critical classes first from it, as in the DRR++ thesis' `PrioTxQueue`. At most as many of them as fit in the queue overtake another packet in a row.";
};
