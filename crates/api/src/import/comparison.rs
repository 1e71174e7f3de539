//! Rates of classes before and after an import: under the other tool's own lending, simulated, and in the fluid ideal
//! of the replacement. HTB there is that of the Linux kernel, not that of the texts.
//!
//! Two cases are compared. In the first every class is busy. In the second one branch pauses, so that its bandwidth is
//! lent: the branch with the largest difference, among those below the first class that has several.

use fairlink_config::LinkFile;
use fairlink_core::schedulers::htb::Plan;
use fairlink_core::{BuildError, ClassId, Feature, Rate, Sharing};
use fairlink_theory::ideal::{Rule, Traffic};
use fairlink_theory::kernel_htb;
use fairlink_theory::request::{Demand, Request};
use fairlink_theory::steady::steady;
use schemars::JsonSchema;
use serde::Serialize;

/// A set of busy leaves, and the rates of all classes.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Case {
    /// The class without busy leaves below it; `None` if all are busy.
    pub pauses: Option<String>,
    /// The simulation that the rates before are from.
    #[serde(flatten)]
    pub simulated: Simulated,
    /// The busy leaves, in the order of the link file.
    pub classes: Vec<Share>,
}

/// Length of a simulation, and stability of its rates.
#[derive(Clone, Copy, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct Simulated {
    /// Its packets; 0 if there was none.
    pub packets: u64,
    /// Largest difference between a class's rates in the two halves of the packets, as a part of the larger. Above 0.02
    /// there were too few packets for stable rates.
    pub apart: f64,
}

/// A leaf.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Share {
    /// Its name.
    pub name: String,
    /// Its rate under the other tool; `None` if that has no rule.
    pub before_bps: Option<f64>,
    /// Its rate under the replacement; `None` if that has no rule.
    pub after_bps: Option<f64>,
}

/// Most branches that are tried to find the second case.
const MAX_BRANCHES: usize = 16;
/// Most classes of a tree for which every branch's pause is computed.
const FLUID_CLASSES: usize = 150;
/// Rounds of the quanta of all leaves, and times of a burst, in the first stretch of a simulation; the packets of it at least, and those of the whole at
/// which no further stretch begins.
const ROUNDS: u64 = 30;
const BURSTS: u64 = 50;
const PACKETS: [u64; 2] = [20_000, 4_000_000];
/// A measured rate that is above its ceiling by no more than this part of it is the ceiling.
const ABOVE: f64 = 0.02;

/// Returns true if the other tool lends as HTB does: then it is the kernel's.
fn is_kernel_htb(before: &LinkFile) -> bool {
    matches!(before.info().sharing, Sharing::Lenders)
}

/// Returns the name of what shares the link of another tool.
pub(super) fn model(before: &LinkFile) -> &str {
    if is_kernel_htb(before) { kernel_htb::NAME } else { &before.scheduler }
}

/// Compares `before`, which HTB or CBQ shares, with `after`, class by class of the same name. Classes named in `idle` do not send.
///
/// The leaves `unreachable` of `after`, which no frame can reach, get zero there. In `before` they are busy, unless it
/// is the same link: the other tool reached them in a way that was not imported.
///
/// # Errors
/// [`BuildError`] if `before` is not a valid tree for its scheduler.
pub(super) fn compared(
    before: Option<&LinkFile>,
    after: &LinkFile,
    idle: &[String],
    unreachable: &[ClassId],
) -> Result<Vec<Case>, BuildError> {
    let busy: Vec<ClassId> = after
        .tree
        .leaves()
        .iter()
        .copied()
        .filter(|&leaf| !idle.iter().any(|name| name == after.names.name(leaf)))
        .collect();
    let branches = branches(after, &busy);
    let after = &After { link: after, unreachable };
    let mut cases = vec![case(before, after, &busy, None)?];
    let without = |branch: ClassId| -> Vec<ClassId> {
        busy.iter().copied().filter(|&leaf| !path(after.link, leaf).any(|class| class == branch)).collect()
    };
    let chosen = match before {
        Some(before) if before.tree.len() <= FLUID_CLASSES && branches.len() > 1 => {
            let mut best: Option<(f64, ClassId)> = None;
            for &branch in &branches {
                let difference = fluid_difference(before, after, &without(branch));
                if best.is_none_or(|(largest, _)| difference > largest) {
                    best = Some((difference, branch));
                }
            }
            best.map(|(_, branch)| branch)
        }
        _ => branches.iter().copied().max_by_key(|&branch| after.link.tree.weight(branch)),
    };
    if let Some(branch) = chosen {
        let left = without(branch);
        if !left.is_empty() {
            cases.push(case(before, after, &left, Some(branch))?);
        }
    }
    Ok(cases)
}

