use super::*;

const FRAME: [u8; 20] = [7; 20];

/// A pcap file in microseconds or nanoseconds, of either order of bytes: packets as (seconds, fraction, length, bytes kept).
fn pcap_file(nanos: bool, big: bool, link: u32, packets: &[(u32, u32, u32, usize)]) -> Vec<u8> {
    let number = |value: u32| if big { value.to_be_bytes() } else { value.to_le_bytes() };
    let half = |value: u16| if big { value.to_be_bytes() } else { value.to_le_bytes() };
    let mut file = number(if nanos { 0xa1b2_3c4d } else { 0xa1b2_c3d4 }).to_vec();
    file.extend(half(2));
    file.extend(half(4));
    [0, 0, 65_535, link].into_iter().for_each(|value| file.extend(number(value)));
    for &(seconds, fraction, len, kept) in packets {
        [seconds, fraction, kept as u32, len].into_iter().for_each(|value| file.extend(number(value)));
        file.extend(FRAME.iter().cycle().take(kept));
    }
    file
}

/// A block of pcapng, little endian.
fn block(kind: u32, body: &[u8]) -> Vec<u8> {
    let len = (12 + body.len().next_multiple_of(4)) as u32;
    let mut block = kind.to_le_bytes().to_vec();
    block.extend(len.to_le_bytes());
    block.extend(body);
    block.resize(len as usize - 4, 0);
    block.extend(len.to_le_bytes());
    block
}

