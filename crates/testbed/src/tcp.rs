//! TCP traffic of this machine's kernel: connections that send as much as they can, or that send requests and wait for
//! answers, and the server for both.
//!
//! A connection starts with [`HELLO`] bytes that describe it. The following bytes have no meaning. Every number from
//! the other side is checked, and each side checks its stop flag every [`WAIT`].

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fairlink_core::Nanos;
use fairlink_report::{Content, Delay};
use schemars::JsonSchema;
use serde::Serialize;

use crate::departures::Times;
use fairlink_net::system as sys;

/// Most connections of one client.
const MAX_CONNECTIONS: u32 = 64;
/// Maximum number of connections that a server serves at once, and that it reports.
const MAX_SERVED: usize = 256;
const MAX_REPORTED: usize = 4096;
/// Longest request and response, in bytes.
const MAX_EXCHANGE: u32 = 64 << 20;
/// Bytes at the start of a connection: magic, length of requests and of responses; both 0 if only one side sends.
const HELLO: usize = 12;
const MAGIC: [u8; 4] = *b"FLT1";
/// Longest wait before the stop flag is checked again.
const WAIT: Duration = Duration::from_millis(20);
/// Maximum time for the other side to answer the first packet, and to send its hello.
const PATIENCE: Duration = Duration::from_secs(5);
/// Interval between samples of the kernel's round-trip time.
const SAMPLE: Duration = Duration::from_millis(10);
/// Bytes written or read at once.
const CHUNK: usize = 64 << 10;

/// Requests and responses, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpExchange {
    /// Bytes of a request, 1 to 64 MiB.
    pub request: u32,
    /// Bytes of a response, 1 to 64 MiB.
    pub response: u32,
    /// Time between a response and the next request.
    pub think: Nanos,
}

/// Configuration of a client.
#[derive(Clone, Debug)]
pub struct TcpConfig {
    /// Address of the server.
    pub to: SocketAddr,
    /// Connections, 1 to 64.
    pub connections: u32,
    /// The kernel's congestion control, such as `cubic` or `reno`; the kernel's default when absent.
    pub congestion_control: Option<String>,
    /// Requests and responses; when absent, each connection sends as much as it can.
    pub exchange: Option<TcpExchange>,
    /// DSCP of sent packets, 0 to 63.
    pub dscp: u8,
    /// Duration.
    pub duration: Nanos,
}

