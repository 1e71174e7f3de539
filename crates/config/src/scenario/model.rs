//! When the packets of a `[[source]]` arrive.

use fairlink_core::{Nanos, Rate};
use fairlink_traffic::{
    CongestionControl, Dar1, MAX_PACKETS_PER_SECOND, Marginal, MmppState, Model, Mpeg, OnTime, Pace, PacketSize,
    Picture, RequestResponse, Tcp,
};
use toml::de::DeValue;

use super::{PLACE, packet, trace};
use crate::link::LinkFile;
use crate::problem::{Log, ProblemKind};
use crate::reader::{Table, Value, unknown_word};
use crate::units::parse_thousandths;

/// The models.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Greedy,
    Saturating,
    Cbr,
    Poisson,
    OnOff,
    ParetoOnOff,
    Mmpp,
    Markov,
    Mpeg,
    Dar1,
    Trace,
    Tcp,
    RequestResponse,
}

/// Each model with its name and the keys that say something to it, beside [`COMMON`].
const MODELS: [(&str, Kind, &[&str]); 13] = [
    ("greedy", Kind::Greedy, &[]),
    ("saturating", Kind::Saturating, &["rate"]),
    ("cbr", Kind::Cbr, &["rate", "packets_per_second", "burst"]),
    ("poisson", Kind::Poisson, &["rate", "packets_per_second"]),
    ("on_off", Kind::OnOff, &["rate", "packets_per_second", "on", "off"]),
    ("pareto_on_off", Kind::ParetoOnOff, &["rate", "packets_per_second", "on", "off", "k"]),
    ("mmpp", Kind::Mmpp, &["states"]),
    ("markov", Kind::Markov, &["utilisation", "on", "off"]),
    ("mpeg", Kind::Mpeg, &["gop", "gops_per_second", "i", "p", "b", "whole_frames"]),
    ("trace", Kind::Trace, &["file", "match", "of_class", "repeat", "accept"]),
    ("tcp", Kind::Tcp, &["congestion_control", "rtt"]),
    ("request_response", Kind::RequestResponse, &["request", "response", "think", "rtt", "return_rate"]),
    ("dar1", Kind::Dar1, &["rate", "frames_per_second", "rho", "marginal", "peak_to_mean", "deviation_to_mean"]),
];
const COMMON: [&str; 10] =
    ["class", "link", "route", "regulator", "model", "packet", "active", "shape", "shape_queue", "police"];

/// The keys of a source that is a script.
pub(super) const SCRIPT_KEYS: [&str; 3] = ["model", "file", "script"];

/// Default exponent of the density of Pareto on times ([sds] section IV).
const PARETO_K: f64 = 2.5;
/// Default mean on and off time of a two-state Markov source.
const MARKOV_TIME: Nanos = Nanos::from_millis(100);
/// Standard deviation of video frames as a multiple of the mean, where the file has none.
// DIFFERENCE: [sds] gives mean, peak and correlation, not the variance. This is the ratio of the conference that
// Heyman, Tabatabai and Lakshman measured (1992): a mean of 130.3 cells a frame and a variance of 5536.
const DEVIATION: f64 = 0.57;
/// Default length of the longest picture.
const LONGEST_PICTURE: u32 = 1 << 20;

impl Kind {
    /// Returns true if packets need no length: video is cut at the link's longest, and a trace has lengths of its own.
    pub(super) fn has_own_lengths(self) -> bool {
        matches!(self, Self::Mpeg | Self::Trace | Self::RequestResponse)
    }
}

/// The keys of all models.
pub(super) fn keys() -> Vec<&'static str> {
    let mut all: Vec<&str> = COMMON.iter().chain(MODELS.iter().flat_map(|(.., keys)| keys.iter())).copied().collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// The names of all models, that of scripts included.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    MODELS.iter().map(|&(name, ..)| name).chain(["script"])
}

