//! The generator's statements about its own frames, replayed recordings, and the kernel's TCP through the gateway, in
//! private network namespaces. Counts, order and lengths are asserted; times, rates and shares depend on the machine
//! and are printed.
#![forbid(unsafe_code)]

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use fairlink_core::{ClassId, Nanos};
use fairlink_net::{Control, Ended, Gateway, Headers, Recorded, Recording, RecordingLimits};
use fairlink_testbed::{
    FrameChoice, Generator, GeneratorConfig, PrivateNamespace, ReceiverConfig, TcpClient, TcpClientReport, TcpConfig,
    TcpExchange, TcpServer, TcpServerReport, flow_headers, lay_cables,
};
use fairlink_traffic::recording::RecordingFormat;
use fairlink_traffic::{
    Accept, Arrival, ArrivalCurve, ArrivalLimit, Excess, Model, PacketSize, Shaped, Source, SourceSpec, Trace,
    read_trace,
};

use crate::both_ends::run;
use crate::cables::{cables, config, generator, parse, rate};
use crate::machines::{between, client, open};
use crate::support;

pub(crate) fn main() -> ExitCode {
    support::main(&[
        ("flows_of_a_class_arrive_each_in_order", flows_of_a_class_arrive_each_in_order),
        ("what_sources_lose_and_what_is_padded_is_reported", what_sources_lose_and_what_is_padded_is_reported),
        ("frames_say_when_they_left_and_the_kernel_when_the_driver_had_them", frames_say_when_they_left),
        ("a_capture_by_tcpdump_replays_with_its_own_timing_and_lengths", a_capture_by_tcpdump_replays),
        ("a_trace_of_the_gateway_has_every_frame_with_its_class_and_replays", a_trace_of_the_gateway_replays),
        ("tcp_through_the_gateway_shares_by_weights", tcp_through_the_gateway_shares_by_weights),
        ("requests_and_responses_are_counted_and_timed", requests_and_responses_are_counted_and_timed),
        ("impossible_connections_are_refused_with_the_reason", impossible_connections_are_refused),
    ])
}

fn flows_of_a_class_arrive_each_in_order(_: &PrivateNamespace) {
    lay_cables(&[("gen", "sink")]).unwrap();
    let matches = [(ClassId(1), parse("udp dst port 5001")), (ClassId(2), parse("ip6 dscp ef"))];
    let model = Model::cbr(rate(4_000_000));
    let mut config =
        generator(&[1, 2].map(|class| (class, model.clone(), PacketSize::Fixed(500), Headers::udp(0))), 400, 1);
    let flows = |class| flow_headers(class, &matches, None, FrameChoice::default(), 5).unwrap();
    config.classes = [ClassId(1), ClassId(2)]
        .into_iter()
        .flat_map(|class| flows(class).into_iter().map(move |flow| (class, flow)))
        .collect();
    let (sent, received) = run(config, ReceiverConfig { flows: 5, ..ReceiverConfig::new("sink") });
    assert_eq!(received.flows.len(), 10);
    for class in [1, 2] {
        let (sent, got) = (sent.class(ClassId(class)).unwrap(), received.class(ClassId(class)).unwrap());
        assert_eq!(sent.sent_packets, got.received_packets + received.socket_drops);
        let flows = || received.flows.iter().filter(|flow| flow.class == class);
        assert_eq!(flows().map(|flow| flow.received_packets).sum::<u64>(), got.received_packets);
        assert!(flows().all(|flow| flow.reordered_packets + flow.duplicate_packets == 0));
        let counts: Vec<u64> = flows().map(|flow| flow.received_packets).collect();
        assert!(received.socket_drops > 0 || counts.iter().max().unwrap() - counts.iter().min().unwrap() <= 1);
    }
}