/// Error of TCP traffic.
#[derive(Debug, thiserror::Error)]
pub enum TcpError {
    /// The server cannot be reached.
    #[error("no connection to {to}: {source}; start `fairlink receive --tcp {}` there", to.port())]
    Connect {
        /// Its address.
        to: SocketAddr,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The port cannot be listened at.
    #[error("cannot listen at TCP port {port}: {source}")]
    Listen {
        /// The port.
        port: u16,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The kernel does not have this congestion control, or does not permit this user to choose it.
    #[error("congestion control \"{name}\": {source}; this kernel has: {available}")]
    CongestionControl {
        /// Its name.
        name: String,
        /// Available algorithms.
        available: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A number is out of range.
    #[error("{what}: {value}; {least} to {most} are possible")]
    Range {
        /// The quantity.
        what: &'static str,
        /// The number.
        value: u64,
        /// The least.
        least: u64,
        /// The most.
        most: u64,
    },
    /// A system call failed.
    #[error("TCP: {what}: {source}")]
    System {
        /// The call.
        what: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
}

fn system(what: &'static str) -> impl Fn(io::Error) -> TcpError {
    move |source| TcpError::System { what, source }
}

/// Counters of one connection of a client.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct TcpSent {
    /// Its own address.
    pub from: SocketAddr,
    /// The congestion control that the kernel used.
    pub congestion_control: String,
    /// Bytes of user data that the other side has acknowledged.
    pub acknowledged_bytes: u64,
    /// The same as a rate in bit/s.
    pub goodput_bps: f64,
    /// Segments that were sent again.
    pub retransmitted_segments: u64,
    /// The kernel's smoothed round-trip time, sampled every 10 ms.
    pub rtt_s: Option<Delay>,
    /// Answered requests, and the time from the first byte of each to the last byte of the response.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exchanges: Option<TcpExchanges>,
    /// Reason why it ended early.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_early: Option<String>,
}

/// Requests and responses of one connection.
#[derive(Clone, Copy, Debug, PartialEq, JsonSchema, Serialize)]
pub struct TcpExchanges {
    /// Number of transactions.
    pub transactions: u64,
    /// Transactions per second.
    pub transactions_per_s: f64,
    /// Time of each transaction.
    pub latency_s: Option<Delay>,
}

/// Report of a client.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct TcpClientReport {
    /// Length of the run in seconds.
    pub duration_s: f64,
    /// Sum of the connections, in bit/s.
    pub goodput_bps: f64,
    /// Each connection.
    pub connections: Vec<TcpSent>,
}

impl Content for TcpClientReport {
    const KIND: &'static str = "generate_tcp";
}

/// The used part of the kernel's `tcp_info`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Info {
    states: [u8; 8],
    /// From `tcpi_rto` to `tcpi_rcv_ssthresh`.
    before: [u32; 15],
    /// Smoothed round-trip time in us.
    rtt: u32,
    /// From `tcpi_rttvar` to `tcpi_rcv_space`.
    between: [u32; 7],
    total_retrans: u32,
    pacing_rates: [u64; 2],
    bytes_acked: u64,
}

// SAFETY: it is made of integers without padding, for which any bytes are a value.
unsafe impl sys::Plain for Info {}

fn info(socket: &OwnedFd) -> io::Result<Info> {
    sys::option(socket, libc::IPPROTO_TCP, libc::TCP_INFO)
}

/// A client with open connections.
#[derive(Debug)]
pub struct TcpClient {
    config: TcpConfig,
    /// Each as a stream and as a socket whose options are read.
    connections: Vec<(TcpStream, OwnedFd)>,
}

impl TcpClient {
    /// Opens the connections. Sends only their hellos.
    ///
    /// # Errors
    /// [`TcpError`].
    pub fn open(config: TcpConfig) -> Result<Self, TcpError> {
        let within = |what, value: u64, least: u64, most: u64| match (least..=most).contains(&value) {
            true => Ok(()),
            false => Err(TcpError::Range { what, value, least, most }),
        };
        within("connections", config.connections.into(), 1, MAX_CONNECTIONS.into())?;
        within("DSCP", config.dscp.into(), 0, 63)?;
        if let Some(exchange) = config.exchange {
            within("bytes of a request", exchange.request.into(), 1, MAX_EXCHANGE.into())?;
            within("bytes of a response", exchange.response.into(), 1, MAX_EXCHANGE.into())?;
        }
        let connections = (0..config.connections).map(|_| connect(&config)).collect::<Result<_, _>>()?;
        Ok(Self { config, connections })
    }

    /// Sends until `stop` is set or the time is over. Calls `progress` with the seconds since the start and the bytes
    /// written, a few times per second.
    ///
    /// # Errors
    /// [`TcpError::System`]. A broken connection is in the report.
    pub fn run(self, stop: &AtomicBool, mut progress: impl FnMut(f64, u64)) -> Result<TcpClientReport, TcpError> {
        let begin = Instant::now();
        let end = begin + Duration::from_nanos(self.config.duration.0);
        let (written, exchange) = (AtomicU64::new(0), self.config.exchange);
        let over = || stop.load(Ordering::Relaxed) || Instant::now() >= end;
        let connections = std::thread::scope(|scope| {
            let threads: Vec<_> = (self.connections.into_iter())
                .map(|(stream, socket)| {
                    let (over, written) = (&over, &written);
                    scope.spawn(move || Connection::new(stream, socket)?.run(exchange, over, written))
                })
                .collect();
            while !over() && !threads.iter().all(|thread| thread.is_finished()) {
                std::thread::sleep(WAIT * 5);
                progress(begin.elapsed().as_secs_f64(), written.load(Ordering::Relaxed));
            }
            let reports = threads.into_iter().map(|thread| thread.join().expect("a connection does not panic"));
            reports.collect::<Result<Vec<TcpSent>, TcpError>>()
        })?;
        Ok(TcpClientReport {
            duration_s: begin.elapsed().as_secs_f64(),
            goodput_bps: connections.iter().map(|connection| connection.goodput_bps).sum(),
            connections,
        })
    }
}

fn connect(config: &TcpConfig) -> Result<(TcpStream, OwnedFd), TcpError> {
    let failed = |source| TcpError::Connect { to: config.to, source };
    let stream = TcpStream::connect_timeout(&config.to, PATIENCE).map_err(failed)?;
    stream.set_nodelay(true).map_err(system("TCP_NODELAY"))?;
    stream.set_write_timeout(Some(WAIT)).map_err(system("SO_SNDTIMEO"))?;
    stream.set_read_timeout(Some(WAIT)).map_err(system("SO_RCVTIMEO"))?;
    let socket = OwnedFd::from(stream.try_clone().map_err(system("dup"))?);
    if let Some(name) = &config.congestion_control {
        choose_congestion_control(&socket, name)?;
    }
    if config.dscp != 0 {
        let (level, option) = match config.to {
            SocketAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_TOS),
            SocketAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_TCLASS),
        };
        sys::set_option(&socket, level, option, &(libc::c_int::from(config.dscp) << 2)).map_err(system("IP_TOS"))?;
    }
    // Unsent data at the end is discarded.
    let linger = libc::linger { l_onoff: 1, l_linger: 0 };
    sys::set_option(&socket, libc::SOL_SOCKET, libc::SO_LINGER, &linger).map_err(system("SO_LINGER"))?;
    let lengths = config.exchange.map_or([0, 0], |exchange| [exchange.request, exchange.response]);
    let mut hello = [0; HELLO];
    hello[..4].copy_from_slice(&MAGIC);
    hello[4..8].copy_from_slice(&lengths[0].to_be_bytes());
    hello[8..].copy_from_slice(&lengths[1].to_be_bytes());
    (&stream).write_all(&hello).map_err(failed)?;
    Ok((stream, socket))
}

