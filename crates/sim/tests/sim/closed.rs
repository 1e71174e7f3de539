//! Sources that receive feedback on their packets, over links.

use fairlink_core::{ClassConfig, ClassId, Hierarchy, LinkConfig, Nanos, QueueKind, QueueLimits};
use fairlink_sim::{ClosedRun, Run, Scenario};
use fairlink_traffic::{CongestionControl, Model, RequestResponse, Tcp};

use crate::common::{flat, rate, run, scenario, source, weighted};

fn tcp(congestion_control: CongestionControl, ms: u64) -> Model {
    Model::Tcp(Tcp { congestion_control, rtt: Nanos::from_millis(ms) })
}

fn windows(run: &Run) -> Vec<(f64, u64, u64, u64)> {
    let window = |closed: &ClosedRun| match closed {
        ClosedRun::Tcp { goodput_bps, lost_packets, marks, timeouts, .. } => {
            (*goodput_bps / 1e6, *lost_packets, *marks, *timeouts)
        }
        ClosedRun::RequestResponse { .. } => unreachable!("all have windows"),
    };
    run.closed.iter().map(window).collect()
}

fn limited(packets: u32) -> Hierarchy {
    let mut tree = Hierarchy::builder(LinkConfig::new(rate(10_000_000)));
    let limits = QueueLimits { packets, bytes: u32::MAX };
    tree.add(ClassId::ROOT, ClassConfig { limits, ..weighted(1) }).unwrap();
    tree.build().unwrap()
}

#[test]
fn reno_fills_a_link_whose_buffer_is_its_bandwidth_times_delay_and_less_of_one_with_a_short_buffer() {
    // 10 Mbit/s, 96 ms and 1250 B: 96 packets. With a buffer of 12 the window rises from 54 to 108 packets, one each round trip, and
    // up to 96 the link is idle for a part of it: 42^2 / 2 of 54 * 96 packets are missing.
    let long = |packets| {
        let source = source(1, tcp(CongestionControl::Reno, 95), 1250, &[]);
        let run = run(&scenario(limited(packets), vec![source], Nanos::from_secs(200)), "hls").unwrap();
        windows(&run)[0].0 / 10.0
    };
    let (full, short) = (long(100), long(12));
    assert!(full > 0.98, "{full}");
    assert!((short - 0.83).abs() < 0.05, "{short}");
}

#[test]
fn windows_in_classes_of_their_own_share_by_the_weights() {
    let sources = vec![
        source(1, tcp(CongestionControl::Reno, 20), 1500, &[]),
        source(2, tcp(CongestionControl::Cubic, 80), 1500, &[]),
        source(3, tcp(CongestionControl::Reno, 5), 1500, &[]),
    ];
    let scenario =
        Scenario { warmup: Nanos::from_secs(10), ..scenario(flat(10, &[6, 3, 1]), sources, Nanos::from_secs(60)) };
    for scheduler in ["hls", "drr", "wf2q+", "hfsc"] {
        let run = run(&scenario, scheduler).unwrap();
        for (class, expected) in run.classes.iter().zip([6.0, 3.0, 1.0]) {
            let off = class.rates.rate() / 1e6 / expected - 1.0;
            assert!(off.abs() < 0.03, "{scheduler}: {} {off}", class.name);
        }
    }
}

#[test]
fn windows_of_one_queue_share_it_by_their_round_trips() {
    // RFC 5166: with long queues all have nearly the same round trip, and so the same share.
    let sources = (0..4).map(|_| source(1, tcp(CongestionControl::Reno, 40), 1500, &[])).collect();
    let run = run(&scenario(limited(60), sources, Nanos::from_secs(300)), "hls").unwrap();
    let shares = windows(&run);
    let sum: f64 = shares.iter().map(|share| share.0).sum();
    assert!(sum > 9.5, "{shares:?}");
    assert!(shares.iter().all(|share| (share.0 / 2.5 - 1.0).abs() < 0.25), "{shares:?}");
}

#[test]
fn marks_slow_a_window_without_a_loss_and_keep_its_queue_short() {
    let mut tree = Hierarchy::builder(LinkConfig::new(rate(10_000_000)));
    tree.add(ClassId::ROOT, ClassConfig { queue: QueueKind::CoDel, ecn: true, ..weighted(1) }).unwrap();
    let sources = vec![source(1, tcp(CongestionControl::Cubic, 20), 1500, &[])];
    let run = run(&scenario(tree.build().unwrap(), sources, Nanos::from_secs(60)), "hls").unwrap();
    let (goodput, lost, marks, timeouts) = windows(&run)[0];
    assert_eq!((lost, timeouts), (0, 0));
    assert!(marks > 20 && goodput > 9.0, "{marks} {goodput}");
    assert!(run.classes[0].delay().mean.unwrap() < 0.02, "{:?}", run.classes[0].delay());
}

#[test]
fn every_packet_of_a_window_is_accounted_for() {
    let sources = vec![source(1, tcp(CongestionControl::Cubic, 30), 700, &[(100, 4000), (5000, 9000)])];
    let run = run(&scenario(limited(20), sources, Nanos::from_secs(10)), "drr").unwrap();
    let class = &run.classes[0];
    let ClosedRun::Tcp { sent_packets, delivered_packets, lost_packets, .. } = run.closed[0] else { unreachable!() };
    assert_eq!(sent_packets, class.counts().received.packets);
    // After the end of the second interval all packets are accounted for. One that was given up by a timeout may still
    // have arrived.
    assert!(
        delivered_packets <= class.counts().sent.packets && delivered_packets + lost_packets == sent_packets,
        "{run:?}"
    );
    assert!(class.counts().dropped.packets > 0 && lost_packets >= class.counts().dropped.packets);
}

#[test]
fn requests_see_the_link_and_each_other() {
    let spec = RequestResponse {
        request: 1000,
        response: 0,
        think: Nanos::ZERO,
        rtt: Nanos::from_millis(2),
        return_rate: None,
    };
    let requests = |class| source(class, Model::RequestResponse(spec), 1000, &[]);
    // Alone: 8 ms at 1 Mbit/s and 2 ms.
    let alone = run(&scenario(flat(1, &[1, 1]), vec![requests(1)], Nanos::from_secs(10)), "hls").unwrap();
    let ClosedRun::RequestResponse { answered, mean_s, max_s, .. } = alone.closed[0] else { unreachable!() };
    assert!(answered == 999 && max_s == 0.01 && (mean_s - 0.01).abs() < 1e-12, "{answered} {mean_s} {max_s}");
    // Beside a greedy class it waits for one packet of that at most.
    let greedy = source(2, Model::Greedy, 1000, &[]);
    let busy = run(&scenario(flat(1, &[1, 1]), vec![requests(1), greedy], Nanos::from_secs(10)), "hls").unwrap();
    let ClosedRun::RequestResponse { max_s, .. } = busy.closed[0] else { unreachable!() };
    assert!(max_s > 0.01 && max_s <= 0.01 + 2.0 * 0.008, "{max_s}");
}
