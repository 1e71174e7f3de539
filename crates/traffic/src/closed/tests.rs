//! A window on a path of a constant round trip, against theory for Reno and CUBIC.

use fairlink_core::{NANOS_PER_SEC, Nanos, Rate};

use super::*;
use crate::interval::Interval;

const RTT: Nanos = Nanos::from_millis(100);

fn window(congestion_control: CongestionControl, rtt: Nanos, seconds: u64) -> Closed {
    let active = vec![Interval { start: Nanos::ZERO, end: Nanos::from_secs(seconds) }];
    let tcp = Tcp { congestion_control, rtt };
    Closed::tcp(tcp, &PacketSize::Fixed(1000), active, Random::new(1, 0)).unwrap()
}

/// Runs the source alone: a packet arrives at once, unless `lost` returns true. Returns the results.
fn run(source: &mut Closed, seconds: u64, mut lost: impl FnMut(u32) -> bool) -> ClosedReport {
    let mut now = Nanos::ZERO;
    while let Some(at) = next(source, now, Nanos::from_secs(seconds)) {
        now = at;
        if let Some(sent) = source.poll(now)
            && !lost(sent.tag)
        {
            source.arrived(now, sent.tag, false);
        }
    }
    source.report()
}

fn flow(report: ClosedReport) -> Flow {
    match report {
        ClosedReport::Tcp(flow) => flow,
        ClosedReport::RequestResponse(_) => unreachable!("it has a window"),
    }
}

/// Returns the time at which the source looks next, from `now` on and before `end`.
fn next(source: &Closed, now: Nanos, end: Nanos) -> Option<Nanos> {
    source.next_time().map(|at| at.max(now)).filter(|&at| at < end)
}

/// Packets in each round trip when one of `n` packets is lost.
fn per_round_trip(congestion_control: CongestionControl, rtt: Nanos, n: u32) -> f64 {
    // The larger windows of slow start are a small part.
    let seconds = 1500;
    let flow = flow(run(&mut window(congestion_control, rtt, seconds), seconds, |tag| tag % n == n - 1));
    assert_eq!(flow.timeouts, 0);
    assert!(flow.lost_packets.abs_diff(flow.sent_packets / u64::from(n)) <= 1, "{flow:?}");
    flow.sent_packets as f64 * rtt.0 as f64 / NANOS_PER_SEC as f64 / seconds as f64
}

#[test]
fn reno_follows_the_inverse_square_root_of_loss() {
    // Mathis et al. 1997: sqrt(3 / (2 p)) packets a round trip.
    for n in [200, 1000, 5000] {
        let expected = (1.5 * f64::from(n)).sqrt();
        let found = per_round_trip(CongestionControl::Reno, RTT, n);
        assert!((found / expected - 1.0).abs() < 0.08, "1 in {n}: {found}, {expected}");
    }
}

#[test]
fn cubic_follows_its_response_function() {
    // RFC 9438, Section 5.1: (C (3 + beta) / (4 (1 - beta)))^(1/4) (RTT / p)^(3/4) packets, if it is above Reno's.
    for n in [5_000, 15_000] {
        let rtt = RTT.0 as f64 / NANOS_PER_SEC as f64;
        let expected = (0.4f64 * 3.7 / 1.2).powf(0.25) * (rtt * f64::from(n)).powf(0.75);
        let found = per_round_trip(CongestionControl::Cubic, RTT, n);
        assert!((found / expected - 1.0).abs() < 0.1, "1 in {n}: {found}, {expected}");
    }
    // At short round trips it is as fast as Reno with the same beta: sqrt(alpha (1 + beta) / (2 (1 - beta) p)).
    let alpha = 3.0 * 0.3 / 1.7;
    let expected = (alpha * 1.7 / (2.0 * 0.3) * 500.0f64).sqrt();
    let found = per_round_trip(CongestionControl::Cubic, Nanos::from_millis(5), 500);
    assert!((found / expected - 1.0).abs() < 0.1, "{found}, {expected}");
}

#[test]
fn a_window_grows_by_itself_in_slow_start_and_by_one_after_it() {
    let mut source = window(CongestionControl::Reno, RTT, 10);
    let mut sent = Vec::new();
    // The packet 600 is lost: in the round trip that follows that of 640 packets, the window is half.
    let mut now = Nanos::ZERO;
    while let Some(at) = next(&source, now, Nanos::from_secs(2)) {
        now = at;
        if let Some(packet) = source.poll(now) {
            let round = (now.0 / RTT.0) as usize;
            sent.resize(sent.len().max(round + 1), 0);
            sent[round] += 1;
            if packet.tag != 600 {
                source.arrived(now, packet.tag, false);
            }
        }
    }
    assert_eq!(sent[..6], [10, 20, 40, 80, 160, 320]);
    let flow = flow(source.report());
    assert_eq!((flow.lost_packets, flow.timeouts), (1, 0));
    let most = flow.largest_window;
    // Half of the window at the loss, and a packet more in each round trip.
    for pair in sent[8..].windows(2).take(8) {
        assert!((1..=2).contains(&(pair[1] - pair[0])), "{sent:?}");
    }
    assert!((f64::from(sent[8]) - most / 2.0).abs() <= 6.0, "{sent:?} {most}");
}

