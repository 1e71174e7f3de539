//! Several hubs that share the virtual time of the link. Each thread has one, and also receives and sends.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::thread::yield_now;
use std::time::{Duration, Instant};

use fairlink_core::hubs::{Hub, Receiver, Transmitter};
use fairlink_core::{
    ClassId, DropReason, DropSink, Hubs, HubsConfig, Nanos, Packet, SharedConfig, SharedTree, flow_bits,
};

use super::{Classes, LEAVES, RING_PACKETS, SEGMENT, Segment, misbehaved, on_processor, packet_len, packets, tree};
use crate::error::WorkloadError;
use crate::random::Random;
use crate::shape::{BATCH, Pattern};

/// Classes directly below the link for each hub.
const CLASSES: usize = 8;

/// A thread with a hub.
struct Part<H, D> {
    receiver: Receiver,
    hub: Hub<H, D>,
    transmitter: Transmitter,
    /// Its number, and that of all.
    number: usize,
    threads: usize,
    random: Random,
}

/// Measures `threads` threads for about `time`: each takes packets of the leaves of all hubs from its transmit rings,
/// pushes them into the rings to the hubs, and makes a turn of its own hub. All this counts.
///
/// # Errors
/// [`WorkloadError`], if the tree cannot be shared, or a packet is dropped.
pub fn hubs(threads: usize, pattern: Pattern, time: Duration) -> Result<Vec<Segment>, WorkloadError> {
    let all = threads * packets(pattern);
    let (tree, leaves) = tree(threads, Classes::Own(CLASSES), all)?;
    let leaves = &leaves.concat()[..];
    let shared = SharedTree::new(tree.clone(), SharedConfig::for_link(&tree.link()))
        .map_err(|_| misbehaved("hubs", "does not take the tree"))?;
    let config = HubsConfig {
        hubs: threads,
        receivers: threads,
        transmitters: threads,
        ring: RING_PACKETS,
        ..HubsConfig::default()
    };
    let lost = &Arc::new(AtomicU64::new(0));
    let drops = |_| {
        let lost = Arc::clone(lost);
        move |_: Nanos, _: Packet, _: DropReason| _ = lost.fetch_add(1, Ordering::Relaxed)
    };
    let Hubs { receivers, hubs, transmitters, .. } = Hubs::new(&shared, config, Packet::flow, drops)
        .map_err(|_| misbehaved("hubs", "has no memory for the rings"))?;
    let (stop, running, barrier) = (&AtomicBool::new(false), &AtomicUsize::new(threads), &Barrier::new(threads));
    let start = Instant::now();
    let segments = std::thread::scope(|scope| {
        let parts = receivers.into_iter().zip(hubs).zip(transmitters).enumerate();
        let running: Vec<_> = parts
            .map(|(number, ((receiver, hub), transmitter))| {
                let part = Part { receiver, hub, transmitter, number, threads, random: Random::new() };
                let pool = (0..all).skip(number).step_by(threads).map(|packet| leaves[packet % leaves.len()]).collect();
                scope.spawn(move || {
                    barrier.wait();
                    part.run(pool, (leaves, pattern), start, (stop, running))
                })
            })
            .collect();
        std::thread::sleep(time);
        stop.store(true, Ordering::Relaxed);
        let all = running.into_iter().map(|thread| thread.join());
        all.collect::<Result<Vec<_>, _>>().map_err(|_| misbehaved("hubs", "panicked"))
    })?;
    match lost.load(Ordering::Relaxed) {
        0 => Ok(segments.concat()),
        _ => Err(misbehaved("hubs", "dropped packets that it had room for")),
    }
}

impl<H: Fn(&Packet) -> u32, D: DropSink> Part<H, D> {
    /// Moves packets until `stop` and until each of the `running` threads has a segment; `pool` is the classes of the
    /// packets that are in no ring and no hub.
    fn run(
        mut self,
        mut pool: Vec<ClassId>,
        (leaves, pattern): (&[ClassId], Pattern),
        start: Instant,
        (stop, running): (&AtomicBool, &AtomicUsize),
    ) -> Vec<Segment> {
        let len = packet_len(self.threads);
        let (mut segments, mut out, mut next) = (Vec::new(), Vec::with_capacity(LEAVES), 0u64);
        let goes_on = || !stop.load(Ordering::Relaxed) || running.load(Ordering::Relaxed) > 0;
        while goes_on() {
            let from = on_processor();
            let (mut sent, mut empty) = (0, 0);
            while sent < SEGMENT && goes_on() {
                let took = self.transmitter.take(&mut out);
                pool.extend(out.drain(..).map(|packet| packet.class));
                sent += took;
                let mut pushed = 0;
                while pushed < BATCH
                    && let Some(class) = pool.pop()
                {
                    let churn = pattern == Pattern::Churn;
                    let class = if churn { leaves[self.random.below(leaves.len())] } else { class };
                    // The receive hash: a flow comes from one thread.
                    let flow = (self.random.below(1 << 20) * self.threads + self.number) as u32;
                    next += 1;
                    let handle = flow_bits(flow) | next & 0xffff_ffff;
                    if let Err(packet) = self.receiver.push(Packet { handle, len, class }) {
                        pool.push(packet.class);
                        break;
                    }
                    pushed += 1;
                }
                let _ = self.hub.turn(Nanos(start.elapsed().as_nanos() as u64));
                if took + pushed == 0 {
                    empty += 1;
                    yield_now();
                }
            }
            if sent >= SEGMENT {
                let nanos = (on_processor() - from).as_nanos() as f64 / sent as f64;
                segments.push(Segment { nanos, empty: (empty * BATCH) as f64 / sent as f64 });
                if segments.len() == 1 {
                    running.fetch_sub(1, Ordering::Relaxed);
                }
            }
        }
        segments
    }
}
