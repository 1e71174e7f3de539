//! Theorem 2: the delay bound of the latency-critical flow, on random traffic, with its counterexample and the bound that holds.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use fairlink_sim::Options;

use crate::claims::laboratory::longest_delay;
use crate::claims::{ClaimError, Expected, Finding, Lab, Row, Table, Unit, Workload};
use fairlink_figures::axis::Axis;
use fairlink_figures::figure::{Figure, Panel, Series, SeriesStyle};
use fairlink_figures::human;

/// Bytes per second of the link: a byte takes a microsecond.
const BYTES_PER_SECOND: f64 = 1e6;
/// The largest packet in bytes.
const LARGEST: u32 = 1500;
/// Points of a random group that are drawn.
const DRAWN: usize = 250;

/// The kind of best-effort flows.
#[derive(Clone, Copy, PartialEq)]
enum Others {
    /// One flow with packets of random lengths.
    One,
    /// Several, whose packets divide their quanta, so that no deficit is carried over.
    Dividing,
    /// Several with packets of random lengths.
    Any,
}

/// Everybody's quanta and traffic.
#[derive(Clone, Copy)]
struct Case {
    n: u32,
    critical: u32,
    best_effort: u32,
    /// Shortest and longest best-effort packet.
    lens: (u32, u32),
    sigma: u32,
    /// In bit/s.
    rho: u64,
    /// The latency-critical flow sends all that its curve lets through from this millisecond on; else at random.
    greedy_from: Option<u32>,
    seed: u64,
}

impl Case {
    fn random(others: Others, random: &mut ChaCha8Rng) -> Self {
        let n = if others == Others::One { 1 } else { random.random_range(2..=8) };
        let quantum = |random: &mut ChaCha8Rng| {
            if random.random_bool(0.3) { LARGEST } else { random.random_range(LARGEST..3 * LARGEST) }
        };
        let (critical, mut best_effort) = (quantum(random), quantum(random));
        let lens = if others == Others::Dividing {
            let parts = random.random_range(3..9);
            best_effort = best_effort / parts * parts;
            (best_effort / parts, best_effort / parts)
        } else {
            let least = random.random_range(1..=LARGEST);
            (least, random.random_range(least..=LARGEST))
        };
        let rate = BYTES_PER_SECOND * 8.0 * f64::from(critical) / f64::from(critical + best_effort);
        Self {
            n,
            critical,
            best_effort,
            lens,
            sigma: random.random_range(LARGEST..20_000),
            rho: (rate * f64::from(random.random_range(1..=10)) / 10.0) as u64,
            greedy_from: random.random_bool(0.5).then(|| random.random_range(0..50)),
            seed: random.random_range(1..1 << 32),
        }
    }

    fn workload(&self) -> Workload {
        let Self { n, critical, best_effort, lens, sigma, rho, seed, .. } = *self;
        let source = match self.greedy_from {
            Some(start) => format!("model = \"greedy\"\nactive = [\"{start}ms..500ms\"]"),
            None => format!("model = \"poisson\"\nrate = \"{}bit\"", rho * 3 / 2),
        };
        let packet = |from: u32, to: u32| format!("packet = {{ uniform = [\"{from}B\", \"{to}B\"] }}");
        let mut text = format!(
            "# Theorem 2 of the DRR++ thesis: a latency-critical flow within (sigma, rho) beside best-effort flows that always have packets.\n\
             duration = \"500ms\"\nseed = {seed}\n\n[link]\nrate = \"8mbit\"\nscheduler = \"drr++\"\nmtu = \"{LARGEST}B\"\n\n\
             [[class]]\nname = \"lc\"\nquantum = \"{critical}B\"\nlatency_critical = true\n\n\
             [[source]]\nclass = \"lc\"\n{source}\n{}\nshape = {{ burst = \"{sigma}B\", rate = \"{rho}bit\" }}\n",
            packet(1, LARGEST)
        );
        for be in 1..=n {
            text.push_str(&format!(
                "\n[[class]]\nname = \"be{be}\"\nquantum = \"{best_effort}B\"\n\n[[source]]\nclass = \"be{be}\"\nmodel = \"greedy\"\n{}\n",
                packet(lens.0, lens.1)
            ));
        }
        Workload::new("theorem2.toml", text)
    }

    /// Returns sigma / rho, in seconds.
    fn burst(&self) -> f64 {
        f64::from(self.sigma) * 8.0 / self.rho as f64
    }

