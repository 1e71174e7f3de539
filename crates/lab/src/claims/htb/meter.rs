//! The rate meter of slots, and the position of its guard.

use fairlink_core::{Lender, Nanos, Pool, PoolRule, Rate};
use fairlink_sim::Run;

use super::measured::{KB, SLOTS, TWO_DEVICES, mean, of_values, play, rate, scenario};
use crate::claims::{ClaimError, Expected, Finding, Lab, Row, Table, Unit, Workload};

/// Classes that borrow from the slot.
const MEMBERS: [&str; 2] = ["1:1", "eth1:1:2"];
/// The text on its average.
const SIX_SECONDS: &str = "The cross device sharing is based on rate estimator with 6 sec averaging interval.";

/// Readings of the meter of one member that sends 30 kB/s in packets of 500 B from the first instant, every 10 ms: seconds and bit/s.
fn readings(seconds: u64) -> Result<Vec<(Nanos, u64)>, ClaimError> {
    let base = |kilobytes: u64| Rate::from_bps(kilobytes * 8000).map_err(ClaimError::other);
    let mut ends =
        Pool::share(PoolRule::Ratio, base(100)?, 2048, &[base(50)?, base(30)?]).map_err(ClaimError::other)?;
    let end = ends.last_mut().ok_or_else(|| ClaimError::other("no member"))?;
    let mut found = Vec::new();
    let mut bytes = 0u64;
    for step in 0..seconds * 100 {
        let now = Nanos(step * 10_000_000);
        // The packets that are due by now, of 30 B each millisecond.
        while bytes + 500 <= step * 300 {
            bytes += 500;
            end.sent(now, 500, true);
        }
        // Without traffic, only a query updates the measurement.
        let (Ok(()) | Err(_)) = end.may_borrow(now);
        found.push((now, end.metered_bps().ok_or_else(|| ClaimError::other("the member has no meter"))?));
    }
    Ok(found)
}

/// Returns the text's script up to an instant in milliseconds.
fn until(end: u64) -> String {
    let at = |line: &&str| line.split_whitespace().next().and_then(|word| word.parse::<u64>().ok());
    let kept = TWO_DEVICES.lines().filter(|line| at(line).is_some_and(|at| at < end) && !line.contains('X'));
    kept.map(|line| format!("{line}\n")).chain([format!("{end}\tX\t0\t0\n")]).collect()
}

/// Readings of the meters of both devices at the end of a run, in bit/s.
fn meters(run: &Run) -> Result<[f64; 2], ClaimError> {
    let read = |name: &str| {
        let classes = run.classes.iter().map(|class| (&class.name, &class.counters));
        let inner = run.inner_classes.iter().map(|class| (&class.name, &class.counters));
        let found = classes.chain(inner).find(|(known, _)| *known == name);
        found
            .and_then(|(_, counters)| counters.get("slot_rate_bps"))
            .map(|&bps| bps as f64)
            .ok_or_else(|| ClaimError::other(format!("{name} shows no meter")))
    };
    Ok([read(MEMBERS[0])?, read(MEMBERS[1])?])
}

/// Tests the meter of each member.
pub(super) fn meter(lab: &Lab<'_>) -> Result<Finding, ClaimError> {
    let steady = readings(60)?;
    let changes = steady.windows(2).filter(|pair| pair[0].1 != pair[1].1);
    let between = changes.clone().filter(|pair| !pair[1].0.0.is_multiple_of(100_000_000)).count();
    let sent = 30.0 * KB;
    let full = 1.0 - (-1.0f64).exp();
    let reached =
        steady.iter().find(|(_, bps)| *bps as f64 >= full * sent).map_or(f64::NAN, |(at, _)| at.0 as f64 / 1e9);
    let last = steady.last().map_or(f64::NAN, |&(_, bps)| bps as f64);
    let mut table = Table::new(
        "The meters in the text's run, and what was sent in the second before, in kB/s",
        &["at", "eth0: meter", "eth0: sent", "eth1: meter", "eth1: sent"],
    );
    let mut found = Vec::new();
    for end in [2500, 3500, 6000, 9000] {
        let workload = scenario("slots.toml", SLOTS, &until(end))?;
        let runs = play(lab, &workload, "htb")?;
        let reads = runs.iter().map(meters).collect::<Result<Vec<_>, _>>()?;
        let seconds = end as f64 / 1e3;
        let sends: Vec<[f64; 2]> =
            runs.iter().map(|run| MEMBERS.map(|name| rate(run, name, (seconds - 1.0, seconds)))).collect();
        let middle = |of: &[[f64; 2]]| [0, 1].map(|n| of_values(of.iter().map(|pair| pair[n])).mean);
        let (read, sent) = (middle(&reads), middle(&sends));
        let cells = [read[0], sent[0], read[1], sent[1]].map(|bps| format!("{:.1}", bps / KB));
        table.row(std::iter::once(format!("{seconds} s")).chain(cells));
        found.push((reads, sends, workload));
    }
    let [_, early, _, settled] = &found[..] else { return Err(ClaimError::other("a run is missing")) };
    let rows = vec![
        Row::never("changes of a meter that are not at a multiple of 100 ms", between),
        Row::new(
            "changes of a meter of a steady flow in its first ten seconds, of 100 periods",
            Unit::Count,
            Expected::Near(100.0, 0.02),
            changes.filter(|pair| pair[1].0.0 <= 10_000_000_000).count() as f64,
        ),
        Row::new(
            "a steady flow: the time until the meter reads 1 - 1/e of it",
            Unit::Seconds,
            Expected::Near(6.0, 0.05),
            reached,
        )
        .judging(SIX_SECONDS),
        Row::new(
            "a steady flow: what the meter reads after a minute, over what is sent",
            Unit::Times,
            Expected::Near(1.0, 0.01),
            last / sent,
        )
        .judging(SIX_SECONDS),
        Row::new(
            "the text's run at 3.5 s: eth1's meter over what it sends",
            Unit::Times,
            Expected::AtMost(0.5),
            of_values(early.0.iter().zip(&early.1).map(|(read, sent)| read[1] / sent[1])),
        )
        .judging("It simply did not catch up yet."),
        Row::new(
            "the text's run at 9 s: eth0's meter over eth1's, 50 : 30",
            Unit::Times,
            Expected::Near(50.0 / 30.0, 0.1),
            of_values(settled.0.iter().map(|read| read[0] / read[1])),
        )
        .judging("At time 6 is starts to estimate well and ratio is correct (yellow vs. blue line)."),
        Row::shown(
            "the text's run at 9 s: eth0's meter over what it sends",
            Unit::Times,
            of_values(settled.0.iter().zip(&settled.1).map(|(read, sent)| read[0] / sent[0])),
        ),
    ];
    let note = "The text says that its meter averages over six seconds and not how; here it is an exponential mean whose time constant is six seconds. tc show of that time is not at hand: \
                the meter is the counter slot_rate_bps of each class that borrows from a slot, in fairlink ctl stats --json of a running gateway and in fairlink sim --json.";
    let rerun = settled.2.rerun("--scheduler htb --json");
    Ok(Finding::new(note, rows).with_table(table).with_rerun(rerun))
}

