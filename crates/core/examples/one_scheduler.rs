//! One scheduler alone, for `scripts/core-size`: the code that a kernel module or a dataplane with only `hls` links.
#![forbid(unsafe_code)]

use fairlink_core::schedulers::hls;
use fairlink_core::{
    ClassConfig, ClassId, Dequeued, DropReason, Hierarchy, Leniency, LinkConfig, Members, Nanos, Packet, Rate,
    Scheduler,
};

fn main() {
    let mut tree = Hierarchy::builder(LinkConfig::new(Rate::MAX));
    tree.add(ClassId::ROOT, ClassConfig::default()).expect("a class");
    let tree = tree.build().expect("a tree");
    let mut scheduler = hls::INFO.build(&tree, Leniency::Refuse, Members::new()).expect("a scheduler");
    let mut drops = |_: Nanos, _: Packet, _: DropReason| {};
    scheduler.enqueue(Nanos::ZERO, Packet { handle: 0, len: 1000, class: ClassId(1) }, &mut drops);
    let sent = matches!(scheduler.dequeue(Nanos::ZERO, &mut drops), Dequeued::Packet(_));
    std::process::exit(i32::from(!sent));
}
