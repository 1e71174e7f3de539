//! Values of curves, and invalid curves.

use super::*;
use ArrivalLimit::{Bucket, Line, Spacing, Window};

const MS: u64 = 1_000_000;

fn spacing(min_gap: u64, mean_gap: u64, over: u64, largest: u32) -> ArrivalLimit {
    Spacing { min_gap: Nanos(min_gap), mean_gap: Nanos(mean_gap), over: Nanos(over), largest }
}

#[test]
fn the_most_in_a_time_is_what_each_model_says() {
    let most = |limit: ArrivalLimit, ms: u64| ArrivalCurve::from(limit).most_in(Nanos(ms * MS), 1500);
    // 1 Mbit/s are 125 B in a millisecond.
    let bucket = Bucket { burst: 4000, rate_bps: 1_000_000 };
    assert_eq!([0, 1, 8].map(|ms| most(bucket, ms)), [4000, 4125, 5000]);
    // 8 Mbit/s in every 10 ms: two full windows fit into a closed interval of 10 ms, and three into 20.
    let window = ArrivalLimit::rate_in(Rate::from_bps(8_000_000).unwrap(), Nanos(10 * MS));
    assert_eq!([0, 9, 10, 19, 20].map(|ms| most(window, ms)), [10_000, 10_000, 20_000, 20_000, 30_000]);
    let packets = Window { amount: PerWindow::Packets(3), every: Nanos(10 * MS) };
    assert_eq!([0, 10].map(|ms| most(packets, ms)), [4500, 9000]);
    // One in 2 ms, and five in 20 ms: at 0, 2, 4, 6, 8 and again at 20.
    let spaced = spacing(2 * MS, 4 * MS, 20 * MS, 1000);
    assert_eq!([0, 1, 2, 8, 19, 20].map(|ms| most(spaced, ms)), [1000, 1000, 2000, 5000, 5000, 10_000]);
    let line = Line { rate: Rate::from_bps(12_000_000).unwrap() };
    assert_eq!([0, 1].map(|ms| most(line, ms)), [1500, 3000]);
    let least = ArrivalCurve::new(&[bucket, line]).unwrap();
    assert_eq!([0, 1, 8].map(|ms| least.most_in(Nanos(ms * MS), 1500)), [1500, 3000, 5000]);
}

#[test]
fn straight_lines_are_never_below_the_curve_and_touch_it_at_each_step() {
    for limit in [
        Bucket { burst: 4000, rate_bps: 999_999 },
        Window { amount: PerWindow::Bytes(7001), every: Nanos(3_333_333) },
        Window { amount: PerWindow::Packets(7), every: Nanos(1_234_567) },
        spacing(1_000_001, 3_000_000, 10_000_000, 1200),
        spacing(0, 3_000_000, 10_000_000, 1200),
        Line { rate: Rate::from_bps(12_345_678).unwrap() },
    ] {
        let curve = ArrivalCurve::from(limit);
        let line = |span: u64| {
            let value = |(burst, rate): (u128, Ratio)| {
                burst + rate.numerator * u128::from(span) / rate.denominator / 8_000_000_000
            };
            curve.lines(1500).map(value).min().unwrap()
        };
        let mut touched = 0;
        for span in (0..40_000_000).step_by(7_919).chain([1_234_567, 3_333_333, 10_000_000]) {
            let most = curve.most_in(Nanos(span), 1500);
            assert!(most <= line(span), "{limit:?}, {span} ns: {most} of {}", line(span));
            touched += u32::from(line(span) - most <= 1);
        }
        assert!(touched >= 2, "{limit:?}");
    }
}

#[test]
fn what_lets_nothing_pass_is_refused_with_value_and_limit() {
    let text = |limit: ArrivalLimit| ArrivalCurve::new(&[limit]).unwrap_err().to_string();
    assert_eq!(
        text(Bucket { burst: 0, rate_bps: 1 }),
        "a burst of 0 B, which no packet fits into; the least is the longest packet"
    );
    assert_eq!(text(Bucket { burst: 1, rate_bps: 0 }), "a rate of 0 bit/s; the least is 1 bit/s");
    assert_eq!(
        text(Window { amount: PerWindow::Bytes(1), every: Nanos(0) }),
        "an interval of 0 ns; the shortest is 1 ns"
    );
    assert_eq!(
        text(ArrivalLimit::rate_in(Rate::MIN, Nanos(7))),
        "less than 1 B in 7 ns, which no packet fits into; the least is the longest packet"
    );
    assert_eq!(
        text(spacing(1, 30, 20, 9)),
        "a mean gap of 30 ns in every 20 ns, which leaves no room for a packet; the longest mean gap is the interval"
    );
    assert_eq!(
        text(spacing(9, 8, 20, 9)),
        "a mean gap of 8 ns below the least gap of 9 ns; the shortest mean gap is the least gap"
    );
    assert_eq!(
        text(spacing(0, 0, 20, 9)),
        "a mean gap of 0 ns below the least gap of 1 ns; the shortest mean gap is the least gap"
    );
    assert_eq!(text(spacing(1, 8, 20, 0)), "a largest packet of 0 B; the least is 1 B");
    assert_eq!(ArrivalCurve::new(&[]), Err(CurveError::Empty));
    let line = Line { rate: Rate::MIN };
    assert_eq!(ArrivalCurve::new(&[line; 17]), Err(CurveError::TooMany { limits: 17 }));
    assert!(ArrivalCurve::new(&[line; 16]).is_ok());
}

#[test]
fn the_longest_packet_is_the_least_that_a_limit_ever_lets_through() {
    let longest = |limits: &[ArrivalLimit]| ArrivalCurve::new(limits).unwrap().longest_packet();
    let line = Line { rate: Rate::MIN };
    assert_eq!(longest(&[line]), u64::MAX);
    assert_eq!(longest(&[line, Bucket { burst: 900, rate_bps: 1 }]), 900);
    assert_eq!(longest(&[Window { amount: PerWindow::Bytes(800), every: Nanos(9) }, spacing(1, 2, 9, 700)]), 700);
}
