//! Experiment 4 of \[hls\] as in the text: TCP connections of the kernel, one for each leaf, alternately send a byte in
//! each direction through the gateway. The classes form a perfect binary tree or a flat one. `scripts/transactions`
//! runs it.
//!
//! It counts transactions: a byte to the server and a byte back. The link has 10 Gbit/s, so that only the processing
//! limits. Weights are one; under `htb` and `cbq-top-level` guarantees are divided evenly, as in the text. FIFO has one
//! class. `bridge` is the kernel's own path, without a gateway.
//!
//! Arguments: numbers of leaves, powers of two up to 1024 [2 8 32 128 512]; `--seconds N` of each run [2]; `--profile`
//! prints the time of each stage of the gateway.

#[path = "../tests/packets/support/machines.rs"]
mod machines;

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fairlink_config::matching::{Match, PortRange, TCP};
use fairlink_core::{ClassConfig, ClassId, Hierarchy, LinkConfig, QueueLimits, Rate, Share, registry};
use fairlink_net::{Gateway, GatewayConfig, GatewayStats, Processor};
use fairlink_testbed::{enter_private_namespace, lay_cables};

use crate::machines::{default_offloads, ip, with_middle};

/// Environment variable with the run of a process; absent in the first process, which starts one for each run.
const VARIABLE: &str = "FAIRLINK_TRANSACTIONS_RUN";
/// The port of the first leaf's server.
const FIRST_PORT: u16 = 10_000;
const MOST_LEAVES: u16 = 1024;
/// The text's link.
const LINK_BPS: u64 = 10_000_000_000;
const BRIDGE: &str = "bridge";
/// Schedulers.
const SHARERS: [&str; 5] = [BRIDGE, "fifo", "hls", "htb", "cbq-top-level"];
/// Maximum time for setting up the connections, and duration of the first transactions that are not counted.
const READY: Duration = Duration::from_secs(10);
const WARM_UP: Duration = Duration::from_millis(300);

/// A perfect binary tree, or all leaves below the root.
fn tree(scheduler: &str, leaves: u16, binary: bool) -> Result<Hierarchy, String> {
    let rate = |bps| Rate::from_bps(bps).map_err(|error| error.to_string());
    let mut tree = Hierarchy::builder(LinkConfig { max_packet: 1522, ..LinkConfig::new(rate(LINK_BPS)?) });
    if scheduler == "fifo" {
        tree.add(ClassId::ROOT, ClassConfig::default()).map_err(|error| error.to_string())?;
        return tree.build().map_err(|error| error.to_string());
    }
    let levels = if binary { leaves.ilog2() } else { 1 };
    let mut parents = vec![ClassId::ROOT];
    for level in 1..=levels {
        let children = if binary { 2 } else { u64::from(leaves) };
        let part = LINK_BPS / if binary { 1 << level } else { children };
        let share = if scheduler == "hls" { Share::Weight(1) } else { Share::Guarantee(rate(part)?) };
        let limits = QueueLimits { packets: 32, ..QueueLimits::default() };
        let config = ClassConfig { share: Some(share), limits, ..ClassConfig::default() };
        let add = |&parent: &ClassId| (0..children).map(move |_| parent).collect::<Vec<_>>();
        let below: Vec<ClassId> = parents.iter().flat_map(add).collect();
        parents = below
            .into_iter()
            .map(|parent| tree.add(parent, config).map_err(|error| error.to_string()))
            .collect::<Result<_, _>>()?;
    }
    tree.build().map_err(|error| error.to_string())
}

fn config(scheduler: &str, leaves: u16, binary: bool, profile: bool) -> Result<GatewayConfig, String> {
    let tree = tree(scheduler, leaves, binary)?;
    let info = registry::find(scheduler).ok_or_else(|| format!("there is no scheduler {scheduler}"))?;
    let ports = |place: u16| {
        let port = FIRST_PORT + place;
        Match { proto: Some(TCP), dport: Some(PortRange { first: port, last: port }), ..Match::ANY }
    };
    let matches = (0..).zip(tree.leaves()).map(|(place, &leaf)| (leaf, ports(place))).collect();
    let default = tree.leaves()[0];
    Ok(GatewayConfig {
        matches,
        profile,
        processor: Processor::Any,
        ..GatewayConfig::new("in", "out", info, tree, default)
    })
}

/// A set of connections polled for readability.
struct Watched {
    epoll: OwnedFd,
    events: Vec<libc::epoll_event>,
}