/// A link as imported.
struct After<'a> {
    link: &'a LinkFile,
    /// Leaves that no frame can reach, by id.
    unreachable: &'a [ClassId],
}

impl After<'_> {
    /// Returns the leaves among `leaves` that frames can reach.
    fn reached(&self, leaves: &[ClassId]) -> Vec<ClassId> {
        leaves.iter().copied().filter(|leaf| self.unreachable.binary_search(leaf).is_err()).collect()
    }
}

/// Returns the path from `class` up to the link, which is left out.
fn path(link: &LinkFile, class: ClassId) -> impl Iterator<Item = ClassId> {
    std::iter::successors(Some(class), |&class| link.tree.parent(class)).take_while(|&class| class != ClassId::ROOT)
}

/// Returns the children with busy leaves of the first class from the link down that has several such; empty if there is
/// no such class.
fn branches(link: &LinkFile, busy: &[ClassId]) -> Vec<ClassId> {
    let mut used = vec![false; link.tree.len()];
    for &leaf in busy {
        path(link, leaf).for_each(|class| used[class.index()] = true);
    }
    let mut at = ClassId::ROOT;
    loop {
        let mut children: Vec<ClassId> =
            link.tree.children(at).iter().copied().filter(|child| used[child.index()]).collect();
        match children[..] {
            [] => return Vec::new(),
            [only] => at = only,
            _ => {
                children.sort_by_key(|&child| (std::cmp::Reverse(link.tree.weight(child)), child));
                children.truncate(MAX_BRANCHES);
                return children;
            }
        }
    }
}

fn demand(link: &LinkFile, busy: &[ClassId]) -> Demand {
    let all = busy.iter().map(|&leaf| (leaf, Request::Unlimited));
    Demand::new(&link.tree, all).expect("leaves of this tree, each once")
}

/// Returns the rates of the leaves `busy` by the own rule of the link's scheduler; `None` if they are not computed.
fn ideal(after: &After<'_>, busy: &[ClassId]) -> Vec<Option<f64>> {
    let link = after.link;
    let rule = Rule::for_scheduler(link.info(), &link.tree, Traffic::unknown());
    let rates = rule.and_then(|rule| rule.rates(&demand(link, &after.reached(busy))));
    busy.iter().map(|leaf| rates.as_ref().ok().map(|rates| rates[leaf.index()])).collect()
}

/// Returns the same leaves of `before`. Leaves that `before` does not have are left out.
fn counterparts(before: &LinkFile, after: &LinkFile, busy: &[ClassId]) -> Vec<Option<ClassId>> {
    let leaf = |&leaf: &ClassId| before.names.id(after.names.name(leaf)).filter(|&class| before.tree.is_leaf(class));
    busy.iter().map(leaf).collect()
}

/// Difference of both fluids, in bit/s.
fn fluid_difference(before: &LinkFile, after: &After<'_>, busy: &[ClassId]) -> f64 {
    let there = counterparts(before, after.link, busy);
    let known: Vec<ClassId> = there.iter().copied().flatten().collect();
    let rule = Rule::for_scheduler(before.info(), &before.tree, Traffic::unknown());
    let Ok(rates) = rule.and_then(|rule| rule.rates(&demand(before, &known))) else { return 0.0 };
    let rates = there.iter().map(|leaf| leaf.map_or(0.0, |leaf| rates[leaf.index()]));
    let off = |(after, before): (&Option<f64>, f64)| after.map_or(0.0, |after| (after - before).abs());
    ideal(after, busy).iter().zip(rates).map(off).sum()
}

