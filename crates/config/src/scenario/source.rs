//! One `[[source]]` of a scenario file.

use fairlink_core::Nanos;
use fairlink_traffic::{Interval, Model, PacketSize, SourceSpec};

use super::model::{self, Kind};
use super::{packet, shape};
use crate::changes::Course;
use crate::problem::{Log, ProblemKind};
use crate::reader::{Table, Value};
use crate::units::{parse_time, show_bps, show_rate};

pub(super) fn source(table: &Table<'_, '_>, course: Course<'_>, log: &mut Log) -> Option<SourceSpec> {
    let Course { first, duration, .. } = course;
    let kind = model::kind(table, log);
    let class = table.need("class", "class = \"...\"", log).and_then(|value| {
        let name = value.string("the name of a class in quotes", log)?;
        Some((course.leaf(name, value.span(), log)?, name, value.span()))
    });
    let packet = packet_size(table, kind, course.mtu(), log);
    let share = class.as_ref().map_or(0, |&(class, ..)| course.share(class));
    let guarantee = class.as_ref().map_or(0, |&(class, ..)| course.guarantee(class));
    let model = kind.and_then(|kind| model::model(table, kind, first, guarantee, log));
    let active = match table.get("active") {
        Some(value) => active(value, duration, log),
        None => Some(Vec::new()),
    };
    if let (Some((_, name, _)), Some(&Model::Saturating(rate))) = (&class, model.as_ref())
        && rate.bps() < share
    {
        let (key, help) = ("rate", "write more than the share of the class, or use model = \"cbr\"");
        let why = format!("of {} does not saturate \"{name}\", whose share is {}", show_rate(rate), show_bps(share));
        log.error(table.key_span(key), ProblemKind::Misplaced { key, why, help });
    }
    if let (Some((class, name, span)), Some(active)) = (&class, &active) {
        let span = table.get("active").map_or_else(|| span.clone(), Value::span);
        course.check_active(*class, name, active, span, log);
    }
    let model = model.and_then(|model| shape::held(table, model, Some(first.tree.link().rate), log));
    let spec = SourceSpec { class: class?.0, model: model?, packet: packet?, active: active? };
    if let Err(error) = spec.validate() {
        log.error(table.span.clone(), ProblemKind::Refused { message: error.to_string() });
        return None;
    }
    // Lengths that are written were compared where they are written.
    if let Some((_, longest)) = spec.lengths().filter(|&(_, longest)| longest > course.mtu()) {
        let span = table.get("file").map_or_else(|| table.span.clone(), Value::span);
        log.error(span, ProblemKind::AboveMtu { bytes: longest.into(), mtu: course.mtu() });
        return None;
    }
    Some(spec)
}

/// The lengths of packets. Video that is cut needs none: its packets are as long as the link allows.
fn packet_size(table: &Table<'_, '_>, kind: Option<Kind>, mtu: u32, log: &mut Log) -> Option<PacketSize> {
    if kind.is_some_and(Kind::has_own_lengths) && table.get("packet").is_none() {
        return Some(PacketSize::Fixed(mtu));
    }
    table.need("packet", "packet = \"1000B\"", log).and_then(|value| packet::packet(value, mtu, log))
}

fn active(value: Value<'_, '_>, duration: Option<Nanos>, log: &mut Log) -> Option<Vec<Interval>> {
    let all = match value.value.get_ref().as_str() {
        Some(_) => vec![value],
        None => value.list("a list of intervals such as [\"0s..10s\", \"20s..25s\"]", log)?,
    };
    if all.is_empty() {
        let why = "has no interval".to_owned();
        let help = "remove the source, or remove active to send all the time";
        log.error(value.span(), ProblemKind::Misplaced { key: "active", why, help });
        return None;
    }
    let mut intervals: Vec<Interval> = Vec::with_capacity(all.len());
    let mut sound = true;
    for value in all {
        let Some(interval) = interval(value, log) else {
            sound = false;
            continue;
        };
        let before = intervals.last().map_or(Nanos::ZERO, |interval| interval.end);
        if interval.start < before {
            log.error(value.span(), ProblemKind::Overlap { start: interval.start, before });
            sound = false;
        }
        if let Some(duration) = duration.filter(|&duration| interval.end > duration) {
            log.warn(value.span(), ProblemKind::BeyondEnd { time: interval.end, duration });
        }
        intervals.push(interval);
    }
    sound.then_some(intervals)
}

fn interval(value: Value<'_, '_>, log: &mut Log) -> Option<Interval> {
    const EXPECTED: &str = "an interval such as \"0s..10s\"";
    let text = value.string(EXPECTED, log)?;
    let Some((start, end)) = text.split_once("..") else {
        value.wrong_type(EXPECTED, log);
        return None;
    };
    let start = value.unit(parse_time(start), log)?;
    let end = value.unit(parse_time(end), log)?;
    if start >= end {
        log.error(value.span(), ProblemKind::EmptyInterval { start, end });
        return None;
    }
    Some(Interval { start, end })
}
