use super::*;
use proptest::prelude::*;

/// The first script of the HTB text, letter by letter.
const FIRST: &str = "\
0\tP\t0\t0x10002\t# set flow's 0 and 1 SO_PRIORITY which qdisc
0\tP\t1\t0x10003 # can use to switch between classes 1:2 and 1:3
0\tS\t0\t1000\t# both flows has pasket size 1kB
0\tS\t1\t1000
0\tR\t0\t90000\t# start flow 0 generating 90 kBps
4000\tR\t1\t50000\t# at time 4s start flow 1 at 50 kBps
#7000\tR\t1\t70000
9000\tR\t0\t0\t# at 9s stop flow 0
14000\tX\t0\t0\t# at 14s terminate measuring
";

fn piece(start_ms: u64, end_ms: u64, size: u32, bytes_per_second: u64) -> Piece {
    let rate = Rate::from_bps(bytes_per_second * 8).unwrap();
    Piece { start: Nanos::from_millis(start_ms), end: Nanos::from_millis(end_ms), size, rate }
}

fn errors(text: &str) -> Vec<String> {
    Script::parse(text).unwrap_err().iter().map(ToString::to_string).collect()
}

#[test]
fn the_texts_first_script_is_two_flows_of_constant_rate() {
    let script = Script::parse(FIRST).unwrap();
    assert_eq!(script.end, Nanos::from_secs(14));
    let flows: Vec<_> = script
        .flows
        .iter()
        .map(|flow| (flow.number, flow.classid(), flow.interface.as_deref(), &flow.pieces[..]))
        .collect();
    assert_eq!(
        flows,
        [
            (0, Some((1, 2)), None, &[piece(0, 9_000, 1000, 90_000)][..]),
            (1, Some((1, 3)), None, &[piece(4_000, 14_000, 1000, 50_000)][..]),
        ]
    );
    let rates: Vec<_> =
        script.rates.iter().map(|event| (event.at.0 / 1_000_000, event.flow, event.bytes_per_second)).collect();
    assert_eq!(rates, [(0, 0, 90_000), (4_000, 1, 50_000), (9_000, 0, 0)]);
    // With the line that the text has commented out, flow 1 has two pieces.
    let louder = Script::parse(&FIRST.replace("#7000", "7000")).unwrap();
    assert_eq!(louder.flows[1].pieces, [piece(4_000, 7_000, 1000, 50_000), piece(7_000, 14_000, 1000, 70_000)]);
}

#[test]
fn flows_are_bound_to_interfaces() {
    let script = Script::parse("0 i 0 eth0\n0 i 2 eth1\n0 S 0 500\n0 S 2 500\n0 R 0 1\n2 R 2 70000\n3 X").unwrap();
    assert_eq!(script.interfaces(), ["eth0", "eth1"]);
    assert_eq!(script.flows[1].classid(), None);
}

#[test]
fn a_length_or_a_rate_that_changes_cuts_a_flow_into_pieces() {
    let script =
        Script::parse("0 S 7 100\n10 R 7 1000\n10 R 7 2000\n20 S 7 200\n20 S 7 200\n30 R 7 2000\n40 R 7 0\n50 S 7 9\n60 R 7 1\n70 X 0 0\n")
            .unwrap();
    assert_eq!(script.flows[0].pieces, [piece(10, 20, 100, 2000), piece(20, 40, 200, 2000), piece(60, 70, 9, 1)]);
    assert_eq!(script.rates.len(), 5);
}

#[test]
fn what_is_wrong_is_named_with_its_line_and_limits() {
    let begin = "0 S 0 1000\n0 R 0 90000\n";
    let of = |rest: &str| errors(&format!("{begin}{rest}\n9000 X 0 0\n"));
    assert_eq!(of("1 Q 0 1"), ["line 3: there is no command \"Q\"; there are: P, S, R, i, X"]);
    assert_eq!(of("1 r 0 1"), ["line 3: there is no command \"r\"; there are: P, S, R, i, X"]);
    assert_eq!(
        of("500 R 0 1\n400 R 0 2"),
        ["line 4: the time of 400 ms is before the 500 ms of an earlier line; write lines in the order of time"]
    );
    assert_eq!(
        of("1 R 0 -5"),
        ["line 3: the rate in bytes per second must be a whole number from 0 to 125000000000, not \"-5\""]
    );
    assert_eq!(
        of("1 S 0 0"),
        ["line 3: the packet length in bytes must be a whole number from 1 to 1048576, not \"0\""]
    );
    assert_eq!(
        of("1 R 0"),
        ["line 3: a line is TIME COMMAND FLOW VALUE, and here are 3 words; a comment begins with #"]
    );
    assert_eq!(
        of("1.5 R 0 1"),
        [format!("line 3: the time in ms must be a whole number from 0 to {MAX_TIME_MS}, not \"1.5\"")]
    );
    assert_eq!(of("1 R 3 1"), ["line 3: flow 3 has no packet length yet; write \"0 S 3 1000\" before its first R"]);
    assert_eq!(of("1 i 0 eth0"), ["line 3: flow 0 sends already; write its i before its first R, or use another flow"]);
    assert_eq!(of("1 i 4 a/b"), ["line 3: \"a/b\" is not the name of an interface: 1 to 15 bytes without /"]);
    assert_eq!(
        of("1 S 0 1\n1 R 0 100000000000"),
        ["line 4: flow 0 would send 100000000000 packets per second; the limit is 2000000000: lower R or raise S"]
    );
    assert_eq!(errors("0 S 0 9\n5 X\n6 R 0 1"), ["line 3: this is never reached: the script ends in line 2"]);
    assert_eq!(errors(begin), ["line 2: the script has no end; write a last line such as \"14000 X 0 0\""]);
    assert_eq!(errors("0 X 0 0"), ["line 1: the script ends at 0 ms, before anything is sent"]);
    assert_eq!(
        errors("0 S 0 9\n5 X 0 0"),
        ["line 2: nothing is ever sent; write a line such as \"0 R 0 90000\" with a rate above 0"]
    );
    assert_eq!(errors("").len(), 1);
    assert_eq!(errors(&"1 Q\n".repeat(99)).len(), 20);
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused_at_a_place_in_it(text in "[0-9PSRiX# \\n\\tx.-]{0,200}") {
        match Script::parse(&text) {
            Err(errors) => {
                prop_assert!(!errors.is_empty());
                for error in errors {
                    prop_assert!(text.get(error.at.clone()).is_some() && error.line >= 1 || text.is_empty(), "{:?}", error);
                }
            }
            Ok(script) => {
                for flow in &script.flows {
                    let mut free = Nanos::ZERO;
                    for piece in &flow.pieces {
                        prop_assert!(piece.start >= free && piece.start < piece.end && piece.end <= script.end);
                        free = piece.end;
                    }
                }
            }
        }
    }
}