    /// Returns Theorem 2: sigma / rho + (Q_LC + 3 Q_BE) / BNBW, in seconds.
    fn theorem(&self) -> f64 {
        self.burst() + f64::from(self.critical + 3 * self.best_effort) / BYTES_PER_SECOND
    }

    /// Returns the bound that holds for any number of flows: sigma / rho + (Q_BE (1 + L / Q_LC) + (n + 1) L) / BNBW.
    fn proven(&self) -> f64 {
        let carried = f64::from((self.n + 1) * LARGEST);
        let others = f64::from(self.best_effort) * (1.0 + f64::from(LARGEST) / f64::from(self.critical));
        self.burst() + (others + carried) / BYTES_PER_SECOND
    }
}

/// Returns the longest delay of the latency-critical flow, in seconds; 0 if it has sent nothing.
fn longest(lab: &Lab<'_>, workload: &Workload, scheduler: &str, runs: u64) -> Result<f64, ClaimError> {
    let played = lab.watched(workload, &[scheduler], runs, &Options::default(), None)?;
    Ok(played.iter().filter_map(|run| longest_delay(run, "lc")).fold(0.0, f64::max))
}

/// The results of random cases of one kind.
#[derive(Default)]
struct Shown {
    beyond_theorem: usize,
    beyond_proven: usize,
    /// Largest delays as parts of the bounds.
    of_theorem: f64,
    of_proven: f64,
    points: Vec<(f64, f64)>,
    worst: Option<Case>,
}

fn try_random(lab: &Lab<'_>, others: Others, cases: usize) -> Result<Shown, ClaimError> {
    let mut random = ChaCha8Rng::seed_from_u64(2);
    let mut shown = Shown::default();
    for _ in 0..cases {
        lab.go_on()?;
        let case = Case::random(others, &mut random);
        let delay = longest(lab, &case.workload(), "drr++", 1)?;
        // Times are whole nanoseconds.
        shown.beyond_theorem += usize::from(delay > case.theorem() + 2e-9);
        shown.beyond_proven += usize::from(delay > case.proven() + 2e-9);
        if delay / case.theorem() > shown.of_theorem {
            (shown.of_theorem, shown.worst) = (delay / case.theorem(), Some(case));
        }
        shown.of_proven = shown.of_proven.max(delay / case.proven());
        if shown.points.len() < DRAWN {
            shown.points.push((case.theorem() * 1e3, delay * 1e3));
        }
    }
    Ok(shown)
}

/// Eight best-effort flows with all quanta at 1500 B. Each has sent 1 B of its first quantum, which did not cover the next 1500 B, and sends
/// 2999 B in its second visit. Eight packets of the latency-critical flow come together when the first of those visits has begun.
const EIGHT: u32 = 8;

fn counterexample() -> Workload {
    let mut text = format!(
        "# Theorem 2 of the DRR++ thesis is exceeded: eight flows carry deficits over. The eight packets of lc come when the second visit of be1 begins.\n\
         duration = \"900ms\"\n\n[link]\nrate = \"8mbit\"\nscheduler = \"drr++\"\nmtu = \"{LARGEST}B\"\n\n\
         [[class]]\nname = \"lc\"\nquantum = \"{LARGEST}B\"\nlatency_critical = true\n\n\
         [[source]]\nclass = \"lc\"\nmodel = \"cbr\"\npackets_per_second = {EIGHT}\nburst = \"{EIGHT}p\"\npacket = \"{LARGEST}B\"\nactive = [\"8001ns..900ms\"]\n"
    );
    for be in 1..=EIGHT {
        text.push_str(&format!("\n[[class]]\nname = \"be{be}\"\nquantum = \"{LARGEST}B\"\n"));
        for len in [1, LARGEST, LARGEST - 1] {
            text.push_str(&format!(
                "\n[[source]]\nclass = \"be{be}\"\nmodel = \"cbr\"\npackets_per_second = 1\npacket = \"{len}B\"\n"
            ));
        }
    }
    Workload::new("theorem2-exceeded.toml", text)
}

/// Numbers of best-effort flows.
const COUNTS: [u32; 6] = [1, 2, 4, 8, 16, 32];

