//! Super-frames through the gateway, in a private network namespace. The output is compared, byte by byte, with the
//! kernel's own segmentation of the same frame for an interface that cannot segment.

use std::io::Write;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use etherparse::PacketBuilder;
use fairlink_config::link::Gso;
use fairlink_core::{ClassConfig, ClassId, Hierarchy, Nanos, QueueLimits, Share};
use fairlink_net::{
    AfPacket, AfPacketOptions, Backend, FailOpen, FrameInfo, FramePool, FrameTemplate, GatewayConfig, GatewayStats,
    Headers, Interface, Offload, Rest, Sent, Stamp, VirtioHeader, set_offload,
};
use fairlink_report::DropCause;
use fairlink_testbed::{PrivateNamespace, lay_cables};

use crate::cables::{cables, config, over_af_xdp};
use crate::raw::{bytes, send_described, tap};
use crate::sink::Sink;
use crate::through::{through, until};
use crate::{raw, support, variants};

pub(crate) fn main() -> ExitCode {
    let tests: &[support::Test] = &[
        ("super_frames_leave_as_the_kernel_itself_would_have_split_them", as_the_kernel_splits_them),
        ("super_frames_are_sent_whole_to_an_output_that_takes_them", to_an_output_that_takes_them),
        ("the_other_direction_splits_super_frames_too", the_other_direction_splits_super_frames_too),
        ("super_frames_leave_in_the_same_way_where_the_kernel_gives_no_rings", without_rings),
        ("what_the_receiver_has_joined_leaves_as_it_was_sent", what_the_receiver_has_joined),
        ("super_frames_pass_once_where_the_kernel_stands_ready_to_pass_them_too", where_the_kernel_stands_ready),
        ("super_frames_that_cannot_be_split_are_counted_by_reason_with_a_remedy", super_frames_that_cannot_be_split),
        ("any_description_of_any_frame_is_survived_and_accounted_for", any_description_of_any_frame),
        ("super_frames_of_tiny_packets_hold_up_no_other_class", super_frames_of_tiny_packets),
        ("packets_that_are_more_than_a_backend_keeps_do_not_make_it_busy", more_than_a_backend_keeps),
    ];
    support::main_also(
        tests,
        variants::over_af_xdp_and_on_two_cores(&[
            "super_frames_leave_as_the_kernel_itself_would_have_split_them",
            "the_other_direction_splits_super_frames_too",
            "what_the_receiver_has_joined_leaves_as_it_was_sent",
            "super_frames_pass_once_where_the_kernel_stands_ready_to_pass_them_too",
        ]),
    )
}

// Of linux/virtio_net.h.
const NEEDS_CHECKSUM: u8 = 1;
const TCP4: u8 = 1;
const TCP6: u8 = 4;
const UDP: u8 = 5;
const CWR: u8 = 0x80;

/// A super-frame.
#[derive(Clone, Copy, Debug)]
struct Shape {
    is_v6: bool,
    is_tcp: bool,
    tags: usize,
    /// Bytes of payload: total, and in each packet.
    total: usize,
    size: u16,
    /// Flags of TCP.
    flags: u8,
}

const SHAPE: Shape = Shape { is_v6: false, is_tcp: true, tags: 0, total: 4000, size: 1400, flags: 0x18 };