fn what_sources_lose_and_what_is_padded_is_reported(_: &PrivateNamespace) {
    lay_cables(&[("gen", "sink")]).unwrap();
    // Packets of 40 to 90 B, of which those below 64 B are padded; and a load three times the rate of a policer.
    let packets = (0..51).map(|n| Arrival { at: Nanos::from_millis(4 * n), len: 40 + n as u32 }).collect();
    let trace = Model::Trace(Trace::new(packets, false).unwrap());
    let limit = ArrivalLimit::Bucket { rate_bps: 1_000_000, burst: 2000 };
    let policed = Model::Shaped(Box::new(Shaped {
        model: Model::cbr(rate(3_000_000)),
        curve: ArrivalCurve::from(limit),
        excess: Excess::Drops,
    }));
    let sources = [
        (1, trace, PacketSize::Fixed(1000), Headers::udp(5001)),
        (2, policed.clone(), PacketSize::Fixed(500), Headers::udp(5002)),
    ];
    let (sent, received) = run(generator(&sources, 300, 1), ReceiverConfig::new("sink"));
    let padded = sent.class(ClassId(1)).unwrap();
    // A late frame is not padded.
    assert!(padded.padded_packets <= 24 && padded.padded_packets + padded.late_packets >= 24, "{padded:?}");
    if padded.late_packets + received.socket_drops == 0 {
        let bytes: u32 = (0..51).map(|n| (40 + n).max(64)).sum();
        assert_eq!((padded.sent_packets, padded.sent_bytes), (51, bytes.into()));
        assert_eq!(received.class(ClassId(1)).unwrap().received_bytes, u64::from(bytes));
    }
    let policed_sent = sent.class(ClassId(2)).unwrap();
    let spec = SourceSpec { class: ClassId(2), model: policed, packet: PacketSize::Fixed(500), active: Vec::new() };
    let mut same = Source::new(&spec, 1, 1, Nanos::from_millis(300)).unwrap();
    let offered = same.by_ref().count() as u64;
    assert_eq!((policed_sent.offered_packets, policed_sent.lost_at_source_packets), (offered, same.lost().packets));
    assert!(policed_sent.lost_at_source_packets > offered);
}

fn frames_say_when_they_left(_: &PrivateNamespace) {
    lay_cables(&[("gen", "sink")]).unwrap();
    let source = (1, Model::cbr(rate(8_000_000)), PacketSize::Fixed(1000), Headers::udp(5001));
    let config = GeneratorConfig { kernel_stamps: true, ..generator(&[source], 300, 1) };
    let (sent, _) = run(config, ReceiverConfig::new("sink"));
    let class = &sent.classes[0];
    let due = sent.departure_after_due_s.unwrap();
    assert_eq!(due.packets, class.sent_packets + class.refused_packets);
    // A packet that is overdue by more than 20 ms is not sent.
    assert!(due.p50 <= due.p99 && due.p99 <= due.p999 && due.p999 <= due.max, "{due:?}");
    println!("stamped after their time: {due:?}");
    match sent.driver_after_stamp_s {
        Some(driver) => {
            assert!((1..=class.sent_packets).contains(&driver.packets), "{driver:?} of {class:?}");
            println!("with the driver after their stamp: {driver:?}");
        }
        None => println!("SKIPPED: this kernel gives no stamps of frames sent"),
    }
}

/// Records arrivals at `interface` while `play` runs; `None` if tcpdump is missing.
fn record<T>(interface: &str, file: &Path, play: impl FnOnce() -> T) -> Option<T> {
    let arguments =
        ["-i", interface, "-n", "-U", "--immediate-mode", "--time-stamp-precision=nano", "-Z", "root", "-w"];
    let mut tcpdump = match Command::new("tcpdump").args(arguments).arg(file).stderr(Stdio::piped()).spawn() {
        Ok(tcpdump) => tcpdump,
        Err(why) => {
            println!("SKIPPED: a capture by tcpdump: {why}");
            return None;
        }
    };
    let mut said = BufReader::new(tcpdump.stderr.take().unwrap());
    let mut line = String::new();
    while said.read_line(&mut line).unwrap() > 0 && !line.contains("listening on") {}
    if !line.contains("listening on") {
        println!("SKIPPED: a capture by tcpdump: {line}");
        return None;
    }
    let result = play();
    std::thread::sleep(Duration::from_millis(300));
    let interrupted = Command::new("kill").args(["-INT", &tcpdump.id().to_string()]).status().unwrap();
    assert!(interrupted.success());
    tcpdump.wait().unwrap();
    Some(result)
}

/// Times in ns and lengths of a capture of whole frames in nanoseconds, read without the library's reader.
fn frames(file: &Path) -> Vec<(u64, u32)> {
    let bytes = std::fs::read(file).unwrap();
    let number = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    assert_eq!(number(0), 0xa1b2_3c4d);
    let (mut at, mut all) = (24, Vec::new());
    while at < bytes.len() {
        all.push((u64::from(number(at)) * 1_000_000_000 + u64::from(number(at + 4)), number(at + 12)));
        at += 16 + number(at + 8) as usize;
    }
    all
}

