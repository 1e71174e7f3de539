//! Test gateway over interfaces in memory, driven by the test one turn at a time.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use fairlink_config::matching::{Classifier, Match, PortRange, UDP};
use fairlink_core::{
    ClassConfig, ClassId, Driver, Hierarchy, Leniency, LinkConfig, Members, Metered, Nanos, Overhead, Pacer,
    QueueLimits, Rate, Scheduler, Share,
};

use super::{COPIED, Copying, GatewayCounts, Generation};
#[cfg(test)]
use super::{Observation, Snapshot};
use crate::gateway::data_path::{DataPath, Lengths};
use crate::gateway::queue_lengths::QueueLengths;
use crate::gateway::remote::Publisher;
use crate::gateway::splitter::Splitter;
use crate::gateway::stats::EdgeCounters;
use crate::io::clock::Clock;
use crate::io::frame_pool::FramePool;
use crate::io::virtual_link::VirtualLink;
use crate::wire::frame::{FrameTemplate, Headers, Stamp};
use crate::wire::labels::Labels;

#[derive(Clone, Debug, Default)]
pub(crate) struct Hands(pub(crate) Rc<Cell<u64>>);

impl Clock for Hands {
    fn now(&self) -> Nanos {
        Nanos(self.0.get())
    }
}

/// A gateway whose turns are driven by the test.
pub(crate) struct Played {
    pub(crate) data_path: DataPath<VirtualLink, VirtualLink, Hands>,
    pub(crate) driver: Driver<Metered<Box<dyn Scheduler>>>,
    pub(crate) generation: Arc<Generation>,
    pub(crate) hands: Hands,
    /// For random numbers.
    seed: u64,
}

/// 10 frames of 1000 B leave in a millisecond.
pub(crate) const LINK_BPS: u64 = 80_000_000;

/// `inner` classes with `leaves` each below the link, guarantees all alike.
pub(crate) fn two_levels(inner: usize, leaves: usize) -> Hierarchy {
    let mut tree = Hierarchy::builder(LinkConfig::new(Rate::from_bps(LINK_BPS).unwrap()));
    let share = |parts: usize| Some(Share::Guarantee(Rate::from_bps(LINK_BPS / parts as u64).unwrap()));
    let limits = QueueLimits { packets: 20, ..QueueLimits::default() };
    for _ in 0..inner {
        let parent = tree.add(ClassId::ROOT, ClassConfig { share: share(inner), ..ClassConfig::default() }).unwrap();
        for _ in 0..leaves {
            let config = ClassConfig { share: share(inner * leaves), limits, ..ClassConfig::default() };
            tree.add(parent, config).unwrap();
        }
    }
    tree.build().unwrap()
}

impl Played {
    /// Frames to ports 5000, 5001, ... belong to the leaves, in order.
    pub(crate) fn new(tree: Hierarchy, scheduler: &str) -> Self {
        let generation = Arc::new(Generation::of_tree(tree.clone(), scheduler));
        let port = |leaf: usize| PortRange { first: 5000 + leaf as u16, last: 5000 + leaf as u16 };
        let of_leaf = |leaf| Match { proto: Some(UDP), dport: Some(port(leaf)), ..Match::ANY };
        let matches: Vec<_> = tree.leaves().iter().enumerate().map(|(at, &leaf)| (leaf, of_leaf(at))).collect();
        let hands = Hands::default();
        let scheduler = generation.scheduler.build(&tree, Leniency::Refuse, Members::new()).unwrap();
        let queued = 20 * tree.leaves().len() as u32;
        let data_path = DataPath::new(
            FramePool::new(queued + DataPath::<VirtualLink, VirtualLink, Hands>::RESERVE, 1600).unwrap(),
            VirtualLink::default(),
            VirtualLink::default(),
            hands.clone(),
            Classifier::new(&matches, tree.leaves()[0]),
            Labels::new(&tree).unwrap(),
            Overhead::NONE,
            Lengths { frame: tree.link().max_packet, piece: 0 },
            EdgeCounters::new(generation.delays.clone()),
            QueueLengths::new(&tree, tree.link().max_packet),
            Splitter::new(tree.len()),
            false,
        );
        let pacer = Pacer::new(tree.link().rate, Nanos::ZERO);
        let driver = Driver::new(Metered::new(scheduler, &tree).unwrap(), pacer).unwrap();
        Self { data_path, driver, generation, hands, seed: 1 }
    }

