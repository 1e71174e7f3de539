//! Gains from misreporting demand, or from rearranging guarantees among a class's own descendants.

use fairlink_core::registry::find;
use fairlink_core::{ClassConfig, ClassId, Hierarchy, LinkConfig, Rate, Share};
use fairlink_sim::{Options, Run};
use fairlink_theory::promises::promised;
use fairlink_theory::request::{Demand, Request};
use fairlink_theory::strategy::{MOST_CLASSES, Rule, StrategyError};
use fairlink_theory::to_f64;
use num_traits::Zero;

use crate::claims::random::{RandomClass, SeededRng, classes};
use crate::claims::{ClaimError, Expected, Finding, Lab, Row, Table, Unit, Workload};

/// Figure 1 in Mbit/s, of which A1 and B2 send: according to the paper, A's distribution of its guarantee has no
/// effect.
const SCENARIO: &str = include_str!("../../../../../scenarios/hls/strategy.toml");
/// The link of the random trees, in bit/s.
const LINK: u64 = 1_000_000_000;
/// Guarantees of A1 and A2 in Mbit/s: unchanged, and bundled in the leaf that sends, and in the other.
const BUNDLES: [(f64, f64); 3] = [(10.0, 20.0), (29.0, 1.0), (1.0, 29.0)];

/// Tests random trees under the fluid rules, and packets.
pub(super) fn strategyproof(lab: &Lab<'_>) -> Result<Finding, ClaimError> {
    let cases: u64 = lab.by_effort(40, 1_000);
    let (mut hmm, mut htb_lies, mut htb_moves, mut tried) = (0usize, 0usize, 0usize, 0usize);
    let mut most = 0.0f64;
    for case in 0..cases {
        lab.go_on()?;
        let mut dice = SeededRng::new(8, case);
        let tree = tree(&classes(&mut dice, 12, 3))?;
        debug_assert!(tree.len() <= MOST_CLASSES);
        let demand = demand(&mut dice, &tree)?;
        let class = ClassId(dice.between(1, tree.len() as u64 - 1) as u32);
        for rule in [Rule::Hmm, Rule::Htb] {
            let lies = rule.misreports(&tree, &demand, class).map_err(refused)?;
            let moves = rule.rearrangements(&tree, &demand, class).map_err(refused)?;
            tried += lies.tried + moves.tried;
            let [lies, moves] = [lies.gain(), moves.gain()];
            match rule {
                Rule::Hmm => hmm += usize::from(!lies.is_zero()) + usize::from(!moves.is_zero()),
                Rule::Htb => {
                    htb_lies += usize::from(!lies.is_zero());
                    htb_moves += usize::from(!moves.is_zero());
                    most = most.max(to_f64(&moves));
                }
            }
        }
    }
    let mut rows = vec![
        Row::never("classes that gain by a lie or a move under HMM, exactly", hmm),
        Row::new(
            "classes that gain by moving guarantees under HTB",
            Unit::Count,
            Expected::AtLeast(1.0),
            htb_moves as f64,
        ),
        Row::shown("classes that gain by lying about demand under HTB", Unit::Count, htb_lies as f64),
        Row::shown("most that was gained by moves under HTB, of 1 Gbit/s", Unit::Rate, most),
    ];
    let table = packets(lab, &mut rows)?;
    let note = format!(
        "{cases} random trees of 2 to 12 classes with random demands; for a class of each, all its lies and moves of a stated family are solved \
         exactly, {tried} allocations. A lie asks for nothing, half, twice or all; a move shifts guarantees between its descendants. Then packets: \
         A1 and B2 of Figure 1 send all they can, and A bundles its guarantee in the leaf that sends, or in the other one. Under HLS the \
         bytes that A sends in ten seconds differ by less than the bound of Theorem 3 for A and B allows, whatever it does."
    );
    Ok(Finding::new(note, rows).with_table(table).with_rerun(
        Workload::new("strategy.toml", SCENARIO)
            .rerun("--scheduler hls --scheduler htb --sweep class.A1.guarantee=10mbit,1mbit"),
    ))
}

