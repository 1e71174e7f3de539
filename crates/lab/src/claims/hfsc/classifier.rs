//! Section 6.3: cost of finding the class of a packet, by countable work, and compared with trying all matches in
//! order.

use std::hint::black_box;
use std::net::Ipv4Addr;
use std::time::Instant;

use fairlink_config::matching::{
    Classifier, ClassifierSteps, FrameKey, IpVersion, Match, PortRange, Prefix, TCP, UDP, v4_mapped,
};
use fairlink_core::{ClassId, Counted};

use super::cost::{arrivals, tree};
use crate::claims::random::SeededRng;
use crate::claims::{ClaimError, Expected, Finding, Lab, Row, Table, Unit};

/// Packets of a run.
const PACKETS: u64 = 20_000;
/// Light load: the most sessions that send. The text's first number of sessions beyond one.
const LIGHT: u32 = 100;
/// The class of frames that no match takes.
const DEFAULT: ClassId = ClassId(0);
/// Sets of the classifier's flow cache, and entries of a set.
const SETS: f64 = 4096.0;

/// Matches of one kind: the `n`th class has the `n`th match, and no frame meets two.
#[derive(Clone, Copy)]
struct Kind {
    name: &'static str,
    matches: fn(u32) -> Match,
    /// True if the classifier keeps a flow cache: a single hash table is faster.
    cached: bool,
}

const ADDRESSES: Kind = Kind { name: "addresses, protocol and port", matches: one_flow, cached: false };
const PREFIXES: Kind = Kind { name: "prefixes of 24 to 31 bits", matches: prefix, cached: true };
const RANGES: Kind = Kind { name: "ranges of both ports", matches: ranges, cached: true };

fn address(n: u32) -> Ipv4Addr {
    Ipv4Addr::from(0x0a00_0000 | n << 8)
}

fn port(n: u32) -> u16 {
    5000 + (n % 1000) as u16
}

/// Makes a match that one look-up in a hash table finds among all of its kind.
fn one_flow(n: u32) -> Match {
    let dport = Some(PortRange { first: port(n), last: port(n) });
    Match { proto: Some(UDP), dst: Some(Prefix::v4(address(!n & 0xffff), 32)), dport, ..source(n, 32) }
}

/// Makes a match of a prefix: a hash table for each length.
fn prefix(n: u32) -> Match {
    source(n, 24 + (n % 8) as u8)
}

/// Ranges with too many values for a table, so that such matches are tried one by one.
fn ranges(n: u32) -> Match {
    let most = Some(PortRange { first: 1, last: u16::MAX - 1 });
    Match { sport: most, dport: most, ..source(n, 32) }
}

fn source(n: u32, bits: u8) -> Match {
    Match { version: Some(IpVersion::V4), src: Some(Prefix::v4(address(n), bits)), ..Match::ANY }
}

/// Makes a frame of the `n`th class.
fn frame(n: u32) -> FrameKey {
    FrameKey {
        version: Some(IpVersion::V4),
        proto: UDP,
        src: v4_mapped(address(n).octets()),
        dst: v4_mapped(address(!n & 0xffff).octets()),
        sport: Some(9),
        dport: Some(port(n)),
        ..FrameKey::default()
    }
}

fn list(kind: Kind, classes: u32) -> Vec<(ClassId, Match)> {
    (0..classes).map(|n| (ClassId(n + 1), (kind.matches)(n))).collect()
}

/// Returns the answer of a search through all matches in order.
fn in_order(rules: &[(ClassId, Match)], frame: &FrameKey) -> ClassId {
    rules.iter().find(|(_, rule)| rule.matches(frame)).map_or(DEFAULT, |&(class, _)| class)
}

/// Steps of packets of one sort.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    packets: u64,
    full: u64,
    matches: u64,
    all: u64,
}

impl Sums {
    fn add(&mut self, took: ClassifierSteps) {
        self.packets += 1;
        self.full += took.full;
        self.matches += took.matches;
        self.all += took.all();
    }

    fn part(&self, sum: u64) -> f64 {
        sum as f64 / self.packets as f64
    }

    fn steps(&self) -> f64 {
        self.part(self.all)
    }
}

/// The counts for a kind of matches: the first packet of each class, and all later ones.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    first: Sums,
    later: Sums,
    wrong: usize,
}

