//! With lines for curves H-FSC shares as packet fair queueing does, and SCED is Virtual Clock.

use fairlink_core::schedulers::hfsc::Hfsc;
use fairlink_core::{ClassId, DropReason, Nanos, Packet, Rate, Scheduler, Share};

use crate::claims::plain_link::{LARGEST, LINK, NS_PER_BYTE, build, flat, next};
use crate::claims::random::SeededRng;
use crate::claims::{ClaimError, Finding, Lab, Row, Unit};

/// Packets of a case.
const PACKETS: usize = 400;

/// The results for H-FSC with weights.
#[derive(Default)]
struct Fair {
    packets: usize,
    /// Packets of a class that was not the least served by weight.
    unfair: usize,
    /// Virtual times that are not the least w / r of a backlogged class.
    other_times: usize,
    /// Packets that Start-time Fair Queueing sends in another place.
    moved: usize,
}

/// Runs cases in which all packets are there at the start.
fn fair(lab: &Lab<'_>, cases: u64) -> Result<Fair, ClaimError> {
    let mut found = Fair::default();
    for case in 0..cases {
        lab.go_on()?;
        let mut dice = SeededRng::new(25, case);
        let weights: Vec<u64> = (0..dice.between(2, 12)).map(|_| dice.between(1, 1000)).collect();
        let tree = flat(&weights.iter().map(|&weight| Share::Weight(weight)).collect::<Vec<_>>())?;
        let mut hfsc = Hfsc::new(&tree).map_err(ClaimError::other)?;
        let mut pfq = build("sfq", &tree)?;
        let mut dropped = |_: Nanos, _: Packet, _: DropReason| {};
        let mut queued = vec![0u64; weights.len()];
        for handle in 0..PACKETS {
            let class = dice.below(weights.len() as u64) as usize;
            let len = dice.between(1, LARGEST) as u32;
            let packet = || Packet { handle: handle as u64, len, class: ClassId(class as u32 + 1) };
            queued[class] += 1;
            hfsc.enqueue(Nanos::ZERO, packet(), &mut dropped);
            pfq.enqueue(Nanos::ZERO, packet(), &mut dropped);
        }
        let mut served = vec![0u64; weights.len()];
        let mut now = 0;
        for _ in 0..PACKETS {
            let busy = || (0..weights.len()).filter(|&class| queued[class] > 0);
            // In the order of w / r, without rounding.
            let least = busy().min_by(|&a, &b| (served[a] * weights[b]).cmp(&(served[b] * weights[a])));
            if let (Some(least), Some((shown, _))) = (least, hfsc.virtual_times(ClassId::ROOT)) {
                let exact = u128::from(served[least]) * (8_000_000_000 << 12) / u128::from(weights[least]);
                found.other_times += usize::from(shown.abs_diff(exact) > 1);
            }
            let Some(packet) = next(&mut hfsc, now) else { return Err(ClaimError::other("hfsc is idle with packets")) };
            let class = packet.class.index() - 1;
            found.packets += 1;
            found.unfair +=
                usize::from(busy().any(|other| served[class] * weights[other] > served[other] * weights[class]));
            let other = next(&mut *pfq, now);
            found.moved += usize::from(other.map(|other| other.handle) != Some(packet.handle));
            queued[class] -= 1;
            served[class] += u64::from(packet.len);
            now += u64::from(packet.len) * NS_PER_BYTE;
        }
    }
    Ok(found)
}

/// The results for SCED with lines beside Virtual Clock, on a link that takes packets one by one.
#[derive(Default)]
struct Clocks {
    packets: usize,
    /// Packets that the two send in another place.
    moved: usize,
    /// Cases in which they differ.
    apart: usize,
    /// Cases in which they differ although no packet came late.
    unexplained: usize,
}

