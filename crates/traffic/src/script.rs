//! The script language of the HTB text's traffic generator \[htb, "How I measured" and 9.9.2001\].
//!
//! A line is `TIME COMMAND FLOW VALUE`, with white space between the words; `#` begins a comment. Times are milliseconds from the
//! start and never go back.
//!
//! | command | value | meaning |
//! | --- | --- | --- |
//! | `i` | a name | the interface that the flow leaves by |
//! | `P` | a number, often hexadecimal | the `SO_PRIORITY` of the flow: 0x10002 is class 1:2 |
//! | `S` | bytes | length of the flow's packets from now on |
//! | `R` | bytes per second | rate of the flow from now on; 0 stops it |
//! | `X` | none; whatever stands there is left aside | the end |
//!
//! The text shows the language and does not define it. Choices made here: packets of a flow are evenly spaced at its
//! rate, and a flow that starts or changes sends its first packet at that instant. `i` and `P` come before the flow's
//! first rate, `S` before or behind it. A script has an `X`, with nothing behind it.

#[cfg(test)]
mod tests;

use std::fmt;

use std::ops::Range;

use fairlink_core::{ClassId, MAX_PACKET, Nanos, Rate};

use crate::interval::Interval;
use crate::length::PacketSize;
use crate::models::Model;
use crate::spec::{MAX_PACKETS_PER_SECOND, SourceSpec};

/// Largest number of a flow.
pub const MAX_FLOW: u32 = 65_535;
const COMMANDS: [&str; 5] = ["P", "S", "R", "i", "X"];
/// Most errors of a script that are kept.
const MAX_ERRORS: usize = 20;
/// Longest name of an interface, in bytes: Linux's `IFNAMSIZ` less its final zero.
const MAX_INTERFACE: usize = 15;
/// Latest time, in milliseconds: 31 years.
const MAX_TIME_MS: u64 = 1_000_000_000_000;

/// A script that was read and can be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    /// Its flows with at least one packet, in the order of their numbers.
    pub flows: Vec<Flow>,
    /// Its `R` commands in time order, for plots.
    pub rates: Vec<RateEvent>,
    /// End of the script; not zero.
    pub end: Nanos,
}

/// One flow of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flow {
    /// Its number.
    pub number: u32,
    /// The interface of its `i`.
    pub interface: Option<String>,
    /// The value of its `P`, which the kernel has as `SO_PRIORITY`; see [`Flow::classid`].
    pub priority: Option<u32>,
    /// Its rates by interval: in time order, disjoint, and within the script.
    pub pieces: Vec<Piece>,
    /// The place of its first `R` in the text, in bytes.
    pub at: Range<usize>,
}

impl Flow {
    /// Returns the class that its priority names, as major and minor number: 0x10002 is 1:2. `None` if it names none.
    #[must_use]
    pub fn classid(&self) -> Option<(u16, u16)> {
        let priority = self.priority?;
        let (major, minor) = ((priority >> 16) as u16, priority as u16);
        (major != 0 && minor != 0).then_some((major, minor))
    }

    /// Returns its traffic as sources of `class`: one for each length and rate.
    #[must_use]
    pub fn sources(&self, class: ClassId) -> Vec<SourceSpec> {
        let mut sources: Vec<SourceSpec> = Vec::new();
        for piece in &self.pieces {
            let (model, packet) = (Model::cbr(piece.rate), PacketSize::Fixed(piece.size));
            let interval = Interval { start: piece.start, end: piece.end };
            match sources.iter_mut().find(|source| source.model == model && source.packet == packet) {
                Some(source) => source.active.push(interval),
                None => sources.push(SourceSpec { class, model, packet, active: vec![interval] }),
            }
        }
        sources
    }
}

/// A span of time in which a flow sends evenly: from `start` up to, not including, `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The instant of its first packet.
    pub start: Nanos,
    /// Its end.
    pub end: Nanos,
    /// Length of its packets in bytes.
    pub size: u32,
    /// Its rate.
    pub rate: Rate,
}

/// An `R` of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateEvent {
    /// When.
    pub at: Nanos,
    /// The flow.
    pub flow: u32,
    /// The rate from then on, in bytes per second as written.
    pub bytes_per_second: u64,
}