/// Reads the model. Keys that no model has, or not this one, are errors.
pub(super) fn kind(table: &Table<'_, '_>, log: &mut Log) -> Option<Kind> {
    let all = keys();
    table.only(&all, log);
    let value = table.need("model", "model = \"greedy\"", log)?;
    let word = value.string("the name of a model in quotes", log)?;
    let names = MODELS.iter().map(|&(name, ..)| name);
    let Some(&(name, kind, keys)) = MODELS.iter().find(|&&(name, ..)| name == word) else {
        log.error(value.span(), unknown_word("source model", word, names));
        return None;
    };
    for key in all.into_iter().filter(|key| !COMMON.contains(key) && !keys.contains(key)) {
        if table.get(key).is_none() {
            continue;
        }
        let (why, help) = match (kind, key) {
            (Kind::Greedy, "rate" | "packets_per_second") => {
                (", which always has a packet to send", "remove it, or use model = \"cbr\"")
            }
            (Kind::Saturating, "packets_per_second") => ("", "write a rate above the maximum rate of the class"),
            _ => ("", "remove it"),
        };
        let why = format!("has no effect on the model {name}{why}");
        log.error(table.key_span(key), ProblemKind::Misplaced { key, why, help });
    }
    Some(kind)
}

/// Reads the model of a source whose class has this `guarantee` in bit/s.
pub(super) fn model(
    table: &Table<'_, '_>,
    kind: Kind,
    link: &LinkFile,
    guarantee: u64,
    log: &mut Log,
) -> Option<Model> {
    let link_rate = Some(link.tree.link().rate);
    let time = |key, example, log: &mut Log| table.need(key, example, log).and_then(|value| value.some_time(log));
    match kind {
        Kind::Greedy => Some(Model::Greedy),
        Kind::Saturating => {
            let value = table.need("rate", "rate = \"110mbit\"", log)?;
            Some(Model::Saturating(value.rate(link_rate, log)?))
        }
        Kind::Cbr => {
            let pace = pace(table, link_rate, log);
            let burst = table.get("burst").map_or(Some(1), |value| burst(value, log));
            Some(Model::Cbr { pace: pace?, burst: burst? })
        }
        Kind::Poisson => Some(Model::Poisson(pace(table, link_rate, log)?)),
        Kind::OnOff | Kind::ParetoOnOff => {
            let pace = pace(table, link_rate, log);
            let mean = time("on", "on = \"1s\", the mean sending time", log);
            let off = table.need("off", "off = \"1.35s\", the mean idle time", log);
            let off = off.and_then(|value| value.time(log));
            let on = if kind == Kind::OnOff {
                mean.map(|mean| OnTime::Exponential { mean })
            } else {
                let k = decimal(table, "k", PARETO_K, log);
                mean.and_then(|mean| Some(OnTime::Pareto { mean, k: k? }))
            };
            Some(Model::OnOff { pace: pace?, on: on?, off: off? })
        }
        Kind::Mmpp => states(table, log),
        Kind::Markov => markov(table, guarantee, log),
        Kind::Mpeg => mpeg(table, log),
        Kind::Tcp => {
            let words = [("reno", CongestionControl::Reno), ("cubic", CongestionControl::Cubic)];
            let congestion_control = match table.get("congestion_control") {
                None => Some(CongestionControl::Cubic),
                Some(value) => value.word("congestion control", &words, log),
            };
            let rtt = rtt(table, log);
            Some(Model::Tcp(Tcp { congestion_control: congestion_control?, rtt: rtt? }))
        }
        Kind::RequestResponse => {
            let size = |key, example, log: &mut Log| {
                table.need(key, example, log).and_then(|value| value.size(u64::from(u32::MAX), log))
            };
            let request = size("request", "request = \"500B\"", log);
            let response = size("response", "response = \"20kB\"", log);
            let think = table.get("think").map_or(Some(Nanos::ZERO), |value| value.time(log));
            let return_rate = match table.get("return_rate") {
                None => Some(None),
                Some(value) => value.rate(link_rate, log).map(Some),
            };
            let rtt = rtt(table, log);
            Some(Model::RequestResponse(RequestResponse {
                request: request?,
                response: response?,
                think: think?,
                rtt: rtt?,
                return_rate: return_rate?,
            }))
        }
        Kind::Trace => trace::trace(table, log).map(Model::Trace),
        Kind::Dar1 => {
            let rate =
                table.need("rate", "rate = \"1.5mbit\", the mean", log).and_then(|value| value.rate(link_rate, log));
            let frames = table.need("frames_per_second", "frames_per_second = 25", log);
            let frames = frames.and_then(|value| per_1000_s(value, log));
            let marginal = match table.get("marginal") {
                None => Some(Marginal::NegativeBinomial),
                Some(value) => value.word(
                    "distribution of frames",
                    &[("negative_binomial", Marginal::NegativeBinomial), ("gamma", Marginal::Gamma)],
                    log,
                ),
            };
            let rho = table.need("rho", "rho = 0.98, the correlation of consecutive frames", log);
            let rho = rho.and_then(|value| value.decimal(log));
            let peak_to_mean = table.need("peak_to_mean", "peak_to_mean = 5", log);
            let peak_to_mean = peak_to_mean.and_then(|value| value.decimal(log));
            let deviation_to_mean = decimal(table, "deviation_to_mean", DEVIATION, log);
            Some(Model::Dar1(Dar1 {
                rate: rate?,
                frames_per_1000_s: frames?,
                rho: rho?,
                marginal: marginal?,
                peak_to_mean: peak_to_mean?,
                deviation_to_mean: deviation_to_mean?,
            }))
        }
    }
}

