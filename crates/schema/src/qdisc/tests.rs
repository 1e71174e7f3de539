//! Written configurations are read back unchanged, and any other bytes are an error.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use fairlink_core::{
    ClassConfig, ClassId, Contract, Framing, Hierarchy, HierarchyError, HostKey, Hosts, LeakyBucket, LeakyBuckets,
    Leniency, LinkConfig, Nanos, Overhead, QueueKind, QueueLimits, Rate, RoundLength, ServiceCurve, Share,
    TransmitQueue, WhenFull, registry,
};
use proptest::prelude::*;

use crate::qdisc::{
    Config, LabelError, Labels, MAX_ATTRIBUTE, MAX_BYTES, MAX_CATCH_UP, MAX_MINOR, MAX_NAME, MAX_RECORD, ReadError,
    WriteError, assemble,
};

fn rate(bps: u64) -> Rate {
    Rate::from_bps(bps).unwrap()
}

/// The link, A with A1 and A2, and B.
fn config(class: impl Fn(u32) -> ClassConfig) -> Config {
    let mut tree = Hierarchy::builder(LinkConfig::new(rate(100_000_000)));
    let mut labels = Labels::new(4).unwrap();
    for (id, parent, name) in [(1, 0, "A"), (2, 1, "A1"), (3, 1, "A2"), (4, 0, "B")] {
        tree.add(ClassId(parent), class(id)).unwrap();
        labels.add(0x10 * id as u16, name.as_bytes()).unwrap();
    }
    Config {
        scheduler: registry::find("hls").unwrap(),
        tree: tree.build().unwrap(),
        overhead: Overhead::NONE,
        leniency: Leniency::Refuse,
        default: Some(ClassId(4)),
        catch_up: Nanos(2_000_000),
        slack: Nanos(10_000),
        labels: labels.sorted().unwrap(),
    }
}

fn assert_same(read: &Config, written: &Config) {
    assert_eq!(read.scheduler.name, written.scheduler.name);
    assert_eq!(read.tree.link(), written.tree.link());
    assert_eq!(read.tree.len(), written.tree.len());
    for class in read.tree.classes() {
        assert_eq!(read.tree.parent(class), written.tree.parent(class));
        assert_eq!(read.tree.config(class), written.tree.config(class));
    }
    assert_eq!((read.overhead, read.leniency, read.default), (written.overhead, written.leniency, written.default));
    assert_eq!((read.catch_up, read.slack), (written.catch_up, written.slack));
    assert_eq!(read.labels, written.labels);
}

fn curves() -> impl Strategy<Value = Option<ServiceCurve>> {
    let slope = || proptest::option::of(1u64..=Rate::MAX.bps()).prop_map(|bps| bps.map(rate));
    proptest::option::of((slope(), any::<u64>(), slope()).prop_map(|(m1, d, m2)| ServiceCurve { m1, d: Nanos(d), m2 }))
}

fn classes() -> impl Strategy<Value = ClassConfig> {
    let numbers = (
        proptest::option::of(any::<u64>()),
        proptest::option::of(any::<u64>()),
        proptest::option::of(any::<u8>()),
        proptest::option::of(any::<u32>()),
        proptest::option::of(1u64..=Rate::MAX.bps()),
        proptest::option::of((any::<u64>(), 1..=u64::MAX)),
        proptest::option::of(any::<u64>()),
    );
    let bucket = (any::<u64>(), 1..=Rate::MAX.bps(), 1..=Rate::MAX.bps()).prop_map(|(burst, peak, bps)| LeakyBucket {
        burst,
        peak: rate(peak),
        rate: rate(bps),
    });
    let buckets = proptest::collection::vec(bucket, 0..=4);
    let flags = any::<[bool; 4]>();
    let queue = (1..=u32::MAX, 1..=u32::MAX, 0u8..3);
    let keys = [HostKey::SourceIp, HostKey::DestinationIp, HostKey::SourceMac, HostKey::DestinationMac];
    let hosts = (any::<u16>(), proptest::sample::select(keys.to_vec())).prop_map(|(most, by)| Hosts::new(most, by));
    (1u64..=1000, numbers, buckets, flags, (queue, hosts), (curves(), curves(), curves())).prop_map(
        |(
            weight,
            numbers,
            buckets,
            [bounded, isolated, latency_critical, ecn],
            ((packets, bytes, queue), hosts),
            curves,
        )| {
            let (burst, ceiling_burst, priority, quantum, ceiling, contract, max_delay) = numbers;
            ClassConfig {
                share: Some(Share::Weight(weight)),
                ceiling: ceiling.map(rate),
                burst,
                ceiling_burst,
                priority,
                bounded,
                isolated,
                latency_critical,
                quantum,
                contract: contract.map(|(bytes, every)| Contract { bytes, every: Nanos(every) }),
                real_time: curves.0,
                link_share: curves.1,
                upper_limit: curves.2,
                max_delay: max_delay.map(Nanos),
                leaky_buckets: LeakyBuckets::new(&buckets).unwrap(),
                limits: QueueLimits { packets, bytes },
                queue: [QueueKind::Fifo, QueueKind::CoDel, QueueKind::FqCoDel][usize::from(queue)],
                hosts,
                ecn,
            }
        },
    )
}