/// The position of the guard.
pub(super) fn guard(lab: &Lab<'_>) -> Result<Finding, ClaimError> {
    // All flows always have packets.
    let script = "0\ti\t0\teth0\n0\ti\t1\teth0\n0\ti\t2\teth1\n0\tP\t0\t0x10002\n0\tP\t1\t0x10003\n0\tP\t2\t0x10002\n0\tS\t0\t500\n0\tS\t1\t500\n0\tS\t2\t500\n\
                  0\tR\t0\t200000\n0\tR\t1\t200000\n0\tR\t2\t200000\n20000\tX\t0\t0\n";
    // With queues that do not run empty within a turn.
    let workload = scenario("guard.toml", &SLOTS.replace("limit 2", "limit 20"), script)?;
    let greedy =
        Workload::new("guard.toml", workload.text.replace("rule = \"ratio\"", "rule = \"greedy\"")).in_any_phase();
    let span = (10.0, 20.0);
    let names = ["1:2", "1:3", "eth1:1:2"];
    let (with, without) = (play(lab, &workload, "htb")?, play(lab, &greedy, "htb")?);
    let rates = |run: &Run| names.map(|name| rate(run, name, span));
    let file = workload.read("htb")?;
    let owners = file.pools.iter().filter(|pool| file.link.names.id(&pool.name).is_some()).count();
    let below = workload.text.replacen("pool = ", "# pool = ", 1).replacen(
        "name = \"1:2\"\n",
        "name = \"1:2\"\npool = \"slot 1\"\n",
        1,
    );
    if !below.contains("name = \"1:2\"\npool") {
        return Err(ClaimError::other("the class 1:2 is not where it was"));
    }
    let refused = match Workload::new("below.toml", below).read("htb") {
        Err(ClaimError::Scenario(why)) => {
            if !why.contains("pool") {
                return Err(ClaimError::other(why));
            }
            1.0
        }
        Err(other) => return Err(other),
        Ok(_) => 0.0,
    };
    let rows = vec![
        Row::new(
            "all busy, with the guard: eth0 over its base of 50 kB/s, which it needs no leave for",
            Unit::Times,
            Expected::AtLeast(0.99),
            mean(&with, |run| (rates(run)[0] + rates(run)[1]) / (50.0 * KB)),
        ),
        Row::new(
            "the same: eth1 over its base of 30 kB/s",
            Unit::Times,
            Expected::AtLeast(0.99),
            mean(&with, |run| rates(run)[2] / (30.0 * KB)),
        ),
        Row::new(
            "with the guard: 1:2 over 1:3 below eth0's root, whose rates are 30 : 10",
            Unit::Times,
            Expected::Near(3.0, 0.1),
            mean(&with, |run| rates(run)[0] / rates(run)[1]),
        ),
        Row::new(
            "the same without the guard",
            Unit::Times,
            Expected::Near(3.0, 0.1),
            mean(&without, |run| rates(run)[0] / rates(run)[1]),
        ),
        Row::new("owners of a slot that are classes of a device, of one", Unit::Count, Expected::AtLeast(1.0), owners as f64)
            .departing(0.0, 0.0, "The owner of a slot is no class of a device here but stands by itself, so that there are no ancestors at which a guard could be missing."),
        Row::new(
            "a slot of a class that is not the root of its device: refused",
            Unit::Count,
            Expected::Within(1.0, 0.0),
            refused,
        ),
    ];
    let mut table = Table::new(
        "Rates in kB/s from 10 to 20 s, all flows with permanent demand",
        &["", "1:2 (30)", "1:3 (10)", "eth1's 1:2 (30)"],
    );
    for (words, runs) in [("with the guard", &with), ("without", &without)] {
        let cell = |name: &str| format!("{:.1}", mean(runs, |run| rate(run, name, span)).mean / KB);
        table.row(std::iter::once(words.to_owned()).chain(names.map(cell)));
    }
    let note = "What the text gives as advice, that the owner should be a root class, is a rule for members: \
                a class below another has no slot.";
    Ok(Finding::new(note, rows).with_table(table).with_rerun(workload.rerun("--scheduler htb --window 1s")))
}
