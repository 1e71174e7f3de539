//! A ping during an upload, with real packets: round trips of ICMP echo between two machines. The link is first idle,
//! then one of them uploads by the kernel's TCP. A gateway between them shares the upload direction; the other
//! direction passes.
//!
//! A round trip ends when this process has the answer. It includes the time of both kernels and of process scheduling,
//! as with ping(8).

use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use etherparse::{IcmpEchoHeader, Icmpv4Header, Icmpv4Type, SlicedPacket, TransportSlice};
use fairlink_core::Nanos;
use schemars::JsonSchema;
use serde::Serialize;

use crate::machine::Machine;
use crate::netns::{NamespaceError, PrivateNamespace};
use crate::tcp::{TcpClient, TcpConfig, TcpError, TcpSent, TcpServer};
use crate::threads::{SetAtEnd, join};
use crate::veth;
use fairlink_net::system as sys;
use fairlink_net::{Gateway, GatewayConfig, OpenError, RunError};

const LAPTOP: &str = "fl-laptop";
const SERVER: &str = "fl-server";
const LAPTOP_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 1);
const SERVER_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 2);
/// The server's TCP port.
const PORT: u16 = 5201;
/// Congestion controls for the upload, in order of preference. The second is in every kernel. The kernel's own default
/// may be one that keeps queues short, such as `bbr`, which would not be representative of most uploads.
const CONGESTION_CONTROLS: [&str; 2] = ["cubic", "reno"];
/// DSCP CS1: traffic that can wait.
const CAN_WAIT: u8 = 8;
/// Bytes of an echo behind its header, as with ping(8): a frame of 98 B.
const PAYLOAD: usize = 56;
/// Identifier of our echoes.
const ID: u16 = 0x666c;
/// Maximum time for the first answer.
const PATIENCE: Duration = Duration::from_secs(3);
/// Time to wait for answers after the last echo.
const LATEST: Duration = Duration::from_secs(1);
/// Maximum number of echoes in a run: their numbers have 16 bits.
const MAX_ECHOES: u128 = 1 << 16;

/// Times of echoes, and the intervals that count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PingPlan {
    /// Time between two echoes.
    pub interval: Duration,
    /// Length of the first part, with echoes only.
    pub idle: Duration,
    /// Time from the start of the upload to the first counted echo.
    pub settle: Duration,
    /// Length of the last part, with the upload.
    pub loaded: Duration,
}

impl Default for PingPlan {
    /// An echo every 20 ms; 2 s without the upload, 1 s excluded, and 5 s during the upload.
    fn default() -> Self {
        let interval = Duration::from_millis(20);
        Self { interval, idle: Duration::from_secs(2), settle: Duration::from_secs(1), loaded: Duration::from_secs(5) }
    }
}

impl PingPlan {
    /// Returns the time from the first echo to the last.
    #[must_use]
    pub fn duration(&self) -> Duration {
        self.idle + self.settle + self.loaded
    }
}

/// Round trips of one part of a run, in seconds. Quantiles are those of the answered echoes, by nearest rank; `None` if
/// no echo was answered.
#[derive(Clone, Copy, Debug, PartialEq, JsonSchema, Serialize)]
pub struct RoundTrips {
    /// Echoes that were sent.
    pub sent: u64,
    /// Echoes without an answer.
    pub lost: u64,
    /// Shortest.
    pub min_s: Option<f64>,
    /// Median.
    pub p50_s: Option<f64>,
    /// 99th percentile.
    pub p99_s: Option<f64>,
    /// Longest.
    pub max_s: Option<f64>,
}

impl RoundTrips {
    /// Summarises the echoes that were sent within `part`.
    fn from_echoes(echoes: &[Echo], part: std::ops::Range<Duration>) -> Self {
        let sent: Vec<&Echo> = echoes.iter().filter(|echo| part.contains(&echo.sent)).collect();
        let mut times: Vec<Duration> = sent.iter().filter_map(|echo| echo.took).collect();
        times.sort_unstable();
        let percent = |percent: usize| {
            let rank = (times.len() * percent).div_ceil(100).max(1);
            times.get(rank - 1).map(Duration::as_secs_f64)
        };
        Self {
            sent: sent.len() as u64,
            lost: (sent.len() - times.len()) as u64,
            min_s: percent(0),
            p50_s: percent(50),
            p99_s: percent(99),
            max_s: percent(100),
        }
    }
}

/// Results under one scheduler.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct PingRun {
    /// The scheduler.
    pub scheduler: String,
    /// Without the upload.
    pub idle: RoundTrips,
    /// Round trips during the upload.
    pub loaded: RoundTrips,
    /// Bytes of the upload that the server has acknowledged, in bit/s.
    pub upload_bps: f64,
    /// The upload's congestion control: `cubic`, or `reno` if this kernel does not offer `cubic`.
    pub congestion_control: String,
}

