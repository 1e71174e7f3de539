use std::io::Cursor;

use super::*;

/// A recorded packet: time in ns and frame.
type Packet = (u64, Vec<u8>);

/// A pcap of nanoseconds, written by hand; `snap` bytes of each packet are kept.
fn pcap(packets: &[Packet], snap: usize) -> Vec<u8> {
    let mut file = Vec::new();
    for number in [0xa1b2_3c4d_u32, 0x0004_0002, 0, 0, 65_535, 1] {
        file.extend(number.to_le_bytes());
    }
    for (at, frame) in packets {
        let kept = frame.len().min(snap);
        for number in [(at / 1_000_000_000) as u32, (at % 1_000_000_000) as u32, kept as u32, frame.len() as u32] {
            file.extend(number.to_le_bytes());
        }
        file.extend(&frame[..kept]);
    }
    file
}

/// A frame of 100 B or more with IPv4 and UDP to `port`, with this content; 64 hops and no VLAN tag.
fn frame(port: u16, content: u64) -> Vec<u8> {
    let mut frame = [[2; 12].as_slice(), &[8, 0, 0x45, 0, 0, 86, 0, 0, 0x40, 0, 64, 17, 0xaa, 0xbb]].concat();
    frame.extend([10, 0, 0, 1, 10, 0, 0, 2, 0x13, 0x88]);
    frame.extend(port.to_be_bytes());
    frame.extend([0, 66, 0, 0]);
    frame.extend(content.to_be_bytes());
    frame.resize(100, 7);
    frame
}

/// The same behind a router: other stations, a VLAN tag, DSCP and ECN, one hop less, another header checksum, padding.
fn routed(mut frame: Vec<u8>) -> Vec<u8> {
    frame[..12].fill(4);
    frame[15] = 0xb9;
    frame[22] -= 1;
    frame[24..26].fill(0x11);
    frame.splice(12..12, [0x81, 0, 0, 5]);
    frame.extend([0xee; 6]);
    frame
}

fn config() -> BetweenConfig {
    BetweenConfig { offset_ns: 0, within: Nanos::from_secs(10), bytes: None }
}

/// The class of a frame made here: its port.
fn port(seen: Seen<'_>) -> u32 {
    seen.bytes.get(36..38).map_or(0, |port| u32::from(port[0]) << 8 | u32::from(port[1]))
}

type Pairs = Vec<(u64, u64)>;

fn compare(before: &[u8], after: &[u8], config: BetweenConfig) -> Result<(Between, Pairs), BetweenError> {
    let mut pairs = Vec::new();
    let pair = |one, other| -> Result<(), BetweenError> {
        pairs.push((one, other));
        Ok(())
    };
    between((Cursor::new(before), Cursor::new(after)), &config, port, pair).map(|report| (report, pairs))
}

fn of(before: &[Packet], after: &[Packet], config: BetweenConfig) -> Between {
    compare(&pcap(before, 65_535), &pcap(after, 65_535), config).unwrap().0
}

/// Numbers that follow from a seed.
fn dice(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut random = crate::random::Random::new(seed, 0);
    move |below| random.below(below)
}

/// The true actions of a simulated device.
#[derive(Debug, Default, PartialEq)]
struct Truth {
    passage: Passage,
    delays: Vec<i64>,
}

