//! Section 3.3: the start of a class that becomes active. At v_min or v_max alone, virtual times differ by the number
//! of sessions.

use fairlink_core::schedulers::hfsc::{Hfsc, Joins};
use fairlink_core::{
    ClassConfig, ClassId, Dequeued, DropReason, Hierarchy, LinkConfig, Nanos, Packet, QueueLimits, Rate, Scheduler,
    ServiceCurve, Share,
};

use crate::claims::{ClaimError, Expected, Finding, Lab, Row, Table, Unit};
use fairlink_figures::axis::Axis;
use fairlink_figures::figure::{Figure, Panel, Series, SeriesStyle};

/// A packet of 1000 B takes 1 ms.
const LINK: u64 = 8_000_000;
const LEN: u32 = 1000;
const PACKET_NS: u64 = 1_000_000;

const BOUNDED: &str = "By doing this, we ensure that the discrepancy between the virtual times of any two active sibling sessions is bounded (see Section 5).";

/// The order of arrivals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comes {
    /// Sessions of one weight join one by one, stay, and have a packet that is due at once.
    Ahead,
    /// Two sessions are always active, one of them ahead by real-time service. Others have a packet each; the next comes while the last one waits.
    Behind,
    /// The same, and all others come at once.
    Together,
}

fn rate(bps: u64) -> Result<Rate, ClaimError> {
    Rate::from_bps(bps).map_err(ClaimError::other)
}

/// Makes the sessions of a workload: guarantee, real-time curve.
fn tree(comes: Comes, sessions: u64) -> Result<Hierarchy, ClaimError> {
    let mut tree = Hierarchy::builder(LinkConfig { max_packet: LEN, ..LinkConfig::new(rate(LINK)?) });
    let mut add = |bps: u64, real_time: Option<ServiceCurve>| -> Result<(), ClaimError> {
        let limits = QueueLimits { packets: 16_000, bytes: u32::MAX };
        let share = Some(Share::Guarantee(rate(bps)?));
        tree.add(ClassId::ROOT, ClassConfig { share, real_time, limits, ..ClassConfig::default() })
            .map_err(ClaimError::other)?;
        Ok(())
    };
    if comes == Comes::Ahead {
        // A packet for each is the sum of all curves in `sessions` packet times; then almost nothing.
        let bps = LINK / (2 * sessions);
        let curve = ServiceCurve { m1: Some(rate(bps)?), d: Nanos(2 * sessions * PACKET_NS), m2: Some(Rate::MIN) };
        (0..sessions).try_for_each(|_| add(LINK / sessions, Some(curve)))?;
    } else {
        // The first is sent half of the link by deadlines, which is its share.
        let half = rate(LINK / 2)?;
        add(LINK / 2, Some(ServiceCurve { m1: Some(half), d: Nanos::ZERO, m2: Some(half) }))?;
        add(LINK / 4, None)?;
        (0..sessions).try_for_each(|_| add(LINK / 4 / sessions, None))?;
    }
    tree.build().map_err(ClaimError::other)
}

/// Maximum difference of virtual times, over one packet of each of the two permanently active sessions.
fn apart(comes: Comes, sessions: u64, joins: Joins) -> Result<f64, ClaimError> {
    let tree = tree(comes, sessions)?;
    let mut hfsc = Hfsc::new(&tree).map_err(ClaimError::other)?.with_joins(joins);
    let mut dropped = |_: Nanos, _: Packet, _: DropReason| {};
    let mut widest = 0;
    let mut now = 0;
    let packet = |class: u64| Packet { handle: 0, len: LEN, class: ClassId(class as u32) };
    let step = |bps: u64| 8e3 / bps as f64;
    if comes == Comes::Ahead {
        for session in 1..=sessions {
            (0..4).for_each(|_| hfsc.enqueue(Nanos(now), packet(session), &mut dropped));
            let _ = hfsc.dequeue(Nanos(now), &mut dropped);
            now += PACKET_NS;
            if let Some((least, most)) = hfsc.virtual_times(ClassId::ROOT) {
                widest = widest.max(most - least);
            }
        }
        return Ok(widest as f64 / 4096e9 / (2.0 * step(LINK / sessions)));
    }
    for session in [1, 2] {
        (0..12 * sessions + 100).for_each(|_| hfsc.enqueue(Nanos(0), packet(session), &mut dropped));
    }
    let (mut came, mut waiting) = (0, 0);
    while came < sessions || waiting > 0 {
        // From when the two share for a while. One by one, the next comes while the last one waits.
        let most = if comes == Comes::Together { sessions } else { 2 };
        while now >= 20 * PACKET_NS && came < sessions && waiting < most {
            came += 1;
            waiting += 1;
            hfsc.enqueue(Nanos(now), packet(2 + came), &mut dropped);
        }
        if let Dequeued::Packet(sent) = hfsc.dequeue(Nanos(now), &mut dropped) {
            waiting -= u64::from(sent.class.0 > 2);
        }
        now += PACKET_NS;
        if let Some((least, most)) = hfsc.virtual_times(ClassId::ROOT) {
            widest = widest.max(most - least);
        }
    }
    Ok(widest as f64 / 4096e9 / (step(LINK / 2) + step(LINK / 4)))
}

