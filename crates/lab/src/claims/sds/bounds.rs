//! Invariants: Theorem 1, Corollary 1, equation (7), and PGPS against its fluid GPS, on random traffic.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use fairlink_core::ClassId;
use fairlink_sim::{Fate, Observer, Options, PacketSeen};

use crate::claims::random::{SeededRng, classes, scenario};
use crate::claims::{ClaimError, Expected, Finding, Lab, Row, Table, Unit, Workload};

/// All policies and both forms.
const POLICIES: [&str; 6] = ["fq-ldf", "fq-lto", "fq-lto-lb", "fq-ldf-second", "fq-lto-second", "fq-lto-lb-second"];
/// Classes of a random link at most.
const MOST: u64 = 8;
/// Length of a random run in seconds.
const SECONDS: f64 = 0.4;
/// Times are whole nanoseconds, and guarantees whole parts of a bit/s.
const ROUNDING: f64 = 4.0;

/// A packet that was not dropped, in the order of arrival. Times are in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Passed {
    class: ClassId,
    len: f64,
    arrived: f64,
    start: f64,
    /// Infinite if it was still queued at the end.
    done: f64,
    dropped: bool,
}

struct Watch {
    packets: Vec<Passed>,
    found: Arc<Mutex<Vec<Passed>>>,
}

impl Observer for Watch {
    fn came(&mut self, packet: &PacketSeen) {
        let (class, len, arrived) = (packet.class, f64::from(packet.len), packet.arrived.0 as f64);
        let (start, done) = (f64::INFINITY, f64::INFINITY);
        self.packets.push(Passed { class, len, arrived, start, done, dropped: false });
    }

    fn went(&mut self, packet: &PacketSeen, fate: Fate) {
        let Some(passed) = self.packets.get_mut(packet.number as usize) else { return };
        match fate {
            Fate::Sent { start, done } => (passed.start, passed.done) = (start.0 as f64, done.0 as f64),
            Fate::Dropped { .. } => passed.dropped = true,
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.packets.retain(|packet| !packet.dropped);
        self.found.lock().unwrap_or_else(PoisonError::into_inner).append(&mut self.packets);
    }
}

/// A run: its packets, and by class the guarantee as a part of the link. Bytes per nanosecond of the link.
struct Passage {
    packets: Vec<Passed>,
    shares: Vec<f64>,
    link: f64,
}

impl Passage {
    fn simulate(lab: &Lab<'_>, workload: &Workload, scheduler: &str) -> Result<Self, ClaimError> {
        let tree = workload.read(scheduler)?.link.tree;
        let found = Arc::new(Mutex::new(Vec::new()));
        let make = || -> Box<dyn Observer> { Box::new(Watch { packets: Vec::new(), found: Arc::clone(&found) }) };
        lab.watched(workload, &[scheduler], 1, &Options::default(), Some(&make))?;
        let packets = std::mem::take(&mut *found.lock().unwrap_or_else(PoisonError::into_inner));
        let share = |class: usize| tree.share_all_busy(ClassId(class as u32)) as f64 / (1u128 << 64) as f64;
        let shares = (0..tree.len()).map(share).collect();
        Ok(Self { packets, shares, link: tree.link().rate.bps() as f64 / 8e9 })
    }

    /// Leaves with packets: their guarantee in bytes per nanosecond, their longest packet, and their packets.
    fn sessions(&self) -> impl Iterator<Item = (f64, f64, Vec<Passed>)> + '_ {
        (1..self.shares.len()).filter_map(|class| {
            let own = |packet: &&Passed| packet.class.index() == class;
            let packets: Vec<Passed> = self.packets.iter().filter(own).copied().collect();
            let longest = packets.iter().map(|packet| packet.len).reduce(f64::max)?;
            Some((self.shares[class] * self.link, longest, packets))
        })
    }

    fn longest(&self) -> f64 {
        self.packets.iter().map(|packet| packet.len).fold(0.0, f64::max)
    }

    /// Returns the part of the constant of Theorem 1, L_max / r + L_i (1 / g_i - 1 / r), by which a delay exceeded Q_i
    /// / g_i. One for each session.
    fn theorem1(&self) -> Vec<(f64, f64)> {
        let l_max = self.longest();
        let of = |(g, l_i, packets): (f64, f64, Vec<Passed>)| {
            let (mut first, mut queued, mut worst) = (0, 0.0, f64::MIN);
            for packet in &packets {
                queued += packet.len;
                while packets[first].done <= packet.arrived {
                    queued -= packets[first].len;
                    first += 1;
                }
                if packet.done.is_finite() {
                    worst = worst.max(packet.done - packet.arrived - queued / g);
                }
            }
            (worst, l_max / self.link + l_i * (1.0 / g - 1.0 / self.link))
        };
        self.sessions().map(of).collect()
    }