/// Makes a workload with quanta and packets of 1500 B. The latency-critical flow sends at random within (1500 B, 200
/// kbit/s), and DRR+ has demoted it.
fn by_count(n: u32) -> Workload {
    let mut text = format!(
        "# Latency by the number of best-effort flows, all with quanta and packets of 1500 B. DRR+ demotes the flow with its first packet.\n\
         duration = \"20s\"\n\n[link]\nrate = \"8mbit\"\nscheduler = \"drr++\"\nmtu = \"{LARGEST}B\"\n\n\
         [[class]]\nname = \"lc\"\nquantum = \"{LARGEST}B\"\nlatency_critical = true\ncontract = {{ bytes = \"1B\", every = \"1s\" }}\n\n\
         [[source]]\nclass = \"lc\"\nmodel = \"poisson\"\nrate = \"150kbit\"\npacket = \"{LARGEST}B\"\nshape = {{ burst = \"{LARGEST}B\", rate = \"200kbit\" }}\n"
    );
    for be in 1..=n {
        text.push_str(&format!(
            "\n[[class]]\nname = \"be{be}\"\nquantum = \"{LARGEST}B\"\n\n[[source]]\nclass = \"be{be}\"\nmodel = \"greedy\"\npacket = \"{LARGEST}B\"\n"
        ));
    }
    Workload::new("latency.toml", text)
}

/// The theorems' bounds for [`by_count`]: sigma / r + latency under DRR++ and under DRR+, each with the rate given by
/// its rounds.
fn bounds(n: u32) -> [f64; 2] {
    let (quantum, frame) = (f64::from(LARGEST), f64::from(LARGEST * (n + 1)));
    let new = 2.0 * quantum + 4.0 * quantum;
    let old = frame + 3.0 * frame - 2.0 * quantum;
    [new / BYTES_PER_SECOND, old / BYTES_PER_SECOND]
}

/// The text's observation on the number of flows.
const INDEPENDENT: &str = "the delay bound of an LC flow in DRR++ is independent of the number of active flows, N, in the system. While in DRR+, Θ^DRR+ increases as N increases.";

