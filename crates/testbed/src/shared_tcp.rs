//! The kernel's TCP between two machines, in three classes guaranteed 60, 30 and 10 % of a link, through a gateway or
//! through a bridge of the kernel with or without its HTB. Meanwhile small packets of the last class are echoed.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fairlink_config::matching::{Match, PortRange, TCP};
use fairlink_core::{
    ClassConfig, ClassId, Hierarchy, HierarchyError, LinkConfig, Nanos, QueueKind, QueueLimits, Rate, SchedulerInfo,
    Share,
};
use fairlink_net::{Gateway, GatewayConfig, GatewayStats, OpenError, Processor, RunError, raise_priority};

use crate::bridge::Bridge;
use crate::kernel_htb::{KernelCount, KernelHtb, TcError};
use crate::machine::Machine;
use crate::netns::{NamespaceError, PrivateNamespace};
use crate::tcp::{TcpClient, TcpConfig, TcpError, TcpServer};
use crate::threads::{SetAtEnd, join};
use crate::veth;
use fairlink_net::system::wait_until_running;

/// Percent of the link that each class is guaranteed.
pub const SHARED_PERCENT: [u64; 3] = [60, 30, 10];
/// Fraction of user data in a full frame: 1448 of 1514 B, with TCP's timestamps.
pub const USER_DATA: f64 = 1448.0 / 1514.0;
/// Packets that a leaf may hold, as in the kernel's HTB.
const LIMIT: u32 = 1000;
/// The TCP port of each class.
const PORTS: [u16; 3] = [5201, 5202, 5203];
/// The UDP port of small packets, which belong to the last class.
const ECHO: u16 = 7;
/// Time between two echoes.
const ECHO_INTERVAL: Duration = Duration::from_millis(5);
/// Time to wait for an echo.
const PATIENCE: Duration = Duration::from_millis(200);
const SENDER: &str = "tcp-gen";
const RECEIVER: &str = "tcp-sink";
const BRIDGE: &str = "tcp-bridge";
const SENDER_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 1);
const RECEIVER_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 2);