    fn random(&mut self, below: u64) -> u64 {
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.seed >> 33) % below
    }

    pub(crate) fn arrive(&mut self, leaf: usize, bytes: usize) {
        let mut frame = vec![0; bytes];
        let stamp = Stamp { run: 0, class: ClassId(0), sequence: 0, monotonic_ns: 0, realtime_us: 0 };
        FrameTemplate::new(&Headers::udp(5000 + leaf as u16)).write(&mut frame, &stamp);
        self.data_path.input.incoming.push_back(frame);
    }

    pub(crate) fn turn(&mut self, now: u64) {
        self.hands.0.set(now);
        let _ = self.data_path.turn(Nanos(now), &mut self.driver).unwrap();
    }

    /// Runs a turn. Before it, random frames of any class arrive, more of classes with low numbers, some of which
    /// cannot be sent.
    pub(crate) fn busy_turn(&mut self, now: u64) {
        let leaves = self.generation.tree.leaves().len() as u64;
        for _ in 0..self.random(24) {
            let below = self.random(leaves) + 1;
            let leaf = self.random(below) as usize;
            let bytes = if self.random(50) == 0 { 1550 } else { 100 + self.random(1400) as usize };
            self.arrive(leaf, bytes);
        }
        self.data_path.output.room = (self.random(4) == 0).then_some(2);
        self.turn(now);
    }

    pub(crate) fn go_on(&self, copying: &mut Copying, most: usize) -> bool {
        copying.go_on(most, self.hands.now(), &self.data_path, self.driver.scheduler())
    }

    /// All at once.
    #[cfg(test)]
    pub(crate) fn observe(&self) -> Observation {
        let mut copying = Copying::begin(Arc::new(Snapshot::new(Arc::clone(&self.generation))), 1).unwrap();
        assert!(self.go_on(&mut copying, usize::MAX));
        self.completed(copying)
    }

    #[cfg(test)]
    pub(crate) fn completed(&self, mut copying: Copying) -> Observation {
        let pool_agrees = self.data_path.pool_agrees(self.driver.scheduler().backlog().packets);
        copying.complete(GatewayCounts { uptime: self.hands.now(), pool_agrees, ..GatewayCounts::default() });
        Observation::new(copying.into_parts().1)
    }

    /// Runs the data thread of `publisher`'s gateway until `stop` is set: turns with traffic, and after each a piece of
    /// a requested answer. Returns the number of answers, and the largest number of pieces between two turns.
    pub(crate) fn answer(mut self, mut publisher: Publisher, stop: &AtomicBool) -> (u64, usize) {
        let (mut now, mut answers, mut most) = (0, 0, 0);
        while !stop.load(Ordering::Relaxed) {
            self.busy_turn(now);
            now += 100_000;
            let mut pieces = 0;
            if publisher.is_asked()
                && let Some(mut copying) = publisher.take_copying()
            {
                pieces += 1;
                let mut published = false;
                if self.go_on(&mut copying, COPIED) {
                    let queued = self.driver.scheduler().backlog().packets;
                    let pool_agrees = self.data_path.pool_agrees(queued);
                    copying.complete(GatewayCounts { uptime: Nanos(now), pool_agrees, ..GatewayCounts::default() });
                    match publisher.publish(copying) {
                        Ok(()) => published = true,
                        Err(later) => publisher.keep_copying(later),
                    }
                } else {
                    publisher.keep_copying(copying);
                }
                answers += u64::from(published);
            }
            most = most.max(pieces);
        }
        (answers, most)
    }
}
