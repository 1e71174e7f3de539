use std::sync::{Arc, Mutex};

use super::*;

/// The bytes written so far.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn packet(number: u64, outcome: Outcome<'static>) -> PacketRecord<'static> {
    let arrived = Nanos(number * 1_000_000_007);
    PacketRecord { number, class: "a", arrived, len: 100, accounted: 120, outcome, bytes: &[] }
}

#[test]
fn the_columns_are_exact_to_a_nanosecond() {
    let file = Shared::default();
    let mut csv = RecordingFormat::Csv.begin(file.clone(), "link").unwrap();
    let gone = Outcome::Sent { start: Nanos(3_000_000_000), done: Nanos(3_500_000_001) };
    csv.packet(&packet(1, gone)).unwrap();
    csv.packet(&packet(2, Outcome::Dropped { at: Nanos(5), reason: "congestion" })).unwrap();
    csv.packet(&packet(3, Outcome::Queued)).unwrap();
    let text = String::from_utf8(file.0.lock().unwrap().clone()).unwrap();
    let expected = [
        "packet,class,arrival_s,start_s,departure_s,bytes,accounted_bytes,queueing_delay_s,dropped_s,dropped",
        "2,a,1.000000007,3.000000000,3.500000001,100,120,1.999999993,,",
        "3,a,2.000000014,,,100,120,,0.000000005,congestion",
        "4,a,3.000000021,,,100,120,,,",
    ];
    assert_eq!(text.lines().collect::<Vec<_>>(), expected);
}

/// Checks byte by byte against the description of the format, with a separate reader.
#[test]
fn a_capture_has_the_blocks_that_the_format_asks_for() {
    let file = Shared::default();
    let mut capture = RecordingFormat::Pcapng.begin(file.clone(), "link").unwrap();
    let outcome = Outcome::Sent { start: Nanos(0x1_2345_6789 + 25), done: Nanos(0x1_3000_0000) };
    let arrived = Nanos(0x1_2345_6789);
    // 61 bytes of a frame of 64.
    let seen = PacketRecord { class: "voice", arrived, len: 64, bytes: &[0x11; 61], ..packet(6, outcome) };
    capture.packet(&seen).unwrap();
    let bytes = file.0.lock().unwrap().clone();
    let word = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap());
    assert_eq!((word(0), word(8)), (0x0a0d_0d0a, 0x1a2b_3c4d));
    let interface = word(4) as usize;
    assert_eq!(word(interface), 1, "an interface description");
    assert_eq!(word(interface + 8) & 0xffff, 1, "Ethernet");
    let options = &bytes[interface + 16..interface + word(interface + 4) as usize - 4];
    let resolution = [&9u16.to_ne_bytes()[..], &1u16.to_ne_bytes()[..], &[9]].concat();
    assert!(options.windows(5).any(|part| part == resolution), "nanoseconds");
    let at = interface + word(interface + 4) as usize;
    assert_eq!((word(at), word(at + 8)), (6, 0), "a packet of that interface");
    assert_eq!((word(at + 12), word(at + 16)), (1, 0x2345_6789), "its time in nanoseconds");
    assert_eq!((word(at + 20), word(at + 24)), (61, 64), "what was kept, and its length");
    assert_eq!(bytes[at + 28], 0x11);
    let comment = at + 28 + 64;
    assert_eq!(word(comment) & 0xffff, 1, "a comment");
    let text = String::from_utf8_lossy(&bytes[comment + 4..]);
    assert!(
        text.starts_with(
            "packet 7, class voice, queueing delay 0.000000025 s, sent from 4.886718370 s to 5.100273664 s"
        ),
        "{text}"
    );
    assert_eq!(word(bytes.len() - 4), word(at + 4), "the length once more");
    assert_eq!(at + word(at + 4) as usize, bytes.len());
}

#[test]
fn the_ending_of_a_name_says_the_format_and_a_directory_is_refused() {
    assert_eq!(RecordingFormat::from_path(Path::new("a/b.csv")), Ok(RecordingFormat::Csv));
    assert_eq!(RecordingFormat::from_path(Path::new("b.PcapNg")), Ok(RecordingFormat::Pcapng));
    for wrong in ["a.pcap", "csv", "", "a.csv/x"] {
        assert!(RecordingFormat::from_path(Path::new(wrong)).unwrap_err().contains("it is .csv or .pcapng"), "{wrong}");
    }
    assert!(RecordingFormat::from_path(Path::new("one.csv/")).unwrap_err().contains("a directory"));
}