/// `rate` or `packets_per_second`.
fn pace(table: &Table<'_, '_>, link: Option<Rate>, log: &mut Log) -> Option<Pace> {
    table.not_both("rate", "packets_per_second", log);
    if let Some(value) = table.get("rate") {
        return Some(Pace::Rate(value.rate(link, log)?));
    }
    let Some(value) = table.get("packets_per_second") else {
        let kind = ProblemKind::Neither { place: PLACE, one: "rate", other: "packets_per_second" };
        log.error(table.span.clone(), kind);
        return None;
    };
    Some(Pace::Packets { per_1000_s: per_1000_s(value, log)? })
}

/// A whole number or a decimal of at most three places, without unit: how often in 1000 s.
fn per_1000_s(value: Value<'_, '_>, log: &mut Log) -> Option<u64> {
    at_most_three_places(value, 1, "0.001 (and no finer)", log)
}

fn at_most_three_places(value: Value<'_, '_>, min: u64, least: &str, log: &mut Log) -> Option<u64> {
    let text = match value.value.get_ref() {
        DeValue::Integer(number) if number.radix() == 10 => number.as_str(),
        DeValue::Float(number) => number.as_str(),
        _ => {
            value.wrong_type("a number such as 15 or 0.5", log);
            return None;
        }
    };
    let found = parse_thousandths(text).filter(|found| (min..=MAX_PACKETS_PER_SECOND * 1000).contains(found));
    if found.is_none() {
        value.out_of_range(text.to_owned(), least.to_owned(), MAX_PACKETS_PER_SECOND.to_string(), log);
    }
    found
}

/// Reads the time of a packet and its acknowledgement outside the links.
fn rtt(table: &Table<'_, '_>, log: &mut Log) -> Option<Nanos> {
    table.need("rtt", "rtt = \"20ms\", beside the links", log).and_then(|value| value.time(log))
}

fn decimal(table: &Table<'_, '_>, key: &str, default: f64, log: &mut Log) -> Option<f64> {
    table.get(key).map_or(Some(default), |value| value.decimal(log))
}

/// A number of packets: `"2p"`.
fn burst(value: Value<'_, '_>, log: &mut Log) -> Option<u32> {
    const EXPECTED: &str = "a number of packets such as \"2p\"";
    let text = value.string(EXPECTED, log)?;
    let number = text.trim().strip_suffix('p').and_then(|number| number.trim().parse().ok());
    if number.is_none() {
        value.wrong_type(EXPECTED, log);
    }
    number
}

