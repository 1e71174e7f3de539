//! The balancer by itself.

use super::*;

#[test]
fn classes_begin_at_hubs_by_their_shares() {
    let mut tree = Hierarchy::builder(LinkConfig::new(Rate::from_bps(1_000_000).unwrap()));
    for weight in [1, 5, 3, 3, 2] {
        tree.add(ClassId::ROOT, ClassConfig { share: Some(Share::Weight(weight)), ..ClassConfig::default() }).unwrap();
    }
    let tree = tree.build().unwrap();
    // 5 and 2; 3, 3 and 1.
    assert_eq!(*homes(&tree, 2).unwrap(), [1, 0, 1, 1, 0]);
    assert_eq!(*homes(&tree, 1).unwrap(), [0; 5]);
}

#[test]
fn the_class_that_levels_most_moves_and_small_gains_do_not() {
    let propose = |packets: &[u64], home: &[u32], hubs: usize| propose(packets, home, &mut std::vec![7; hubs]);
    // 9,000 and 1,000: after the move of 4,000, 5,000 and 5,000.
    assert_eq!(propose(&[4000, 5000, 1000], &[0, 0, 1], 2), Some((0, 1)));
    // The largest class alone is the load.
    assert_eq!(propose(&[9000, 1000], &[0, 1], 2), None);
    // An eighth of 8,000 is 1,000: 7,000 suffices, 7,001 does not.
    assert_eq!(propose(&[7000, 1000, 6000], &[0, 0, 1], 2), Some((1, 1)));
    assert_eq!(propose(&[7001, 999, 6000], &[0, 0, 1], 2), None);
    // Equal ones in their order.
    assert_eq!(propose(&[3000, 3000, 0, 0], &[1, 1, 0, 2], 3), Some((0, 0)));
    // Too few to say anything.
    assert_eq!(propose(&[500, 500], &[0, 0], 2), None);
    assert_eq!(propose(&[1 << 63, 1 << 63], &[0, 0], 2), Some((0, 1)));
}

/// With the same packets again and again, moves end, and after the last one none pays.
#[test]
fn moves_end_and_what_is_left_is_level_as_far_as_single_classes_allow() {
    let mut most_moves = 0;
    for seed in 0..3000 {
        let random = &mut Random::new(seed);
        let (classes, hubs) = (1 + random.place(40), 1 + random.place(8));
        let packets: Vec<u64> = (0..classes)
            .map(|_| {
                let places = 1 + random.place(20);
                random.place(1 << places) as u64
            })
            .collect();
        let mut home: Vec<u32> = (0..classes).map(|_| random.place(hubs) as u32).collect();
        let mut sums = std::vec![0; hubs];
        let squares = |home: &[u32]| {
            let mut sums = std::vec![0u128; hubs];
            home.iter().zip(&packets).for_each(|(&hub, &packets)| sums[hub as usize] += u128::from(packets));
            sums.iter().map(|sum| sum * sum).sum::<u128>()
        };
        let mut moves = 0;
        while let Some((class, hub)) = propose(&packets, &home, &mut sums) {
            let before = squares(&home);
            home[class] = hub as u32;
            assert!(squares(&home) < before, "seed {seed}");
            moves += 1;
            assert!(moves <= 10 * classes, "seed {seed}");
        }
        most_moves = most_moves.max(moves);
        // The largest sum is within an eighth of what the best single move to the least would leave.
        let (most, least) = (sums.iter().max().unwrap(), sums.iter().min().unwrap());
        let busiest = (0..hubs).find(|&hub| sums[hub] == *most).unwrap() as u32;
        if *most >= 1024 {
            let own = (0..classes).filter(|&class| home[class] == busiest && packets[class] > 0);
            let best = own.map(|class| (most - packets[class]).max(least + packets[class])).min().unwrap();
            assert!(best > most - most / 8, "seed {seed}");
        }
    }
    std::println!("at most {most_moves} moves");
    assert!(most_moves > 2);
}

/// The load moves from two classes of one hub to two others; the balancer follows, with packets through the rings.
#[test]
fn the_balancer_follows_the_load() {
    let mut tree = Hierarchy::builder(LinkConfig::new(Rate::from_bps(10_000_000_000).unwrap()));
    let tops = [(); 4].map(|()| tree.add(ClassId::ROOT, ClassConfig::default()).unwrap());
    let tree = tree.build().unwrap();
    let shared = SharedTree::new(tree.clone(), SharedConfig::for_link(&tree.link())).unwrap();
    let (mut parts, dropped) = parts(&shared, HubsConfig { hubs: 2, ..HubsConfig::default() });
    let mut out = Vec::with_capacity(64);
    let (mut pushed, mut left, mut moved) = (0u64, 0u64, Vec::new());
    for turn in 0..40_000u64 {
        // Those at one hub in the beginning, then two of different hubs.
        let busy = if turn < 20_000 { [tops[0], tops[2]] } else { [tops[0], tops[1]] };
        for (flow, &class) in busy.iter().enumerate() {
            let packet = Packet { handle: flow_bits(flow as u32) | turn, len: 500, class };
            pushed += u64::from(parts.receivers[0].push(packet).is_ok());
        }
        parts.hubs.iter_mut().for_each(|hub| _ = hub.turn(Nanos(turn * 1000)));
        left += parts.transmitters[0].take(&mut out) as u64;
        out.clear();
        if turn % 2000 == 1999 {
            moved.extend(parts.balancer.balance());
        }
    }
    assert_eq!((pushed, left, dropped.lock().unwrap().len()), (80_000, left, 0));
    assert!(left > 79_900);
    // Once apart, later both at one hub if the first move brought them together, else no move.
    assert_eq!(moved.first(), Some(&(tops[0], 1)));
    assert!(moved.len() == 2 && parts.balancer.home(tops[0]) != parts.balancer.home(tops[1]), "{moved:?}");
}
