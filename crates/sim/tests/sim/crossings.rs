//! Random combinations: sources of every model, shaped and closed, queues of every kind, ceilings, latency-critical
//! leaves, links in a row, and every scheduler. Always required: runs end, packets are conserved, and the same seed
//! gives the same run.

use fairlink_core::{
    ClassConfig, ClassId, Hierarchy, Leniency, LinkConfig, Nanos, QueueKind, QueueLimits, Rate, SchedulerInfo, Share,
    TransmitQueue, WhenFull, registry::SCHEDULERS,
};
use fairlink_sim::{ClosedRun, Hop, Links, Options, Route, Run, Scenario, compare_links};
use fairlink_traffic::{
    ArrivalCurve, ArrivalLimit, CongestionControl, Dar1, Excess, IMIX, Marginal, MmppState, Model, Mpeg, OnTime, Pace,
    PacketSize, Picture, RequestResponse, Shaped, SourceSpec, Tcp,
};
use proptest::prelude::*;
use proptest::test_runner::TestRng;

use crate::common::{rate, scenario};

const DURATION: Nanos = Nanos::from_millis(300);

struct SeededRng(TestRng);

impl SeededRng {
    fn below(&mut self, n: u64) -> u64 {
        self.0.next_u64() % n
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    fn pick<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize].clone()
    }

    fn millis(&mut self, most: u64) -> Nanos {
        Nanos::from_micros(1 + self.below(most * 1000))
    }

    fn rate(&mut self) -> Rate {
        rate(50_000 + self.below(8_000_000))
    }

    fn packet(&mut self) -> PacketSize {
        let min = 40 + self.below(300) as u32;
        let max = min + 20 + self.below(1000) as u32;
        match self.below(5) {
            0 => PacketSize::Fixed(min),
            1 => PacketSize::Uniform { min, max, header: 40 },
            2 => PacketSize::Exponential { mean: min + (max - min) / 3 + 1, min, max },
            3 => PacketSize::Lognormal { mean: u32::midpoint(min, max), deviation: max - min, min, max },
            _ => PacketSize::Mix(IMIX.to_vec()),
        }
    }

    fn model(&mut self) -> Model {
        let pace = if self.chance(50) {
            Pace::Rate(self.rate())
        } else {
            Pace::Packets { per_1000_s: 1 + self.below(2_000_000) }
        };
        let size = |mean| PacketSize::Exponential { mean, min: 1, max: 20 * mean };
        match self.below(10) {
            0 => Model::Greedy,
            1 => Model::Saturating(self.rate()),
            2 => Model::Cbr { pace, burst: 1 + self.below(5) as u32 },
            3 => Model::Poisson(pace),
            4 => {
                let mean = Nanos::from_millis(1 + self.below(50));
                let k = 2.1 + self.below(20) as f64 / 10.0;
                let on = self.pick(&[OnTime::Exponential { mean }, OnTime::Pareto { mean, k }]);
                Model::OnOff { pace: Pace::Rate(self.rate()), on, off: self.millis(50) }
            }
            5 => {
                let state = |dice: &mut Self| MmppState {
                    per_1000_s: 1 + dice.below(3_000_000),
                    mean: Nanos::from_millis(5 + dice.below(30)),
                    next: Vec::new(),
                };
                Model::Mmpp((0..1 + self.below(4)).map(|_| state(self)).collect())
            }
            6 => Model::Mpeg(Mpeg {
                pattern: vec![Picture::I, Picture::P, Picture::B],
                groups_per_1000_s: 1000 + self.below(30_000),
                lengths: [size(9000), size(2000), size(500)],
                whole_frames: false,
            }),
            7 => Model::Dar1(Dar1 {
                rate: rate(500_000 + self.below(2_000_000)),
                frames_per_1000_s: 25_000,
                rho: 0.9,
                marginal: Marginal::Gamma,
                peak_to_mean: 4.0,
                deviation_to_mean: 0.6,
            }),
            8 => Model::Tcp(Tcp {
                congestion_control: self.pick(&[CongestionControl::Reno, CongestionControl::Cubic]),
                rtt: Nanos(self.below(30_000_000)),
            }),
            _ => Model::RequestResponse(RequestResponse {
                request: 1 + self.below(20_000),
                response: self.below(20_000),
                think: Nanos(self.below(10_000_000)),
                rtt: Nanos(self.below(20_000_000)),
                return_rate: None,
            }),
        }
    }

    fn source(&mut self, class: ClassId) -> SourceSpec {
        let mut model = self.model();
        if self.chance(25) && !model.is_closed() {
            let bucket = ArrivalLimit::Bucket { burst: 4000 + self.below(9000), rate_bps: self.rate().bps() };
            let curve = ArrivalCurve::new(&[bucket]).unwrap();
            let excess = if model == Model::Greedy || self.chance(50) {
                Excess::Waits(Some(QueueLimits { packets: 50, bytes: u32::MAX }))
            } else {
                Excess::Drops
            };
            model = Model::Shaped(Box::new(Shaped { model, curve, excess }));
        }
        SourceSpec { class, model, packet: self.packet(), active: Vec::new() }
    }

    fn tree(&mut self) -> Hierarchy {
        let push_out = self.chance(30);
        let packets = 1 + self.below(6) as u32;
        let link = LinkConfig {
            max_queued: if push_out { 30 } else { 300 },
            when_full: if push_out { WhenFull::PushOut } else { WhenFull::DropArrival },
            transmit_queue: self.chance(30).then(|| TransmitQueue { packets, priority: self.chance(50) }),
            ..LinkConfig::new(rate(2_000_000 + self.below(10_000_000)))
        };
        let mut tree = Hierarchy::builder(link);
        let class = |dice: &mut Self, leaf: bool| ClassConfig {
            share: Some(Share::Weight(1 + dice.below(9))),
            ceiling: dice.chance(20).then(|| dice.rate()),
            latency_critical: leaf && dice.chance(15),
            queue: if leaf {
                dice.pick(&[QueueKind::Fifo, QueueKind::CoDel, QueueKind::FqCoDel])
            } else {
                QueueKind::Fifo
            },
            ecn: leaf && !push_out && dice.chance(50),
            limits: QueueLimits { packets: 1 + dice.below(60) as u32, bytes: 40_000 },
            ..ClassConfig::default()
        };
        for _ in 0..1 + self.below(3) {
            let leaf = self.chance(50);
            let top = tree.add(ClassId::ROOT, class(self, leaf)).unwrap();
            for _ in 0..if leaf { 0 } else { 1 + self.below(3) } {
                tree.add(top, class(self, true)).unwrap();
            }
        }
        tree.build().unwrap()
    }
}