/// Reason why shared TCP could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum SharedTcpError {
    /// There is no namespace for a machine.
    #[error(transparent)]
    Namespace(#[from] NamespaceError),
    /// The cables could not be laid.
    #[error("virtual cables: {0}")]
    Cables(#[source] io::Error),
    /// The kernel has no bridge.
    #[error("a bridge of the kernel: {0}")]
    Bridge(#[source] io::Error),
    /// The kernel's HTB could not be set up or read.
    #[error("the kernel's HTB: {0}")]
    Htb(#[from] TcError),
    /// The class tree.
    #[error(transparent)]
    Hierarchy(#[from] HierarchyError),
    /// The gateway could not start.
    #[error("gateway: {0}")]
    Open(#[from] OpenError),
    /// The gateway failed.
    #[error("gateway: {0}")]
    Run(#[from] RunError),
    /// The connections.
    #[error(transparent)]
    Tcp(#[from] TcpError),
    /// A system call failed.
    #[error("{what}: {source}")]
    System {
        /// The call.
        what: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
}

fn system(what: &'static str) -> impl Fn(io::Error) -> SharedTcpError {
    move |source| SharedTcpError::System { what, source }
}

/// Results of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct SharedTcp {
    /// Goodput of each class: acknowledged user data, in bit/s.
    pub goodput_bps: [f64; 3],
    /// Round-trip times of the small packets, in order.
    pub echoes: Vec<Duration>,
    /// Small packets that were not answered.
    pub unanswered: u64,
}

impl SharedTcp {
    /// Percentile `percent` of the round-trip times of small packets; `None` if none was answered.
    #[must_use]
    pub fn echo(&self, percent: usize) -> Option<Duration> {
        let place = (self.echoes.len() * percent / 100).min(self.echoes.len().saturating_sub(1));
        self.echoes.get(place).copied()
    }
}

/// Returns the link of `bps` with the three classes and leaves of this kind.
///
/// # Errors
/// The link's rate is out of range.
pub fn shared_link(bps: u64, queue: QueueKind) -> Result<Hierarchy, HierarchyError> {
    let rate = |bps: u64| Rate::from_bps(bps).unwrap_or(Rate::MIN);
    let mut tree = Hierarchy::builder(LinkConfig { max_packet: 1522, ..LinkConfig::new(rate(bps)) });
    for percent in SHARED_PERCENT {
        let share = Some(Share::Guarantee(rate(bps / 100 * percent)));
        let limits = QueueLimits { packets: LIMIT, ..QueueLimits::default() };
        tree.add(ClassId::ROOT, ClassConfig { share, queue, limits, ..ClassConfig::default() })?;
    }
    tree.build()
}

/// Returns the configuration of a gateway between `ports` that shares `link`, made by [`shared_link`].
#[must_use]
pub fn shared_config(ports: [&str; 2], link: Hierarchy, scheduler: &'static SchedulerInfo) -> GatewayConfig {
    let matches = PORTS[..2].iter().zip(link.leaves()).map(|(&port, &class)| {
        let dport = Some(PortRange { first: port, last: port });
        (class, Match { proto: Some(TCP), dport, ..Match::ANY })
    });
    let matches = matches.collect();
    let default = link.leaves().last().copied().unwrap_or(ClassId::ROOT);
    let mut config = GatewayConfig::new(ports[0], ports[1], scheduler, link, default);
    config.names = ["link", "60", "30", "10"].map(str::to_owned).to_vec();
    config.matches = matches;
    config.processor = Processor::Any;
    config
}

/// Two machines, each at the end of a cable whose other end is in this process's namespace. The cables have the default
/// offloads: segmentation and checksums are left to others. Everything vanishes with the process.
#[derive(Debug)]
pub struct SharedTcpStage {
    sender: Machine,
    receiver: Machine,
}

impl SharedTcpStage {
    /// The interface of a gateway at the sender's cable, and the one at the receiver's.
    pub const PORTS: [&str; 2] = ["tcp-in", "tcp-out"];

    /// Creates the machines and cables.
    ///
    /// # Errors
    /// [`SharedTcpError::Namespace`], [`SharedTcpError::Cables`].
    pub fn new(namespace: &PrivateNamespace) -> Result<Self, SharedTcpError> {
        let [input, output] = Self::PORTS;
        let stage = Self { sender: Machine::new(namespace)?, receiver: Machine::new(namespace)? };
        let ends = [(&stage.sender, SENDER, SENDER_ADDRESS), (&stage.receiver, RECEIVER, RECEIVER_ADDRESS)];
        let laid = || {
            veth::lay_cables(&[(SENDER, input), (output, RECEIVER)])?;
            veth::default_offloads(&[SENDER, input, output, RECEIVER])?;
            for (machine, name, address) in ends {
                machine.take(name, address)?;
                // What one run has learned of the path does not change the next.
                let forget = || std::fs::write("/proc/sys/net/ipv4/tcp_no_metrics_save", "1");
                let _ = machine.within(forget)?;
            }
            ends.iter().try_for_each(|(machine, name, _)| machine.wait_until_running(name))?;
            [input, output].into_iter().try_for_each(wait_until_running)
        };
        laid().map_err(SharedTcpError::Cables)?;
        Ok(stage)
    }

    /// Sends for `span` through a gateway between [`PORTS`](Self::PORTS), with `connections` in each class. Ends early
    /// within 0.2 s after `stop` is set.
    ///
    /// # Errors
    /// [`SharedTcpError`].
    pub fn over_gateway(
        &self,
        config: GatewayConfig,
        connections: u32,
        span: Duration,
        stop: &AtomicBool,
    ) -> Result<(SharedTcp, GatewayStats), SharedTcpError> {
        let gateway = Gateway::open(config)?;
        let ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let forwarding = scope.spawn(|| run_as_the_command_does(gateway, &ended));
            let shared = {
                let _guard = SetAtEnd(&ended);
                self.send(connections, span, stop)
            };
            let stats = join(forwarding)?;
            Ok((shared?, stats))
        })
    }

    /// As [`over_gateway`](Self::over_gateway), through a bridge of the kernel. With a `link`, made by [`shared_link`], the
    /// kernel's HTB shares it. Returns HTB's counters of each class, too.
    ///
    /// # Errors
    /// [`SharedTcpError`].
    pub fn over_bridge(
        &self,
        link: Option<&Hierarchy>,
        connections: u32,
        span: Duration,
        stop: &AtomicBool,
    ) -> Result<(SharedTcp, Vec<KernelCount>), SharedTcpError> {
        let _bridge = Bridge::create(BRIDGE, Self::PORTS).map_err(SharedTcpError::Bridge)?;
        let htb = |link: &Hierarchy| {
            let ports: Vec<_> = link.leaves().iter().copied().zip(PORTS).collect();
            KernelHtb::install_by_port(Self::PORTS[1], link, &ports)
        };
        let htb = link.map(htb).transpose()?;
        let shared = self.send(connections, span, stop)?;
        let counts = htb.map(|htb| htb.counters()).transpose()?;
        Ok((shared, counts.unwrap_or_default()))
    }

    /// Sends while something passes frames between the ports.
    fn send(&self, connections: u32, span: Duration, stop: &AtomicBool) -> Result<SharedTcp, SharedTcpError> {
        let within = system("enter a namespace");
        let servers = self.receiver.within(|| {
            let echo = echo_socket(SocketAddr::from(([0, 0, 0, 0], ECHO)), Duration::from_millis(20))?;
            Ok::<_, SharedTcpError>((PORTS.map(TcpServer::open), echo))
        });
        let (servers, answering) = servers.map_err(&within)??;
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let _guard = SetAtEnd(&done);
            for server in servers {
                let (server, done) = (server?, &done);
                scope.spawn(move || server.run(done, None, |_, _| ()));
            }
            scope.spawn(|| answer(&answering, &done));
            let clients = self.sender.within(|| {
                let echo = echo_socket(SocketAddr::from(([0, 0, 0, 0], 0)), PATIENCE)?;
                echo.connect(SocketAddr::from((RECEIVER_ADDRESS, ECHO))).map_err(system("connect"))?;
                let clients = PORTS.map(|port| TcpClient::open(client(port, connections, span)));
                Ok::<_, SharedTcpError>((clients.into_iter().collect::<Result<Vec<_>, _>>()?, echo))
            });
            let (clients, asking) = clients.map_err(&within)??;
            let over = AtomicBool::new(false);
            std::thread::scope(|scope| {
                let _guard = SetAtEnd(&over);
                let echoing = scope.spawn(|| echoes(&asking, &over));
                let run = |client: TcpClient| scope.spawn(move || client.run(stop, |_, _| ()));
                let sending: Vec<_> = clients.into_iter().map(run).collect();
                let mut goodput_bps = [0.0; 3];
                for (goodput, sending) in goodput_bps.iter_mut().zip(sending) {
                    *goodput = join(sending)?.goodput_bps;
                }
                over.store(true, Ordering::Relaxed);
                let (mut echoes, unanswered) = join(echoing);
                echoes.sort_unstable();
                Ok(SharedTcp { goodput_bps, echoes, unanswered })
            })
        })
    }
}

/// Runs `gateway` on this thread at the priority that `fairlink gateway` gives its threads, if the user may have it.
pub(crate) fn run_as_the_command_does(gateway: Gateway, stop: &AtomicBool) -> Result<GatewayStats, RunError> {
    let _ = raise_priority();
    gateway.run(stop)
}

fn client(port: u16, connections: u32, span: Duration) -> TcpConfig {
    TcpConfig {
        to: SocketAddr::from((RECEIVER_ADDRESS, port)),
        connections,
        congestion_control: None,
        exchange: None,
        dscp: 0,
        duration: Nanos(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)),
    }
}

fn echo_socket(address: SocketAddr, wait: Duration) -> Result<UdpSocket, SharedTcpError> {
    let socket = UdpSocket::bind(address).map_err(system("bind"))?;
    socket.set_read_timeout(Some(wait)).map_err(system("SO_RCVTIMEO"))?;
    Ok(socket)
}

/// Sends a request every 5 ms and waits for the answer. Returns the round-trip times, and the number of lost answers.
fn echoes(socket: &UdpSocket, over: &AtomicBool) -> (Vec<Duration>, u64) {
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
        std::thread::sleep(ECHO_INTERVAL);
    }
    (times, unanswered)
}

/// Echoes packets until `done`.
fn answer(socket: &UdpSocket, done: &AtomicBool) {
    let mut bytes = [0; 64];
    while !done.load(Ordering::Relaxed) {
        if let Ok((_, from)) = socket.recv_from(&mut bytes) {
            let _ = socket.send_to(&bytes, from);
        }
    }
}
