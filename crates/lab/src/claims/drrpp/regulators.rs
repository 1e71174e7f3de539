//! Section 2.3.5: delay-jitter regulators between links under RCSP.

use std::sync::{Arc, Mutex, PoisonError};

use fairlink_sim::{Fate, Observer, Options, PacketSeen, Run};

use crate::claims::{ClaimError, Expected, Finding, Lab, Row, Table, Unit, Workload};
use fairlink_figures::human;

const JITTER: &str = include_str!("../../../../../scenarios/network/jitter.toml");
/// Links of the route.
const LINKS: usize = 3;
/// Promise of each link, in nanoseconds: `delay_jitter` of the file.
const PROMISED: u64 = 4_000_000;

/// Tests Section 2.3.5: delay-jitter regulators.
pub(super) fn transparent(lab: &Lab<'_>) -> Result<Finding, ClaimError> {
    const LONGER: &str = "Although this method may increase the end-to-end delay of the packets, it is a common method to control delay jitter if the jitter is more important than delay";
    let with = Workload::new("jitter.toml", JITTER);
    let without = Workload::new("jitter.toml", JITTER.replace("regulator = ", "# regulator = "));
    let seeds = lab.by_effort(3, 20);
    let route = |run: &Run| run.routes.first().map(|route| route.delay_s);
    let mut found = Vec::new();
    for workload in [&with, &without] {
        let runs = lab.play(workload, &["rcsp"], seeds, &Options::default())?;
        let all: Vec<_> = runs.iter().filter_map(route).collect();
        let mean = |of: &dyn Fn(&fairlink_report::Delay) -> Option<f64>| {
            all.iter().filter_map(of).sum::<f64>() / all.len().max(1) as f64
        };
        let middle = mean(&|delay| delay.p50);
        found.push((
            mean(&|delay| delay.mean),
            middle,
            mean(&|delay| delay.p99) - middle,
            mean(&|delay| delay.max) - middle,
        ));
    }
    let (held, free) = (found[0], found[1]);
    let mut table = Table::new(
        "Delay of the video over three links",
        &["", "mean", "median", "99th percentile beyond it", "longest beyond it"],
    );
    for (words, of) in [("with regulators", held), ("without", free)] {
        table.row([words.to_owned(), human::time(of.0), human::time(of.1), human::time(of.2), human::time(of.3)]);
    }
    let rows = vec![
        Row::new("longest delay beyond the median, with regulators", Unit::Seconds, Expected::AtMost(1e-6), held.3),
        Row::new(
            "longest delay beyond the median, with regulators over without",
            Unit::Part,
            Expected::AtMost(0.5),
            held.3 / free.3,
        ),
        Row::new("mean delay, with regulators over without", Unit::Times, Expected::AtLeast(1.0), held.0 / free.0)
            .judging(LONGER),
    ];
    let note = format!(
        "Video of 3.9 Mbit/s over three links of 10 Mbit/s under RCSP, beside data at the first two; {seeds} runs of 20 s. In front of the second and the third link packets are held for what the link before promises, 4 ms, less what they \
         waited there. The last link carries nothing else, so that all delays are alike."
    );
    Ok(Finding::new(note, rows).with_table(table).with_rerun(with.rerun("--runs 3")))
}

/// Times in nanoseconds of a packet of the route at a link: ET, when it was handed to the scheduler, and DT, when its last bit had left.
type Times = (u64, u64);

/// Notes the packets of the route, the only ones of the first class of each link.
struct Stamps {
    link: usize,
    times: Vec<Times>,
    found: Arc<Mutex<[Vec<Times>; LINKS]>>,
}

impl Stamps {
    fn at(link: usize, found: &Arc<Mutex<[Vec<Times>; LINKS]>>) -> Box<dyn Observer> {
        Box::new(Self { link, times: Vec::new(), found: Arc::clone(found) })
    }
}

impl Observer for Stamps {
    fn went(&mut self, packet: &PacketSeen, fate: Fate) {
        if let (Fate::Sent { done, .. }, 1) = (fate, packet.class.0) {
            self.times.push((packet.arrived.0, done.0));
        }
    }

    fn further(&mut self) -> Vec<Box<dyn Observer>> {
        if self.link > 0 { Vec::new() } else { (1..LINKS).map(|link| Self::at(link, &self.found)).collect() }
    }
}

impl Drop for Stamps {
    fn drop(&mut self) {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        found[self.link] = std::mem::take(&mut self.times);
    }
}