    /// Returns, for each session, the lag in time of its service behind g_i (t - tau) in a session busy period, beside
    /// L_i / g_i + L_max / r.
    fn corollary1(&self) -> Vec<(f64, f64)> {
        let l_max = self.longest();
        let of = |(g, l_i, packets): (f64, f64, Vec<Passed>)| {
            // Departure from a private link of the guarantee, the start of the busy period, and the arrivals in it.
            let (mut alone, mut begun, mut came, mut worst) = (f64::MIN, 0.0, 0.0, f64::MIN);
            for packet in &packets {
                if packet.arrived > alone {
                    (alone, begun, came) = (packet.arrived, packet.arrived, 0.0);
                }
                if packet.done.is_finite() {
                    // Just before its last bit has left, it does not count.
                    worst = worst.max(packet.done - begun - came / g);
                }
                alone += packet.len / g;
                came += packet.len;
            }
            (worst, l_i / g + l_max / self.link)
        };
        self.sessions().map(of).collect()
    }

    /// For each session the maximum lag in bytes of its service behind g_i (t2 - t1), beside C_i, where t1 is an
    /// arrival and t2 the time at which the backlog at t1 is cleared: the definition that the text refers to.
    fn clearing(&self) -> Vec<(f64, f64)> {
        let guarantees = self.sessions().map(|(g, ..)| g);
        self.theorem1().into_iter().zip(guarantees).map(|((late, bound), g)| (late * g, bound * g)).collect()
    }

    /// Like `clearing`, for any t1 and t2 that are ends of packets while the session has packets.
    fn worst_case_fairness(&self) -> Vec<(f64, f64)> {
        let l_max = self.longest();
        let of = |(g, l_i, packets): (f64, f64, Vec<Passed>)| {
            let (mut before, mut sent, mut lowest, mut worst) = (f64::MIN, 0.0, 0.0, f64::MIN);
            for packet in packets.iter().take_while(|packet| packet.done.is_finite()) {
                if packet.arrived >= before {
                    (sent, lowest) = (0.0, g * packet.arrived);
                }
                sent += packet.len;
                let owed = g * packet.done - sent;
                worst = worst.max(owed - lowest);
                lowest = f64::min(lowest, owed);
                before = packet.done;
            }
            (worst, l_i + g / self.link * (l_max - l_i))
        };
        self.sessions().map(of).collect()
    }

    /// Returns the time at which each packet leaves fluid GPS.
    fn gps(&self) -> Vec<f64> {
        let mut fluid = Gps {
            queues: vec![VecDeque::new(); self.shares.len()],
            now: 0.0,
            left: vec![0.0; self.packets.len()],
            of: self,
        };
        for (number, packet) in self.packets.iter().enumerate() {
            fluid.advance(packet.arrived);
            fluid.queues[packet.class.index()].push_back((number, packet.len));
        }
        fluid.advance(f64::INFINITY);
        fluid.left
    }
}

/// Fluid GPS, from event to event.
struct Gps<'a> {
    /// By class, packets with the bytes of them that are left.
    queues: Vec<VecDeque<(usize, f64)>>,
    now: f64,
    /// By packet, when it has left.
    left: Vec<f64>,
    of: &'a Passage,
}

impl Gps<'_> {
    fn advance(&mut self, to: f64) {
        loop {
            let busy = |class: &usize| !self.queues[*class].is_empty();
            let all: f64 = (1..self.queues.len()).filter(busy).map(|class| self.of.shares[class]).sum();
            let rate = |class: usize| self.of.shares[class] / all * self.of.link;
            let next = |class: usize| self.queues[class].front().map(|head| (class, head.1 / rate(class)));
            let next = (1..self.queues.len()).filter_map(next).min_by(|one, other| one.1.total_cmp(&other.1));
            let Some((first, wait)) = next else { break };
            let step = wait.min(to - self.now);
            let rates: Vec<f64> = (0..self.queues.len()).map(rate).collect();
            for (queue, rate) in self.queues.iter_mut().zip(rates).skip(1) {
                if let Some(head) = queue.front_mut() {
                    head.1 -= rate * step;
                }
            }
            self.now += step;
            if wait > step {
                break;
            }
            if let Some((number, _)) = self.queues[first].pop_front() {
                self.left[number] = self.now;
            }
        }
        if to.is_finite() {
            self.now = to;
        }
    }
}

/// Random cases of these schedulers: numbers of sessions, and of those that exceeded the bound, and the largest part of
/// it.
#[derive(Clone, Copy, Default)]
struct Tried {
    sessions: usize,
    exceeded: usize,
    used: f64,
}