fn case(
    before: Option<&LinkFile>,
    after: &After<'_>,
    busy: &[ClassId],
    pauses: Option<ClassId>,
) -> Result<Case, BuildError> {
    let names = &after.link.names;
    let (run, measured) = match before {
        // The link as imported, which the same frames reach.
        Some(before) if before.scheduler == after.link.scheduler => {
            let reached = after.reached(busy);
            let (run, rates) = simulated(before, &counterparts(before, after.link, &reached))?;
            let rate = |leaf| reached.binary_search(leaf).map_or(Some(0.0), |place| rates[place]);
            (run, busy.iter().map(rate).collect())
        }
        Some(before) => simulated(before, &counterparts(before, after.link, busy))?,
        None => (Simulated::default(), vec![None; busy.len()]),
    };
    let share = |((&leaf, after_bps), before_bps): ((&ClassId, Option<f64>), Option<f64>)| Share {
        name: names.name(leaf).to_owned(),
        before_bps,
        after_bps,
    };
    let classes = busy.iter().zip(ideal(after, busy)).zip(measured).map(share).collect();
    Ok(Case { pauses: pauses.map(|class| names.name(class).to_owned()), simulated: run, classes })
}

/// Simulates leaves that always have packets of the greatest length, as the other tool shares ([`model`]); returns the
/// number of packets, and the rates in the order of `busy`.
fn simulated(link: &LinkFile, busy: &[Option<ClassId>]) -> Result<(Simulated, Vec<Option<f64>>), BuildError> {
    let leaves: Vec<ClassId> = busy.iter().copied().flatten().collect();
    if leaves.is_empty() {
        return Ok((Simulated::default(), vec![None; busy.len()]));
    }
    let first = (first_bytes(link, &leaves) / u64::from(link.mtu)).clamp(PACKETS[0], PACKETS[1] / 2);
    let packets = [first, PACKETS[1]];
    let run = match is_kernel_htb(link) {
        true => kernel_htb::steady(&link.tree, &leaves, link.mtu, packets)?,
        false => steady(link.info(), &link.tree, &leaves, link.mtu, packets)?,
    };
    // In the long run no rate exceeds its ceiling; a stretch may, by a packet or a burst.
    let most = |leaf: ClassId| {
        let ceilings = path(link, leaf).filter_map(|class| link.tree.config(class).ceiling);
        ceilings.map(|ceiling| ceiling.bps() as f64).fold(f64::INFINITY, f64::min)
    };
    let rate = |leaf: ClassId| {
        let (rate, most) = (run.rates_bps[leaf.index()], most(leaf));
        if rate > most && rate <= most * (1.0 + ABOVE) && link.info().supports(Feature::Ceiling) { most } else { rate }
    };
    let rates = busy.iter().map(|leaf| leaf.map(rate)).collect();
    Ok((Simulated { packets: run.packets, apart: run.apart }, rates))
}

/// Length of the first stretch of a simulation in bytes of the link: [`ROUNDS`] rounds, and [`BURSTS`] times the
/// longest duration of a class's burst at its own rate. Later effects of a burst are less than 2 % of that rate.
fn first_bytes(link: &LinkFile, leaves: &[ClassId]) -> u64 {
    let Ok(plan) = Plan::for_tree(&link.tree) else { return 0 };
    let quanta: u64 = leaves.iter().map(|leaf| plan.quanta[leaf.index()]).sum();
    let sent = |(burst, rate): (Option<u64>, Option<Rate>)| {
        let (burst, rate) = burst.zip(rate)?;
        let bytes = u128::from(burst) * u128::from(link.tree.link().rate.bps()) / u128::from(rate.bps());
        Some(u64::try_from(bytes).unwrap_or(u64::MAX).saturating_mul(BURSTS))
    };
    let of = |class: ClassId| {
        let config = link.tree.config(class);
        [(config.burst, Some(plan.assured[class.index()])), (config.ceiling_burst, config.ceiling)]
    };
    let bursts = link.tree.classes().flat_map(of).filter_map(sent).max().unwrap_or(0);
    bursts.max(ROUNDS.saturating_mul(quanta))
}