impl Watched {
    fn new(most: usize) -> io::Result<Self> {
        // SAFETY: no memory is handed over.
        let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new and has no other owner.
        let epoll = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Self { epoll, events: vec![libc::epoll_event { events: 0, u64: 0 }; most] })
    }

    fn add(&self, of: &impl AsRawFd, number: usize) -> io::Result<()> {
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: number as u64 };
        // SAFETY: `event` is valid during the call, and both descriptors are open.
        let result =
            unsafe { libc::epoll_ctl(self.epoll.as_raw_fd(), libc::EPOLL_CTL_ADD, of.as_raw_fd(), &raw mut event) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Returns the indices of readable connections, after at most 50 ms.
    fn ready(&mut self) -> io::Result<impl Iterator<Item = usize>> {
        let most = self.events.len() as i32;
        // SAFETY: `events` has room for that many.
        let count = unsafe { libc::epoll_wait(self.epoll.as_raw_fd(), self.events.as_mut_ptr(), most, 50) };
        if count < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(self.events[..count as usize].iter().map(|event| event.u64 as usize))
    }
}

/// Echoes each byte that arrives at the port of any leaf, until `done`.
fn serve(leaves: u16, done: &AtomicBool) -> io::Result<()> {
    let mut watched = Watched::new(usize::from(leaves))?;
    let mut listeners = Vec::new();
    for leaf in 0..leaves {
        let listener = TcpListener::bind(("0.0.0.0", FIRST_PORT + leaf))?;
        listener.set_nonblocking(true)?;
        watched.add(&listener, usize::from(leaf))?;
        listeners.push(listener);
    }
    let mut streams: BTreeMap<usize, TcpStream> = BTreeMap::new();
    let mut byte = [0];
    while !done.load(Ordering::Relaxed) {
        let ready: Vec<usize> = watched.ready()?.collect();
        for number in ready {
            if let Some(stream) = streams.get_mut(&number) {
                match stream.read(&mut byte) {
                    Ok(1) => stream.write_all(&byte)?,
                    _ => drop(streams.remove(&number)),
                }
            } else if let Some(listener) = listeners.get(number) {
                let (stream, _) = listener.accept()?;
                stream.set_nodelay(true)?;
                let number = listeners.len() + number;
                watched.add(&stream, number)?;
                streams.insert(number, stream);
            }
        }
    }
    Ok(())
}

/// Measures transactions per second of one connection for each leaf.
fn ask(leaves: u16, seconds: u64) -> io::Result<f64> {
    let begun = Instant::now();
    let mut watched = Watched::new(usize::from(leaves))?;
    let mut streams = Vec::new();
    for leaf in 0..leaves {
        let to = SocketAddr::from(([10, 9, 0, 2], FIRST_PORT + leaf));
        let stream = loop {
            match TcpStream::connect_timeout(&to, READY) {
                Ok(stream) => break stream,
                Err(error) if begun.elapsed() > READY => return Err(error),
                Err(_) => std::thread::sleep(Duration::from_millis(20)),
            }
        };
        stream.set_nodelay(true)?;
        watched.add(&stream, usize::from(leaf))?;
        streams.push(stream);
    }
    for stream in &mut streams {
        stream.write_all(&[1])?;
    }
    let mut byte = [0];
    let (start, mut counted_from, mut count) = (Instant::now(), None, 0u64);
    let end = WARM_UP + Duration::from_secs(seconds);
    loop {
        let ready: Vec<usize> = watched.ready()?.collect();
        for number in ready {
            streams[number].read_exact(&mut byte)?;
            streams[number].write_all(&byte)?;
            count += 1;
        }
        let now = start.elapsed();
        if now >= WARM_UP && counted_from.is_none() {
            (counted_from, count) = (Some(now), 0);
        }
        if let Some(from) = counted_from.filter(|_| now >= end) {
            return Ok(count as f64 / (now - from).as_secs_f64());
        }
    }
}

fn bridge() -> Result<(), String> {
    ip("link add bridge type bridge stp_state 0 mcast_snooping 0")?;
    ["in", "out"].into_iter().try_for_each(|port| ip(&format!("link set {port} master bridge")))?;
    ip("link set bridge up")
}