proptest! {
    #[test]
    fn what_is_written_is_what_is_read(
        classes in proptest::collection::vec(classes(), 4),
        overhead in (any::<u16>(), any::<u16>(), 0usize..3),
        scheduler in 0..registry::SCHEDULERS.len(),
        flags in any::<[bool; 4]>(),
        times in (0..=MAX_CATCH_UP.0, 0..=MAX_CATCH_UP.0),
    ) {
        let mut written = config(|id| classes[id as usize - 1]);
        let framing = [Framing::Plain, Framing::Ptm, Framing::Atm][overhead.2];
        written.overhead = Overhead { bytes: overhead.0, min: overhead.1, framing };
        written.scheduler = &registry::SCHEDULERS[scheduler];
        written.leniency = if flags[0] { Leniency::Ignore } else { Leniency::Refuse };
        written.default = flags[1].then_some(ClassId(2));
        (written.catch_up, written.slack) = (Nanos(times.0), Nanos(times.1));
        let link = LinkConfig {
            when_full: if flags[2] { WhenFull::PushOut } else { WhenFull::DropArrival },
            rounds: if flags[3] { RoundLength::Long } else { RoundLength::Short },
            transmit_queue: flags[3].then_some(TransmitQueue { packets: 7, priority: flags[2] }),
            ..written.tree.link()
        };
        written.tree = written.tree.rebuilt(link, |_, _| {}).unwrap();
        let bytes = written.write().unwrap();
        assert_same(&Config::read(&bytes).unwrap(), &written);
        // No bytes can be removed or added.
        for len in 0..bytes.len() {
            prop_assert!(Config::read(&bytes[..len]).is_err());
        }
        let mut longer = bytes;
        longer.push(0);
        prop_assert!(Config::read(&longer).is_err());
    }

    #[test]
    fn bytes_that_were_changed_are_refused_or_read_the_same_when_written_again(
        classes in proptest::collection::vec(classes(), 4),
        changes in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut bytes = config(|id| classes[id as usize - 1]).write().unwrap();
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        if let Ok(read) = Config::read(&bytes) {
            let again = read.write().unwrap();
            assert_same(&Config::read(&again).unwrap(), &read);
        }
    }
}

#[test]
fn errors_say_what_is_wrong_and_the_limit() {
    let sound = config(|_| ClassConfig::default()).write().unwrap();
    let changed = |at: usize, value: &[u8]| {
        let mut bytes = sound.clone();
        bytes[at..at + value.len()].copy_from_slice(value);
        Config::read(&bytes).unwrap_err()
    };
    assert_eq!(changed(0, b"X"), ReadError::Magic);
    assert_eq!(changed(4, &[2]).to_string(), "the configuration has version 2, and this module takes 1");
    assert_eq!(changed(8, &[255]), ReadError::Length { said: 13 * 255, got: sound.len() as u64 - 16 });
    assert_eq!(changed(19, b"x"), ReadError::Scheduler);
    // The rate behind the scheduler's name.
    let zero = changed(22, &[0; 8]);
    assert_eq!(zero.to_string(), "class 0: rate of 0 is outside 1 .. 1000000000000");
    let a1 = sound.windows(2).position(|two| two == b"A1").unwrap();
    // The minor number of A1 as that of A.
    let twice = changed(a1 - 3, &[0x10, 0]);
    assert_eq!(twice.to_string(), "classes 1 and 2 both have the minor number 0x10");
    assert_eq!(changed(a1 - 3, &[0, 0]), ReadError::Label(LabelError::Minor { class: ClassId(2), minor: 0 }));
    // Its parent as itself.
    let parent = changed(a1 - 7, &[2]);
    assert_eq!(parent, ReadError::Hierarchy(HierarchyError::UnknownParent { parent: ClassId(2) }));
    assert_eq!(
        changed(a1 + 2 + 3, &[0x80]).to_string(),
        format!("class 2: fields of {} is outside 0 .. {}", 1u32 << 31, super::ALL_FIELDS)
    );
    // Bytes behind the last class that the header counts.
    let mut longer = sound.clone();
    longer.extend([0; 20]);
    let len = longer.len() as u64;
    longer[12..16].copy_from_slice(&(len as u32).to_le_bytes());
    assert_eq!(Config::read(&longer).unwrap_err(), ReadError::Length { said: len - 20, got: len });
    let contract = Some(Contract { bytes: 0x5a5a, every: Nanos(0x7777) });
    let mut never = config(|_| ClassConfig { contract, ..ClassConfig::default() }).write().unwrap();
    let every = never.windows(2).position(|two| two == [0x77, 0x77]).unwrap();
    never[every..every + 2].fill(0);
    let error = Config::read(&never).unwrap_err().to_string();
    assert_eq!(error, format!("class 1: interval of the contract of 0 is outside 1 .. {}", u64::MAX));
    let link_default = 22 + 8 + 8 + 2 + 5 + 5 + 1;
    assert_eq!(changed(link_default, &[1]), ReadError::Default { class: ClassId(1) });
    for (at, what) in [(4, "catch_up"), (12, "slack")] {
        let late = changed(link_default + at, &(MAX_CATCH_UP.0 + 1).to_le_bytes()).to_string();
        assert_eq!(late, format!("class 0: {what} of 1000000001 is outside 0 .. 1000000000"));
    }
}