fn refused(error: StrategyError) -> ClaimError {
    ClaimError::other(error)
}

/// Makes the tree with guarantees in proportion to its weights. Those of children fill nine tenths of their parent's.
fn tree(classes: &[RandomClass]) -> Result<Hierarchy, ClaimError> {
    let mut tree = Hierarchy::builder(LinkConfig::new(Rate::from_bps(LINK).map_err(ClaimError::other)?));
    let mut made: Vec<(ClassId, u64)> = Vec::new();
    for class in classes {
        let (parent, room) = class.parent.map_or((ClassId::ROOT, LINK), |parent| made[parent]);
        let siblings: u64 = classes.iter().filter(|other| other.parent == class.parent).map(|other| other.weight).sum();
        let bps = (room / 10 * 9 / siblings * class.weight).max(1);
        let share = Some(Share::Guarantee(Rate::from_bps(bps).map_err(ClaimError::other)?));
        let id = tree.add(parent, ClassConfig { share, ..ClassConfig::default() }).map_err(ClaimError::other)?;
        made.push((id, bps));
    }
    tree.build().map_err(ClaimError::other)
}

fn demand(dice: &mut SeededRng, tree: &Hierarchy) -> Result<Demand, ClaimError> {
    let requests = tree.leaves().iter().map(|&leaf| {
        let request = match dice.below(4) {
            0 => Request::Rate(0),
            1 => Request::Rate(dice.below(LINK / 2)),
            _ => Request::Unlimited,
        };
        (leaf, request)
    });
    Demand::new(tree, requests.collect::<Vec<_>>()).map_err(ClaimError::other)
}

/// A's rate with packets, by its distribution of its guarantee.
fn packets(lab: &Lab<'_>, rows: &mut Vec<Row>) -> Result<Table, ClaimError> {
    let mut table =
        Table::new("Rate of A in Mbit/s by the guarantees of A1, which sends, and of A2", &["A1 / A2", "hls", "htb"]);
    let mut sent: Vec<[f64; 2]> = Vec::new();
    let mut allowed = 0.0f64;
    let mut seconds = 0.0;
    for (a1, a2) in BUNDLES {
        let text = SCENARIO
            .replace("guarantee = \"10mbit\"     # A1", &format!("guarantee = \"{a1}mbit\""))
            .replace("guarantee = \"20mbit\"     # A2", &format!("guarantee = \"{a2}mbit\""));
        let workload = Workload::new("strategy.toml", text);
        let runs = lab.play(&workload, &["hls", "htb"], 1, &Options::default())?;
        let of_a = |run: &Run| {
            run.inner_classes.iter().find(|class| class.name == "A").map_or(f64::NAN, |class| class.rates.rate())
        };
        let rates = [of_a(&runs[0]), of_a(&runs[1])];
        table.row([format!("{a1} / {a2}"), format!("{:.3}", rates[0] / 1e6), format!("{:.3}", rates[1] / 1e6)]);
        sent.push(rates);
        seconds = runs[0].duration_s;
        let tree = workload.read("hls")?.link.tree;
        let hls = find("hls").ok_or_else(|| ClaimError::other("no hls"))?;
        let bound = promised(hls, &tree).map_err(ClaimError::other)?.fairness;
        let bound = bound.and_then(|bound| bound.of_classes.get(1).copied().flatten());
        // Half of the distance of A and B is A's excess: twice that is the maximum difference of two runs.
        allowed = allowed.max(bound.ok_or_else(|| ClaimError::other("hls has no bound for A"))?.bytes);
    }
    let gain =
        |scheduler: usize| sent[1..].iter().map(|rates| rates[scheduler] - sent[0][scheduler]).fold(0.0, f64::max);
    let bytes = gain(0) * seconds / 8.0;
    rows.push(Row::new("hls: bytes that A gains in ten seconds", Unit::Bytes, Expected::AtMost(allowed), bytes));
    rows.push(Row::new("htb: rate that A gains by bundling", Unit::Rate, Expected::AtLeast(1e6), gain(1)));
    Ok(table)
}
