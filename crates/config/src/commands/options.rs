//! The options of each kind of queueing discipline and class.

use fairlink_core::{Nanos, Rate};

use crate::class::map_burst;
use crate::commands::cake::{self, Tin};
use crate::commands::findings::{changed, left_out, wrong};
use crate::commands::kernel::{FRAME, MAX_PRIORITY, R2Q};
use crate::commands::setup::{Curve, RootKind, Settings, UNASSURED};
use crate::commands::units;
use crate::commands::words::Word;
use crate::problem::{Log, Problem, Span};

/// Words of one command, from left to right.
pub(super) struct Words<'w> {
    words: &'w [Word],
    next: usize,
}

impl<'w> Words<'w> {
    pub(super) fn new(words: &'w [Word]) -> Self {
        Self { words, next: 0 }
    }

    pub(super) fn next(&mut self) -> Option<&'w Word> {
        self.next += 1;
        self.words.get(self.next - 1)
    }

    pub(super) fn peek(&self) -> Option<&'w str> {
        self.words.get(self.next).map(|word| word.text.as_str())
    }

    pub(super) fn back(&mut self) {
        self.next -= 1;
    }

    pub(super) fn rest(&mut self) -> &'w [Word] {
        let rest = &self.words[self.next.min(self.words.len())..];
        self.next = self.words.len();
        rest
    }

    /// All of the command.
    pub(super) fn span(&self) -> Span {
        match (self.words.first(), self.words.last()) {
            (Some(first), Some(last)) => first.at.start..last.at.end.max(first.at.end),
            _ => 0..0,
        }
    }

    /// The word behind `of`.
    pub(super) fn value(&mut self, of: &Word, log: &mut Log) -> Option<&'w Word> {
        let value = self.next();
        if value.is_none() {
            wrong(&of.at, format!("\"{}\" has no value", of.text), Some("add a value"), log);
        }
        value
    }

    /// Reads the value of `of` with `read`; `example` shows its form.
    pub(super) fn read<T>(
        &mut self,
        of: &Word,
        read: impl Fn(&str) -> Option<T>,
        example: &'static str,
        log: &mut Log,
    ) -> Option<T> {
        let value = self.value(of, log)?;
        let found = read(&value.text);
        if found.is_none() {
            wrong(&value.at, format!("\"{}\" takes no \"{}\"", of.text, value.text), Some(example), log);
        }
        found
    }
}

const RATE: &str = "write a rate as in tc, such as 100kbit, 12500bps or 800000; a share in % needs the speed of the device, which is unknown";
const SIZE: &str = "write a size as in tc, such as 2k, 1600b or 1514";
const COUNT: &str = "write a whole number";

