//! Sends real traffic: the [sources](fairlink_traffic) of a scenario, in real time, as frames that the
//! [receiver](crate::receiver) recognizes.
//!
//! The lengths of a source's packets are those of whole Ethernet frames ([`fairlink_net::Headers`]). A greedy source
//! offers packets at a fixed rate, which its user sets above what its class can get.
//!
//! The generator sleeps between batches. So frames leave several at a time and up to [`GRAIN`] late, and are stamped
//! with the time at which they leave. If the machine is too busy, a packet that is overdue by more than [`LATE`] is
//! counted and not sent. If sources offer more packets than this machine can count, the run still ends on time. The
//! report then has the part of the sources' time that was not reached.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fairlink_config::matching::ethernet;
use fairlink_core::{ClassId, Nanos, Rate};
use fairlink_report::{Content, Delay};
use fairlink_traffic::{MixError, Model, SourceError, SourceSpec, TrafficMix, What};
use schemars::JsonSchema;
use serde::Serialize;

use crate::departures::{self, Times};
use fairlink_net::Cut;
use fairlink_net::system as sys;
use fairlink_net::system::packet_socket;
use fairlink_net::{Clock, MonotonicClock, realtime_ns};
use fairlink_net::{FrameTemplate, Headers, MAX_CLASS, MAX_FRAME, Stamp};

/// Shortest sleep: arrivals within it leave together.
pub(crate) const GRAIN: Nanos = Nanos::from_micros(200);
/// Maximum lateness of an arrival that is still sent.
pub(crate) const LATE: Nanos = Nanos::from_millis(20);
/// Maximum number of sockets of one generator, if each class has its own.
pub(crate) const MAX_LANES: usize = 256;
/// Frames sent in one system call.
const BATCH: usize = 64;
/// Longest sleep, so that the stop flag is noticed.
const NAP: Nanos = Nanos::from_millis(20);
/// Arrivals between two checks of the clock and the stop flag.
const STRIDE: u32 = 256;
/// Time between two calls of the progress function.
const PROGRESS: Nanos = Nanos::from_millis(200);

/// Number of sockets for sending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lanes {
    /// One for all classes: frames leave in the order of their arrivals.
    Shared,
    /// One socket per class, with this `SO_PRIORITY`, by which the kernel's HTB identifies its classes. A class whose
    /// frames wait in the kernel does not delay the others. Frames that its socket has no room for are refused.
    ByPriority(Vec<(ClassId, u32)>),
}

/// Configuration of a generator.
#[derive(Clone, Debug)]
pub struct GeneratorConfig {
    /// The interface to send out of.
    pub interface: String,
    /// Headers of each class that has a source. A class may have several: its frames use them in turn, so that frame n
    /// has headers n modulo their count. Each is a flow.
    pub classes: Vec<(ClassId, Headers)>,
    /// Names of classes, for the report; a class without a name is shown by its number.
    pub names: BTreeMap<ClassId, String>,
    /// Traffic sources; packet lengths are those of whole frames.
    pub sources: Vec<SourceSpec>,
    /// Seed of the sources.
    pub seed: u64,
    /// Rate at which each greedy source offers packets.
    pub greedy_rate: Rate,
    /// Duration of the run.
    pub duration: Nanos,
    /// Time zero of the sources, by `CLOCK_MONOTONIC` in ns; the present when absent.
    pub start_ns: Option<u64>,
    /// Run number in the frames.
    pub run: u8,
    /// Sockets.
    pub lanes: Lanes,
    /// True if packets longer than the interface's MTU are sent as fragments of one IP datagram, as in the DRR++ thesis
    /// (Section 4.4.1). Pictures of `mpeg` sources are one packet each then. Needs UDP. Without it such packets are
    /// [`GeneratorError::Length`].
    pub fragment: bool,
    /// Requests the time at which the kernel hands each frame to the driver. It costs a system call for each frame.
    pub kernel_stamps: bool,
    /// Processor to keep the sending thread on; any when absent.
    pub cpu: Option<usize>,
}

