//! Changes of a working data path, at random, over interfaces in memory: no packet is lost, doubled, or out of order.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::rc::Rc;

use fairlink_config::link::ReadOptions;
use fairlink_core::{Amount, Members, Metered, Pacer};
use proptest::prelude::*;
use proptest::strategy::{Strategy, ValueTree};

use super::*;
use crate::gateway::account::Snapshot;
use crate::gateway::account::{DelayTable, Observation};
use crate::gateway::links::Links;
use crate::gateway::remote::Publisher;
use crate::io::interface::Offloads;
use crate::io::virtual_link::VirtualLink;
use crate::wire::frame::{FrameTemplate, Headers, Stamp};
use crate::wire::virtio::{JOINED_UDP, VirtioHeader};

const NAMES: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];
const SCHEDULERS: [&str; 13] =
    ["hls", "hvt", "htb", "hfsc", "drr", "fifo", "wfq", "wf2q+", "sfq", "hdrr", "drr++", "hpfq", "fq-lto"];

#[derive(Clone, Debug, Default)]
struct Hands(Rc<Cell<u64>>);

impl Clock for Hands {
    fn now(&self) -> Nanos {
        Nanos(self.0.get())
    }
}

/// A class of a random file.
#[derive(Clone, Debug)]
struct Class {
    name: usize,
    /// The place of its parent in the file, if it has one.
    parent: Option<usize>,
    weight: u32,
    buffer: u32,
    queue: u8,
    /// Its hosts share it, told apart by one of two keys: at least as many as exist, frames without a key included. With fewer, a host that loses
    /// its place would overtake itself.
    hosts: Option<(bool, u8)>,
    ceiling: bool,
}

#[derive(Clone, Debug)]
struct File {
    mbit: u32,
    scheduler: usize,
    /// Time of the pieces of super-frames, in ms.
    gso: Option<u32>,
    buffer: Option<u32>,
    classes: Vec<Class>,
}

impl File {
    fn port(name: &str) -> u16 {
        5000 + u16::from(name.as_bytes()[0])
    }

    fn text(&self) -> String {
        let mut text =
            format!("[link]\nrate = \"{}mbit\"\nscheduler = \"{}\"\n", self.mbit, SCHEDULERS[self.scheduler]);
        if let Some(packets) = self.buffer {
            let _ = writeln!(text, "buffer = \"{packets}p\"");
        }
        if let Some(millis) = self.gso {
            let _ = writeln!(text, "gso = \"{millis}ms\"");
        }
        let is_parent = |place| self.classes.iter().any(|class| class.parent == Some(place));
        let default = (0..self.classes.len()).find(|&place| !is_parent(place)).unwrap();
        let _ = writeln!(text, "default = \"{}\"", NAMES[self.classes[default].name]);
        for (place, class) in self.classes.iter().enumerate() {
            let name = NAMES[class.name];
            let _ = writeln!(text, "[[class]]\nname = \"{name}\"\nweight = {}", class.weight);
            if let Some(parent) = class.parent {
                let _ = writeln!(text, "parent = \"{}\"", NAMES[self.classes[parent].name]);
            }
            if class.ceiling {
                let _ = writeln!(text, "ceiling = \"{}kbit\"", 500 * self.mbit);
            }
            if !is_parent(place) {
                let queue = ["fifo", "fifo", "codel", "fq_codel"][usize::from(class.queue)];
                let _ = writeln!(text, "buffer = \"{}p\"\nqueue = \"{queue}\"", class.buffer);
                if let Some((by_source, most)) = class.hosts {
                    let _ = writeln!(text, "per = \"{}\"\nhosts = {most}", if by_source { "src-ip" } else { "dst-ip" });
                }
                let _ = writeln!(text, "match = [\"udp dst port {}\"]", Self::port(name));
            }
        }
        text
    }
}

fn file() -> impl Strategy<Value = File> {
    let class = (
        any::<prop::sample::Index>(),
        prop::option::of(any::<prop::sample::Index>()),
        1..9u32,
        1..40u32,
        (0..4u8, prop::option::weighted(0.3, (any::<bool>(), 4..7u8))),
        any::<bool>(),
    );
    let names = Just((0..NAMES.len()).collect::<Vec<_>>()).prop_shuffle();
    let classes = prop::collection::vec(class, 1..NAMES.len());
    let gso = prop::option::of(1..20u32);
    (names, classes, 1..20u32, 0..SCHEDULERS.len(), prop::option::of(1..60u32), gso).prop_map(
        |(names, classes, mbit, scheduler, buffer, gso)| {
            let made =
                classes.into_iter().enumerate().map(|(place, (_, parent, weight, buffer, (queue, hosts), ceiling))| {
                    Class {
                        name: names[place],
                        parent: parent.filter(|_| place > 0).map(|parent| parent.index(place)),
                        weight,
                        buffer,
                        queue,
                        hosts,
                        ceiling,
                    }
                });
            File { mbit, scheduler, buffer, gso, classes: made.collect() }
        },
    )
}

