//! `altq` and `queue` statements, and their tree on an interface.

use std::collections::HashMap;

use fairlink_core::Rate;

use super::Reading;
use super::words::{Cursor, Statement};
use crate::import::file_stem;
use crate::import::notes::{wrong, wrong_also};
use crate::problem::Span;
use crate::units::show_bps;

/// Deepest tree that is read.
const MAX_LEVELS: usize = 60;
/// Priorities of `htb`.
const PRIORITIES: usize = 8;
/// Packets of a queue, without `qlimit`.
const QLIMIT: u64 = 50;

/// ALTQ's schedulers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Discipline {
    Cbq,
    Priq,
    Hfsc,
}

/// A rate, or a part of the parent's.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Bandwidth {
    Bits(u64),
    /// A part of 1.
    Part(f64),
}

impl Bandwidth {
    fn of(self, parent: u64) -> u64 {
        match self {
            Self::Bits(bps) => bps,
            Self::Part(part) => (parent as f64 * part).round() as u64,
        }
    }
}

/// A service curve: the first slope and its length in milliseconds, if there is one, and the second.
type Spec = (Option<(Bandwidth, u64)>, Bandwidth);

/// A curve in bit/s and milliseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Curve {
    pub(super) first: Option<(u64, u64)>,
    pub(super) rate: u64,
}

/// `altq on IF`.
#[derive(Debug)]
pub(super) struct Altq {
    pub(super) interface: String,
    pub(super) discipline: Discipline,
    bandwidth: Option<Bandwidth>,
    below: Vec<(String, Span)>,
    pub(super) at: Span,
}

/// `queue NAME`.
#[derive(Debug)]
struct Queue {
    name: String,
    interface: Option<String>,
    asked: Asked,
    below: Vec<(String, Span)>,
    at: Span,
}

/// Settings of a queue or an interface.
#[derive(Debug, Default)]
struct Asked {
    bandwidth: Option<Bandwidth>,
    priority: Option<u8>,
    qlimit: Option<u64>,
    discipline: Option<Discipline>,
    default: bool,
    borrow: bool,
    red: bool,
    ecn: bool,
    codel: bool,
    curves: [Option<Spec>; 3],
}

const CURVES: [&str; 3] = ["linkshare", "realtime", "upperlimit"];
/// The place of the first of them.
const LINK_SHARE: usize = 0;
/// The place of the second.
const REAL_TIME: usize = 1;

/// A class of a tree.
#[derive(Debug)]
pub(super) struct Class {
    pub(super) name: String,
    pub(super) parent: Option<usize>,
    /// In bit/s.
    pub(super) bandwidth: u64,
    /// CBQ: 0 to 7, the largest first. priq: as in `htb`, 0 first.
    pub(super) priority: u8,
    pub(super) borrow: bool,
    /// `queue` of a link file.
    pub(super) kind: &'static str,
    pub(super) ecn: bool,
    /// Packets.
    pub(super) buffer: u64,
    pub(super) link_share: Option<Curve>,
    pub(super) real_time: Option<Curve>,
    pub(super) upper_limit: Option<Curve>,
    pub(super) inner: bool,
    pub(super) matches: Vec<String>,
    pub(super) at: Span,
}

/// The queues of an interface: parents before their children.
#[derive(Debug)]
pub(super) struct Tree {
    pub(super) stem: String,
    pub(super) discipline: Discipline,
    pub(super) rate: u64,
    pub(super) rate_why: &'static str,
    pub(super) classes: Vec<Class>,
    pub(super) default: usize,
}

/// All queues of a file.
#[derive(Debug, Default)]
pub(super) struct Queues {
    pub(super) altqs: Vec<Altq>,
    queues: Vec<Queue>,
}

