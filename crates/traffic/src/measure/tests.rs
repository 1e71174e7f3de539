//! Measured quantities against closed forms.

use fairlink_core::{ClassId, Rate};

use super::*;
use crate::{Model, OnTime, Pace, PacketSize, Source, SourceSpec};

const SECONDS: u64 = 2000;

fn measured(model: Model, packet: PacketSize, seed: u64, window: Nanos) -> Seen {
    let spec = SourceSpec { class: ClassId(1), model, packet, active: Vec::new() };
    let end = Nanos::from_secs(SECONDS);
    let mut arrivals = Arrivals::new(window);
    Source::new(&spec, seed, 0, end).unwrap().for_each(|packet| arrivals.arrive(packet.at, packet.len));
    arrivals.finish(end)
}

#[test]
fn poisson_arrivals_have_a_dispersion_of_one_and_no_memory() {
    let seen = measured(Model::poisson_packets(100_000), PacketSize::Fixed(500), 1, Nanos::from_millis(100));
    let near = |found: Option<f64>, expected: f64, by: f64| {
        assert!((found.unwrap() - expected).abs() < by, "{found:?} for {expected}: {seen:?}");
    };
    // 20,000 windows of ten packets: the standard error of a variance is a hundredth of it.
    near(seen.dispersion, 1.0, 0.04);
    near(seen.autocorrelation, 0.0, 0.03);
    near(seen.hurst, 0.5, 0.06);
    near(Some(seen.rate_bps), 400_000.0, 4_000.0);
    near(seen.deviation_bps, 10f64.sqrt() * 40_000.0, 3_000.0);
}

#[test]
fn on_times_without_end_show_as_long_range_dependence() {
    // The sum of many Pareto on-off sources with exponent a of the tail has H = (3 - a) / 2; here a = 1.4 and H = 0.8.
    let on = OnTime::Pareto { mean: Nanos::from_millis(200), k: 2.4 };
    let model = Model::OnOff { pace: Pace::Packets { per_1000_s: 100_000 }, on, off: Nanos::from_millis(200) };
    let end = Nanos::from_secs(SECONDS);
    let spec = SourceSpec { class: ClassId(1), model, packet: PacketSize::Fixed(500), active: Vec::new() };
    let specs = vec![spec; 40];
    let mut arrivals = Arrivals::new(Nanos::from_millis(500));
    for event in crate::TrafficMix::new(&specs, 7, end).unwrap() {
        arrivals.arrive(event.at, 500);
    }
    let hurst = arrivals.finish(end).hurst.unwrap();
    assert!((0.68..0.92).contains(&hurst), "{hurst}");
}

#[test]
fn the_correlation_of_neighbours_is_that_of_its_definition() {
    let values = [5.0, 9.0, 2.0, 2.0, 7.0, 11.0, 3.0];
    let mut neighbours = Neighbours::default();
    values.iter().for_each(|&value| neighbours.add(value));
    let mean = values.iter().sum::<f64>() / 7.0;
    let above: f64 = values.windows(2).map(|two| (two[0] - mean) * (two[1] - mean)).sum();
    let below: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
    assert!((neighbours.correlation().unwrap() - above / below).abs() < 1e-12);
}

#[test]
fn a_constant_rate_has_neither_dispersion_nor_correlation() {
    let rate = Model::cbr(Rate::from_bps(4_000_000).unwrap());
    let seen = measured(rate, PacketSize::Fixed(500), 1, Nanos::from_millis(10));
    assert_eq!((seen.dispersion, seen.autocorrelation, seen.hurst), (Some(0.0), None, None));
    assert_eq!((seen.rate_bps, seen.longest, seen.packets), (4_000_000.0, 500, 1000 * SECONDS));
}
