//! A gateway on two cores whose data thread stands still, or panics: its worker forwards meanwhile. With real packets in a
//! private network namespace. Assertions hold on any machine; how long nothing passed is printed.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use fairlink_core::{ClassId, Cores, Nanos, Split};
use fairlink_net::{FailOpen, FrameTemplate, Gateway, GatewayConfig, Headers, Processor, Remote, Stamp};
use fairlink_testbed::PrivateNamespace;

use crate::cables::{cables, config};
use crate::through::until;
use crate::variants::why_no_two_cores;
use crate::{raw, support};

pub(crate) fn main() -> ExitCode {
    support::main(&[
        ("a_worker_forwards_each_class_while_the_data_thread_stands_still", while_it_stands_still),
        ("a_worker_forwards_each_class_after_the_data_thread_has_panicked", after_it_has_panicked),
        ("more_threads_than_processors_and_other_ways_are_refused_with_both_numbers", what_is_refused),
    ])
}

/// One of two cores, whose worker waits 1 ms for the data thread.
fn on_two_cores() -> GatewayConfig {
    let cores = Cores::new(2, Split::Hub);
    let worker_patience = Some(Nanos::from_millis(1));
    GatewayConfig { cores, worker_patience, fail_open: FailOpen::Never, ..config(100_000_000, "hls") }
}

/// A class at the sink.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    /// Frames that have arrived, and those that were sent up to the last of them.
    arrived: u32,
    sent: u32,
    /// Longest time without one, and the longest that began when the data thread was disturbed, up to 5 ms after that.
    silence_ms: f64,
    silence_then_ms: f64,
}

/// Returns what the sink has seen of each class. The data thread was disturbed at `disturbed_ns`.
fn seen(disturbed_ns: u64, frames: &[(u64, Vec<u8>)]) -> BTreeMap<u32, Seen> {
    let mut classes = BTreeMap::<u32, (Seen, u64)>::new();
    for (at, bytes) in frames {
        let Some(stamp) = Stamp::read(bytes) else { continue };
        let (seen, last) = classes.entry(stamp.class.0).or_insert((Seen::default(), *at));
        seen.arrived += 1;
        seen.sent = seen.sent.max(stamp.sequence + 1);
        let silence_ms = at.saturating_sub(*last) as f64 / 1e6;
        seen.silence_ms = seen.silence_ms.max(silence_ms);
        if *at > disturbed_ns && *last < disturbed_ns + 5_000_000 {
            seen.silence_then_ms = seen.silence_then_ms.max(silence_ms);
        }
        *last = *at;
    }
    classes.into_iter().map(|(class, (seen, _))| (class, seen)).collect()
}

/// Asserts that almost all frames of each of two classes have arrived, more than the kernel has room for.
fn most_have_passed(what: &str, (disturbed_ns, frames): (u64, Vec<(u64, Vec<u8>)>)) {
    let seen = seen(disturbed_ns, &frames);
    println!("{what}: {seen:?}");
    assert!(seen.len() == 2 && seen.values().all(|class| class.arrived > class.sent / 10 * 9), "{seen:?}");
}

/// Two classes send some 5,000 frames a second each, below their guarantees, until 1.6 s after the data thread was
/// disturbed. Returns when that was, and the frames that arrive, with stamps: all in ns of the real-time clock.
fn with_traffic(remote: &Remote, disturbance: Option<Duration>) -> (u64, Vec<(u64, Vec<u8>)>) {
    let (over, recorder, sender) = (AtomicBool::new(false), raw::recorder("sink"), raw::sender("gen", false));
    std::thread::scope(|scope| {
        let recorded = scope.spawn(|| raw::record(&recorder, &over));
        scope.spawn(|| {
            let templates = [5001, 5002].map(|port| FrameTemplate::new(&Headers::udp(port)));
            for sequence in 0.. {
                if over.load(Ordering::Relaxed) {
                    return;
                }
                for (class, template) in (1..).zip(&templates) {
                    let mut bytes = vec![0; 100];
                    let stamp = Stamp { run: 0, class: ClassId(class), sequence, monotonic_ns: 0, realtime_us: 0 };
                    template.write(&mut bytes, &stamp);
                    let _ = raw::send(&sender, &bytes);
                }
                std::thread::sleep(Duration::from_micros(100));
            }
        });
        until(remote, |stats| stats.classes[..2].iter().all(|class| class.counts().sent.packets > 50));
        let disturbed = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        remote.disturb(disturbance);
        std::thread::sleep(Duration::from_millis(1600));
        if disturbance.is_some() {
            // It makes turns again, and all goes through the scheduler.
            remote.stats(Duration::from_secs(10)).unwrap();
        }
        over.store(true, Ordering::Relaxed);
        (disturbed.as_nanos() as u64, recorded.join().unwrap())
    })
}

fn while_it_stands_still(namespace: &PrivateNamespace) {
    if let Some(why) = why_no_two_cores(namespace) {
        println!("SKIPPED: {why}");
        return;
    }
    cables();
    let gateway = Gateway::open(on_two_cores()).unwrap();
    let (remote, stop) = (gateway.remote(), AtomicBool::new(false));
    let (frames, stats) = std::thread::scope(|scope| {
        let run = scope.spawn(|| gateway.run(&stop).unwrap());
        let frames = with_traffic(&remote, Some(Duration::from_millis(1500)));
        stop.store(true, Ordering::Relaxed);
        (frames, run.join().unwrap())
    });
    assert!(stats.gateway().balanced, "{stats:?}");
    most_have_passed("1.5 s without a turn", frames);
}

fn after_it_has_panicked(namespace: &PrivateNamespace) {
    if let Some(why) = why_no_two_cores(namespace) {
        println!("SKIPPED: {why}");
        return;
    }
    cables();
    let gateway = Gateway::open(on_two_cores()).unwrap();
    let (remote, vitals, stop) = (gateway.remote(), gateway.vitals(), AtomicBool::new(false));
    let frames = std::thread::scope(|scope| {
        let run = scope.spawn(|| gateway.run(&stop));
        let frames = with_traffic(&remote, None);
        stop.store(true, Ordering::Relaxed);
        assert!(run.join().is_err(), "the panic goes on at the end");
        frames
    });
    most_have_passed("after a panic", frames);
    let said = vitals.messages().iter().map(|event| event.message.clone()).collect::<String>();
    assert!(said.contains("the data thread has panicked"), "{said}");
}

fn what_is_refused(namespace: &PrivateNamespace) {
    cables();
    let open = |cores, change: fn(&mut GatewayConfig)| {
        let mut config = GatewayConfig { cores, ..config(10_000_000, "hls") };
        change(&mut config);
        Gateway::open(config).err().map(|error| error.to_string()).unwrap_or_default()
    };
    let many = open(Cores::new(64, Split::Hub), |_| {});
    assert!(many.starts_with("64 cores for out: this process may use ") && many.contains("lower cores"), "{many}");
    let shared = open(Cores::new(2, Split::Shared), |_| {});
    assert!(
        shared.contains("2 cores for out, with split \"shared\": a gateway shares a link among cores by a hub"),
        "{shared}"
    );
    let nowhere = open(Cores::new(2, Split::Hub), |config| config.processor = Processor::Number(4000));
    let expected =
        if why_no_two_cores(namespace).is_none() { "processor 4000 cannot be used" } else { "2 cores for out" };
    assert!(nowhere.contains(expected), "{nowhere}");
}