/// The form below the x axis of the text's figures: `0: 90 kB/s`, `0: off`.
impl fmt::Display for RateEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.bytes_per_second {
            0 => write!(f, "{}: off", self.flow),
            bytes => write!(f, "{}: {} kB/s", self.flow, bytes as f64 / 1000.0),
        }
    }
}

/// An error in a script, and its place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {kind}")]
pub struct ScriptError {
    /// The line, from 1.
    pub line: usize,
    /// The offending part of the text, in bytes.
    pub at: Range<usize>,
    /// The error.
    pub kind: ScriptErrorKind,
}

/// An error in a line of a script.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScriptErrorKind {
    /// A command that there is not.
    #[error("there is no command \"{word}\"; there are: P, S, R, i, X")]
    UnknownCommand {
        /// The word as written.
        word: String,
    },
    /// Too few words, or too many.
    #[error("a line is TIME COMMAND FLOW VALUE, and here are {words} words; a comment begins with #")]
    Words {
        /// Number of words.
        words: usize,
    },
    /// A time before the one in the line before.
    #[error("the time of {ms} ms is before the {before} ms of an earlier line; write lines in the order of time")]
    TimeGoesBack {
        /// The time as written.
        ms: u64,
        /// The latest time so far.
        before: u64,
    },
    /// A text that is not a number, or a number outside its limits.
    #[error("the {what} must be a whole number from {min} to {max}, not \"{value}\"")]
    Number {
        /// The quantity, with its unit.
        what: &'static str,
        /// The value as written.
        value: String,
        /// Smallest value.
        min: u64,
        /// Largest value.
        max: u64,
    },
    /// A name that no interface has.
    #[error("\"{name}\" is not the name of an interface: 1 to {MAX_INTERFACE} bytes without /")]
    Interface {
        /// The name as written.
        name: String,
    },
    /// A rate before a length.
    #[error("flow {flow} has no packet length yet; write \"0 S {flow} 1000\" before its first R")]
    NoSize {
        /// The flow.
        flow: u32,
    },
    /// More packets than [`MAX_PACKETS_PER_SECOND`].
    #[error(
        "flow {flow} would send {packets_per_second} packets per second; the limit is {MAX_PACKETS_PER_SECOND}: lower R or raise S"
    )]
    TooManyPackets {
        /// The flow.
        flow: u32,
        /// Resulting packets per second, rounded down.
        packets_per_second: u64,
    },
    /// `i` or `P` of a flow that sends already.
    #[error("flow {flow} sends already; write its {command} before its first R, or use another flow")]
    AlreadySends {
        /// The flow.
        flow: u32,
        /// The command.
        command: char,
    },
    /// Something behind the end.
    #[error("this is never reached: the script ends in line {end_line}")]
    BehindEnd {
        /// The line of `X`.
        end_line: usize,
    },
    /// An end at the start.
    #[error("the script ends at 0 ms, before anything is sent")]
    EmptyRun,
    /// No `X`.
    #[error("the script has no end; write a last line such as \"14000 X 0 0\"")]
    NoEnd,
    /// No flow sends.
    #[error("nothing is ever sent; write a line such as \"0 R 0 90000\" with a rate above 0")]
    NothingSent,
}

use ScriptErrorKind as Kind;

impl Script {
    /// Reads a script.
    ///
    /// # Errors
    /// All that is wrong, in the order of the text: the first 20.
    pub fn parse(text: &str) -> Result<Self, Vec<ScriptError>> {
        let mut reader = Reader::default();
        let mut start = 0;
        for (index, line) in text.split_inclusive('\n').enumerate() {
            reader.line = index + 1;
            reader.line_at = start..start + line.trim_end().len();
            let code = line.split('#').next().unwrap_or_default();
            reader.command(&words(code, start));
            start += line.len();
            if reader.errors.len() >= MAX_ERRORS {
                return Err(reader.errors);
            }
        }
        reader.finish()
    }

