//! Well-behaved and misbehaving scrapers, and their answers.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use super::grammar::{self, Sample};
use super::*;
use crate::gateway::account::Generation;
use crate::gateway::account::played::{Played, two_levels};
use crate::gateway::remote::Publisher;

/// Any free port of this machine.
const HERE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
const GET: &[u8] = b"GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n";

fn connected(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream
}

/// The whole answer to a request.
fn ask(address: SocketAddr, request: &[u8]) -> String {
    let mut stream = connected(address);
    stream.write_all(request).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

/// Checks the length of an answer and returns its body.
fn body(answer: &str) -> &str {
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())), "{head}");
    body
}

/// A data thread that moves packets and answers requests, until it is dropped.
struct Playing {
    thread: Option<JoinHandle<(u64, usize)>>,
    stop: Arc<AtomicBool>,
    remote: Remote,
}

impl Playing {
    fn new(inner: usize, leaves: usize) -> Self {
        let tree = two_levels(inner, leaves);
        let publisher = Publisher::new(Generation::of_tree(tree.clone(), "hls"));
        let (remote, stop) = (publisher.remote(), Arc::new(AtomicBool::new(false)));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut played = Played::new(tree, "hls");
            // It counts for the generation of the publisher.
            played.generation = Arc::clone(publisher.generation());
            played.data_path.counters = crate::gateway::stats::EdgeCounters::new(played.generation.delays.clone());
            played.answer(publisher, &stopped)
        });
        Self { thread: Some(thread), stop, remote }
    }

    /// Returns the number of answers, and the largest number of pieces of answers between two turns.
    fn end(mut self) -> (u64, usize) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap()
    }
}

