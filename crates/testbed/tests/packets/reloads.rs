//! A gateway under load that is reloaded again and again, in every way, over its control socket. Numbered frames of
//! eight flows pass meanwhile between two cables. No accepted frame is lost, doubled, or out of order within its flow.
//!
//! `FAIRLINK_RELOADS=N` and `FAIRLINK_FRAMES=N` default to 20 and 200,000:
//!
//! ```text
//! FAIRLINK_RELOADS=1000 FAIRLINK_FRAMES=10000000 cargo test --release -p fairlink-testbed --test packets -- reloads
//! ```
//!
//! Frames lost to an overloaded machine are counted separately: those that overflowed the kernel's buffer before the
//! gateway, those that the gateway shed before queueing, and those that overflowed the receiver's buffer.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use fairlink_config::{LinkFile, ReadOptions};
use fairlink_core::{Leniency, Nanos};
use fairlink_net::{
    Control, ControlError, Gateway, GatewayConfig, Headers, Processor, ReloadRequest, Reloaded, Wanted, control,
};
use fairlink_report::{ClassReport, DropCause};
use fairlink_testbed::{Generator, PrivateNamespace, Receiver, ReceiverConfig};
use fairlink_traffic::{Model, PacketSize};

use crate::cables::{cables, generator, rate};
use crate::support;
use crate::through::SetAtEnd;

pub(crate) fn main() -> ExitCode {
    support::main(&[(
        "reloads_of_every_kind_under_load_lose_double_and_reorder_nothing",
        reloads_of_every_kind_under_load,
    )])
}

/// Number of flows, each with its own class, by UDP ports from 5001 on.
const FLOWS: u16 = 8;
const FRAME: u32 = 100;
/// Frames per second of all flows together.
const LOAD: u64 = 48_000;
/// Offered load in bit/s. The link has twice that unless a reload reduces it.
const OFFERED: u64 = LOAD * FRAME as u64 * 8;

const SCHEDULERS: [&str; 9] = ["hls", "hvt", "htb", "drr", "wf2q+", "hfsc", "drr++", "sfq", "hpfq"];