impl Queues {
    pub(super) fn altq(&mut self, statement: &Statement, reading: &mut Reading<'_>) {
        let mut words = Cursor::new(statement);
        let Some(()) = words.expect("on", &mut reading.log) else { return };
        let Some(interface) = words.name("an interface", &mut reading.log) else { return };
        let Some((asked, below)) = options(&mut words, reading) else { return };
        let Some(discipline) = asked.discipline else {
            let help = "write cbq, priq or hfsc";
            return wrong(statement.at.clone(), "this altq names no scheduler", help, &mut reading.log);
        };
        if let Some(other) = self.altqs.iter().find(|altq| altq.interface == interface.text) {
            let what = format!("there are two altq on \"{}\"", interface.text);
            return wrong_also(
                statement.at.clone(),
                what,
                "keep one of them",
                other.at.clone(),
                "the other",
                &mut reading.log,
            );
        }
        if below.is_empty() {
            return wrong(
                statement.at.clone(),
                "this altq names no queues",
                "write queue { name, name } at its end",
                &mut reading.log,
            );
        }
        self.altqs.push(Altq {
            interface: interface.text.clone(),
            discipline,
            bandwidth: asked.bandwidth,
            below,
            at: statement.at.clone(),
        });
    }

    pub(super) fn queue(&mut self, statement: &Statement, reading: &mut Reading<'_>) {
        let mut words = Cursor::new(statement);
        let Some(name) = words.name("the name of a queue", &mut reading.log) else { return };
        let interface = if words.take("on") {
            let Some(interface) = words.name("an interface", &mut reading.log) else { return };
            Some(interface.text.clone())
        } else {
            None
        };
        let Some((asked, below)) = options(&mut words, reading) else { return };
        if let Some(other) = self.queues.iter().find(|queue| queue.name == name.text && queue.interface == interface) {
            let what = format!("there are two queues \"{}\"", name.text);
            return wrong_also(
                statement.at.clone(),
                what,
                "rename one of them",
                other.at.clone(),
                "the other",
                &mut reading.log,
            );
        }
        self.queues.push(Queue { name: name.text.clone(), interface, asked, below, at: statement.at.clone() });
    }

    /// Reports names, with their places in rules, that no queue has.
    pub(super) fn check_names<'a>(&self, names: impl Iterator<Item = &'a (String, Span)>, reading: &mut Reading<'_>) {
        for (name, at) in names {
            if !self.queues.iter().any(|queue| queue.name == *name) {
                let names: Vec<&str> = self.queues.iter().map(|queue| queue.name.as_str()).collect();
                let help = format!("there are: {}", names.join(", "));
                wrong(at.clone(), format!("there is no queue \"{name}\""), help, &mut reading.log);
            }
        }
    }

    fn find(&self, name: &str, interface: &str) -> Option<&Queue> {
        let on = |queue: &&Queue| queue.interface.as_deref() == Some(interface);
        let of_name = || self.queues.iter().filter(|queue| queue.name == name);
        of_name().find(on).or_else(|| of_name().find(|queue| queue.interface.is_none()))
    }

    /// Builds the queues of an interface. `None` if there is an error, which is in the log.
    pub(super) fn tree(&self, altq: &Altq, reading: &mut Reading<'_>) -> Option<Tree> {
        let (rate, rate_why) = match (reading.options.rate(), altq.bandwidth) {
            (Some(rate), _) => (rate.bps(), "as asked for"),
            (None, Some(Bandwidth::Bits(bps))) => (bps, "its bandwidth"),
            _ => {
                let what = format!(
                    "the bandwidth of \"{}\" is not in bits, and the interface's speed is not in this file",
                    altq.interface
                );
                wrong(altq.at.clone(), what, "pass --rate 100mbit", &mut reading.log);
                return None;
            }
        };
        let mut classes: Vec<Class> = Vec::new();
        let mut places: HashMap<&str, usize> = HashMap::new();
        let mut next: Vec<(&(String, Span), Option<usize>, usize)> =
            altq.below.iter().rev().map(|name| (name, None, 1)).collect();
        while let Some(((name, at), parent, level)) = next.pop() {
            let Some(queue) = self.find(name, &altq.interface) else {
                let what = format!("there is no queue \"{name}\" for \"{}\"", altq.interface);
                wrong(at.clone(), what, format!("write a line: queue {name} ..."), &mut reading.log);
                return None;
            };
            if let Some(&other) = places.get(name.as_str()) {
                let what = format!("the queue \"{name}\" is below two others");
                let also = classes[other].at.clone();
                wrong_also(at.clone(), what, "name each queue once in braces", also, "the queue", &mut reading.log);
                return None;
            }
            if level > MAX_LEVELS {
                wrong(
                    at.clone(),
                    format!("more than {MAX_LEVELS} levels of queues"),
                    "merge some of them",
                    &mut reading.log,
                );
                return None;
            }
            let above = parent.map_or(rate, |parent: usize| classes[parent].bandwidth);
            let class = queue.class(altq.discipline, above, parent, reading)?;
            places.insert(name, classes.len());
            next.extend(queue.below.iter().rev().map(|name| (name, Some(classes.len()), level + 1)));
            classes.push(class);
        }
        let defaults: Vec<usize> = (0..classes.len())
            .filter(|&at| self.find(&classes[at].name, &altq.interface).is_some_and(|queue| queue.asked.default))
            .collect();
        let &[default] = &defaults[..] else {
            let what = format!("{} queues of \"{}\" are the default", defaults.len(), altq.interface);
            let help = "write default in the brackets of one queue, such as hfsc(default)";
            wrong(altq.at.clone(), what, help, &mut reading.log);
            return None;
        };
        if classes[default].inner {
            let what = format!("the default queue \"{}\" has queues below it", classes[default].name);
            wrong(classes[default].at.clone(), what, "make a leaf the default", &mut reading.log);
            return None;
        }
        fits(altq.discipline, &classes, rate, reading)?;
        if altq.discipline == Discipline::Priq {
            rank(&mut classes, &altq.at, reading)?;
        }
        Some(Tree { stem: file_stem(&altq.interface), discipline: altq.discipline, rate, rate_why, classes, default })
    }
}