fn a_capture_by_tcpdump_replays(_: &PrivateNamespace) {
    lay_cables(&[("gen", "sink")]).unwrap();
    let dir = std::env::temp_dir().join(format!("fairlink-replay-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let (first, second) = (dir.join("first.pcap"), dir.join("second.pcap"));
    let sizes = PacketSize::Uniform { min: 64, max: 1400, header: 0 };
    let source = (1, Model::poisson_packets(400_000), sizes, Headers::udp(5001));
    let play = |config: GeneratorConfig| Generator::open(config).unwrap().run(&AtomicBool::new(false), |_| ()).unwrap();
    let Some(sent) = record("sink", &first, || play(generator(&[source], 1000, 1))) else { return };
    let recorded = frames(&first);
    assert_eq!(recorded.len() as u64, sent.classes[0].sent_packets);
    assert_eq!(recorded.iter().map(|&(_, len)| u64::from(len)).sum::<u64>(), sent.classes[0].sent_bytes);

    // In the simulator the recording arrives unchanged: its lengths, and its gaps to the nanosecond.
    let trace = read_trace(std::fs::File::open(&first).unwrap(), Accept::default(), false, |_| true).unwrap();
    let model = Model::Trace(trace);
    let spec = SourceSpec { class: ClassId(1), model: model.clone(), packet: PacketSize::Fixed(1), active: Vec::new() };
    let arrivals: Vec<(u64, u32)> =
        Source::new(&spec, 1, 0, Nanos::from_secs(9)).unwrap().map(|arrival| (arrival.at.0, arrival.len)).collect();
    let expected: Vec<(u64, u32)> = recorded.iter().map(|&(at, len)| (at - recorded[0].0, len)).collect();
    assert_eq!(arrivals, expected);

    // On the cable it is sent again with the same lengths in the same order; the accuracy of its gaps depends on the
    // machine.
    let again = (1, model, PacketSize::Fixed(1), Headers::udp(5001));
    let sent = record("sink", &second, || play(generator(&[again], 3000, 1))).unwrap();
    let (replayed, class) = (frames(&second), &sent.classes[0]);
    assert_eq!((class.offered_packets, class.padded_packets), (recorded.len() as u64, 0));
    assert_eq!(class.sent_packets + class.late_packets + class.refused_packets, class.offered_packets);
    assert_eq!(replayed.len() as u64, class.sent_packets);
    if class.late_packets + class.refused_packets == 0 {
        let lengths = |frames: &[(u64, u32)]| frames.iter().map(|&(_, len)| len).collect::<Vec<_>>();
        assert_eq!(lengths(&replayed), lengths(&recorded));
        let off = |(one, other): (&(u64, u32), &(u64, u32))| {
            ((one.0 - replayed[0].0) as i64 - (other.0 - recorded[0].0) as i64).unsigned_abs()
        };
        let mut off: Vec<u64> = replayed.iter().zip(&recorded).map(off).collect();
        off.sort_unstable();
        println!("off its own time: median {} us, longest {} us", off[off.len() / 2] / 1000, off[off.len() - 1] / 1000);
    }
    println!("left after their time: {:?}", sent.departure_after_due_s);
    std::fs::remove_dir_all(dir).unwrap();
}

/// A packet of a trace.
struct Noted {
    at: u64,
    bytes: Vec<u8>,
    comment: String,
}

/// The packets of a pcapng file in nanoseconds, read without the library's reader.
fn noted(file: &Path) -> Vec<Noted> {
    let bytes = std::fs::read(file).unwrap();
    let number = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let (mut at, mut all) = (0, Vec::new());
    while at < bytes.len() {
        let end = at + number(at + 4) as usize;
        assert_eq!(number(end - 4) as usize, end - at, "a whole block");
        if number(at) == 6 {
            let kept = number(at + 20) as usize;
            assert_eq!(number(at + 24) as usize, kept, "a whole packet");
            let option = at + 28 + kept.next_multiple_of(4);
            assert_eq!(number(option) & 0xffff, 1, "a comment");
            let length = (number(option) >> 16) as usize;
            all.push(Noted {
                at: u64::from(number(at + 12)) << 32 | u64::from(number(at + 16)),
                bytes: bytes[at + 28..at + 28 + kept].to_vec(),
                comment: String::from_utf8(bytes[option + 4..option + 4 + length].to_vec()).unwrap(),
            });
        }
        at = end;
    }
    all
}

/// Runs `play` while the gateway with the socket at `path` is traced into `file`.
fn traced<T: Send>(path: &Path, file: &Path, play: impl FnOnce() -> T + Send) -> (Recorded, T) {
    let (begun, begin) = mpsc::channel();
    let stop = AtomicBool::new(false);
    let limits = RecordingLimits { packets: u64::MAX, bytes: u64::MAX, duration: Duration::MAX };
    std::thread::scope(|scope| {
        let recording = Recording::begin(path, None).unwrap();
        let into = std::fs::File::create(file).unwrap();
        let stop = &stop;
        let asking = scope.spawn(move || {
            recording.write(into, RecordingFormat::Pcapng, limits, stop, || begun.send(()).unwrap()).unwrap()
        });
        begin.recv().unwrap();
        let result = play();
        stop.store(true, Ordering::Relaxed);
        (asking.join().unwrap(), result)
    })
}

fn a_trace_of_the_gateway_replays(_: &PrivateNamespace) {
    cables();
    let dir = std::env::temp_dir().join(format!("fairlink-traced-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let (socket, file, seen) = (dir.join("s"), dir.join("t.pcapng"), dir.join("t.pcap"));
    // Class 1 sends twice the link's rate and loses packets, 3 has no match.
    let gateway = Gateway::open(config(3_000_000, "hls")).unwrap();
    let control = Control::start(&socket, gateway.remote()).unwrap();
    let sizes = || PacketSize::Uniform { min: 64, max: 1400, header: 0 };
    let sources = [
        (1, Model::poisson(rate(6_000_000)), sizes(), Headers::udp(5001)),
        (2, Model::poisson(rate(500_000)), sizes(), Headers::udp(5002)),
        (3, Model::poisson(rate(500_000)), sizes(), Headers::udp(7)),
    ];
    let config = generator(&sources, 800, 1);
    let play = || Generator::open(config).unwrap().run(&AtomicBool::new(false), |_| ()).unwrap();
    let stop = AtomicBool::new(false);
    let (stats, recorded, captured, sent) = std::thread::scope(|scope| {
        let forwarded = scope.spawn(|| gateway.run(&stop).unwrap());
        let (recorded, (captured, sent)) = traced(&socket, &file, || {
            let mut play = Some(play);
            match record("in", &seen, || play.take().unwrap()()) {
                Some(sent) => (true, sent),
                None => (false, play.take().unwrap()()),
            }
        });
        // Queued packets leave within the second that the trace waits for.
        stop.store(true, Ordering::Relaxed);
        (forwarded.join().unwrap(), recorded, captured, sent)
    });
    drop(control);
    let trace = noted(&file);
    println!("{recorded:?}");
    assert_eq!((trace.len() as u64, recorded.late, recorded.missed), (recorded.packets, 0, 0));
    assert_eq!(recorded.ended, Ended::Asked);
    assert_eq!(recorded.packets + recorded.unfinished, stats.counts().received.packets);
    assert_eq!(recorded.dropped, stats.counts().dropped.packets);
    assert!(recorded.dropped > 0 && trace.iter().any(|noted| noted.comment.contains(": queue_packets")));
    // Each frame as the generator made it, with its class, in the order of sending.
    for (class, name) in [(1, "a"), (2, "b"), (3, "c")] {
        let own = || trace.iter().filter(|noted| noted.comment.contains(&format!(", class {name}, ")));
        let class_sent = sent.class(ClassId(class)).unwrap();
        let missing = stats.gateway().unreceived_packets() + recorded.unfinished;
        assert!(own().count() as u64 <= class_sent.sent_packets);
        assert!(own().count() as u64 + missing >= class_sent.sent_packets, "{name}");
        if missing == 0 {
            assert_eq!(own().map(|noted| noted.bytes.len() as u64).sum::<u64>(), class_sent.sent_bytes);
        }
        let port = [5001, 5002, 7][class as usize - 1];
        assert!(own().all(|noted| noted.bytes[36..38] == u16::to_be_bytes(port)), "{name}");
        let delay =
            |noted: &&Noted| noted.comment.contains("queueing delay 0.") || noted.comment.contains("dropped at ");
        assert!(own().all(|noted| delay(&noted)), "{}", trace[0].comment);
    }
    assert!(trace.is_sorted_by_key(|noted| noted.at));
    if captured && stats.gateway().unreceived_packets() + recorded.unfinished == 0 {
        // The same frames as captured by another program, none of them earlier.
        let captured = frames(&seen);
        assert_eq!(captured.len(), trace.len());
        let mut after: Vec<i64> = Vec::new();
        for ((at, len), noted) in captured.iter().zip(&trace) {
            assert_eq!(*len as usize, noted.bytes.len());
            after.push(noted.at as i64 - *at as i64);
        }
        after.sort_unstable();
        println!(
            "fetched after they came: median {} us, longest {} us",
            after[after.len() / 2] / 1000,
            after.last().unwrap() / 1000
        );
        // Within the accuracy of two clocks of one machine.
        assert!(after[0] > -1_000_000, "{} ns", after[0]);
    }
    // In the simulator the trace arrives unchanged.
    let replayed = read_trace(std::fs::File::open(&file).unwrap(), Accept::default(), false, |_| true).unwrap();
    let model = Model::Trace(replayed);
    let spec = SourceSpec { class: ClassId(1), model, packet: PacketSize::Fixed(1), active: Vec::new() };
    let arrivals: Vec<(u64, usize)> =
        Source::new(&spec, 1, 0, Nanos::from_secs(9)).unwrap().map(|a| (a.at.0, a.len as usize)).collect();
    let expected: Vec<(u64, usize)> = trace.iter().map(|noted| (noted.at - trace[0].at, noted.bytes.len())).collect();
    assert_eq!(arrivals, expected);
    std::fs::remove_dir_all(dir).unwrap();
}

type Sides = (Vec<TcpClientReport>, Vec<TcpServerReport>);

/// Runs clients through a gateway of 20 Mbit/s, each to its own port, all at once. Port 5202 has three times the weight
/// of port 5201.
fn through_the_gateway(clients: &[TcpConfig]) -> Option<Sides> {
    cables();
    let mut config = config(20_000_000, "hls");
    // The weights of the leaves equal their numbers.
    config.matches = vec![(ClassId(1), parse("tcp dst port 5201")), (ClassId(3), parse("tcp dst port 5202"))];
    config.default_class = ClassId(2);
    let gateway = Gateway::open(config).unwrap();
    let done = AtomicBool::new(false);
    let ran = between(
        gateway,
        || {
            let open: Vec<TcpClient> = clients.iter().map(|config| open(config).unwrap()).collect();
            let never = AtomicBool::new(false);
            let reports = std::thread::scope(|scope| {
                let stop = &never;
                let threads: Vec<_> =
                    open.into_iter().map(|client| scope.spawn(move || client.run(stop, |_, _| ()).unwrap())).collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
            });
            std::thread::sleep(Duration::from_millis(200));
            done.store(true, Ordering::Relaxed);
            reports
        },
        || {
            std::thread::scope(|scope| {
                let serve = |config: &TcpConfig| {
                    let server = TcpServer::open(config.to.port()).unwrap();
                    let done = &done;
                    scope.spawn(move || server.run(done, Some(Duration::from_secs(60)), |_, _| ()).unwrap())
                };
                let threads: Vec<_> = clients.iter().map(serve).collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
            })
        },
    );
    let ran = ran.map(|(sent, received, _)| (sent, received));
    ran.map_err(|why| println!("SKIPPED: TCP through the gateway: {why}")).ok()
}

fn tcp_through_the_gateway_shares_by_weights(_: &PrivateNamespace) {
    let clients = [client(5201, 2, None, 4000), client(5202, 2, None, 4000)];
    let Some((sent, received)) = through_the_gateway(&clients) else { return };
    for (sent, received) in sent.iter().zip(&received) {
        assert_eq!((received.connections.len(), received.refused_connections), (2, 0));
        let acknowledged: u64 = sent.connections.iter().map(|connection| connection.acknowledged_bytes).sum();
        let got: u64 = received.connections.iter().map(|connection| connection.received_bytes).sum();
        // Acknowledged bytes have arrived; a connection may count its hello, too.
        assert!(acknowledged > 0 && acknowledged <= got + 64, "{acknowledged} {got}");
        for connection in &sent.connections {
            assert_eq!(connection.ended_early, None);
            assert!(!connection.congestion_control.is_empty() && connection.rtt_s.is_some(), "{connection:?}");
        }
    }
    let share = sent[1].goodput_bps / (sent[0].goodput_bps + sent[1].goodput_bps);
    println!(
        "3 : 1 came out as {:.2} : 1, together {:.2} of 20 Mbit/s; RTT {:?}",
        sent[1].goodput_bps / sent[0].goodput_bps,
        (sent[0].goodput_bps + sent[1].goodput_bps) / 1e6,
        sent[1].connections[0].rtt_s
    );
    // Loosely: the heavier class gets more.
    assert!(share > 0.5, "{share}");
}

fn requests_and_responses_are_counted_and_timed(_: &PrivateNamespace) {
    let exchange = TcpExchange { request: 200, response: 20_000, think: Nanos::from_millis(5) };
    let reno = TcpConfig { congestion_control: Some("reno".to_owned()), ..client(5202, 1, Some(exchange), 1500) };
    let clients = [client(5201, 2, None, 1500), TcpConfig { dscp: 46, ..reno }];
    let Some((sent, received)) = through_the_gateway(&clients) else { return };
    let (asked, answered) = (&sent[1].connections[0], &received[1].connections[0]);
    let exchanges = asked.exchanges.unwrap();
    assert_eq!((asked.congestion_control.as_str(), asked.ended_early.as_deref()), ("reno", None));
    assert!(exchanges.transactions > 0);
    // The last response may have been in transit.
    assert!((exchanges.transactions..=exchanges.transactions + 1).contains(&answered.requests), "{answered:?}");
    let latency = exchanges.latency_s.unwrap();
    assert_eq!(latency.packets, exchanges.transactions);
    // Responses come back unshaped; requests wait in their class.
    println!("{exchanges:?}");
    assert_eq!(answered.received_bytes / 200, answered.requests + u64::from(answered.received_bytes % 200 > 0));
}

fn impossible_connections_are_refused(_: &PrivateNamespace) {
    let local = |port| TcpConfig { to: SocketAddr::from(([127, 0, 0, 1], port)), ..client(0, 1, None, 100) };
    let error = TcpClient::open(local(5999)).unwrap_err().to_string();
    assert!(error.contains("no connection to 127.0.0.1:5999") && error.contains("receive --tcp 5999"), "{error}");
    let server = TcpServer::open(0).unwrap();
    let port = server.port().unwrap();
    let error = TcpServer::open(port).unwrap_err().to_string();
    assert!(error.contains(&format!("cannot listen at TCP port {port}")), "{error}");
    for name in ["nonsense", "", "a name that is far too long for the kernel"] {
        let config = TcpConfig { congestion_control: Some(name.to_owned()), ..local(port) };
        let error = TcpClient::open(config).unwrap_err().to_string();
        assert!(error.contains(&format!("\"{name}\"")) && error.contains("this kernel has: "), "{error}");
    }
    let exchange = TcpExchange { request: 0, response: 1, think: Nanos::ZERO };
    for (config, expected) in [
        (TcpConfig { connections: 0, ..local(port) }, "connections: 0; 1 to 64 are possible"),
        (TcpConfig { connections: 65, ..local(port) }, "connections: 65; 1 to 64"),
        (TcpConfig { dscp: 64, ..local(port) }, "DSCP: 64; 0 to 63"),
        (TcpConfig { exchange: Some(exchange), ..local(port) }, "bytes of a request: 0; 1 to 67108864"),
    ] {
        let error = TcpClient::open(config).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
    }
    // A stranger is rejected, and a client whose server disappears reports it.
    let (stop, gone) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let served = scope.spawn(|| server.run(&gone, None, |_, _| ()).unwrap());
        let mut stranger = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
        std::io::Write::write_all(&mut stranger, b"GET / HTTP/1.1\r\n\r\n").unwrap();
        let running = TcpClient::open(TcpConfig { duration: Nanos::from_secs(20), ..local(port) }).unwrap();
        let sent = scope.spawn(|| running.run(&stop, |_, _| ()).unwrap());
        std::thread::sleep(Duration::from_millis(300));
        gone.store(true, Ordering::Relaxed);
        let served = served.join().unwrap();
        assert!(served.refused_connections >= 1 && served.connections.len() == 1, "{served:?}");
        let sent = sent.join().unwrap();
        assert!(sent.duration_s < 19.0 && sent.connections[0].ended_early.is_some(), "{sent:?}");
    });
}