#[derive(Clone, Debug)]
enum Op {
    Arrive {
        class: usize,
        flow: u8,
        packets: u8,
        len: u16,
    },
    /// As many packets as a super-frame.
    Joined {
        class: usize,
        flow: u8,
        packets: u8,
        len: u16,
    },
    Turn {
        micros: u32,
    },
    /// The output accepts this many more packets, or any number.
    Room(Option<u8>),
    /// The output loses its carrier, or has it again.
    Unplug(bool),
    /// The output accepts no longer frames than this, or any.
    Longest(Option<u16>),
    /// Malformed frames: cut short, too long, or noise.
    Odd {
        byte: u8,
        len: u16,
    },
    /// The output holds frames for this many turns.
    Lag(u8),
    Reload {
        file: File,
        moves: Vec<(usize, usize)>,
        dry_run: bool,
    },
    Rate {
        class: Option<usize>,
        kbit: u32,
        ceiling: bool,
    },
    Scheduler {
        name: usize,
        lenient: bool,
    },
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (0..NAMES.len(), 0..3u8, 1..30u8, 60..1500u16)
            .prop_map(|(class, flow, packets, len)| Op::Arrive { class, flow, packets, len }),
        3 => (0..NAMES.len(), 0..3u8, 1..60u8, 80..1500u16)
            .prop_map(|(class, flow, packets, len)| Op::Joined { class, flow, packets, len }),
        8 => (0..20_000u32).prop_map(|micros| Op::Turn { micros }),
        1 => prop::option::weighted(0.3, 0..20u8).prop_map(Op::Room),
        1 => prop::bool::weighted(0.2).prop_map(Op::Unplug),
        1 => prop::option::weighted(0.3, 60..1500u16).prop_map(Op::Longest),
        1 => (any::<u8>(), 0..5000u16).prop_map(|(byte, len)| Op::Odd { byte, len }),
        1 => (0..5u8).prop_map(Op::Lag),
        3 => (file(), prop::collection::vec((0..NAMES.len(), 0..NAMES.len()), 0..2), any::<bool>())
            .prop_map(|(file, moves, dry_run)| Op::Reload { file, moves, dry_run }),
        1 => (prop::option::of(0..NAMES.len()), 1..30_000u32, any::<bool>())
            .prop_map(|(class, kbit, ceiling)| Op::Rate { class, kbit, ceiling }),
        1 => (0..SCHEDULERS.len(), any::<bool>()).prop_map(|(name, lenient)| Op::Scheduler { name, lenient }),
    ]
}

/// A gateway without a thread.
struct World {
    present: RunningConfig,
    driver: Driver<AnyScheduler>,
    data_path: DataPath<VirtualLink, VirtualLink, Hands>,
    hands: Hands,
    now: u64,
    /// By name: the class of its frames, and how often that has changed.
    classes: BTreeMap<&'static str, (String, u32)>,
    /// By name and flow: the next sequence number.
    next: BTreeMap<(&'static str, u8), u32>,
    arrived: u64,
    /// Frames that have left, and the last of them by flow and class.
    left: u64,
    last: BTreeMap<u32, u32>,
}

/// Frames of the pool, and those that there is room for: enough for pieces of super-frames, and for frames alone.
const ROOMY: [u32; 2] = [3000, 12_000];
const TIGHT: [u32; 2] = [600, 2500];

impl World {
    fn new(file: &File, [frames, room]: [u32; 2]) -> Self {
        let options = ReadOptions { leniency: Leniency::Ignore, scheduler: None };
        let link = LinkFile::parse("first.toml", file.text(), &options).unwrap();
        let mut config = GatewayConfig::from_link_file(&link, "in", "out").unwrap();
        config.leniency = Leniency::Ignore;
        let hands = Hands::default();
        let pool = FramePool::with_room(frames, room, 1600).unwrap();
        let labels = Labels::new(&config.tree).unwrap();
        let input = Interface {
            name: "in".to_owned(),
            index: 1,
            mtu: 1500,
            addresses: Vec::new(),
            answers_for_others: false,
            master: None,
            joined_to: None,
            driver: String::new(),
            offloads: Offloads::default(),
        };
        let mut notes = Vec::new();
        fit_largest_packet(&mut config, &input, &mut notes).unwrap();
        let delays = DelayTable::new(&config.tree);
        let generation = Generation::new(&config, delays.clone(), MemoryBound::default(), frames, 0);
        let present = RunningConfig::new(
            &config,
            input,
            Footprint::of_packet_sockets(1600),
            &pool,
            Arc::new(generation),
            &labels,
            MonotonicClock::SHARED,
        );
        let scheduler = config.scheduler.build(&config.tree, config.leniency, Members::new()).unwrap();
        let data_path = DataPath::new(
            pool,
            VirtualLink::default(),
            VirtualLink::default(),
            hands.clone(),
            Classifier::new(&config.matches, config.default_class),
            labels,
            config.overhead,
            config.lengths(),
            EdgeCounters::new(delays),
            QueueLengths::new(&config.tree, config.longest_frame),
            Splitter::new(config.tree.len()),
            false,
        );
        let pacer = Pacer::new(config.tree.link().rate, Nanos(10_000_000));
        let driver = Driver::new(Metered::new(scheduler, &config.tree).unwrap(), pacer).unwrap();
        Self {
            present,
            driver,
            data_path,
            hands,
            now: 0,
            classes: BTreeMap::new(),
            next: BTreeMap::new(),
            arrived: 0,
            left: 0,
            last: BTreeMap::new(),
        }
    }