/// Gives the queues of priq the priorities of `htb`, which has fewer: 0 for the largest, and so on.
fn rank(classes: &mut [Class], at: &Span, reading: &mut Reading<'_>) -> Option<()> {
    let mut used: Vec<u8> = classes.iter().map(|class| class.priority).collect();
    used.sort_unstable_by(|one, other| other.cmp(one));
    used.dedup();
    if used.len() > PRIORITIES {
        let what = format!("these queues have {} different priorities, and htb has {PRIORITIES}", used.len());
        wrong(at.clone(), what, "give some of them the same priority", &mut reading.log);
        return None;
    }
    for class in classes {
        class.priority = used.iter().position(|&priority| priority == class.priority).unwrap_or(0) as u8;
    }
    Some(())
}

/// Returns true if the bandwidths of children are at most their parent's, as pfctl asks of CBQ.
fn fits(discipline: Discipline, classes: &[Class], rate: u64, reading: &mut Reading<'_>) -> Option<()> {
    if discipline != Discipline::Cbq {
        return Some(());
    }
    let parents = std::iter::once(None).chain((0..classes.len()).map(Some));
    for parent in parents {
        let children = classes.iter().filter(|class| class.parent == parent);
        let sum = children.fold(0u64, |sum, class| sum.saturating_add(class.bandwidth));
        let (has, at) = parent.map_or((rate, 0..0), |at| (classes[at].bandwidth, classes[at].at.clone()));
        if sum > has {
            let whose = parent.map_or_else(|| "the interface".to_owned(), |at| format!("\"{}\"", classes[at].name));
            let what = format!("the queues below {whose} add up to {}, more than its {}", show_bps(sum), show_bps(has));
            wrong(at, what, "lower their bandwidth; pfctl refuses this as well", &mut reading.log);
            return None;
        }
    }
    Some(())
}

