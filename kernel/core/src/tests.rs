//! The C interface in user space, with memory that is refused.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::{Cell, RefCell};
use std::ffi::c_void;
use std::ptr;

use fairlink_core::{
    ClassConfig, ClassId, Feature, Hierarchy, Leniency, LinkConfig, Nanos, Overhead, Rate, Share, registry,
};
use fairlink_qdisc::{Config, Labels};

use crate::*;

thread_local! {
    /// Allocations that still succeed on this thread.
    static LEFT: Cell<u64> = const { Cell::new(u64::MAX) };
    static MADE: Cell<u64> = const { Cell::new(0) };
    static LIVE: Cell<i64> = const { Cell::new(0) };
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
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        LIVE.set(LIVE.get() - 1);
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static REFUSING: Refusing = Refusing;

pub(crate) fn dropped(_: *mut c_void, handle: u64, _: u32, _: u32, reason: u32) {
    DROPPED.with_borrow_mut(|all| all.push((handle, reason)));
}

/// A link of 100 Mbit/s with the classes 1:1, 1:2, ... below it, with weights of 1, 2, ...
fn bytes(scheduler: &str, classes: u16, max_queued: u32) -> Vec<u8> {
    let rate = Rate::from_bps(100_000_000).unwrap();
    let mut tree = Hierarchy::builder(LinkConfig { max_queued, ..LinkConfig::new(rate) });
    let mut labels = Labels::new(classes.into()).unwrap();
    for class in 1..=classes {
        let share = Some(Share::Weight(class.into()));
        tree.add(ClassId::ROOT, ClassConfig { share, ..ClassConfig::default() }).unwrap();
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
        message: message.as_mut_ptr(),
        message_len: message.len(),
        link,
        change: ptr::null_mut(),
        facts: Facts::default(),
    }
}

fn call(link: *mut Link) -> Call {
    Call { link, owner: ptr::null_mut(), now: 0, handle: 0, len: 1000, class: 1, wake: 0, change: ptr::null_mut() }
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
    // 59 packets of 80 us, less the catch-up that the start of the link is worth: none.
    assert_eq!(now, 59 * 80_000);
    let mut about = About {
        link,
        class: 0,
        minor: 3,
        parent_minor: 9,
        leaf: 0,
        stats: Stats::default(),
        name: ptr::null(),
        name_len: 0,
        scheduler_len: 0,
        scheduler: ptr::null(),
    };
    assert_eq!(unsafe { fl_find(&mut about) }, 0);
    assert_eq!(unsafe { fl_about(&mut about) }, 0);
    assert_eq!((about.class, about.minor, about.parent_minor, about.leaf), (3, 3, 0, 1));
    assert_eq!((about.stats.rate, about.stats.sent, about.stats.queued), (50_000_000, [30, 30_000], [70, 70_000]));
    assert_eq!(unsafe { std::slice::from_raw_parts(about.name, about.name_len as usize) }, b"c3");
    assert_eq!(unsafe { std::slice::from_raw_parts(about.scheduler, about.scheduler_len as usize) }, b"hls");
    about.minor = 4;
    assert_eq!(unsafe { fl_find(&mut about) }, -2);
    about.class = 4;
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
