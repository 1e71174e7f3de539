//! The C interface in user space, with memory that is refused.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::{Cell, RefCell};
use std::ffi::c_void;
use std::ptr;

use fairlink_core::{
    ClassConfig, ClassId, Feature, Hierarchy, HostKey, Hosts, Leniency, LinkConfig, Nanos, Overhead, Rate, Share,
    registry,
};
use fairlink_schema::qdisc::{Config, Labels, MAX_RECORD, assemble};

use crate::*;

thread_local! {
    /// Allocations that still succeed on this thread.
    static LEFT: Cell<u64> = const { Cell::new(u64::MAX) };
    static MADE: Cell<u64> = const { Cell::new(0) };
    static LIVE: Cell<i64> = const { Cell::new(0) };
    static LIVE_BYTES: Cell<i64> = const { Cell::new(0) };
    static DROPPED: RefCell<Vec<(u64, u32)>> = const { RefCell::new(Vec::new()) };
}

struct Refusing;

// SAFETY: the system's allocator, or null.
unsafe impl GlobalAlloc for Refusing {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let left = LEFT.get();
        if left == 0 {
            return ptr::null_mut();
        }
        if left != u64::MAX {
            LEFT.set(left - 1);
        }
        MADE.set(MADE.get() + 1);
        LIVE.set(LIVE.get() + 1);
        LIVE_BYTES.set(LIVE_BYTES.get() + layout.size() as i64);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        LIVE.set(LIVE.get() - 1);
        LIVE_BYTES.set(LIVE_BYTES.get() - layout.size() as i64);
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static REFUSING: Refusing = Refusing;

pub(crate) fn dropped(_: *mut c_void, handle: u64, _: u32, _: u32, reason: u32) {
    DROPPED.with_borrow_mut(|all| all.push((handle, reason)));
}

/// The host of a packet is ten more than its number's remainder by three.
pub(crate) fn moved(_: *mut c_void, call: &mut Call, room: &mut Host) {
    *room = host(10 + (call.handle % 3) as u8);
    call.host = room;
}

/// Of two hosts each, one hash.
fn host(number: u8) -> Host {
    Host { address: [number; 16], hash: u64::from(number) % 2 }
}

/// A link of 100 Mbit/s with the classes 1:1, 1:2, ... below it, with weights of 1, 2, ...; three hosts share the second.
fn bytes(scheduler: &str, classes: u16, max_queued: u32) -> Vec<u8> {
    sharing(scheduler, classes, max_queued, 2, 3)
}

/// The same with up to `most` hosts in a class.
fn sharing(scheduler: &str, classes: u16, max_queued: u32, shared: u16, most: u16) -> Vec<u8> {
    let rate = Rate::from_bps(100_000_000).unwrap();
    let mut tree = Hierarchy::builder(LinkConfig { max_queued, ..LinkConfig::new(rate) });
    let mut labels = Labels::new(classes.into()).unwrap();
    for class in 1..=classes {
        let share = Some(Share::Weight(class.into()));
        let hosts = Hosts::new(most, HostKey::DestinationMac).filter(|_| class == shared);
        tree.add(ClassId::ROOT, ClassConfig { share, hosts, ..ClassConfig::default() }).unwrap();
        labels.add(class, format!("c{class}").as_bytes()).unwrap();
    }
    let config = Config {
        scheduler: registry::find(scheduler).unwrap(),
        tree: tree.build().unwrap(),
        overhead: Overhead::NONE,
        leniency: Leniency::Ignore,
        default: None,
        catch_up: Nanos(1_000_000),
        slack: Nanos::ZERO,
        labels: labels.sorted().unwrap(),
    };
    config.write().unwrap()
}

fn make(config: &[u8], message: &mut [u8], link: *mut Link) -> Make {
    Make {
        config: config.as_ptr(),
        config_len: config.len(),
        memory_limit: 64 << 20,
        slots: 0,
        message: message.as_mut_ptr(),
        message_len: message.len(),
        link,
        change: ptr::null_mut(),
        facts: Facts::default(),
    }
}

fn call(link: *mut Link) -> Call {
    Call { link, len: 1000, ..Call::of(0, ClassId(1)) }
}

fn about(link: *const Link, class: u32, room: &mut [u8]) -> About {
    About {
        link,
        class,
        minor: 0,
        parent_minor: 9,
        leaf: 0,
        generation: 0,
        stats: Stats::default(),
        sampled: Sampled::default(),
        record: room.as_mut_ptr(),
        record_len: room.len() as u32,
        next: 0,
    }
}

/// Returns the data of a class, and its record.
fn told(link: *const Link, class: u32) -> (About, Vec<u8>) {
    let mut room = [0; MAX_RECORD];
    let mut about = about(link, class, &mut room);
    let mut calls = 1;
    // SAFETY: as in all calls.
    while unsafe { fl_about(&mut about) } == 1 {
        calls += 1;
        assert!(calls < 100, "no end");
    }
    let record = room[..about.record_len as usize].to_vec();
    (about, record)
}

fn text(message: &[u8]) -> &str {
    let end = message.iter().position(|&byte| byte == 0).unwrap();
    std::str::from_utf8(&message[..end]).unwrap()
}

/// A link with 100 packets in turn for each of its classes.
fn filled(scheduler: &str, classes: u16) -> *mut Link {
    let config = bytes(scheduler, classes, 1000);
    let mut making = make(&config, &mut [0; 160], ptr::null_mut());
    // SAFETY: all pointers are valid, as in all calls below.
    assert_eq!(unsafe { fl_create(&mut making) }, 0);
    for handle in 0..100 * u64::from(classes) {
        let class = 1 + (handle % u64::from(classes)) as u32;
        let mut call = Call { handle, class, ..call(making.link) };
        assert_eq!(unsafe { fl_enqueue(&mut call) }, 0);
    }
    making.link
}

#[test]
fn a_link_queues_paces_and_tells() {
    let link = filled("hls", 3);
    let (mut sent, mut now) = ([0u64; 4], 0);
    for _ in 0..60 {
        let mut call = Call { now, ..call(link) };
        while unsafe { fl_dequeue(&mut call) } == 0 {
            assert!(call.wake > now);
            (now, call.now) = (call.wake, call.wake);
        }
        sent[call.class as usize] += 1;
    }
    assert_eq!(sent, [0, 10, 20, 30]);
    // 59 packets of 80 us, minus the catch-up at the start of the link: none.
    assert_eq!(now, 59 * 80_000);
    let mut room = [0; MAX_RECORD];
    let mut about = about(link, 3, &mut room);
    assert_eq!(unsafe { fl_about(&mut about) }, 0);
    assert_eq!((about.class, about.minor, about.parent_minor, about.leaf), (3, 3, 0, 1));
    assert_eq!((about.stats.guarantee, about.stats.sent, about.stats.queued), (50_000_000, [30, 30_000], [70, 70_000]));
    assert!(room[..about.record_len as usize].windows(2).any(|two| two == b"c3"));
    (about.class, about.next) = (4, 0);
    assert_eq!(unsafe { fl_about(&mut about) }, -2);
    DROPPED.take();
    assert_eq!(unsafe { fl_reset(&mut call(link)) }, 0);
    assert_eq!(DROPPED.take().len(), 240);
    assert_eq!(unsafe { fl_release(&mut call(link)) }, 0);
}

#[test]
fn a_change_keeps_the_packets_of_classes_with_the_same_number() {
    for (scheduler, classes) in [("hls", 3), ("drr", 3), ("hls", 2)] {
        let link = filled("hls", 3);
        let config = bytes(scheduler, classes, 1000);
        let mut making = make(&config, &mut [0; 160], link);
        assert_eq!(unsafe { fl_prepare(&mut making) }, 0);
        DROPPED.take();
        let mut call = Call { change: making.change, ..call(link) };
        assert_eq!(unsafe { fl_commit(&mut call) }, 0);
        assert_eq!(DROPPED.take().len(), if classes == 3 { 0 } else { 100 });
        assert_eq!(unsafe { fl_release(&mut Call { link: ptr::null_mut(), ..call }) }, 0);
        let mut sent = 0;
        let mut call = Call { change: ptr::null_mut(), ..call };
        loop {
            if unsafe { fl_dequeue(&mut call) } == 1 {
                sent += 1;
            } else if call.wake == u64::MAX {
                break;
            } else {
                call.now = call.wake;
            }
        }
        assert_eq!(sent, 100 * i32::from(classes));
        assert_eq!(unsafe { fl_release(&mut call) }, 0);
    }
}

#[test]
fn memory_refused_at_every_allocation_in_turn_is_an_error_and_leaks_nothing() {
    for info in registry::SCHEDULERS.iter().filter(|info| info.supports(Feature::Hierarchy) || info.name == "drr") {
        let config = bytes(info.name, 5, 100);
        let mut message = [0; 160];
        let mut making = make(&config, &mut message, ptr::null_mut());
        let before = MADE.get();
        let made = unsafe { fl_create(&mut making) };
        let needed = MADE.get() - before;
        if made == -22 {
            continue; // Needs curves or other things that these classes do not have.
        }
        assert_eq!(made, 0, "{}", info.name);
        let link = making.link;
        for refused in 0..needed {
            let (live, mut message) = (LIVE.get(), [0; 160]);
            let mut making = make(&config, &mut message, ptr::null_mut());
            LEFT.set(refused);
            let result = unsafe { fl_create(&mut making) };
            LEFT.set(u64::MAX);
            assert_eq!(result, -12, "{}: allocation {refused} of {needed}: {}", info.name, text(&message));
            assert!(text(&message).starts_with("there is no memory for"), "{}", text(&message));
            assert_eq!(LIVE.get(), live, "{}: allocation {refused}", info.name);
        }
        let before = MADE.get();
        let mut making = make(&config, &mut message, link);
        assert_eq!(unsafe { fl_prepare(&mut making) }, 0);
        let needed = MADE.get() - before;
        assert_eq!(unsafe { fl_release(&mut Call { change: making.change, ..call(ptr::null_mut()) }) }, 0);
        for refused in 0..needed {
            let live = LIVE.get();
            let mut making = make(&config, &mut message, link);
            LEFT.set(refused);
            let result = unsafe { fl_prepare(&mut making) };
            LEFT.set(u64::MAX);
            assert_eq!((result, LIVE.get()), (-12, live), "{}: allocation {refused} of {needed}", info.name);
        }
        assert_eq!(unsafe { fl_release(&mut call(link)) }, 0);
    }
}

#[test]
fn nothing_is_allocated_for_a_packet_or_for_the_commit_of_a_change() {
    let link = filled("hls", 3);
    let config = bytes("htb", 3, 1000);
    let mut making = make(&config, &mut [0; 160], link);
    assert_eq!(unsafe { fl_prepare(&mut making) }, 0);
    let before = MADE.get();
    let mut call = Call { change: making.change, ..call(link) };
    for now in 0..100u64 {
        call.now = now * 80_000;
        assert_eq!(unsafe { fl_enqueue(&mut call) }, 0);
        assert_eq!(unsafe { fl_dequeue(&mut call) }, 1);
    }
    assert_eq!(unsafe { fl_commit(&mut call) }, 0);
    assert_eq!(MADE.get(), before);
    assert_eq!(unsafe { fl_reset(&mut call) }, 0);
    assert_eq!(unsafe { fl_release(&mut call) }, 0);
}

#[test]
fn what_is_wrong_is_said_and_cut_where_there_is_no_room() {
    let config = bytes("hls", 3, u32::MAX);
    let mut message = [1; 160];
    assert_eq!(unsafe { fl_create(&mut make(&config, &mut message, ptr::null_mut())) }, -22);
    assert!(text(&message).ends_with("the limit is 67108864: see memory_limit, buffer"), "{}", text(&message));
    let mut short = [1; 8];
    assert_eq!(unsafe { fl_create(&mut make(&config[1..], &mut short, ptr::null_mut())) }, -22);
    assert_eq!(text(&short), "this is");
    assert_eq!(unsafe { fl_create(&mut make(&[], &mut [], ptr::null_mut())) }, -22);
}

/// Dequeues the packets that are due until `until` and returns the time of the next call.
fn drain(link: *mut Link, from: u64, until: u64) -> u64 {
    let mut call = Call { now: from, ..call(link) };
    while call.now < until {
        // SAFETY: as in all calls.
        if unsafe { fl_dequeue(&mut call) } == 0 {
            if call.wake == u64::MAX {
                return until;
            }
            call.now = call.wake;
        }
    }
    call.now
}

/// Samples all classes.
fn sample(link: *mut Link, now: u64) -> u32 {
    let mut calls = 1;
    // SAFETY: as in all calls.
    while unsafe { fl_sample(&mut Call { now, ..call(link) }) } == 1 {
        calls += 1;
    }
    calls
}

#[test]
fn rates_and_what_goes_beyond_the_guarantee_are_those_of_the_samples() {
    // 100 packets of 1000 B for each of three classes of 1/6, 2/6 and 3/6 of 100 Mbit/s: 80 us each.
    let link = filled("hls", 3);
    let second = 1_000_000_000;
    assert_eq!(sample(link, second), 1);
    assert_eq!(told(link, 1).0.sampled, Sampled { samples: 1, ..Sampled::default() });
    // A tenth of a second: 125 packets of 300 would be 10 ms; all are sent within 24 ms.
    drain(link, second, second + second / 10);
    sample(link, second + second / 10);
    let sampled = |class| told(link, class).0.sampled;
    // 100 kB in 100 ms; guaranteed were 16,666,666 bit/s, which is 208,333 B.
    assert_eq!(sampled(1), Sampled { samples: 2, bytes: 1_000_000, packets: 1000, demand: 1_000_000, borrowed: 0 });
    // 1 ms later nothing was sent: a quarter of the average is gone.
    sample(link, second + second / 10 + 1_000_000);
    assert_eq!((sampled(1).bytes, sampled(1).packets, sampled(1).demand), (750_000, 750, 750_000));
    // 20 packets at once, within 2 ms: 20,000 B, and the guarantee is 4,166.
    let now = second + second / 10 + 1_000_000;
    for handle in 0..20 {
        assert_eq!(unsafe { fl_enqueue(&mut Call { now, handle, ..call(link) }) }, 0);
    }
    drain(link, now, now + 2_000_000);
    sample(link, now + 2_000_000);
    let guaranteed = 16_666_666 * 2 / 8000;
    assert_eq!(sampled(1).borrowed, 20_000 - guaranteed);
    // A quarter of 10 MB/s, and three quarters of the previous value.
    assert_eq!(sampled(1).bytes, 750_000 - 187_500 + 2_500_000);
    // The link has the sums.
    assert_eq!(sampled(0).bytes, sampled(1).bytes + sampled(2).bytes + sampled(3).bytes);
    // A class that survives a change keeps its rates.
    let before = sampled(1);
    let config = bytes("drr", 2, 1000);
    let mut making = make(&config, &mut [0; 160], link);
    assert_eq!(unsafe { fl_prepare(&mut making) }, 0);
    assert_eq!(unsafe { fl_commit(&mut Call { change: making.change, ..call(link) }) }, 0);
    assert_eq!((sampled(1), told(link, 1).0.generation), (before, 1));
    // The third class's packets still count for the link.
    assert_eq!(told(link, 0).0.stats.sent, [320, 320_000]);
    // The guarantee is the new one, and packets too long for the link do not count as demand.
    let now = now + 2_000_000;
    for (handle, len) in (0..21).zip([60_000].into_iter().chain([1000; 20])) {
        assert_eq!(unsafe { fl_enqueue(&mut Call { now, handle, len, ..call(link) }) }, 0);
    }
    drain(link, now, now + 2_000_000);
    sample(link, now + 2_000_000);
    assert_eq!(sampled(1).borrowed - before.borrowed, 20_000 - 33_333_333 * 2 / 8000);
    assert_eq!(sampled(1).demand, before.demand - before.demand / 4 + 2_500_000);
    assert_eq!((told(link, 1).0.stats.too_long, told(link, 1).0.stats.dropped), (60_000, [1, 60_000]));
    assert_eq!(unsafe { fl_release(&mut Call { change: making.change, ..call(link) }) }, 0);
}

/// A link with two inner classes of 700 leaves each.
fn wide(scheduler: &str) -> Vec<u8> {
    let rate = Rate::from_bps(100_000_000).unwrap();
    let mut tree = Hierarchy::builder(LinkConfig { max_queued: 1000, ..LinkConfig::new(rate) });
    let mut labels = Labels::new(1402).unwrap();
    for class in 1..=1402u16 {
        // A, B, then leaves of A and B in turn.
        let parent = if class <= 2 { ClassId::ROOT } else { ClassId(2 - u32::from(class % 2)) };
        // The hosts of an inner class have no effect.
        let hosts = Hosts::new(2, HostKey::DestinationMac).filter(|_| matches!(class, 1 | 5));
        tree.add(parent, ClassConfig { hosts, ..ClassConfig::default() }).unwrap();
        labels.add(2000 - class, format!("c{class}").as_bytes()).unwrap();
    }
    let config = Config {
        scheduler: registry::find(scheduler).unwrap(),
        tree: tree.build().unwrap(),
        overhead: Overhead::NONE,
        leniency: Leniency::Refuse,
        default: None,
        catch_up: Nanos::ZERO,
        slack: Nanos::ZERO,
        labels: labels.sorted().unwrap(),
    };
    config.write().unwrap()
}

#[test]
fn an_inner_class_tells_the_sums_of_its_leaves_and_records_make_the_configuration_again() {
    let config = wide("hls");
    let mut making = make(&config, &mut [0; 160], ptr::null_mut());
    assert_eq!(unsafe { fl_create(&mut making) }, 0);
    let link = making.link;
    assert_eq!(sample(link, 1_000_000_000), 6, "calls for 1403 classes");
    for (handle, class) in [3, 5, 4, 1402, 1401, 5].into_iter().enumerate() {
        assert_eq!(unsafe { fl_enqueue(&mut Call { handle: handle as u64, class, ..call(link) }) }, 0);
    }
    // 3, 5, 1401 are of A = 1, and 4 and 1402 of B.
    assert_eq!(told(link, 1).0.stats.queued, [4, 4000]);
    assert_eq!(told(link, 2).0.stats.queued, [2, 2000]);
    assert_eq!(told(link, 0).0.stats.queued, [6, 6000]);
    assert_eq!((told(link, 1).0.leaf, told(link, 5).0.stats.queued), (0, [2, 2000]));
    drain(link, 1_000_000_000, 1_900_000_000);
    sample(link, 2_000_000_000);
    assert_eq!([0, 1, 2, 5].map(|class| told(link, class).0.sampled.packets), [6, 4, 2, 2]);
    assert_eq!(told(link, 1).0.stats.sent, [4, 4000]);

    let records: Vec<_> = (0..=1402).map(|class| told(link, class).1).collect();
    let classes = records[1..].iter().map(Vec::as_slice);
    assert_eq!(assemble(&records[0], classes).unwrap(), config);

    let (mut minors, mut parents, mut hosts) = ([0u16; 1403], [0u16; 1403], [9u8; 1403]);
    let mut classes = vec![0u32; 1 << 16];
    let mut numbers = Numbers {
        link,
        change: ptr::null(),
        minors: minors.as_mut_ptr(),
        parents: parents.as_mut_ptr(),
        hosts: hosts.as_mut_ptr(),
        minors_len: minors.len(),
        classes: classes.as_mut_ptr(),
        classes_len: classes.len(),
        inner: 1 << 31,
    };
    assert_eq!(unsafe { fl_numbers(&mut numbers) }, 0);
    assert_eq!((minors[0], minors[1], minors[1402]), (0, 1999, 598));
    assert_eq!((hosts[1], hosts[3], hosts[5], hosts[1402]), (0, 0, 4, 0));
    assert_eq!((parents[1], parents[3], parents[1402]), (0, 1999, 1998));
    assert_eq!((classes[1999], classes[1997], classes[598], classes[7]), (1 | 1 << 31, 3, 1402, 0));
    assert_eq!(unsafe { fl_release(&mut call(link)) }, 0);
}

#[test]
fn hosts_take_turns_in_a_class_that_they_share_and_keep_their_places_through_a_change() {
    let config = bytes("hls", 2, 100);
    let mut making = make(&config, &mut [0; 160], ptr::null_mut());
    assert_eq!(unsafe { fl_create(&mut making) }, 0);
    let link = making.link;
    assert_eq!(making.facts.hosts, 1);
    let put = |handle: u64, class, number: u8| {
        let host = host(number);
        let mut call = Call { handle, len: making.facts.max_packet, class, host: &host, ..call(link) };
        assert_eq!(unsafe { fl_enqueue(&mut call) }, 0);
    };
    let mut now = 0;
    let mut order = |handles: &[u64]| {
        for &handle in handles {
            now += 1_000_000;
            let mut call = Call { now, ..call(link) };
            assert_eq!(unsafe { fl_dequeue(&mut call) }, 1);
            assert_eq!(call.handle as u32 as u64, handle);
        }
    };
    // One host has sent four packets before others send one each. Two have one hash.
    (0..4).for_each(|handle| put(handle, 2, 10));
    (4..6).for_each(|handle| put(handle, 2, 12));
    put(6, 2, 11);
    order(&[0, 4, 6, 1, 5, 2, 3]);
    // The other class has one queue for all senders.
    (0..4).for_each(|handle| put(handle, 1, 10 + handle as u8 % 2));
    order(&[0, 1, 2, 3]);

    // After the change, a host keeps its own queue, in any order of senders.
    (0..3).for_each(|handle| put(handle, 2, 11));
    let mut change = make(&config, &mut [0; 160], link);
    assert_eq!(unsafe { fl_prepare(&mut change) }, 0);
    assert_eq!(unsafe { fl_commit(&mut Call { change: change.change, ..call(link) }) }, 0);
    for (handle, host) in [(3, 12), (4, 11), (5, 10), (6, 11)] {
        put(handle, 2, host);
    }
    order(&[0, 3, 5, 1, 2, 4, 6]);
    assert_eq!(unsafe { fl_release(&mut Call { change: change.change, ..call(ptr::null_mut()) }) }, 0);

    // Packets of a class that did not keep hosts apart move into queues of their hosts, and stay there.
    (0..6).for_each(|handle| put(handle, 1, 99));
    let first = sharing("hls", 2, 100, 1, 3);
    let mut change = make(&first, &mut [0; 160], link);
    assert_eq!(unsafe { fl_prepare(&mut change) }, 0);
    assert_eq!(unsafe { fl_commit(&mut Call { change: change.change, ..call(link) }) }, 0);
    put(6, 1, 10);
    put(7, 1, 11);
    order(&[0, 1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(unsafe { fl_release(&mut Call { change: change.change, ..call(ptr::null_mut()) }) }, 0);
    assert_eq!(unsafe { fl_release(&mut call(link)) }, 0);
}

#[test]
fn what_a_link_is_said_to_need_is_no_less_than_what_it_takes() {
    for hosts in [2, u16::MAX] {
        let config = sharing("hls", 2, 1000, 2, hosts);
        let mut message = [0; 160];
        let mut making = Make { memory_limit: 1, ..make(&config, &mut message, ptr::null_mut()) };
        assert_eq!(unsafe { fl_create(&mut making) }, -22);
        let needs = text(&message).split(' ').nth(1).unwrap().parse::<i64>().unwrap();
        let before = LIVE_BYTES.get();
        let mut making = make(&config, &mut [0; 160], ptr::null_mut());
        assert_eq!(unsafe { fl_create(&mut making) }, 0);
        let takes = LIVE_BYTES.get() - before;
        assert!(takes <= needs && needs < takes + (4 << 16) + 30_000, "{hosts} hosts: takes {takes}, needs {needs}");
        assert_eq!(unsafe { fl_release(&mut call(making.link)) }, 0);
    }
}

#[test]
fn time_without_packets_is_not_made_up_for_whether_the_link_was_asked_or_not() {
    for asked in [true, false] {
        let config = bytes("hls", 1, 100);
        let mut making = make(&config, &mut [0; 160], ptr::null_mut());
        assert_eq!(unsafe { fl_create(&mut making) }, 0);
        let link = making.link;
        let mut now = 10_000_000;
        let mut sent = Vec::new();
        for round in 0..2u64 {
            for handle in 0..3 {
                let empty = u64::from(handle == 0);
                assert_eq!(unsafe { fl_enqueue(&mut Call { now, handle, empty, ..call(link) }) }, 0);
            }
            let mut call = Call { now, ..call(link) };
            for _ in 0..3 {
                while unsafe { fl_dequeue(&mut call) } == 0 {
                    call.now = call.wake;
                }
                sent.push(call.now - 10_000_000 - round * 5_000_000);
            }
            if asked {
                call.now += 80_000;
                assert_eq!((unsafe { fl_dequeue(&mut call) }, call.wake), (0, u64::MAX));
            }
            now += 5_000_000;
        }
        assert_eq!(sent, [0, 80_000, 160_000, 0, 80_000, 160_000], "asked: {asked}");
        assert_eq!(unsafe { fl_release(&mut call(link)) }, 0);
    }
}

#[test]
fn a_change_of_the_catch_up_counts_from_then_on() {
    let link = filled("hls", 1);
    let mut config = Config::read(&bytes("hls", 1, 1000)).unwrap();
    config.catch_up = Nanos::ZERO;
    let config = config.write().unwrap();
    // With 1 ms, 12 packets of 80 us are due at once after 1 ms and more without a call; with none, one.
    let due = |now| {
        let mut call = Call { now, ..call(link) };
        (0..50).take_while(|_| unsafe { fl_dequeue(&mut call) } == 1).count()
    };
    assert_eq!(due(10_000_000), 13);
    assert_eq!(due(20_000_000), 13);
    let mut making = make(&config, &mut [0; 160], link);
    assert_eq!(unsafe { fl_prepare(&mut making) }, 0);
    assert_eq!(unsafe { fl_commit(&mut Call { change: making.change, now: 20_000_000, ..call(link) }) }, 0);
    assert_eq!(due(30_000_000), 1);
    unsafe { fl_reset(&mut call(link)) };
    assert_eq!(unsafe { fl_release(&mut Call { change: making.change, ..call(link) }) }, 0);
}

#[test]
fn slots_that_packets_are_in_count_against_the_memory_limit() {
    let config = bytes("hls", 2, 1000);
    let needed = |slots: u64| {
        let mut message = [0; 160];
        let mut making = Make { memory_limit: 1, slots, ..make(&config, &mut message, ptr::null_mut()) };
        assert_eq!(unsafe { fl_create(&mut making) }, -22);
        text(&message).split(' ').nth(1).unwrap().parse::<u64>().unwrap()
    };
    // 1000 packets and one that arrives have slots of 12 bytes.
    assert_eq!((needed(0), needed(1001)), (needed(5), needed(0)));
    assert_eq!(needed(100_001) - needed(0), 99_000 * 12);
}

/// Under Miri this fails if the two borrow the same memory.
#[test]
fn a_change_is_prepared_while_packets_pass() {
    struct Shared(*mut Link);
    // SAFETY: the tests share it as the C side does: one thread has packets, the other prepares.
    unsafe impl Send for Shared {}
    let link = filled("hls", 3);
    let shared = Shared(link);
    let packets = std::thread::spawn(move || {
        let shared = shared;
        let mut sent = 0;
        for now in 0..200u64 {
            let mut call = Call { now: now * 80_000, handle: 1000 + now, ..call(shared.0) };
            assert_eq!(unsafe { fl_enqueue(&mut call) }, 0);
            sent += unsafe { fl_dequeue(&mut call) };
        }
        sent
    });
    let config = bytes("drr", 3, 1000);
    for _ in 0..if cfg!(miri) { 2 } else { 20 } {
        let mut making = make(&config, &mut [0; 160], link);
        assert_eq!(unsafe { fl_prepare(&mut making) }, 0);
        assert_eq!(unsafe { fl_release(&mut Call { change: making.change, ..call(ptr::null_mut()) }) }, 0);
    }
    assert_eq!(packets.join().unwrap(), 200);
    assert_eq!(unsafe { fl_reset(&mut call(link)) }, 0);
    assert_eq!(unsafe { fl_release(&mut call(link)) }, 0);
}