/// Makes recordings of a simulated device that delays by up to 3 s, loses, duplicates and reorders, and sends packets
/// of its own; and the truth by class.
fn device(seed: u64, offset_ns: i64) -> (Vec<Packet>, Vec<Packet>, [Truth; 3], u64) {
    let mut draw = dice(seed);
    let (mut before, mut after) = (Vec::new(), Vec::new());
    let (mut at, mut own) = (1_000_000_000_000, 0);
    // Time behind the device, number before it, class, delay.
    let mut out: Vec<(u64, u64, usize, Option<i64>)> = Vec::new();
    let mut truth: [Truth; 3] = Default::default();
    for number in 0..4000 {
        at += 1 + draw(20_000_000);
        let class = draw(2) as usize;
        before.push((at, frame(5001 + class as u16, number)));
        truth[class].passage.packets += 1;
        // The first and the last pass, so that both recordings have both ends.
        if draw(10) == 0 && number > 0 && number < 3999 {
            truth[class].passage.lost += 1;
            continue;
        }
        let delay = 1000 + if draw(5) == 0 { draw(3_000_000_000) } else { draw(1_000_000) };
        truth[class].passage.found += 1;
        out.push((at + delay, number, class, Some(delay as i64)));
        if draw(20) == 0 {
            truth[class].passage.doubled += 1;
            out.push((at + delay + 1 + draw(1_000_000), number, class, None));
        }
        if draw(50) == 0 {
            own += 1;
            out.push((at + draw(1_000_000), 1 << 40 | number, 2, None));
        }
    }
    out.sort_unstable();
    let mut newest = [None; 3];
    let mut all_newest = None;
    for &(left, number, class, delay) in &out {
        after.push(((left as i64 + offset_ns) as u64, routed(frame(5001 + class as u16, number))));
        let Some(delay) = delay else { continue };
        truth[class].delays.push(delay);
        truth[class].passage.out_of_order += u64::from(newest[class] > Some(number));
        newest[class] = newest[class].max(Some(number));
        truth[2].delays.push(delay);
        truth[2].passage.out_of_order += u64::from(all_newest > Some(number));
        all_newest = all_newest.max(Some(number));
    }
    let [a, b, total] = &mut truth;
    for (sum, one, other) in [
        (&mut total.passage.packets, a.passage.packets, b.passage.packets),
        (&mut total.passage.found, a.passage.found, b.passage.found),
        (&mut total.passage.lost, a.passage.lost, b.passage.lost),
        (&mut total.passage.doubled, a.passage.doubled, b.passage.doubled),
    ] {
        *sum = one + other;
    }
    (before, after, truth, own)
}

/// Checks one class against the truth; delays are the true ones and `more`.
fn check(found: &Passage, truth: &Truth, more: i64) {
    let Truth { passage, delays } = truth;
    let negative = delays.iter().filter(|&&delay| delay + more < 0).count() as u64;
    assert_eq!(Passage { delay: None, ..*found }, Passage { negative, ..*passage });
    let spread = found.delay.unwrap();
    let mut sorted: Vec<f64> = delays.iter().map(|&delay| (delay + more) as f64 / 1e9).collect();
    let jitter = sorted.windows(2).map(|pair| (pair[1] - pair[0]).abs()).sum::<f64>() / (sorted.len() - 1) as f64;
    sorted.sort_by(f64::total_cmp);
    let mean = sorted.iter().sum::<f64>() / sorted.len() as f64;
    let rank = |part: f64| sorted[(part * sorted.len() as f64).ceil() as usize - 1];
    let near = |found: f64, expected: f64, part: f64| {
        assert!((found - expected).abs() <= expected.abs() * part + 1.5e-9, "{found} for {expected}");
    };
    near(spread.min, sorted[0], 0.0);
    near(spread.max, sorted[sorted.len() - 1], 0.0);
    near(spread.mean, mean, 1e-9);
    near(spread.jitter.unwrap(), jitter, 1e-9);
    let (p50, p99) = spread.p50_p99.unwrap();
    near(p50, rank(0.5), 1e-3);
    near(p99, rank(0.99), 1e-3);
}

#[test]
fn every_loss_copy_and_disorder_of_a_made_up_device_is_found_and_every_delay() {
    for seed in 0..20 {
        let (before, after, truth, own) = device(seed, 0);
        let (found, pairs) = compare(&pcap(&before, 65_535), &pcap(&after, 65_535), config()).unwrap();
        assert_eq!(found.classes.iter().map(|(class, _)| *class).collect::<Vec<_>>(), [5001, 5002]);
        for ((_, passage), truth) in found.classes.iter().zip(&truth) {
            check(passage, truth, 0);
        }
        check(&found.total, &truth[2], 0);
        assert_eq!((found.only_after, found.only_after_from_before_the_start), (own, 0));
        assert_eq!(found.after_packets, after.len() as u64);
        // The stamps are in the order of the first recording, and their differences are the delays.
        assert!(pairs.is_sorted_by_key(|pair| pair.0));
        let mut delays: Vec<i64> = pairs.iter().map(|(one, other)| (other - one) as i64).collect();
        let mut expected = truth[2].delays.clone();
        delays.sort_unstable();
        expected.sort_unstable();
        assert_eq!(delays, expected);
    }
}

