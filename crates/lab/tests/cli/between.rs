//! `fairlink-lab between`: a device between two recordings.

use std::fs;

use crate::{Scratch, lab};

const LINK: &str = "[link]\nrate = '10mbit'\n[[class]]\nname = 'voice'\nmatch = ['udp dst port 5001']\n[[class]]\nname = 'rest'\nmatch = ['any']\n";

/// A pcap in nanoseconds of frames with UDP over IPv4: time in us, hops left, port, number.
fn pcap(packets: &[(u64, u8, u16, u64)]) -> Vec<u8> {
    let mut file = Vec::new();
    for number in [0xa1b2_3c4d_u32, 0x0004_0002, 0, 0, 65_535, 1] {
        file.extend(number.to_le_bytes());
    }
    for &(at, hops, port, number) in packets {
        let mut frame = [[2; 12].as_slice(), &[8, 0, 0x45, 0, 0, 50, 0, 0, 0x40, 0, hops, 17, hops, 1]].concat();
        frame.extend([10, 0, 0, 1, 10, 0, 0, 2, 0x13, 0x88]);
        frame.extend(port.to_be_bytes());
        frame.extend([0, 30, 0, 0]);
        frame.extend(number.to_be_bytes());
        frame.resize(64, 0);
        for number in [(at / 1_000_000) as u32, (at % 1_000_000 * 1000) as u32, 64, 64] {
            file.extend(number.to_le_bytes());
        }
        file.extend(frame);
    }
    file
}

/// Two recordings whose clocks differ by `ahead` us: packet 1 of voice takes 2 ms and packet 2 takes 6 ms; of the rest
/// 3 is lost, 4 is doubled, 5 overtakes it.
fn recordings(dir: &Scratch, ahead: i64) -> [String; 2] {
    let before =
        pcap(&[(1000, 64, 5001, 1), (2000, 64, 5001, 2), (3000, 64, 7, 3), (4000, 64, 7, 4), (5000, 64, 7, 5)]);
    let at = |at: i64| (100_000_000 + at + ahead) as u64;
    let after = [(3000, 1, 5001), (5500, 5, 7), (6000, 4, 7), (6100, 4, 7), (6200, 9, 7), (8000, 2, 5001)];
    let after: Vec<_> = after.map(|(when, number, port)| (at(when), 63, port, number)).to_vec();
    let moved: Vec<u8> = pcap(&[]).into_iter().chain(shifted(&before)).collect();
    let paths = ["before.pcap", "after.pcap"].map(|name| dir.path(name));
    fs::write(&paths[0], moved).unwrap();
    fs::write(&paths[1], pcap(&after)).unwrap();
    paths
}

/// The packets of a recording, 100 s later.
fn shifted(file: &[u8]) -> Vec<u8> {
    let mut packets = file[24..].to_vec();
    packets.chunks_mut(80).for_each(|packet| packet[0] += 100);
    packets
}

#[test]
fn delays_losses_copies_and_order_of_each_class_are_told() {
    let dir = Scratch::new();
    let link = dir.write("link.toml", LINK);
    let [before, after] = recordings(&dir, 0);
    let run = lab(&["between", &before, &after, "--link", &link, "--json"]).quiet();
    let json = run.json();
    let row = |row: &serde_json::Value| {
        let counts = ["packets", "found_packets", "lost_packets", "doubled_packets", "out_of_order_packets"];
        counts.map(|key| row[key].as_u64().unwrap())
    };
    let [voice, rest] = &json["classes"].as_array().unwrap()[..] else { panic!("{json}") };
    assert_eq!((voice["name"].as_str(), rest["name"].as_str()), (Some("voice"), Some("rest")));
    assert_eq!((row(voice), row(rest), row(&json["total"])), ([2, 2, 0, 0, 0], [3, 2, 1, 1, 1], [5, 4, 1, 1, 2]));
    assert_eq!((json["only_after_packets"].as_u64(), json["after_packets"].as_u64()), (Some(1), Some(6)));
    let delay = |key: &str| voice["delay_s"][key].as_f64().unwrap();
    for (key, expected) in
        [("min", 2e-3), ("mean", 4e-3), ("p50", 2e-3), ("p99", 6e-3), ("max", 6e-3), ("jitter", 4e-3)]
    {
        assert!((delay(key) - expected).abs() < expected * 1e-3, "{key}: {}", delay(key));
    }
    let text = lab(&["between", &before, &after]).quiet().stdout;
    assert!(
        text.contains("out of order") && text.contains("jitter") && text.contains("1 packet only in AFTER"),
        "{text}"
    );
}

#[test]
fn clocks_that_disagree_are_warned_of_and_their_stamps_are_what_clock_takes() {
    let dir = Scratch::new();
    let [before, after] = recordings(&dir, -50_000);
    let out = dir.path("stamps");
    let run = lab(&["between", &before, &after, "--out", &out]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let said = run.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("WARNING: 4 of 4 packets have a negative delay"), "{said}");
    assert!(said.contains("--offset") && said.contains("fairlink-lab clock"), "{said}");
    assert!(run.stdout.contains("-48"), "{}", run.stdout);
    let stamps = fs::read_to_string(format!("{out}/stamps.csv")).unwrap();
    assert_eq!(
        stamps,
        "send_s,receive_s\n100.001000000,99.953000000\n100.002000000,99.958000000\n100.004000000,99.956000000\n\
         100.005000000,99.955500000\n"
    );
    let run = lab(&["clock", &format!("{out}/stamps.csv")]);
    let said = run.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("4 packets at too few times"), "{said}");
    let json = lab(&["between", &before, &after, "--offset", "-50ms", "--json"]).quiet().json();
    assert_eq!(json["total"]["negative_delays"].as_u64(), Some(0));
    assert!((json["total"]["delay_s"]["max"].as_f64().unwrap() - 6e-3).abs() < 1e-12, "{json}");
    // So far apart that nothing is within the longest delay.
    let run = lab(&["between", &before, &after, "--within", "10ms"]);
    assert!(run.code == 0 && run.stderr.contains("WARNING: no packet of BEFORE is in AFTER"), "{}", run.stderr);
}

#[test]
fn recordings_and_options_that_are_wrong_are_refused_with_the_remedy() {
    let dir = Scratch::new();
    let [before, after] = recordings(&dir, 0);
    let mut cut = fs::read(&after).unwrap();
    // The first packet with 40 of its 64 B.
    cut[32..36].copy_from_slice(&40u32.to_le_bytes());
    cut.drain(24 + 16 + 40..24 + 16 + 64);
    fs::write(dir.path("cut.pcap"), cut).unwrap();
    let (cut, text) = (dir.path("cut.pcap"), dir.write("text.txt", "no capture"));
    for (args, words) in [
        (
            vec![&before, &cut],
            "cut.pcap: packet 1: 26 of 50 B from the IP header on were kept; compare the start of packets with --bytes 26",
        ),
        (vec![&text, &after], "text.txt: not a capture; formats are pcap and pcapng"),
        (vec![&before, &dir.path("nowhere")], "nowhere: No such file"),
    ] {
        let args: Vec<&str> = std::iter::once("between").chain(args.into_iter().map(String::as_str)).collect();
        let run = lab(&args);
        let said = run.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(run.code == 2 && said.contains(words), "{said}");
    }
    for (option, value) in [("--within", "0s"), ("--within", "2h"), ("--bytes", "19"), ("--offset", "5")] {
        let run = lab(&["between", &before, &after, option, value]);
        assert!(run.code == 2 && run.stderr.contains(value), "{option}: {}", run.stderr);
    }
}
