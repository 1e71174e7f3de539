//! One thread that schedules, with rings to and from the others.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::yield_now;
use std::time::{Duration, Instant};

use fairlink_core::hub::{Consumer, Producer, ring};
use fairlink_core::{
    ClassId, Driver, DropReason, DropSink, HubPort, Nanos, Pacer, Packet, Rate, Scheduler, SchedulerInfo, flow_bits,
};

use super::{LEAVES, SEGMENT, Segment, build, misbehaved, on_processor, packet_len, packets, tree_for};
use crate::error::WorkloadError;
use crate::random::Random;
use crate::shape::{BATCH, Pattern};

/// Receive rings of the hub.
pub const RINGS: usize = 16;
/// Packets that a ring has room for.
pub const RING_PACKETS: usize = 256;
/// Turns of the hub between two looks at the number of packets.
const TURNS: usize = 4;

/// A thread that receives and sends: it takes packets from its transmit rings, and pushes them into its receive rings
/// in turn.
struct Other {
    /// Its receive rings, and their numbers.
    to_hub: Vec<(u32, Producer<Packet>)>,
    from_hub: Vec<Consumer<Packet>>,
    leaves: Vec<ClassId>,
    random: Random,
}

/// Measures the hub's thread with `threads` - 1 other ones, for about `time`, in segments of its processor time. Time
/// in which it finds no packet does not count, because it waits for the other threads then.
///
/// # Errors
/// [`WorkloadError`], if the scheduler does not take the tree, or drops packets.
pub fn hub(
    info: &'static SchedulerInfo,
    threads: usize,
    pattern: Pattern,
    time: Duration,
) -> Result<Vec<Segment>, WorkloadError> {
    let others = threads.saturating_sub(1).clamp(1, RINGS);
    // As many as the leaves have in the scheduler, and as many as the rings have room for.
    let all = packets(pattern) + (RINGS + others) * RING_PACKETS;
    let (tree, leaves) = tree_for(info, all)?;
    let mut driver = Driver::new(build(info, &tree)?, Pacer::new(Rate::MAX, Nanos::from_millis(1)))
        .map_err(|_| misbehaved(info.name, "has no memory for a batch"))?;
    let (producers, receive): (Vec<_>, Vec<_>) = (0..RINGS).map(|_| ring(RING_PACKETS)).unzip();
    let (transmit, consumers): (Vec<_>, Vec<_>) = (0..others).map(|_| ring(RING_PACKETS)).unzip();
    let mut lost = 0u64;
    let drops = |_: Nanos, _: Packet, _: DropReason| lost += 1;
    let mut port = HubPort::new(receive, transmit, Packet::flow, drops)
        .map_err(|_| misbehaved(info.name, "has no memory for the rings"))?;
    let mut parts: Vec<Other> = consumers
        .into_iter()
        .map(|from| Other { to_hub: Vec::new(), from_hub: vec![from], leaves: leaves.clone(), random: Random::new() })
        .collect();
    for (number, ring) in (0..).zip(producers) {
        parts[number as usize % others].to_hub.push((number, ring));
    }
    let (stop, barrier, start) = (AtomicBool::new(false), Barrier::new(others + 1), Instant::now());
    let segments = std::thread::scope(|scope| {
        for (number, other) in parts.into_iter().enumerate() {
            let first = (0..all).skip(number).step_by(others).map(|packet| leaves[packet % LEAVES]).collect();
            let (stop, barrier) = (&stop, &barrier);
            scope.spawn(move || {
                barrier.wait();
                other.run(first, pattern, stop);
            });
        }
        barrier.wait();
        let mut segments = Vec::new();
        while segments.is_empty() || start.elapsed() < time {
            segments.push(segment(&mut port, &mut driver, packets(pattern) as u64, start));
        }
        stop.store(true, Ordering::Relaxed);
        segments
    });
    if lost > 0 { Err(misbehaved(info.name, "dropped packets that it had room for")) } else { Ok(segments) }
}

/// Runs the hub for a segment, with at least `queued` packets in the scheduler when packets leave.
fn segment<H: Fn(&Packet) -> u32, D: DropSink>(
    port: &mut HubPort<H, D>,
    driver: &mut Driver<Box<dyn Scheduler>>,
    queued: u64,
    start: Instant,
) -> Segment {
    let (from, first, mut waited) = (on_processor(), port.published(), Duration::ZERO);
    // Processor time from which on no packet came or left.
    let mut idle: Option<Duration> = None;
    while port.published() - first < SEGMENT as u64 {
        let before = (port.taken(), port.published());
        // While it waits, the clock is read before each turn, so that the turn in which packets come does not count.
        let began = idle.map(|_| on_processor());
        for _ in 0..if idle.is_some() { 1 } else { TURNS } {
            let now = Nanos(start.elapsed().as_nanos() as u64);
            if driver.scheduler().backlog().packets < queued {
                driver.accept(now, port);
            } else {
                let _ = port.turn(now, driver);
            }
        }
        if before == (port.taken(), port.published()) {
            idle.get_or_insert_with(on_processor);
            yield_now();
        } else if let (Some(since), Some(began)) = (idle.take(), began) {
            waited += began - since;
        }
    }
    let busy = (on_processor() - from - waited).as_nanos() as f64;
    Segment { nanos: busy / (port.published() - first) as f64, empty: waited.as_nanos() as f64 / busy }
}

impl Other {
    /// Moves packets until `stop`; `pool` is the classes of packets that are not in the hub.
    fn run(mut self, mut pool: Vec<ClassId>, pattern: Pattern, stop: &AtomicBool) {
        let mut next = 0u64;
        let Self { to_hub, from_hub, leaves, random } = &mut self;
        while !stop.load(Ordering::Relaxed) {
            let before = pool.len();
            for ring in from_hub.iter_mut() {
                let slots = ring.slots();
                let Ok(chunk) = ring.read_chunk(slots) else { continue };
                pool.extend(chunk.into_iter().map(|packet| packet.class));
            }
            let mut moved = pool.len() - before;
            for (number, ring) in to_hub.iter_mut() {
                let count = ring.slots().min(BATCH).min(pool.len());
                let Ok(chunk) = ring.write_chunk_uninit(count) else { continue };
                let packet = |class: ClassId| {
                    // The receive hash: its lowest bits select the ring.
                    let flow = random.below(1 << 20) as u32 * RINGS as u32 + *number;
                    next += 1;
                    let class = if pattern == Pattern::Churn { leaves[random.below(LEAVES)] } else { class };
                    Packet { handle: flow_bits(flow) | next & 0xffff_ffff, len: packet_len(1), class }
                };
                moved += chunk.fill_from_iter(pool.drain(pool.len() - count..).map(packet));
            }
            if moved == 0 {
                yield_now();
            }
        }
    }
}
