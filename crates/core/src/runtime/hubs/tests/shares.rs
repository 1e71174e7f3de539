//! Theorem V between classes directly below the link.

use super::*;

/// Lambda, in bytes: the largest packet of each leaf, and `ahead` of each inner class.
fn slack(tree: &Hierarchy, ahead: u64) -> i128 {
    let leaves = tree.leaves().len() as i128;
    leaves * i128::from(tree.link().max_packet) + (tree.len() as i128 - leaves) * i128::from(ahead)
}

/// Two classes directly below the link.
struct Pair {
    classes: (ClassId, ClassId),
    /// The range of the difference of their service, times both weights; `None` unless both are on.
    range: Option<(i128, i128)>,
}

/// Classes that stay at their hubs are within Theorem V of each other while others move, on random trees.
#[test]
fn classes_that_stay_are_within_the_theorem_while_others_move() {
    let (mut worst, mut moves, mut long) = (0, 0, 0u64);
    for seed in 0..120 {
        let random = &mut Random::new(seed ^ 0x5A5);
        let tree = random_tree(random, None);
        let (leaves, tops) = (tree.leaves().to_vec(), tree.children(ClassId::ROOT).to_vec());
        let credit = 12_000 + random.place(60_000) as u64;
        let ahead = random.place(2) as u64 * random.place(9000) as u64;
        let config = SharedConfig { mark: 6000, credit, stored: 1 << 40, ahead };
        let slack = slack(&tree, ahead);
        let shared = SharedTree::new(tree.clone(), config).unwrap();
        let hubs = 2 + random.place(3);
        let (mut parts, _) = parts(&shared, HubsConfig { hubs, ring: 512, ..HubsConfig::default() });
        let greedy: Vec<bool> = leaves.iter().map(|_| !random.one_in(3)).collect();
        let mut pairs = Vec::new();
        for (at, &a) in tops.iter().enumerate() {
            pairs.extend(tops[at + 1..].iter().map(|&b| Pair { classes: (a, b), range: None }));
        }
        let mut below = std::vec![0i128; tree.len()];
        let (mut queued, mut most) = (std::vec![0u32; leaves.len()], 0i128);
        let mut out = Vec::with_capacity(4096);
        let mut now = Nanos::ZERO;
        for step in 0..4000u64 {
            now = now.saturating_add(Nanos(random.place(12_000) as u64));
            for (at, &greedy) in greedy.iter().enumerate() {
                let arriving = if greedy { 5u32.saturating_sub(queued[at]) } else { u32::from(random.one_in(40)) };
                for _ in 0..arriving {
                    let packet = Packet {
                        handle: flow_bits(at as u32) | step,
                        len: 64 + random.place(1437) as u32,
                        class: leaves[at],
                    };
                    queued[at] += u32::from(parts.receivers[0].push(packet).is_ok());
                }
            }
            let _ = parts.hubs[random.place(hubs)].turn(now);
            parts.transmitters[0].take(&mut out);
            for packet in out.drain(..) {
                queued[packet.flow() as usize] -= 1;
                let mut class = Some(packet.class);
                while let Some(at) = class {
                    below[at.index()] += i128::from(packet.len);
                    class = tree.parent(at);
                }
            }
            if random.one_in(150) {
                moves += u64::from(parts.balancer.start(tops[random.place(tops.len())], random.place(hubs)).is_ok());
            }
            shared.check_invariants().unwrap();
            most = most.max(i128::from(shared.credit(ClassId::ROOT)));
            for Pair { classes: (a, b), range } in &mut pairs {
                let is_on = |class| shared.is_on(class) && parts.hubs.iter().any(|hub| hub.has(class));
                if !is_on(*a) || !is_on(*b) {
                    *range = None;
                    continue;
                }
                let (wa, wb) = (i128::from(tree.weight(*a)), i128::from(tree.weight(*b)));
                let apart = below[a.index()] * wb - below[b.index()] * wa;
                let (low, high) = range.unwrap_or((apart, apart));
                *range = Some((low.min(apart), high.max(apart)));
                let bound = (most.max(credit.into()) + slack) * (wa + wb);
                let ratio = (high - low) * 1000 / bound;
                assert!(ratio <= 1000, "seed {seed}, step {step}: {a:?} {b:?}: {ratio} of 1000");
                worst = worst.max(ratio);
                long += u64::from(ratio > 100);
            }
        }
    }
    std::println!("worst ratio {worst} of 1000, {moves} moves");
    assert!(moves > 500 && long > 1000, "{moves} moves, {long}");
}