#[cfg(test)]
mod tests {
    use fairlink_config::ReadOptions;

    use super::*;

    fn link(text: &str) -> LinkFile {
        LinkFile::parse("test.toml", text, &ReadOptions::default()).unwrap_or_else(|error| panic!("{}", error.lines()))
    }

    fn tree(scheduler: &str, htb: bool) -> LinkFile {
        // Experiment 2 of the HLS paper, in which HTB lends by the quanta of leaves.
        let mut text = format!("[link]\nrate = \"100mbit\"\nscheduler = \"{scheduler}\"\n");
        let mut class = |name: &str, parent: &str, mbit: u32, quantum: u32| {
            text += &format!("[[class]]\nname = \"{name}\"\nguarantee = \"{mbit}mbit\"\n");
            if !parent.is_empty() {
                text += &format!("parent = \"{parent}\"\n");
            }
            if htb && quantum > 0 {
                text += &format!("quantum = \"{quantum}B\"\n");
            }
        };
        class("A", "", 30, 0);
        class("A1", "A", 6, 2000);
        class("B", "", 30, 0);
        class("B2", "B", 24, 8000);
        class("C", "", 40, 12000);
        link(&text)
    }

    #[test]
    fn where_nothing_is_lent_both_agree_and_where_a_branch_pauses_the_quanta_show() {
        let cases = compared(Some(&tree("htb", true)), &tree("hls", false), &[], &[]).unwrap();
        assert_eq!(cases[0].pauses, None);
        for share in &cases[0].classes {
            let before = share.before_bps.unwrap();
            assert!((before - share.after_bps.unwrap()).abs() < 0.01 * before, "{share:?}");
        }
        // C pauses, which is where they differ; A and B should share evenly.
        assert_eq!(cases[1].pauses.as_deref(), Some("C"));
        let names: Vec<&str> = cases[1].classes.iter().map(|share| share.name.as_str()).collect();
        assert_eq!(names, ["A1", "B2"]);
        assert_eq!(cases[1].classes[0].after_bps, Some(50e6));
        // 30 + 40 / 5: by the quanta of 2000 and 8000.
        let before = cases[1].classes[0].before_bps.unwrap();
        assert!((before - 38e6).abs() < 1e6, "{before}");
    }

    #[test]
    fn classes_that_do_not_send_are_not_compared_and_without_a_rule_there_is_nothing_before() {
        let after = tree("hls", false);
        let cases = compared(None, &after, &["C".to_owned()], &[]).unwrap();
        assert!(cases[0].classes.iter().all(|share| share.before_bps.is_none() && share.name != "C"));
        assert_eq!(cases[0].simulated.packets, 0);
        // Of A and B one can pause.
        assert_eq!(cases[1].classes.len(), 1);
        assert_eq!(cases[1].classes[0].after_bps, Some(100e6));
    }

    /// Siblings below the link: name, guarantee in Mbit/s, and under HTB quantum and burst in bytes.
    fn siblings(scheduler: &str, classes: &[(&str, u32, u32, u32)]) -> LinkFile {
        let mut text = format!("[link]\nrate = \"100mbit\"\nscheduler = \"{scheduler}\"\n");
        for (name, mbit, quantum, burst) in classes {
            text += &format!("[[class]]\nname = \"{name}\"\nguarantee = \"{mbit}mbit\"\n");
            text += &format!("match = [\"udp dst port {quantum}\"]\n");
            if scheduler == "htb" {
                text += &format!("quantum = \"{quantum}B\"\nburst = \"{burst}B\"\n");
            }
        }
        link(&text)
    }