    /// Returns true if a text is meant as a script: its first line with content begins with a time and one of the
    /// commands.
    #[must_use]
    pub fn is_one(text: &str) -> bool {
        let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default());
        let first = lines.map(|line| words(line, 0)).find(|words| !words.is_empty()).unwrap_or_default();
        let is_time = |word: &Word<'_>| word.0.bytes().all(|byte| byte.is_ascii_digit());
        first.first().is_some_and(is_time) && first.get(1).is_some_and(|(word, _)| COMMANDS.contains(word))
    }

    /// Returns the names of its interfaces, each once, in the order of the flows.
    #[must_use]
    pub fn interfaces(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for name in self.flows.iter().filter_map(|flow| flow.interface.as_deref()) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }
}

/// A word and its place in the text.
type Word<'a> = (&'a str, Range<usize>);

fn words(code: &str, offset: usize) -> Vec<Word<'_>> {
    code.split_whitespace()
        .map(|word| {
            let at = offset + (word.as_ptr() as usize - code.as_ptr() as usize);
            (word, at..at + word.len())
        })
        .collect()
}

/// A flow while the script is read.
#[derive(Debug)]
struct Running {
    flow: Flow,
    size: Option<u32>,
    /// Current sending: its start, rate, and the place of its `R`.
    sends: Option<(Nanos, Rate)>,
}

impl Running {
    /// Ends the current sending. A piece of no length, or one that the next continues, is not kept separately.
    fn close(&mut self, now: Nanos) {
        if let (Some((start, rate)), Some(size)) = (self.sends.take(), self.size)
            && start < now
        {
            self.flow.pieces.push(Piece { start, end: now, size, rate });
        }
    }
}

#[derive(Debug, Default)]
struct Reader {
    line: usize,
    line_at: Range<usize>,
    flows: Vec<Running>,
    rates: Vec<RateEvent>,
    time_ms: u64,
    /// The time and the line of `X`.
    end: Option<(Nanos, usize)>,
    errors: Vec<ScriptError>,
}

impl Reader {
    fn error(&mut self, at: &Range<usize>, kind: Kind) {
        self.errors.push(ScriptError { line: self.line, at: at.clone(), kind });
    }