#[test]
fn a_clock_that_is_behind_makes_delays_negative_and_the_offset_makes_them_right() {
    for offset in [-2_500_000, -1_500_000_000, 700_000_000] {
        let (before, after, truth, own) = device(77, offset);
        let found = of(&before, &after, config());
        // Copies of packets that seem to come early wait for equal ones that never come.
        let copies = found.only_after - own + found.total.doubled;
        assert_eq!(copies, truth[2].passage.doubled);
        let as_copies = Passage { doubled: truth[2].passage.doubled, ..found.total };
        check(&as_copies, &truth[2], offset);
        assert_eq!(found.total.negative > 0, offset < 0);
        let right = of(&before, &after, BetweenConfig { offset_ns: offset, ..config() });
        check(&right.total, &truth[2], 0);
        assert_eq!((right.only_after, right.total.negative), (own, 0));
    }
}

#[test]
fn equal_packets_are_paired_in_order_and_copies_are_copies() {
    let equal = |at: u64| (at, frame(5001, 9));
    let before = [equal(10), equal(20), equal(5000)];
    let out = |times: &[u64]| times.iter().map(|&at| (at, routed(frame(5001, 9)))).collect::<Vec<_>>();
    let found = of(&before, &out(&[15, 16, 17, 5001]), config());
    // Behind 15 come two copies, as the next equal packet is not there before 20; that one is the one at 5001.
    let total = found.total;
    assert_eq!((total.found, total.lost, total.doubled, total.equal), (2, 1, 2, 2));
    let delay = total.delay.unwrap();
    assert_eq!((delay.min, delay.max), (5e-9, 4981e-9));
    let found = of(&before, &out(&[25, 26, 5001]), config());
    assert_eq!((found.total.found, found.total.lost, found.total.delay.unwrap().max), (3, 0, 15e-9));
}

#[test]
fn a_packet_is_lost_when_its_time_is_over_and_the_ends_of_recordings_are_told_apart() {
    let second = 1_000_000_000;
    let packets = |times: &[(u64, u64)]| times.iter().map(|&(at, n)| (at * second, frame(5001, n))).collect::<Vec<_>>();
    let before = packets(&[(100, 1), (110, 2), (150, 3), (160, 4)]);
    // 0 left before the first recording began, 1 took 10 s, 2 a second more; 4 came when the second recording had ended.
    let found = of(&before, &packets(&[(99, 0), (110, 1), (121, 2), (151, 3)]), config());
    assert_eq!((found.total.found, found.total.lost, found.total.lost_after_the_end), (2, 2, 1));
    assert_eq!((found.only_after, found.only_after_from_before_the_start), (2, 1));
    let longer = BetweenConfig { within: Nanos::from_secs(11), ..config() };
    assert_eq!(of(&before, &packets(&[(110, 1), (121, 2), (151, 3)]), longer).total.found, 3);
    // No packets behind the device, or none before it.
    let found = of(&before, &[], config());
    assert_eq!((found.total.lost, found.total.lost_after_the_end, found.total.delay), (4, 4, None));
    let found = of(&[], &before, config());
    assert_eq!((found.only_after, found.only_after_from_before_the_start, found.classes.len()), (4, 4, 0));
}