/// One run, in this process.
fn play(sharer: &str, leaves: u16, binary: bool, seconds: u64, profile: bool) -> Result<(), String> {
    enter_private_namespace().map_err(|error| error.to_string())?;
    lay_cables(&[("gen", "in"), ("out", "sink")]).map_err(|error| error.to_string())?;
    default_offloads(&["gen", "in", "out", "sink"]);
    let gateway = match sharer {
        BRIDGE => {
            bridge()?;
            None
        }
        scheduler => {
            let config = config(scheduler, leaves, binary, profile)?;
            Some(Gateway::open(config).map_err(|error| error.to_string())?)
        }
    };
    let middle = |stop: &AtomicBool| -> Option<GatewayStats> {
        if let Some(gateway) = gateway {
            return Some(gateway.run(stop).unwrap_or_else(|error| panic!("{error}")));
        }
        while !stop.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(10));
        }
        None
    };
    let done = AtomicBool::new(false);
    let (asked, served, stats) = with_middle(
        middle,
        || {
            let asked = ask(leaves, seconds);
            done.store(true, Ordering::Relaxed);
            asked
        },
        || serve(leaves, &done),
    )?;
    served.map_err(|error| format!("server: {error}"))?;
    let per_second = asked.map_err(|error| format!("client: {error}"))?;
    println!("{per_second:.0}");
    let stats = stats.filter(|stats| !stats.gateway().balanced || profile);
    if let Some(stats) = stats {
        if !stats.gateway().balanced {
            return Err(format!("the counters are inconsistent: {stats:?}"));
        }
        let profile = stats.gateway().profile.unwrap_or_default();
        for (stage, ns, packets) in profile.stages() {
            let each = packets.map_or(String::new(), |packets| format!("{} ns a packet", ns / packets.max(1)));
            println!("  {stage:<16}{:>7.1} ms  {each}", ns as f64 / 1e6);
        }
    }
    Ok(())
}

/// Starts a process for each run, one after the other.
fn all(leaves: &[u16], seconds: u64, profile: bool) -> Result<(), String> {
    println!("Transactions per second, a connection for each leaf\n");
    print!("{:<14}{:>7}", "tree", "leaves");
    SHARERS.iter().for_each(|sharer| print!("{sharer:>15}"));
    println!();
    for (shape, binary) in [("binary", true), ("flat", false)] {
        for leaves in leaves {
            print!("{shape:<14}{leaves:>7}");
            let mut stages = String::new();
            for sharer in SHARERS {
                let run = format!("{sharer};{leaves};{binary};{seconds};{profile}");
                let program = std::env::current_exe().map_err(|error| error.to_string())?;
                let output = Command::new(program).env(VARIABLE, run).output().map_err(|error| error.to_string())?;
                let said = String::from_utf8_lossy(&output.stdout).into_owned();
                let (first, rest) = said.split_once('\n').unwrap_or((&said, ""));
                if output.status.success() {
                    print!("{first:>15}");
                    if !rest.is_empty() {
                        stages += &format!("{sharer}:\n{rest}");
                    }
                } else {
                    print!("{:>15}", "-");
                    stages += &format!("{sharer} SKIPPED: {}\n", String::from_utf8_lossy(&output.stderr).trim());
                }
            }
            println!("\n{stages}");
        }
    }
    Ok(())
}

fn run() -> Result<(), String> {
    if let Ok(run) = std::env::var(VARIABLE) {
        let words: Vec<&str> = run.split(';').collect();
        let [sharer, leaves, binary, seconds, profile] = words[..] else { return Err(format!("no run: {run}")) };
        let leaves = leaves.parse().map_err(|error| format!("{leaves}: {error}"))?;
        let seconds = seconds.parse().map_err(|error| format!("{seconds}: {error}"))?;
        return play(sharer, leaves, binary == "true", seconds, profile == "true");
    }
    let (mut leaves, mut seconds, mut profile) = (Vec::new(), 2, false);
    let mut arguments = std::env::args().skip(1);
    while let Some(word) = arguments.next() {
        match word.as_str() {
            "--profile" => profile = true,
            "--seconds" => {
                let text = arguments.next().unwrap_or_default();
                seconds = text
                    .parse()
                    .ok()
                    .filter(|&seconds| seconds > 0)
                    .ok_or("--seconds: must be a number, at least 1")?;
            }
            number => {
                let count: Option<u16> = number.parse().ok();
                let fits = |count: &u16| count.is_power_of_two() && (2..=MOST_LEAVES).contains(count);
                leaves.push(count.filter(fits).ok_or(format!("{number}: a power of two from 2 to {MOST_LEAVES}"))?);
            }
        }
    }
    if leaves.is_empty() {
        leaves = vec![2, 8, 32, 128, 512];
    }
    all(&leaves, seconds, profile)
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
