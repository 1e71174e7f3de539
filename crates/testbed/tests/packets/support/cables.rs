//! A gateway between two cables, and frames sent through it.
#![allow(dead_code, reason = "not every suite needs all of it")]

use fairlink_config::matching::Match;
use fairlink_core::{
    ClassConfig, ClassId, Cores, Hierarchy, LinkConfig, Nanos, QueueLimits, Rate, Share, Split, registry,
};
use fairlink_net::{BackendChoice, Gateway, GatewayConfig, Headers, Processor};
use fairlink_testbed::{GeneratorConfig, Lanes, PrivateNamespace, lay_cables};
use fairlink_traffic::{Model, PacketSize, SourceSpec};

pub(crate) fn rate(bps: u64) -> Rate {
    Rate::from_bps(bps).unwrap()
}

/// Creates two cables: frames sent into `gen` arrive at `in`, frames sent into `out` arrive at `sink`.
pub(crate) fn cables() {
    lay_cables(&[("gen", "in"), ("out", "sink")]).unwrap();
}

/// Leaves 1 to 3 below the link, of weights 1, 2, 3, distinguished by UDP ports 5001 to 5003; 3 is also the default
/// class.
pub(crate) fn config(bps: u64, scheduler: &str) -> GatewayConfig {
    let link = LinkConfig { max_packet: 1522, ..LinkConfig::new(rate(bps)) };
    let mut tree = Hierarchy::builder(link);
    for weight in 1..=3 {
        let share = Some(Share::Weight(weight));
        let limits = QueueLimits { packets: 100, ..QueueLimits::default() };
        tree.add(ClassId::ROOT, ClassConfig { share, limits, ..ClassConfig::default() }).unwrap();
    }
    let scheduler = registry::find(scheduler).unwrap();
    let mut config = GatewayConfig::new("in", "out", scheduler, tree.build().unwrap(), ClassId(3));
    config.names = ["link", "a", "b", "c"].map(str::to_owned).to_vec();
    config.matches = vec![(ClassId(1), parse("udp dst port 5001")), (ClassId(2), parse("udp dst port 5002"))];
    config.processor = Processor::Any;
    config.backend = backend();
    (config.cores, config.cores_asked) = (cores(), true);
    // More threads than processors are possible, and slow.
    config.force = usize::from(config.cores.count) > std::thread::available_parallelism().map_or(1, usize::from);
    config
}

/// Environment variable with the number of cores of gateways; absent for one.
pub(crate) const CORES: &str = "FAIRLINK_TEST_CORES";

/// The cores of each gateway of this test.
pub(crate) fn cores() -> Cores {
    match std::env::var(CORES).map(|cores| cores.parse().expect("a number of cores")) {
        Ok(count) => Cores::new(count, Split::Hub),
        Err(_) => Cores::ONE,
    }
}

/// Environment variable with the backend of gateways; absent for packet sockets.
pub(crate) const BACKEND: &str = "FAIRLINK_TEST_BACKEND";

/// The backend for gateways of this test.
pub(crate) fn backend() -> BackendChoice {
    match std::env::var(BACKEND) {
        Ok(name) => BackendChoice::named(&name).expect("a backend of that name"),
        Err(_) => BackendChoice::AfPacket,
    }
}

/// Returns true if gateways of this test use AF_XDP.
pub(crate) fn over_af_xdp() -> bool {
    backend() == BackendChoice::AfXdp
}

/// Returns the reason why a gateway between two cables does not use AF_XDP here; `None` if it does.
pub(crate) fn why_no_af_xdp(_: &PrivateNamespace) -> Option<String> {
    cables();
    let gateway = Gateway::open(GatewayConfig { backend: BackendChoice::AfXdp, ..config(1_000_000, "fifo") }).unwrap();
    gateway.notes().iter().find(|note| note.contains("AF_PACKET")).cloned()
}

pub(crate) fn parse(text: &str) -> Match {
    Match::parse(text).unwrap()
}

pub(crate) fn generator(
    sources: &[(u32, Model, PacketSize, Headers)],
    millis: u64,
    greedy_bps: u64,
) -> GeneratorConfig {
    GeneratorConfig {
        interface: "gen".to_owned(),
        classes: sources.iter().map(|&(class, _, _, headers)| (ClassId(class), headers)).collect(),
        names: Default::default(),
        sources: sources
            .iter()
            .map(|(class, model, packet, _)| SourceSpec {
                class: ClassId(*class),
                model: model.clone(),
                packet: packet.clone(),
                active: Vec::new(),
            })
            .collect(),
        seed: 1,
        greedy_rate: rate(greedy_bps),
        duration: Nanos::from_millis(millis),
        start_ns: None,
        run: 1,
        lanes: Lanes::Shared,
        fragment: false,
        kernel_stamps: false,
        cpu: None,
    }
}
