//! The two ends of a path with faults: numbered frames both ways, and the fate of each.

use std::collections::BTreeMap;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fairlink_net::Interface;

/// Between two frames of one direction.
const EVERY: Duration = Duration::from_micros(200);
/// An Ethernet type for experiments.
const KIND: [u8; 2] = [0x88, 0xb5];
const LENGTH: usize = 100;

/// Frames that one end has sent and received.
#[derive(Debug, Default)]
struct Log {
    /// Time of sending of each frame, by its number.
    sent: Vec<Instant>,
    /// The numbers that arrived from the other end, in order of arrival.
    received: Vec<u64>,
}

/// Both ends at work.
pub(crate) struct Ends {
    stop: Arc<AtomicBool>,
    logs: [Arc<Mutex<Log>>; 2],
    threads: Vec<JoinHandle<()>>,
}

/// Results for the frames of one direction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) sent: u64,
    pub(crate) lost: u64,
    pub(crate) doubled: u64,
    pub(crate) out_of_order: u64,
    /// The longest time in which every sent frame was lost.
    pub(crate) silence: Duration,
    /// Times of sending of the lost frames, since the first frame.
    pub(crate) lost_at: Vec<Duration>,
}

impl Ends {
    /// Begins to send from each of these interfaces to the other.
    pub(crate) fn start(names: [&str; 2]) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let logs = [Arc::default(), Arc::default()];
        // Both can receive before one sends.
        let sockets = names.map(|name| open(name).expect("an interface to send from"));
        let work = |((name, log), socket): ((&str, &Arc<Mutex<Log>>), OwnedFd)| {
            let (name, log, stop) = (name.to_owned(), Arc::clone(log), Arc::clone(&stop));
            std::thread::spawn(move || work(&name, socket, &log, &stop))
        };
        let threads = names.into_iter().zip(&logs).zip(sockets).map(work).collect();
        Self { stop, logs, threads }
    }

    /// Number of frames that have arrived over the whole path so far, in each direction.
    pub(crate) fn arrived(&self) -> [usize; 2] {
        [1, 0].map(|end| self.logs[end].lock().unwrap().received.len())
    }

    /// Waits until `more` further frames have arrived over the path in each direction.
    pub(crate) fn wait_for(&self, more: usize) {
        let before = self.arrived();
        let until = Instant::now() + Duration::from_secs(30);
        while self.arrived().iter().zip(before).any(|(&now, before)| now < before + more) {
            assert!(Instant::now() < until, "nothing comes through");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Stops, and returns the results of each direction: that of the first end's frames first.
    pub(crate) fn stop(self) -> [Outcome; 2] {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.into_iter().for_each(|thread| thread.join().unwrap());
        let [a, b] = self.logs.map(|log| std::mem::take(&mut *log.lock().unwrap()));
        [Outcome::of(&a.sent, &b.received), Outcome::of(&b.sent, &a.received)]
    }
}

impl Outcome {
    fn of(sent: &[Instant], received: &[u64]) -> Self {
        let mut times: BTreeMap<u64, u64> = BTreeMap::new();
        let (mut newest, mut out_of_order) = (0, 0);
        for &number in received {
            *times.entry(number).or_default() += 1;
            out_of_order += u64::from(number < newest);
            newest = newest.max(number);
        }
        let mut outcome = Self { sent: sent.len() as u64, out_of_order, ..Self::default() };
        outcome.doubled = times.values().map(|times| times - 1).sum();
        let (mut last, mut silent) = (sent.first().copied(), false);
        for (number, &at) in sent.iter().enumerate() {
            if times.contains_key(&(number as u64)) {
                if silent && let Some(last) = last {
                    outcome.silence = outcome.silence.max(at - last);
                }
                (last, silent) = (Some(at), false);
            } else {
                outcome.lost += 1;
                outcome.lost_at.push(at - sent[0]);
                silent = true;
            }
        }
        if silent && let (Some(last), Some(&end)) = (last, sent.last()) {
            outcome.silence = outcome.silence.max(end - last);
        }
        outcome
    }
}

/// Runs one end: sends every 200 us, and records arrivals. Waits for an end that disappears.
fn work(name: &str, mut end: OwnedFd, log: &Mutex<Log>, stop: &AtomicBool) {
    let (mut next, mut last) = (Instant::now(), None);
    let mut bytes = [0; 2048];
    loop {
        let now = Instant::now();
        // Frames in transit have a while to arrive after the last one was sent.
        let sending = !stop.load(Ordering::Relaxed);
        if !sending && now - *last.get_or_insert(now) > Duration::from_millis(300) {
            return;
        }
        let mut gone = false;
        if sending && now >= next {
            next = (next + EVERY).max(now - Duration::from_millis(2));
            let mut log = log.lock().unwrap();
            bytes[..LENGTH].fill(0);
            bytes[..12].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2]);
            bytes[12..14].copy_from_slice(&KIND);
            bytes[14..22].copy_from_slice(&(log.sent.len() as u64).to_be_bytes());
            // SAFETY: the bytes are readable for their length.
            let sent = unsafe { libc::send(end.as_raw_fd(), bytes.as_ptr().cast(), LENGTH, libc::MSG_DONTWAIT) };
            gone = sent < 0 && is_gone();
            if sent > 0 {
                log.sent.push(now);
            }
        }
        loop {
            // SAFETY: the bytes are writable for their length.
            let length =
                unsafe { libc::recv(end.as_raw_fd(), bytes.as_mut_ptr().cast(), bytes.len(), libc::MSG_DONTWAIT) };
            if length < 0 {
                gone |= is_gone();
                break;
            }
            if length == LENGTH as isize && bytes[12..14] == KIND {
                log.lock().unwrap().received.push(u64::from_be_bytes(*bytes[14..].first_chunk().unwrap()));
            }
        }
        if gone && let Some(again) = open(name) {
            end = again;
        }
        std::thread::sleep(Duration::from_micros(20));
    }
}

/// Returns true if the last error was that the interface went down or disappeared.
fn is_gone() -> bool {
    matches!(std::io::Error::last_os_error().raw_os_error(), Some(libc::ENETDOWN | libc::ENXIO | libc::ENODEV))
}

/// Opens a socket that sends and receives all frames at the interface `name`; `None` if it does not exist.
fn open(name: &str) -> Option<OwnedFd> {
    let index = Interface::open(name).ok()?.index;
    // SAFETY: takes no pointers.
    let socket = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    assert!(socket >= 0, "{}", std::io::Error::last_os_error());
    // SAFETY: the descriptor is new and owned here alone.
    let socket = unsafe { OwnedFd::from_raw_fd(socket) };
    // SAFETY: a `sockaddr_ll` is integers, for which all zeros is valid.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
    address.sll_ifindex = index;
    let options =
        [(libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, 1), (libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, 64 << 20)];
    for (level, option, value) in options {
        let value: libc::c_int = value;
        // SAFETY: the value is readable for the length given.
        unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                level,
                option,
                std::ptr::from_ref(&value).cast(),
                size_of_val(&value) as u32,
            )
        };
    }
    // SAFETY: the address is readable for the length given.
    let bound = unsafe {
        let length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        libc::bind(socket.as_raw_fd(), std::ptr::from_ref(&address).cast(), length)
    };
    (bound == 0).then_some(socket)
}