/// Reason why a generator cannot run, or ended early.
#[derive(Debug, thiserror::Error)]
pub enum GeneratorError {
    /// The interface does not exist.
    #[error("interface {interface}: {source}")]
    Interface {
        /// Its name.
        interface: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// No permission for packet sockets or their priorities.
    #[error("no permission to send frames out of {interface}: run as root or with the capability CAP_NET_RAW")]
    Permission {
        /// The interface.
        interface: String,
    },
    /// A source that cannot run.
    #[error(transparent)]
    Source(#[from] MixError),
    /// A source's class has no headers, no lane, or a number that does not fit into the stamp.
    #[error("source {index}: class {} has no {what}", class.0)]
    Class {
        /// The index of the source.
        index: usize,
        /// Its class.
        class: ClassId,
        /// The missing item.
        what: &'static str,
    },
    /// A source's frames do not fit.
    #[error(
        "source {index}: frames of {len} B; with this class's headers and on this interface they have {min} to {max} B{}",
        if len > max { "; with --fragment longer ones are sent as fragments" } else { "" }
    )]
    Length {
        /// The index of the source.
        index: usize,
        /// Its shortest or longest frame.
        len: u32,
        /// The shortest frame that carries headers and stamp.
        min: u32,
        /// Longest frame of the interface.
        max: u32,
    },
    /// Packets that would have to be fragmented, but cannot be.
    #[error("source {index}: packets of {len} B; {why}")]
    Unfragmentable {
        /// The index of the source.
        index: usize,
        /// Length of its longest packet, as a whole frame.
        len: u32,
        /// The reason with its limit.
        why: String,
    },
    /// More lanes than the limit of sockets.
    #[error("{lanes} classes with a socket each; the limit is {MAX_LANES}")]
    TooManyLanes {
        /// Number of lanes.
        lanes: usize,
    },
    /// A system call failed.
    #[error("sending out of {interface}: {what}: {source}")]
    System {
        /// The interface.
        interface: String,
        /// The call.
        what: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
}

/// Counters of one class. Arrivals of the sources are sent, refused or late. An arrival is a frame, or a datagram in
/// fragments.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct ClassSent {
    /// Its name, or its number if it has none.
    pub name: String,
    /// Its number.
    pub class: u32,
    /// Arrivals of its sources.
    pub offered_packets: u64,
    /// Their bytes.
    pub offered_bytes: u64,
    /// Frames handed to the kernel; a datagram counts as one if all its fragments were.
    pub sent_packets: u64,
    /// Their bytes (whole Ethernet frames without check sequence), those of every fragment.
    pub sent_bytes: u64,
    /// Sent packets that were fragmented.
    #[serde(skip_serializing_if = "is_zero")]
    pub fragmented_packets: u64,
    /// Fragments handed to the kernel, including those of datagrams refused in the end.
    #[serde(skip_serializing_if = "is_zero")]
    pub fragments: u64,
    /// Frames that the kernel refused because its queue was full. A datagram counts if a fragment was refused; its
    /// later fragments are not sent.
    pub refused_packets: u64,
    /// Arrivals not sent because this generator was too late.
    pub late_packets: u64,
    /// Packets lost in the shapers and policers of the sources; they were never offered.
    pub lost_at_source_packets: u64,
    /// Frames that were padded, because the source's packet was shorter than the shortest frame with headers and stamp.
    pub padded_packets: u64,
    /// Number of sends that would have blocked, because the socket's buffer was full. The frames are among the refused
    /// ones.
    pub blocked_sends: u64,
    /// Total time in seconds from each such send to the next accepted one, or the end.
    pub blocked_s: f64,
}

/// Omits counts of fragments from reports without any.
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Report of a run.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct GeneratorReport {
    /// Length of the run in seconds.
    pub duration_s: f64,
    /// Run number in the frames.
    pub run: u8,
    /// The last part of the sources' time whose arrivals were not even counted, in seconds, because earlier ones were
    /// too many for this machine. Zero if it kept up, or was stopped.
    pub unreached_s: f64,
    /// Time from each frame's due time to its stamp, right before it is handed to the kernel; absent if nothing was
    /// sent.
    pub departure_after_due_s: Option<Delay>,
    /// Time from each frame's stamp to its handover from the kernel to the driver; absent if not requested, or if the
    /// interface has no such stamps.
    pub driver_after_stamp_s: Option<Delay>,
    /// Per class that has a source, in the order of their numbers.
    pub classes: Vec<ClassSent>,
}