#[test]
fn classes_are_found_by_number_and_by_name() {
    let long = Labels::new(1).unwrap().add(1, &[b'x'; MAX_NAME + 1]).unwrap_err();
    assert_eq!(long, LabelError::Name { class: ClassId(1), len: 256 });
    let labels = config(|_| ClassConfig::default()).labels;
    assert_eq!((labels.class(0x20), labels.class(0x21), labels.class(0)), (Some(ClassId(2)), None, None));
    assert_eq!(
        (labels.name(ClassId(2)), labels.name(ClassId(0)), labels.name(ClassId(9))),
        (&b"A1"[..], &b""[..], &b""[..])
    );
    assert_eq!((labels.minor(ClassId(4)), labels.minor(ClassId(9))), (0x40, 0));
    let mut new = Labels::new(2).unwrap();
    new.add(0x40, b"B").unwrap();
    new.add(0x20, b"A1").unwrap();
    let new = new.sorted().unwrap();
    let survivors = labels.survivors(&new, |_, _| true).unwrap();
    assert_eq!(*survivors, [None, None, Some(ClassId(2)), None, Some(ClassId(1))]);
    let kept = labels.survivors(&new, |_, new| new == ClassId(1)).unwrap();
    assert_eq!(*kept, [None, None, None, None, Some(ClassId(1))], "those that are to be kept");
}

#[test]
fn as_many_classes_as_tc_has_numbers_for_are_written_and_read() {
    let classes = u32::from(MAX_MINOR);
    let mut tree = Hierarchy::builder(LinkConfig::new(rate(100_000_000)));
    let mut labels = Labels::new(classes as usize).unwrap();
    for class in 1..=MAX_MINOR {
        tree.add(ClassId::ROOT, ClassConfig::default()).unwrap();
        labels.add(class, format!("subscriber {class}").as_bytes()).unwrap();
    }
    let tree = tree.build().unwrap();
    let config = Config { tree, labels: labels.sorted().unwrap(), ..config(|_| ClassConfig::default()) };
    let bytes = config.write().unwrap();
    assert!(bytes.len() > MAX_ATTRIBUTE, "{}", bytes.len());
    let read = Config::read(&bytes).unwrap();
    assert_eq!((read.tree.len(), read.labels.name(ClassId(classes))), (65_535, &b"subscriber 65534"[..]));
    let too_few = Config { labels: Labels::new(0).unwrap(), ..config };
    assert_eq!(too_few.write(), Err(WriteError::Labels { classes: 65_535, labels: 1 }));
}

#[test]
fn records_make_the_configuration_again_and_no_longer_one_than_is_taken() {
    let config = config(|id| ClassConfig { priority: Some(id as u8), ..ClassConfig::default() });
    let record = |class: u32| {
        let mut place = [0; MAX_RECORD];
        let len = config.write_record(ClassId(class), &mut place).unwrap();
        place[..len].to_vec()
    };
    let records: Vec<_> = (0..5).map(record).collect();
    let classes = || records[1..].iter().map(Vec::as_slice);
    assert_eq!(assemble(&records[0], classes()), config.write());
    for room in 0..records[2].len() {
        assert_eq!(config.write_record(ClassId(2), &mut [0; MAX_RECORD][..room]), Err(WriteError::NoRoom { room }));
    }
    assert!(config.write_record(ClassId(5), &mut [0; MAX_RECORD]).is_err());
    // Any records are read like a configuration.
    let one_less = assemble(&records[0], records[2..].iter().map(Vec::as_slice)).unwrap();
    assert!(Config::read(&one_less).is_err());
    let long = [0; MAX_RECORD + 1];
    assert_eq!(assemble(&long, classes()), Err(WriteError::NoRoom { room: MAX_RECORD }));
    let most = vec![&long[1..]; MAX_BYTES / MAX_RECORD];
    let too_long = assemble(&records[0], most.iter().copied()).unwrap_err();
    assert_eq!(too_long, WriteError::TooLong { classes: 65_536 });
    assert!(too_long.to_string().contains("33554432 bytes"), "{too_long}");
}

