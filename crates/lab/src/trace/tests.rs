use super::*;

use fairlink_core::DropReason;

/// Numbers of packets, and what became of them.
type Packets = Vec<(u64, Option<Fate>)>;

/// What a sink was given.
#[derive(Clone, Default)]
struct Heard(Arc<Mutex<Packets>>);

impl Sink for Heard {
    fn packet(&mut self, packet: &PacketSeen, fate: Option<Fate>) -> io::Result<()> {
        self.0.lock().unwrap().push((packet.number, fate));
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn packet(number: u64) -> PacketSeen {
    PacketSeen { number, class: ClassId(1), arrived: Nanos(number * 1_000_000_007), frame: 100, len: 120 }
}

const GONE: Fate = Fate::Sent { start: Nanos(3_000_000_000), done: Nanos(3_500_000_001) };

#[test]
fn packets_stand_in_the_order_of_arrival_and_memory_is_bounded() {
    let heard = Heard::default();
    let mut recorder = Recorder::new(Box::new(heard.clone()), 4);
    (0..3).for_each(|number| recorder.came(&packet(number)));
    recorder.went(&packet(1), GONE);
    assert!(heard.0.lock().unwrap().is_empty());
    recorder.went(&packet(0), GONE);
    assert_eq!(heard.0.lock().unwrap().len(), 2);
    // Packet 2 stays queued while many pass it.
    for number in 3..10 {
        recorder.came(&packet(number));
        recorder.went(&packet(number), GONE);
        assert!(recorder.kept.len() <= 4);
    }
    recorder.came(&packet(10));
    recorder.went(&packet(2), GONE);
    recorder.end();
    let numbers: Vec<u64> = heard.0.lock().unwrap().iter().map(|&(number, _)| number).collect();
    assert_eq!(numbers, [0, 1, 3, 4, 5, 6, 7, 8, 9, 2, 10]);
    assert_eq!((recorder.packets, recorder.late), (11, 1));
    assert_eq!(heard.0.lock().unwrap().last(), Some(&(10, None)), "it is still queued");
}

#[test]
fn the_columns_are_exact_to_a_nanosecond() {
    let mut file = Vec::new();
    let names = ["link".to_owned(), "a".to_owned()];
    let mut csv = csv::Csv::new(&mut file, names.to_vec()).unwrap();
    csv.packet(&packet(1), Some(GONE)).unwrap();
    csv.packet(&packet(2), Some(Fate::Dropped { at: Nanos(5), reason: DropReason::Congestion })).unwrap();
    csv.packet(&packet(3), None).unwrap();
    let text = String::from_utf8(file).unwrap();
    let expected = [
        "packet,class,arrival_s,start_s,departure_s,bytes,accounted_bytes,queueing_delay_s,dropped_s,dropped"
            .to_owned(),
        "2,a,1.000000007,3.000000000,3.500000001,100,120,1.999999993,,".to_owned(),
        format!("3,a,2.000000014,,,100,120,,0.000000005,{}", DropReason::Congestion.as_str()),
        "4,a,3.000000021,,,100,120,,,".to_owned(),
    ];
    assert_eq!(text.lines().collect::<Vec<_>>(), expected);
}

/// Byte by byte from the description of the format, with a reader of its own.
#[test]
fn a_capture_has_the_blocks_that_the_format_asks_for() {
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
    let file = Shared::default();
    let frame: WriteFrame = Arc::new(|class, frame| frame[0] = class.0 as u8 + 0x10);
    let names = vec!["link".to_owned(), "voice".to_owned()];
    let mut capture = pcapng::Pcapng::new(file.clone(), names, frame).unwrap();
    let seen = PacketSeen { arrived: Nanos(0x1_2345_6789), frame: 61, ..packet(6) };
    capture.packet(&seen, Some(Fate::Sent { start: Nanos(0x1_2345_6789 + 25), done: Nanos(0x1_3000_0000) })).unwrap();
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
    assert_eq!((word(at + 20), word(at + 24)), (61, 61), "kept whole");
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
fn a_file_that_takes_no_more_ends_the_run_and_is_told_once() {
    struct Full(usize);
    impl Sink for Full {
        fn packet(&mut self, _: &PacketSeen, _: Option<Fate>) -> io::Result<()> {
            self.0 += 1;
            assert!(self.0 < 3, "nothing is written after a failure");
            if self.0 == 2 { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let recorder = Arc::new(Mutex::new(Recorder::new(Box::new(Full(0)), 4)));
    let trace = Trace { path: "x.csv".into(), recorder };
    let mut observer = observer(std::slice::from_ref(&trace));
    for number in 0..5 {
        assert_eq!(observer.progress(Nanos(0)).is_break(), number >= 2);
        observer.came(&packet(number));
        observer.went(&packet(number), GONE);
    }
    let error = trace.end().unwrap_err();
    assert_eq!(error.error.kind(), io::ErrorKind::StorageFull);
    assert!(error.to_string().starts_with("cannot write x.csv: "), "{error}");
}
