//! Theorem 1: the mean delay of the latency-critical flow.

use fairlink_sim::statistics::Estimate;
use fairlink_sim::{Options, Run};

use super::flows::{LINK_BPS, NEW, PACKET, SCHEDULERS, delay_panel, estimate, runs, theorem_1};
use super::load::{LAMBDA_LC, MEASURED_MORE, bare, behind_vacations, points};
use crate::claims::laboratory::mean_delay;
use crate::claims::{ClaimError, Expected, Finding, Lab, Row, Table, Unit, Workload};
use fairlink_figures::axis::Axis;
use fairlink_figures::figure::{Figure, Series, SeriesStyle};
use fairlink_figures::human;

const BARE: &str = include_str!("../../../../../scenarios/thesis/fig54.toml");
/// Packets per second of the latency-critical flow with backlogged best-effort flows.
const LAMBDAS: [u32; 8] = [2, 5, 10, 15, 20, 25, 30, 35];
/// Offered load that keeps each best-effort flow backlogged: 40/s of 410 B are more than half of the link each.
const BUSY: &str = "40";

/// The part of its guaranteed rate that the flow uses while the others are backlogged.
fn used(lambda: u32, quantum_lc: u32, quantum_be: u32) -> f64 {
    f64::from(lambda) * PACKET * 8.0 * f64::from(quantum_lc + quantum_be) / (f64::from(quantum_lc) * LINK_BPS)
}

fn busy(lambda: u32, quantum_lc: u32, quantum_be: u32) -> Result<Workload, ClaimError> {
    let (lambda, own, other) = (lambda.to_string(), format!("{quantum_lc}B"), format!("{quantum_be}B"));
    let mut settings = vec![("source.lc.packets_per_second", lambda.as_str()), ("class.lc.quantum", &own)];
    for key in ["source.be1.packets_per_second", "source.be2.packets_per_second", "source.be3.packets_per_second"] {
        settings.push((key, BUSY));
    }
    for key in ["class.be1.quantum", "class.be2.quantum", "class.be3.quantum"] {
        settings.push((key, &other));
    }
    Workload::new("theorem1.toml", BARE).with(&settings)
}

/// The results with backlogged best-effort flows.
struct Busy {
    /// Packets per second of the latency-critical flow.
    lambda: u32,
    /// Used part of its rate.
    used: f64,
    /// Its mean delay in seconds.
    delay: Estimate,
    /// The theorem's value.
    theorem: Option<f64>,
}

impl Busy {
    fn ratio(&self) -> Option<f64> {
        Some(self.theorem? / self.delay.mean)
    }
}

/// Runs one load of the latency-critical flow after the other.
fn backlogged(lab: &Lab<'_>, own: u32, other: u32) -> Result<Vec<Busy>, ClaimError> {
    let mut found = Vec::new();
    // Beyond its rate the flow's own queue grows without end.
    for lambda in LAMBDAS.into_iter().filter(|&lambda| used(lambda, own, other) < 0.95) {
        let played = lab.play(&busy(lambda, own, other)?, &SCHEDULERS[..1], runs(lab), &Options::default())?;
        let delay = estimate(&played.iter().map(|run: &Run| mean_delay(run, "lc")).collect::<Vec<_>>())?;
        found.push(Busy {
            lambda,
            used: used(lambda, own, other),
            delay,
            theorem: theorem_1(&busy(lambda, own, other)?, lambda)?,
        });
    }
    Ok(found)
}

/// Sentences beside the claim's.
const LOWER: &str = "When λ_BE is small, … the vacation time of the LC flow is decreased and the values of both parts of the delay in the measurement, W_a and W_b, are lower than in the analysis.";
const BACKLOGGED: &str =
    "This assumption should be a good approximation to the conditions at high LC arrival intensity. [Section 3.3]";

