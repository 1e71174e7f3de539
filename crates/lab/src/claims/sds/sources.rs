//! The sources of Section IV as scenarios, and comparisons of runs on the same arrivals.

use std::fmt::Write as _;
use std::sync::Arc;

use fairlink_core::Nanos;
use fairlink_report::ClassReport;
use fairlink_sim::statistics::Estimate;
use fairlink_sim::{Distribution, Options, Run};

use crate::claims::{ClaimError, Lab, Workload};

/// Default link in bit/s: Figure 3 has 28 sources of 1.5 Mbit/s at a utilisation of 0.88.
pub(super) const LINK: f64 = 28.0 * 1.5e6 / 0.88;
/// Length of a packet in bytes: a cell, as in the title of Table I.
pub(super) const CELL: u32 = 53;
/// Length of a packet of video in bytes. The text does not say; ten times a cell, so that a run of minutes is short.
pub(super) const VIDEO_PACKET: u32 = 530;
/// Frames of video in a second. The text does not say.
pub(super) const FRAMES: u32 = 25;
/// Correlation of frames, and their peak over the mean.
pub(super) const RHO: f64 = 0.98;
const PEAK_TO_MEAN: f64 = 5.0;
/// Mean rate of video in bit/s.
pub(super) const VIDEO: f64 = 1.5e6;
/// Mean on and off times of data, in times of a packet on the link.
pub(super) const DATA_ON: f64 = 6.0;
pub(super) const DATA_OFF: f64 = 200.0;

/// The two that are compared.
pub(super) const PAIR: [&str; 2] = ["wfq", "fq-ldf"];
/// Runs keep how delays are distributed; windows as such are of no use here.
pub(super) const OPTIONS: Options = Options { window: Some(Nanos::from_secs(5)), settle: Nanos::ZERO, metrics: false };

/// A two-state source, by the parameters that the text leaves open.
#[derive(Clone, Copy, Debug)]
pub(super) struct Voice {
    /// Rate while on over the mean rate.
    pub(super) peak_to_mean: f64,
    /// Mean length of an on time in packets.
    pub(super) burst: f64,
}

/// A scenario that grows class by class.
pub(super) struct Sources {
    head: String,
    sources: String,
    packet: u32,
    /// Bit/s.
    pub(super) link: f64,
}

impl Sources {
    /// Makes an empty scenario on a link of this rate with packets of this length.
    pub(super) fn new(comment: &str, link: f64, packet: u32, seconds: f64) -> Self {
        let head = format!(
            "# {comment}\n\nduration = \"{:.0}ms\"\n\n[link]\nrate = \"{link:.0}bit\"\nmtu = \"{packet}B\"\n",
            seconds * 1e3
        );
        Self { head, sources: String::new(), packet, link }
    }

    /// Adds a class with further keys, and a source of it.
    fn add(&mut self, name: &str, keys: &str, source: &str) {
        let _ = write!(self.head, "\n[[class]]\nname = \"{name}\"\n{keys}\n");
        let packet = self.packet;
        let _ = write!(self.sources, "\n[[source]]\nclass = \"{name}\"\n{source}\npacket = \"{packet}B\"\n");
    }

    /// Adds a voice source with exponential on and off times.
    pub(super) fn voice(&mut self, name: &str, keys: &str, mean: f64, voice: Voice) {
        let peak = mean * voice.peak_to_mean;
        let on = voice.burst * f64::from(self.packet) * 8.0 / peak;
        let off = on * (voice.peak_to_mean - 1.0);
        self.add(name, keys, &on_off("on_off", peak, on, off));
    }

    /// Adds video of conferences.
    pub(super) fn video(&mut self, name: &str, keys: &str) {
        let source = format!(
            "model = \"dar1\"\nrate = \"{VIDEO:.0}bit\"\nframes_per_second = {FRAMES}\nrho = {RHO}\npeak_to_mean = {PEAK_TO_MEAN}"
        );
        self.add(name, keys, &source);
    }

