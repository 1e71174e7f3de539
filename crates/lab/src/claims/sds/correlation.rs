//! Section IV on the sources: the correlation of DAR(1) video, and the long-range dependence of the aggregate of Pareto
//! sources.

use fairlink_core::Nanos;
use fairlink_traffic::Source;

use super::sources::{CELL, FRAMES, LINK, RHO, Sources, VIDEO, VIDEO_PACKET, Voice, data_rate};
use crate::claims::laboratory::mean_of;
use crate::claims::words::ABOUT;
use crate::claims::{ClaimError, Expected, Finding, Lab, Row, Table, Unit, Value, Workload};

/// Lags in frames up to which the text has the model match.
const LAGS: usize = 100;

/// Returns the bytes that the sources of a workload send in each slot of a run.
fn slots(workload: &Workload, run: u64, slot: f64) -> Result<Vec<f64>, ClaimError> {
    let file = workload.read("fifo")?;
    let mut bytes = vec![0.0; (file.duration.0 as f64 / 1e9 / slot).floor() as usize];
    for (index, spec) in file.sources.iter().enumerate() {
        let source = Source::new(spec, file.seed + run, index as u32, file.duration).map_err(ClaimError::other)?;
        for packet in source {
            let Nanos(at) = packet.at;
            if let Some(slot) = bytes.get_mut((at as f64 / 1e9 / slot) as usize) {
                *slot += f64::from(packet.len);
            }
        }
    }
    Ok(bytes)
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn variance(values: &[f64]) -> f64 {
    let mean = mean(values);
    values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / values.len() as f64
}

/// Returns the correlation of a series with itself `lag` later. `about` is its known mean.
fn correlation(values: &[f64], lag: usize, about: f64) -> f64 {
    let product = |(one, other): (&f64, &f64)| (one - about) * (other - about);
    let pairs = values.len() - lag;
    let covariance = values.iter().zip(&values[lag..]).map(product).sum::<f64>() / pairs as f64;
    covariance / (values.iter().map(|value| (value - about).powi(2)).sum::<f64>() / values.len() as f64)
}

/// Tests the correlation of frames.
pub(super) fn dar1(lab: &Lab<'_>) -> Result<Finding, ClaimError> {
    let (runs, seconds) = lab.by_effort((8, 2_000.0), (20, 20_000.0));
    let mut sources = Sources::new("a DAR(1) video source", LINK, VIDEO_PACKET, seconds);
    sources.video("video", "weight = 1");
    let workload = sources.workload("dar1.toml");
    let lags = [1, 10, 25, 50, LAGS];
    let mut found = vec![Vec::new(); lags.len()];
    for run in 0..runs {
        lab.go_on()?;
        let frames = slots(&workload, run, 1.0 / f64::from(FRAMES))?;
        let about = VIDEO / 8.0 / f64::from(FRAMES);
        for (lag, values) in lags.iter().zip(&mut found) {
            values.push(correlation(&frames, *lag, about));
        }
    }
    let mut rows = Vec::new();
    for (lag, values) in lags.into_iter().zip(&found) {
        let expected = RHO.powi(lag as i32);
        rows.push(Row::new(
            format!("correlation of frames {lag} apart, less 0.98^{lag}"),
            Unit::Number,
            Expected::Within(0.0, 0.05),
            mean_of("a lag", values.iter().map(|value| value - expected))?,
        ));
    }
    let note = format!(
        "The text says that the model matches the correlation of its data up to about a hundred frames; the data are lost. Judged is that the generator has the model's correlation, 0.98 to the power of the lag, up to {LAGS} frames: bytes in slots of a frame, {runs} runs of {seconds} s."
    );
    Ok(Finding::new(note, rows))
}

/// Estimates the Hurst parameter by the variance of means over longer and longer times: it falls as m^(2 H - 2).
fn hurst(values: &[f64]) -> f64 {
    let mut points = Vec::new();
    let mut block = 10usize;
    while values.len() / block >= 50 {
        let means: Vec<f64> = values.chunks_exact(block).map(mean).collect();
        points.push(((block as f64).ln(), variance(&means).ln()));
        block *= 2;
    }
    let (x, y) =
        (mean(&points.iter().map(|p| p.0).collect::<Vec<_>>()), mean(&points.iter().map(|p| p.1).collect::<Vec<_>>()));
    let slope = points.iter().map(|p| (p.0 - x) * (p.1 - y)).sum::<f64>()
        / points.iter().map(|p| (p.0 - x).powi(2)).sum::<f64>();
    1.0 + slope / 2.0
}

/// Tests the long-range dependence of an aggregate.
pub(super) fn dependence(lab: &Lab<'_>) -> Result<Finding, ClaimError> {
    let (runs, seconds) = lab.by_effort((6, 20.0), (20, 200.0));
    // A slot of ten packet times.
    let slot = 10.0 * f64::from(CELL) * 8.0 / LINK;
    let mut pareto = Sources::new("32 Pareto on-off sources", LINK, CELL, seconds);
    let mut exponential = Sources::new("32 exponential on-off sources", LINK, CELL, seconds);
    for n in 0..32 {
        pareto.data(&format!("data {n}"), "weight = 1");
        // Of as many packets in a burst and as long a silence.
        let voice = Voice { peak_to_mean: 206.0 / 6.0, burst: 6.0 };
        exponential.voice(&format!("voice {n}"), "weight = 1", data_rate(LINK), voice);
    }
    let (pareto, exponential) = (pareto.workload("dependent.toml"), exponential.workload("independent.toml"));
    let of = |workload: &Workload| -> Result<Value, ClaimError> {
        let values = (0..runs).map(|run| {
            lab.go_on()?;
            Ok(hurst(&slots(workload, run, slot)?))
        });
        Ok(mean_of("H", values.collect::<Result<Vec<f64>, ClaimError>>()?)?.into())
    };
    let (dependent, independent) = (of(&pareto)?, of(&exponential)?);
    // k = 5/2 in the text's density is a tail index of 1.5; H = (3 - 1.5) / 2.
    let rows = vec![
        Row::new(
            "Pareto on times: Hurst parameter of the aggregate",
            Unit::Number,
            Expected::Near(0.75, ABOUT),
            dependent,
        ),
        Row::new(
            "exponential on times of the same mean: the same, 0.5 without dependence",
            Unit::Number,
            Expected::Within(0.5, 0.06),
            independent,
        ),
    ];
    let note = format!(
        "32 sources with on times of 6 packet times and off times of 200, Pareto as in the text or exponential; bytes in slots of ten packet times. The variance of means over m slots falls as m^(2 H - 2): H is the slope from ten slots on, while at least 50 blocks are left. \
         Theory has H = (3 - 1.5) / 2 for the text's k = 5/2. {runs} runs of {seconds} s."
    );
    let mut table = Table::new("Hurst parameter", &["on times", "H"]);
    for (words, value) in [("Pareto", dependent), ("exponential", independent)] {
        table.row([words.to_owned(), format!("{:.3}", value.mean)]);
    }
    Ok(Finding::new(note, rows).with_table(table))
}