impl Shape {
    /// Its bytes, with `seed` in them, and their description. The checksum is left to the next sender.
    fn made(self, seed: u8) -> (VirtioHeader, Vec<u8>) {
        let Self { is_v6, is_tcp, tags, total, size, flags } = self;
        let payload: Vec<u8> = (0..total).map(|n| (n * 31 + n / 251) as u8 ^ seed).collect();
        let mut plain = Vec::new();
        let link = PacketBuilder::ethernet2([2; 6], [2, 0x66, 0x6c, 0, 0, 2]);
        let net = match is_v6 {
            true => link.ipv6([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, seed], [0xfd; 16], 64),
            false => link.ipv4([10, 200, 0, seed], [10, 0, 255, 2], 64),
        };
        match is_tcp {
            true => {
                let tcp = net.tcp(5001, 5002, 0xffff_f000, 4096).ack(77);
                let tcp = tcp.options_raw(&[1, 1, 8, 10, 1, 2, 3, 4, 5, 6, 7, 8]).unwrap();
                tcp.write(&mut plain, &payload).unwrap();
            }
            false => net.udp(5001, 5002).write(&mut plain, &payload).unwrap(),
        }
        let transport = if is_v6 { 54 } else { 34 };
        let (offset, protocol) = if is_tcp { (16, 6u64) } else { (6, 17) };
        if is_tcp {
            plain[transport + 13] = flags;
        }
        if !is_v6 {
            // An identification, and the header's checksum with it.
            plain[18..20].copy_from_slice(&[0xff, 0xf0]);
            plain[24..26].fill(0);
            let sum = !sum(0, &plain[14..34]);
            plain[24..26].copy_from_slice(&sum.to_be_bytes());
        }
        let addresses = if is_v6 { 22..54 } else { 26..34 };
        let pseudo = sum(protocol + (plain.len() - transport) as u64, &plain[addresses]);
        plain[transport + offset..transport + offset + 2].copy_from_slice(&pseudo.to_be_bytes());
        let mut frame = plain[..12].to_vec();
        for tag in 0..tags {
            frame.extend([0x81, 0, 0, tag as u8 + 1]);
        }
        frame.extend(&plain[12..]);
        let start = transport + 4 * tags;
        let with_cwr = if flags & 0x80 != 0 { CWR } else { 0 };
        let header = VirtioHeader {
            flags: NEEDS_CHECKSUM,
            kind: match (is_tcp, is_v6) {
                (false, _) => UDP,
                (true, false) => TCP4 | with_cwr,
                (true, true) => TCP6 | with_cwr,
            },
            header_len: (start + if is_tcp { 32 } else { 8 }) as u16,
            segment: size,
            checksum_start: start as u16,
            checksum_offset: offset as u16,
        };
        (header, frame)
    }

    fn packets(self) -> usize {
        self.total.div_ceil(self.size.into())
    }
}