/// Tests Theorem 1.
pub(super) fn theorem1(lab: &Lab<'_>) -> Result<Finding, ClaimError> {
    let loads = &points(lab)?[1..];
    let mut ratios = Vec::new();
    let (mut measured, mut computed) = (Vec::new(), Vec::new());
    for point in loads {
        let delay = point.delay(NEW, "lc")?.mean;
        let theorem = theorem_1(&bare(point.x as u32)?, LAMBDA_LC)?.unwrap_or(f64::INFINITY);
        ratios.push(theorem / delay);
        measured.push((point.x, delay));
        computed.push((point.x, theorem));
    }
    let (low, high) = (ratios.first().copied().unwrap_or(f64::NAN), ratios.last().copied().unwrap_or(f64::NAN));
    let last_theorem = computed.last().map_or(f64::NAN, |point| point.1);
    let in_model = last_theorem / behind_vacations();
    // Quanta of two mean packets, the case that the derivation has in mind: few packets a round.
    let few = backlogged(lab, 820, 820)?;
    let worst = |from: f64, to: f64| {
        let ratios = few.iter().filter(|busy| (from..to).contains(&busy.used)).filter_map(Busy::ratio);
        ratios.fold(0.0f64, |worst, ratio| worst.max(ratio).max(1.0 / ratio))
    };
    let rows = vec![
        Row::new(
            "at 5 packets/s (Figure 5.1's low end): theorem over measured",
            Unit::Times,
            Expected::AtLeast(1.0),
            low,
        )
        .judging(LOWER),
        Row::new(
            "all loads of Figure 5.1: theorem over measured, the least",
            Unit::Times,
            Expected::AtLeast(1.0),
            ratios.iter().copied().fold(f64::INFINITY, f64::min),
        )
        .judging(LOWER),
        Row::new(
            "theorem over measured at 5 packets/s, over that at 20",
            Unit::Times,
            Expected::AtLeast(1.0),
            low / high,
        )
        .judging(LOWER),
        Row::new("at 20 packets/s: theorem over measured", Unit::Times, Expected::Near(1.6, 0.1), high).departing(
            0.95 * in_model,
            1.1 * in_model,
            format!(
                "The theorem's value there is {} s, 1.6 times the 106 ms that the text measured. {MEASURED_MORE}",
                human::digits(last_theorem)
            ),
        ),
        Row::new(
            "best-effort flows backlogged, quanta of two packets, own load up to 40 %: theorem and measured apart",
            Unit::Times,
            Expected::AtMost(1.15),
            worst(0.0, 0.4),
        )
        .judging(BACKLOGGED),
        Row::new(
            "the same, own load from 40 % to 95 %, where both stay backlogged",
            Unit::Times,
            Expected::AtMost(2.0),
            worst(0.4, 0.95),
        )
        .judging(BACKLOGGED),
    ];
    let mut table = Table::new(
        "Mean delay while the best-effort flows always have packets",
        &["quanta, packets/s", "part of its rate", "measured", "theorem", "theorem over measured"],
    );
    let mut curves = Vec::new();
    for (own, other) in [(820, 820), (820, 2666), (2000, 2000), (2000, 2666)] {
        let found = backlogged(lab, own, other)?;
        for busy in &found {
            table.row([
                format!("{own} B and {other} B, {}", busy.lambda),
                human::percent(busy.used),
                human::time(busy.delay.mean),
                busy.theorem.map_or_else(|| "none".to_owned(), human::time),
                busy.ratio().map_or_else(String::new, human::digits),
            ]);
        }
        curves.push((own, other, found));
    }
    let mut text = vec![
        Series::line("DRR++", measured, SeriesStyle::nth(0)),
        Series::line("Theorem 1", computed, SeriesStyle::reference()),
    ];
    text.push(Series::points("thesis", vec![(20.0, 0.106)], SeriesStyle::nth(6)));
    let x = Axis::linear("packets per second of each best-effort flow", 5.0, 20.5);
    let above = delay_panel("the loads of Figure 5.1", x, text).high(220.0);
    let mut series = Vec::new();
    for (n, (own, other, found)) in curves.into_iter().filter(|(own, other, _)| own == other).enumerate() {
        let points = found.iter().map(|busy| (100.0 * busy.used, busy.delay.mean)).collect();
        let errors = found.iter().map(|busy| busy.delay.ci95.unwrap_or(0.0)).collect();
        series.push(
            Series::line(format!("DRR++, quanta of {own} B"), points, SeriesStyle::nth(n + 1)).with_errors(errors),
        );
        // Near its pole the theorem would squeeze everything else.
        let theorem =
            found.iter().filter_map(|busy| Some((100.0 * busy.used, busy.theorem.filter(|&delay| delay < 2.0)?)));
        let theorem = theorem.collect();
        series.push(Series::line(format!("Theorem 1, quanta of {other} B"), theorem, SeriesStyle::background(n)));
    }
    let below = delay_panel(
        "best-effort flows always backlogged",
        Axis::linear("what the flow uses of its rate (%)", 0.0, 100.0),
        series,
    )
    .high(280.0);
    let note = "The theorem takes it that both classes stay backlogged, and counts whole packets a round. Above: the runs of Figure 5.1. Below and in the \
                table the best-effort flows always have packets, and the latency-critical one sends more and more. The theorem is close where a round has two \
                packets of the flow. It over-estimates the more packets a quantum holds, since arrivals do not wait for whole rounds \
                one by one, and it has none where the whole packets of a quantum are too few, though the deficits carry the rest.";
    Ok(Finding::new(note, rows)
        .with_figure(Figure::new("Theorem 1: the mean delay of the latency-critical flow", vec![above, below]))
        .with_table(table)
        .with_rerun(busy(20, 820, 820)?.rerun("--runs 10 --lenient --sweep source.lc.packets_per_second=5,10,20,30")))
}
