//! The arrival curve that a `[[source]]` is held to: `shape`, `shape_queue` and `police`.

use fairlink_core::{QueueLimits, Rate};
use fairlink_traffic::{ArrivalCurve, ArrivalLimit, CurveError, Excess, MAX_LIMITS, Model, Shaped};

use crate::problem::{Log, ProblemKind};
use crate::reader::{Table, Value};
use crate::units::{QueueLength, parse_queue};

const EXPECTED: &str = "{ burst = \"4kB\", rate = \"1mbit\" }, { rate = \"1mbit\", every = \"10ms\" }, { xmin = \"2ms\", xave = \"4ms\", i = \"1s\", \
                        smax = \"1000B\" }, { line = \"10mbit\" }, or a list of such";
const PLACE: &str = "an arrival curve";
pub(super) const KEYS: [&str; 8] = ["burst", "rate", "every", "xmin", "xave", "i", "smax", "line"];

/// Returns `model`, shaped by the source's curve if it has one.
pub(super) fn held(table: &Table<'_, '_>, model: Model, link: Option<Rate>, log: &mut Log) -> Option<Model> {
    table.not_both("shape", "police", log);
    let (value, excess) = match (table.get("shape"), table.get("police")) {
        (None, None) => {
            queue_without_shaper(table, log);
            return Some(model);
        }
        (Some(value), _) => (value, Excess::Waits(queue(table, log))),
        (None, Some(value)) => {
            queue_without_shaper(table, log);
            (value, Excess::Drops)
        }
    };
    let curve = curve(value, link, log)?;
    Some(Model::Shaped(Box::new(Shaped { model, curve, excess })))
}

fn queue_without_shaper(table: &Table<'_, '_>, log: &mut Log) {
    if table.get("shape_queue").is_some() {
        let why = "has no effect on a source without a shape".to_owned();
        let help = "add shape = { burst = \"4kB\", rate = \"1mbit\" }, or remove it";
        log.error(table.key_span("shape_queue"), ProblemKind::Misplaced { key: "shape_queue", why, help });
    }
}

/// The limits of the shaper's queue; without the key it is never full.
fn queue(table: &Table<'_, '_>, log: &mut Log) -> Option<QueueLimits> {
    let value = table.get("shape_queue")?;
    let text = value.quantity("a queue length such as \"100p\" or \"150kB\"", log)?;
    match value.unit(parse_queue(text), log)? {
        QueueLength::Packets(packets) => Some(QueueLimits { packets, bytes: u32::MAX }),
        QueueLength::Bytes(bytes) => Some(QueueLimits { packets: u32::MAX, bytes }),
        QueueLength::Time(_) => {
            let why = "is a time, which a shaper with several rates cannot convert".to_owned();
            let help = "write packets or bytes, such as \"100p\" or \"150kB\"";
            log.error(value.span(), ProblemKind::Misplaced { key: "shape_queue", why, help });
            None
        }
    }
}

fn curve(value: Value<'_, '_>, link: Option<Rate>, log: &mut Log) -> Option<ArrivalCurve> {
    let refused = |value: Value<'_, '_>, error: &CurveError, log: &mut Log| {
        log.error(value.span(), ProblemKind::Refused { message: format!("an arrival curve with {error}") });
    };
    let all = if value.is_list() { value.list(EXPECTED, log)? } else { vec![value] };
    if all.is_empty() || all.len() > MAX_LIMITS {
        let error = if all.is_empty() { CurveError::Empty } else { CurveError::TooMany { limits: all.len() } };
        refused(value, &error, log);
        return None;
    }
    let mut limits = Vec::with_capacity(all.len());
    for value in all.iter().copied() {
        let Some(limit) = limit(value, link, log) else { continue };
        match ArrivalCurve::new(&[limit]) {
            Ok(_) => limits.push(limit),
            Err(error) => refused(value, &error, log),
        }
    }
    (limits.len() == all.len()).then(|| ArrivalCurve::new(&limits).ok())?
}

fn limit(value: Value<'_, '_>, link: Option<Rate>, log: &mut Log) -> Option<ArrivalLimit> {
    let table = value.table(PLACE, EXPECTED, log)?;
    let has = |key| table.get(key).is_some();
    if has("line") {
        table.only(&["line"], log);
        return Some(ArrivalLimit::Line { rate: table.get("line")?.rate(link, log)? });
    }
    if ["xmin", "xave", "i", "smax"].into_iter().any(has) {
        table.only(&["xmin", "xave", "i", "smax"], log);
        let min_gap = table.need("xmin", "xmin = \"2ms\"", log).and_then(|value| value.time(log));
        let mean_gap = table.need("xave", "xave = \"4ms\"", log).and_then(|value| value.some_time(log));
        let over = table.need("i", "i = \"1s\"", log).and_then(|value| value.some_time(log));
        let largest = table.need("smax", "smax = \"1000B\"", log);
        let largest = largest.and_then(|value| value.some_size(u32::MAX.into(), log));
        return Some(ArrivalLimit::Spacing {
            min_gap: min_gap?,
            mean_gap: mean_gap?,
            over: over?,
            largest: u32::try_from(largest?).unwrap_or(u32::MAX),
        });
    }
    let rate = |log: &mut Log| table.need("rate", "rate = \"1mbit\"", log).and_then(|value| value.rate(link, log));
    if let Some(every) = table.get("every") {
        table.only(&["rate", "every"], log);
        let (rate, every) = (rate(log), every.some_time(log));
        return Some(ArrivalLimit::rate_in(rate?, every?));
    }
    table.only(&KEYS, log);
    let burst = table.need("burst", "burst = \"4kB\"", log).and_then(|value| value.some_size(u64::MAX, log));
    let rate = rate(log);
    Some(ArrivalLimit::Bucket { burst: burst?, rate_bps: rate?.bps() })
}