#[test]
fn where_nothing_arrives_the_timeout_doubles_from_a_second_to_a_minute() {
    let mut source = window(CongestionControl::Cubic, RTT, 500);
    let mut times = Vec::new();
    let mut now = Nanos::ZERO;
    while let Some(at) = next(&source, now, Nanos::from_secs(250)) {
        now = at;
        if source.poll(now).is_some() && times.last() != Some(&now) {
            times.push(now);
        }
    }
    let gaps: Vec<u64> = times.windows(2).map(|pair| (pair[1] - pair[0]).0 / NANOS_PER_SEC).collect();
    assert_eq!(gaps, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
    let flow = flow(source.report());
    assert_eq!((flow.timeouts, flow.delivered_packets, flow.sent_packets), (9, 0, 10 + 9));
}

#[test]
fn a_mark_cuts_the_window_once_in_a_round_trip_and_loses_nothing() {
    let mut source = window(CongestionControl::Reno, RTT, 10);
    let mut now = Nanos::ZERO;
    while let Some(at) = next(&source, now, Nanos::from_millis(650)) {
        now = at;
        if let Some(sent) = source.poll(now) {
            source.arrived(now, sent.tag, (300..310).contains(&sent.tag));
        }
    }
    let flow = flow(source.report());
    assert_eq!((flow.marks, flow.lost_packets, flow.timeouts), (10, 0, 0));
    let Kind::Window(window) = &source.kind else { unreachable!() };
    assert!((150.0..260.0).contains(&window.window), "{}", window.window);
}

fn requests(spec: RequestResponse, packet: u32) -> Closed {
    let active = vec![Interval { start: Nanos::from_secs(1), end: Nanos::from_secs(100) }];
    Closed::requests(spec, &PacketSize::Fixed(packet), active, Random::new(1, 0)).unwrap()
}

#[test]
fn a_transaction_takes_its_links_the_round_trip_and_the_way_back() {
    let spec = RequestResponse {
        request: 2500,
        response: 125_000,
        think: Nanos::ZERO,
        rtt: Nanos::from_millis(50),
        return_rate: Some(Rate::from_bps(10_000_000).unwrap()),
    };
    let mut source = requests(spec, 1000);
    let mut lengths = Vec::new();
    let mut now = Nanos::ZERO;
    while let Some(at) = next(&source, now, Nanos::from_secs(11)) {
        now = at;
        if let Some(sent) = source.poll(now) {
            lengths.push(sent.len);
            // The links take 30 ms.
            source.arrived(now.saturating_add(Nanos::from_millis(30)), sent.tag, false);
        }
    }
    assert_eq!(lengths[..6], [1000, 1000, 500, 1000, 1000, 500]);
    let ClosedReport::RequestResponse(done) = source.report() else { unreachable!() };
    // 30 + 50 + 100 ms; from 1 s to 11 s there is time for 55.
    assert!((done.mean_s - 0.18).abs() < 1e-9 && (done.max_s - 0.18).abs() < 1e-9, "{done:?}");
    assert_eq!((done.answered, done.repeated), (55, 0));
}

#[test]
fn a_request_that_is_lost_in_part_is_sent_again_whole() {
    let spec = RequestResponse {
        request: 2000,
        response: 0,
        think: Nanos::ZERO,
        rtt: Nanos::from_millis(10),
        return_rate: None,
    };
    let mut source = requests(spec, 1000);
    let mut sent = Vec::new();
    let mut now = Nanos::ZERO;
    while let Some(at) = next(&source, now, Nanos::from_millis(4025)) {
        now = at;
        if let Some(packet) = source.poll(now) {
            sent.push((now.0 / 1_000_000, packet.tag));
            // The second packet of the first two tries is lost.
            if ![1, 3].contains(&packet.tag) {
                source.arrived(now, packet.tag, false);
            }
        }
    }
    assert_eq!(sent[..6], [(1000, 0), (1000, 1), (2010, 2), (2010, 3), (4020, 4), (4020, 5)]);
    let ClosedReport::RequestResponse(done) = source.report() else { unreachable!() };
    assert_eq!((done.answered, done.repeated), (0, 2));
}