impl Queue {
    fn class(
        &self,
        discipline: Discipline,
        above: u64,
        parent: Option<usize>,
        reading: &mut Reading<'_>,
    ) -> Option<Class> {
        let asked = &self.asked;
        if let Some(own) = asked.discipline.filter(|&own| own != discipline) {
            let what = format!("the queue \"{}\" is one of {own:?}, its altq of {discipline:?}", self.name);
            wrong(self.at.clone(), what, "name the same scheduler in both", &mut reading.log);
            return None;
        }
        let bandwidth = asked.bandwidth.map_or(above, |bandwidth| bandwidth.of(above));
        let most = if discipline == Discipline::Priq { 15 } else { 7 };
        let priority = asked.priority.unwrap_or(1);
        let inner = !self.below.is_empty();
        let has_link_share = discipline == Discipline::Hfsc && asked.curves[LINK_SHARE].is_some();
        let refused = match () {
            () if priority > most => Some(format!("a priority of {priority}, and the largest is {most}")),
            // For hfsc it only replaces a missing link-sharing curve.
            () if bandwidth == 0 && !has_link_share || bandwidth > Rate::MAX.bps() => {
                Some(format!("a bandwidth of {}", show_bps(bandwidth)))
            }
            () if bandwidth > above && discipline != Discipline::Priq => {
                Some(format!("a bandwidth of {}, above its parent's {}", show_bps(bandwidth), show_bps(above)))
            }
            () if inner && discipline == Discipline::Priq => {
                Some("queues below it, which priq does not have".to_owned())
            }
            () => None,
        };
        if let Some(refused) = refused {
            let what = format!("the queue \"{}\" has {refused}", self.name);
            wrong(self.at.clone(), what, "pfctl refuses this as well", &mut reading.log);
            return None;
        }
        let mut curves = [None; 3];
        for (place, (made, spec)) in curves.iter_mut().zip(&asked.curves).enumerate() {
            let Some((first, rate)) = spec else { continue };
            let curve = Curve { first: first.map(|(slope, ms)| (slope.of(above), ms)), rate: rate.of(above) };
            // "realtime 0" is no promise.
            if place == REAL_TIME && curve.rate == 0 && curve.first.is_none() {
                continue;
            }
            if [curve.rate, curve.first.map_or(0, |(slope, _)| slope)].into_iter().any(|bps| bps > Rate::MAX.bps()) {
                let what = format!("a slope of the {} curve is above {}", CURVES[place], show_bps(Rate::MAX.bps()));
                wrong(self.at.clone(), what, "lower it", &mut reading.log);
                return None;
            }
            *made = Some(curve);
        }
        let [link_share, mut real_time, upper_limit] = curves;
        let tallies = &mut reading.tallies;
        if inner && real_time.take().is_some() {
            tallies.inner_curves.add(&self.at);
        }
        if discipline == Discipline::Hfsc && asked.priority.is_some() {
            tallies.hfsc_priority.add(&self.at);
        }
        if asked.red {
            tallies.red.add(&self.at);
        }
        Some(Class {
            name: self.name.clone(),
            parent,
            bandwidth,
            priority,
            borrow: asked.borrow,
            kind: if asked.codel { "codel" } else { "fifo" },
            ecn: asked.codel && asked.ecn,
            buffer: asked.qlimit.unwrap_or(QLIMIT),
            link_share: link_share.or(Some(Curve { first: None, rate: bandwidth })),
            real_time,
            upper_limit,
            inner,
            matches: Vec::new(),
            at: self.at.clone(),
        })
    }
}

/// The options of an altq or a queue, and the queues below it.
fn options(words: &mut Cursor<'_>, reading: &mut Reading<'_>) -> Option<(Asked, Vec<(String, Span)>)> {
    let mut asked = Asked::default();
    let mut below = Vec::new();
    while !words.is_done() {
        let at = words.span();
        let peek = words.peek();
        match peek {
            "bandwidth" => {
                words.next();
                asked.bandwidth = Some(bandwidth(words, reading)?);
            }
            "priority" => {
                words.next();
                asked.priority = Some(number(words, 255, reading)? as u8);
            }
            "qlimit" => {
                words.next();
                asked.qlimit = Some(number(words, 1_000_000, reading)?.max(1));
            }
            "tbrsize" => {
                words.next();
                number(words, u64::from(u32::MAX), reading)?;
                reading.tallies.tbrsize.add(&at);
            }
            "cbq" | "priq" | "hfsc" => {
                words.next();
                asked.discipline = Some(match peek {
                    "cbq" => Discipline::Cbq,
                    "priq" => Discipline::Priq,
                    _ => Discipline::Hfsc,
                });
                if words.take("(") {
                    in_brackets(words, &mut asked, reading)?;
                }
            }
            "queue" | "{" => {
                words.take("queue");
                below = words.list(&mut reading.log, |words, log| {
                    let name = words.name("the name of a queue", log)?;
                    Some((name.text.clone(), name.at.clone()))
                })?;
            }
            word => {
                let help = match word {
                    "parent" | "min" | "max" | "burst" | "flows" | "quantum" => {
                        "these are the queues of OpenBSD 5.5 and later; ALTQ's are read here"
                    }
                    "fairq" | "codel" | "dummynet" => "the schedulers that are read are cbq, priq and hfsc",
                    _ => "options are bandwidth, priority, qlimit, tbrsize, cbq, priq, hfsc, and queues in braces",
                };
                wrong(at, format!("\"{word}\" is not an option of a queue"), help, &mut reading.log);
                return None;
            }
        }
        words.take(",");
    }
    Some((asked, below))
}