impl Drop for Playing {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// The value of a sample with these labels.
fn value(samples: &[Sample], name: &str, labels: &[(&str, &str)]) -> f64 {
    let labels = labels.iter().map(|&(label, value)| (label.to_owned(), value.to_owned())).collect();
    let found = samples.iter().find(|sample| sample.name == name && sample.labels == labels);
    found.unwrap_or_else(|| panic!("no {name} with {labels:?}")).value
}

#[test]
fn a_scraper_is_told_of_every_class_and_sums_over_leaves_are_the_links() {
    let playing = Playing::new(3, 4);
    let metrics = Metrics::start(HERE, playing.remote.clone()).unwrap();
    std::thread::sleep(SHORTEST + Duration::from_millis(100));
    let answer = ask(metrics.address(), GET);
    assert!(
        answer.starts_with("HTTP/1.1 200 OK\r\nContent-Type: application/openmetrics-text; version=1.0.0"),
        "{answer}"
    );
    let text = body(&answer);
    let samples = grammar::read(text);
    let link = [("link", "out")];
    for (what, unit) in [("received", "bytes"), ("received", "packets"), ("sent", "bytes"), ("sent", "packets")] {
        let name = format!("fairlink_class_{what}_{unit}_total");
        let sum = |leaf: &str| -> f64 {
            let of = samples.iter().filter(|sample| sample.name == name && sample.labels["leaf"] == leaf);
            of.map(|sample| sample.value).sum()
        };
        let whole = value(&samples, &format!("fairlink_link_{what}_{unit}_total"), &link);
        assert!(whole > 0.0 && sum("true") == whole && sum("false") == whole, "{what} {unit}: {text}");
    }
    let class = [("link", "out"), ("class", "2"), ("leaf", "true")];
    for name in ["rate", "ideal", "demand", "guarantee"] {
        assert!(value(&samples, &format!("fairlink_class_{name}_bits_per_second"), &class) > 0.0, "{name}: {text}");
    }
    assert!(value(&samples, "fairlink_class_delay_seconds_count", &class) > 0.0);
    let limits: Vec<_> = samples.iter().filter(|sample| sample.name == "fairlink_class_limited_seconds").collect();
    assert!(limits.iter().all(|sample| sample.value > 0.0), "{text}");
    assert!(limits.iter().all(|sample| sample.labels.contains_key("limited_by")), "{text}");
    assert_eq!(value(&samples, "fairlink_gateway_up", &link), 1.0);
    assert_eq!(value(&samples, "fairlink_gateway_balanced", &link), 1.0);
    let reasons = samples.iter().filter(|sample| sample.name == "fairlink_class_dropped_packets_total");
    assert!(reasons.clone().any(|sample| sample.labels["reason"] == "too_long"));
}

#[test]
fn a_class_that_gets_no_more_has_its_limit_by_kind_by_name_and_since_when() {
    let mut played = Played::new(two_levels(2, 2), "hls");
    let before = played.observe();
    for milli in 0..100 {
        (0..10).for_each(|_| played.arrive(0, 1000));
        (0..10).for_each(|_| played.arrive(1, 1000));
        (0..20).for_each(|part| played.turn(milli * 1_000_000 + part * 50_000));
    }
    let after = played.observe();
    let interval = Interval::of_links(&[Some((&before, &after))]).swap_remove(0);
    let page = LinkPage { name: "l".to_owned(), observation: Some(Arc::new(after)), interval };
    let text = Page::new(vec![page], Links::default().reloads()).text(&Filter::default());
    let samples = grammar::read(&text);
    for (class, leaf, limit, by) in
        [("1", "false", "link", "link"), ("2", "true", "parent", "1"), ("5", "true", "demand", "")]
    {
        let labels = [("link", "l"), ("class", class), ("leaf", leaf), ("limit", limit), ("limited_by", by)];
        let since = value(&samples, "fairlink_class_limited_seconds", &labels);
        assert!((since - 0.1).abs() < 0.01, "{text}");
    }
    assert!(!text.contains("fairlink_class_ceiling_bits_per_second{"), "no class has one");
}

#[test]
fn a_filter_leaves_out_classes_and_keeps_the_links_own_metrics() {
    let playing = Playing::new(3, 4);
    let metrics = Metrics::start(HERE, playing.remote.clone()).unwrap();
    let names = |query: &str| -> std::collections::BTreeSet<String> {
        let answer = ask(metrics.address(), format!("GET /metrics?{query} HTTP/1.1\r\n\r\n").as_bytes());
        let samples = grammar::read(body(&answer));
        assert_eq!(value(&samples, "fairlink_gateway_up", &[("link", "out")]), 1.0, "{query}");
        samples.iter().filter_map(|sample| sample.labels.get("class").cloned()).collect()
    };
    let set = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
    assert_eq!(names("").len(), 15);
    assert_eq!(names("depth=1"), set(&["1", "6", "11"]));
    assert_eq!(names("class=1%2A"), set(&["1", "10", "11", "12", "13", "14", "15"]));
    assert_eq!(names("class=1*&depth=1"), set(&["1", "11"]));
    assert_eq!(names("class=x"), set(&[]));
    assert!(ask(metrics.address(), b"GET /metrics?depth=0 HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 400"));
}

#[test]
fn health_is_that_of_the_data_threads_and_readiness_asks_for_interfaces_too() {
    use crate::gateway::liveness::Liveness;
    let links = Links::default();
    let metrics = Metrics::start(HERE, links.clone()).unwrap();
    let get = |path: &str| ask(metrics.address(), format!("GET {path} HTTP/1.1\r\n\r\n").as_bytes());
    assert!(get("/healthz").starts_with("HTTP/1.1 200 OK") && body(&get("/healthz")) == "ok\n");
    assert!(get("/readyz").starts_with("HTTP/1.1 503") && get("/readyz").contains("no link is served"));
    let publisher = Publisher::new(Generation::flat(2));
    let mut liveness = Liveness::new(fairlink_core::Nanos::from_secs(1));
    links.set(vec![("wan".to_owned(), publisher.remote())]);
    links.set_vitals(vec![("wan".to_owned(), liveness.vitals())]);
    assert!(body(&get("/readyz")).contains("link wan does not run"), "it has not begun");
    let now = || crate::io::clock::Clock::now(&crate::io::clock::MonotonicClock::SHARED);
    let far = now().0 + 3_600_000_000_000;
    liveness.turn(now(), far);
    assert!(get("/readyz").starts_with("HTTP/1.1 200 OK"), "{}", get("/readyz"));
    liveness.lost("gone".to_owned());
    assert!(get("/healthz").starts_with("HTTP/1.1 200 OK"), "it works, and waits");
    assert!(body(&get("/readyz")).contains("link wan waits for an interface"));
    liveness.turn(now(), 1);
    assert!(body(&get("/healthz")).contains("link wan does not work"), "its last turn is long ago");
    assert!(get("/healthz").starts_with("HTTP/1.1 503"));
}

#[test]
fn requests_for_anything_else_are_answered_with_what_there_is() {
    let publisher = Publisher::new(Generation::flat(2));
    let metrics = Metrics::start(HERE, publisher.remote()).unwrap();
    let long = [b"GET /metrics HTTP/1.1\r\nX: ".to_vec(), vec![b'x'; LONGEST_REQUEST]].concat();
    for (request, status, part) in [
        (&b"GET / HTTP/1.1\r\n\r\n"[..], "404", "/metrics"),
        (b"POST /metrics HTTP/1.1\r\nContent-Length: 4\r\n\r\nabcd", "405", "Allow: GET, HEAD"),
        (b"rubbish\r\n\r\n", "400", "Not an HTTP"),
        (b"\x16\x03\x01\x02\x00\n\n", "400", "Not an HTTP"),
        (&long, "431", "8 KiB"),
    ] {
        let answer = ask(metrics.address(), request);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")) && answer.contains(part), "{answer}");
        body(&answer);
    }
}

#[test]
fn a_link_that_does_not_answer_is_told_as_down_and_holds_up_no_other() {
    let (dead, playing) = (Publisher::new(Generation::flat(2)), Playing::new(1, 2));
    let links = vec![("dead".to_owned(), dead.remote()), ("alive".to_owned(), playing.remote.clone())];
    let metrics = Metrics::start(HERE, Links::new(links)).unwrap();
    let answer = ask(metrics.address(), GET);
    let samples = grammar::read(body(&answer));
    assert_eq!(value(&samples, "fairlink_gateway_up", &[("link", "dead")]), 0.0);
    assert_eq!(value(&samples, "fairlink_gateway_up", &[("link", "alive")]), 1.0);
    assert!(value(&samples, "fairlink_link_received_packets_total", &[("link", "alive")]) > 0.0);
}

#[test]
fn scrapers_that_hang_or_flood_hold_up_neither_others_nor_the_data_thread_nor_the_end() {
    let playing = Playing::new(20, 30);
    let metrics = Metrics::start(HERE, playing.remote.clone()).unwrap();
    let address = metrics.address();
    let begin = Instant::now();
    // Silent clients, slow senders, and clients that never read: more than are served at once.
    let mut hanging: Vec<TcpStream> = (0..3 * MAX_CLIENTS).map(|_| connected(address)).collect();
    let asks = |stream: &mut TcpStream| stream.write_all(GET).is_ok();
    assert!(hanging.iter_mut().take(MAX_CLIENTS).map(asks).count() > 0);
    let flood = std::thread::spawn(move || {
        let mut answers = 0;
        while answers < 200 {
            let Ok(mut stream) = TcpStream::connect(address) else { continue };
            let mut text = Vec::new();
            if stream.write_all(GET).is_ok() && stream.read_to_end(&mut text).is_ok() {
                answers += 1;
            }
        }
    });
    let mut scraped = 0;
    while scraped < 5 {
        hanging.iter_mut().skip(2 * MAX_CLIENTS).for_each(|stream| drop(stream.write_all(b"G")));
        let mut stream = connected(address);
        let mut text = String::new();
        // It may be the connection that another replaced.
        if stream.write_all(GET).is_ok() && stream.read_to_string(&mut text).is_ok() && text.ends_with("# EOF\n") {
            scraped += 1;
        }
    }
    flood.join().unwrap();
    drop(metrics);
    let lasted = begin.elapsed();
    // One after the other, the hanging ones alone would have taken longer than this.
    assert!(lasted < PATIENCE * MAX_CLIENTS as u32, "{lasted:?}");
    let (answers, most) = playing.end();
    assert_eq!(most, 1, "64 classes at most between two turns");
    // Maximum number of answers, whatever the number of requests.
    let possible = lasted.as_millis() / FRESH.as_millis() + 2;
    assert!(u128::from(answers) <= possible, "{answers} answers in {lasted:?}");
}

#[test]
fn an_address_that_cannot_be_had_is_refused_with_what_to_do() {
    let publisher = Publisher::new(Generation::flat(1));
    let metrics = Metrics::start(HERE, publisher.remote()).unwrap();
    let taken = Metrics::start(metrics.address(), publisher.remote()).unwrap_err();
    assert!(taken.to_string().contains("choose another"), "{taken}");
    let foreign = Metrics::start("192.0.2.1:9400".parse().unwrap(), publisher.remote()).unwrap_err();
    assert!(foreign.to_string().contains("an address of this machine"), "{foreign}");
}

#[test]
fn ten_thousand_classes_are_told() {
    let playing = Playing::new(100, 100);
    let metrics = Metrics::start(HERE, playing.remote.clone()).unwrap();
    let answer = ask(metrics.address(), GET);
    let text = body(&answer);
    println!("{} bytes", text.len());
    let leaves = text
        .lines()
        .filter(|line| line.starts_with("fairlink_class_sent_packets_total{") && line.contains("leaf=\"true\""));
    assert_eq!(leaves.count(), 10_000);
    // Only some have their own delays.
    let histograms = text
        .lines()
        .filter(|line| line.starts_with("fairlink_class_delay_seconds_count{") && line.contains("leaf=\"true\""));
    assert_eq!(histograms.count(), crate::gateway::account::MAX_HISTOGRAMS);
    assert!(text.len() < 32 << 20, "{} bytes", text.len());
    assert_eq!(playing.end().1, 1);
}

#[test]
fn names_of_any_kind_are_escaped_as_the_format_has_it() {
    let mut generation = Generation::flat(2);
    generation.names = vec!["link".to_owned(), "a\\b {x}, \u{e9}".to_owned(), "\\".to_owned()];
    let publisher = Publisher::new(generation);
    let snapshot = crate::gateway::account::Snapshot::new(Arc::clone(publisher.generation()));
    let observation = Some(Observation::new(Arc::new(snapshot)));
    let page = Page::new(
        vec![LinkPage { name: "up\n\"1\"".to_owned(), observation: observation.map(Arc::new), interval: None }],
        Links::default().reloads(),
    );
    let samples = grammar::read(&page.text(&Filter::default()));
    for class in ["a\\b {x}, \u{e9}", "\\"] {
        let labels = [("link", "up\n\"1\""), ("class", class), ("leaf", "true")];
        assert_eq!(value(&samples, "fairlink_class_sent_packets_total", &labels), 0.0);
    }
}

#[test]
fn the_page_is_as_it_was_reviewed() {
    let (earlier, later) = crate::gateway::account::tests::watched();
    let interval = Interval::of_links(&[Some((&earlier, &later))]).remove(0);
    let link = LinkPage { name: "out".to_owned(), observation: Some(Arc::new(later)), interval };
    let text = Page::new(vec![link], crate::gateway::links::Reloads::default()).text(&Filter::default());
    // The start time of the process differs each time.
    let lines = text.lines().filter(|line| !line.starts_with("fairlink_process") && !line.starts_with("process"));
    insta::assert_snapshot!(lines.collect::<Vec<_>>().join("\n"));
}
