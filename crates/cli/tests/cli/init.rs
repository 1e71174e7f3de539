//! `fairlink init`: files to begin with.

use std::fs;
use std::io::{Read, Write};
use std::process::{Command, Stdio};

use crate::{FAIRLINK, Scratch, fairlink, scenario};

/// The rate and the ends that a file says, after a check that a gateway would take it.
fn checked(file: &str) -> (u64, Vec<String>) {
    let check = fairlink(&["check", file, "--gateway", "--json"]);
    assert_eq!(check.code, 0, "{file}: {}", check.stderr);
    assert_eq!(check.json()["problems"].as_array().map(Vec::len), Some(0), "{file}");
    let text = fs::read_to_string(file).unwrap();
    let ends = text.lines().filter(|line| ["name = ", "in = ", "out = "].iter().any(|key| line.starts_with(key)));
    (
        check.json()["link"]["capacity_bps"].as_u64().unwrap(),
        ends.take_while(|line| !line.contains("calls")).map(str::to_owned).collect(),
    )
}

#[test]
fn both_directions_are_two_files_that_one_gateway_takes() {
    let dir = Scratch::new();
    for kind in ["home", "office", "provider", "tenants", "lab"] {
        let file = dir.path(&format!("{kind}.toml"));
        let rates = ["--down", "100mbit", "--up", "20mbit"];
        let args = [&["init", "--kind", kind, "--in", "lan0", "--out", "wan0", "--file", &file], &rates[..]].concat();
        let run = fairlink(&args);
        assert_eq!((run.code, run.stdout.as_str()), (0, ""), "{}", run.stderr);
        let [up, down] = ["up", "down"].map(|way| dir.path(&format!("{kind}-{way}.toml")));
        assert!(run.stderr.contains(&format!("fairlink gateway {up} {down}\n")), "{}", run.stderr);
        assert!(fs::metadata(&file).is_err());
        let (bps, ends) = checked(&up);
        assert_eq!(bps, 19_000_000);
        assert_eq!(ends[..3], ["name = \"up\"", "in = \"lan0\"", "out = \"wan0\""]);
        let (bps, ends) = checked(&down);
        assert_eq!(bps, 95_000_000);
        assert_eq!(ends[..3], ["name = \"down\"", "in = \"wan0\"", "out = \"lan0\""]);
        // One that is there keeps both from being written.
        fs::remove_file(&up).unwrap();
        let again = fairlink(&args);
        assert!(again.code == 2 && again.stderr.contains("-down.toml already exists"), "{}", again.stderr);
        assert!(fs::metadata(&up).is_err());
    }
    let text = |file: &str| fs::read_to_string(dir.path(file)).unwrap();
    assert!(
        text("home-down.toml").contains("per = \"dst-ip\"") && text("home-down.toml").contains("udp src port 3478")
    );
}

#[test]
fn a_direction_alone_is_one_file_and_both_are_documents_of_json() {
    let init = |more: &[&str]| fairlink(&[&["init", "--kind", "home", "--json"], more].concat());
    let ports = ["--in", "lan0", "--out", "wan0"];
    let both = init(&[&ports[..], &["--up", "20mbit", "--down", "100mbit"]].concat()).json();
    let names: Vec<_> = both["files"].as_array().unwrap().iter().map(|file| file["file"].as_str().unwrap()).collect();
    assert_eq!(names, ["link-up.toml", "link-down.toml"]);
    let one = |more: &[&str]| {
        let json = init(more).json();
        assert_eq!(json["files"].as_array().map(Vec::len), Some(1), "{json}");
        json["files"][0]["text"].as_str().unwrap().to_owned()
    };
    let down = one(&[&ports[..], &["--down", "100mbit"]].concat());
    assert!(down.contains("in = \"wan0\"\nout = \"lan0\"\n"), "{down}");
    // The same, by the input interface.
    assert_eq!(down, one(&["--in", "wan0", "--out", "lan0", "--rate", "100mbit", "--toward", "users"]));
    assert_eq!(one(&["--egress", "eth0", "--up", "20mbit"]), one(&["--egress", "eth0", "--rate", "20mbit"]));
    // A router has users behind the interface, who share equally.
    let routed = one(&["--egress", "lan0", "--down", "100mbit"]);
    assert!(routed.contains("egress = \"lan0\"") && routed.contains("per = \"dst-ip\""), "{routed}");
}

#[test]
fn what_contradicts_itself_or_is_not_said_is_refused_with_2() {
    for (args, says) in [
        (&["--egress", "eth0", "--up", "20mbit", "--down", "100mbit"][..], "--egress lan0 --down RATE"),
        (&["--egress", "eth0", "--up", "20mbit", "--rate", "100mbit"], "cannot be used with"),
        (&["--egress", "eth0", "--up", "20mbit", "--toward", "users"], "cannot be used with"),
        (&["--in", "lan0", "--out", "lan0", "--rate", "1mbit"], "name two different interfaces"),
        (&["--in", "lan0", "--out", "wan0"], "stdin is not a terminal: pass --down 100mbit --up 20mbit"),
        (&["--in", "lan0", "--out", "wan0", "--up", "0mbit"], "--up"),
    ] {
        let run = fairlink(&[&["init", "--kind", "home"], args].concat());
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{args:?}: {}", run.stderr);
        assert!(run.stderr.contains(says), "{args:?}: {}", run.stderr);
    }
}