impl Content for GeneratorReport {
    const KIND: &'static str = "generate";
}

impl GeneratorReport {
    /// The figures of `class`.
    #[must_use]
    pub fn class(&self, class: ClassId) -> Option<&ClassSent> {
        self.classes.iter().find(|sent| sent.class == class.0)
    }
}

/// Progress of a generator.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct GeneratorProgress {
    /// Seconds since its start.
    pub elapsed_s: f64,
    /// Frames sent by now.
    pub sent_packets: u64,
    /// Their bytes.
    pub sent_bytes: u64,
}

#[derive(Debug)]
struct Class {
    id: ClassId,
    /// One for each flow.
    templates: Vec<FrameTemplate>,
    /// The shortest frame of any flow.
    shortest: usize,
    /// Longest frame of the interface.
    longest: usize,
    lane: usize,
    offered: (u64, u64),
    /// Number of the next frame or datagram.
    next: u32,
    sent: (u64, u64),
    /// Datagrams sent in fragments, and fragments.
    fragmented: (u64, u64),
    padded: u64,
    refused: u64,
    late: u64,
    /// Number of sends that would have blocked, and their total time in ns.
    blocked: (u64, u64),
}

/// A packet that leaves next.
#[derive(Clone, Copy, Debug)]
struct Pending {
    class: usize,
    /// Length as one frame.
    len: u32,
    /// Its time since the start.
    due: Nanos,
    /// Capacity in frames.
    frames: usize,
}

/// One socket and the frames that leave through it next.
#[derive(Debug)]
struct Lane {
    socket: OwnedFd,
    pending: Vec<Pending>,
    /// Frames of all pending packets.
    waiting: usize,
    /// Slots for the maximum number of pending frames.
    frames: Vec<u8>,
    /// Lengths of the frames that are being sent.
    lengths: Vec<usize>,
    /// The class whose send would have blocked, and since when by `CLOCK_MONOTONIC`, while that lasts.
    blocked: Option<(usize, u64)>,
}

/// A generator that is ready to send.
#[derive(Debug)]
pub struct Generator {
    interface: String,
    names: BTreeMap<ClassId, String>,
    mix: TrafficMix,
    /// By the index of the source.
    class_of: Vec<usize>,
    classes: Vec<Class>,
    lanes: Vec<Lane>,
    stride: usize,
    /// By `CLOCK_MONOTONIC`, in ns.
    start_ns: Option<u64>,
    duration: Nanos,
    run: u8,
    /// The MTU, if longer packets are sent as fragments.
    fragment_mtu: Option<usize>,
    /// Identification of the next fragmented datagram.
    datagram: u32,
    cpu: Option<usize>,
    after_due: Times,
    /// Present if the kernel's stamps were requested.
    after_stamp: Option<Times>,
}