#[test]
fn the_longest_record_fits_into_the_room_that_is_kept_for_one() {
    let curve = ServiceCurve { m1: Some(Rate::MAX), d: Nanos(1), m2: Some(Rate::MAX) };
    let bucket = LeakyBucket { burst: 1, peak: Rate::MAX, rate: Rate::MAX };
    let class = ClassConfig {
        share: Some(Share::Weight(1)),
        ceiling: Some(Rate::MAX),
        burst: Some(1),
        ceiling_burst: Some(1),
        priority: Some(1),
        quantum: Some(1),
        contract: Some(Contract { bytes: 1, every: Nanos(1) }),
        real_time: Some(curve),
        link_share: Some(curve),
        upper_limit: Some(curve),
        max_delay: Some(Nanos(1)),
        leaky_buckets: LeakyBuckets::new(&[bucket; 4]).unwrap(),
        limits: QueueLimits { packets: 1, bytes: 1 },
        queue: QueueKind::FqCoDel,
        hosts: Hosts::new(9, HostKey::SourceIp),
        ecn: true,
        ..ClassConfig::default()
    };
    let mut labels = Labels::new(1).unwrap();
    labels.add(1, &[b'x'; MAX_NAME]).unwrap();
    let mut tree = Hierarchy::builder(LinkConfig::new(rate(100_000_000)));
    tree.add(ClassId::ROOT, class).unwrap();
    let labels = labels.sorted().unwrap();
    let config = Config { tree: tree.build().unwrap(), labels, default: None, ..config(|_| ClassConfig::default()) };
    let len = config.write_record(ClassId(1), &mut [0; MAX_RECORD]).unwrap();
    assert!((480..=MAX_RECORD).contains(&len), "{len}");
}

/// A class that sets every key that has bytes, with values whose bytes differ.
fn full_class() -> ClassConfig {
    let curve = |n: u64| Some(ServiceCurve { m1: Some(rate(n)), d: Nanos(n + 1), m2: Some(rate(n + 2)) });
    let bucket = |n: u64| LeakyBucket { burst: n, peak: rate(n + 2), rate: rate(n + 1) };
    ClassConfig {
        share: Some(Share::Guarantee(rate(0x0101))),
        ceiling: Some(rate(0x0202)),
        burst: Some(0x0303),
        ceiling_burst: Some(0x0404),
        priority: Some(0x05),
        bounded: true,
        isolated: true,
        latency_critical: true,
        quantum: Some(0x0606),
        contract: Some(Contract { bytes: 0x0707, every: Nanos(0x0808) }),
        real_time: curve(0x0910),
        link_share: curve(0x0a10),
        upper_limit: Some(ServiceCurve { m1: None, d: Nanos(0), m2: Some(rate(0x0b10)) }),
        max_delay: Some(Nanos(0x0c0c)),
        leaky_buckets: LeakyBuckets::new(&[bucket(0x0d10), bucket(0x0d20)]).unwrap(),
        limits: QueueLimits { packets: 0x0e0e, bytes: 0x0f0f },
        queue: QueueKind::FqCoDel,
        hosts: Hosts::new(0x1010, HostKey::SourceMac),
        ecn: true,
    }
}

#[test]
fn a_full_link_is_the_bytes_that_modules_of_version_1_take() {
    let share = |id: u32| Some(Share::Weight(id.into()));
    let mut full = config(|id| match id {
        2 => full_class(),
        3 => ClassConfig {
            share: Some(Share::Guarantee(rate(7))),
            queue: QueueKind::CoDel,
            hosts: Hosts::new(2, HostKey::DestinationIp),
            ..ClassConfig::default()
        },
        _ => ClassConfig { share: share(id), priority: Some(0), ..ClassConfig::default() },
    });
    full.overhead = Overhead { bytes: 38, min: 84, framing: Framing::Atm };
    full.leniency = Leniency::Ignore;
    let link = LinkConfig {
        when_full: WhenFull::PushOut,
        rounds: RoundLength::Long,
        transmit_queue: Some(TransmitQueue { packets: 4, priority: true }),
        ..full.tree.link()
    };
    full.tree = full.tree.rebuilt(link, |_, _| {}).unwrap();
    let hex: String = full.write().unwrap().iter().map(|byte| format!("{byte:02x}")).collect();
    let lines: Vec<&str> = hex.as_bytes().chunks(96).map(|line| core::str::from_utf8(line).unwrap()).collect();
    assert_eq!(lines.join("\n"), include_str!("full_link.hex").trim_end());
}

