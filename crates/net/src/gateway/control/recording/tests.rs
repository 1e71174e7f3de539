//! The asking end, and both ends over a socket with the data thread played by the test.

use std::sync::Mutex;

use fairlink_core::{ClassId, Nanos};

use super::*;
use crate::gateway::account::Generation;
use crate::gateway::control::Control;
use crate::gateway::remote::Publisher;
use crate::gateway::trace::{Gone, Passing};

/// A file that the test reads too, and that takes so many bytes.
#[derive(Clone)]
struct Shared(Arc<Mutex<Vec<u8>>>, usize);

impl Shared {
    fn new() -> Self {
        Self(Arc::default(), usize::MAX)
    }

    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut file = self.0.lock().unwrap();
        if file.len() + bytes.len() > self.1 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

const NO_LIMITS: RecordingLimits = RecordingLimits { packets: u64::MAX, bytes: u64::MAX, duration: Duration::MAX };

fn traced(number: u64, len: usize) -> TracedPacket {
    let fate = Fate::Dropped { at: Nanos(5), reason: "shed" };
    let arrived = Nanos(number);
    TracedPacket {
        number,
        class: ClassId(1),
        arrived,
        len: len as u32,
        accounted: len as u32,
        fate,
        bytes: vec![0; len],
    }
}

fn page(file: &Shared, limits: RecordingLimits) -> Page {
    let written = Arc::new(AtomicU64::new(0));
    let counting = Counting { file: file.clone(), written: Arc::clone(&written) };
    let sink = RecordingFormat::Csv.begin(counting, "in").unwrap();
    Page { sink, names: vec!["link".to_owned(), "a".to_owned()], limits, written, recorded: NOTHING, end: false }
}

/// The first column of a trace.
fn numbers(text: &str) -> Vec<u64> {
    text.lines().skip(1).map(|line| line.split(',').next().unwrap().parse().unwrap()).collect()
}

#[test]
fn packets_stand_in_the_order_of_arrival_without_those_that_are_missing() {
    let file = Shared::new();
    let (mut page, mut order) = (page(&file, NO_LIMITS), InOrder::default());
    for number in [2, 0, 4, 3, 7] {
        order.put(number, Some(traced(number, 60)), &mut page).unwrap();
    }
    assert_eq!(numbers(&file.text()), [1], "nothing is known of the second");
    order.put(1, None, &mut page).unwrap();
    assert_eq!(numbers(&file.text()), [1, 3, 4, 5]);
    order.end(&mut page).unwrap();
    assert_eq!(numbers(&file.text()), [1, 3, 4, 5, 8]);
    assert_eq!((page.recorded.packets, page.recorded.late, page.recorded.dropped), (5, 0, 5));
}

#[test]
fn memory_is_bounded_and_what_is_overtaken_for_that_is_counted() {
    let file = Shared::new();
    let (mut page, mut order) = (page(&file, NO_LIMITS), InOrder::default());
    let each = 1 << 16;
    let fit = (MAX_KEPT / (each + KEPT_OVERHEAD)) as u64;
    for number in 1..=fit + 3 {
        order.put(number, Some(traced(number, each)), &mut page).unwrap();
        assert!(order.bytes <= MAX_KEPT);
    }
    order.put(0, Some(traced(0, each)), &mut page).unwrap();
    order.end(&mut page).unwrap();
    let numbers = numbers(&file.text());
    assert_eq!(numbers.len() as u64, fit + 4);
    assert_eq!((page.recorded.late, numbers.iter().position(|&number| number == 1)), (1, Some(fit as usize + 3)));
    assert_eq!(order.bytes, 0);
}

#[test]
fn a_file_has_as_many_packets_as_asked_for_and_no_more_bytes_than_one_packet_beyond_the_limit() {
    let (file, limits) = (Shared::new(), RecordingLimits { packets: 3, ..NO_LIMITS });
    let (mut by_packets, mut order) = (page(&file, limits), InOrder::default());
    (0..9).for_each(|number| order.put(number, Some(traced(number, 60)), &mut by_packets).unwrap());
    assert_eq!((numbers(&file.text()).len(), by_packets.full()), (3, Some(Ended::Packets)));
    let (file, limits) = (Shared::new(), RecordingLimits { bytes: 300, ..NO_LIMITS });
    let (mut by_bytes, mut order) = (page(&file, limits), InOrder::default());
    (0..9).for_each(|number| order.put(number, Some(traced(number, 60)), &mut by_bytes).unwrap());
    let longest = file.text().lines().map(str::len).max().unwrap();
    assert!((300..300 + longest).contains(&file.text().len()), "{}", file.text());
    assert_eq!(by_bytes.full(), Some(Ended::Bytes));
}

/// A gateway whose data thread does nothing but tell of packets, until it is told to end or nobody listens.
struct Told {
    control: Control,
    publisher: Publisher,
    directory: PathBuf,
}

impl Told {
    fn new(name: &str) -> Self {
        let directory = std::env::temp_dir().join(format!("fairlink-recording-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let classes = vec!["link".to_owned(), "a".to_owned()];
        let publisher = Publisher::new(Generation { pool_frames: 4, names: classes, ..Generation::flat(2) });
        let control = Control::start(&directory.join("s"), publisher.remote()).unwrap();
        Self { control, publisher, directory }
    }

    fn path(&self) -> PathBuf {
        self.control.path().to_owned()
    }

    /// Plays the data thread: `packets` of them, then idle until the trace is over, or for ever at once if `die`.
    fn play(&mut self, packets: u64, die: bool) {
        let mut tap = loop {
            match self.publisher.take_tap() {
                Some(tap) => break tap,
                None => std::thread::sleep(Duration::from_millis(1)),
            }
        };
        tap.start(0);
        for number in 0..packets {
            tap.came(0);
            let bytes = [number as u8; 60];
            let packet = Passing { class: ClassId(1), len: 60, accounted: 60, received: Nanos(number), bytes: &bytes };
            tap.gone(0, packet, Gone::Sent(Nanos(number + 1)));
        }
        while !die && !tap.is_over(Nanos(0)) {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.publisher.give_back(tap);
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// Records as `limits` and `stop` say while `gateway` plays; what was recorded, and the file.
fn record(told: &mut Told, limits: RecordingLimits, stop: bool, packets: u64, die: bool) -> (Recorded, String) {
    let path = told.path();
    std::thread::scope(|scope| {
        let asking = scope.spawn(move || {
            let (file, stop, begun) = (Shared::new(), AtomicBool::new(stop), AtomicBool::new(false));
            let recording = Recording::begin(&path, None).unwrap();
            let begin = || begun.store(true, Ordering::Relaxed);
            let recorded = recording.write(file.clone(), RecordingFormat::Csv, limits, &stop, begin).unwrap();
            assert!(begun.into_inner());
            assert_eq!(recorded.bytes, file.text().len() as u64);
            (recorded, file.text())
        });
        told.play(packets, die);
        asking.join().unwrap()
    })
}

#[test]
fn a_trace_ends_when_it_is_told_to_at_its_limits_and_with_the_gateway() {
    let mut told = Told::new("ends");
    let (recorded, text) = record(&mut told, NO_LIMITS, true, 1000, false);
    assert_eq!(recorded.ended, Ended::Asked);
    assert_eq!((recorded.packets + recorded.missed, recorded.late), (1000, 0));
    assert!(text.lines().nth(1).unwrap().starts_with("1,a,0.000000000,"), "{text}");
    // One after the other, each from its own beginning.
    let limits = RecordingLimits { packets: 7, ..NO_LIMITS };
    let (recorded, text) = record(&mut told, limits, false, 1000, false);
    assert_eq!((recorded.ended, recorded.packets, numbers(&text).len()), (Ended::Packets, 7, 7));
    let limits = RecordingLimits { duration: Duration::from_millis(20), ..NO_LIMITS };
    let (recorded, _) = record(&mut told, limits, false, 5, false);
    assert_eq!((recorded.ended, recorded.packets), (Ended::Duration, 5));
    let (recorded, _) = record(&mut told, NO_LIMITS, false, 5, true);
    assert_eq!((recorded.ended, recorded.packets), (Ended::Gateway, 5));
}

#[test]
fn one_trace_at_a_time_and_none_of_a_gateway_that_has_ended() {
    let mut told = Told::new("one");
    let path = told.path();
    let first = Recording::begin(&path, None).unwrap();
    let error = Recording::begin(&path, None).err().unwrap();
    assert!(error.to_string().contains("one at a time, end it first"), "{error}");
    drop(first);
    told.play(0, false);
    let _again = Recording::begin(&path, None).unwrap();
    let directory = std::mem::take(&mut told.directory);
    told.publisher = Publisher::new(Generation::flat(2));
    let error = Recording::begin(&path, None).err().unwrap();
    assert!(error.to_string().contains("the gateway never ran"), "{error}");
    std::fs::remove_dir_all(directory).unwrap();
}

#[test]
fn a_full_disk_ends_the_trace_and_the_next_one_may_begin() {
    let mut told = Told::new("full");
    let path = told.path();
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| {
            let file = Shared(Arc::default(), 5000);
            let recording = Recording::begin(&path, None).unwrap();
            recording.write(file, RecordingFormat::Csv, NO_LIMITS, &AtomicBool::new(false), || ())
        });
        told.play(100_000, false);
        let error = asking.join().unwrap().unwrap_err();
        assert!(
            matches!(error, RecordingError::File(ref error) if error.kind() == io::ErrorKind::StorageFull),
            "{error}"
        );
    });
    let limits = RecordingLimits { packets: 2, ..NO_LIMITS };
    assert_eq!(record(&mut told, limits, false, 9, false).0.packets, 2);
}

#[test]
fn a_gateway_that_dies_without_a_word_leaves_what_it_sent() {
    let directory = std::env::temp_dir().join(format!("fairlink-recording-dies-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let path = directory.join("s");
    let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let (mut tap, mut feed) = crate::gateway::trace::begin(1, 0, u32::MAX);
    tap.start(0);
    tap.came(0);
    let packet = Passing { class: ClassId(1), len: 60, accounted: 60, received: Nanos(0), bytes: &[1; 60] };
    tap.gone(0, packet, Gone::Sent(Nanos(1)));
    let mut records = Vec::new();
    feed.read(&mut records, 1 << 20);
    let file = Shared::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.read(&mut [0; 1000]);
            let reply = "{\"ok\":true,\"trace\":{\"input\":\"i\",\"output\":\"o\",\"scheduler\":\"s\",\"link_bps\":1,\"classes\":[]}}\n";
            stream.write_all(reply.as_bytes()).unwrap();
            // It dies in the middle of a record.
            stream.write_all(&records).unwrap();
            stream.write_all(&records[16..40]).unwrap();
        });
        let recording = Recording::begin(&path, None).unwrap();
        let stop = AtomicBool::new(false);
        let error = recording.write(file.clone(), RecordingFormat::Csv, NO_LIMITS, &stop, || ()).unwrap_err();
        assert!(error.to_string().contains("was killed") && error.to_string().contains("the 1 packets"), "{error}");
    });
    assert_eq!(numbers(&file.text()), [1]);
    std::fs::remove_dir_all(directory).unwrap();
}