/// Packets come at random. Late ones, which come to a backlogged class after its last deadline, are left out unless
/// `late` is set.
fn clocks(lab: &Lab<'_>, cases: u64, late: bool) -> Result<Clocks, ClaimError> {
    let mut found = Clocks::default();
    for case in 0..cases {
        lab.go_on()?;
        let mut dice = SeededRng::new(26, case);
        // Rates that fill the link, in whole thousands.
        let mut rates = Vec::new();
        let mut left = LINK / 1000;
        for _ in 0..dice.between(1, 7) {
            let rate = dice.between(1, (left / 2).max(1));
            rates.push(rate * 1000);
            left -= rate;
        }
        rates.push(left * 1000);
        let shares = rates.iter().map(|&bps| Rate::from_bps(bps).map(Share::Guarantee).map_err(ClaimError::other));
        let tree = flat(&shares.collect::<Result<Vec<_>, _>>()?)?;
        let (mut sced, mut clock) = (build("sced", &tree)?, build("virtual-clock", &tree)?);
        let mut dropped = |_: Nanos, _: Packet, _: DropReason| {};
        let (mut stamps, mut queued) = (vec![0u64; rates.len()], vec![0u32; rates.len()]);
        let (mut now, mut free, mut differs, mut came_late) = (0u64, 0u64, false, false);
        // From a link that is hardly used to one that cannot keep up.
        let gap = dice.between(500_000, 3_000_000);
        for handle in 0..PACKETS as u64 {
            now += if dice.one_in(3) { 0 } else { dice.below(gap) };
            // Packets that the link has sent by then.
            while free <= now && queued.iter().any(|&packets| packets > 0) {
                let (own, other) = (next(&mut *sced, free), next(&mut *clock, free));
                let Some(own) = own else { return Err(ClaimError::other("sced is idle with packets")) };
                found.packets += 1;
                let moved = other.is_none_or(|other| other.handle != own.handle);
                found.moved += usize::from(moved);
                differs |= moved;
                queued[own.class.index() - 1] -= 1;
                free += u64::from(own.len) * NS_PER_BYTE;
            }
            free = free.max(now);
            let class = dice.below(rates.len() as u64) as usize;
            let len = dice.between(1, LARGEST);
            if queued[class] > 0 && stamps[class] < now {
                if !late {
                    continue;
                }
                came_late = true;
            }
            stamps[class] = now.max(stamps[class]) + (len * 8_000_000_000).div_ceil(rates[class]);
            queued[class] += 1;
            let packet = || Packet { handle, len: len as u32, class: ClassId(class as u32 + 1) };
            sced.enqueue(Nanos(now), packet(), &mut dropped);
            clock.enqueue(Nanos(now), packet(), &mut dropped);
        }
        found.apart += usize::from(differs);
        found.unexplained += usize::from(differs && !came_late);
    }
    Ok(found)
}

/// Sections 2.2 and 3.3: lines.
pub(super) fn linear(lab: &Lab<'_>) -> Result<Finding, ClaimError> {
    let cases: u64 = lab.by_effort(500, 5_000);
    let fair = fair(lab, cases)?;
    let clocks_alike = clocks(lab, cases, false)?;
    let with_late = clocks(lab, cases, true)?;
    let rows = vec![
        Row::never("H-FSC: packets of a class that had more service by weight than another with packets", fair.unfair),
        Row::never("H-FSC: least virtual times that are not the least w / r, to 2^-12 ns", fair.other_times),
        Row::never("packets that H-FSC and Start-time Fair Queueing send in another order", fair.moved),
        Row::never("packets that SCED and Virtual Clock send in another order", clocks_alike.moved),
        Row::never(
            "cases with all packets in which SCED and Virtual Clock differ although none came late",
            with_late.unexplained,
        ),
        Row::shown(
            "part of the cases with all packets in which they differ",
            Unit::Part,
            with_late.apart as f64 / cases as f64,
        ),
        Row::shown(
            "part of their packets that they then send in another place",
            Unit::Part,
            with_late.moved as f64 / with_late.packets as f64,
        ),
    ];
    let note = format!(
        "{cases} random sets of 2 to 12 sessions with weights from 1 to 1000, which all have packets of 1 to {LARGEST} B from the start: {} packets. H-FSC \
         with lines must send the head of a session that has the least service by weight, by exact comparison, at the virtual time w / r; and \
         the order must be that of Start-time Fair Queueing, which chooses by the same rule. {cases} random sets of 2 to 8 rates that fill a link, \
         with packets that come at random, from little to more than the link carries: SCED and Virtual Clock, {} packets. The two are not the same where \
         a packet comes late, to a session that still has some although its last deadline has passed: Virtual Clock then starts anew, equation (3) \
         of SCED only when a backlog begins. A link lets a deadline pass by a packet at most, so that few come late. These are left \
         out in the fourth line, and kept in the last three.",
        fair.packets, clocks_alike.packets
    );
    Ok(Finding::new(note, rows))
}
