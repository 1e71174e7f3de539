//! TCP in three classes guaranteed 60, 30 and 10 % of a link, and round trips of small packets between the two machines
//! meanwhile.

use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fairlink_core::{ClassConfig, ClassId, Hierarchy, LinkConfig, QueueKind, QueueLimits, Rate, Share, registry};
use fairlink_net::{GatewayConfig, Pacing, Processor};
use fairlink_testbed::TcpServer;

use crate::cables::{parse, rate};
use crate::machines::{client, open, with_middle};

/// Percent of the link that each class is guaranteed.
pub(crate) const PERCENT: [u64; 3] = [60, 30, 10];
/// The TCP port of each class.
pub(crate) const PORTS: [u16; 3] = [5201, 5202, 5203];
/// The UDP port of small packets, which belong to the last class.
const ECHO: u16 = 7;
/// Fraction of user data in a full frame: 1448 of 1514 B, with TCP's timestamps.
pub(crate) const USERS_PART: f64 = 1448.0 / 1514.0;

/// Packets that a leaf may hold.
pub(crate) const LIMIT: u32 = 1000;

/// A gateway of `bps` that shares by `scheduler`, with leaves of this kind.
pub(crate) fn config(bps: u64, scheduler: &str, queue: QueueKind) -> GatewayConfig {
    let link = LinkConfig { max_packet: 1522, ..LinkConfig::new(rate(bps)) };
    let mut tree = Hierarchy::builder(link);
    for percent in PERCENT {
        let share = Some(Share::Guarantee(Rate::from_bps(bps / 100 * percent).unwrap()));
        let limits = QueueLimits { packets: LIMIT, ..QueueLimits::default() };
        tree.add(ClassId::ROOT, ClassConfig { share, queue, limits, ..ClassConfig::default() }).unwrap();
    }
    let scheduler = registry::find(scheduler).unwrap();
    let mut config = GatewayConfig::new("in", "out", scheduler, tree.build().unwrap(), ClassId(3));
    config.names = ["link", "60", "30", "10"].map(str::to_owned).to_vec();
    config.matches =
        (1..).zip(&PORTS[..2]).map(|(class, port)| (ClassId(class), parse(&format!("tcp dst port {port}")))).collect();
    config.processor = Processor::Any;
    config.backend = crate::cables::backend();
    config.pacing = Pacing::Precise;
    config
}

/// Results.
#[derive(Debug)]
pub(crate) struct Shared {
    /// Goodput: acknowledged user data, in bit/s.
    pub(crate) goodput: [f64; 3],
    /// Round-trip times of small packets, in order.
    pub(crate) echoes: Vec<Duration>,
    /// Small packets that were not answered.
    pub(crate) unanswered: u64,
}

impl Shared {
    /// Percentile `percent` of the round-trip times of small packets, in ms.
    pub(crate) fn echo_ms(&self, percent: usize) -> f64 {
        let place = (self.echoes.len() * percent / 100).min(self.echoes.len().saturating_sub(1));
        self.echoes.get(place).map_or(f64::NAN, |time| time.as_secs_f64() * 1e3)
    }
}

/// Runs `connections` in each class for `millis`, through `middle`.
pub(crate) fn share<M: Send>(
    middle: impl FnOnce(&AtomicBool) -> M + Send,
    connections: u32,
    millis: u64,
) -> Result<(Shared, M), String> {
    let done = AtomicBool::new(false);
    let clients = PORTS.map(|port| client(port, connections, None, millis));
    let (shared, (), between) = with_middle(
        middle,
        || {
            let open: Vec<_> = clients.iter().map(|config| open(config).unwrap()).collect();
            let (never, over) = (AtomicBool::new(false), AtomicBool::new(false));
            let shared = std::thread::scope(|scope| {
                let echo = scope.spawn(|| echoes(&over));
                let run = |client: fairlink_testbed::TcpClient| {
                    let never = &never;
                    scope.spawn(move || client.run(never, |_, _| ()).unwrap().goodput_bps)
                };
                let threads: Vec<_> = open.into_iter().map(run).collect();
                let rates: Vec<f64> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
                over.store(true, Ordering::Relaxed);
                let (mut echoes, unanswered) = echo.join().unwrap();
                echoes.sort_unstable();
                Shared { goodput: [rates[0], rates[1], rates[2]], echoes, unanswered }
            });
            std::thread::sleep(Duration::from_millis(200));
            done.store(true, Ordering::Relaxed);
            shared
        },
        || {
            std::thread::scope(|scope| {
                let serve = |port| {
                    let (server, done) = (TcpServer::open(port).unwrap(), &done);
                    scope.spawn(move || server.run(done, Some(Duration::from_secs(120)), |_, _| ()).unwrap())
                };
                let threads: Vec<_> = PORTS.into_iter().map(serve).collect();
                answer(&done);
                threads.into_iter().for_each(|thread| drop(thread.join().unwrap()));
            });
        },
    )?;
    Ok((shared, between))
}

/// Sends a request every 5 ms and waits for the answer; returns the round-trip times, and the number of lost answers.
fn echoes(over: &AtomicBool) -> (Vec<Duration>, u64) {
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    socket.connect(SocketAddr::from(([10, 9, 0, 2], ECHO))).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    let (mut times, mut unanswered) = (Vec::new(), 0);
    let mut bytes = [0; 64];
    for number in 0u64.. {
        if over.load(Ordering::Relaxed) {
            break;
        }
        let begin = Instant::now();
        bytes[..8].copy_from_slice(&number.to_be_bytes());
        // An error is that of an earlier packet, which was not received.
        let _ = socket.send(&bytes);
        let mut answer = [0; 64];
        loop {
            match socket.recv(&mut answer) {
                Ok(_) if answer == bytes => times.push(begin.elapsed()),
                Ok(_) => continue,
                Err(_) => unanswered += 1,
            }
            break;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    (times, unanswered)
}

/// Echoes packets until `done`.
fn answer(done: &AtomicBool) {
    let socket = UdpSocket::bind(("0.0.0.0", ECHO)).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    let mut bytes = [0; 64];
    while !done.load(Ordering::Relaxed) {
        if let Ok((_, from)) = socket.recv_from(&mut bytes) {
            let _ = socket.send_to(&bytes, from);
        }
    }
}