/// Reason why round trips could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum PingError {
    /// There is no namespace for a machine.
    #[error(transparent)]
    Namespace(#[from] NamespaceError),
    /// The cables could not be laid.
    #[error("virtual interfaces: {0}")]
    Cables(#[source] io::Error),
    /// The gateway could not start.
    #[error("gateway: {0}")]
    Open(#[from] OpenError),
    /// The gateway failed.
    #[error("gateway: {0}")]
    Gateway(#[from] RunError),
    /// The upload.
    #[error(transparent)]
    Tcp(#[from] TcpError),
    /// The echoes.
    #[error("ping: {what}: {source}")]
    System {
        /// The call.
        what: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The plan has more echoes than numbers for them.
    #[error("ping: {echoes} echoes in a run; the limit is {MAX_ECHOES}: use a longer interval")]
    TooMany {
        /// Number of echoes.
        echoes: u128,
    },
    /// No echo was answered at the start.
    #[error("ping: no answer through the gateway within {} s: the machine is too busy to measure on", PATIENCE.as_secs())]
    NoAnswer,
}

fn system(what: &'static str) -> impl Fn(io::Error) -> PingError {
    move |source| PingError::System { what, source }
}

/// Two machines, each at the end of a cable whose other end is in this process's namespace. Everything vanishes with
/// the process.
#[derive(Debug)]
pub struct PingStage {
    laptop: Machine,
    server: Machine,
}

impl PingStage {
    /// The interface of a gateway at the laptop's cable, and the one at the server's.
    pub const PORTS: [&str; 2] = ["fl-in", "fl-out"];

    /// Creates the cables.
    ///
    /// # Errors
    /// [`PingError::Namespace`], [`PingError::Cables`].
    pub fn new(namespace: &PrivateNamespace) -> Result<Self, PingError> {
        let [input, output] = Self::PORTS;
        let stage = Self { laptop: Machine::new(namespace)?, server: Machine::new(namespace)? };
        let ends = [(&stage.laptop, LAPTOP, LAPTOP_ADDRESS), (&stage.server, SERVER, SERVER_ADDRESS)];
        let laid = || {
            veth::lay_cables(&[(LAPTOP, input), (SERVER, output)])?;
            ends.iter().try_for_each(|(machine, name, address)| machine.take(name, *address))?;
            ends.iter().try_for_each(|(machine, name, _)| machine.wait_until_running(name))
        };
        laid().map_err(PingError::Cables)?;
        Ok(stage)
    }

    /// Pings through a gateway between [`PORTS`](Self::PORTS), by `plan`. Returns `None` if `stop` was set before the
    /// end, which takes effect within 0.2 s. A run takes the length of the plan and up to 4 s.
    ///
    /// # Errors
    /// [`PingError`].
    pub fn play(
        &mut self,
        config: GatewayConfig,
        plan: &PingPlan,
        stop: &AtomicBool,
    ) -> Result<Option<PingRun>, PingError> {
        let echoes = plan.duration().as_nanos() / plan.interval.as_nanos().max(1);
        if echoes >= MAX_ECHOES {
            return Err(PingError::TooMany { echoes });
        }
        let scheduler = config.scheduler.name.to_owned();
        let gateway = Gateway::open(config)?;
        let within = system("enter a namespace");
        let mut pinger = Pinger::new(self.laptop.within(echo_socket).map_err(&within)?.map_err(system("ICMP socket"))?);
        let server = self.server.within(|| TcpServer::open(PORT)).map_err(&within)??;
        let ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let forwarding = scope.spawn(|| gateway.run(&ended));
            let serving = scope.spawn(|| server.run(&ended, None, |_, _| ()));
            // The scope waits for both in any case.
            let _guard = SetAtEnd(&ended);
            let over = || stop.load(Ordering::Relaxed) || forwarding.is_finished();
            let measured = self.measure(&mut pinger, plan, stop, &over);
            ended.store(true, Ordering::Relaxed);
            join(forwarding)?;
            join(serving)?;
            let uploads = measured?;
            let Some(upload) = uploads.first().filter(|_| !stop.load(Ordering::Relaxed)) else { return Ok(None) };
            let idle = RoundTrips::from_echoes(&pinger.echoes, Duration::ZERO..plan.idle);
            let loaded = RoundTrips::from_echoes(&pinger.echoes, plan.idle + plan.settle..plan.duration());
            Ok(Some(PingRun {
                scheduler,
                idle,
                loaded,
                upload_bps: upload.goodput_bps,
                congestion_control: upload.congestion_control.clone(),
            }))
        })
    }

    /// Records the echoes of `pinger`; returns the connection of the upload, or none if the run was stopped before.
    fn measure(
        &self,
        pinger: &mut Pinger,
        plan: &PingPlan,
        stop: &AtomicBool,
        over: &(impl Fn() -> bool + Sync),
    ) -> Result<Vec<TcpSent>, PingError> {
        // Until both machines know each other's addresses.
        let until = Instant::now() + PATIENCE;
        let warm = |pinger: &Pinger| pinger.echoes.iter().any(|echo| echo.took.is_some());
        pinger.run(plan.interval, until, |pinger| over() || warm(pinger))?;
        if !warm(pinger) && !over() {
            return Err(PingError::NoAnswer);
        }
        pinger.begin_anew();
        let begin = pinger.begin;
        std::thread::scope(|scope| {
            let uploading = scope.spawn(|| {
                sleep_until(begin + plan.idle, over);
                if over() {
                    return Ok(Vec::new());
                }
                let client = match self.upload(plan, CONGESTION_CONTROLS[0]) {
                    Err(PingError::Tcp(TcpError::CongestionControl { .. })) => {
                        self.upload(plan, CONGESTION_CONTROLS[1])
                    }
                    client => client,
                };
                Ok::<_, PingError>(client?.run(stop, |_, _| ())?.connections)
            });
            let end = begin + plan.duration();
            let sent = pinger.run(plan.interval, end, |_| over());
            let upload = join(uploading);
            sent?;
            upload
        })
    }

    /// Opens a connection for the upload, with this congestion control.
    fn upload(&self, plan: &PingPlan, congestion_control: &str) -> Result<TcpClient, PingError> {
        let config = TcpConfig {
            to: SocketAddr::from((SERVER_ADDRESS, PORT)),
            connections: 1,
            congestion_control: Some(congestion_control.to_owned()),
            exchange: None,
            dscp: CAN_WAIT,
            duration: Nanos((plan.settle + plan.loaded).as_nanos() as u64),
        };
        Ok(self.laptop.within(|| TcpClient::open(config)).map_err(system("enter a namespace"))??)
    }
}

fn sleep_until(then: Instant, over: &impl Fn() -> bool) {
    while Instant::now() < then && !over() {
        std::thread::sleep(then.saturating_duration_since(Instant::now()).min(Duration::from_millis(20)));
    }
}

/// Opens a socket for ICMP to and from the server.
fn echo_socket() -> io::Result<UdpSocket> {
    // The standard library's operations on a UDP socket (connect, send, receive) do not depend on its protocol.
    let socket = UdpSocket::from(sys::socket(libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_ICMP)?);
    socket.connect((SERVER_ADDRESS, 0))?;
    Ok(socket)
}

/// An echo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Echo {
    /// Time of sending, from the start.
    sent: Duration,
    /// Time to the answer.
    took: Option<Duration>,
}

/// Sends echoes and receives their answers.
struct Pinger {
    socket: UdpSocket,
    begin: Instant,
    /// Number of the first echo.
    first: u16,
    echoes: Vec<Echo>,
}

impl Pinger {
    fn new(socket: UdpSocket) -> Self {
        Self { socket, begin: Instant::now(), first: 0, echoes: Vec::new() }
    }

    /// Forgets earlier echoes. Late answers to them do not count.
    fn begin_anew(&mut self) {
        self.first = self.next();
        self.begin = Instant::now();
        self.echoes.clear();
    }

    /// The number of the next echo.
    fn next(&self) -> u16 {
        self.first.wrapping_add(self.echoes.len() as u16)
    }

    /// Sends an echo every `interval` until `end`, then waits for missing answers, at most [`LATEST`]. Ends early if
    /// `enough` is set.
    fn run(&mut self, interval: Duration, end: Instant, enough: impl Fn(&Self) -> bool) -> Result<(), PingError> {
        let mut due = Instant::now();
        while Instant::now() < end && !enough(self) {
            let now = Instant::now();
            if now >= due {
                self.send()?;
                // Missed echoes are not made up for.
                due = (due + interval).max(now);
            }
            self.receive(due.saturating_duration_since(Instant::now()))?;
        }
        let until = Instant::now() + LATEST;
        while !enough(self) && self.echoes.iter().any(|echo| echo.took.is_none()) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            self.receive(left.min(interval))?;
        }
        Ok(())
    }

    fn send(&mut self) -> Result<(), PingError> {
        let payload = [0; PAYLOAD];
        let header = IcmpEchoHeader { id: ID, seq: self.next() };
        let header = Icmpv4Header::with_checksum(Icmpv4Type::EchoRequest(header), &payload);
        let mut message = header.to_bytes().to_vec();
        message.extend(payload);
        let sent = self.begin.elapsed();
        match self.socket.send(&message) {
            Ok(_) => {}
            // The server's address is unknown yet, or there is no room: the echo is lost.
            Err(error) if is_of_the_way(&error) => {}
            Err(source) => return Err(PingError::System { what: "send", source }),
        }
        self.echoes.push(Echo { sent, took: None });
        Ok(())
    }

    /// Receives answers within `wait`.
    fn receive(&mut self, wait: Duration) -> Result<(), PingError> {
        let wait = wait.max(Duration::from_millis(1));
        self.socket.set_read_timeout(Some(wait)).map_err(system("SO_RCVTIMEO"))?;
        let mut packet = [0; 256];
        match self.socket.recv(&mut packet) {
            Ok(length) => {
                let now = self.begin.elapsed();
                let number = answered(&packet[..length]);
                let place = number.map(|number| usize::from(number.wrapping_sub(self.first)));
                if let Some(echo) = place.and_then(|place| self.echoes.get_mut(place)) {
                    // A second answer is ignored.
                    echo.took.get_or_insert(now.saturating_sub(echo.sent));
                }
                Ok(())
            }
            Err(error) if is_of_the_way(&error) => Ok(()),
            Err(source) => Err(PingError::System { what: "receive", source }),
        }
    }
}

/// Returns true if an error concerns the path of a packet, and not the socket.
fn is_of_the_way(error: &io::Error) -> bool {
    use io::ErrorKind::{HostUnreachable, Interrupted, NetworkUnreachable, TimedOut, WouldBlock};
    matches!(error.kind(), WouldBlock | TimedOut | Interrupted | HostUnreachable | NetworkUnreachable)
        || error.raw_os_error() == Some(libc::ENOBUFS)
}

/// Returns the number of our echo that this IP packet answers.
fn answered(packet: &[u8]) -> Option<u16> {
    let TransportSlice::Icmpv4(message) = SlicedPacket::from_ip(packet).ok()?.transport? else { return None };
    match message.icmp_type() {
        Icmpv4Type::EchoReply(header) if header.id == ID => Some(header.seq),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips_are_those_of_their_part_and_lost_echoes_have_none() {
        let ms = Duration::from_millis;
        // 200 echoes, 20 ms apart; the nth of the second half takes n ms, and every tenth of all is lost.
        let echo = |n: u64| {
            let took = if n < 100 { ms(1) } else { ms(n - 99) };
            Echo { sent: ms(20 * n), took: (!n.is_multiple_of(10)).then_some(took) }
        };
        let echoes: Vec<Echo> = (0..200).map(echo).collect();
        let idle = RoundTrips::from_echoes(&echoes, ms(0)..ms(2000));
        assert_eq!((idle.sent, idle.lost, idle.min_s, idle.max_s), (100, 10, Some(0.001), Some(0.001)));
        let loaded = RoundTrips::from_echoes(&echoes, ms(2000)..ms(4000));
        // Those of 1, 11, .. 91 ms are lost; 90 remain, of which the 45th has 50 ms and the 90th, 100 ms.
        let expected = RoundTrips {
            sent: 100,
            lost: 10,
            min_s: Some(0.002),
            p50_s: Some(0.050),
            p99_s: Some(0.100),
            max_s: Some(0.100),
        };
        assert_eq!(loaded, expected);
        let none = RoundTrips::from_echoes(&echoes, ms(9000)..ms(9999));
        assert_eq!((none.sent, none.min_s, none.p99_s), (0, None, None));
    }

    #[test]
    fn only_answers_to_our_own_echoes_are_taken() {
        let packet = |kind| {
            let message = Icmpv4Header::with_checksum(kind, &[]).to_bytes();
            let mut bytes = vec![0x45, 0, 0, 28, 0, 0, 0, 0, 64, 1, 0, 0, 10, 9, 0, 2, 10, 9, 0, 1];
            bytes.extend(&message);
            bytes
        };
        let header = |id| IcmpEchoHeader { id, seq: 7 };
        assert_eq!(answered(&packet(Icmpv4Type::EchoReply(header(ID)))), Some(7));
        assert_eq!(answered(&packet(Icmpv4Type::EchoReply(header(ID + 1)))), None);
        assert_eq!(answered(&packet(Icmpv4Type::EchoRequest(header(ID)))), None);
        assert_eq!(answered(&[0x45, 0]), None);
    }
}