fn random(
    lab: &Lab<'_>,
    salt: u64,
    cases: u64,
    scheduler: &str,
    measure: impl Fn(&Passage) -> Vec<(f64, f64)>,
) -> Result<Tried, ClaimError> {
    let mut tried = Tried::default();
    for case in 0..cases {
        lab.go_on()?;
        let mut dice = SeededRng::new(salt, case);
        let tree = classes(&mut dice, MOST, 1);
        let workload = scenario(&mut dice, "case.toml".into(), &tree, SECONDS);
        for (ours, bound) in measure(&Passage::simulate(lab, &workload, scheduler)?) {
            tried.sessions += 1;
            tried.exceeded += usize::from(ours > bound + ROUNDING);
            tried.used = tried.used.max(ours / bound);
        }
    }
    Ok(tried)
}

/// A claim on all policies, and the result of PGPS for the same traffic.
fn always(
    lab: &Lab<'_>,
    salt: u64,
    what: &str,
    least: f64,
    note: &str,
    measure: fn(&Passage) -> Vec<(f64, f64)>,
) -> Result<Finding, ClaimError> {
    let cases = lab.by_effort(60, 1_000);
    let mut table = Table::new(
        format!("Random links: {what}"),
        &["scheduler", "sessions", "exceeded", "largest part of the bound"],
    );
    let (mut exceeded, mut used, mut sessions) = (0, 0.0f64, 0);
    for scheduler in POLICIES.into_iter().chain(["wfq", "drr"]) {
        let tried = random(lab, salt, cases, scheduler, measure)?;
        table.row([
            scheduler.to_owned(),
            tried.sessions.to_string(),
            tried.exceeded.to_string(),
            format!("{:.3}", tried.used),
        ]);
        if POLICIES.contains(&scheduler) {
            exceeded += tried.exceeded;
            used = used.max(tried.used);
            sessions += tried.sessions;
        }
    }
    let rows = vec![
        Row::never(format!("sessions in which {what} is exceeded"), exceeded),
        Row::new("the largest part of the bound that was used", Unit::Part, Expected::Between(least, 1.0), used),
    ];
    let note = format!(
        "{cases} random links of 2 to {MOST} sessions with random weights, which add up to the link, and random traffic: always backlogged, Poisson, bursts, on and off; lengths from 1 to \
         1500 B; under the three policies, each also with the second candidate: {sessions} sessions. {note} For comparison the table has PGPS and DRR, of which \
         the text does not claim it."
    );
    Ok(Finding::new(note, rows).with_table(table).with_rerun(example(salt)?))
}

/// Returns one of the random cases.
fn example(salt: u64) -> Result<crate::claims::finding::Rerun, ClaimError> {
    let mut dice = SeededRng::new(salt, 0);
    let tree = classes(&mut dice, MOST, 1);
    let workload = scenario(&mut dice, "random.toml".into(), &tree, SECONDS);
    Ok(workload.rerun("--scheduler fq-ldf --scheduler fq-lto --scheduler pgps --metrics"))
}

/// Tests Theorem 1.
pub(super) fn theorem1(lab: &Lab<'_>) -> Result<Finding, ClaimError> {
    let note = "Of each packet the delay less Q_i / g_i is compared with L_max / r + L_i (1 / g_i - 1 / r); Q_i is the backlog at its arrival, with the packet itself and what of the \
                session is on the link.";
    always(lab, 41, "the delay bound of Theorem 1", 0.5, note, Passage::theorem1)
}

/// Tests Corollary 1.
pub(super) fn cor1(lab: &Lab<'_>) -> Result<Finding, ClaimError> {
    let note = "Of each session busy period the lag t - tau - W_i / g_i is compared with L_i / g_i + L_max / r, just before each packet of the period has left, also after its end.";
    always(lab, 42, "the lag of Corollary 1", 0.5, note, Passage::corollary1)
}

/// A session that always has packets, and never many.
const SHORT: &str = include_str!("../../../../../scenarios/sds/short-queue.toml");
/// Its queue, in bytes.
const SHORT_QUEUE: f64 = 8.0 * 12.0;