/// Returns the output on a terminal of 80 columns with a line typed at each question.
fn typed(dir: &Scratch, lines: &[&str]) -> Option<String> {
    let command = format!("cd {} && stty cols 80 && {} init", dir.path(""), env!("CARGO_BIN_EXE_fairlink"));
    let script = Command::new("script")
        .args(["-qefc", &command, "/dev/null"])
        .env("NO_COLOR", "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let Ok(mut script) = script else {
        println!("SKIPPED: there is no `script` to make a terminal with");
        return None;
    };
    let (mut keys, mut screen) = (script.stdin.take().unwrap(), script.stdout.take().unwrap());
    let (mut seen, mut typed) = (Vec::new(), 0);
    let mut chunk = [0; 4096];
    loop {
        let bytes = screen.read(&mut chunk).unwrap();
        if bytes == 0 {
            break;
        }
        seen.extend_from_slice(&chunk[..bytes]);
        if [b"? ", b"] "].iter().any(|end| seen.ends_with(*end)) {
            let line = lines.get(typed).unwrap_or_else(|| panic!("{}", String::from_utf8_lossy(&seen)));
            keys.write_all(line.as_bytes()).unwrap();
            typed += 1;
        }
    }
    script.wait().unwrap();
    Some(String::from_utf8(seen).unwrap().replace('\r', ""))
}

#[test]
fn somebody_at_a_terminal_is_asked_for_both_directions_and_gets_both_files() {
    let dir = Scratch::new();
    let lines = ["hoem\n", "\n", "lan0 wan0\n", "100mbps\n", "100mbit\n", "20mbit\n", "adls\n", "vdsl\n", "\n"];
    let Some(seen) = typed(&dir, &lines) else { return };
    for says in [
        "What is the link used for? [home] hoem\n  there are: home, office",
        "\n  \"100mbit\" for bits, \"800mbit\" for bytes\n",
        "such as 20mbit? 20mbit\n",
        "  adsl      ADSL (ATM cells)\n",
        "What is the line? [ethernet] adls\n  there are: ethernet, fibre",
        "home-up.toml and home-down.toml are written. Next:\n",
        "fairlink gateway home-up.toml home-down.toml",
    ] {
        assert!(seen.contains(says), "{says}: {seen}");
    }
    assert!(seen.lines().all(|line| line.chars().count() <= 80), "{seen}");
    assert_eq!(checked(&dir.path("home-up.toml")).0, 19_000_000);
    assert_eq!(checked(&dir.path("home-down.toml")).0, 95_000_000);
    assert!(fs::read_to_string(dir.path("home-up.toml")).unwrap().contains("\noverhead = \"ptm\""), "{seen}");
}

#[test]
fn somebody_at_a_terminal_may_ask_for_one_direction_or_leave() {
    let dir = Scratch::new();
    let Some(seen) = typed(&dir, &["office\n", "eth0\n", "40mbit\n", "\n", "mine.toml\n"]) else { return };
    assert!(seen.contains("mine.toml is written"), "{seen}");
    assert_eq!(checked(&dir.path("mine.toml")).0, 38_000_000);
    let seen = typed(&dir, &["office\n", "\u{4}"]).unwrap();
    assert!(seen.contains("end of input: no answer; nothing is written"), "{seen}");
    assert_eq!(fs::read_dir(dir.path("")).unwrap().count(), 1, "{seen}");
}

#[test]
fn a_file_that_cannot_be_written_whole_is_not_written_at_all() {
    let dir = Scratch::new();
    let file = dir.path("home.toml");
    let args = ["init", "--kind", "provider", "--egress", "lo", "--rate", "40mbit", "--file", &file];
    let run = FAIRLINK.on_a_full_disk(&args);
    assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{}", run.stderr);
    assert!(run.stderr.contains("--file: ") && run.stderr.contains("home.toml cannot be written: "), "{}", run.stderr);
    assert!(fs::metadata(&file).is_err(), "a part of it stays");
    assert_eq!(fairlink(&args).code, 0);
    let whole = fs::read(&file).unwrap();
    assert!(whole.len() > 1024, "it is longer than what fits: {}", whole.len());

    let again = fairlink(&args);
    assert_eq!((again.code, again.stdout.as_str()), (2, ""));
    assert!(again.stderr.contains("home.toml already exists"), "{}", again.stderr);
    assert_eq!(fs::read(&file).unwrap(), whole);
}

#[test]
fn of_several_files_that_do_not_all_fit_none_is_written() {
    let dir = Scratch::new();
    let (devices, network) = (scenario("import/ShapedDevices.csv"), scenario("import/network.json"));
    let out = dir.path("made");
    let args = ["import", "libreqos", &devices, "--network", &network, "--direction", "both", "--out", &out];
    let run = FAIRLINK.on_a_full_disk(&args);
    assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{}", run.stderr);
    assert!(run.stderr.contains(" cannot be written: "), "{}", run.stderr);
    assert_eq!(fs::read_dir(&out).unwrap().count(), 0, "{}", run.stderr);
    assert_eq!(fairlink(&args).code, 0);
    assert!(fs::read_dir(&out).unwrap().count() > 1);
}
