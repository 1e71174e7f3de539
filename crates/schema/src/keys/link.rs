//! The keys of `[link]`. The bytes of the kernel module have them at fixed places.

use fairlink_core::{
    Feature, LinkConfig, MAX_PACKET, MAX_TRANSMIT_QUEUE, Overhead, RoundLength, TransmitQueue, WhenFull,
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
pub static LINK: [LinkKey; 15] = keys! {
    LinkConfig;
    Any - "name" NAME, [] -, "the interface `out`",
        "What the link is called where a process serves several: in statistics, metrics and for `ctl --link`.";
    Any - "in" INTERFACE, [] -, "",
        "The interface that its packets come from, for `fairlink gateway`; `--in` comes first.";
    Any - "out" INTERFACE, [] -, "", "The interface that they go to; `--out` comes first.";
    Any - "egress" INTERFACE, [] -, "",
        "Instead of these: the interface by which the machine itself sends, for [its own traffic](gateway.md#the-hosts-own-traffic); `--egress` comes first.";
    Any - "rate" Kind::Rate, [] (
            |link: &LinkConfig| Some(Value::Rate(link.rate)),
            |link: &mut LinkConfig, value| {
                if let Value::Rate(rate) = value {
                    link.rate = rate;
                }
            }
        ), "required", "What the link carries.";
    Any - "scheduler" Kind::Scheduler, [] -, "`\"hls\"`",
        "The scheduler that shares it. `fairlink schedulers` lists them. `pgps` is another name of `wfq`.";
    Any - "mtu" Kind::Size { max: MAX_PACKET as u64 }, [] -, "`\"1500B\"`",
        "The longest frame taken. Longer ones are dropped. 1 B to 1 MiB, the overhead included. On a real Ethernet link a frame counts with its header of 14 B and with 4 B for each VLAN tag: an IP packet of 1500 B needs `\"1514B\"`.";
    Any - "overhead" Kind::Overhead, [] -, "`\"0B\"`",
        "What the link layer adds to each frame: a size up to 1024 B, or one of the words `ethernet`, `docsis`, `ptm`, `atm`.";
    Any - "default" NAME, [] -, "", "The class of frames that no `match` takes.";
    Any - "buffer" Kind::Packets { max: u32::MAX }, [] (
            |link: &LinkConfig| Some(Value::Packets(link.max_queued)),
            |link: &mut LinkConfig, value| {
                if let Value::Packets(packets) = value {
                    link.max_queued = packets;
                }
            }
        ), "`\"65536p\"`, or four packets for each class where that is more", "The most packets in all queues together.";
    Any - "when_full" Kind::word("when_full", &["drop_arrival", "push_out"]), [Feature::PushOut] (
            |link: &LinkConfig| (link.when_full == WhenFull::PushOut).then_some(Value::Word(1)),
            |link: &mut LinkConfig, value| {
                link.when_full = if value == Value::Word(1) { WhenFull::PushOut } else { WhenFull::DropArrival };
            }
        ), "`\"drop_arrival\"`",
        "What gives way when `buffer` is full: the packet that arrives, or with `\"push_out\"` a packet of the longest queue, so that a class that floods the link does not take the room of others.";
    Any - "rounds" Kind::word("rounds", &["short", "long"]), [Feature::LongRounds] (
            |link: &LinkConfig| (link.rounds == RoundLength::Long).then_some(Value::Word(1)),
            |link: &mut LinkConfig, value| {
                link.rounds = if value == Value::Word(1) { RoundLength::Long } else { RoundLength::Short };
            }
        ), "`\"short\"`",
        "How long the rounds of `hls` are. Weights there count as bytes: `\"short\"` uses them as they stand, or divided where they are too large for a round. `\"long\"` scales those of each group of siblings to all that fits, so that nearly every visit of a class sends a packet. That takes 28 % fewer instructions a packet in three levels with small weights, 34 % where classes come and go, and next to nothing where the weights are large, as guarantees are. The bounds of fairness and of the transmission gap, which `check` prints, are then up to twice those of the smallest weights.";
    Any - "memory" Kind::Size { max: MAX_MEMORY }, [] -, "`\"4GiB\"`",
        "The most memory that the scheduler with its queues may take. `check` prints how much that is. A file that needs more is refused before anything is built.";
    Any - "transmit_queue" Kind::Packets { max: MAX_TRANSMIT_QUEUE }, [] (
            |link: &LinkConfig| link.transmit_queue.map(|queue| Value::Packets(queue.packets)),
            |link: &mut LinkConfig, value| {
                if let Value::Packets(packets) = value {
                    let priority = link.transmit_queue.is_some_and(|queue| queue.priority);
                    link.transmit_queue = Some(TransmitQueue { packets, priority });
                }
            }
        ), "none",
        "Packets between the scheduler and the link, as behind a network interface's driver: `\"4p\"`, 1 to 65536. The scheduler decides a packet's turn when the packet enters this queue.";
    Any - "transmit_priority" Kind::Flag, [] (
            |link: &LinkConfig| link.transmit_queue.is_some_and(|queue| queue.priority).then_some(Value::Flag(true)),
            |link: &mut LinkConfig, value| {
                if let Some(queue) = &mut link.transmit_queue {
                    queue.priority = value == Value::Flag(true);
                }
            }
        ), "`false`",
        "Whether packets of latency-critical classes are sent first from it, as from the DRR++ thesis' `PrioTxQueue`. At most as many of them in a row as the queue has room for overtake another packet.";
};
