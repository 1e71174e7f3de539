//! The workload behind `cost` and `callgrind`: every leaf backlogged, arrivals at random, batches of 32.

use fairlink_core::{
    BatchEnd, ClassConfig, ClassId, DropReason, Hierarchy, Leniency, LinkConfig, Members, Nanos, Packet, QueueLimits,
    Rate, Scheduler, Share, registry,
};

/// Packets per call.
pub(crate) const BATCH: usize = 32;
const RATE: Rate = match Rate::from_bps(10_000_000_000) {
    Ok(rate) => rate,
    Err(_) => Rate::MIN,
};
/// The name that measures the workload itself, without any scheduler.
pub(crate) const HARNESS: &str = "harness";

/// What is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// Leaves of the tree.
    pub(crate) leaves: usize,
    /// Its levels; inner classes have about as many children at each.
    pub(crate) levels: u32,
    /// Weights are drawn from 1 to this.
    pub(crate) weights: u64,
    /// Length of each packet in bytes.
    pub(crate) len: u32,
    /// The link's largest packet in bytes; a quantum is at least this, so shorter packets share a visit.
    pub(crate) max_packet: u32,
}

/// xorshift64*: any generator will do, and this one costs next to nothing.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        ((u128::from(self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)) * u128::from(limit)) >> 64) as u64
    }
}

fn tree(shape: Shape, random: &mut Random) -> Hierarchy {
    let mut fan_out = 1usize;
    while fan_out.pow(shape.levels) < shape.leaves {
        fan_out += 1;
    }
    let link = LinkConfig { max_packet: shape.max_packet, max_queued: total(shape) as u32, ..LinkConfig::new(RATE) };
    let mut tree = Hierarchy::builder(link);
    let mut parents = vec![ClassId::ROOT];
    for level in 1..=shape.levels {
        // Each level has what the leaves below it need, spread evenly over the level above.
        let wanted = shape.leaves.div_ceil(fan_out.pow(shape.levels - level));
        parents = (0..wanted)
            .map(|index| {
                let config = ClassConfig {
                    share: Some(Share::Weight(1 + random.below(shape.weights))),
                    limits: QueueLimits { packets: u32::MAX, bytes: u32::MAX },
                    ..ClassConfig::default()
                };
                tree.add(parents[index * parents.len() / wanted], config).expect("a class")
            })
            .collect();
    }
    tree.build().expect("a tree")
}

/// Packets in play: 4 for each leaf, more where there are few leaves.
fn total(shape: Shape) -> usize {
    (4 * shape.leaves).max(16 * BATCH)
}

/// A scheduler with every leaf backlogged, and the packets that are on their way back to it.
pub(crate) struct Workload {
    scheduler: Option<Box<dyn Scheduler>>,
    random: Random,
    /// A sixteenth of the packets. A packet sent takes a random place here; the one that was there arrives.
    away: Vec<(u32, u32)>,
    batch: Vec<Packet>,
    now: Nanos,
    shape: Shape,
}

impl Workload {
    /// The scheduler `name` for a tree of `shape`.
    ///
    /// # Panics
    /// Where there is no such scheduler or it cannot be made for that tree.
    pub(crate) fn new(name: &str, shape: Shape) -> Self {
        let mut random = Random(0x9E37_79B9_7F4A_7C15);
        let tree = tree(shape, &mut random);
        let mut places: Vec<u32> = (0..total(shape)).map(|i| tree.leaves()[i % tree.leaves().len()].0).collect();
        for last in (1..places.len()).rev() {
            places.swap(last, random.below(last as u64 + 1) as usize);
        }
        let mut scheduler = (name != HARNESS).then(|| {
            let info = registry::find(name).unwrap_or_else(|| panic!("no scheduler is called {name}"));
            info.build(&tree, Leniency::Ignore, Members::new()).expect("a scheduler")
        });
        let away = places.split_off(places.len() * 15 / 16).into_iter().map(|class| (class, shape.len)).collect();
        if let Some(scheduler) = &mut scheduler {
            for (handle, class) in places.into_iter().enumerate() {
                let packet = Packet { handle: handle as u64, len: shape.len, class: ClassId(class) };
                scheduler.enqueue(Nanos::ZERO, packet, &mut refuse);
            }
        }
        Self { scheduler, random, away, batch: Vec::with_capacity(BATCH), now: Nanos::ZERO, shape }
    }

    /// Sends and receives at least `packets` packets; returns how many.
    pub(crate) fn run(&mut self, packets: u64) -> u64 {
        let mut done = 0;
        while done < packets {
            let Self { scheduler, random, away, batch, now, shape } = self;
            // The link takes its time, and one that holds packets back is waited for.
            *now += RATE.time_for_bytes(BATCH as u64 * u64::from(shape.len));
            match scheduler {
                Some(scheduler) => {
                    while let BatchEnd::WaitUntil(t) =
                        scheduler.dequeue_batch(*now, BATCH, u64::MAX, batch, &mut refuse)
                        && batch.is_empty()
                    {
                        *now = t;
                    }
                    assert!(!batch.is_empty(), "there is backlog");
                }
                None => {
                    let packet = |i| Packet { handle: i as u64, len: shape.len, class: ClassId(1 + i as u32) };
                    batch.extend((0..BATCH).map(packet));
                }
            }
            for packet in batch.iter_mut() {
                let place = random.below(away.len() as u64) as usize;
                let (class, len) = std::mem::replace(&mut away[place], (packet.class.0, packet.len));
                *packet = Packet { handle: packet.handle, len, class: ClassId(class) };
            }
            done += batch.len() as u64;
            match scheduler {
                Some(scheduler) => scheduler.enqueue_batch(*now, batch, &mut refuse),
                None => {
                    std::hint::black_box(&batch);
                    batch.clear();
                }
            }
        }
        done
    }

    /// Share of the leaves that have packets.
    pub(crate) fn backlogged(&self) -> Option<f64> {
        let scheduler = self.scheduler.as_ref()?;
        let classes = (1..).map(ClassId).take(3 * self.shape.leaves);
        let busy = classes.filter(|&class| scheduler.class_backlog(class).packets > 0).count();
        Some(busy as f64 / self.shape.leaves as f64)
    }
}

fn refuse(_now: Nanos, packet: Packet, reason: DropReason) {
    panic!("a packet of class {} was dropped: {}", packet.class.0, reason.as_str());
}