/// A sequence of numbers that is the same everywhere: splitmix64.
struct Sequence(u64);

impl Sequence {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number of a random length, so that small ones are as frequent as large ones.
    fn number(&mut self) -> u64 {
        self.next() >> (self.next() % 64)
    }

    fn maybe(&mut self) -> Option<u64> {
        (self.next() & 1 == 1).then(|| self.number())
    }

    fn rate(&mut self) -> Rate {
        rate(1 + self.number() % Rate::MAX.bps())
    }

    fn curve(&mut self) -> Option<ServiceCurve> {
        self.maybe().map(|d| ServiceCurve {
            m1: self.maybe().map(|bps| rate(1 + bps % Rate::MAX.bps())),
            d: Nanos(d),
            m2: self.maybe().map(|bps| rate(1 + bps % Rate::MAX.bps())),
        })
    }

    fn class(&mut self) -> ClassConfig {
        let keys = [HostKey::SourceIp, HostKey::DestinationIp, HostKey::SourceMac, HostKey::DestinationMac];
        let buckets: Vec<LeakyBucket> = (0..self.next() % 5)
            .map(|_| LeakyBucket { burst: self.number(), peak: self.rate(), rate: self.rate() })
            .collect();
        ClassConfig {
            share: match self.next() % 3 {
                0 => None,
                1 => Some(Share::Guarantee(self.rate())),
                _ => Some(Share::Weight(1 + self.number() % 1_000_000_000_000)),
            },
            ceiling: self.maybe().map(|bps| rate(1 + bps % Rate::MAX.bps())),
            burst: self.maybe(),
            ceiling_burst: self.maybe(),
            priority: self.maybe().map(|priority| priority as u8),
            bounded: self.next() & 1 == 1,
            isolated: self.next() & 1 == 1,
            latency_critical: self.next() & 1 == 1,
            quantum: self.maybe().map(|quantum| quantum as u32),
            contract: self.maybe().map(|bytes| Contract { bytes, every: Nanos(self.number().max(1)) }),
            real_time: self.curve(),
            link_share: self.curve(),
            upper_limit: self.curve(),
            max_delay: self.maybe().map(Nanos),
            leaky_buckets: LeakyBuckets::new(&buckets).unwrap(),
            limits: self.maybe().map_or(QueueLimits::default(), |packets| QueueLimits {
                packets: (packets as u32).max(1),
                bytes: (self.number() as u32).max(1),
            }),
            queue: [QueueKind::Fifo, QueueKind::CoDel, QueueKind::FqCoDel][(self.next() % 3) as usize],
            hosts: self.maybe().and_then(|most| Hosts::new(most as u16, keys[(self.next() % 4) as usize])),
            ecn: self.next() & 1 == 1,
        }
    }
}

#[test]
fn twenty_thousand_random_classes_have_the_bytes_that_version_1_always_had() {
    let mut numbers = Sequence(28);
    let mut digest = 0xcbf2_9ce4_8422_2325u64;
    let mut len = 0;
    for _ in 0..20_000 {
        let class = numbers.class();
        let mut tree = Hierarchy::builder(LinkConfig::new(Rate::MAX));
        tree.add(ClassId::ROOT, class).unwrap();
        let mut labels = Labels::new(1).unwrap();
        labels.add(1, b"x").unwrap();
        let labels = labels.sorted().unwrap();
        let config =
            Config { tree: tree.build().unwrap(), labels, default: None, ..config(|_| ClassConfig::default()) };
        let mut place = [0; MAX_RECORD];
        let written = config.write_record(ClassId(1), &mut place).unwrap();
        // FNV-1a.
        digest =
            place[..written].iter().fold(digest, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
        len += written;
        assert_eq!(Config::read(&config.write().unwrap()).unwrap().tree.config(ClassId(1)), &class);
    }
    assert_eq!(
        (len, digest),
        (2_693_731, 3_382_854_991_032_588_832),
        "made by the writer of crates/qdisc that wrote each field by hand"
    );
}