#[test]
fn contents_differ_by_every_byte_that_routers_leave_alone() {
    let v4 = frame(5001, 1);
    let mut v6 = [[2; 12].as_slice(), &[0x86, 0xdd, 0x60, 0, 0, 0, 0, 20, 17, 64]].concat();
    v6.extend((0..52).map(|n| n + 1));
    for (frame, ignored) in [(v4, &[15, 22, 24, 25][..]), (v6, &[14, 21][..])] {
        for at in 0..frame.len() {
            let mut other = frame.clone();
            other[at] ^= 1;
            // Type, version and lengths make it another kind of packet, which may be cut off.
            let found = of(&[(5, frame.clone())], &[(6, other)], config()).total.found == 1;
            assert_eq!(found, at < 12 || ignored.contains(&at), "byte {at}");
        }
    }
    // Traffic class: both halves, beside version and flow label.
    let mut v6 = [[2; 12].as_slice(), &[0x86, 0xdd, 0x60, 0, 0, 0, 0, 20, 17, 64], &[3; 52]].concat();
    let before = v6.clone();
    v6[14] |= 0x0f;
    v6[15] |= 0xf0;
    assert_eq!(of(&[(5, before)], &[(6, v6)], config()).total.found, 1);
}

#[test]
fn recordings_of_the_start_of_packets_are_compared_as_far_as_asked_and_refused_otherwise() {
    let (before, after, truth, _) = device(3, 0);
    let (whole, cut) = (pcap(&before, 65_535), pcap(&after, 74));
    let error = compare(&whole, &cut, config()).unwrap_err();
    assert_eq!((error.side, matches!(error.why, Fault::Cut { packet: 1, kept: 56, len: 86 })), (Side::After, true));
    assert!(error.to_string().contains("56 of 86 B") && error.to_string().contains("--bytes 56"), "{error}");
    let (found, _) = compare(&whole, &cut, BetweenConfig { bytes: Some(56), ..config() }).unwrap();
    check(&found.total, &truth[2], 0);
    assert!(compare(&whole, &cut, BetweenConfig { bytes: Some(57), ..config() }).is_err());
}

#[test]
fn files_that_are_wrong_are_refused_with_the_packet_and_those_that_were_cut_off_are_used() {
    let good = pcap(&[(5, frame(1, 1)), (6, frame(1, 2))], 65_535);
    let message = |bytes: &[u8]| compare(&good, bytes, config()).unwrap_err().to_string();
    assert_eq!(message(b"send_s,receive_s\n"), "not a capture; formats are pcap and pcapng");
    assert_eq!(message(b""), "not a capture; formats are pcap and pcapng");
    let unsorted = pcap(&[(5, frame(1, 1)), (4, frame(1, 2))], 65_535);
    assert!(message(&unsorted).starts_with("packet 2 is 1 ns older than the one before it"), "{}", message(&unsorted));
    let mut link = good.clone();
    link[20] = 105;
    assert!(message(&link).starts_with("packet 1: of a link of type 105"), "{}", message(&link));
    for len in 24..good.len() {
        let (found, _) = compare(&good, &good[..len], config()).unwrap();
        assert_eq!(found.total.found, u64::from(len >= 24 + 16 + 100));
        assert_eq!(found.cut_off[1], ![24, 24 + 116].contains(&len), "{len}");
    }
    for at in 0..good.len() {
        for with in [0, 1, 0x7f, 0xff] {
            let mut damaged = good.clone();
            damaged[at] = with;
            let _ = compare(&damaged, &good, config());
        }
    }
}

#[test]
fn more_packets_than_memory_is_stated_for_are_refused_with_the_remedy() {
    let config = BetweenConfig { within: Nanos::from_secs(10), ..config() };
    let pair = |_, _| -> Result<(), BetweenError> { Ok(()) };
    let mut pairing = Pairing::new(config, pair);
    let mut number = 0_u64;
    while pairing.before(number.into(), number, 1).unwrap() {
        number += 1;
    }
    assert_eq!(number as usize, MAX_WAITING);
    // Ten seconds later there is room again.
    assert!(pairing.before(0, 20_000_000_000, 1).unwrap());
    let error = Fault::TooMany { packet: 7, within: config.within }.to_string();
    assert_eq!(error, "more than 2097152 packets within 10 s, up to packet 7; a shorter --within needs less memory");
}