    /// Adds data: Pareto on times and exponential off times; the rate of the link while on.
    pub(super) fn data(&mut self, name: &str, keys: &str) {
        let packet = f64::from(self.packet) * 8.0 / self.link;
        let source = on_off("pareto_on_off", self.link, DATA_ON * packet, DATA_OFF * packet);
        self.add(name, keys, &source);
    }

    /// Adds a recording, played repeatedly from `start` to `end` in seconds. It has its own lengths.
    pub(super) fn recorded(&mut self, name: &str, keys: &str, file: &str, start: u64, end: u64) {
        let _ = write!(self.head, "\n[[class]]\nname = \"{name}\"\n{keys}\n");
        let _ = write!(
            self.sources,
            "\n[[source]]\nclass = \"{name}\"\nmodel = \"trace\"\nfile = \"{file}\"\nof_class = \"video\"\nrepeat = true\nactive = [\"{start}s..{end}s\"]\n"
        );
    }

    /// Adds a CBR source: two packets at a time, evenly.
    pub(super) fn cbr(&mut self, name: &str, keys: &str, rate: f64) {
        self.add(name, keys, &format!("model = \"cbr\"\nrate = \"{rate:.0}bit\"\nburst = \"2p\""));
    }

    /// Adds a source that sends more than the class gets, without end.
    pub(super) fn saturating(&mut self, name: &str, keys: &str, rate: f64) {
        self.add(name, keys, &format!("model = \"saturating\"\nrate = \"{rate:.0}bit\""));
    }

    /// Puts the last source behind a shaper with this arrival curve.
    pub(super) fn shaped(&mut self, curve: &str) {
        let _ = writeln!(self.sources, "shape = {curve}");
    }

    /// Puts the last source behind a policer with this arrival curve.
    pub(super) fn policed(&mut self, curve: &str) {
        let _ = writeln!(self.sources, "police = {curve}");
    }

    /// Makes the scenario.
    pub(super) fn workload(&self, name: &str) -> Workload {
        Workload::new(name, format!("{}{}", self.head, self.sources)).in_any_phase()
    }
}

fn on_off(model: &str, peak: f64, on: f64, off: f64) -> String {
    format!("model = \"{model}\"\nrate = \"{peak:.0}bit\"\non = \"{:.0}ns\"\noff = \"{:.0}ns\"", on * 1e9, off * 1e9)
}

/// Returns the mean rate of data in bit/s on this link.
pub(super) fn data_rate(link: f64) -> f64 {
    link * DATA_ON / (DATA_ON + DATA_OFF)
}

/// Runs of two schedulers on the same arrivals.
pub(super) struct Compared {
    runs: Arc<Vec<Run>>,
    seeds: usize,
    /// A seed that is left out, for [`Compared::estimate`].
    without: Option<usize>,
}

impl Compared {
    /// Runs this workload.
    pub(super) fn play(
        lab: &Lab<'_>,
        workload: &Workload,
        schedulers: &[&str],
        seeds: u64,
    ) -> Result<Self, ClaimError> {
        Ok(Self { runs: lab.play(workload, schedulers, seeds, &OPTIONS)?, seeds: seeds as usize, without: None })
    }

    /// Returns these runs without the seed that `others` leave out: seeds of two workloads are paired.
    pub(super) fn without(&self, others: &Self) -> Self {
        Self { runs: Arc::clone(&self.runs), seeds: self.seeds, without: others.without }
    }

    /// Returns the runs of one of the schedulers.
    pub(super) fn of(&self, scheduler: usize) -> impl Iterator<Item = &Run> + Clone {
        let runs = self.runs[scheduler * self.seeds..(scheduler + 1) * self.seeds].iter().enumerate();
        runs.filter(|&(seed, _)| Some(seed) != self.without).map(|(_, run)| run)
    }