/// The results between two links.
struct Between {
    packets: usize,
    /// Maximum deviation of the sum of waiting and holding from the link's promise, in nanoseconds.
    off: u64,
    /// Shortest and longest waiting at the link before, and holding, in nanoseconds.
    waiting: (u64, u64),
    holding: (u64, u64),
    /// Packets that waited longer than the one before them, and those of these that were held less.
    longer: usize,
    less: usize,
}

impl Between {
    /// Makes a hop. `propagation` is p, in nanoseconds.
    fn new(before: &[Times], after: &[Times], propagation: u64) -> Result<Self, ClaimError> {
        let pairs = before.iter().zip(after);
        let found: Option<Vec<(u64, u64)>> = pairs
            .map(|(&(eligible, departed), &(next, _))| {
                Some((departed.checked_sub(eligible)?, next.checked_sub(departed)?.checked_sub(propagation)?))
            })
            .collect();
        let found = found.filter(|found| !found.is_empty());
        let found = found.ok_or_else(|| ClaimError::other("a packet was at the next link before it could be"))?;
        let span = |of: fn(&(u64, u64)) -> u64| {
            (found.iter().map(of).min().unwrap_or_default(), found.iter().map(of).max().unwrap_or_default())
        };
        let longer = || found.windows(2).filter(|pair| pair[1].0 > pair[0].0);
        Ok(Self {
            packets: found.len(),
            off: found.iter().map(|&(waited, held)| (waited + held).abs_diff(PROMISED)).max().unwrap_or_default(),
            waiting: span(|pair| pair.0),
            holding: span(|pair| pair.1),
            longer: longer().count(),
            less: longer().filter(|pair| pair[1].1 < pair[0].1).count(),
        })
    }
}

/// Tests Figure 2.2: ET, DT and holding times, packet by packet.
pub(super) fn holding(lab: &Lab<'_>) -> Result<Finding, ClaimError> {
    const SUM: &str = "The summation of d_{j-1} + h_j^k is the delay bound of the packet.";
    const PROPAGATION: u64 = 3_000_000;
    let text = JITTER.replacen("duration = \"20s\"", "duration = \"20s\"\npropagation = \"3ms\"", 1);
    let workload =
        Workload::new("jitter.toml", text.replace("name = \"core\"", "name = \"core\"\npropagation = \"3ms\""));
    let found = Arc::new(Mutex::new([const { Vec::new() }; LINKS]));
    let observer = || Stamps::at(0, &found);
    lab.watched(&workload, &["rcsp"], 1, &Options::default(), Some(&observer))?;
    let times = found.lock().unwrap_or_else(PoisonError::into_inner);
    let hops = times.windows(2).map(|pair| Between::new(&pair[0], &pair[1], PROPAGATION));
    let hops = hops.collect::<Result<Vec<_>, _>>()?;
    let mut table = Table::new(
        "Packets of the video, from link to link",
        &["from, to", "packets", "waiting at the first", "held before the second", "sum"],
    );
    let span = |(least, most): (u64, u64)| {
        format!("{} to {}", human::time(least as f64 / 1e9), human::time(most as f64 / 1e9))
    };
    for (hop, of) in hops.iter().enumerate() {
        let sum = format!("{} within {} ns", human::time(PROMISED as f64 / 1e9), of.off);
        let between = format!("{}, {}", hop + 1, hop + 2);
        table.row([between, of.packets.to_string(), span(of.waiting), span(of.holding), sum]);
    }
    let worst = |of: fn(&Between) -> u64| hops.iter().map(of).max().unwrap_or(u64::MAX) as f64 / 1e9;
    let (longer, less) = hops.iter().fold((0, 0), |sum, of| (sum.0 + of.longer, sum.1 + of.less));
    let rows = vec![
        Row::new(
            "waiting and holding together: largest difference from the promised 4 ms",
            Unit::Seconds,
            Expected::AtMost(1e-9),
            worst(|of| of.off),
        )
        .judging(SUM),
        Row::new(
            "of packets that waited longer than the one before, part that was held less than that one",
            Unit::Part,
            Expected::AtLeast(1.0),
            less as f64 / longer as f64,
        ),
        Row::new(
            "longest waiting over the shortest, at the link with the largest",
            Unit::Times,
            Expected::AtLeast(1.5),
            hops.iter().map(|of| of.waiting.1 as f64 / of.waiting.0 as f64).fold(0.0, f64::max),
        ),
    ];
    let note = "The file of drrpp.rcsp with 3 ms of propagation between links. ET is when a packet is handed to the scheduler of a link, DT when its last bit has left, so that its waiting contains its own transmission. The third row \
                shows that there is something to make up for.";
    Ok(Finding::new(note, rows).with_table(table).with_rerun(workload.rerun("--scheduler rcsp")))
}
