//! Well-behaved and misbehaving clients, and their answers.
#![cfg(target_os = "linux")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fairlink_http::{Http, HttpConfig, MAX_CONNECTIONS, MAX_STREAMS, PageConfig, PageFiles, Token};
use fairlink_net::Links;
use fairlink_net::playing::PlayedLink;
use serde_json::Value;

const GET: &str = "GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";

fn here() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

fn connected(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream
}

/// The whole answer to a request.
fn ask(address: SocketAddr, request: &[u8]) -> String {
    let mut stream = connected(address);
    // A server that refuses a request may close before it has read all of it.
    let _ = stream.write_all(request);
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

fn get(address: SocketAddr, path: &str) -> String {
    ask(address, format!("GET {path} HTTP/1.1\r\nHost: localhost:1\r\n\r\n").as_bytes())
}

fn body(answer: &str) -> &str {
    answer.split_once("\r\n\r\n").map_or("", |(_, body)| body)
}

fn json(answer: &str) -> Value {
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    serde_json::from_str(body(answer)).unwrap()
}

/// A server of metrics alone.
fn metrics(links: impl Into<Links>) -> Http {
    Http::start(&HttpConfig { metrics: Some(here()), ..HttpConfig::default() }, links.into()).unwrap()
}

/// A server of the page, in a directory of its own.
struct Page {
    http: Option<Http>,
    token: String,
    directory: PathBuf,
}

impl Page {
    fn start(name: &str, links: impl Into<Links>) -> Self {
        Self::patient(name, links, HttpConfig::default().taking)
    }

    /// As [`Page::start`], with another time for clients to take anything.
    fn patient(name: &str, links: impl Into<Links>, taking: Duration) -> Self {
        let directory = std::env::temp_dir().join(format!("fairlink-http-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        for file in ["index.html", "page.js.gz", "page.css.gz", "engine.wasm.gz", "import.wasm.gz"] {
            std::fs::write(directory.join(file), format!("<html the {file}>")).unwrap();
        }
        let files = PageFiles::find(Some(&directory)).unwrap();
        let token = Token::create(&directory.join("x.token")).unwrap();
        let text = std::fs::read_to_string(token.path()).unwrap();
        let page = PageConfig {
            address: here(),
            files: Some(files),
            token: Arc::new(token),
            hosts: vec!["gw.lan".to_owned()],
        };
        let http = Http::start(&HttpConfig { metrics: None, page: Some(page), taking }, links.into()).unwrap();
        Self { http: Some(http), token: text.trim_end().to_owned(), directory }
    }

    fn address(&self) -> SocketAddr {
        self.http.as_ref().and_then(Http::page).unwrap()
    }

    fn post(&self, path: &str, head: &str, body: &str) -> String {
        let length = body.len();
        let request =
            format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n{head}\r\n{body}");
        ask(self.address(), request.as_bytes())
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        self.http = None;
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// Reads events until one of this name comes, and returns its data.
fn event(stream: &mut TcpStream, name: &str) -> Value {
    let (mut text, mut part) = (String::new(), [0; 65536]);
    let head = format!("event: {name}\ndata: ");
    loop {
        let length = stream.read(&mut part).unwrap();
        assert!(length > 0, "the stream ended: {text}");
        text.push_str(&String::from_utf8_lossy(&part[..length]));
        // Pieces of the transfer coding stand between.
        let whole: String = text.split("\r\n").filter(|line| line.len() != 3 && line.len() != 4).collect();
        if let Some((_, data)) = whole.split_once(&head)
            && let Some((data, _)) = data.split_once("\n\n")
        {
            return serde_json::from_str(data).unwrap();
        }
    }
}

#[test]
fn metrics_and_health_are_told_and_other_requests_are_answered_with_what_there_is() {
    let playing = PlayedLink::start(3, 4);
    let server = metrics(playing.remote());
    let address = server.metrics().unwrap();
    let answer = ask(address, GET.as_bytes()).to_lowercase();
    assert!(answer.starts_with("http/1.1 200 ok"), "{answer}");
    assert!(answer.contains("content-type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\n"));
    assert!(answer.ends_with("# eof\n") && answer.contains("fairlink_gateway_up{link=\"out\"} 1"), "{answer}");
    // The first answer is compared with an observation at the start.
    std::thread::sleep(Duration::from_millis(1300));
    assert!(get(address, "/metrics").contains("fairlink_class_ideal_bits_per_second{link=\"out\",class=\"2\""));
    let one = get(address, "/metrics?class=2&depth=2");
    assert!(one.contains("class=\"2\"") && !one.contains("class=\"3\""), "{one}");
    assert_eq!(body(&get(address, "/healthz")), "ok\n");
    let long = [b"GET /metrics HTTP/1.1\r\nX: ".to_vec(), vec![b'x'; 64 * 1024]].concat();
    for (request, status, part) in [
        (&b"GET / HTTP/1.1\r\n\r\n"[..], "404", "/metrics"),
        (b"GET /metrics?depth=0 HTTP/1.1\r\n\r\n", "400", "at least 1"),
        (b"GET /../etc/passwd HTTP/1.1\r\n\r\n", "404", "/metrics"),
        (b"POST /metrics HTTP/1.1\r\nContent-Length: 4\r\n\r\nabcd", "405", "GET,HEAD"),
        (b"rubbish\r\n\r\n", "400", ""),
        (b"\x16\x03\x01\x02\x00\n\n", "400", ""),
        (&long, "431", ""),
    ] {
        let answer = ask(address, request);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")) && answer.contains(part), "{answer}");
    }
    let head = ask(address, b"HEAD /metrics HTTP/1.1\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200") && body(&head).is_empty(), "{head}");
    let none = metrics(Links::default());
    let ready = get(none.metrics().unwrap(), "/readyz");
    assert!(ready.starts_with("HTTP/1.1 503") && ready.contains("no link is served"), "{ready}");
}

#[test]
fn clients_that_hang_or_flood_hold_up_neither_others_nor_the_data_thread_nor_the_end() {
    let playing = PlayedLink::start(20, 30);
    let server = metrics(playing.remote());
    let address = server.metrics().unwrap();
    let begin = Instant::now();
    // Silent clients, slow senders, and clients that never read: more than are served at once.
    let mut hanging: Vec<TcpStream> = (0..1000).map(|_| connected(address)).collect();
    let asks = |stream: &mut TcpStream| stream.write_all(GET.as_bytes()).is_ok();
    assert!(hanging.iter_mut().take(100).map(asks).count() > 0);
    let flood = std::thread::spawn(move || {
        let mut answers = 0;
        while answers < 100 {
            let Ok(mut stream) = TcpStream::connect(address) else { continue };
            let mut text = Vec::new();
            if stream.write_all(GET.as_bytes()).is_ok() && stream.read_to_end(&mut text).is_ok() {
                answers += 1;
            }
        }
    });
    let mut scraped = 0;
    while scraped < 5 {
        hanging.iter_mut().skip(900).for_each(|stream| drop(stream.write_all(b"G")));
        let mut stream = connected(address);
        let mut text = String::new();
        // It may be the connection that another replaced.
        if stream.write_all(GET.as_bytes()).is_ok()
            && stream.read_to_string(&mut text).is_ok()
            && text.ends_with("# EOF\n")
        {
            scraped += 1;
        }
    }
    flood.join().unwrap();
    drop(server);
    let lasted = begin.elapsed();
    // One after the other, those that are silent would have taken longer than this.
    assert!(lasted < Duration::from_secs(5) * MAX_CONNECTIONS as u32, "{lasted:?}");
    let (answers, most) = playing.end();
    assert_eq!(most, 1, "64 classes at most between two turns");
    // Maximum number of answers, whatever the number of requests.
    let possible = lasted.as_millis() / 200 + 2;
    assert!(u128::from(answers) <= possible, "{answers} answers in {lasted:?}");
}

#[test]
fn an_address_that_cannot_be_had_is_refused_with_what_to_do() {
    let first = metrics(Links::default());
    let again = |metrics| {
        Http::start(&HttpConfig { metrics, ..HttpConfig::default() }, Links::default()).unwrap_err().to_string()
    };
    let taken = again(first.metrics());
    assert!(taken.starts_with("metrics at") && taken.contains("choose another"), "{taken}");
    let foreign = again(Some("192.0.2.1:9400".parse().unwrap()));
    assert!(foreign.contains("an address of this machine"), "{foreign}");
}

#[test]
fn the_page_is_served_compressed_under_a_strict_policy_and_to_this_machines_names_only() {
    let page = Page::start("files", Links::default());
    let index = get(page.address(), "/");
    assert!(index.ends_with("<html data-live the index.html>"), "{index}");
    let lower = index.to_lowercase();
    for header in ["content-security-policy: default-src 'none'", "frame-ancestors 'none'", "nosniff", "no-store"] {
        assert!(lower.contains(header), "{index}");
    }
    let file = |name: &str, head: &str| {
        ask(page.address(), format!("GET /{name} HTTP/1.1\r\nHost: gw.lan\r\n{head}\r\n").as_bytes())
    };
    let packed = file("page.js", "Accept-Encoding: br, gzip;q=0.5\r\n");
    assert!(packed.contains("content-encoding: gzip\r\n") && packed.ends_with("<html the page.js.gz>"), "{packed}");
    assert!(file("page.js", "").starts_with("HTTP/1.1 406"));
    for path in ["x.token", "..%2fx.token", "../x.token", "%2e%2e/x.token", "/etc/passwd", "engine.wasm.gz", "page.js/"]
    {
        let answer = file(path, "Accept-Encoding: gzip\r\n");
        assert!(answer.starts_with("HTTP/1.1 404") && !answer.contains(&page.token), "{path}: {answer}");
    }
    for path in ["/", "/page.js", "/metrics", "/api/v1/links", "/api/v1/nothing"] {
        let request = format!("GET {path} HTTP/1.1\r\nHost: rebound.example\r\n\r\n");
        let answer = ask(page.address(), request.as_bytes());
        assert!(answer.starts_with("HTTP/1.1 421") && answer.contains("rebound.example"), "{answer}");
    }
}

#[test]
fn links_are_measured_by_documents_that_are_as_the_description_says() {
    let playing = PlayedLink::start(2, 3);
    let page = Page::start("documents", playing.remote());
    let address = page.address();
    assert_eq!(json(&get(address, "/api/v1/links")), serde_json::json!({"links": ["out"]}));
    let mut stream = connected(address);
    stream.write_all(b"GET /api/v1/links/out/events HTTP/1.1\r\nHost: [::1]\r\n\r\n").unwrap();
    let tree = event(&mut stream, "tree");
    assert_eq!(tree["classes"].as_array().unwrap().len(), 9);
    assert_eq!((&tree["parent"][0], &tree["parent"][2], &tree["leaf"][2]), (&Value::Null, &1.into(), &true.into()));
    let moment =
        std::iter::repeat_with(|| event(&mut stream, "moment")).find(|one| one["interval_s"].as_f64() > Some(0.0));
    let moment = moment.unwrap();
    assert_eq!(moment["up"], true);
    let rates: Vec<u64> = moment["rate_bps"].as_array().unwrap().iter().map(|rate| rate.as_u64().unwrap()).collect();
    // The link has the sum of its children, each rounded.
    assert!(rates[0] > 0 && rates[0].abs_diff(rates[1] + rates[5]) <= 2, "{rates:?}");
    for column in
        ["ideal_bps", "demand_bps", "delay_p50_s", "delay_p99_s", "queued_packets", "dropped_packets", "limit"]
    {
        assert_eq!(moment[column].as_array().unwrap().len(), 9, "{column}");
    }
    let stats = json(&get(address, "/api/v1/links/out/stats?class=2"));
    assert_eq!((&stats["document"], &stats["links"][0]["classes"][0]["name"]), (&"stats".into(), &"2".into()));
    assert_eq!(stats["links"][0]["classes"].as_array().unwrap().len(), 1);
    // The played link counts its own seconds, so that the first point may come later.
    let history = std::iter::repeat_with(|| {
        event(&mut stream, "moment");
        json(&get(address, "/api/v1/links/out/history?class=link&class=2"))
    });
    let history = history.take(30).find(|one| one["at_s"].as_array().is_some_and(|points| !points.is_empty()));
    let history = history.expect("a point within 30 s");
    assert_eq!(history["classes"], serde_json::json!(["2"]), "the root is called by its own name, which is 0 here");

    // Both select classes by the same patterns. The classes are 0 (the link), and 1 to 8 below it.
    let names = |class: &Value| class["name"].as_str().unwrap().to_owned();
    for (query, wanted) in [("class=%3F", 9), ("class=2&class=[34]", 1), ("class=2*&class=8", 2), ("class=x*", 0)] {
        let stats = json(&get(address, &format!("/api/v1/links/out/stats?{query}")));
        let counted: Vec<String> = stats["links"][0]["classes"].as_array().unwrap().iter().map(names).collect();
        let history = json(&get(address, &format!("/api/v1/links/out/history?{query}")));
        assert_eq!(history["classes"].as_array().unwrap().len(), wanted, "{query}");
        // The link itself is no class of the statistics.
        assert_eq!(
            history["classes"].as_array().unwrap().iter().filter(|one| **one != "0").count(),
            counted.len(),
            "{query}"
        );
    }

    let described = json(&get(address, "/api/v1/openapi.json"));
    let within = |schema: Value| {
        let mut schema = schema;
        schema["components"] = described["components"].clone();
        jsonschema::validator_for(&schema).unwrap()
    };
    let answer = |path: &str| {
        within(described["paths"][path]["get"]["responses"]["200"]["content"]["application/json"]["schema"].clone())
    };
    answer("/api/v1/links").validate(&json(&get(address, "/api/v1/links"))).unwrap();
    answer("/api/v1/links/{link}/stats").validate(&stats).unwrap();
    answer("/api/v1/links/{link}/history").validate(&history).unwrap();
    within(described["components"]["schemas"]["LiveTree"].clone()).validate(&tree).unwrap();
    within(described["components"]["schemas"]["LiveMoment"].clone()).validate(&moment).unwrap();
    assert!(answer("/api/v1/links/{link}/history").validate(&stats).is_err(), "another document is refused");

    for (path, status, part) in [
        ("/api/v1/links/up/stats", "404", "there is no link \"up\"; there are: out"),
        ("/api/v1/links/up/events", "404", "there is no link"),
        ("/api/v1/links/out/stats?depth=x", "400", "depth=x"),
        ("/api/v1/links/out/history?depth=1", "400", "the parameter is class=GLOB"),
        ("/api/v1/links/out/file", "409", "never"),
    ] {
        let answer = get(address, path);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")) && answer.contains(part), "{path}: {answer}");
    }
}

#[test]
fn a_client_that_comes_later_gets_no_moment_from_before() {
    let playing = PlayedLink::start(1, 2);
    let page = Page::start("later", playing.remote());
    let now = || std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64();
    let follow = || {
        let mut stream = connected(page.address());
        stream.write_all(b"GET /api/v1/links/out/events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n").unwrap();
        stream
    };
    event(&mut follow(), "moment");
    // The server sees that the client has gone when it writes to it.
    std::thread::sleep(Duration::from_secs(5));
    let came = now();
    let told = event(&mut follow(), "moment")["at_s"].as_f64().unwrap();
    assert!(told >= came, "the moment is {} s older than the client", came - told);
}

#[test]
fn nothing_is_changed_without_the_token_or_for_another_site() {
    let playing = PlayedLink::start(1, 2);
    let page = Page::start("token", playing.remote());
    let path = "/api/v1/links/out/reload?dry_run=true";
    let with = |head: &str| page.post(path, head, "[link]\n");
    for wrong in [String::new(), "Authorization: Bearer 0\r\n".to_owned(), format!("Authorization: {}\r\n", page.token)]
    {
        let answer = with(&wrong);
        assert!(answer.starts_with("HTTP/1.1 401") && answer.contains("x.token"), "{answer}");
        assert!(!answer.contains(&page.token));
    }
    let token = format!("Authorization: Bearer {}\r\n", page.token);
    assert!(with(&format!("{token}Origin: http://evil.example\r\n")).starts_with("HTTP/1.1 403"));
    // This link has no file, so that a change is refused by the link itself.
    for own in [token.clone(), format!("{token}Origin: http://localhost\r\n")] {
        assert!(with(&own).starts_with("HTTP/1.1 422"), "{}", with(&own));
    }
    let parameter = page.post("/api/v1/links/out/reload?dryrun=true", &token, "");
    assert!(parameter.starts_with("HTTP/1.1 400") && parameter.contains("dry_run"), "{parameter}");
    let elsewhere = page.post("/api/v1/links/up/reload", &token, "");
    assert!(elsewhere.starts_with("HTTP/1.1 404") && elsewhere.contains("out"), "{elsewhere}");
    let claimed = format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 999999999\r\n{token}\r\n{}",
        "x".repeat(20 << 20)
    );
    assert!(ask(page.address(), claimed.as_bytes()).starts_with("HTTP/1.1 413"));
    assert!(get(page.address(), path).starts_with("HTTP/1.1 405"));
}

#[test]
fn streams_are_bounded_and_a_flood_of_connections_does_not_end_them() {
    let playing = PlayedLink::start(1, 2);
    let page = Page::start("streams", playing.remote());
    let address = page.address();
    let open = || {
        let mut stream = connected(address);
        stream.write_all(b"GET /api/v1/links/out/events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n").unwrap();
        stream
    };
    let mut streams: Vec<TcpStream> = (0..MAX_STREAMS).map(|_| open()).collect();
    streams.iter_mut().for_each(|stream| drop(event(stream, "tree")));
    let mut more = String::new();
    open().read_to_string(&mut more).unwrap();
    assert!(more.starts_with("HTTP/1.1 503") && more.contains(&MAX_STREAMS.to_string()), "{more}");
    // Clients that do not read, and 1,000 silent connections.
    let silent: Vec<TcpStream> = (0..1000).map(|_| connected(address)).collect();
    streams.iter_mut().take(2).for_each(|stream| drop(event(stream, "moment")));
    assert!(get(address, "/healthz").ends_with("ok\n"));
    drop(silent);
    // A place is free again after a client has gone, at the latest with the next event.
    drop(streams.pop());
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        let mut stream = open();
        let mut first = [0; 12];
        stream.read_exact(&mut first).unwrap();
        if &first == b"HTTP/1.1 200" {
            break;
        }
        assert!(Instant::now() < until, "no place becomes free");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// A client whose buffer for what it receives is as small as the system has it.
fn narrow(address: SocketAddr) -> TcpStream {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.set_recv_buffer_size(1).unwrap();
    socket.connect(&address.into()).unwrap();
    socket.into()
}

#[test]
fn a_stream_that_takes_nothing_is_cut_and_others_are_not() {
    // An event of so many classes is longer than the buffer of a client.
    let playing = PlayedLink::start(10, 30);
    let page = Page::patient("stalled", playing.remote(), Duration::from_millis(500));
    let address = page.address();
    let follow = |mut stream: TcpStream| {
        stream.write_all(b"GET /api/v1/links/out/events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n").unwrap();
        stream
    };
    // Every place but one has a client that takes nothing.
    let stalled: Vec<TcpStream> = (1..MAX_STREAMS).map(|_| follow(narrow(address))).collect();
    let mut reads = follow(connected(address));
    event(&mut reads, "tree");
    let first = |mut stream: TcpStream| {
        let mut first = [0; 12];
        stream.read_exact(&mut first).unwrap();
        first
    };
    let full = Instant::now();
    assert_eq!(&first(follow(connected(address))), b"HTTP/1.1 503", "all places are taken");
    let (mut last, mut cut) = (0.0, None);
    while cut.is_none() && full.elapsed() < Duration::from_secs(40) {
        // The one that reads goes on, moment by moment, for longer than the limit.
        let at = event(&mut reads, "moment")["at_s"].as_f64().unwrap();
        assert!(at > last, "{at} after {last}");
        last = at;
        cut = (&first(follow(connected(address))) == b"HTTP/1.1 200").then(|| full.elapsed());
    }
    assert!(cut.is_some(), "no place became free");
    event(&mut reads, "moment");
    drop(stalled);
}