    /// Estimates a statistic of the runs by leaving out each seed once.
    pub(super) fn estimate(
        &self,
        statistic: impl Fn(&Self) -> Result<f64, ClaimError>,
    ) -> Result<Estimate, ClaimError> {
        Estimate::jackknife(self.seeds, |without| {
            statistic(&Self { runs: Arc::clone(&self.runs), seeds: self.seeds, without })
        })
    }

    /// Returns a quantity of each run of a scheduler.
    pub(super) fn each(&self, scheduler: usize, value: impl Fn(&Run) -> Option<f64>) -> Vec<Option<f64>> {
        self.of(scheduler).map(value).collect()
    }

    /// Its mean.
    pub(super) fn mean(&self, scheduler: usize, value: impl Fn(&Run) -> Option<f64>) -> Result<Estimate, ClaimError> {
        let values: Vec<f64> = self.each(scheduler, value).into_iter().flatten().collect();
        Estimate::from_values(&values).ok_or_else(nothing)
    }

    /// Returns the first scheduler's value less the second's, seed by seed.
    pub(super) fn gain(&self, value: impl Fn(&Run) -> Option<f64> + Copy) -> Result<Estimate, ClaimError> {
        self.difference([0, 1], value)
    }

    /// The same of two of the schedulers.
    pub(super) fn difference(
        &self,
        of: [usize; 2],
        value: impl Fn(&Run) -> Option<f64> + Copy,
    ) -> Result<Estimate, ClaimError> {
        let [one, other] = of.map(|scheduler| self.each(scheduler, value));
        Estimate::of_differences(&one, &other).ok_or_else(nothing)
    }

    /// Returns the second's mean over the first's.
    pub(super) fn ratio(&self, value: impl Fn(&Run) -> Option<f64> + Copy) -> Result<Estimate, ClaimError> {
        self.estimate(|runs| Ok(runs.mean(1, value)?.mean / runs.mean(0, value)?.mean))
    }

    /// Delays of classes whose names begin with this, of all runs of a scheduler.
    pub(super) fn delays(&self, scheduler: usize, prefix: &str) -> Distribution {
        let runs = self.of(scheduler);
        Distribution::of_all(runs.flat_map(|run| run.distributions_of(|class| class.name.starts_with(prefix))))
    }
}

fn nothing() -> ClaimError {
    ClaimError::other("no run has a value")
}

/// Classes whose names begin with this.
pub(super) fn of_kind<'r>(run: &'r Run, prefix: &str) -> impl Iterator<Item = &'r ClassReport> {
    let prefix = prefix.to_owned();
    run.classes.iter().filter(move |class| class.name.starts_with(&prefix))
}

/// Returns the part of all packets that was dropped.
pub(super) fn lost(run: &Run) -> Option<f64> {
    let offered: u64 = run.classes.iter().map(|class| class.counts().received.packets).sum();
    let dropped: u64 = run.classes.iter().map(|class| class.counts().dropped.packets).sum();
    (offered > 0).then(|| dropped as f64 / offered as f64)
}

/// Returns the mean over classes of a kind of the 99th percentile of their delay, in seconds.
pub(super) fn p99(run: &Run, prefix: &str) -> Option<f64> {
    mean_of(of_kind(run, prefix).filter_map(|class| class.delay().p99))
}

/// Like `p99`, for the mean delay.
pub(super) fn mean_delay(run: &Run, prefix: &str) -> Option<f64> {
    mean_of(of_kind(run, prefix).filter_map(|class| class.delay().mean))
}

/// Like `p99`, for the longest delay.
pub(super) fn max_delay(run: &Run, prefix: &str) -> Option<f64> {
    mean_of(of_kind(run, prefix).filter_map(|class| class.delay().max))
}

fn mean_of(values: impl Iterator<Item = f64>) -> Option<f64> {
    let values: Vec<f64> = values.collect();
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}