fn number(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

/// Variable parts of a link file.
#[derive(Clone, Debug)]
struct Shape {
    /// Rotation of the guarantees among the flows.
    turn: u64,
    /// Number of classes below `top` rather than below the link.
    below_top: u16,
    /// Name of the last flow's class.
    last: &'static str,
    /// True if there is an additional class without traffic.
    extra: bool,
    scheduler: &'static str,
    buffer: u32,
}

impl Shape {
    fn name(&self, flow: u16) -> String {
        if flow == FLOWS { self.last.to_owned() } else { format!("flow{flow}") }
    }

    fn text(&self) -> String {
        let mut text = format!(
            "[link]\nrate = \"{}bit\"\nscheduler = \"{}\"\nmtu = \"1522B\"\ndefault = \"{}\"\n",
            2 * OFFERED,
            self.scheduler,
            self.name(1)
        );
        let share = OFFERED / 16;
        text += &format!("[[class]]\nname = \"top\"\nguarantee = \"{}bit\"\n", 16 * share);
        for flow in 1..=FLOWS {
            let guarantee = share * (1 + (self.turn + u64::from(flow)) % 2);
            let parent = if flow <= self.below_top { "parent = \"top\"\n" } else { "" };
            text += &format!(
                "[[class]]\nname = \"{}\"\n{parent}guarantee = \"{guarantee}bit\"\nbuffer = \"{}p\"\nmatch = \"udp dst port {}\"\n",
                self.name(flow),
                self.buffer,
                5000 + flow
            );
        }
        if self.extra {
            text += "[[class]]\nname = \"extra\"\nguarantee = \"10kbit\"\nbuffer = \"100p\"\nmatch = \"udp dst port 5999\"\n";
        }
        text
    }

    fn file(&self, moves: &[(&str, &str)]) -> Ask {
        let moves = moves.iter().map(|&(old, new)| (old.to_owned(), new.to_owned())).collect();
        Ask::File(self.text(), moves)
    }
}

/// A change to ask for on the control socket.
enum Ask {
    /// A link file, and leaves whose packets move.
    File(String, Vec<(String, String)>),
    Change(Wanted),
}

impl Ask {
    fn send(&self, path: &Path, dry_run: bool) -> Result<Reloaded, ControlError> {
        match self {
            Self::Change(wanted) => control::change(path, None, wanted, dry_run),
            Self::File(text, moves) => {
                let text = Some(("link.toml".to_owned(), text.clone()));
                let asked = ReloadRequest { link: None, text, moves: moves.clone(), dry_run };
                control::reload(path, &asked).map(|mut links| links.links.remove(0).reloaded)
            }
        }
    }
}

/// A request: a change, true in `dry_run` to only ask, and the expected error if it shall be refused.
struct Step {
    kind: &'static str,
    ask: Ask,
    dry_run: bool,
    refusal: Option<&'static str>,
}

/// Builds the step of this number and updates `shape` to the gateway's new state.
fn step(number: u64, shape: &mut Shape) -> Step {
    let done = |kind, ask| Step { kind, ask, dry_run: false, refusal: None };
    let change = |kind, wanted| done(kind, Ask::Change(wanted));
    let refused = |kind, ask, says| Step { kind, ask, dry_run: false, refusal: Some(says) };
    let round = number / 14;
    match number % 14 {
        0 => {
            shape.turn += 1;
            done("guarantees", shape.file(&[]))
        }
        // Below the offered load, so that packets are queued at the next steps.
        1 | 5 | 9 => change("link slower", Wanted::LinkRate { rate: rate(OFFERED * 3 / 4) }),
        2 => {
            shape.below_top = (shape.below_top + 3) % (FLOWS + 1);
            done("classes moved in the tree", shape.file(&[]))
        }
        3 => {
            shape.extra = !shape.extra;
            done(if shape.extra { "class added" } else { "class removed" }, shape.file(&[]))
        }
        4 => {
            shape.scheduler = SCHEDULERS[(round as usize + 1) % SCHEDULERS.len()];
            change("scheduler", Wanted::Scheduler { name: shape.scheduler.to_owned(), lenient: true })
        }
        6 => {
            // All packets of the class go to a new one, and so do later frames.
            let before = shape.last;
            shape.last = if before == "flow8" { "heir8" } else { "flow8" };
            done("class removed, packets moved", shape.file(&[(before, shape.last)]))
        }
        7 => {
            shape.buffer = if shape.buffer == 6_000 { 8_000 } else { 6_000 };
            done("buffers", shape.file(&[]))
        }
        8 => {
            let other = Shape { turn: shape.turn + 1, extra: !shape.extra, last: "nobody8", ..shape.clone() };
            Step { kind: "dry run", ask: other.file(&[]), dry_run: true, refusal: None }
        }
        10 => {
            let text = shape.text().replacen("guarantee = \"", "guarantee = \"9", 2);
            refused("refused: too much", Ask::File(text, Vec::new()), "link.toml:")
        }
        11 => refused("refused: heir", shape.file(&[("flow1", "flow2")]), "still there"),
        12 => {
            let rate = rate(OFFERED / 32 * (1 + round % 2));
            change("rate of a class", Wanted::Guarantee { class: shape.name(2), rate })
        }
        _ => change("link at full rate", Wanted::LinkRate { rate: rate(2 * OFFERED) }),
    }
}

/// Results of all steps.
#[derive(Default)]
struct Tally {
    done: BTreeMap<&'static str, u64>,
    /// Packets that were queued when a change was committed, and the commits that found some.
    kept: u64,
    commits_with_packets: u64,
    commits: u64,
    longest_s: f64,
    /// Changes that the data thread did not begin in time.
    late: u64,
}

impl Tally {
    fn count(&mut self, step: &Step, outcome: Result<Reloaded, ControlError>) {
        match (outcome, step.refusal) {
            (Ok(reloaded), None) => {
                assert_eq!(reloaded.committed.is_none(), step.dry_run, "{}", step.kind);
                if let Some(done) = reloaded.committed {
                    assert_eq!((done.removed_packets, done.dropped_packets), (0, 0), "{}", step.kind);
                    self.commits += 1;
                    self.kept += done.kept_packets;
                    self.commits_with_packets += u64::from(done.kept_packets > 0);
                    self.longest_s = self.longest_s.max(done.took_s);
                }
            }
            (Err(ControlError::Refused { message }), None) if message.contains("did not answer within") => {
                self.late += 1;
            }
            (Err(error), Some(says)) => assert!(error.to_string().contains(says), "{}: {error}", step.kind),
            (outcome, _) => panic!("{}: {outcome:?}", step.kind),
        }
        *self.done.entry(step.kind).or_default() += 1;
    }
}

fn reloads_of_every_kind_under_load(_: &PrivateNamespace) {
    let (reloads, frames) = (number("FAIRLINK_RELOADS", 20), number("FAIRLINK_FRAMES", 200_000));
    cables();
    let mut shape =
        Shape { turn: 0, below_top: 4, last: "flow8", extra: false, scheduler: SCHEDULERS[0], buffer: 6_000 };
    let options = ReadOptions { leniency: Leniency::Ignore, scheduler: None };
    let link = LinkFile::from_text("link.toml", shape.text(), &options).unwrap();
    let mut config = GatewayConfig::from_link_file(&link, "in", "out").unwrap();
    config.leniency = Leniency::Ignore;
    config.processor = Processor::Any;
    config.drain = Some(Nanos::from_secs(30));
    // A late data thread makes up for it, so that queues stay short.
    config.catch_up = Some(Nanos::from_secs(1));
    let gateway = Gateway::open(config).unwrap();
    let socket = Socket::new();
    let control = Control::start(&socket.0, gateway.remote()).unwrap();

    let sources: Vec<_> = (1..=FLOWS)
        .map(|flow| {
            let model = Model::cbr(rate(OFFERED / u64::from(FLOWS)));
            (u32::from(flow), model, PacketSize::Fixed(FRAME), Headers::udp(5000 + flow))
        })
        .collect();
    // It is stopped when it has sent enough; a slow machine may take longer.
    let millis = 20 * (1000 * frames / LOAD + 1000);
    let generator = Generator::open(generator(&sources, millis, OFFERED)).unwrap();
    let receiver = Receiver::open(ReceiverConfig::new("sink")).unwrap();
    let [over, enough, quiet] = [(); 3].map(|()| AtomicBool::new(false));
    let generated = AtomicU64::new(0);
    let mut tally = Tally::default();
    let (stats, sent, received) = std::thread::scope(|scope| {
        let _end = SetAtEnd([&over, &enough, &quiet]);
        let running = scope.spawn(|| gateway.run(&over).unwrap());
        let receiving = scope.spawn(|| receiver.run(&quiet, |_| ()).unwrap());
        let sending = scope.spawn(|| {
            generator.run(&enough, |progress| generated.store(progress.sent_packets, Ordering::Relaxed)).unwrap()
        });
        let pause = Duration::from_micros(1_000_000 * frames / LOAD / (reloads + 1));
        for number in 0..reloads {
            std::thread::sleep(pause);
            let step = step(number, &mut shape);
            let outcome = step.ask.send(control.path(), step.dry_run);
            tally.count(&step, outcome);
        }
        // Queued packets leave at the full rate.
        control::change(control.path(), None, &Wanted::LinkRate { rate: rate(2 * OFFERED) }, false).unwrap();
        while generated.load(Ordering::Relaxed) < frames && !sending.is_finished() {
            std::thread::sleep(Duration::from_millis(10));
        }
        enough.store(true, Ordering::Relaxed);
        let sent = sending.join().unwrap();
        std::thread::sleep(Duration::from_millis(300));
        over.store(true, Ordering::Relaxed);
        let stats = running.join().unwrap();
        std::thread::sleep(Duration::from_millis(300));
        quiet.store(true, Ordering::Relaxed);
        (stats, sent, receiving.join().unwrap())
    });
    drop(control);

    let offered: u64 = sent.classes.iter().map(|class| class.sent_packets).sum();
    let sum = |of: fn(&fairlink_testbed::Delivered) -> u64| received.classes.iter().map(of).sum::<u64>();
    let arrived = sum(|class| class.received_packets);
    let [doubled, reordered] = [sum(|class| class.duplicate_packets), sum(|class| class.reordered_packets)];
    let causes = [DropCause::Shed, DropCause::ShedEarly];
    let shed = |class: &ClassReport| causes.iter().map(|&cause| class.counts().dropped_for(cause).packets).sum::<u64>();
    let shed: u64 = stats.leaves().chain(&stats.gateway().removed).map(shed).sum();
    let accepted = stats.counts().received.packets - shed;
    let lost = stats.counts().dropped.packets + stats.counts().queued.packets - shed;
    println!(
        "{reloads} reloads: {} changes, {} of them with packets queued, {} on average, held up for at most {:.0} us; {} late",
        tally.commits,
        tally.commits_with_packets,
        tally.kept / tally.commits.max(1),
        tally.longest_s * 1e6,
        tally.late
    );
    tally.done.iter().for_each(|(kind, times)| println!("  {times:>4} {kind}"));
    println!(
        "{offered} frames sent, {accepted} accepted, {arrived} arrived; {lost} lost by the gateway, {doubled} doubled, {reordered} out of order; \
         before it {} lost in the kernel and {shed} shed, behind it {} in the receiver's buffer",
        stats.gateway().kernel_dropped_packets,
        received.socket_drops
    );
    assert!(stats.gateway().balanced, "{stats}");
    assert_eq!(lost, 0, "{stats}");
    assert_eq!(stats.counts().sent.packets, accepted);
    assert_eq!(accepted + shed + stats.gateway().unreceived_packets(), offered);
    assert_eq!(arrived + received.socket_drops, accepted);
    assert_eq!((doubled, reordered), (0, 0));
    assert_eq!(stats.gateway().generation, tally.commits + 1);
    assert!(offered >= frames || sent.unreached_s > 0.0, "{offered} sent");
    assert!(tally.commits_with_packets > 0, "no change found a packet in a queue");
}

/// A place for a control socket, removed at the end.
struct Socket(PathBuf);

impl Socket {
    fn new() -> Self {
        Self(std::env::temp_dir().join(format!("fairlink-reloads-{}", std::process::id())))
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
