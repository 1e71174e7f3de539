//! Keys as people read them: the tables of the manual, and values in words.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::Write as _;

use fairlink_core::{Contract, LeakyBucket, QueueLimits, Rate, ServiceCurve};

use super::{HOST_KEYS, Key, Kind, Value};
use crate::units::{show_rate, show_size, show_time};

/// Returns the keys as a table of the manual, in Markdown, a line for each; required ones come first.
#[must_use]
pub fn markdown<C>(keys: &[Key<C>]) -> String {
    let mut table = String::from("| key | default | meaning |\n| --- | --- | --- |\n");
    let required = |key: &&Key<C>| key.default == "required";
    for Key { name, default, doc, .. } in keys.iter().filter(required).chain(keys.iter().filter(|key| !required(key))) {
        let default = if default.is_empty() { String::new() } else { format!("{default} ") };
        writeln!(table, "| `{name}` | {default}| {doc} |").expect("writing to a string does not fail");
    }
    table
}

impl<C> Key<C> {
    /// Formats a value of this key, in the syntax of a link file if it fits into a line.
    #[must_use]
    pub fn show(&self, value: Value) -> String {
        match (self.kind, value) {
            (Kind::Word { words, .. }, Value::Word(word)) => {
                words.get(usize::from(word)).map_or_else(|| word.to_string(), ToString::to_string)
            }
            _ => shown(value),
        }
    }
}

fn shown(value: Value) -> String {
    match value {
        Value::Rate(rate) => show_rate(rate),
        Value::Bytes(bytes) => show_size(bytes),
        Value::Number(number) => number.to_string(),
        Value::Word(word) => word.to_string(),
        Value::Time(time) => show_time(time),
        Value::Flag(flag) => flag.to_string(),
        Value::Packets(packets) => format!("{packets}p"),
        Value::Contract(Contract { bytes, every }) => format!("{} every {}", show_size(bytes), show_time(every)),
        Value::Curve(curve) => curve_in_words(curve),
        Value::Buckets(buckets) => {
            let bucket = |LeakyBucket { burst, peak, rate }| {
                format!("burst {}, peak {}, rate {}", show_size(burst), show_rate(peak), show_rate(rate))
            };
            buckets.iter().map(bucket).collect::<Vec<_>>().join("; ")
        }
        Value::Limits(QueueLimits { packets, bytes: u32::MAX }) => format!("{packets}p"),
        Value::Limits(QueueLimits { packets: u32::MAX, bytes }) => show_size(bytes.into()),
        Value::Limits(QueueLimits { packets, bytes }) => format!("{} or {packets}p", show_size(bytes.into())),
        Value::Hosts(hosts) => {
            let word = HOST_KEYS.iter().find(|(_, key)| *key == hosts.by).map_or("", |&(word, _)| word);
            format!("{word}, {} hosts", hosts.most)
        }
    }
}

fn curve_in_words(ServiceCurve { m1, d, m2 }: ServiceCurve) -> String {
    let slope = |slope: Option<Rate>| slope.map_or_else(|| "0 bit/s".to_string(), show_rate);
    if d.0 == 0 { slope(m2) } else { format!("{} for {}, then {}", slope(m1), show_time(d), slope(m2)) }
}
