//! The latency-critical flow as a queue whose server takes vacations (Section 5.1.1), and its isolation from a flow that behaves badly.

use std::sync::{Arc, Mutex, PoisonError};

use fairlink_sim::{Fate, Observer, Options, PacketSeen};

use super::flows::{FLOWS, LINK_BPS, NEW, OLD, PACKET, Point, SCHEDULERS, estimate, runs};
use super::load::bare;
use crate::claims::laboratory::mean_delay;
use crate::claims::{ClaimError, Expected, Finding, Lab, Row, Table, Unit, Workload};
use fairlink_figures::human;

const BARE: &str = include_str!("../../../../../scenarios/thesis/fig54.toml");
/// Offered load that keeps each best-effort flow backlogged.
const BUSY: &str = "40";
/// The best-effort quantum at the right end of Figure 5.1.
const QUANTUM: f64 = 2666.0;
const LAMBDAS: [u32; 5] = [2, 5, 10, 15, 20];

/// Makes best-effort flows that always have packets, with quanta of 2666 B. A latency-critical flow of `lambda` packets
/// a second never uses up its quantum.
fn busy(lambda: u32) -> Result<Workload, ClaimError> {
    let lambda = lambda.to_string();
    let mut settings = vec![("source.lc.packets_per_second", lambda.as_str()), ("class.lc.quantum", "20000B")];
    for flow in ["source.be1.packets_per_second", "source.be2.packets_per_second", "source.be3.packets_per_second"] {
        settings.push((flow, BUSY));
    }
    for flow in ["class.be1.quantum", "class.be2.quantum", "class.be3.quantum"] {
        settings.push((flow, "2666B"));
    }
    Workload::new("vacations.toml", BARE).with(&settings)
}

/// Vacations: lengths of runs of packets of one best-effort flow, and waits of packets of the latency-critical flow
/// that came to its empty queue.
#[derive(Default)]
struct Seen {
    /// Lengths of visits to a best-effort flow, in seconds.
    visits: Vec<f64>,
    /// Absence of the server, for packets that came to an empty queue, in seconds.
    waits: Vec<f64>,
}

struct Watch {
    /// Class, arrival, start and end of each packet, in nanoseconds.
    packets: Vec<(usize, u64, u64, u64)>,
    found: Arc<Mutex<Seen>>,
}