/// The one's complement sum of `bytes` and `more`.
fn sum(more: u64, bytes: &[u8]) -> u16 {
    let pair = |pair: &[u8]| u64::from(pair[0]) << 8 | pair.get(1).map_or(0, |&byte| u64::from(byte));
    let mut sum = bytes.chunks(2).map(pair).sum::<u64>() + more;
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// Turns on the offloads with which a sender leaves work to others.
fn offloads_on(name: &str) {
    for offload in [Offload::RxChecksum, Offload::TxChecksum, Offload::ScatterGather, Offload::Tso, Offload::Gso] {
        set_offload(name, offload, true).unwrap();
    }
}

/// All kinds of super-frames: versions, protocols, tags, lengths that come out even or not, long ones, every flag of
/// TCP.
fn shapes() -> Vec<Shape> {
    let mut shapes = Vec::new();
    for is_v6 in [false, true] {
        for is_tcp in [false, true] {
            for tags in 0..3 {
                shapes.push(Shape { is_v6, is_tcp, tags, ..SHAPE });
            }
            for (total, size) in [(4200, 1400), (1401, 1400), (30_000, 1000), (2001, 100)] {
                shapes.push(Shape { is_v6, is_tcp, total, size, ..SHAPE });
            }
        }
        // The longest that an interface accepts without splitting it itself.
        shapes.push(Shape { is_v6, total: 65_400, ..SHAPE });
        for flags in [0x10, 0x11, 0x19, 0x90, 0x99, 0x58] {
            shapes.push(Shape { is_v6, flags, ..SHAPE });
        }
    }
    shapes
}

/// As [`compare_joined`], without the number.
fn compare(from: &str, to: &str, config: GatewayConfig, shapes: &[Shape], kept: bool) -> GatewayStats {
    compare_joined(from, to, config, shapes, kept).0
}

/// Sends each shape out of `from`, and out of `kgen` if the kernel has to split it. The gateway's output at `sink` must
/// equal the kernel's at `ksink`, in the same order if `kept` is set. Returns the number of frames that came joined at `sink`,
/// too.
fn compare_joined(from: &str, to: &str, config: GatewayConfig, shapes: &[Shape], kept: bool) -> (GatewayStats, usize) {
    let (mut sink, mut kernel) = (Sink::open(to), Sink::open("ksink"));
    let all: u64 = shapes.iter().map(|shape| shape.packets() as u64).sum();
    let stats = through(config, |remote| {
        for (seed, &shape) in (1..).zip(shapes) {
            let (header, frame) = shape.made(seed);
            send_described("kgen", header, &frame).unwrap_or_else(|error| panic!("{shape:?}: {error}"));
            send_described(from, header, &frame).unwrap();
            let (mut ours, mut kernels) = (sink.next(shape.packets()), kernel.next(shape.packets()));
            if !kept {
                ours.sort_unstable();
                kernels.sort_unstable();
            }
            for (index, (ours, kernels)) in ours.iter().zip(&kernels).enumerate() {
                assert!(ours == kernels, "{shape:?}, packet {index}:\n{:x?}\n{:x?}", &ours[..80], &kernels[..80]);
            }
        }
        until(remote, |stats| stats.counts().sent.packets + stats.gateway().reverse.unwrap().sent.packets >= all);
    });
    assert_eq!(kernel.joined, 0, "the kernel was to split them");
    assert_eq!((stats.counts().dropped.packets, stats.gateway().super_packets), (0, 0), "{stats:?}");
    println!("{} super-frames, {} packets", stats.gateway().split_packets, stats.gateway().segments);
    (stats, sink.joined)
}

/// Checks that `frames` super-frames were split into `packets` packets: by the gateway, or with AF_XDP by the sender
/// into its veth.
fn split(stats: &GatewayStats, frames: u64, packets: u64) {
    let expected = if over_af_xdp() { (0, 0) } else { (frames, packets) };
    assert_eq!((stats.gateway().split_packets, stats.gateway().segments), expected);
    assert!(packets > frames);
}

fn as_the_kernel_splits_them(_: &PrivateNamespace) {
    cables();
    lay_cables(&[("kgen", "ksink")]).unwrap();
    offloads_on("gen");
    let shapes = shapes();
    let stats = compare("gen", "sink", config(100_000_000, "hls"), &shapes, true);
    split(&stats, shapes.len() as u64, stats.counts().received.packets);
}

fn without_rings(_: &PrivateNamespace) {
    cables();
    lay_cables(&[("kgen", "ksink")]).unwrap();
    offloads_on("gen");
    let mut config = config(100_000_000, "hls");
    config.sockets.rings = false;
    let shapes = shapes();
    let stats = compare("gen", "sink", config, &shapes, true);
    split(&stats, shapes.len() as u64, stats.counts().received.packets);
}

/// The packets that are scheduled as one are sent as one, where the output takes that: the kernel splits them into the packets
/// that it would have sent. Refused ones are sent one by one.
fn to_an_output_that_takes_them(_: &PrivateNamespace) {
    cables();
    lay_cables(&[("kgen", "ksink")]).unwrap();
    offloads_on("gen");
    for (rate, gso, takes) in [
        (1_000_000_000, Gso::Whole(Nanos::from_millis(1)), true),
        (1_000_000_000, Gso::Whole(Gso::AUTO), true),
        (1_000_000_000, Gso::Whole(Gso::AUTO), false),
        // Packets that leave together are joined again, though each is scheduled alone.
        (5_000_000_000, Gso::Split, true),
    ] {
        match takes {
            true => offloads_on("out"),
            false => set_offload("out", Offload::Tso, false).unwrap(),
        }
        let config = GatewayConfig { gso, ..config(rate, "hls") };
        let shapes = shapes();
        let (stats, joined) = compare_joined("gen", "sink", config, &shapes, true);
        println!("{rate} bit/s, {gso:?}: {joined} came joined");
        split(&stats, shapes.len() as u64, stats.counts().received.packets);
        // An output without TSO still takes datagrams.
        assert_eq!(joined > shapes.len() / 3, takes, "{joined} of {}", shapes.len());
    }
    // The other direction has no queue, so that all of a turn leave together.
    offloads_on("sink");
    offloads_on("in");
    let shapes = shapes();
    let (stats, joined) = compare_joined("sink", "gen", config(1_000_000, "hls"), &shapes, true);
    split(&stats, shapes.len() as u64, stats.gateway().reverse.unwrap().received.packets);
    assert!(joined >= shapes.len(), "{joined} of {}", shapes.len());
}

fn the_other_direction_splits_super_frames_too(_: &PrivateNamespace) {
    cables();
    lay_cables(&[("kgen", "ksink")]).unwrap();
    offloads_on("sink");
    let shapes = shapes();
    let stats = compare("sink", "gen", config(1_000_000, "hls"), &shapes, true);
    let reverse = stats.gateway().reverse.unwrap();
    split(&stats, shapes.len() as u64, reverse.received.packets);
    assert_eq!(reverse.dropped.packets, 0);
}

fn what_the_receiver_has_joined(_: &PrivateNamespace) {
    cables();
    lay_cables(&[("kgen", "ksink")]).unwrap();
    // The kernel splits at `gen`, and joins at `in`. Packets that it does not join overtake those that it holds back
    // for joining.
    set_offload("in", Offload::RxChecksum, true).unwrap();
    set_offload("in", Offload::Gro, true).unwrap();
    let tcp = shapes().into_iter().filter(|shape| shape.is_tcp && shape.flags == 0x18 && shape.tags == 0);
    let stats = compare("gen", "sink", config(100_000_000, "hls"), &tcp.collect::<Vec<_>>(), false);
    if stats.gateway().split_packets == 0 && !over_af_xdp() {
        println!("SKIPPED: this kernel joined nothing at a veth");
    }
}

fn where_the_kernel_stands_ready(_: &PrivateNamespace) {
    cables();
    lay_cables(&[("kgen", "ksink")]).unwrap();
    offloads_on("gen");
    // Programs distinguish accepted frames from others by their lengths, also those of super-frames. A frame that
    // passed twice would be mistaken for the next one.
    let config = GatewayConfig { fail_open: FailOpen::Auto, ..config(100_000_000, "hls") };
    let stats = compare("gen", "sink", config, &shapes(), true);
    match &stats.gateway().fail_open.why_not {
        Some(why) => println!("SKIPPED: it does not fail open here: {why}"),
        None => split(&stats, shapes().len() as u64, stats.counts().received.packets),
    }
}

fn super_frames_that_cannot_be_split(_: &PrivateNamespace) {
    if !std::path::Path::new("/dev/net/tun").exists() {
        println!("SKIPPED: no /dev/net/tun");
        return;
    }
    cables();
    // A virtual machine behind a tap may claim anything.
    let mut machine = tap("tap");
    let mut config = config(100_000_000, "hls");
    "tap".clone_into(&mut config.input);
    let (header, frame) = SHAPE.made(1);
    let changed = |at: usize, byte: u8| {
        let mut frame = frame.clone();
        frame[at] = byte;
        frame
    };
    let frames = [
        ("tunnel", header, changed(23, 47)),
        ("protocol", header, changed(23, 132)),
        ("malformed", header, changed(20, 0x20)),
        ("too_long", VirtioHeader { segment: 3000, ..header }, frame.clone()),
        ("too_long", VirtioHeader { segment: 1, ..header }, frame.clone()),
    ];
    let stats = through(config, |remote| {
        for (count, (why, header, frame)) in (1..).zip(&frames) {
            machine.write_all(&[&bytes(*header)[..], frame].concat()).unwrap_or_else(|error| panic!("{why}: {error}"));
            until(remote, |stats| stats.counts().received.packets == count);
            let stats = remote.stats(Duration::from_secs(10)).unwrap();
            assert!(
                stats.gateway().super_packets_by_reason.contains_key(*why),
                "{why}: {:?}",
                stats.gateway().super_packets_by_reason
            );
        }
        // The gateway continues.
        machine.write_all(&[&bytes(header)[..], &frame].concat()).unwrap();
        until(remote, |stats| stats.counts().sent.packets == SHAPE.packets() as u64);
    });
    let by_reason: Vec<_> =
        stats.gateway().super_packets_by_reason.iter().map(|(why, &count)| (why.as_str(), count)).collect();
    assert_eq!(by_reason, [("malformed", 1), ("protocol", 1), ("too_long", 2), ("tunnel", 1)]);
    let joined: u64 =
        stats.classes.iter().map(|class| class.counts().dropped_for(DropCause::Joined)).map(|all| all.packets).sum();
    assert_eq!((joined, stats.counts().dropped.packets, stats.gateway().super_packets), (5, 5, 5));
    let told = stats.to_string();
    for remedy in ["tx-gre-segmentation off", "gso off", "gso_max_size"] {
        assert!(told.contains(remedy), "{told}");
    }
}

/// A class within its guarantee, beside 250 super-frames a second of two thousand packets each. It loses nothing, and all
/// packets are accounted for. The delays are printed; that its frames do not wait for the splitting is a test of the data
/// path.
fn super_frames_of_tiny_packets(_: &PrivateNamespace) {
    const FRAMES: u64 = 500;
    // The length of the frames of that class; no other frame has it.
    const VICTIM: usize = 200;
    cables();
    offloads_on("gen");
    let auto = Gso::Whole(Gso::AUTO);
    for (packets, size, gso) in [
        (100, 8, Gso::Split),
        (20_000, 8, Gso::Split),
        (20_000, 8, auto),
        (20_000, 48, Gso::Split),
        (20_000, 88, Gso::Split),
        (20_000, 88, auto),
        (20_000, 536, Gso::Split),
    ] {
        let shape = Shape { total: 16_000, size, ..SHAPE };
        let mut config = GatewayConfig { gso, ..config(100_000_000, "hls") };
        let mut tree = Hierarchy::builder(config.tree.link());
        for weight in 1..=3 {
            let limits = QueueLimits { packets, ..QueueLimits::default() };
            let share = Some(Share::Weight(weight));
            tree.add(ClassId::ROOT, ClassConfig { share, limits, ..ClassConfig::default() }).unwrap();
        }
        config.tree = tree.build().unwrap();
        let (header, frame) = shape.made(1);
        let (joined, plain) = (raw::sender("gen", true), raw::sender("gen", false));
        let message = [&bytes(header)[..], &frame].concat();
        let template = FrameTemplate::new(&Headers::udp(5001));
        let (mut sent, mut left) = (0, Vec::new());
        let mut arrived = vec![None; FRAMES as usize];
        let over = AtomicBool::new(false);
        let mut stats = None;
        let sink = raw::listener_of("sink", VICTIM as u32);
        std::thread::scope(|scope| {
            let receiving = scope.spawn(|| {
                let mut packet = vec![0; VICTIM];
                while !over.load(Ordering::Relaxed) {
                    if raw::receive(&sink, &mut packet, Duration::from_millis(20)) {
                        let stamp = Stamp::read(&packet).unwrap();
                        arrived[stamp.sequence as usize] = Some(Instant::now());
                    }
                }
            });
            stats = Some(through(config, |remote| {
                for sequence in 0..FRAMES as u32 {
                    let mut victim = vec![0; VICTIM];
                    let stamp = Stamp { run: 0, class: ClassId(1), sequence, monotonic_ns: 0, realtime_us: 0 };
                    template.write(&mut victim, &stamp);
                    left.push(Instant::now());
                    raw::send(&plain, &victim).unwrap();
                    if sequence % 4 == 0 {
                        sent += u64::from(raw::send(&joined, &message).is_ok());
                    }
                    std::thread::sleep(Duration::from_millis(1));
                }
                until(remote, |stats| stats.counts().queued.packets == 0);
            }));
            std::thread::sleep(Duration::from_millis(50));
            over.store(true, Ordering::Relaxed);
            receiving.join().unwrap();
        });
        let stats = stats.unwrap();
        let mut delays: Vec<_> = std::iter::zip(&arrived, &left)
            .map(|(arrived, &left)| arrived.expect("each frame arrives").saturating_duration_since(left))
            .collect();
        delays.sort_unstable();
        let [p50, p99] = [delays.len() / 2, delays.len() * 99 / 100].map(|place| delays[place]);
        let of = |name: &str| stats.classes.iter().find(|class| class.name == name).unwrap();
        let (a, c) = (of("a"), of("c"));
        println!(
            "queues of {packets}, packets of {size} B, {gso:?}: {sent} super-frames, {} packets sent of {}; delay of the other class {p50:.1?} at the median, {p99:.1?} at the 99th percentile",
            c.counts().sent.packets,
            c.counts().received.packets,
        );
        assert_eq!((a.counts().sent.packets, a.counts().dropped.packets), (FRAMES, 0), "{stats}");
        assert_eq!(stats.gateway().kernel_dropped_packets, 0, "{stats}");
        assert_eq!(c.counts().received.packets, sent * shape.packets() as u64, "{stats}");
    }
}

/// Pseudo-random numbers, the same each time.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as usize % below
    }
}