impl Counts {
    /// Adds a run in which `sending` of the classes, evenly among all of them, have two-state sources.
    fn add(&mut self, rules: &[(ClassId, Match)], sending: u32, comes: &[(u64, ClassId)], seed: u64) {
        let mut classifier = Classifier::<Counted>::working(rules, DEFAULT, seed);
        let apart = rules.len() as u32 / sending;
        let mut known = vec![false; rules.len()];
        for &(_, ClassId(session)) in comes {
            let n = (session - 1) * apart;
            let frame = frame(n);
            let before = classifier.steps();
            let class = classifier.classify(&frame);
            let took = classifier.steps().since(before);
            let seen = std::mem::replace(&mut known[n as usize], true);
            (if seen { &mut self.later } else { &mut self.first }).add(took);
            // No frame meets the match of another class.
            self.wrong += usize::from(class != ClassId(n + 1));
        }
    }

    /// Runs with several seeds of the hashes.
    fn measure(lab: &Lab<'_>, kind: Kind, classes: u32, sending: u32) -> Result<Self, ClaimError> {
        let rules = list(kind, classes);
        let comes = arrivals(&tree(&[sending as usize])?, PACKETS);
        let mut counts = Self::default();
        for seed in 0..lab.by_effort(8, 32) {
            lab.go_on()?;
            counts.add(&rules, sending, &comes, seed);
        }
        Ok(counts)
    }
}

/// Makes a match of few values in each field, so that matches and frames meet.
fn random_match(dice: &mut SeededRng) -> Match {
    let ports = |dice: &mut SeededRng, chance: u64| {
        let first = dice.below(12) as u16;
        dice.one_in(chance).then_some(PortRange { first, last: first + dice.below(4) as u16 })
    };
    let prefix = |dice: &mut SeededRng| {
        let last = dice.below(4) as u8;
        dice.one_in(4).then_some(Prefix::v4(Ipv4Addr::new(10, 0, last, last), dice.between(22, 32) as u8))
    };
    let (src, dst) = (prefix(dice), prefix(dice));
    Match {
        vlan: dice.one_in(6).then_some(dice.below(3) as u16),
        version: (src.is_some() || dst.is_some()).then_some(IpVersion::V4),
        proto: dice.one_in(2).then_some(if dice.one_in(2) { TCP } else { UDP }),
        sport: ports(dice, 4),
        dport: ports(dice, 2),
        dscp: dice.one_in(5).then_some(dice.below(3) as u8),
        src,
        dst,
        ..Match::ANY
    }
}

fn random_frame(dice: &mut SeededRng) -> FrameKey {
    let mut address = || v4_mapped([10, 0, dice.below(4) as u8, dice.below(4) as u8]);
    let (src, dst) = (address(), address());
    FrameKey {
        vlan: dice.one_in(2).then_some(dice.below(3) as u16),
        version: (!dice.one_in(8)).then_some(if dice.one_in(8) { IpVersion::V6 } else { IpVersion::V4 }),
        proto: if dice.one_in(2) { TCP } else { UDP },
        src,
        dst,
        sport: (!dice.one_in(8)).then_some(dice.below(16) as u16),
        dport: (!dice.one_in(8)).then_some(dice.below(16) as u16),
        dscp: dice.below(3) as u8,
        ..FrameKey::default()
    }
}

/// Returns the number of answers of random lists, each frame asked twice, that differ from trying all matches in order;
/// and the number of all answers.
fn random(lab: &Lab<'_>) -> Result<(usize, usize), ClaimError> {
    let (mut wrong, mut asked) = (0, 0);
    for case in 0..lab.by_effort(100, 1000) {
        lab.go_on()?;
        let mut dice = SeededRng::new(31, case);
        let count = [8, 40, 200, 1000][dice.below(4) as usize];
        let rules: Vec<_> = (1..=count).map(|n| (ClassId(n), random_match(&mut dice))).collect();
        // One for all frames hides those behind it.
        let rules: Vec<_> = rules.into_iter().filter(|(_, rule)| !rule.is_any()).collect();
        let frames: Vec<FrameKey> = (0..100).map(|_| random_frame(&mut dice)).collect();
        let mut classifier = Classifier::<Counted>::working(&rules, DEFAULT, case);
        for frame in frames.iter().chain(&frames) {
            wrong += usize::from(classifier.classify(frame) != in_order(&rules, frame));
            asked += 1;
        }
    }
    Ok((wrong, asked))
}