impl Observer for Watch {
    fn went(&mut self, packet: &PacketSeen, fate: Fate) {
        if let Fate::Sent { start, done } = fate {
            self.packets.push((packet.class.index(), packet.arrived.0, start.0, done.0));
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        self.packets.sort_by_key(|packet| packet.2);
        let (mut class, mut sum, mut last_own) = (0, 0, 0);
        for &(of, arrived, start, done) in &self.packets {
            if of == class {
                sum += done - start;
            } else {
                if class > 1 {
                    found.visits.push(sum as f64 / 1e9);
                }
                (class, sum) = (of, done - start);
            }
            // The link has the number 0, and the latency-critical flow is the first class.
            if of == 1 {
                if arrived >= last_own {
                    found.waits.push((start - arrived) as f64 / 1e9);
                }
                last_own = done;
            }
        }
    }
}

fn watch(lab: &Lab<'_>, workload: &Workload, scheduler: &str) -> Result<Seen, ClaimError> {
    let found = Arc::new(Mutex::new(Seen::default()));
    let observer = || -> Box<dyn Observer> { Box::new(Watch { packets: Vec::new(), found: Arc::clone(&found) }) };
    lab.watched(workload, &[scheduler], runs(lab), &Options::default(), Some(&observer))?;
    Ok(std::mem::take(&mut *found.lock().unwrap_or_else(PoisonError::into_inner)))
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// The mean delay of M/G/1 with these vacations, in seconds: service, earlier backlog, and the rest of a vacation.
fn predicted(lambda: u32, visits: &[f64]) -> f64 {
    let variance = (661.0f64.powi(2) - 1.0) / 12.0;
    let service = PACKET * 8.0 / LINK_BPS;
    let square = (PACKET * PACKET + variance) * (8.0 / LINK_BPS).powi(2);
    let lambda = f64::from(lambda);
    let squares: Vec<f64> = visits.iter().map(|visit| visit * visit).collect();
    service + lambda * square / (2.0 * (1.0 - lambda * service)) + mean(&squares) / (2.0 * mean(visits))
}

/// Tests Section 5.1.1: M/G/1 with vacations.
pub(super) fn vacations(lab: &Lab<'_>) -> Result<Finding, ClaimError> {
    const ONE: &str =
        "In DRR++, V_LC <= Q_BE/BNBW because the LC flow is served only after one BE traffic has been forwarded.";
    const ALL: &str = "In DRR+, V_LC <= Σ_j Q_BE^j/BNBW at any point in time after the LC flow breaks the contract.";
    let one = QUANTUM * 8.0 / LINK_BPS;
    let mut table = Table::new(
        "Mean delay while the best-effort flows always have packets",
        &["packets/s", "measured", "M/G/1 with vacations", "measured over that", "mean vacation"],
    );
    let mut apart = 0.0f64;
    let mut largest = 0.0f64;
    for lambda in LAMBDAS {
        let workload = busy(lambda)?;
        let seen = watch(lab, &workload, SCHEDULERS[NEW])?;
        let played = lab.play(&workload, &SCHEDULERS[..1], runs(lab), &Options::default())?;
        let delay = estimate(&played.iter().map(|run| mean_delay(run, FLOWS[0])).collect::<Vec<_>>())?.mean;
        let model = predicted(lambda, &seen.visits);
        apart = apart.max((delay / model - 1.0).abs());
        largest = largest.max(mean(&seen.visits));
        table.row([
            lambda.to_string(),
            human::time(delay),
            human::time(model),
            human::digits(delay / model),
            human::time(mean(&seen.visits)),
        ]);
    }
    // The text's own loads.
    let mut waits = [0.0f64; 2];
    let mut longest = [0.0f64; 2];
    for lambda in [5, 10, 15, 20] {
        let quantum = 2000.0 * f64::from(lambda) / 15.0 * 8.0 / LINK_BPS;
        for (n, scheduler) in SCHEDULERS.into_iter().enumerate() {
            let seen = watch(lab, &bare(lambda)?, scheduler)?;
            let all = if n == NEW { quantum } else { 3.0 * quantum };
            waits[n] = waits[n].max(mean(&seen.waits) / all);
            let most = seen.waits.iter().copied().fold(0.0, f64::max);
            // A flow may send a largest packet less one byte that it had carried over.
            let carried = if n == NEW { 1.0 } else { 3.0 } * 739.0 * 8.0 / LINK_BPS;
            longest[n] = longest[n].max(most / (all + carried));
        }
    }
    let rows = vec![
        Row::new("M/G/1 with the vacations that were measured: mean delay off the model, the most of all loads", Unit::Part, Expected::AtMost(0.05), apart),
        Row::new("DRR++: mean vacation over Q_BE/BNBW, best-effort flows always backlogged", Unit::Part, Expected::AtMost(1.0), largest / one).judging(ONE),
        Row::new("DRR++, Figure 5.1's loads: mean wait of a packet that finds no other of its flow, over Q_BE/BNBW", Unit::Part, Expected::AtMost(1.0), waits[NEW]).judging(ONE),
        Row::new("the longest such wait, over Q_BE/BNBW and what a flow had carried over", Unit::Part, Expected::AtMost(1.0), longest[NEW]).judging(ONE),
        Row::new("DRR+, Figure 5.2's loads: mean wait of a packet that finds no other of its flow, over the sum of Q_BE/BNBW", Unit::Part, Expected::AtMost(1.0), waits[OLD]).judging(ALL),
        Row::new("the longest such wait, over that sum and what the flows had carried over", Unit::Part, Expected::AtMost(1.0), longest[OLD]).judging(ALL),
    ];
    let note = "A vacation is a visit to a best-effort flow: what it sends in a row. The latency-critical flow's quantum is so large that a visit empties its queue, as the model has it, and the best-effort flows always have \
                packets. The model is computed with the first two moments of the vacations that were measured. A quantum bounds the mean: one visit may send what the flow had carried over, up to a packet.";
    Ok(Finding::new(note, rows).with_table(table).with_rerun(busy(15)?.rerun("--runs 10 --lenient")))
}

/// Sections 1.2 and 5.1.1: a best-effort flow that behaves badly.
pub(super) fn isolation(lab: &Lab<'_>) -> Result<Finding, ClaimError> {
    const BADLY: [u32; 4] = [20, 40, 100, 400];
    const STEAL: &str =
        "DRR++ provides protection so that one flow is not able to steal bandwidth from others. [Section 2.5.4]";
    let mut table = Table::new(
        "Mean delays beside a best-effort flow that sends more than it should",
        &["its packets/s", "latency-critical: DRR++", "DRR+", "FIFO", "another best-effort flow: DRR++", "DRR+"],
    );
    let (mut own, mut other) = (Vec::new(), Vec::new());
    let mut fifo = Vec::new();
    for rate in BADLY {
        let rate = rate.to_string();
        let workload = bare(15)?.with(&[("source.be1.packets_per_second", &rate)])?;
        let point = Point::play(lab, 0.0, &workload)?;
        let played = lab.play(&workload, &["fifo"], runs(lab), &Options::default())?;
        let of_fifo = estimate(&played.iter().map(|run| mean_delay(run, FLOWS[0])).collect::<Vec<_>>())?.mean;
        let [new, old, others, others_old] = [
            point.delay(NEW, "lc")?.mean,
            point.delay(OLD, "lc")?.mean,
            point.delay(NEW, "be2")?.mean,
            point.delay(OLD, "be2")?.mean,
        ];
        let mut cells = vec![rate];
        cells.extend([new, old, of_fifo, others, others_old].map(human::time));
        table.row(cells);
        own.push(new);
        other.push(others);
        fifo.push(of_fifo);
    }
    // A visit of each best-effort flow and one of the latency-critical flow between them.
    let round = 6.0 * 2000.0 * 8.0 / LINK_BPS;
    let rows = vec![
        Row::new("DRR++: delay beside a flow of 400 packets/s over that beside one of 40", Unit::Times, Expected::Near(1.0, 0.05), own[3] / own[1]),
        Row::new("DRR++: delay beside it less that of a link without the flow's excess, in best-effort quanta", Unit::Number, Expected::AtMost(1.0), (own[3] - own[0]) / (2000.0 * 8.0 / LINK_BPS)),
        Row::new("DRR++: delay of another best-effort flow beside it, in whole rounds", Unit::Number, Expected::AtMost(3.0), other[3] / round).judging(STEAL),
        Row::new("FIFO: delay of the latency-critical flow beside it over that under DRR++", Unit::Times, Expected::AtLeast(10.0), fifo[3] / own[3])
            .judging("Isolation: Isolation between streams is a much stronger feature, and guarantees that changes in one stream cannot affect the behavior of other streams traversing the same interface."),
    ];
    let note = "Figure 5.3's flows of 15 packets/s each with quanta of 2000 B, of which the first best-effort flow sends up to 400 packets/s, five times what the link carries. Quanta stay as they are.";
    Ok(Finding::new(note, rows).with_table(table).with_rerun(bare(15)?.rerun("--runs 10 --lenient --scheduler drr++ --scheduler drr+ --scheduler fifo --sweep source.be1.packets_per_second=20,40,100,400")))
}