fn any_description_of_any_frame(_: &PrivateNamespace) {
    if !std::path::Path::new("/dev/net/tun").exists() {
        println!("SKIPPED: no /dev/net/tun");
        return;
    }
    cables();
    let mut machine = tap("tap");
    let mut config = config(1_000_000_000, "hls");
    "tap".clone_into(&mut config.input);
    let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
    let (mut taken, mut refused) = (0, 0);
    let stats = through(config, |remote| {
        let shapes = shapes();
        for round in 0..4000 {
            let (mut header, mut frame) = shapes[numbers.next(shapes.len())].made(round as u8);
            for _ in 0..numbers.next(4) {
                let at = numbers.next(frame.len().min(90));
                frame[at] = numbers.next(256) as u8;
            }
            if numbers.next(4) == 0 {
                frame.truncate(14 + numbers.next(frame.len() - 14));
            }
            match numbers.next(8) {
                0 => header.kind = [0, 1, 3, 4, 5, 0x81, 0x84][numbers.next(7)],
                1 => header.segment = numbers.next(1 << 16) as u16,
                2 => header.segment = numbers.next(16) as u16,
                3 => header.checksum_start = numbers.next(200) as u16,
                4 => header.checksum_offset = numbers.next(40) as u16,
                5 => header.flags = numbers.next(4) as u8,
                6 => header.header_len = numbers.next(1 << 16) as u16,
                _ => {}
            }
            match machine.write(&[&bytes(header)[..], &frame].concat()) {
                Ok(_) => taken += 1,
                Err(_) => refused += 1,
            }
            if round % 100 == 0 {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        let mut before = u64::MAX;
        until(remote, |stats| {
            assert!(stats.gateway().balanced, "{stats:?}");
            std::mem::replace(&mut before, stats.counts().received.packets) == stats.counts().received.packets
                && stats.counts().queued.packets == 0
        });
        // The gateway continues: the last frame arrives.
        let mut last = vec![2; 60];
        last[12..14].copy_from_slice(&[0x88, 0xb5]);
        last[59] = 99;
        let mut sink = Sink::open("sink");
        machine.write_all(&[&[0; 10][..], &last].concat()).unwrap();
        while sink.next(1)[0] != last {}
    });
    println!("the kernel took {taken} and refused {refused}; {:?}", stats.gateway().super_packets_by_reason);
    assert!(stats.gateway().split_packets > 0 && stats.gateway().balanced, "{stats:?}");
}

/// The packets of one batch of pieces are more than the backend keeps at once. It has room for the others as soon as the
/// first are given back, and must not be waited for.
fn more_than_a_backend_keeps(_: &PrivateNamespace) {
    cables();
    let interface = Interface::open("out").unwrap();
    for rings in [true, false] {
        let mut backend = AfPacket::open(&interface, &AfPacketOptions { rings, ..AfPacketOptions::default() }).unwrap();
        let mut pool = FramePool::new(300, 128).unwrap();
        let frames: Vec<u32> = std::iter::from_fn(|| pool.take()).collect();
        for &frame in &frames {
            pool.frame_mut(frame)[..60].fill(2);
            pool.set_info(frame, FrameInfo { len: 60, ..FrameInfo::default() });
        }
        let Sent { accepted, rest } = backend.send(&mut pool, &frames).unwrap();
        assert!(matches!(rest, Rest::Full), "{rest:?} after {accepted}");
        backend.reclaim(&mut pool);
        let Sent { accepted: others, rest } = backend.send(&mut pool, &frames[accepted..]).unwrap();
        assert!(matches!(rest, Rest::Busy) && accepted + others == 300, "{rest:?} after {others}");
        backend.reclaim(&mut pool);
        assert_eq!(backend.owned(), 0);
    }
}