/// Tests Equation (7).
pub(super) fn wfi(lab: &Lab<'_>) -> Result<Finding, ClaimError> {
    let note = "The constant is that of WF2Q: C_i = L_i + (L_max - L_i) g_i / r bytes. The interval begins with an arrival and ends when the backlog of then is cleared, which is how the text \
                introduces the index.";
    let mut finding = always(lab, 43, "the worst-case fairness of equation (7)", 0.5, note, Passage::clearing)?;
    let workload = Workload::new("short-queue.toml", SHORT);
    let passage = Passage::simulate(lab, &workload, "fq-ldf")?;
    // The last session is the small one.
    let short = ClassId(passage.shares.len() as u32 - 1);
    let (lag, constant) =
        passage.worst_case_fairness().last().copied().ok_or_else(|| ClaimError::other("no session"))?;
    let share = passage.shares[short.index()];
    let others = passage.packets.iter().filter(|packet| packet.class != short && packet.done.is_finite());
    let lost: f64 = others.map(|packet| (share * packet.len - SHORT_QUEUE).max(0.0)).sum();
    finding.rows.push(
        Row::new(
            "intervals of any length while a session has packets: lag of one with 96 B queued, over C_i",
            Unit::Times,
            Expected::AtMost(1.0),
            lag / constant,
        )
        .departing(
            0.7 * lost / constant,
            1.1 * lost / constant,
            "Read for any interval in which a session has packets, equation (7) does not hold: a session with a short queue runs empty under fluid GPS while a \
             long packet of another is sent. What it is entitled to beyond its queue is lost each time, though it always has packets: its tags begin anew at \
             the virtual time, and the excess goes to the longest delay, which is never its own. The lag is about what these losses add up to. \
             PGPS and WF2Q+ let it make up for them.",
        ),
    );
    finding.rows.push(Row::shown("the lag", Unit::Bytes, lag));
    finding.rows.push(Row::shown("what its queue misses while packets of others are sent", Unit::Bytes, lost));
    Ok(finding.with_rerun(workload.rerun("--scheduler fq-ldf --scheduler wf2q+ --scheduler hls")))
}

/// Tests PGPS.
pub(super) fn pgps(lab: &Lab<'_>) -> Result<Finding, ClaimError> {
    let cases = lab.by_effort(150, 3_000);
    let late = |passage: &Passage| {
        let gps = passage.gps();
        let worst = passage.packets.iter().zip(&gps).filter(|(packet, _)| packet.done.is_finite());
        let worst = worst.map(|(packet, gps)| packet.done - gps).fold(f64::MIN, f64::max);
        vec![(worst, passage.longest() / passage.link)]
    };
    // Of the packets that have come, the one that leaves GPS first is sent first: maximum time by which one was sent
    // ahead of its turn, in nanoseconds.
    let order = |passage: &Passage| {
        let gps = passage.gps();
        let mut sent: Vec<usize> = (0..gps.len()).filter(|&n| passage.packets[n].done.is_finite()).collect();
        sent.sort_by(|&one, &other| passage.packets[one].start.total_cmp(&passage.packets[other].start));
        let mut queues: Vec<VecDeque<usize>> = vec![VecDeque::new(); passage.shares.len()];
        for (number, packet) in passage.packets.iter().enumerate() {
            queues[packet.class.index()].push_back(number);
        }
        let mut ahead = 0.0f64;
        for number in sent {
            let packet = &passage.packets[number];
            queues[packet.class.index()].pop_front();
            let heads = queues.iter().filter_map(|queue| queue.front());
            let waiting = heads.filter(|&&head| passage.packets[head].arrived < packet.start);
            ahead = waiting.map(|&head| gps[number] - gps[head]).fold(ahead, f64::max);
        }
        vec![(ahead, 0.0)]
    };
    let (mut table, mut rows) = (
        Table::new("Random links", &["scheduler", "cases too late", "largest part of L_max / r", "cases out of order"]),
        Vec::new(),
    );
    for scheduler in ["wfq", "wf2q+", "scfq", "fq-ldf"] {
        let (late, order) = (random(lab, 44, cases, scheduler, late)?, random(lab, 44, cases, scheduler, order)?);
        table.row([
            scheduler.to_owned(),
            late.exceeded.to_string(),
            format!("{:.3}", late.used),
            order.exceeded.to_string(),
        ]);
        if scheduler == "wfq" {
            rows.push(Row::never(
                "cases in which a packet of PGPS leaves more than L_max / r after GPS",
                late.exceeded,
            ));
            rows.push(Row::new(
                "the largest part of L_max / r that was used",
                Unit::Part,
                Expected::Between(0.5, 1.0 + 1e-5),
                late.used,
            ));
            rows.push(Row::never("cases in which a packet is not sent in the order of GPS", order.exceeded));
        }
    }
    let note = format!(
        "{cases} random links of 2 to {MOST} sessions with random traffic. Fluid GPS is computed beside them from event to event, packet by packet. PGPS sends of the packets that have come the \
         one that leaves GPS first, which is what \"simulated exactly\" means, and none leaves more than a largest packet later. The table has schedulers of which this is not said."
    );
    Ok(Finding::new(note, rows).with_table(table).with_rerun(example(44)?))
}