/// Tests Theorem 2.
pub(super) fn theorem2(lab: &Lab<'_>) -> Result<Finding, ClaimError> {
    let cases = lab.by_effort(200, 2000);
    let one = try_random(lab, Others::One, cases)?;
    let dividing = try_random(lab, Others::Dividing, cases)?;
    let any = try_random(lab, Others::Any, cases)?;
    let case = Case {
        n: EIGHT,
        critical: LARGEST,
        best_effort: LARGEST,
        lens: (1, LARGEST),
        sigma: EIGHT * LARGEST,
        rho: (BYTES_PER_SECOND * 4.0) as u64,
        greedy_from: None,
        seed: 1,
    };
    let delay = longest(lab, &counterexample(), "drr++", 1)?;
    // Eight times a packet of the latency-critical flow plus the packets of a best-effort flow with its carried-over
    // deficit.
    let predicted = f64::from(EIGHT * (LARGEST + 2 * LARGEST - 1)) / BYTES_PER_SECOND / case.theorem();
    let mut measured = [Vec::new(), Vec::new()];
    let mut beyond = 0;
    for n in COUNTS {
        for (of, scheduler) in ["drr++", "drr+"].into_iter().enumerate() {
            let delay = longest(lab, &by_count(n), scheduler, lab.by_effort(3, 20))?;
            beyond += usize::from(delay > bounds(n)[of] + 2e-9);
            measured[of].push((f64::from(n), delay));
        }
    }
    let growth = |of: usize| {
        measured[of].last().map_or(f64::NAN, |point| point.1) / measured[of].first().map_or(f64::NAN, |point| point.1)
    };
    let rows = vec![
        Row::never(format!("one best-effort flow: Theorem 2 exceeded, of {cases} random cases"), one.beyond_theorem),
        Row::never(format!("several flows that carry nothing over: Theorem 2 exceeded, of {cases} random cases"), dividing.beyond_theorem),
        Row::new("the same: largest delay as a part of Theorem 2", Unit::Part, Expected::AtMost(1.0), one.of_theorem.max(dividing.of_theorem)),
        Row::new("eight flows that carry deficits over: delay over Theorem 2", Unit::Times, Expected::AtMost(1.0), delay / case.theorem()).departing(
            predicted * 0.9999,
            predicted * 1.0001,
            "The theorem takes the best-effort flows for one flow of DRR with one deficit. Each of them can carry over a deficit of its own: here each of \
             eight sends 2999 B instead of 1500 B in the rounds that the latency-critical flow waits for, 8 (1500 + 2999) B for a bound of 30000 B.",
        ),
        Row::never(format!("several flows of any kind: the bound with a packet for each flow exceeded, of {cases} random cases"), any.beyond_proven),
        Row::never("eight flows that carry deficits over: that bound exceeded", usize::from(delay > case.proven())),
        Row::new("largest delay as a part of that bound", Unit::Part, Expected::AtMost(1.0), any.of_proven.max(one.of_proven).max(dividing.of_proven).max(delay / case.proven())),
        Row::shown("several flows of any kind: Theorem 2 exceeded in random cases", Unit::Count, any.beyond_theorem as f64),
        Row::new("DRR++: longest delay beside 32 flows over that beside one", Unit::Times, Expected::Near(1.0, 0.1), growth(0)).judging(INDEPENDENT),
        Row::new("DRR+, demoted: longest delay beside 32 flows over that beside one", Unit::Times, Expected::AtLeast(5.0), growth(1)).judging(INDEPENDENT),
        Row::never("delays beyond Theorem 2 and beyond DRR+'s (3F - 2 Q_LC)/BNBW, of all numbers of flows", beyond),
    ];
    let mut table = Table::new(
        "Longest delay and bound by the number of best-effort flows",
        &["flows", "DRR++", "Theorem 2", "DRR+", "its bound"],
    );
    let mut limits = [Vec::new(), Vec::new()];
    for (at, n) in COUNTS.into_iter().enumerate() {
        let [new, old] = bounds(n);
        table.row([
            n.to_string(),
            human::time(measured[0][at].1),
            human::time(new),
            human::time(measured[1][at].1),
            human::time(old),
        ]);
        limits[0].push((f64::from(n), new));
        limits[1].push((f64::from(n), old));
    }
    let [new, old] = measured;
    let [new_limit, old_limit] = limits;
    let mut above = Panel::new(
        "by the number of best-effort flows",
        Axis::linear("best-effort flows", 0.0, 32.0),
        Axis::log("longest delay", 1e-3, 0.2).of_time(),
    )
    .high(260.0);
    above.series = vec![
        Series::line("DRR++", new, SeriesStyle::nth(0)),
        Series::line("DRR+, demoted", old, SeriesStyle::nth(1)),
        Series::line("bound of DRR++ (Theorem 2)", new_limit, SeriesStyle::reference()),
        Series::line("bound of DRR+", old_limit, SeriesStyle::background(1)),
    ];
    let most = [&one, &dividing, &any].iter().flat_map(|of| of.points.iter().map(|point| point.0)).fold(1.0, f64::max);
    let mut below = Panel::new(
        "random traffic, a point for each case",
        Axis::log("Theorem 2 (ms)", 5.0, most),
        Axis::log("longest delay (ms)", 1.0, most),
    )
    .high(300.0);
    below.series = vec![
        Series::points("one flow", one.points, SeriesStyle::nth(2)),
        Series::points("several, nothing carried over", dividing.points, SeriesStyle::nth(3)),
        Series::points("several of any kind", any.points, SeriesStyle::nth(5)),
        Series::points("eight that carry over", vec![(case.theorem() * 1e3, delay * 1e3)], SeriesStyle::nth(6)),
        Series::line("bound of DRR++ (Theorem 2)", vec![(5.0, 5.0), (most, most)], SeriesStyle::reference()),
    ];
    let note = "Random quanta, bursts and rates up to the flow's share on a link of 8 Mbit/s; best-effort flows always have packets. The flow sends all that \
                its (sigma, rho) curve lets through, or at random within it. The bound that holds for any number of flows n is \
                sigma/rho + (Q_BE (1 + L/Q_LC) + (n + 1) L)/BNBW with the largest packet L. With everybody's packets as long as their quanta the \
                theorem's own observation is measured: the latency does not depend on the number of flows under DRR++, and grows with it under DRR+.";
    let mut finding = Finding::new(note, rows)
        .with_figure(Figure::new("Theorem 2: the delay of the latency-critical flow", vec![above, below]))
        .with_table(table)
        .with_rerun(counterexample().rerun(""))
        .with_rerun(by_count(8).rerun("--runs 3 --lenient --scheduler drr++ --scheduler drr+"));
    if let Some(worst) = one.worst {
        finding = finding.with_rerun(worst.workload().rerun(""));
    }
    Ok(finding)
}
