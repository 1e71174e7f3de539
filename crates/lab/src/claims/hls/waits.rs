//! Section VII: the transmission gap beside the delay of packets.

use fairlink_core::schedulers::hls::CREDITS_PER_BYTE;
use fairlink_sim::{Options, Run};
use fairlink_theory::bounds::HlsBounds;
use fairlink_theory::to_f64;

use super::rounds::run_weights;
use crate::claims::{ClaimError, Expected, Finding, Lab, Row, Unit, Workload};

/// Figure 1, a tenth of its rates.
const TREE: &str = "duration = \"2s\"\n\n[link]\nrate = \"100mbit\"\nscheduler = \"hls\"\nmtu = \"1500B\"\n";
const CLASSES: [(&str, &str, u32); 7] =
    [("A", "", 30), ("A1", "A", 10), ("A2", "A", 20), ("B", "", 30), ("B1", "B", 10), ("B2", "B", 20), ("C", "", 40)];
const LEAVES: [&str; 5] = ["A1", "A2", "B1", "B2", "C"];

fn scenario(name: &str, source: &str) -> Workload {
    let mut text = TREE.to_owned();
    for (class, parent, guarantee) in CLASSES {
        text += &format!("\n[[class]]\nname = \"{class}\"\nguarantee = \"{guarantee}mbit\"\n");
        if !parent.is_empty() {
            text += &format!("parent = \"{parent}\"\n");
        }
    }
    for leaf in LEAVES {
        text += &format!("\n[[source]]\nclass = \"{leaf}\"\npacket = \"1500B\"\n{source}\n");
    }
    Workload::new(name, text)
}

fn longest(run: &Run) -> f64 {
    run.classes.iter().filter_map(|class| class.delay().max).fold(0.0, f64::max)
}

/// Tests d_max >= gamma of Section VII, with full queues and with hardly any packets.
pub(super) fn gap_delay(lab: &Lab<'_>) -> Result<Finding, ClaimError> {
    let full = scenario("gap-full.toml", "model = \"greedy\"");
    // A packet of each leaf every 24 ms: at most five are queued at a time.
    let light = scenario("gap-light.toml", "model = \"cbr\"\nrate = \"500kbit\"");
    let tree = full.read("hls")?.link.tree;
    let weights = run_weights(&tree)?;
    let bounds = HlsBounds::new(&tree, &weights.0, CREDITS_PER_BYTE, |_| 1500).map_err(ClaimError::other)?;
    let gap = to_f64(&bounds.transmission_gap(tree.link().rate));
    let delay = |workload: &Workload| -> Result<f64, ClaimError> {
        let runs = lab.play(workload, &["hls"], 1, &Options::default())?;
        runs.first().map(longest).ok_or_else(|| ClaimError::other("no run"))
    };
    let (most, least) = (delay(&full)?, delay(&light)?);
    let rows = vec![
        Row::new("longest delay over the transmission gap, queues always full", Unit::Times, Expected::AtLeast(1.0), most / gap),
        Row::new("longest delay over the transmission gap, a packet of each leaf now and then", Unit::Times, Expected::AtLeast(1.0), least / gap).departing(
            0.0,
            1.0,
            "gamma is an upper limit of one wait of the packet at the head of its queue (Theorem 5), whatever traffic comes. Where queues are hardly ever \
             filled no packet waits that long.",
        ),
        Row::shown("transmission gap by Theorem 5, with the weights as run", Unit::Seconds, gap),
    ];
    let note = "Figure 1 at a tenth of its rates, packets of 1500 B. The sentence holds where queues are long: then a packet waits for the gap before its turn and for those ahead of it as well. As an inequality for \
                any traffic it does not hold.";
    Ok(Finding::new(note, rows).with_rerun(full.rerun("")).with_rerun(light.rerun("")))
}