fn choose_congestion_control(socket: &OwnedFd, name: &str) -> Result<(), TcpError> {
    let mut text = [0u8; 16];
    let failed = |source| TcpError::CongestionControl {
        name: name.to_owned(),
        available: std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control")
            .map_or_else(|_| "unknown ones".to_owned(), |text| text.trim().to_owned()),
        source,
    };
    if name.len() >= text.len() || name.is_empty() || name.bytes().any(|byte| byte == 0) {
        return Err(failed(io::Error::from_raw_os_error(libc::ENOENT)));
    }
    text[..name.len()].copy_from_slice(name.as_bytes());
    sys::set_option(socket, libc::IPPROTO_TCP, libc::TCP_CONGESTION, &text).map_err(failed)
}

/// Returns true if the call can be repeated: it only timed out or was interrupted.
fn again(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

/// One running connection of a client.
struct Connection {
    stream: TcpStream,
    socket: OwnedFd,
    begin: Instant,
    /// Acknowledged before the start.
    before: u64,
    rtt: Times,
    latency: Times,
    looked: Instant,
    transactions: u64,
}

impl Connection {
    fn new(stream: TcpStream, socket: OwnedFd) -> Result<Self, TcpError> {
        let (begin, before) = (Instant::now(), info(&socket).map_err(system("TCP_INFO"))?.bytes_acked);
        let (rtt, latency) = (Times::new(), Times::new());
        Ok(Self { stream, socket, begin, before, rtt, latency, looked: begin, transactions: 0 })
    }

    fn run(
        mut self,
        exchange: Option<TcpExchange>,
        over: &impl Fn() -> bool,
        written: &AtomicU64,
    ) -> Result<TcpSent, TcpError> {
        let from = self.stream.local_addr().map_err(system("getsockname"))?;
        let ended = match exchange {
            None => self.send(u64::MAX, over, written),
            Some(exchange) => self.ask(exchange, over, written),
        };
        let seconds = self.begin.elapsed().as_secs_f64();
        let last = info(&self.socket).map_err(system("TCP_INFO"))?;
        let name: [u8; 16] =
            sys::option(&self.socket, libc::IPPROTO_TCP, libc::TCP_CONGESTION).map_err(system("TCP_CONGESTION"))?;
        let acknowledged_bytes = last.bytes_acked.saturating_sub(self.before);
        let per_second = |number: f64| if seconds > 0.0 { number / seconds } else { 0.0 };
        Ok(TcpSent {
            from,
            congestion_control: String::from_utf8_lossy(&name).trim_end_matches('\0').to_owned(),
            acknowledged_bytes,
            goodput_bps: per_second(acknowledged_bytes as f64 * 8.0),
            retransmitted_segments: last.total_retrans.into(),
            rtt_s: self.rtt.summary(),
            exchanges: exchange.map(|_| TcpExchanges {
                transactions: self.transactions,
                transactions_per_s: per_second(self.transactions as f64),
                latency_s: self.latency.summary(),
            }),
            ended_early: ended.err().map(|error| error.to_string()),
        })
    }

    /// Sends `bytes` bytes, or fewer if the time is over.
    fn send(&mut self, bytes: u64, over: &impl Fn() -> bool, written: &AtomicU64) -> io::Result<()> {
        let chunk = [0; CHUNK];
        let mut left = bytes;
        while left > 0 && !over() {
            match self.stream.write(&chunk[..left.min(CHUNK as u64) as usize]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => {
                    left -= count as u64;
                    written.fetch_add(count as u64, Ordering::Relaxed);
                }
                Err(error) if again(&error) => {}
                Err(error) => return Err(error),
            }
            self.look()?;
        }
        Ok(())
    }

    fn ask(&mut self, exchange: TcpExchange, over: &impl Fn() -> bool, written: &AtomicU64) -> io::Result<()> {
        let mut chunk = [0; CHUNK];
        while !over() {
            let asked = Instant::now();
            self.send(exchange.request.into(), over, written)?;
            let mut left = exchange.response as usize;
            while left > 0 && !over() {
                match self.stream.read(&mut chunk[..left.min(CHUNK)]) {
                    Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                    Ok(count) => left -= count,
                    Err(error) if again(&error) => {}
                    Err(error) => return Err(error),
                }
            }
            if left > 0 {
                break;
            }
            self.transactions += 1;
            self.latency.record(asked.elapsed().as_nanos() as u64);
            self.look()?;
            let next = Instant::now() + Duration::from_nanos(exchange.think.0);
            while !over() && Instant::now() < next {
                std::thread::sleep(WAIT.min(next - Instant::now()));
            }
        }
        Ok(())
    }

    /// Samples the round-trip time if due.
    fn look(&mut self) -> io::Result<()> {
        if self.looked.elapsed() >= SAMPLE {
            self.looked = Instant::now();
            self.rtt.record(u64::from(info(&self.socket)?.rtt) * 1000);
        }
        Ok(())
    }
}

/// Counters of one connection of a server.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct TcpReceived {
    /// The client's address.
    pub from: SocketAddr,
    /// Bytes of the user.
    pub received_bytes: u64,
    /// The same as a rate in bit/s, from the first to the last byte.
    pub goodput_bps: f64,
    /// Requests that were answered.
    pub requests: u64,
}

