//! The control socket and its clients, of every temper.

use super::server::LONGEST_LINE;
use super::*;
use crate::gateway::account::Generation;
use crate::gateway::remote::Publisher;
use std::os::unix::fs::PermissionsExt;

/// A directory of this test's own, removed at the end.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("fairlink-control-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn socket(&self) -> PathBuf {
        self.0.join("s")
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn ask(path: &Path, request: &[u8]) -> String {
    let mut stream = UnixStream::connect(path).unwrap();
    stream.write_all(request).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn nonsense_gets_an_answer_that_says_what_a_request_is() {
    let directory = Directory::new("nonsense");
    let publisher = Publisher::new(Generation::flat(2));
    let control = Control::start(&directory.socket(), publisher.remote()).unwrap();
    for (request, part) in [
        (&b"hello\n"[..], "not a request"),
        (b"{}\n", "unknown command"),
        (b"{\"cmd\":\"dance\"}\n", "there are: links, stats, trace"),
        (b"\xff\xfe\n", "not a request"),
        (b"{\"cmd\":\"dance\"}", "there are: links, stats, trace"),
    ] {
        let text = ask(control.path(), request);
        assert!(text.contains("\"ok\":false") && text.contains(part), "{text}");
    }
    let long = ask(control.path(), &vec![b' '; LONGEST_LINE]);
    assert!(long.contains("at most 16777216 bytes"), "{long}");
}

#[test]
fn a_gateway_that_ended_without_running_is_told_as_that() {
    let directory = Directory::new("ended");
    let publisher = Publisher::new(Generation::flat(2));
    let control = Control::start(&directory.socket(), publisher.remote()).unwrap();
    drop(publisher);
    let error = stats(control.path()).unwrap_err();
    assert_eq!(error.to_string(), "the gateway answers: the gateway never ran");
}

#[test]
fn only_the_owner_may_open_the_socket_and_it_goes_with_the_server() {
    let directory = Directory::new("mode");
    let publisher = Publisher::new(Generation::flat(2));
    let control = Control::start(&directory.socket(), publisher.remote()).unwrap();
    let mode = std::fs::metadata(directory.socket()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    drop(control);
    assert!(!directory.socket().exists());
    assert!(matches!(stats(&directory.socket()), Err(ControlError::System { .. })));
}

#[test]
fn a_dead_gateways_socket_is_replaced_and_a_living_ones_is_not() {
    let directory = Directory::new("stale");
    drop(UnixListener::bind(directory.socket()).unwrap());
    let publisher = Publisher::new(Generation::flat(2));
    let control = Control::start(&directory.socket(), publisher.remote()).unwrap();
    let second = Control::start(&directory.socket(), publisher.remote()).unwrap_err();
    assert!(matches!(second, ControlError::InUse { .. }), "{second}");
    drop(control);
    std::fs::write(directory.socket(), "a user's file").unwrap();
    let third = Control::start(&directory.socket(), publisher.remote()).unwrap_err();
    assert!(matches!(third, ControlError::NotASocket { .. }), "{third}");
    assert_eq!(std::fs::read(directory.socket()).unwrap(), b"a user's file");
    let long = directory.0.join("x".repeat(200));
    let fourth = Control::start(&long, publisher.remote()).unwrap_err();
    assert!(matches!(fourth, ControlError::PathTooLong { .. }), "{fourth}");
}

/// A client of the test's own that takes part as it likes.
fn connected(path: &Path) -> UnixStream {
    let stream = UnixStream::connect(path).unwrap();
    stream.set_nonblocking(false).unwrap();
    stream
}

#[test]
fn slow_and_silent_clients_hold_up_neither_others_nor_the_end() {
    let directory = Directory::new("slow");
    let publisher = Publisher::new(Generation::flat(2));
    let control = Control::start(&directory.socket(), publisher.remote()).unwrap();
    let begin = Instant::now();
    // More than are served at once: silent ones, and such as have begun a request and go on with a byte now and then.
    let mut slow: Vec<UnixStream> = (0..100).map(|_| connected(control.path())).collect();
    for round in 0..5 {
        for stream in slow.iter_mut().skip(50) {
            let _ = stream.write_all(b" ");
        }
        let text = ask(control.path(), b"{\"cmd\":\"dance\"}\n");
        assert!(text.contains("there are: links, stats, trace"), "{round}: {text}");
    }
    // None of the answers had to wait until the slow clients' time was over one after the other: that would be 200 s. The end
    // does not wait for that either.
    drop(control);
    assert!(begin.elapsed() < 10 * PATIENCE, "{:?}", begin.elapsed());
}

#[test]
fn whoever_watches_stays_between_two_questions_and_is_the_first_to_make_room() {
    let directory = Directory::new("watch");
    let publisher = Publisher::new(Generation::flat(2));
    let control = Control::start(&directory.socket(), publisher.remote()).unwrap();
    // Each question is answered: that there is nothing to tell.
    drop(publisher);
    let mut watches: Vec<Watch> = (0..32).map(|_| Watch::connect(control.path()).unwrap()).collect();
    let never = |watch: &mut Watch| {
        let error = watch.stats(Some("out"), Some(Duration::from_secs(100))).unwrap_err();
        matches!(error, ControlError::Refused { .. })
    };
    assert!(watches.iter_mut().all(never));
    std::thread::sleep(PATIENCE + Duration::from_millis(300));
    assert!(watches.iter_mut().all(never), "they were silent for longer than others may be");
    // One more takes the place of one of them, and none of another that has just come.
    let mut others: Vec<UnixStream> = (0..4).map(|_| connected(control.path())).collect();
    assert_eq!(Watch::connect(control.path()).unwrap().links().unwrap(), ["out"]);
    for other in &mut others {
        other.write_all(b"{\"cmd\":\"links\"}\n").unwrap();
        let mut answer = [0; 32];
        let length = other.read(&mut answer).unwrap();
        assert_eq!(&answer[..length], b"{\"ok\":true,\"links\":[\"out\"]}\n");
    }
    let left = watches.into_iter().map(|mut watch| never(&mut watch)).filter(|&stays| stays).count();
    assert_eq!(left, 32 - 5);
}

#[test]
fn a_client_that_sends_a_byte_now_and_then_has_no_more_time_than_a_silent_one() {
    let directory = Directory::new("drip");
    let publisher = Publisher::new(Generation::flat(2));
    let control = Control::start(&directory.socket(), publisher.remote()).unwrap();
    let mut drip = connected(control.path());
    let begin = Instant::now();
    let closed = loop {
        if drip.write_all(b" ").is_err() {
            break true;
        }
        if begin.elapsed() > 10 * PATIENCE {
            break false;
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    assert!(closed);
}

#[test]
fn an_answer_that_nobody_takes_is_given_up_and_others_get_theirs() {
    let directory = Directory::new("stuffed");
    let publisher = Publisher::new(Generation::flat(2));
    let control = Control::start(&directory.socket(), publisher.remote()).unwrap();
    // Asks without end and reads nothing.
    let mut stuffed = connected(control.path());
    stuffed.set_nonblocking(true).unwrap();
    let mut sent = 0;
    let begin = Instant::now();
    while sent < 4 << 20 && begin.elapsed() < 10 * PATIENCE {
        match stuffed.write(&b"{}\n".repeat(1000)) {
            Ok(length) => sent += length,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let text = ask(control.path(), b"{\"cmd\":\"dance\"}\n");
                assert!(text.contains("there are: links, stats, trace"), "{text}");
                std::thread::sleep(Duration::from_millis(50));
            }
            // Closed: its time was over.
            Err(_) => return,
        }
    }
    panic!("it was not closed after {:?} and {sent} B", begin.elapsed());
}

#[test]
fn a_gateway_that_is_stopped_is_found_and_does_not_hang_whoever_asks() {
    let directory = Directory::new("stopped");
    // It listens and never accepts, as a process that was sent SIGSTOP does.
    let listener = listen(&directory.socket(), Access::default()).unwrap();
    let publisher = Publisher::new(Generation::flat(2));
    let mut waiting = Vec::new();
    // Also where so many wait that no connection is taken any more.
    while let Ok(stream) = connect(&directory.socket()) {
        waiting.push(stream);
        if waiting.len() == 3 {
            let error = Control::start(&directory.socket(), publisher.remote()).unwrap_err();
            assert!(matches!(error, ControlError::InUse { .. }), "{error}");
        }
    }
    let error = Control::start(&directory.socket(), publisher.remote()).unwrap_err();
    assert!(matches!(error, ControlError::InUse { .. }), "{error}");
    let error = stats(&directory.socket()).unwrap_err();
    assert!(matches!(error, ControlError::NoAnswer { .. }) && error.to_string().contains("kill -CONT"), "{error}");
    waiting.truncate(1);
    drop(listener);
}