impl Generator {
    /// Checks the sources against the interface and opens the sockets. Nothing is sent yet.
    ///
    /// # Errors
    /// [`GeneratorError`].
    pub fn open(config: GeneratorConfig) -> Result<Self, GeneratorError> {
        let interface = config.interface;
        let interface_index = sys::interface_index(&interface)
            .map_err(|source| GeneratorError::Interface { interface: interface.clone(), source })?;
        let mtu = sys::interface_mtu(&interface)
            .map_err(|source| GeneratorError::Interface { interface: interface.clone(), source })?;
        let fragment_mtu = config.fragment.then_some(mtu as usize);
        let sources = if config.fragment { whole_pictures(config.sources) } else { config.sources };
        let mut headers: BTreeMap<ClassId, Vec<Headers>> = BTreeMap::new();
        config.classes.into_iter().for_each(|(class, flow)| headers.entry(class).or_default().push(flow));
        let priorities: Option<BTreeMap<ClassId, u32>> = match config.lanes {
            Lanes::Shared => None,
            Lanes::ByPriority(priorities) => Some(priorities.into_iter().collect()),
        };
        let mut classes: Vec<Class> = Vec::new();
        let mut positions: BTreeMap<ClassId, usize> = BTreeMap::new();
        let mut priority_of_lane = Vec::new();
        let mut class_of = Vec::with_capacity(sources.len());
        let (mut stride, mut most_frames) = (0, 1);
        for (index, source) in sources.iter().enumerate() {
            if source.model.is_closed() {
                return Err(MixError { index, error: SourceError::Closed }.into());
            }
            let missing = |what| GeneratorError::Class { index, class: source.class, what };
            let position = match positions.get(&source.class) {
                Some(&position) => position,
                None => {
                    let headers = headers.get(&source.class).ok_or_else(|| missing("headers"))?;
                    if source.class.0 > MAX_CLASS {
                        return Err(missing("number that fits into the stamp"));
                    }
                    let lane = match &priorities {
                        None => 0,
                        Some(priorities) => {
                            priority_of_lane.push(*priorities.get(&source.class).ok_or_else(|| missing("priority"))?);
                            priority_of_lane.len() - 1
                        }
                    };
                    let templates: Vec<FrameTemplate> = headers.iter().map(FrameTemplate::new).collect();
                    let shortest = templates.iter().map(FrameTemplate::min_len).max().unwrap_or(0);
                    let id = source.class;
                    positions.insert(id, classes.len());
                    classes.push(Class {
                        id,
                        templates,
                        shortest,
                        longest: 0,
                        lane,
                        offered: (0, 0),
                        next: 0,
                        sent: (0, 0),
                        fragmented: (0, 0),
                        padded: 0,
                        refused: 0,
                        late: 0,
                        blocked: (0, 0),
                    });
                    classes.len() - 1
                }
            };
            let class = &mut classes[position];
            // The kernel allows for one VLAN tag beyond the MTU.
            let tags = class.templates.iter().map(FrameTemplate::link_header).min().unwrap_or(ethernet::HEADER);
            let max = (mtu as usize + tags.min(ethernet::HEADER + ethernet::VLAN_TAG)).min(MAX_FRAME);
            class.longest = max;
            let (min_len, max_len) = source.lengths().unwrap_or((0, 0));
            // The rest of a picture, or a recorded packet, may be shorter than any frame, and is padded as Ethernet
            // does.
            let padded = matches!(source.model.sender(), Model::Mpeg(_) | Model::Dar1(_) | Model::Trace(_));
            let lengths = if padded { [max_len, max_len.max(class.shortest as u32)] } else { [min_len, max_len] };
            for len in lengths {
                let too_short = !padded && (len as usize) < class.shortest;
                if too_short || (len as usize > max && fragment_mtu.is_none()) {
                    return Err(GeneratorError::Length { index, len, min: class.shortest as u32, max: max as u32 });
                }
            }
            if let Some(mtu) = fragment_mtu
                && max_len as usize > max
            {
                let most = most_fragments(&class.templates, max_len as usize, mtu)
                    .map_err(|why| GeneratorError::Unfragmentable { index, len: max_len, why })?;
                most_frames = most_frames.max(most);
            }
            stride = stride.max(class.shortest);
            stride = stride.max((max_len as usize).min(max));
            class_of.push(position);
        }
        if priorities.is_none() {
            priority_of_lane.push(0);
        }
        if priority_of_lane.len() > MAX_LANES {
            return Err(GeneratorError::TooManyLanes { lanes: priority_of_lane.len() });
        }
        let lanes = priority_of_lane
            .into_iter()
            .map(|priority| Lane::open(&interface, interface_index, priority, (stride, BATCH - 1 + most_frames)))
            .collect::<Result<Vec<_>, _>>()?;
        // If the kernel has no such stamps, the report has none.
        let asked = config.kernel_stamps && lanes.iter().all(|lane| departures::ask_for_stamps(&lane.socket).is_ok());
        let mix = TrafficMix::new(&offered(sources, config.greedy_rate), config.seed, config.duration)?;
        let (start_ns, duration, run, cpu) = (config.start_ns, config.duration, config.run, config.cpu);
        Ok(Self {
            interface,
            names: config.names,
            mix,
            class_of,
            classes,
            lanes,
            stride,
            start_ns,
            duration,
            run,
            fragment_mtu,
            // So that datagrams of a new run are unlikely to be confused with those of the last one.
            datagram: (MonotonicClock::SHARED.now().0 / 1000) as u32,
            cpu,
            after_due: Times::new(),
            after_stamp: asked.then(Times::new),
        })
    }