pub(super) fn count(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

/// A rate that a class can have: tc refuses zero.
fn some_rate(text: &str) -> Option<u64> {
    units::rate(text).filter(|&bps| bps > 0)
}

fn some_size(text: &str) -> Option<u64> {
    units::size(text).filter(|&bytes| bytes > 0)
}

/// Reports an unknown word. The words after it are skipped.
fn unknown(word: &Word, of: &str, known: &str, words: &mut Words<'_>, log: &mut Log) {
    words.rest();
    wrong(&word.at, format!("{of} has no option \"{}\"; it has: {known}", word.text), None, log);
}

/// The options of a queueing discipline at the root.
pub(super) fn root(kind: &Word, words: &mut Words<'_>, log: &mut Log, notes: &mut Vec<Problem>) -> Option<RootKind> {
    match kind.text.as_str() {
        "htb" => {
            let (mut default, mut r2q, mut depth) = (None, R2Q, None);
            while let Some(word) = words.next() {
                match word.text.as_str() {
                    "default" => {
                        let minor = |text: &str| u16::from_str_radix(text.trim_start_matches("0x"), 16).ok();
                        let found = words.read(word, minor, "write the minor number of the class, hexadecimal", log);
                        default = found.filter(|&minor| minor != 0);
                    }
                    "r2q" => r2q = words.read(word, count, COUNT, log).filter(|&r2q| r2q > 0).unwrap_or(R2Q),
                    "direct_qlen" | "debug" => {
                        words.value(word, log);
                        left_out(&word.at, format!("\"{}\" of htb has no counterpart", word.text), log, notes);
                    }
                    // Of 2001; the kernel finds it itself since.
                    "depth" => depth = words.read(word, count, COUNT, log),
                    "offload" => left_out(&word.at, "\"offload\" of htb has no counterpart".to_owned(), log, notes),
                    _ => unknown(
                        word,
                        "the queueing discipline htb",
                        "default, r2q, direct_qlen, depth, debug, offload",
                        words,
                        log,
                    ),
                }
            }
            Some(RootKind::Htb { default, r2q, depth })
        }
        "cbq" => {
            let (mut bandwidth, mut avpkt) = (None, None);
            while let Some(word) = words.next() {
                match word.text.as_str() {
                    "bandwidth" => bandwidth = words.read(word, some_rate, RATE, log),
                    "avpkt" => avpkt = words.read(word, some_size, SIZE, log),
                    "cell" | "mpu" | "ewma" | "allot" => {
                        words.value(word, log);
                        left_out(&word.at, format!("\"{}\" of cbq has no counterpart", word.text), log, notes);
                    }
                    _ => unknown(
                        word,
                        "the queueing discipline cbq",
                        "bandwidth, avpkt, cell, mpu, ewma, allot",
                        words,
                        log,
                    ),
                }
            }
            if bandwidth.is_none() && !log.has_errors() {
                wrong(
                    &kind.at,
                    "cbq has no \"bandwidth\"".to_owned(),
                    Some("write cbq bandwidth 10mbit avpkt 1000"),
                    log,
                );
            }
            Some(RootKind::Cbq { bandwidth: bandwidth?, avpkt: avpkt.unwrap_or(u64::from(FRAME)) })
        }
        "hfsc" => {
            let mut default = None;
            while let Some(word) = words.next() {
                match word.text.as_str() {
                    "default" => {
                        let minor = |text: &str| u16::from_str_radix(text.trim_start_matches("0x"), 16).ok();
                        let help = "write the minor number of the class, hexadecimal";
                        default = words.read(word, minor, help, log).filter(|&minor| minor != 0);
                    }
                    _ => unknown(word, "the queueing discipline hfsc", "default", words, log),
                }
            }
            Some(RootKind::Hfsc { default })
        }
        "prio" => prio(words, log),
        other => {
            let why = format!("\"{other}\" at the root of a device has no counterpart in a link file");
            wrong(
                &kind.at,
                why,
                Some("there are: htb, hfsc, cbq, prio, and for a device without classes tbf, cake, netem"),
                log,
            );
            None
        }
    }
}

/// The options of a class.
pub(super) fn class(kind: RootKind, words: &mut Words<'_>, log: &mut Log, notes: &mut Vec<Problem>) -> Settings {
    match kind {
        RootKind::Htb { .. } => htb_class(words, log, notes),
        RootKind::Cbq { .. } => cbq_class(words, log, notes),
        RootKind::Hfsc { .. } => hfsc_class(words, log),
        // Its classes are its bands, and set nothing.
        RootKind::Prio { .. } => {
            words.rest();
            Settings { rate: Some(UNASSURED), ..Settings::default() }
        }
    }
}

/// Reads the bands of prio: defaults of tc-prio(8); a truncated map continues with its first band.
fn prio(words: &mut Words<'_>, log: &mut Log) -> Option<RootKind> {
    const MOST: u64 = MAX_PRIORITY + 1;
    let (mut bands, mut map) = (3, [1, 2, 2, 2, 1, 2, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1]);
    let mut at = None;
    while let Some(word) = words.next() {
        match word.text.as_str() {
            "bands" => {
                bands = words.read(word, count, COUNT, log)?;
                at = Some(word.at.clone());
            }
            "priomap" => {
                let mut given = Vec::new();
                while let Some(band) = words.peek().and_then(count) {
                    words.next();
                    given.push(band);
                }
                if given.is_empty() || given.len() > map.len() {
                    let why = format!("priomap has {} bands; the limits are 1 to {}", given.len(), map.len());
                    wrong(&word.at, why, Some("write a band for each priority"), log);
                    return None;
                }
                given.resize(map.len(), given[0]);
                map = given.try_into().ok()?;
                at = at.or_else(|| Some(word.at.clone()));
            }
            _ => {
                unknown(word, "the queueing discipline prio", "bands, priomap", words, log);
                return None;
            }
        }
    }
    let at = at.unwrap_or_else(|| words.span());
    if !(2..=MOST).contains(&bands) {
        let why = format!("prio has {bands} bands; it needs 2 or more, and the import takes up to {MOST}");
        wrong(&at, why, Some("write fewer bands, or use htb"), log);
        return None;
    }
    if let Some(band) = map.iter().find(|band| **band >= bands) {
        let why = format!("priomap names band {band}; the {bands} bands are 0 to {}", bands - 1);
        wrong(&at, why, Some("write a priomap for these bands"), log);
        return None;
    }
    Some(RootKind::Prio { bands: bands as u16, map: map.map(|band| band as u16) })
}

/// The rate of a tbf below a class of prio, in bit/s.
pub(super) fn tbf_rate(kind: &Word, words: &mut Words<'_>, log: &Log, notes: &mut Vec<Problem>) -> Option<u64> {
    let all = words.rest();
    let rate = all.windows(2).find(|pair| pair[0].text == "rate").and_then(|pair| some_rate(&pair[1].text));
    changed(&kind.at, "tbf below a band becomes its ceiling".to_owned(), log, notes);
    rate
}

fn htb_class(words: &mut Words<'_>, log: &mut Log, notes: &mut Vec<Problem>) -> Settings {
    const KNOWN: &str = "rate, ceil, burst, cburst, prio, quantum, mtu, mpu, overhead, linklayer, slot, pslot";
    let mut set = Settings::default();
    while let Some(word) = words.next() {
        match word.text.as_str() {
            "rate" => set.rate = words.read(word, some_rate, RATE, log),
            "ceil" => set.ceil = words.read(word, some_rate, RATE, log),
            // 0 is none, as tc takes it.
            "burst" | "buffer" | "maxburst" => {
                set.burst = words.read(word, units::size, SIZE, log).filter(|&size| size > 0);
            }
            "cburst" | "cbuffer" | "cmaxburst" => {
                set.cburst = words.read(word, units::size, SIZE, log).filter(|&size| size > 0);
            }
            "prio" => set.priority = words.read(word, count, COUNT, log),
            "quantum" => set.quantum = words.read(word, some_size, SIZE, log),
            "overhead" => set.overhead = words.read(word, count, COUNT, log).unwrap_or(0),
            "slot" => set.slot = words.read(word, count, COUNT, log),
            "pslot" => set.pslot = words.read(word, count, COUNT, log),
            "mtu" | "mpu" | "linklayer" => {
                words.value(word, log);
                let why = format!(
                    "\"{}\" of a class has no counterpart; overhead in [link] can be ethernet or atm",
                    word.text
                );
                left_out(&word.at, why, log, notes);
            }
            _ => unknown(word, "a class of htb", KNOWN, words, log),
        }
    }
    set
}

fn cbq_class(words: &mut Words<'_>, log: &mut Log, notes: &mut Vec<Problem>) -> Settings {
    const KNOWN: &str = "bandwidth, rate, weight, prio, avpkt, maxburst, bounded, isolated, allot, cell, minburst, minidle, ewma, mpu, \
                         split, defmap, estimator";
    let mut set = Settings::default();
    while let Some(word) = words.next() {
        match word.text.as_str() {
            "rate" => set.rate = words.read(word, some_rate, RATE, log),
            "weight" => set.weight = words.read(word, some_rate, "write a number, or a rate such as 1mbit", log),
            "prio" => set.priority = words.read(word, count, COUNT, log),
            "avpkt" => set.avpkt = words.read(word, some_size, SIZE, log),
            "maxburst" => set.maxburst = words.read(word, count, COUNT, log),
            "bounded" => set.bounded = true,
            "isolated" => set.isolated = true,
            // Repetition of the link's bandwidth.
            "bandwidth" => {
                words.read(word, some_rate, RATE, log);
            }
            "allot" | "cell" | "minburst" | "minidle" | "ewma" | "mpu" | "split" | "defmap" => {
                words.value(word, log);
                left_out(&word.at, format!("\"{}\" of cbq has no counterpart", word.text), log, notes);
            }
            "estimator" | "est" => {
                words.value(word, log);
                words.value(word, log);
                left_out(&word.at, "\"estimator\" of cbq has no counterpart".to_owned(), log, notes);
            }
            _ => unknown(word, "a class of cbq", KNOWN, words, log),
        }
    }
    set
}

fn hfsc_class(words: &mut Words<'_>, log: &mut Log) -> Settings {
    let mut set = Settings::default();
    while let Some(word) = words.next() {
        match word.text.as_str() {
            "rt" => set.real_time = curve(word, words, log),
            "ls" => set.link_share = curve(word, words, log),
            "ul" => set.upper_limit = curve(word, words, log),
            "sc" => {
                set.real_time = curve(word, words, log);
                set.link_share = set.real_time;
            }
            _ => unknown(word, "a class of hfsc", "rt, ls, sc, ul", words, log),
        }
    }
    // The curve of its maximum rate, for the rate of the link.
    set.rate = set.upper_limit.or(set.link_share).or(set.real_time).map(|curve| curve.rate);
    set
}

/// Reads `[[m1 RATE] d TIME] m2 RATE` or `[[umax SIZE] dmax TIME] rate RATE`.
fn curve(of: &Word, words: &mut Words<'_>, log: &mut Log) -> Option<Curve> {
    let (mut first, mut time, mut most, mut delay) = (None, None, None, None);
    while let Some(word) = words.next() {
        match word.text.as_str() {
            "m1" => first = words.read(word, units::rate, RATE, log),
            "d" => time = words.read(word, units::time, "write a time such as 10ms", log),
            "umax" => most = words.read(word, units::size, SIZE, log),
            "dmax" => delay = words.read(word, units::time, "write a time such as 10ms", log),
            "m2" | "rate" => {
                let rate = words.read(word, units::rate, RATE, log)?;
                let first = match (first, time, most, delay) {
                    (m1, Some(time), ..) => Some((m1.unwrap_or(0), time)),
                    (.., Some(bytes), Some(delay)) => two_pieces(bytes, delay, rate),
                    (.., None, Some(delay)) => Some((0, delay)),
                    _ => None,
                };
                return Some(Curve { first: first.filter(|&(m1, time)| time > 0 && m1 != rate), rate });
            }
            other => {
                let why = format!("a curve has no \"{other}\"");
                wrong(&word.at, why, Some("write m1 2mbit d 10ms m2 1mbit, or umax 1500b dmax 10ms rate 1mbit"), log);
                return None;
            }
        }
    }
    wrong(&of.at, format!("the curve \"{}\" has no rate", of.text), Some("end it with m2 1mbit or rate 1mbit"), log);
    None
}

/// The first piece of the curve that sends `bytes` within `delay` nanoseconds, as tc-hfsc(8) has it.
fn two_pieces(bytes: u64, delay: u64, rate: u64) -> Option<(u64, u64)> {
    let curve = map_burst(bytes, Nanos(delay.max(1)), Rate::from_bps(rate).ok()?).ok()?;
    Some((curve.m1.map_or(0, Rate::bps), curve.d.0))
}

/// Kinds at the root that shape a device without classes.
pub(super) const WHOLE_DEVICE: [&str; 9] =
    ["tbf", "cake", "netem", "fq_codel", "fq", "codel", "sfq", "pfifo", "pfifo_fast"];

/// Reads a kind of [`WHOLE_DEVICE`]: its rate in bit/s, its queue, and cake's tins. `None` if it has no rate.
pub(super) fn whole_device(
    kind: &Word,
    words: &mut Words<'_>,
    log: &mut Log,
    notes: &mut Vec<Problem>,
) -> Option<(u64, Option<Queue>, &'static [Tin])> {
    let all = words.rest();
    let mut tins: &[Tin] = &[];
    let key = match kind.text.as_str() {
        "tbf" | "netem" => "rate",
        "cake" => "bandwidth",
        _ => return None,
    };
    let rate = all.windows(2).find(|pair| pair[0].text == key).and_then(|pair| some_rate(&pair[1].text))?;
    let queue = match kind.text.as_str() {
        "cake" => {
            // Of several words the last counts.
            let wanted = all.iter().rev().find(|word| cake::KINDS.contains(&word.text.as_str()));
            let wanted = wanted.map_or(cake::KINDS[0], |word| word.text.as_str());
            tins = cake::tins(wanted);
            let why = match (tins, wanted) {
                ([], "besteffort") => "cake becomes a class with fq_codel",
                ([], _) => {
                    "cake becomes a class with fq_codel: its tins are left out, because they are not besteffort, diffserv3 or diffserv4"
                }
                _ => {
                    "cake becomes a class for each of its tins, with fq_codel and guarantees in proportion to the quanta of the tins"
                }
            };
            let why = format!("{why}; its fairness among hosts and its changes to packets are left out");
            changed(&kind.at, why, log, notes);
            Some(("fq_codel", None, false))
        }
        other => {
            changed(&kind.at, format!("{other} becomes one class with a fifo of the default length"), log, notes);
            None
        }
    };
    Some((rate, queue, tins))
}

/// The counterpart of a queue below a class: its word in link files, the length, and whether it marks.
pub(super) type Queue = (&'static str, Option<String>, bool);

/// Reads the options of a queue below a class; `None` if a class cannot have it; the log has the error.
pub(super) fn queue(kind: &Word, words: &mut Words<'_>, log: &mut Log, notes: &mut Vec<Problem>) -> Option<Queue> {
    match kind.text.as_str() {
        kind @ ("pfifo" | "bfifo") => {
            let mut buffer = None;
            while let Some(word) = words.next() {
                match word.text.as_str() {
                    "limit" if kind == "pfifo" => {
                        buffer = words.read(word, count, COUNT, log).map(|limit| format!("{}p", limit.max(1)));
                    }
                    "limit" => buffer = words.read(word, some_size, SIZE, log).map(|limit| format!("{limit}B")),
                    _ => unknown(word, kind, "limit", words, log),
                }
            }
            Some(("fifo", buffer, false))
        }
        name @ ("codel" | "fq_codel") => {
            let fair = name == "fq_codel";
            let word_of = if fair { "fq_codel" } else { "codel" };
            // Defaults of tc-fq_codel(8) and tc-codel(8).
            let (mut limit, mut ecn) = (if fair { 10_240 } else { 1_000 }, fair);
            while let Some(word) = words.next() {
                match word.text.as_str() {
                    "limit" => limit = words.read(word, count, COUNT, log).unwrap_or(limit),
                    "ecn" => ecn = true,
                    "noecn" => ecn = false,
                    "target" | "interval" => {
                        let ours = if word.text == "target" { 5_000_000 } else { 100_000_000 };
                        let time = words.read(word, units::time, "write a time such as 5ms", log);
                        if time.is_some_and(|time| time != ours) {
                            changed(&word.at, format!("\"{}\" is {} ms here", word.text, ours / 1_000_000), log, notes);
                        }
                    }
                    "flows" | "quantum" | "memory_limit" | "ce_threshold" | "drop_batch" => {
                        words.value(word, log);
                        left_out(&word.at, format!("\"{}\" of {word_of} has no counterpart", word.text), log, notes);
                    }
                    _ => unknown(
                        word,
                        word_of,
                        "limit, target, interval, ecn, noecn, flows, quantum, memory_limit",
                        words,
                        log,
                    ),
                }
            }
            Some((word_of, Some(format!("{}p", limit.max(1))), ecn))
        }
        "cake" | "fq" => {
            words.rest();
            let why = format!("the queue {} becomes fq_codel, with its defaults", kind.text);
            changed(&kind.at, why, log, notes);
            Some(("fq_codel", None, false))
        }
        "sfq" | "red" | "gred" | "sfb" | "tbf" | "netem" | "prio" | "fq_pie" | "pie" | "choke" | "hhf"
        | "pfifo_fast" | "noqueue" => {
            words.rest();
            let why = format!("the queue {} becomes a fifo of 1000 packets", kind.text);
            changed(&kind.at, why, log, notes);
            None
        }
        other => {
            let why = format!("\"{other}\" below a class has no counterpart in a link file");
            let help = "there are: pfifo, bfifo, codel, fq_codel; queues such as sfq become a fifo; classes are of one queueing discipline";
            wrong(&kind.at, why, Some(help), log);
            None
        }
    }
}