fn states(table: &Table<'_, '_>, log: &mut Log) -> Option<Model> {
    const EXAMPLE: &str =
        "states = [{ packets_per_second = 10, mean = \"1s\" }, { packets_per_second = 90, mean = \"200ms\" }]";
    const PLACE: &str = "states";
    let value = table.need("states", EXAMPLE, log)?;
    let all = value.list("a list of states", log)?;
    let mut states = Vec::with_capacity(all.len());
    for value in all {
        let state = value.table(PLACE, "a state: { packets_per_second = 10, mean = \"1s\" }", log)?;
        state.only(&["packets_per_second", "mean", "next"], log);
        let packets = state.need("packets_per_second", "packets_per_second = 10", log);
        let packets = packets.and_then(|value| at_most_three_places(value, 0, "0", log));
        let mean = state.need("mean", "mean = \"1s\"", log).and_then(|value| value.some_time(log));
        let next = match state.get("next") {
            None => Some(Vec::new()),
            Some(value) => value.list("a weight for each state: [0, 3, 1]", log).and_then(|weights| {
                weights.into_iter().map(|weight| Some(weight.integer(0, u32::MAX.into(), log)? as u32)).collect()
            }),
        };
        states.push(MmppState { per_1000_s: packets?, mean: mean?, next: next? });
    }
    Some(Model::Mmpp(states))
}

/// Two states, of which one sends: `utilisation` of the class's guarantee on average.
fn markov(table: &Table<'_, '_>, guarantee: u64, log: &mut Log) -> Option<Model> {
    let utilisation = table.need("utilisation", "utilisation = 0.95, of the class's guarantee", log)?;
    let value = utilisation.decimal(log)?;
    if !(value > 0.0 && value <= 100.0) {
        let message =
            format!("a utilisation of {value}; it must be above 0 and at most 100, such as 0.95 of the guarantee");
        log.error(utilisation.span(), ProblemKind::Refused { message });
        return None;
    }
    let time = |key, log: &mut Log| table.get(key).map_or(Some(MARKOV_TIME), |value| value.some_time(log));
    let (on, off) = (time("on", log), time("off", log));
    let (on, off) = (on?, off?);
    let peak = value * guarantee as f64 * (on.0 as f64 + off.0 as f64) / on.0 as f64;
    match Rate::from_bps(peak.round() as u64) {
        Ok(rate) => Some(Model::OnOff { pace: Pace::Rate(rate), on: OnTime::Exponential { mean: on }, off }),
        Err(error) => {
            let message = format!("while it sends, at {peak:.0} bit/s: {error}");
            log.error(utilisation.span(), ProblemKind::Refused { message });
            None
        }
    }
}

fn mpeg(table: &Table<'_, '_>, log: &mut Log) -> Option<Model> {
    let pattern = table.need("gop", "gop = \"IPBBPBBPBB\"", log).and_then(|value| {
        let text = value.string("the kinds of a group of pictures such as \"IPBBPBBPBB\"", log)?;
        let kind = |letter| match letter {
            'I' => Some(Picture::I),
            'P' => Some(Picture::P),
            'B' => Some(Picture::B),
            _ => None,
        };
        if let Some(letter) = text.chars().find(|&letter| kind(letter).is_none()) {
            let message = format!("picture type \"{letter}\" in gop = \"{text}\"; the types are I, P and B");
            log.error(value.span(), ProblemKind::Refused { message });
        }
        text.chars().map(kind).collect::<Option<Vec<Picture>>>()
    });
    let groups = table.need("gops_per_second", "gops_per_second = 3", log).and_then(|value| per_1000_s(value, log));
    let whole_frames = table.get("whole_frames").map_or(Some(false), |value| value.boolean(log));
    let mut lengths = |key: &'static str, picture, example| {
        // A kind of picture that does not come needs no length.
        if pattern.as_ref().is_none_or(|pattern| !pattern.contains(&picture)) && table.get(key).is_none() {
            return Some(PacketSize::Fixed(1));
        }
        table.need(key, example, log).and_then(|value| packet::size(value, LONGEST_PICTURE, log))
    };
    let i = lengths("i", Picture::I, "i = { uniform = [\"15000B\", \"17000B\"] }");
    let p = lengths("p", Picture::P, "p = { exponential = \"2100B\", min = \"512B\", max = \"17000B\" }");
    let b = lengths("b", Picture::B, "b = { exponential = \"550B\", min = \"256B\", max = \"17000B\" }");
    Some(Model::Mpeg(Mpeg {
        pattern: pattern?,
        groups_per_1000_s: groups?,
        lengths: [i?, p?, b?],
        whole_frames: whole_frames?,
    }))
}