/// Reads the options in the brackets of a scheduler.
fn in_brackets(words: &mut Cursor<'_>, asked: &mut Asked, reading: &mut Reading<'_>) -> Option<()> {
    while !words.take(")") {
        let at = words.span();
        let word = words.name("an option or \")\"", &mut reading.log)?;
        match word.text.as_str() {
            "default" => asked.default = true,
            "borrow" => asked.borrow = true,
            "red" | "rio" => asked.red = true,
            "ecn" => asked.ecn = true,
            "codel" => asked.codel = true,
            text => {
                let Some(place) = CURVES.iter().position(|&curve| curve == text) else {
                    let help = "options are default, borrow, red, ecn, rio, codel, linkshare, realtime and upperlimit";
                    wrong(at, format!("\"{text}\" is not an option of a scheduler"), help, &mut reading.log);
                    return None;
                };
                asked.curves[place] = Some(curve(words, reading)?);
            }
        }
        words.take(",");
    }
    Some(())
}

/// `1Mb` or `(m1 d m2)`.
fn curve(words: &mut Cursor<'_>, reading: &mut Reading<'_>) -> Option<Spec> {
    if !words.take("(") {
        return Some((None, bandwidth(words, reading)?));
    }
    let first = bandwidth(words, reading)?;
    words.take(",");
    let ms = number(words, 1_000_000, reading)?;
    words.take(",");
    let second = bandwidth(words, reading)?;
    words.expect(")", &mut reading.log)?;
    Some((Some((first, ms)), second))
}

fn bandwidth(words: &mut Cursor<'_>, reading: &mut Reading<'_>) -> Option<Bandwidth> {
    let word = words.name("a bandwidth", &mut reading.log)?;
    let text = word.text.as_str();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let value: Option<f64> = text[..digits].parse().ok();
    let factor = match text[digits..].to_ascii_lowercase().as_str() {
        "" | "b" => Some(1.0),
        "kb" => Some(1e3),
        "mb" => Some(1e6),
        "gb" => Some(1e9),
        "%" => None,
        _ => Some(f64::NAN),
    };
    let made = match (value, factor) {
        (Some(percent), None) if percent <= 100.0 => Some(Bandwidth::Part(percent / 100.0)),
        (Some(value), Some(factor)) => {
            let bps = value * factor;
            (bps <= Rate::MAX.bps() as f64).then(|| Bandwidth::Bits(bps.round() as u64))
        }
        _ => None,
    };
    if made.is_none() {
        let what = format!("\"{text}\" is not a bandwidth");
        wrong(word.at.clone(), what, "write 10Mb, 512Kb, 64000b, 1Gb or 20%", &mut reading.log);
    }
    made
}

fn number(words: &mut Cursor<'_>, most: u64, reading: &mut Reading<'_>) -> Option<u64> {
    let word = words.name("a number", &mut reading.log)?;
    let made = word.text.parse().ok().filter(|&number: &u64| number <= most);
    if made.is_none() {
        let what = format!("\"{}\" is not a number from 0 to {most}", word.text);
        wrong(word.at.clone(), what, "write one", &mut reading.log);
    }
    made
}
