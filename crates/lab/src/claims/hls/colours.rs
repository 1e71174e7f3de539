//! The appendix on HTB: Figure 14's five leaves and their colours.

use fairlink_core::registry::find;
use fairlink_core::{
    ClassConfig, ClassId, Dequeued, DropReason, Hierarchy, Leniency, LinkConfig, Members, Nanos, Packet, QueueLimits,
    Rate, Scheduler, Share,
};

use crate::claims::{ClaimError, Finding, Lab, Row, Table};

/// Length of every packet, and depth of every bucket: two packets bring a bucket into debt.
const BYTES: u32 = 1500;
/// A class: name, parent, guarantee and ceiling in Mbit/s.
type Class = (&'static str, &'static str, u64, Option<u64>);
/// The tree of Figure 14 with rates of our own.
const TREE: [Class; 9] = [
    ("grandparent", "", 20, None),
    ("parent of 1, 2, 3", "grandparent", 10, None),
    ("1", "parent of 1, 2, 3", 2, None),
    ("2", "parent of 1, 2, 3", 2, None),
    ("3", "parent of 1, 2, 3", 2, Some(3)),
    ("right", "", 20, None),
    ("4", "right", 5, None),
    ("parent of 5", "right", 5, Some(6)),
    ("5", "parent of 5", 2, None),
];
/// The colours of the figure. It does not say that of the class above 4 and of that above 5's parent.
const COLOURS: [(&str, &str); 8] = [
    ("1", "green"),
    ("2", "yellow"),
    ("3", "red"),
    ("4", "green"),
    ("5", "yellow"),
    ("parent of 1, 2, 3", "yellow"),
    ("grandparent", "yellow"),
    ("parent of 5", "red"),
];

fn tree() -> Result<Hierarchy, ClaimError> {
    let rate = |mbit: u64| Rate::from_bps(mbit * 1_000_000).map_err(ClaimError::other);
    let mut tree = Hierarchy::builder(LinkConfig { max_packet: BYTES, ..LinkConfig::new(rate(100)?) });
    let mut made: Vec<(&str, ClassId)> = vec![("", ClassId::ROOT)];
    for (name, parent, guarantee, ceiling) in TREE {
        let above = made.iter().find(|(known, _)| *known == parent).map_or(ClassId::ROOT, |&(_, id)| id);
        let config = ClassConfig {
            share: Some(Share::Guarantee(rate(guarantee)?)),
            ceiling: ceiling.map(rate).transpose()?,
            burst: Some(BYTES.into()),
            ceiling_burst: ceiling.map(|_| BYTES.into()),
            limits: QueueLimits { packets: 4, bytes: u32::MAX },
            ..ClassConfig::default()
        };
        made.push((name, tree.add(above, config).map_err(ClaimError::other)?));
    }
    tree.build().map_err(ClaimError::other)
}

/// Returns the class of this name. Classes are numbered in their order, after the link.
fn class(name: &str) -> Result<ClassId, ClaimError> {
    let place = TREE.iter().position(|class| class.0 == name);
    place.map(|place| ClassId(place as u32 + 1)).ok_or_else(|| ClaimError::other(format!("no class {name}")))
}

/// Tests Figure 14.
pub(super) fn colours(_: &Lab<'_>) -> Result<Finding, ClaimError> {
    let tree = tree()?;
    let info = find("htb").ok_or_else(|| ClaimError::other("no htb"))?;
    let mut htb = info.build(&tree, Leniency::Refuse, Members::new()).map_err(ClaimError::other)?;
    let mut dropped = 0;
    let mut drops = |_: Nanos, _: Packet, _: DropReason| dropped += 1;
    // All of it at one instant: no bucket is refilled. Sending by 2, 3 and 5 alone brings them, and classes above them,
    // into debt.
    for leaf in ["2", "3", "5"] {
        let class = class(leaf)?;
        for _ in 0..2 {
            htb.enqueue(Nanos::ZERO, Packet { handle: 0, len: BYTES, class }, &mut drops);
            if !matches!(htb.dequeue(Nanos::ZERO, &mut drops), Dequeued::Packet(_)) {
                return Err(ClaimError::other(format!("leaf {leaf} may not send")));
            }
        }
    }
    let mut table = Table::new("Colours of Figure 14, by `Scheduler::class_state`", &["class", "paper", "ours"]);
    let mut other = 0;
    for (name, paper) in COLOURS {
        let ours = htb.class_state(class(name)?).unwrap_or("none");
        other += usize::from(ours != paper);
        table.row([name, paper, ours]);
    }
    for leaf in ["1", "2", "3", "4", "5"] {
        htb.enqueue(Nanos::ZERO, Packet { handle: 0, len: BYTES, class: class(leaf)? }, &mut drops);
    }
    let mut sent = Vec::new();
    let waits = loop {
        match htb.dequeue(Nanos::ZERO, &mut drops) {
            Dequeued::Packet(packet) => sent.push(packet.class),
            Dequeued::WaitUntil(_) => break true,
            Dequeued::Idle => break false,
        }
    };
    let leaf = |place: usize, names: &[&str]| -> Result<bool, ClaimError> {
        let names: Vec<ClassId> = names.iter().map(|name| class(name)).collect::<Result<_, _>>()?;
        Ok(sent.get(place).is_some_and(|class| names.contains(class)))
    };
    let rows = vec![
        Row::never("classes whose colour is not that of the figure", other).judging(
            "Consider Fig. 14 as an example, which depicts a class hierarchy where the states of the classes are indicated by the shading of the circles.",
        ),
        Row::never("of the two packets that leave first, those that are not of leaves 1 and 4", usize::from(!leaf(0, &["1", "4"])?) + usize::from(!leaf(1, &["1", "4"])?)),
        Row::never("leaf 2 does not leave third, on the root's account", usize::from(!leaf(2, &["2"])?)).judging(
            "However, it can borrow from the root, its great-grandparent, and is allowed to transmit.",
        ),
        Row::never("packets of leaves 3 and 5 that leave", sent.len().saturating_sub(3) + usize::from(!waits))
            .judging("Class 5, which is also yellow, has a red parent and is therefore blocked from transmission."),
    ];
    let note = "The text gives colours and no rates: ours are 2 to 20 of 100 Mbit/s, buckets of a packet of 1500 B. At one instant leaves 2, 3 and 5 send two packets each, which brings them and the classes above them into the figure's \
                colours; then each of the five leaves has a packet, and the scheduler is asked until it waits.";
    if dropped > 0 {
        return Err(ClaimError::other(format!("{dropped} packets were dropped")));
    }
    Ok(Finding::new(note, rows).with_table(table))
}