/// Tests Section 3.3: v_min and v_max alone.
pub(super) fn join(lab: &Lab<'_>) -> Result<Finding, ClaimError> {
    let counts: &[u64] = lab.by_effort(&[8, 16, 32, 64, 128], &[8, 16, 32, 64, 128, 256, 512, 1024]);
    let rules = [("(v_min + v_max) / 2", Joins::Between), ("v_min", Joins::Least), ("v_max", Joins::Most)];
    let workloads = [
        ("join one by one and stay", Comes::Ahead),
        ("a packet each, one by one", Comes::Behind),
        ("a packet each, at once", Comes::Together),
    ];
    let mut all = Vec::new();
    for (_, comes) in workloads {
        for (_, joins) in rules {
            lab.go_on()?;
            let of: Vec<f64> =
                counts.iter().map(|&sessions| apart(comes, sessions, joins)).collect::<Result<_, _>>()?;
            all.push(of);
        }
    }
    let growth = |of: &[f64]| of[of.len() - 1] / of[0];
    let times = counts[counts.len() - 1] as f64 / counts[0] as f64;
    let most = |of: &[f64]| of.iter().copied().fold(0.0, f64::max);
    let rows = vec![
        Row::new(
            format!("v_max alone, sessions that join one by one: discrepancy with {} sessions over that with 8", counts[counts.len() - 1]),
            Unit::Times,
            Expected::Near(times, 0.25),
            growth(&all[2]),
        ),
        Row::new(
            format!("v_min alone, sessions of a packet each: discrepancy with {} sessions over that with 8", counts[counts.len() - 1]),
            Unit::Times,
            Expected::Near(times, 0.25),
            growth(&all[4]),
        ),
        Row::new(
            format!("the mean, both: discrepancy with {} sessions over that with 16", counts[counts.len() - 1]),
            Unit::Times,
            Expected::AtMost(1.05),
            (all[0][counts.len() - 1] / all[0][1]).max(all[3][counts.len() - 1] / all[3][1]),
        )
        .judging(BOUNDED),
        Row::new(
            format!("the mean, all at once: discrepancy with {} sessions over that with 16", counts[counts.len() - 1]),
            Unit::Times,
            Expected::AtMost(1.05),
            all[6][counts.len() - 1] / all[6][1],
        )
        .judging(BOUNDED)
        .departing(
            0.75 * times / 2.0,
            1.25 * times / 2.0,
            "Sessions that come together all start behind K, wherever that is, and each has a packet before K is served again. The constant of Theorem 3 counts a packet of every sibling; \
             the text does not say that it depends on their number.",
        ),
    ];
    let heads: Vec<String> = counts.iter().map(u64::to_string).collect();
    let mut head = vec!["workload, start"];
    head.extend(heads.iter().map(String::as_str));
    let mut table =
        Table::new("Largest difference of virtual times by the number of sessions, in packets of both sessions", &head);
    let mut panels = Vec::new();
    for (row, (workload, _)) in workloads.into_iter().enumerate() {
        let top = all[3 * row..3 * row + 3].iter().map(|of| most(of)).fold(1.0, f64::max) * 1.1;
        let x = Axis::linear("sessions", 0.0, counts[counts.len() - 1] as f64);
        let mut panel = Panel::new(workload, x, Axis::linear("packets of both", 0.0, top)).high(190.0);
        for (place, (rule, _)) in rules.into_iter().enumerate() {
            let of = &all[3 * row + place];
            table.row(
                std::iter::once(format!("{workload}, {rule}")).chain(of.iter().map(|value| format!("{value:.1}"))),
            );
            let points = counts.iter().zip(of).map(|(&count, &value)| (count as f64, value)).collect();
            panel.series.push(Series::line(rule, points, SeriesStyle::nth(place)));
        }
        panels.push(panel);
    }
    let note = "8 Mbit/s, packets of 1000 B; virtual times are read in `hfsc`, which takes v_min or v_max for this claim alone. v_max: sessions of one weight join one \
                by one and stay, each with a packet that is due at once, so that each starts a packet ahead of the last. v_min: session J has half of the link, by \
                deadlines, and session K a quarter by link-sharing; both always have packets. The others have a packet each and the last quarter together. The next comes while the last \
                one waits, so it starts where that one did, behind K; K waits for all of them, and J does not. With the mean each starts nearer to J, soon \
                ahead of K. Unit: a packet of each of two sessions, L / r_i + L / r_j, which is Golestani's measure for lines. Where all of these sessions come at once, J and K part as far with the \
                mean as well, because all are behind K before it is served again: the bound of Theorem 3 counts a packet of every sibling.";
    Ok(Finding::new(note, rows)
        .with_table(table)
        .with_figure(Figure::new("How far virtual times part, by where a session starts", panels)))
}
