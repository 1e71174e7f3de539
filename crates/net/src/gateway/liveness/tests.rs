use super::*;

const MS: fn(u64) -> Nanos = Nanos::from_millis;
const PATIENCE: Nanos = Nanos::from_millis(500);

fn seen(moved: u64, may_go: Option<u64>) -> Motion {
    Motion { moved, may_go: may_go.map(MS) }
}

#[test]
fn a_direction_that_stands_still_though_frames_might_go_has_stalled_once() {
    let mut progress = Progress::default();
    assert_eq!(progress.look(MS(0), seen(0, Some(0)), PATIENCE), None);
    assert_eq!(progress.look(MS(499), seen(0, Some(499)), PATIENCE), None);
    assert_eq!(progress.look(MS(500), seen(0, Some(500)), PATIENCE), Some(Turn::Stalled(MS(500))));
    assert_eq!(progress.look(MS(900), seen(0, Some(900)), PATIENCE), None, "said once");
    assert_eq!(progress.look(MS(1200), seen(1, Some(1200)), PATIENCE), Some(Turn::MovesAgain(MS(1200))));
    assert_eq!(progress.look(MS(1699), seen(1, Some(1699)), PATIENCE), None);
    assert_eq!(progress.look(MS(1700), seen(1, Some(1700)), PATIENCE), Some(Turn::Stalled(MS(500))));
}

#[test]
fn what_waits_for_its_time_or_for_a_carrier_has_not_stalled() {
    let mut progress = Progress::default();
    // A ceiling that blocks all frames for ten seconds; then one frame, on time.
    for now in (0..10_000).step_by(10) {
        assert_eq!(progress.look(MS(now), seen(0, Some(10_000)), PATIENCE), None, "{now}");
    }
    assert_eq!(progress.look(MS(10_001), seen(1, Some(20_000)), PATIENCE), None);
    // No carrier, which is reported separately.
    assert_eq!(progress.look(MS(30_000), seen(1, None), PATIENCE), None);
    assert_eq!(progress.look(MS(60_000), seen(1, None), PATIENCE), None);
    assert_eq!(progress.look(MS(60_010), seen(1, Some(60_010)), PATIENCE), None);
}

#[test]
fn a_promise_that_is_put_off_again_and_again_is_a_stall() {
    let mut progress = Progress::default();
    for now in (0..500).step_by(10) {
        assert_eq!(progress.look(MS(now), seen(7, Some(now + 1)), PATIENCE), None, "{now}");
    }
    // The first look saw frames move, the second one promised 11 ms.
    assert_eq!(progress.look(MS(510), seen(7, Some(511)), PATIENCE), Some(Turn::Stalled(MS(509))));
}

#[test]
fn others_see_a_thread_that_does_not_turn_and_a_direction_that_does_not_move() {
    let mut liveness = Liveness::new(PATIENCE);
    let vitals = liveness.vitals();
    assert!(vitals.is_well() && vitals.since_turn().is_none(), "it has not begun");
    let shared = MonotonicClock::SHARED.now().0;
    assert_eq!(liveness.turn(MS(100), shared), None);
    assert!(vitals.is_well() && vitals.since_turn().is_some());
    let waits = [seen(0, Some(0)), seen(0, None)];
    liveness.look(MS(100), waits, ["out", "in"]);
    liveness.look(MS(700), waits, ["out", "in"]);
    assert!(!vitals.is_well());
    let text = vitals.messages()[0].message.clone();
    assert!(text.contains("no frame has left by out for 600"), "{text}");
    assert!(vitals.messages().is_empty());
    liveness.look(MS(800), [seen(1, None), seen(0, None)], ["out", "in"]);
    assert!(vitals.is_well() && vitals.messages()[0].message.contains("again"));
    assert_eq!((liveness.stats().stalls, liveness.stats().longest_stall_s), (1, 0.7));
    // A turn long ago.
    assert_eq!(liveness.turn(MS(1000), shared - STALE.0 - 1_000_000_000), Some(MS(900)));
    assert!(!vitals.is_well());
    liveness.end();
    assert!(vitals.is_well() && vitals.since_turn().is_none(), "it has ended");
}