    /// A frame of a flow arrives. Within a flow, frames of one class have an order.
    fn arrive(&mut self, name: &'static str, flow: u8, len: u16) {
        let frame = self.frame(name, flow, len);
        self.data_path.input.arrive(frame);
    }

    /// A super-frame of this many packets of a flow arrives.
    fn arrive_joined(&mut self, name: &'static str, flow: u8, len: u16, packets: u16) {
        let mut joined = self.frame(name, flow, len);
        for _ in 1..packets {
            joined.extend(&self.frame(name, flow, len)[42..]);
        }
        let header = VirtioHeader { kind: JOINED_UDP, segment: len - 42, ..VirtioHeader::default() };
        self.data_path.input.arrive_joined(joined, header);
    }

    /// Makes the next frame of a flow.
    fn frame(&mut self, name: &'static str, flow: u8, len: u16) -> Vec<u8> {
        let port = File::port(name);
        let epoch = self.classes.get(name).map_or(0, |&(_, epoch)| epoch);
        let sequence = self.next.entry((name, flow)).or_default();
        let mut frame = vec![0; usize::from(len).max(80)];
        // A stamp has 24 bits for it.
        let class = ClassId((u32::from(port) & 7) << 21 | u32::from(flow) << 19 | epoch & 0x7_ffff);
        let stamp = Stamp { run: 0, class, sequence: *sequence, monotonic_ns: 0, realtime_us: 0 };
        FrameTemplate::new(&Headers::udp(port)).write(&mut frame, &stamp);
        // The source port tells flows apart, and addresses their hosts.
        frame[35] = flow;
        (frame[29], frame[33]) = (flow, 10 + flow);
        *sequence += 1;
        self.arrived += 1;
        frame
    }

    /// Notes the class of the frames of each name.
    fn note_classes(&mut self) {
        let config = &self.present.config;
        for name in NAMES {
            let own = find(config, name).filter(|&class| config.tree.is_leaf(class));
            let class = config.name(own.unwrap_or(config.default_class));
            let (known, epoch) = self.classes.entry(name).or_insert_with(|| (class.clone(), 0));
            if *known != class {
                (*known, *epoch) = (class, *epoch + 1);
            }
        }
    }

    fn turn(&mut self) {
        self.hands.0.set(self.now);
        self.data_path.input.turn += 1;
        self.data_path.output.turn += 1;
        let _ = self.data_path.turn(Nanos(self.now), &mut self.driver).unwrap();
    }

    fn change(&mut self, wanted: &Wanted, dry_run: bool) -> Result<Reloaded, ReloadError> {
        self.serve(Request::Wanted(wanted), dry_run)
    }

    /// Reads a link file and applies it, with `moves`.
    fn reload(&mut self, text: String, moves: &[(String, String)], dry_run: bool) -> Result<Reloaded, ReloadError> {
        let link = self.present.read(Some(&("link.toml".to_owned(), text)))?;
        self.serve(Request::Link { link: &link, moves }, dry_run)
    }

    fn serve(&mut self, request: Request<'_>, dry_run: bool) -> Result<Reloaded, ReloadError> {
        let Self { present, driver, data_path, now, .. } = self;
        let changed = present.draft(request).and_then(|draft| match dry_run {
            true => Ok(draft.reloaded),
            false => Ok(present.take(draft, |mut order| {
                order.commit(Nanos(*now), driver, data_path);
                Ok(order)
            })?),
        });
        self.note_classes();
        changed
    }