    /// Sends until `stop` is set, all sources have ended, or the configured time is exceeded by 20 ms. Calls `progress`
    /// a few times per second.
    ///
    /// # Errors
    /// [`GeneratorError::System`] if the interface disappears or goes down.
    pub fn run(
        mut self,
        stop: &AtomicBool,
        mut progress: impl FnMut(&GeneratorProgress),
    ) -> Result<GeneratorReport, GeneratorError> {
        if let Some(cpu) = self.cpu {
            sys::pin_thread(cpu).map_err(|source| self.system("sched_setaffinity", source))?;
        }
        let begin = MonotonicClock::SHARED.now().0;
        let start = *self.start_ns.get_or_insert(begin);
        let mut told = Nanos::ZERO;
        while !stop.load(Ordering::Relaxed) {
            let clock = MonotonicClock::SHARED.now().0;
            if clock < start {
                std::thread::sleep(Duration::from_nanos((start - clock).min(NAP.0)));
                continue;
            }
            let now = Nanos(clock - start);
            self.send_due(start, now, stop)?;
            if self.is_over(now) {
                break;
            }
            if now >= told + PROGRESS {
                told = now;
                progress(&self.progress(now));
            }
            let Some(next) = self.mix.peek() else { break };
            let due = Nanos(start.saturating_add(next.0).saturating_sub(MonotonicClock::SHARED.now().0));
            std::thread::sleep(Duration::from_nanos(due.max(GRAIN).min(NAP).0));
        }
        let end = MonotonicClock::SHARED.now().0;
        let elapsed = Nanos(end.saturating_sub(start));
        for lane in &mut self.lanes {
            if let Some((position, since)) = lane.blocked.take() {
                self.classes[position].blocked.1 += end.saturating_sub(since);
            }
        }
        progress(&self.progress(elapsed));
        if self.after_stamp.is_some() {
            // The last frames may still be on their way to the driver.
            std::thread::sleep(Duration::from_nanos(NAP.0));
            (0..self.lanes.len()).try_for_each(|lane| self.take_stamps(lane))?;
        }
        let reached = self.mix.peek().filter(|_| self.is_over(elapsed));
        let unreached = reached.map_or(Nanos::ZERO, |reached| self.duration.saturating_sub(reached));
        Ok(self.report((end - begin) as f64 / 1e9, unreached))
    }

    /// Returns true if the run has exceeded its time by the maximum lateness of an arrival.
    fn is_over(&self, now: Nanos) -> bool {
        now > self.duration.saturating_add(LATE)
    }

    /// Sends the arrivals of the sources up to `now`, the time since `start`. Arrivals may be generated faster than
    /// they can be counted, so it ends if `stop` is set or the run is over.
    fn send_due(&mut self, start: u64, now: Nanos, stop: &AtomicBool) -> Result<(), GeneratorError> {
        let mut left = STRIDE;
        while self.mix.peek().is_some_and(|at| at <= now)
            && let Some(event) = self.mix.next()
        {
            left -= 1;
            if left == 0 {
                left = STRIDE;
                let elapsed = MonotonicClock::SHARED.now().0.saturating_sub(start);
                if stop.load(Ordering::Relaxed) || self.is_over(Nanos(elapsed)) {
                    break;
                }
            }
            // Greedy sources were converted to timed ones: only packets occur.
            let What::Packet { len } = event.what else { continue };
            let position = self.class_of[event.source as usize];
            let class = &mut self.classes[position];
            class.offered.0 += 1;
            class.offered.1 += u64::from(len);
            if now.saturating_sub(event.at) > LATE {
                class.late += 1;
                continue;
            }
            let lane = class.lane;
            let frame = len.max(class.shortest as u32);
            class.padded += u64::from(frame > len);
            let frames = class.frames(frame, self.fragment_mtu);
            let lane_state = &mut self.lanes[lane];
            lane_state.pending.push(Pending { class: position, len: frame, due: event.at, frames });
            lane_state.waiting += frames;
            if lane_state.waiting >= BATCH {
                self.flush(lane)?;
            }
        }
        (0..self.lanes.len()).try_for_each(|lane| self.flush(lane))
    }

