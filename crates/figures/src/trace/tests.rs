use super::*;

/// Numbers of packets, and their outcomes.
type Packets = Vec<(u64, Option<Fate>)>;

/// The packets that a sink received.
#[derive(Clone, Default)]
struct Heard(Arc<Mutex<Packets>>);

impl PacketSink for Heard {
    fn packet(&mut self, packet: &PacketRecord<'_>) -> io::Result<()> {
        let fate = match packet.outcome {
            Outcome::Sent { start, done } => Some(Fate::Sent { start, done }),
            Outcome::Dropped { .. } => panic!("{packet:?}"),
            Outcome::Queued => None,
        };
        self.0.lock().unwrap().push((packet.number, fate));
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn packet(number: u64) -> PacketSeen {
    PacketSeen { number, class: ClassId(1), arrived: Nanos(number * 1_000_000_007), frame: 100, len: 120, source: 0 }
}

const GONE: Fate = Fate::Sent { start: Nanos(3_000_000_000), done: Nanos(3_500_000_001) };

fn recorder(sink: impl PacketSink + 'static) -> Recorder {
    Recorder::new(Box::new(sink), vec!["link".to_owned(), "a".to_owned()], None, 4)
}

#[test]
fn packets_stand_in_the_order_of_arrival_and_memory_is_bounded() {
    let heard = Heard::default();
    let mut recorder = recorder(heard.clone());
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
fn a_file_that_takes_no_more_ends_the_run_and_is_told_once() {
    struct Full(usize);
    impl PacketSink for Full {
        fn packet(&mut self, _: &PacketRecord<'_>) -> io::Result<()> {
            self.0 += 1;
            assert!(self.0 < 3, "nothing is written after a failure");
            if self.0 == 2 { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let recorder = Arc::new(Mutex::new(recorder(Full(0))));
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