    #[test]
    fn the_branch_that_pauses_is_the_one_that_tells_most_or_the_largest_without_a_rule() {
        // B and C have quanta in proportion to their guarantees, so that A's pause shows no effect, although A is the
        // largest.
        let classes = [("A", 50, 20_000, 2000), ("B", 30, 3000, 2000), ("C", 20, 2000, 2000)];
        let after = siblings("hls", &classes);
        let cases = compared(Some(&siblings("htb", &classes)), &after, &[], &[]).unwrap();
        assert_eq!(cases[1].pauses.as_deref(), Some("B"));
        assert_eq!(compared(None, &after, &[], &[]).unwrap()[1].pauses.as_deref(), Some("A"));
        // A single class has no other to pause for.
        assert_eq!(compared(None, &siblings("hls", &[("A", 50, 0, 0)]), &[], &[]).unwrap().len(), 1);
    }

    #[test]
    fn a_class_that_no_frame_reaches_gets_nothing_and_the_others_share_what_it_had() {
        let classes = [("A", 50, 20_000, 2000), ("B", 30, 12_000, 2000), ("C", 20, 8_000, 2000)];
        let [before, after] = ["htb", "hls"].map(|scheduler| siblings(scheduler, &classes));
        let without = |link: &LinkFile| {
            let text = link.source().inner().replace("match = [\"udp dst port 20000\"]\n", "");
            text.replace("[link]\n", "[link]\ndefault = \"C\"\n")
        };
        let lost = link(&without(&after));
        let cases = compared(Some(&before), &lost, &[], lost.unreachable()).unwrap();
        let rates: Vec<_> = cases[0].classes.iter().map(|share| share.after_bps.unwrap()).collect();
        assert_eq!(rates, [0.0, 60e6, 40e6]);
        let had = cases[0].classes[0].before_bps.unwrap();
        assert!((had - 50e6).abs() < 1e6, "{had}");
        // As imported, it is the same link.
        let kept = without(&before);
        let cases = compared(Some(&link(&kept)), &link(&kept), &[], lost.unreachable()).unwrap();
        assert_eq!(cases[0].classes[0].before_bps, Some(0.0));
        let other = cases[0].classes[1].before_bps.unwrap();
        assert!((other - 60e6).abs() < 1e6, "{other}");
    }

    #[test]
    fn rates_before_are_those_of_a_long_simulation_and_none_is_above_its_ceiling() {
        // Quanta of up to 40 packets, far from shares, so that classes have their turns seldom.
        let mut text = "[link]\nrate = \"1gbit\"\nscheduler = \"htb\"\n".to_owned();
        for at in 0..120u32 {
            let (quantum, ceiling) = (1500 + at * 7919 % 58_500, 3 + at * 31 % 40);
            text += &format!(
                "[[class]]\nname = \"c{at}\"\nguarantee = \"1mbit\"\nceiling = \"{ceiling}mbit\"\nquantum = \"{quantum}B\"\n"
            );
        }
        let before = link(&text);
        let all: Vec<Option<ClassId>> = before.tree.leaves().iter().copied().map(Some).collect();
        let (run, rates) = simulated(&before, &all).unwrap();
        assert!(run.apart <= 0.02, "{run:?}");
        let long = kernel_htb::steady(&before.tree, before.tree.leaves(), before.mtu, [400_000, 1]).unwrap();
        for (leaf, rate) in before.tree.leaves().iter().zip(rates) {
            let rate = rate.unwrap();
            let name = before.names.name(*leaf);
            let there = long.rates_bps[leaf.index()];
            assert!((rate / there - 1.0).abs() < 0.02, "{name}: {rate} and {there}");
            let ceiling = before.tree.config(*leaf).ceiling.unwrap().bps() as f64;
            assert!(rate <= ceiling, "{name}: {rate} of {ceiling}");
        }
    }

    #[test]
    fn what_a_burst_brings_at_the_start_is_left_out_of_the_rates() {
        // Of 80 Mbit/s in the beginning, by its quantum, A has 30 out of its burst, which lasts for 0.4 s; the warm-up
        // for 0.6 s.
        let classes = [("A", 50, 40_000, 1_500_000), ("B", 50, 10_000, 2000)];
        let cases = compared(Some(&siblings("htb", &classes)), &siblings("hls", &classes), &[], &[]).unwrap();
        for share in &cases[0].classes {
            assert!((share.before_bps.unwrap() - 50e6).abs() < 0.2e6, "{share:?}");
        }
    }
}