    /// Sends the pending frames of a lane. Those that the kernel has no room for are counted as refused.
    fn flush(&mut self, lane: usize) -> Result<(), GeneratorError> {
        let Lane { socket, pending, waiting, frames, lengths, blocked } = &mut self.lanes[lane];
        if pending.is_empty() {
            return Ok(());
        }
        let (monotonic_ns, realtime_ns) = (MonotonicClock::SHARED.now().0, realtime_ns());
        let now = monotonic_ns.saturating_sub(self.start_ns.unwrap_or(0));
        lengths.clear();
        for packet in pending.iter() {
            let class = &mut self.classes[packet.class];
            let stamp = Stamp {
                run: self.run,
                class: class.id,
                sequence: class.next,
                monotonic_ns,
                realtime_us: (realtime_ns / 1000) as u32,
            };
            let slots = (&mut frames[lengths.len() * self.stride..], self.stride);
            class.write(packet, (self.fragment_mtu, self.datagram), &stamp, slots, lengths);
            self.datagram = self.datagram.wrapping_add(u32::from(packet.frames > 1));
            self.after_due.record(now.saturating_sub(packet.due.0));
            class.next = class.next.wrapping_add(1);
        }
        let count = lengths.len();
        let mut sent = 0;
        let result = loop {
            let left = lengths[sent..].iter().copied();
            match send_batch(socket, &mut frames[sent * self.stride..], self.stride, left) {
                Ok((more, stopped)) => {
                    sent += more;
                    if sent == count || stopped.is_some() {
                        break Ok(stopped);
                    }
                }
                Err(error) => break Err(error),
            }
        };
        if sent > 0
            && let Some((position, since)) = blocked.take()
        {
            self.classes[position].blocked.1 += monotonic_ns.saturating_sub(since);
        }
        let mut first = 0;
        for packet in pending.drain(..) {
            let class = &mut self.classes[packet.class];
            let taken = sent.saturating_sub(first).min(packet.frames);
            class.count(packet.frames, &lengths[first..first + taken]);
            if taken < packet.frames
                && blocked.is_none()
                && let Ok(Some(Stopped::WouldBlock)) = result
            {
                class.blocked.0 += 1;
                *blocked = Some((packet.class, monotonic_ns));
            }
            first += packet.frames;
        }
        *waiting = 0;
        result.map(drop).map_err(|source| self.system("sendmmsg", source))?;
        self.take_stamps(lane)
    }

    /// Reads the kernel's stamps of frames sent through a lane, if requested.
    fn take_stamps(&mut self, lane: usize) -> Result<(), GeneratorError> {
        let Some(times) = &mut self.after_stamp else { return Ok(()) };
        let taken = departures::take_stamps(&self.lanes[lane].socket, times);
        taken.map_err(|source| self.system("recvmsg(MSG_ERRQUEUE)", source))
    }

    fn system(&self, what: &'static str, source: io::Error) -> GeneratorError {
        GeneratorError::System { interface: self.interface.clone(), what, source }
    }

    fn progress(&self, now: Nanos) -> GeneratorProgress {
        GeneratorProgress {
            elapsed_s: now.0 as f64 / 1e9,
            sent_packets: self.classes.iter().map(|class| class.sent.0).sum(),
            sent_bytes: self.classes.iter().map(|class| class.sent.1).sum(),
        }
    }