/// Report of a server.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct TcpServerReport {
    /// Length of the run in seconds.
    pub duration_s: f64,
    /// The first 4096 connections, in the order in which they ended.
    pub connections: Vec<TcpReceived>,
    /// Connections that were not from a client of this program, or exceeded the limit.
    pub refused_connections: u64,
    /// Connections beyond the first 4096.
    pub beyond_connections: u64,
}

impl Content for TcpServerReport {
    const KIND: &'static str = "receive_tcp";
}

/// A server that listens.
#[derive(Debug)]
pub struct TcpServer {
    listener: TcpListener,
}

impl TcpServer {
    /// Listens at a port of all addresses: IPv4, and IPv6 if the system has it.
    ///
    /// # Errors
    /// [`TcpError::Listen`].
    pub fn open(port: u16) -> Result<Self, TcpError> {
        let all = [IpAddr::V6(Ipv6Addr::UNSPECIFIED), IpAddr::from([0, 0, 0, 0])];
        let listener = TcpListener::bind((all[0], port))
            .or_else(|_| TcpListener::bind((all[1], port)))
            .map_err(|source| TcpError::Listen { port, source })?;
        listener.set_nonblocking(true).map_err(system("O_NONBLOCK"))?;
        Ok(Self { listener })
    }

    /// The port.
    ///
    /// # Errors
    /// [`TcpError::System`].
    pub fn port(&self) -> Result<u16, TcpError> {
        Ok(self.listener.local_addr().map_err(system("getsockname"))?.port())
    }

