//! `fairlink gateway --print-unit`, and the unit that packages install.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::{Scratch, fairlink, scenario};

/// The unit that is shipped.
fn shipped() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/systemd/fairlink-gateway@.service");
    fs::read_to_string(path).expect("the shipped unit")
}

/// Asserts that systemd takes a unit, where it is here to be asked.
fn verify(dir: &Scratch, name: &str, text: &str) {
    // The programs that it starts have to be there.
    let here = text.replace("/usr/bin/fairlink", env!("CARGO_BIN_EXE_fairlink"));
    let path = dir.write(name, &here);
    match Command::new("systemd-analyze").args(["verify", "--man=no", "--recursive-errors=no", &path]).output() {
        Ok(run) => {
            let said = String::from_utf8_lossy(&run.stderr);
            assert!(run.status.success() && !said.contains(name), "{said}{here}");
        }
        Err(error) => println!("SKIPPED: systemd-analyze cannot be asked about {name}: {error}"),
    }
}

#[test]
fn without_a_link_file_the_unit_is_the_one_that_packages_install() {
    let unit = fairlink(&["gateway", "--print-unit"]).quiet().stdout;
    assert_eq!(unit, shipped());
    let dir = Scratch::new();
    dir.write("office.env", "OPTIONS=--in lan0 --out wan0\n");
    verify(&dir, "fairlink-gateway@office.service", &unit);
}

/// The exposure that `systemd-analyze security` computes of a unit, in tenths; `None`, and a line that says so, where
/// it cannot be asked.
fn exposure(path: &str) -> Option<u32> {
    let run = match Command::new("systemd-analyze").args(["security", "--offline=true", "--no-pager", path]).output() {
        Ok(run) => run,
        Err(error) => {
            println!("SKIPPED: systemd-analyze cannot be asked: {error}");
            return None;
        }
    };
    let text = String::from_utf8_lossy(&run.stdout);
    let last = text.lines().find(|line| line.contains("Overall exposure level"));
    let number = last.and_then(|line| line.split(": ").nth(1)?.split(' ').next()?.parse::<f64>().ok());
    if number.is_none() {
        println!("SKIPPED: this systemd-analyze does not judge files: {text}{}", String::from_utf8_lossy(&run.stderr));
    }
    number.map(|number| (number * 10.0).round() as u32)
}

#[test]
fn the_shipped_unit_leaves_little_exposed_and_has_what_af_xdp_and_a_short_memory_need() {
    let unit = shipped();
    for line in [
        "DynamicUser=yes",
        "RuntimeDirectory=fairlink-%i",
        "LimitMEMLOCK=infinity",
        "OOMScoreAdjust=-900",
        "AmbientCapabilities=CAP_NET_RAW CAP_NET_ADMIN CAP_BPF CAP_IPC_LOCK",
    ] {
        assert!(unit.lines().any(|own| own == line), "{line}");
    }
    let dir = Scratch::new();
    if let Some(tenths) = exposure(&dir.write("fairlink-gateway@office.service", &unit)) {
        assert!(tenths < 20, "{tenths} tenths");
    }
}

#[test]
fn the_unit_of_a_command_line_runs_it_and_systemd_takes_it() {
    let dir = Scratch::new();
    let link = dir.write("a link, 50%.toml", &fs::read_to_string(scenario("fig1.toml")).expect("a scenario"));
    let run =
        fairlink(&["gateway", &link, "--in", "lan0", "--out", "wan0", "--metrics=127.0.0.1:9400", "--print-unit"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let command = run.stdout.lines().find_map(|line| line.strip_prefix("ExecStart=")).expect("a command");
    let expected = format!(
        "{} gateway --wait-for-interface \"{}\" --in lan0 --out wan0 --metrics 127.0.0.1:9400",
        env!("CARGO_BIN_EXE_fairlink"),
        link.replace('%', "%%")
    );
    assert_eq!(command, expected);
    verify(&dir, "fairlink-office.service", &run.stdout);
    let document = fairlink(&["gateway", &link, "--egress", "wan0", "--print-unit", "--json"]).json();
    assert!(document["unit"].as_str().is_some_and(|unit| unit.contains("--egress wan0\n")), "{document}");
}

#[test]
fn no_unit_is_printed_of_what_a_gateway_would_refuse() {
    let dir = Scratch::new();
    let link = dir.write("bad.toml", "[link]\nrate = \"-1mbit\"\n");
    for (arguments, why) in [
        (vec!["gateway", link.as_str(), "--egress", "wan0", "--print-unit"], "rate"),
        (vec!["gateway", &scenario("fig1.toml"), "--print-unit"], "no interfaces"),
    ] {
        let run = fairlink(&arguments);
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{}", run.stderr);
        assert!(run.stderr.contains(why), "{}", run.stderr);
    }
}