    fn report(&self, duration_s: f64, unreached: Nanos) -> GeneratorReport {
        let mut lost = vec![0; self.classes.len()];
        for (source, &position) in self.class_of.iter().enumerate() {
            lost[position] += self.mix.lost(source as u32).packets;
        }
        let mut classes: Vec<ClassSent> = self
            .classes
            .iter()
            .zip(lost)
            .map(|(class, lost)| ClassSent {
                name: self.names.get(&class.id).cloned().unwrap_or_else(|| class.id.0.to_string()),
                class: class.id.0,
                offered_packets: class.offered.0,
                offered_bytes: class.offered.1,
                sent_packets: class.sent.0,
                sent_bytes: class.sent.1,
                fragmented_packets: class.fragmented.0,
                fragments: class.fragmented.1,
                refused_packets: class.refused,
                late_packets: class.late,
                lost_at_source_packets: lost,
                padded_packets: class.padded,
                blocked_sends: class.blocked.0,
                blocked_s: class.blocked.1 as f64 / 1e9,
            })
            .collect();
        classes.sort_by_key(|class| class.class);
        GeneratorReport {
            duration_s,
            run: self.run,
            unreached_s: unreached.0 as f64 / 1e9,
            departure_after_due_s: self.after_due.summary(),
            driver_after_stamp_s: self.after_stamp.as_ref().and_then(Times::summary),
            classes,
        }
    }
}

/// Returns the sources, with each greedy one replaced by a source of this constant rate.
fn offered(mut sources: Vec<SourceSpec>, greedy_rate: Rate) -> Vec<SourceSpec> {
    for source in &mut sources {
        if source.model == Model::Greedy {
            source.model = Model::cbr(greedy_rate);
        }
    }
    sources
}

/// Returns the sources, with pictures of MPEG video as one packet each.
fn whole_pictures(mut sources: Vec<SourceSpec>) -> Vec<SourceSpec> {
    for source in &mut sources {
        let mut model = &mut source.model;
        while let Model::Shaped(shaped) = model {
            model = &mut shaped.model;
        }
        if let Model::Mpeg(mpeg) = model {
            mpeg.whole_frames = true;
        }
    }
    sources
}

/// Returns the maximum number of fragments of a packet of `len` bytes of any of these flows, or why it cannot be cut.
fn most_fragments(templates: &[FrameTemplate], len: usize, mtu: usize) -> Result<usize, String> {
    let fragments = |template: &FrameTemplate| {
        let cut = template.cut(mtu).ok_or_else(|| {
            format!("only UDP over IP is sent as fragments, on an MTU that leaves room for headers and stamp; the MTU is {mtu} B")
        })?;
        if len > cut.max {
            return Err(format!("with these headers an IP datagram is {} B as one frame at most", cut.max));
        }
        Ok(template.fragments(len, cut))
    };
    let alike = |template: &FrameTemplate| template.cut(mtu) == templates[0].cut(mtu);
    match templates.iter().find(|template| !alike(template)) {
        Some(_) => Err("headers of flows of one class differ in length".to_owned()),
        None => fragments(&templates[0]),
    }
}

impl Class {
    /// Returns the template of the frame or datagram with this number, and its fragmentation if it is longer than a
    /// frame of the interface.
    fn template(&self, number: u32, len: u32, mtu: Option<usize>) -> (&FrameTemplate, Option<Cut>) {
        let template = &self.templates[number as usize % self.templates.len()];
        let mtu = mtu.filter(|_| len as usize > self.longest);
        (template, mtu.and_then(|mtu| template.cut(mtu)))
    }

    /// Number of frames for a packet of `len` bytes. All flows of a class have headers of one length.
    fn frames(&self, len: u32, mtu: Option<usize>) -> usize {
        match self.template(0, len, mtu) {
            (template, Some(cut)) => template.fragments(len as usize, cut),
            _ => 1,
        }
    }

    /// Writes the frames of a packet into slots of a number of bytes each, and adds their lengths to `lengths`.
    fn write(
        &self,
        packet: &Pending,
        (mtu, id): (Option<usize>, u32),
        stamp: &Stamp,
        (slots, stride): (&mut [u8], usize),
        lengths: &mut Vec<usize>,
    ) {
        let len = packet.len as usize;
        match self.template(stamp.sequence, packet.len, mtu) {
            (template, Some(cut)) => {
                template.write_fragments((len, cut), id, stamp, (slots, stride), |len| lengths.push(len));
            }
            (template, None) => {
                // This slot may have held a fragment before.
                if mtu.is_some() {
                    slots[..len].fill(0);
                }
                template.write(&mut slots[..len], stamp);
                lengths.push(len);
            }
        }
    }