/// Returns the part of `flows` that share a set of the cache with two others or more. Not all of these have an entry.
fn crowded(flows: f64) -> f64 {
    let one = 1.0 / SETS;
    let others = flows - 1.0;
    1.0 - (1.0 - one).powf(others) - others * one * (1.0 - one).powf(others - 1.0)
}

const ALL_CLASSES: [u32; 4] = [8, 64, 512, 8192];

const FIRST_ONLY: &str = "under light load, only the first packet of a class incurs the cost of full classification. Subsequent packets from this class are classified based on the class's hash values.";
const WORST: &str = "While the worst-case overhead in our implementation increases with the number of classes in the hierarchy, the average time to classify a packet based on hashing is about 3 μs.";

/// Tests Section 6.3.
pub(super) fn classifier(lab: &Lab<'_>) -> Result<Finding, ClaimError> {
    let mut table = Table::new(
        "Steps for a packet: entries of the flow cache, tables, places of tables and matches that are looked at",
        &["matches", "classes", "that send", "first packet of a class", "later packets", "later, in full"],
    );
    let mut wrong = 0;
    let mut count = |kind: Kind, classes: u32, sending: u32| -> Result<Counts, ClaimError> {
        let counts = Counts::measure(lab, kind, classes, sending)?;
        wrong += counts.wrong;
        let later = &counts.later;
        let steps = [counts.first.steps(), later.steps()].map(|steps| format!("{steps:.2}"));
        let full = format!("{:.2} %", 100.0 * later.part(later.full));
        let cells = [kind.name.to_owned(), classes.to_string(), sending.to_string()].into_iter();
        table.row(cells.chain(steps).chain([full]));
        Ok(counts)
    };
    let mut rows = Vec::new();
    for kind in [ADDRESSES, PREFIXES, RANGES] {
        let found: Vec<Counts> =
            ALL_CLASSES.iter().map(|&classes| count(kind, classes, classes.min(LIGHT))).collect::<Result<_, _>>()?;
        let (few, many) = (&found[0], &found[ALL_CLASSES.len() - 1]);
        let name = kind.name;
        if kind.cached {
            let what = format!("{name}: later packets classified in full, {LIGHT} of 8,192 classes send");
            rows.push(
                Row::new(what, Unit::Part, Expected::AtMost(0.01), many.later.part(many.later.full))
                    .judging(FIRST_ONLY),
            );
        }
        rows.push(Row::new(
            format!("{name}: steps for a later packet, 8,192 classes over 8"),
            Unit::Times,
            Expected::AtMost(1.25),
            many.later.steps() / few.later.steps(),
        ));
        let growth = many.first.steps() / few.first.steps();
        let what = format!("{name}: steps for the first packet of a class, 8,192 classes over 8");
        rows.push(if kind.name == RANGES.name {
            Row::new(what, Unit::Times, Expected::AtLeast(1.1), growth).judging(WORST)
        } else {
            Row::shown(what, Unit::Times, growth)
        });
    }
    let thousand = count(PREFIXES, 1000, 1000)?;
    let all = count(PREFIXES, 8192, 8192)?;
    let (few, many) = (count(ADDRESSES, 8, 8)?, count(ADDRESSES, 8192, 8192)?);
    rows.push(Row::new(
        format!("{}, all classes send: steps for a later packet, 8,192 classes over 8", ADDRESSES.name),
        Unit::Times,
        Expected::AtMost(1.25),
        many.later.steps() / few.later.steps(),
    ));
    let predicted = crowded(1000.0);
    rows.push(
        Row::new(
            format!("{}: later packets classified in full, 1,000 classes send", PREFIXES.name),
            Unit::Part,
            Expected::AtMost(0.01),
            thousand.later.part(thousand.later.full),
        )
        .departing(
            predicted / 3.0,
            predicted,
            format!(
                "the flow cache has {SETS} sets of two entries: {:.1} % of 1,000 flows share a set with two others or more, and from a third of their packets (three flows in random order) to all (in turn) find their entry gone",
                100.0 * predicted
            ),
        )
        .judging(FIRST_ONLY),
    );
    rows.push(Row::shown(
        format!("{}: later packets classified in full, 8,192 classes send", PREFIXES.name),
        Unit::Part,
        all.later.part(all.later.full),
    ));
    let (strange, asked) = random(lab)?;
    rows.insert(0, Row::never("answers that are not those of trying all matches in order", wrong + strange));
    let note = format!(
        "Counted in the classifier that the gateway runs; the counter is a part of its type and is nothing in the gateway. Sessions are those of Figure 13(a), of the text's two-state sources, one flow each, {PACKETS} packets a run, \
         with several seeds of the hashes. Matches are of three kinds, as the text does not give its own: {} (one hash table holds all of them, and there is no cache before it), {} (a table for each length), \
         and {} (no table takes them, so that they are tried one by one: the text's worst case). A class of the text has a hash value of its own. Ours share {SETS} sets of two entries, by flow, which is light load for hundreds of flows. \
         Answers are compared with those of trying all matches in order, {asked} times with random lists as well. hfsc.forecast shows times.",
        ADDRESSES.name, PREFIXES.name, RANGES.name
    );
    Ok(Finding::new(note, rows).with_table(table))
}

