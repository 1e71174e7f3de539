//! Lengths of packets and of video frames in a scenario file.

use fairlink_traffic::{IMIX, MAX_MIX, PacketSize};
use toml::de::DeValue;

use crate::problem::{Log, ProblemKind};
use crate::reader::{Table, Value, unknown_word};

const EXPECTED: &str = "a size such as \"1000B\", \"imix\", or { uniform = [\"40B\", \"700B\"], header = \"40B\" }";
/// The keys that say which distribution it is, each with the others that go with it.
pub(super) const FORMS: [(&str, &[&str]); 4] = [
    ("uniform", &["header"]),
    ("exponential", &["min", "max"]),
    ("lognormal", &["deviation", "min", "max"]),
    ("mix", &[]),
];
const MAX: u64 = u32::MAX as u64;

/// Lengths of which none is above `mtu`, in bytes.
pub(super) fn packet(value: Value<'_, '_>, mtu: u32, log: &mut Log) -> Option<PacketSize> {
    let size = size(value, mtu, log)?;
    // A length beyond 32 bits is refused with the source.
    let longest = size.range().map_or(0, |(_, longest)| longest);
    if longest > mtu {
        log.error(value.span(), ProblemKind::AboveMtu { bytes: longest.into(), mtu });
        return None;
    }
    Some(size)
}

/// Reads lengths. The default maximum of an exponential or lognormal distribution is `longest`.
pub(super) fn size(value: Value<'_, '_>, longest: u32, log: &mut Log) -> Option<PacketSize> {
    match value.value.get_ref() {
        DeValue::Table(_) => {
            let table = value.table("packet", EXPECTED, log)?;
            let Some(&(form, more)) = FORMS.iter().find(|(form, _)| table.get(form).is_some()) else {
                value.wrong_type(EXPECTED, log);
                return None;
            };
            let known: Vec<&str> = std::iter::once(form).chain(more.iter().copied()).collect();
            table.only(&known, log);
            match form {
                "uniform" => uniform(&table, log),
                "exponential" => {
                    let mean = bytes(&table, "exponential", log);
                    let (min, max) = (optional(&table, "min", 1, log), optional(&table, "max", longest, log));
                    Some(PacketSize::Exponential { mean: mean?, min: min?, max: max? })
                }
                "lognormal" => {
                    let mean = bytes(&table, "lognormal", log);
                    let deviation = table.need("deviation", "deviation = \"900B\", the standard deviation", log);
                    let deviation = deviation.and_then(|value| value.size(MAX, log)).map(|bytes| bytes as u32);
                    let (min, max) = (optional(&table, "min", 1, log), optional(&table, "max", longest, log));
                    Some(PacketSize::Lognormal { mean: mean?, deviation: deviation?, min: min?, max: max? })
                }
                _ => mix(&table, log),
            }
        }
        DeValue::String(word) if word == "imix" => Some(PacketSize::Mix(IMIX.to_vec())),
        DeValue::String(word) if word.bytes().all(|byte| byte.is_ascii_alphabetic()) => {
            log.error(value.span(), unknown_word("length of packets", word, ["imix"].into_iter()));
            None
        }
        _ => {
            value.quantity(EXPECTED, log)?;
            Some(PacketSize::Fixed(value.some_size(MAX, log)? as u32))
        }
    }
}

fn uniform(table: &Table<'_, '_>, log: &mut Log) -> Option<PacketSize> {
    let value = table.need("uniform", "uniform = [\"40B\", \"700B\"]", log)?;
    let ends = value.list("the shortest and the longest: [\"40B\", \"700B\"]", log)?;
    let &[min, longest] = &ends[..] else {
        value.wrong_type("the shortest and the longest: uniform = [\"40B\", \"700B\"]", log);
        return None;
    };
    let min = min.size(MAX, log);
    let longest = longest.size(MAX, log);
    let header = optional(table, "header", 0, log);
    Some(PacketSize::Uniform { min: min? as u32, max: longest? as u32, header: header? })
}

fn mix(table: &Table<'_, '_>, log: &mut Log) -> Option<PacketSize> {
    const EACH: &str = "a length and its weight, such as [\"40B\", 7]";
    let value = table.get("mix")?;
    let all = value.list("a list of lengths with their weights: [[\"40B\", 7], [\"1500B\", 1]]", log)?;
    if all.is_empty() || all.len() > MAX_MIX {
        value.out_of_range(format!("a list of {}", all.len()), "1 length".to_owned(), MAX_MIX.to_string(), log);
        return None;
    }
    let mut mix = Vec::with_capacity(all.len());
    for each in all {
        let pair = each.list(EACH, log)?;
        let &[length, weight] = &pair[..] else {
            each.wrong_type(EACH, log);
            return None;
        };
        let length = length.some_size(MAX, log);
        let weight = weight.integer(1, MAX, log);
        mix.push((length? as u32, weight? as u32));
    }
    Some(PacketSize::Mix(mix))
}

/// A size that the table has.
fn bytes(table: &Table<'_, '_>, key: &str, log: &mut Log) -> Option<u32> {
    table.get(key)?.some_size(MAX, log).map(|bytes| bytes as u32)
}

/// Reads a size, or returns `default` if the table has none.
fn optional(table: &Table<'_, '_>, key: &str, default: u32, log: &mut Log) -> Option<u32> {
    table.get(key).map_or(Some(default), |value| value.size(MAX, log).map(|bytes| bytes as u32))
}