/// One to three links, each with sources, some of which continue to links behind.
fn network(dice: &mut SeededRng) -> Links {
    let count = 1 + dice.below(3) as usize;
    let mut scenarios: Vec<Scenario> = (0..count)
        .map(|_| {
            let tree = dice.tree();
            let sources = (0..1 + dice.below(5)).map(|_| {
                let leaf = dice.pick(tree.leaves());
                dice.source(leaf)
            });
            let sources = sources.collect();
            Scenario { propagation: Nanos(dice.below(5_000_000)), ..scenario(tree, sources, DURATION) }
        })
        .collect();
    let mut routes = Vec::new();
    for start in 0..count {
        for source in 0..scenarios[start].sources.len() {
            let behind: Vec<usize> = (start + 1..count).filter(|_| dice.chance(60)).collect();
            if behind.is_empty() || dice.chance(50) {
                continue;
            }
            let hops: Vec<Hop> =
                behind.iter().map(|&link| Hop { link, class: dice.pick(scenarios[link].tree.leaves()) }).collect();
            let regulated = dice.chance(20).then(|| vec![Nanos(dice.below(20_000_000)); hops.len()]);
            routes.push(Route { name: format!("{start} {source}"), source: (start, source), hops, regulated });
        }
    }
    scenarios[0].seed = dice.0.next_u64();
    let mut all = scenarios.into_iter();
    let first = all.next().unwrap();
    let further = ["b", "c"].iter().map(|&name| name.to_owned()).zip(all).collect();
    Links { first, further, pools: Vec::new(), routes }
}

fn run(links: &Links, info: &'static SchedulerInfo, options: &Options) -> Run {
    let report = compare_links(links, &[info], Leniency::Ignore, 1, options, &mut ());
    report.unwrap_or_else(|error| panic!("{}: {error}", info.name)).runs.remove(0)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_combined_runs_to_the_end_and_keeps_its_packets(seed in any::<[u8; 32]>()) {
        let mut dice = SeededRng(TestRng::from_seed(proptest::test_runner::RngAlgorithm::ChaCha, &seed));
        let links = network(&mut dice);
        let options = Options { window: dice.chance(50).then(|| Nanos::from_millis(10)), ..Options::default() };
        for _ in 0..3 {
            let info = &SCHEDULERS[dice.below(SCHEDULERS.len() as u64) as usize];
            let once = run(&links, info, &options);
            for class in &once.classes {
                let left = class.counts().sent.packets + class.counts().dropped.packets + class.counts().queued.packets;
                prop_assert_eq!(class.counts().received.packets, left, "{}: {:?}", info.name, class);
            }
            for way in &once.routes {
                let kept: u64 = way.hops.iter().map(|hop| hop.arrived_packets - hop.sent_packets - hop.dropped_packets).sum();
                let between: u64 = way.hops.windows(2).map(|pair| pair[0].sent_packets - pair[1].arrived_packets).sum();
                prop_assert_eq!(way.offered_packets, way.received_packets + way.dropped_packets + kept + between);
            }
            for closed in &once.closed {
                if let ClosedRun::Tcp { sent_packets, delivered_packets, lost_packets, .. } = closed {
                    prop_assert!(delivered_packets + lost_packets <= *sent_packets, "{}: {:?}", info.name, closed);
                }
            }
            prop_assert_eq!(once, run(&links, info, &options), "{}", info.name);
        }
    }
}