/// Nanoseconds to find the class of a packet of `classes` sessions that all send, by the median of passes: each a prefix.
pub(super) fn time(lab: &Lab<'_>, classes: u32, passes: usize) -> Result<f64, ClaimError> {
    let comes = arrivals(&tree(&[classes as usize])?, PACKETS);
    let frames: Vec<FrameKey> = comes.iter().map(|&(_, ClassId(session))| frame(session - 1)).collect();
    let mut classifier = Classifier::new(&list(PREFIXES, classes), DEFAULT);
    let mut found = Vec::new();
    // The first pass fills the cache.
    for _ in 0..=passes {
        lab.go_on()?;
        let start = Instant::now();
        for frame in &frames {
            black_box(classifier.classify(black_box(frame)));
        }
        found.push(start.elapsed().as_nanos() as f64 / frames.len() as f64);
    }
    found.remove(0);
    found.sort_by(f64::total_cmp);
    Ok(found[found.len() / 2])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_frame_meets_the_match_of_its_class_and_no_other() {
        for kind in [ADDRESSES, PREFIXES, RANGES] {
            let rules = list(kind, 300);
            for n in 0..300 {
                let met: Vec<ClassId> =
                    rules.iter().filter(|(_, rule)| rule.matches(&frame(n))).map(|&(class, _)| class).collect();
                assert_eq!(met, [ClassId(n + 1)], "{}", kind.name);
            }
        }
    }

    #[test]
    fn matches_that_no_table_takes_are_tried_up_to_the_one_that_is_met() {
        // Each class sends twice; the first time the matches before its own are tried, the second time the cache answers.
        let comes: Vec<(u64, ClassId)> = (1..=64).chain(1..=64).map(|class| (0, ClassId(class))).collect();
        let mut counts = Counts::default();
        counts.add(&list(RANGES, 64), 64, &comes, 1);
        assert_eq!((counts.first.packets, counts.first.full, counts.first.matches), (64, 64, 64 * 65 / 2));
        assert_eq!((counts.later.packets, counts.later.full, counts.later.matches), (64, 0, 0));
        assert_eq!(counts.wrong, 0);
    }

    #[test]
    fn a_wrong_answer_is_counted() {
        // The first match takes all frames.
        let mut rules = list(PREFIXES, 4);
        rules[0].1 = Match::ANY;
        let mut counts = Counts::default();
        counts.add(&rules, 4, &[(0, ClassId(1)), (0, ClassId(2)), (0, ClassId(3))], 1);
        assert_eq!(counts.wrong, 2);
    }

    #[test]
    fn flows_are_crowded_as_drawing_sets_says() {
        let mut dice = SeededRng::new(1, 1);
        let (mut crowd, runs) = (0, 200);
        for _ in 0..runs {
            let mut sets = vec![0u32; 4096];
            let places: Vec<usize> = (0..1000).map(|_| dice.below(4096) as usize).collect();
            places.iter().for_each(|&place| sets[place] += 1);
            crowd += places.iter().filter(|&&place| sets[place] > 2).count();
        }
        let drawn = crowd as f64 / f64::from(runs * 1000);
        assert!((drawn - crowded(1000.0)).abs() < 0.001, "{drawn} {}", crowded(1000.0));
    }
}