    /// Counts a packet of `frames` frames, of which the kernel accepted those with the lengths `taken`.
    fn count(&mut self, frames: usize, taken: &[usize]) {
        if frames > 1 {
            self.fragmented.1 += taken.len() as u64;
        }
        if taken.len() == frames {
            self.sent.0 += 1;
            self.sent.1 += taken.iter().sum::<usize>() as u64;
            self.fragmented.0 += u64::from(frames > 1);
            return;
        }
        self.refused += 1;
        // Numbers count sent frames, so that the number of a refused frame is used again. A partly sent datagram keeps
        // its number: it counts as lost on the way.
        if taken.is_empty() {
            self.next = self.next.wrapping_sub(1);
        }
    }
}

impl Lane {
    /// Opens a lane with slots of a length.
    fn open(
        interface: &str,
        index: i32,
        priority: u32,
        (stride, slots): (usize, usize),
    ) -> Result<Self, GeneratorError> {
        let failed = |what| {
            move |source: io::Error| match source.raw_os_error() {
                Some(libc::EPERM | libc::EACCES) => GeneratorError::Permission { interface: interface.to_owned() },
                _ => GeneratorError::System { interface: interface.to_owned(), what, source },
            }
        };
        let socket = packet_socket::open().map_err(failed("socket"))?;
        if priority != 0 {
            sys::set_option(&socket, libc::SOL_SOCKET, libc::SO_PRIORITY, &(priority as libc::c_int))
                .map_err(failed("SO_PRIORITY"))?;
        }
        packet_socket::bind(&socket, index, 0).map_err(failed("bind"))?;
        Ok(Self {
            socket,
            pending: Vec::with_capacity(BATCH),
            waiting: 0,
            frames: vec![0; slots * stride],
            lengths: Vec::with_capacity(slots),
            blocked: None,
        })
    }
}

/// Reason why the kernel accepts no more frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stopped {
    /// The socket's buffer is full: a send would block.
    WouldBlock,
    /// The queue below it has dropped the frame.
    Dropped,
}

/// Sends one frame of each length from the slots of `stride` bytes in `frames`, at most [`BATCH`]. Returns the number
/// that the kernel accepted, and the reason for no more if it accepted none.
fn send_batch(
    socket: &OwnedFd,
    frames: &mut [u8],
    stride: usize,
    lengths: impl Iterator<Item = usize>,
) -> io::Result<(usize, Option<Stopped>)> {
    // SAFETY: all zeros are a valid `iovec` (empty) and a valid `mmsghdr` (no name, no buffers).
    let (mut vectors, mut messages): ([libc::iovec; BATCH], [libc::mmsghdr; BATCH]) =
        unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
    let mut count = 0;
    for (((frame, len), vector), message) in
        frames.chunks_exact_mut(stride).zip(lengths).zip(&mut vectors).zip(&mut messages)
    {
        *vector = libc::iovec { iov_base: frame[..len].as_mut_ptr().cast(), iov_len: len };
        message.msg_hdr.msg_iov = vector;
        message.msg_hdr.msg_iovlen = 1;
        count += 1;
    }
    loop {
        // SAFETY: the first `count` messages point to vectors, and those to slots of `frames` of at least their length;
        // all live and are not otherwise used during the call.
        let sent = unsafe {
            libc::sendmmsg(socket.as_raw_fd(), messages.as_mut_ptr(), count as libc::c_uint, libc::MSG_DONTWAIT as _)
        };
        match sys::check(sent) {
            Ok(sent) => return Ok((sent as usize, None)),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.raw_os_error() == Some(libc::EAGAIN) => return Ok((0, Some(Stopped::WouldBlock))),
            Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => return Ok((0, Some(Stopped::Dropped))),
            Err(error) => return Err(error),
        }
    }
}