fn numbers(values: &[u32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// A pcapng file with an interface in microseconds, one in nanoseconds, and packets as (interface, ticks, length, bytes kept).
fn pcapng_file(packets: &[(u32, u64, u32, usize)]) -> Vec<u8> {
    let mut file = block(0x0a0d_0d0a, &numbers(&[0x1a2b_3c4d, 1, u32::MAX, u32::MAX]));
    file.extend(block(1, &numbers(&[1, 0])));
    // Option 9, one byte: times in 10^-9 s.
    file.extend(block(1, &numbers(&[1, 0, 9 | 1 << 16, 9, 0])));
    for &(interface, ticks, len, kept) in packets {
        let mut body = numbers(&[interface, (ticks >> 32) as u32, ticks as u32, kept as u32, len]);
        body.extend(FRAME.iter().cycle().take(kept));
        file.extend(block(6, &body));
    }
    file
}

fn read(file: &[u8], accept: Accept) -> Result<Vec<(u64, u32)>, CaptureError> {
    let trace = read_trace(file, accept, false, |_| true)?;
    Ok(trace.packets().iter().map(|packet| (packet.at.0, packet.len)).collect())
}

fn refused(file: &[u8]) -> String {
    read(file, Accept::default()).unwrap_err().to_string()
}

#[test]
fn captures_keep_their_times_and_lengths_in_every_format() {
    let packets = [(1_700_000_000, 10, 20, 20), (1_700_000_000, 999_999, 60, 60), (1_700_000_003, 0, 1514, 1514)];
    for (nanos, big) in [(false, false), (false, true), (true, false), (true, true)] {
        let unit = if nanos { 1 } else { 1000 };
        let seen = read(&pcap_file(nanos, big, 1, &packets), Accept::default()).unwrap();
        assert_eq!(seen, [(0, 20), (999_989 * unit, 60), (3_000_000_000 - 10 * unit, 1514)]);
    }
    // 10^6 us and 10^9 + 5 ns are five nanoseconds apart.
    let base = 1_700_000_000u64;
    let file = pcapng_file(&[(0, base * 1_000_000, 20, 20), (1, base * 1_000_000_000 + 5, 99, 99)]);
    assert_eq!(read(&file, Accept::default()).unwrap(), [(0, 20), (5, 99)]);
}

#[test]
fn bare_ip_counts_the_header_of_ethernet() {
    for link in [101, 228, 229] {
        assert_eq!(read(&pcap_file(false, false, link, &[(0, 0, 20, 20)]), Accept::default()).unwrap(), [(0, 34)]);
    }
}

#[test]
fn what_is_not_as_it_seems_is_refused_with_the_packet_and_used_when_asked() {
    let unsorted = pcap_file(false, false, 1, &[(5, 0, 20, 20), (4, 999_999, 30, 30)]);
    assert_eq!(
        refused(&unsorted),
        "packet 2 is 1000 ns older than the one before it; accept = [\"unsorted\"] puts them in order"
    );
    let accept = Accept { unsorted: true, ..Accept::default() };
    assert_eq!(read(&unsorted, accept).unwrap(), [(0, 30), (1000, 20)]);

    let cut = pcap_file(false, false, 1, &[(0, 0, 20, 20), (1, 0, 1514, 96)]);
    assert!(refused(&cut).starts_with("packet 2: 96 of 1514 B were kept; accept = [\"cut\"]"));
    let accept = Accept { cut: true, ..Accept::default() };
    assert_eq!(read(&cut, accept).unwrap(), [(0, 20), (1_000_000_000, 1514)]);

    let strange = pcap_file(false, false, 127, &[(0, 0, 20, 20)]);
    assert!(refused(&strange).starts_with("packet 1: of a link of type 127"));
    let accept = Accept { link_type: true, ..Accept::default() };
    assert_eq!(read(&strange, accept).unwrap(), [(0, 20)]);
}

#[test]
fn a_file_that_ends_anywhere_is_refused_or_used_up_to_there() {
    let files = [
        pcap_file(true, false, 1, &[(0, 0, 20, 20), (1, 0, 33, 33)]),
        pcapng_file(&[(1, 0, 20, 20), (1, 1_000_000_000, 33, 33)]),
    ];
    let accept = Accept { truncated: true, ..Accept::default() };
    for file in files {
        for end in 0..file.len() {
            let Ok(seen) = read(&file[..end], Accept::default()) else {
                match read(&file[..end], accept) {
                    Ok(seen) => assert_eq!(seen, [(0, 20)], "{end}"),
                    Err(CaptureError::NothingTaken { packets: 0 } | CaptureError::Unknown) => {}
                    Err(error) => panic!("{end}: {error}"),
                }
                continue;
            };
            // Between two packets.
            assert_eq!(seen, [(0, 20)], "{end}");
        }
        assert_eq!(read(&file, Accept::default()).unwrap(), [(0, 20), (1_000_000_000, 33)]);
    }
}

#[test]
fn bytes_of_any_kind_are_read_or_refused() {
    let mut random = crate::random::Random::new(1, 1);
    let files = [
        pcap_file(true, false, 1, &[(0, 0, 20, 20), (1, 0, 33, 33)]),
        pcapng_file(&[(1, 0, 20, 20), (0, 1_000_000_000, 33, 33)]),
        b"arrival_s,bytes\n0,40\n1.5,1500\n".to_vec(),
    ];
    let accept = Accept { unsorted: true, truncated: true, cut: true, link_type: true };
    for _ in 0..500 {
        let mut file = files[random.below(3) as usize].clone();
        for _ in 0..=random.below(4) {
            let place = random.below(file.len() as u64) as usize;
            file[place] = random.bits() as u8;
        }
        let _ = (read(&file, Accept::default()), read(&file, accept));
    }
}

#[test]
fn a_trace_file_has_names_and_times_exact_to_a_nanosecond() {
    let file = "packet,class,bytes,arrival_s\n1,A,40,0.000000001\n2,B,1500,0.5\n\n3,A,576,12\n";
    assert_eq!(
        read(file.as_bytes(), Accept::default()).unwrap(),
        [(0, 40), (499_999_999, 1500), (11_999_999_999, 576)]
    );
    let of_a = |recorded: Recorded<'_>| recorded.class == Some("A");
    let trace = read_trace(file.as_bytes(), Accept::default(), false, of_a).unwrap();
    assert_eq!(trace.packets().iter().map(|packet| packet.len).collect::<Vec<_>>(), [40, 576]);
    let none = read_trace(file.as_bytes(), Accept::default(), false, |_| false).unwrap_err();
    assert_eq!(none.to_string(), "none of 3 packets is accepted");

    assert!(refused(b"time,length\n1,2\n").starts_with("neither a capture"));
    assert!(refused(b"").starts_with("neither a capture"));
    assert!(refused(&[0xff; 40]).starts_with("neither a capture"));
    let line = |line: &str| refused(format!("arrival_s,bytes\n0,40\n{line}\n").as_bytes());
    assert_eq!(line("1"), "line 3: it has not as many fields as the line of names");
    assert_eq!(line("1,0"), "line 3: bytes is no length above 0");
    for wrong in ["-1", "1e3", "0.0000000001", "", ".5", "99999999999", "NaN"] {
        let expected = "line 3: arrival_s is not a time in seconds with up to nine decimals";
        assert_eq!(line(&format!("{wrong},40")), expected, "{wrong}");
    }
}

#[test]
fn a_table_that_ends_within_a_line_is_refused_or_used_up_to_there() {
    let text = "class,arrival_s,bytes,dropped\na,1.0,100,\na,1.5,200,\na,2.0,300,\n";
    let whole = text.len() - "a,2.0,300,\n".len();
    for end in whole + 1..whole + "a,2.0,300".len() {
        let read = |accept| read_trace(&text.as_bytes()[..end], accept, false, |_| true);
        assert!(matches!(read(Accept::default()), Err(CaptureError::Truncated { packet: 3 })), "{}", &text[..end]);
        let trace = read(Accept { truncated: true, ..Accept::default() }).unwrap();
        assert_eq!(lens(&trace), [100, 200], "{}", &text[..end]);
    }
    // All fields are there, only the end of the line is not.
    let hand_written = read_trace(&text.as_bytes()[..text.len() - 1], Accept::default(), false, |_| true).unwrap();
    assert_eq!(lens(&hand_written), [100, 200, 300]);
    // In the middle of a file it is a wrong line.
    let middle = text.replace("200,", "200");
    let wrong = read_trace(middle.as_bytes(), Accept { truncated: true, ..Accept::default() }, false, |_| true);
    assert!(matches!(wrong, Err(CaptureError::Line { line: 3, .. })));
}

fn lens(trace: &Trace) -> Vec<u32> {
    trace.packets().iter().map(|packet| packet.len).collect()
}