    /// Checks the frames that have left: those of one flow in the order of arrival, each once.
    fn look_at_what_left(&mut self) {
        for frame in self.data_path.output.sent.drain(..) {
            self.left += 1;
            // Malformed frames have no stamp.
            let Some(stamp) = Stamp::read(&frame) else { continue };
            if let Some(before) = self.last.insert(stamp.class.0, stamp.sequence) {
                assert!(before < stamp.sequence, "flow {:x}: {} after {before}", stamp.class.0, stamp.sequence);
            }
        }
    }

    /// Returns received, sent, dropped and queued packets; panics if the account does not balance.
    fn check(&self) -> [u64; 4] {
        let Self { data_path, driver, present, .. } = self;
        let scheduler = driver.scheduler();
        let tree = &present.config.tree;
        let name = |class| present.config.name(class);
        let mut snapshot = Snapshot::new(Arc::clone(&present.generation));
        snapshot.copy(0..tree.len(), Nanos(self.now), data_path, scheduler);
        snapshot.gateway.pool_agrees = data_path.pool_agrees(scheduler.backlog().packets);
        let stats = Observation::new(Arc::new(snapshot)).stats(None);
        assert!(stats.gateway().balanced, "{stats:?}");
        // Delays go on with their classes.
        assert_eq!(present.generation.delays.all.tally().packets(), stats.counts().sent.packets);
        for class in stats.classes.iter().filter(|class| class.leaf) {
            let delays = &present.generation.delays.of[find(&present.config, &class.name).unwrap().index()];
            assert_eq!(delays.as_ref().unwrap().tally().packets(), class.counts().sent.packets, "{}", class.name);
        }
        let totals = [stats.counts().received, stats.counts().sent, stats.counts().dropped, stats.counts().queued];
        for &leaf in tree.leaves() {
            let first = data_path.queues.packets(leaf) - u64::from(data_path.queues.further(leaf));
            assert_eq!(first, scheduler.class_backlog(leaf).packets, "{}", name(leaf));
        }
        assert_eq!(scheduler.check_invariants(), Ok(()));
        totals.map(|amount: Amount| amount.packets)
    }
}

fn run(first: &File, ops: &[Op]) {
    let mut world = World::new(first, ROOMY);
    world.note_classes();
    let mut before = [0; 4];
    for op in ops {
        before = step(&mut world, op, before);
    }
    end(&mut world);
}

/// Makes one step, and checks that the account balances and has not decreased.
fn step(world: &mut World, op: &Op, before: [u64; 4]) -> [u64; 4] {
    match op {
        Op::Arrive { class, flow, packets, len } => {
            (0..*packets).for_each(|_| world.arrive(NAMES[*class], *flow, *len));
            // They get their classes before these change.
            world.turn();
            assert!(world.data_path.input.incoming.is_empty());
        }
        Op::Joined { class, flow, packets, len } => {
            let packets = u16::from(*packets).min(65_000 / (len - 42));
            world.arrive_joined(NAMES[*class], *flow, *len, packets);
            for _ in 0..2 {
                world.turn();
            }
        }
        Op::Turn { micros } => {
            world.now += u64::from(*micros) * 1_000;
            world.turn();
        }
        Op::Unplug(unplugged) => world.data_path.output.unplugged = *unplugged,
        Op::Longest(longest) => world.data_path.output.longest = longest.map(usize::from),
        Op::Odd { byte, len } => {
            world.arrived += 1;
            world.data_path.input.incoming.push_back(vec![*byte; usize::from(*len)]);
            world.turn();
        }
        Op::Lag(turns) => world.data_path.output.lag = u64::from(*turns),
        Op::Room(room) => world.data_path.output.room = room.map(usize::from),
        Op::Reload { file, moves, dry_run } => {
            let moves: Vec<_> = moves.iter().map(|&(a, b)| (NAMES[a].to_owned(), NAMES[b].to_owned())).collect();
            refusal(world.reload(file.text(), &moves, *dry_run), *dry_run);
        }
        Op::Rate { class, kbit, ceiling } => {
            let rate = Rate::from_bps(u64::from(*kbit) * 1_000).unwrap();
            let wanted = match (class.map(|class| NAMES[class].to_owned()), ceiling) {
                (None, _) => Wanted::LinkRate { rate },
                (Some(class), false) => Wanted::Guarantee { class, rate },
                (Some(class), true) => Wanted::Ceiling { class, rate },
            };
            refusal(world.change(&wanted, false), false);
        }
        Op::Scheduler { name, lenient } => {
            let wanted = Wanted::Scheduler { name: SCHEDULERS[*name].to_owned(), lenient: *lenient };
            refusal(world.change(&wanted, false), false);
        }
    }
    world.look_at_what_left();
    let now = world.check();
    for (place, (now, before)) in now.iter().zip(before).enumerate().take(3) {
        assert!(*now >= before, "{place}: {now} after {before}");
    }
    now
}

/// Runs until every accepted frame has left or was dropped.
fn end(world: &mut World) {
    world.data_path.output.room = None;
    world.data_path.output.longest = None;
    world.data_path.output.unplugged = false;
    for _ in 0..100_000 {
        world.now += 10_000_000;
        world.turn();
        let split = world.data_path.splitter.is_empty();
        if split && world.data_path.input.incoming.is_empty() && world.driver.scheduler().backlog().packets == 0 {
            break;
        }
    }
    world.now += 10_000_000;
    world.turn();
    let [received, sent, dropped, queued] = world.check();
    assert_eq!((received, queued), (world.arrived, 0));
    assert_eq!(received, sent + dropped);
    world.look_at_what_left();
    assert_eq!(sent, world.left);
}

/// Checks that a refused change says why, and that an accepted one is committed unless it was a dry run.
fn refusal(changed: Result<Reloaded, ReloadError>, dry_run: bool) {
    match changed {
        Ok(reloaded) => assert_eq!(reloaded.committed.is_none(), dry_run),
        Err(error) => assert!(error.to_string().len() > 10, "{error}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn changes_at_random_lose_double_and_reorder_nothing(first in file(), ops in prop::collection::vec(op(), 1..120)) {
        run(&first, &ops);
    }
}

/// Simulated minutes of the test below, unless FAIRLINK_SIMULATED_HOURS is set.
const MINUTES: u64 = 20;

#[test]
fn for_hours_of_random_operations_no_account_breaks() {
    let hours: Option<u64> = std::env::var("FAIRLINK_SIMULATED_HOURS").ok().and_then(|hours| hours.parse().ok());
    let minutes = hours.map_or(MINUTES, |hours| 60 * hours);
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let (ops, first) = (op().boxed(), file().new_tree(&mut runner).unwrap().current());
    let mut world = World::new(&first, ROOMY);
    world.note_classes();
    let (mut before, mut steps) = ([0; 4], 0u64);
    while world.now < minutes * 60_000_000_000 {
        let op = ops.new_tree(&mut runner).unwrap().current();
        before = step(&mut world, &op, before);
        // The generator's turns are short; most of the time a link has little to do.
        world.now += if steps.is_multiple_of(50) { 5_000_000_000 } else { 0 };
        steps += 1;
    }
    let generation = world.present.generation.number;
    end(&mut world);
    println!(
        "{minutes} simulated minutes: {steps} operations, {generation} changes, {} frames in, {} out",
        world.arrived, world.left
    );
    assert!(generation > minutes / 2);
}

fn simple(classes: &[(&str, u32)], scheduler: &str, mbit: u32) -> String {
    let mut text =
        format!("[link]\nrate = \"{mbit}mbit\"\nscheduler = \"{scheduler}\"\ndefault = \"{}\"\n", classes[0].0);
    for &(name, kbit) in classes {
        let port = File::port(name);
        let _ = writeln!(
            text,
            "[[class]]\nname = \"{name}\"\nguarantee = \"{kbit}kbit\"\nbuffer = \"50p\"\nmatch = [\"udp dst port {port}\"]"
        );
    }
    text
}

fn world(text: &str) -> World {
    let file = File {
        mbit: 1,
        scheduler: 0,
        buffer: None,
        gso: None,
        classes: vec![Class { name: 0, parent: None, weight: 1, buffer: 1, queue: 0, hosts: None, ceiling: false }],
    };
    let mut world = World::new(&file, TIGHT);
    world.reload(text.to_owned(), &[], false).unwrap();
    world
}

#[test]
fn a_refused_change_says_where_and_changes_nothing() {
    let mut world = world(&simple(&[("a", 600), ("b", 400)], "hls", 1));
    world.arrive("a", 0, 500);
    world.turn();
    let (account, generation) = (world.check(), world.present.generation.number);
    let refused = |world: &mut World, refused: Result<Reloaded, ReloadError>, says: &str| {
        let said = refused.unwrap_err().to_string();
        assert!(said.contains(says), "{says}: {said}");
        assert_eq!((world.check(), world.present.generation.number), (account, generation));
    };
    let only = || simple(&[("a", 1)], "hls", 1);
    let move_to = |old: &str, new: &str| vec![(old.to_owned(), new.to_owned())];
    for (text, moves, says) in [
        ("[link]\nrate = \"1mbit\"\n[[class]]\nname = \"a\"\nguarantee = \"2mbit\"\n".to_owned(), vec![], "link.toml:"),
        (simple(&[("a", 600), ("a", 400)], "hls", 1), vec![], "link.toml:"),
        (simple(&[("a", 600)], "hls", 1).replace("default = \"a\"", "default = \"x\""), vec![], "link.toml:4"),
        (simple(&[("a", 600)], "hls", 1).replace("50p", "4000p"), vec![], "room for 2500"),
        (only(), move_to("b", "c"), "there is no class c after"),
        (only(), move_to("a", "a"), "a is still there"),
        ("{".to_owned(), vec![], "link.toml:1"),
    ] {
        let outcome = world.reload(text, &moves, false);
        refused(&mut world, outcome, says);
    }
    for (wanted, says) in [
        (Wanted::Guarantee { class: "x".to_owned(), rate: Rate::MIN }, "there is no class x"),
        (Wanted::Guarantee { class: "a".to_owned(), rate: Rate::from_bps(700_000).unwrap() }, "the link has 1 Mbit/s"),
        (Wanted::Scheduler { name: "hsl".to_owned(), lenient: false }, "hls"),
    ] {
        let outcome = world.change(&wanted, false);
        refused(&mut world, outcome, says);
    }
}

#[test]
fn links_without_a_fleet_take_a_file_together_or_not_at_all_and_one_alone_by_its_name() {
    let [mut one, two] = ["one", "two"].map(|name| {
        let mut world = world(&simple(&[("a", 600)], "hls", 1));
        world.present.nominal.link_name = Some(name.to_owned());
        let generation = Arc::clone(&world.present.generation);
        Publisher::from_config(world.present, generation)
    });
    let links = Links::new(vec![("one".to_owned(), one.remote()), ("two".to_owned(), two.remote())]);
    let file = |rates: &[(&str, u32)]| -> String {
        let link = |&(name, mbit): &(&str, u32)| {
            let class = "[[link.class]]\nname = \"a\"\nguarantee = \"600kbit\"\nmatch = \"any\"\n";
            let ends = format!("in = \"{name}-in\"\nout = \"{name}-out\"\n");
            format!("[[link]]\nname = \"{name}\"\n{ends}rate = \"{mbit}mbit\"\ndefault = \"a\"\n{class}")
        };
        rates.iter().map(link).collect()
    };
    let reload = |text: String, link: Option<&str>, moves: &[(&str, &str)], dry_run: bool| {
        let moves = moves.iter().map(|&(old, new)| (old.to_owned(), new.to_owned())).collect();
        let text = Some(("links.toml".to_owned(), text));
        links.reload(&ReloadRequest { link: link.map(str::to_owned), text, moves, dry_run })
    };
    let rates = |links: &ReloadedLinks| -> Vec<(String, [u64; 2])> {
        links.links.iter().map(|link| (link.link.clone(), link.reloaded.link_bps)).collect()
    };
    let both = file(&[("one", 2), ("two", 3)]);
    let foreseen = reload(both.clone(), None, &[], true).unwrap();
    assert!(!foreseen.committed);
    let [first, second] =
        [("one", 2_000_000), ("two", 3_000_000)].map(|(link, bps)| (link.to_owned(), [1_000_000, bps]));
    assert_eq!(rates(&foreseen), [first, second.clone()]);
    assert_eq!(rates(&reload(both.clone(), Some("two"), &[], true).unwrap()), [second]);
    for (text, link, moves, says) in [
        (file(&[("one", 2)]), None, &[][..], "link two: the file has no link \"two\"; there are: one"),
        (both.replace("3mbit", "500kbit"), None, &[], "links.toml:"),
        (both.clone(), None, &[("z", "a")], "there is no class z before the change"),
        (both.clone(), Some("three"), &[], "there is no link \"three\""),
    ] {
        let refused = reload(text, link, moves, false).unwrap_err();
        assert!(refused.contains(says), "{says}: {refused}");
    }
    // The first data thread commits, the second has ended.
    drop(two);
    let committing = std::thread::spawn(move || {
        loop {
            if let Some(order) = one.take_order() {
                one.order_done(order);
                return one;
            }
            std::thread::yield_now();
        }
    });
    let half = reload(both, None, &[], false).unwrap_err();
    let _one = committing.join().unwrap();
    assert!(half.starts_with("link two: ") && half.ends_with("; changed before it: one"), "{half}");
}

#[test]
fn leniency_asked_for_with_a_scheduler_lasts_until_the_next_file() {
    let mut world = world(&simple(&[("a", 600), ("b", 400)], "hls", 1));
    (world.present.leniency, world.present.nominal.leniency) = (Leniency::Refuse, Leniency::Refuse);
    // The round robin has no ceilings.
    let limited =
        simple(&[("a", 600), ("b", 400)], "hls", 1).replace("name = \"a\"", "name = \"a\"\nceiling = \"900kbit\"");
    world.reload(limited.clone(), &[], false).unwrap();
    let drr = |lenient| Wanted::Scheduler { name: "drr".to_owned(), lenient };
    assert!(world.change(&drr(false), false).unwrap_err().to_string().contains("ceiling"));
    assert!(!world.change(&drr(true), false).unwrap().notes.is_empty());
    // A changed rate is no new file: the scheduler stays.
    world.change(&Wanted::LinkRate { rate: Rate::from_bps(1_500_000).unwrap() }, false).unwrap();
    let refused = world.reload(limited.replace("hls", "drr"), &[], false).unwrap_err().to_string();
    assert!(refused.contains("ceiling"), "{refused}");
    world.reload(limited.clone(), &[], false).unwrap();
    assert_eq!(world.present.config.leniency, Leniency::Refuse);
    assert!(world.change(&drr(false), false).is_err());
    // The next file may be that of all links of the process.
    world.change(&drr(true), false).unwrap();
    let link = LinkFile::from_text("links.toml", limited, &ReadOptions::default()).unwrap();
    world.serve(Request::Link { link: &Arc::new(link), moves: &[] }, false).unwrap();
    assert_eq!(world.present.config.leniency, Leniency::Refuse);
    assert!(world.change(&drr(false), false).is_err());
}

#[test]
fn what_is_queued_goes_to_the_class_that_is_named_or_is_counted() {
    let mut world = world(&simple(&[("a", 600), ("b", 400)], "hls", 1));
    (0..10).for_each(|_| world.arrive("b", 0, 500));
    world.turn();
    let moves = vec![("b".to_owned(), "c".to_owned())];
    let text = simple(&[("a", 600), ("c", 300)], "drr", 1);
    let reloaded = world.reload(text, &moves, false).unwrap();
    let committed = reloaded.committed.unwrap();
    assert_eq!((committed.kept_packets, committed.removed_packets, committed.dropped_packets), (9, 0, 0));
    let fates: Vec<(&str, Fate)> = reloaded.classes.iter().map(|class| (class.name.as_str(), class.fate)).collect();
    assert_eq!(fates, [("a", Fate::Kept), ("c", Fate::Added), ("b", Fate::Moved)]);
    assert_eq!(reloaded.scheduler, ["hls", "drr"]);
    assert_eq!(world.check(), [10, 1, 0, 9]);
    let committed = world.reload(simple(&[("a", 600)], "drr", 1), &[], false).unwrap().committed.unwrap();
    assert_eq!((committed.kept_packets, committed.removed_packets), (0, 9));
    assert_eq!(world.check(), [10, 1, 9, 0]);
}

#[test]
fn guarantees_shrink_with_a_link_that_has_too_little_and_grow_back() {
    let mut world = world(&simple(&[("a", 6_000), ("b", 3_000)], "hls", 10));
    let guarantee = |world: &World, name| {
        let class = find(&world.present.config, name).unwrap();
        Terms::new(&world.present.config.tree, class).guarantee_bps.unwrap()
    };
    let set = |world: &mut World, bps| {
        let wanted = Wanted::LinkRate { rate: Rate::from_bps(bps).unwrap() };
        world.change(&wanted, false).unwrap()
    };
    let enough = set(&mut world, 9_000_000);
    assert_eq!((enough.guarantees_scaled_by, guarantee(&world, "a")), (1.0, 6_000_000));
    let less = set(&mut world, 4_500_000);
    assert_eq!((less.guarantees_scaled_by, less.link_bps), (0.5, [9_000_000, 4_500_000]));
    assert_eq!((guarantee(&world, "a"), guarantee(&world, "b")), (3_000_000, 1_500_000));
    let nothing = world.change(&Wanted::LinkRate { rate: Rate::MIN }, false).unwrap_err().to_string();
    assert!(nothing.contains("the link has 1 bit/s"), "{nothing}");
    set(&mut world, 20_000_000);
    assert_eq!((guarantee(&world, "a"), guarantee(&world, "b")), (6_000_000, 3_000_000));
    // A changed guarantee lasts until the next file.
    let more = Wanted::Guarantee { class: "b".to_owned(), rate: Rate::from_bps(14_000_000).unwrap() };
    world.change(&more, false).unwrap();
    assert_eq!(guarantee(&world, "b"), 14_000_000);
    world.reload(simple(&[("a", 6_000), ("b", 3_000)], "hls", 10), &[], false).unwrap();
    assert_eq!(guarantee(&world, "b"), 3_000_000);
}

#[test]
fn the_pace_is_that_of_the_new_rate_from_the_next_packet_on() {
    let mut world = world(&simple(&[("a", 100)], "hls", 1));
    (0..40).for_each(|_| world.arrive("a", 0, 500));
    let sent_by = |world: &mut World, ms: u64| {
        while world.now < ms * 1_000_000 {
            world.now += 500_000;
            world.turn();
        }
        world.data_path.output.sent.len()
    };
    // 500 B take 4 ms at 1 Mbit/s and 0.5 ms at 8 Mbit/s. What was being sent ends at 20.5 ms.
    assert_eq!(sent_by(&mut world, 20), 5);
    world.change(&Wanted::LinkRate { rate: Rate::from_bps(8_000_000).unwrap() }, false).unwrap();
    assert_eq!(sent_by(&mut world, 30), 5 + 20);
}

#[test]
fn a_queue_that_the_file_says_nothing_of_follows_the_rate_and_others_stay() {
    let file = "[link]\nrate = \"10mbit\"\ndefault = \"a\"\n[[class]]\nname = \"a\"\nmatch = [\"udp dst port 5097\"]\n\
                [[class]]\nname = \"b\"\nbuffer = \"50p\"\nmatch = [\"udp dst port 5098\"]\n";
    let mut world = world(file);
    let limits = |world: &World, name| {
        let class = find(&world.present.config, name).unwrap();
        let limits = world.present.config.tree.config(class).limits;
        (limits.packets, limits.bytes)
    };
    let set = |world: &mut World, class: Option<&str>, bps| {
        let rate = Rate::from_bps(bps).unwrap();
        let wanted = match class {
            None => Wanted::LinkRate { rate },
            Some(class) => Wanted::Ceiling { class: class.to_owned(), rate },
        };
        world.change(&wanted, false).unwrap()
    };
    // 100 ms at its highest rate, and at least ten packets.
    assert_eq!(limits(&world, "a"), (1000, 125_000));
    set(&mut world, None, 4_000_000);
    assert_eq!((limits(&world, "a"), limits(&world, "b")), ((1000, 50_000), (50, u32::MAX)));
    set(&mut world, Some("a"), 2_000_000);
    assert_eq!(limits(&world, "a"), (1000, 25_000));
    set(&mut world, None, 8_000_000);
    assert_eq!(limits(&world, "a"), (1000, 25_000));
    // At 1 Gbit/s it would be 8,333 packets, for which the pool has no room.
    set(&mut world, Some("a"), 1_000_000_000);
    let kept = set(&mut world, None, 1_000_000_000);
    assert_eq!((kept.notes, limits(&world, "a")), (vec![KEPT_QUEUES.to_owned()], (1000, 125_000)));
    assert_eq!(world.present.config.tree.link().rate.bps(), 1_000_000_000);
    // A file resets it.
    world.reload(file.to_owned(), &[], false).unwrap();
    assert_eq!(limits(&world, "a"), (1000, 125_000));
}

#[test]
fn pieces_that_are_queued_survive_a_change_to_a_link_with_shorter_ones() {
    let text = |gso: &str| {
        format!("[link]\nrate = '20mbit'\n{gso}\n[[class]]\nname = 'a'\nbuffer = '200p'\nmatch = ['any']\n")
    };
    for after in ["gso = '2ms'", "gso = 'split'", ""] {
        let file = File { mbit: 20, scheduler: 0, buffer: None, gso: Some(10), classes: Vec::new() };
        let class = Class { name: 0, parent: None, weight: 1, buffer: 200, queue: 0, hosts: None, ceiling: false };
        let mut world = World::new(&File { classes: vec![class], ..file }, ROOMY);
        world.note_classes();
        world.data_path.output.room = Some(0);
        for _ in 0..3 {
            world.arrive_joined("a", 0, 1042, 60);
            world.turn();
            world.turn();
        }
        // The piece that waits for the output is not queued any more: 10 ms are 25,000 B, or 23 packets.
        let pieces = world.driver.scheduler().backlog().packets;
        assert!((6..=8).contains(&pieces), "{pieces}");
        let committed = world.reload(text(after), &[], false).unwrap().committed.unwrap();
        assert_eq!((committed.kept_packets, committed.dropped_packets, committed.removed_packets), (180 - 23, 0, 0));
        assert_eq!(world.check(), [180, 0, 0, 180]);
        end(&mut world);
        assert_eq!(world.check(), [180, 180, 0, 0], "{after}");
    }
}