    /// Serves until `stop` is set or `duration` is over. Calls `progress` with the bytes received, a few times per
    /// second.
    ///
    /// # Errors
    /// [`TcpError::System`].
    pub fn run(
        self,
        stop: &AtomicBool,
        duration: Option<Duration>,
        mut progress: impl FnMut(f64, u64),
    ) -> Result<TcpServerReport, TcpError> {
        let begin = Instant::now();
        let over = || stop.load(Ordering::Relaxed) || duration.is_some_and(|duration| begin.elapsed() >= duration);
        let received = AtomicU64::new(0);
        let (mut connections, mut refused, mut beyond) = (Vec::new(), 0, 0);
        std::thread::scope(|scope| {
            let mut threads: Vec<std::thread::ScopedJoinHandle<'_, Option<TcpReceived>>> = Vec::new();
            let mut told = begin;
            let mut ended = |thread: std::thread::ScopedJoinHandle<'_, Option<TcpReceived>>| match thread
                .join()
                .expect("a connection does not panic")
            {
                None => refused += 1,
                Some(_) if connections.len() >= MAX_REPORTED => beyond += 1,
                Some(report) => connections.push(report),
            };
            let mut full = 0;
            while !over() {
                match self.listener.accept() {
                    Ok((stream, from)) if threads.len() < MAX_SERVED => {
                        let (over, received) = (&over, &received);
                        threads.push(scope.spawn(move || serve(stream, from, over, received)));
                    }
                    Ok(_) => full += 1,
                    // A connection that its client has already closed does not end the server.
                    Err(_) => std::thread::sleep(WAIT),
                }
                let (done, running): (Vec<_>, Vec<_>) = threads.into_iter().partition(|thread| thread.is_finished());
                done.into_iter().for_each(&mut ended);
                threads = running;
                if told.elapsed() >= WAIT * 10 {
                    told = Instant::now();
                    progress(begin.elapsed().as_secs_f64(), received.load(Ordering::Relaxed));
                }
            }
            threads.into_iter().for_each(&mut ended);
            refused += full;
        });
        Ok(TcpServerReport {
            duration_s: begin.elapsed().as_secs_f64(),
            connections,
            refused_connections: refused,
            beyond_connections: beyond,
        })
    }
}

/// Serves one connection to its end; returns `None` if it is not from a client of this program.
fn serve(stream: TcpStream, from: SocketAddr, over: &impl Fn() -> bool, all: &AtomicU64) -> Option<TcpReceived> {
    stream.set_nonblocking(false).ok()?;
    stream.set_nodelay(true).ok()?;
    stream.set_read_timeout(Some(WAIT)).ok()?;
    stream.set_write_timeout(Some(WAIT)).ok()?;
    let opened = Instant::now();
    let mut hello = [0; HELLO];
    take(&stream, &mut hello, &|| over() || opened.elapsed() >= PATIENCE)?;
    let number = |at: usize| u32::from_be_bytes([hello[at], hello[at + 1], hello[at + 2], hello[at + 3]]);
    let (request, response) = (number(4), number(8));
    if hello[..4] != MAGIC || request.max(response) > MAX_EXCHANGE || (request == 0) != (response == 0) {
        return None;
    }
    let mut chunk = vec![0; CHUNK];
    let (mut bytes, mut requests, mut first, mut last) = (0u64, 0u64, None, Instant::now());
    let mut left = request as usize;
    while !over() {
        let most = if request == 0 { CHUNK } else { left.min(CHUNK) };
        match (&stream).read(&mut chunk[..most]) {
            Ok(0) => break,
            Ok(count) => {
                last = Instant::now();
                first.get_or_insert(last);
                bytes += count as u64;
                all.fetch_add(count as u64, Ordering::Relaxed);
                left = left.saturating_sub(count);
            }
            Err(error) if again(&error) => continue,
            // A client that has finished resets the connection.
            Err(_) => break,
        }
        if request > 0 && left == 0 {
            left = request as usize;
            if give(&stream, response as usize, over).is_none() {
                break;
            }
            requests += 1;
        }
    }
    let seconds = first.map_or(0.0, |first| (last - first).as_secs_f64());
    let goodput_bps = if seconds > 0.0 { bytes as f64 * 8.0 / seconds } else { 0.0 };
    Some(TcpReceived { from, received_bytes: bytes, goodput_bps, requests })
}

/// Fills the buffer; returns `None` if the connection or the time ends before.
fn take(mut stream: &TcpStream, buffer: &mut [u8], over: &impl Fn() -> bool) -> Option<()> {
    let mut filled = 0;
    while filled < buffer.len() {
        match stream.read(&mut buffer[filled..]) {
            Ok(0) => return None,
            Ok(count) => filled += count,
            Err(error) if again(&error) && !over() => {}
            Err(_) => return None,
        }
    }
    Some(())
}

/// Sends `bytes` zeros; returns `None` if the connection or the time ends before.
fn give(mut stream: &TcpStream, bytes: usize, over: &impl Fn() -> bool) -> Option<()> {
    let chunk = [0; CHUNK];
    let mut left = bytes;
    while left > 0 {
        match stream.write(&chunk[..left.min(CHUNK)]) {
            Ok(0) => return None,
            Ok(count) => left -= count,
            Err(error) if again(&error) && !over() => {}
            Err(_) => return None,
        }
    }
    Some(())
}