    /// Parses one line. Returns `None` and records an error if it is wrong.
    fn command(&mut self, words: &[Word<'_>]) -> Option<()> {
        if words.is_empty() {
            return Some(());
        }
        let whole = self.line_at.clone();
        if let Some((_, end_line)) = self.end {
            self.error(&whole, Kind::BehindEnd { end_line });
            return None;
        }
        let known = |word: &str| COMMANDS.contains(&word);
        if let Some((word, at)) = words.get(1).filter(|(word, _)| !known(word)) {
            self.error(at, Kind::UnknownCommand { word: (*word).to_owned() });
            return None;
        }
        let now = self.time(&words[0])?;
        match words {
            [_, ("X", _), rest @ ..] if rest.len() <= 2 => {
                if now == Nanos::ZERO {
                    self.error(&whole, Kind::EmptyRun);
                }
                self.end = Some((now, self.line));
                Some(())
            }
            [_, (command, at), flow, value] => self.flow_command(now, command, at, flow, value),
            _ => {
                self.error(&whole, Kind::Words { words: words.len() });
                None
            }
        }
    }

    fn time(&mut self, word: &Word<'_>) -> Option<Nanos> {
        let ms = self.number(word, "time in ms", 0, MAX_TIME_MS)?;
        if ms < self.time_ms {
            let kind = Kind::TimeGoesBack { ms, before: self.time_ms };
            self.error(&word.1, kind);
            return None;
        }
        self.time_ms = ms;
        Some(Nanos::from_millis(ms))
    }

    fn flow_command(
        &mut self,
        now: Nanos,
        command: &str,
        at: &Range<usize>,
        flow: &Word<'_>,
        value: &Word<'_>,
    ) -> Option<()> {
        let number = self.number(flow, "number of a flow", 0, u64::from(MAX_FLOW))? as u32;
        let index = self.flow(number);
        let has_sent = |running: &Running| running.sends.is_some() || !running.flow.pieces.is_empty();
        match command {
            "i" | "P" if has_sent(&self.flows[index]) => {
                let command = if command == "i" { 'i' } else { 'P' };
                self.error(at, Kind::AlreadySends { flow: number, command });
                None
            }
            "i" => {
                let name = value.0;
                if name.len() > MAX_INTERFACE || name.contains('/') || name == "." || name == ".." {
                    self.error(&value.1, Kind::Interface { name: name.to_owned() });
                    return None;
                }
                self.flows[index].flow.interface = Some(name.to_owned());
                Some(())
            }
            "P" => {
                let priority = self.number(value, "priority", 0, u64::from(u32::MAX))? as u32;
                self.flows[index].flow.priority = Some(priority);
                Some(())
            }
            "S" => {
                let size = self.number(value, "packet length in bytes", 1, u64::from(MAX_PACKET))? as u32;
                let running = &mut self.flows[index];
                if running.size != Some(size)
                    && let Some((_, rate)) = running.sends
                {
                    running.close(now);
                    running.sends = Some((now, rate));
                }
                self.flows[index].size = Some(size);
                self.check_packets(index, &value.1)
            }
            _ => self.rate(now, index, value),
        }
    }

    fn rate(&mut self, now: Nanos, index: usize, value: &Word<'_>) -> Option<()> {
        let number = self.flows[index].flow.number;
        let bytes_per_second = self.number(value, "rate in bytes per second", 0, Rate::MAX.bps() / 8)?;
        self.rates.push(RateEvent { at: now, flow: number, bytes_per_second });
        if self.flows[index].size.is_none() {
            self.error(&value.1, Kind::NoSize { flow: number });
            // Reported once.
            self.flows[index].size = Some(1000);
            return None;
        }
        let line_at = self.line_at.clone();
        let running = &mut self.flows[index];
        let rate = Rate::from_bps(bytes_per_second * 8).ok();
        if running.sends.map(|(_, rate)| rate) != rate {
            running.close(now);
            running.sends = rate.map(|rate| (now, rate));
        }
        if running.flow.at.is_empty() && rate.is_some() {
            running.flow.at = line_at;
        }
        self.check_packets(index, &value.1)
    }

    /// Returns true if a flow sends no more packets than a source may.
    fn check_packets(&mut self, index: usize, at: &Range<usize>) -> Option<()> {
        let running = &self.flows[index];
        let (Some((_, rate)), Some(size)) = (running.sends, running.size) else { return Some(()) };
        let packets_per_second = rate.bps() / 8 / u64::from(size);
        if packets_per_second <= MAX_PACKETS_PER_SECOND {
            return Some(());
        }
        let flow = running.flow.number;
        self.error(at, Kind::TooManyPackets { flow, packets_per_second });
        None
    }

    /// Returns the index of a flow; creates the flow if its number is new.
    fn flow(&mut self, number: u32) -> usize {
        match self.flows.binary_search_by_key(&number, |running| running.flow.number) {
            Ok(index) => index,
            Err(index) => {
                let flow = Flow { number, interface: None, priority: None, pieces: Vec::new(), at: 0..0 };
                self.flows.insert(index, Running { flow, size: None, sends: None });
                index
            }
        }
    }

    /// Parses a whole number, decimal or with `0x` hexadecimal.
    fn number(&mut self, word: &Word<'_>, what: &'static str, min: u64, max: u64) -> Option<u64> {
        let (text, at) = word;
        let value = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
            Some(hex) if hex.bytes().all(|byte| byte.is_ascii_hexdigit()) => u64::from_str_radix(hex, 16).ok(),
            None if text.bytes().all(|byte| byte.is_ascii_digit()) => text.parse().ok(),
            _ => None,
        };
        let value = value.filter(|value| (min..=max).contains(value));
        if value.is_none() {
            self.error(at, Kind::Number { what, value: (*text).to_owned(), min, max });
        }
        value
    }

    fn finish(mut self) -> Result<Script, Vec<ScriptError>> {
        if !self.errors.is_empty() {
            return Err(self.errors);
        }
        let whole = self.line_at.clone();
        let Some((end, _)) = self.end else {
            self.error(&whole, Kind::NoEnd);
            return Err(self.errors);
        };
        let closed = self.flows.into_iter().map(|mut running| {
            running.close(end);
            running.flow
        });
        let flows: Vec<Flow> = closed.filter(|flow| !flow.pieces.is_empty()).collect();
        if flows.is_empty() {
            return Err(vec![ScriptError { line: self.line, at: whole, kind: Kind::NothingSent }]);
        }
        Ok(Script { flows, rates: self.rates, end })
    }
}
