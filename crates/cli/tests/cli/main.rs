//! The `fairlink` binary as its users see it: output, JSON as documented, exit codes. One module per group of commands.
#![forbid(unsafe_code)]

#[cfg(target_os = "linux")]
mod af_xdp;
mod api;
#[cfg(target_os = "linux")]
mod bad_input;
mod basics;
#[cfg(target_os = "linux")]
mod book;
mod check;
mod cores;
mod counters;
#[cfg(target_os = "linux")]
mod ctl_trace;
mod demo;
mod diff;
#[cfg(target_os = "linux")]
mod endpoints;
#[cfg(target_os = "linux")]
mod fail_open;
mod fluid;
mod import;
#[cfg(target_os = "linux")]
mod import_run;
#[cfg(unix)]
mod init;
#[cfg(target_os = "linux")]
mod link_changes;
mod link_queues;
mod measure;
mod metrics;
#[cfg(target_os = "linux")]
mod own_traffic;
#[cfg(target_os = "linux")]
mod packets;
#[cfg(target_os = "linux")]
mod pools;
#[cfg(target_os = "linux")]
mod privileges;
#[cfg(target_os = "linux")]
mod qdisc;
#[cfg(target_os = "linux")]
mod reload;
mod rows;
#[cfg(target_os = "linux")]
mod schema;
mod seen;
#[cfg(target_os = "linux")]
mod several_links;
mod sim;
mod tables;
mod tc;
mod trace;
#[cfg(target_os = "linux")]
mod unit;
mod width;

#[cfg(target_os = "linux")]
use std::cell::Cell;
use std::fs;
#[cfg(target_os = "linux")]
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
#[cfg(target_os = "linux")]
use std::path::Path;
use std::process::{Command, Output, Stdio};

#[cfg(target_os = "linux")]
use fairlink_testbed::{LIMIT_FOR_ANSWERS, LIMIT_FOR_FRAMES, LostProcessor};

pub(crate) use fairlink_terminal::testing::{LONGEST, Run, Scratch, Tested, scenario};

/// The one link of a gateway's statistics, which have the same shape however many links there are.
pub(crate) fn only_link(stats: &serde_json::Value) -> serde_json::Value {
    assert_eq!((&stats["document"], &stats["version"]), (&"stats".into(), &1.into()), "{stats}");
    let [link] = &stats["links"].as_array().expect("a list")[..] else { panic!("one link: {stats}") };
    link.clone()
}

#[cfg(target_os = "linux")]
thread_local! {
    /// True if a script of this test failed.
    static SCRIPT_FAILED: Cell<bool> = const { Cell::new(false) };
}

/// Runs the body of a test that counts packets. If it fails and what it started was measured to have lost its processor
/// for too long, the test says so and counts as skipped. Scripts have long waits, so that their failure has a higher limit.
#[cfg(target_os = "linux")]
pub(crate) fn unless_starved(test: impl FnOnce()) {
    SCRIPT_FAILED.set(false);
    let (ended, lost) = LostProcessor::during(|| catch_unwind(AssertUnwindSafe(test)));
    let Err(panic) = ended else { return };
    let limit = if SCRIPT_FAILED.get() { LIMIT_FOR_ANSWERS } else { LIMIT_FOR_FRAMES };
    match lost.excuse(std::thread::current().name().unwrap_or("a test"), limit) {
        Some(excuse) => println!("{excuse}"),
        None => {
            println!("{lost}");
            resume_unwind(panic)
        }
    }
}

/// There are no real packets here.
#[cfg(not(target_os = "linux"))]
pub(crate) fn unless_starved(test: impl FnOnce()) {
    test();
}

/// The leaves of a simulated run.
pub(crate) fn leaves(run: &serde_json::Value) -> Vec<serde_json::Value> {
    let classes = run["link"]["classes"].as_array().expect("a list");
    classes.iter().filter(|class| class["leaf"] == true).cloned().collect()
}

/// The leaves of a simulated run in its phase with this number.
pub(crate) fn in_phase(run: &serde_json::Value, phase: usize) -> Vec<serde_json::Value> {
    let names: Vec<_> = leaves(run).iter().map(|class| class["name"].clone()).collect();
    let classes = run["link"]["spans"][phase]["classes"].as_array().expect("a list");
    classes.iter().filter(|class| names.contains(&class["name"])).cloned().collect()
}

/// Returns the class of this name in a list of classes of a document.
#[cfg(target_os = "linux")]
pub(crate) fn class<'a>(document: &'a serde_json::Value, name: &str) -> &'a serde_json::Value {
    let classes = document["classes"].as_array().expect("a list");
    classes.iter().find(|class| class["name"] == name).unwrap_or_else(|| panic!("{name}: {document}"))
}

/// The program.
static FAIRLINK: Tested = Tested::new(env!("CARGO_BIN_EXE_fairlink"));

/// The program with these arguments, without colour or terminal.
pub(crate) fn command(args: &[&str]) -> Command {
    FAIRLINK.command(args)
}

/// Runs it to its end.
pub(crate) fn fairlink(args: &[&str]) -> Run {
    FAIRLINK.with(args)
}

/// Runs this to its end. A document that it prints is as its schema says.
pub(crate) fn run(command: &mut Command) -> Run {
    FAIRLINK.run(command)
}

/// Prelude of scripts: two cables, va to vb and vc to vd, and functions that wait, for a minute at most, for a condition, a
/// file, a socket, or text in a file. Processes that a script starts end with it. The command that ends a script by its
/// failure is in `failed`.
#[cfg(target_os = "linux")]
const PRELUDE: &str = r#"
set -eE
trap 'status=$? line=$((LINENO - PRELUDE)); [ $line -lt 1 ] || echo "line $line: $BASH_COMMAND failed with status $status" >> "$D/failed"' ERR
trap 'jobs -p > "$D/jobs"; kill -KILL $(cat "$D/jobs") 2>/dev/null || true' EXIT
until_true() { local limit=$((SECONDS + 60)); until eval "$1"; do [ $SECONDS -lt $limit ] || { echo "waited 60 s for: $1" >> "$D/failed"; return 1; }; sleep 0.01; done; }
until_exists() { until_true "[ -s '$1' ] || [ -S '$1' ]"; }
until_says() { until_true "grep -q '$2' '$1'"; }
ip link set lo up
ip link add name va type veth peer name vb
ip link add name vc type veth peer name vd
for name in va vb vc vd; do
    echo 1 > /proc/sys/net/ipv6/conf/$name/disable_ipv6 || true
    ip link set $name up
done
touch "$D/ready"
"#;

/// Runs a shell script, after [`PRELUDE`], in a private network namespace. The script finds the binary in `$F` and the
/// directory in `$D`. `None`, and a line that says so, where a namespace or its interfaces cannot be had.
#[cfg(target_os = "linux")]
pub(crate) fn in_private_network(script: &str, dir: &Scratch, more: &[(&str, &str)]) -> Option<Output> {
    in_network(&["--map-root-user", "--net"], script, dir, more)
}

/// Cores of each gateway between interfaces.
#[cfg(target_os = "linux")]
pub(crate) fn cores() -> usize {
    std::env::var("FAIRLINK_TEST_CORES").map_or(1, |cores| cores.parse().expect("FAIRLINK_TEST_CORES is a number"))
}

/// The script with gateways between interfaces on as many cores as `FAIRLINK_TEST_CORES` says, so that tests of one core
/// test several, too.
#[cfg(target_os = "linux")]
fn on_cores(script: &str) -> String {
    let cores = cores();
    if cores == 1 {
        return script.to_owned();
    }
    let line = |line: &str| match line.contains("--egress") || line.contains("--cores") {
        true => line.to_owned(),
        false => line.replace("\"$F\" gateway ", &format!("\"$F\" gateway --cores {cores} ")),
    };
    script.lines().map(line).collect::<Vec<_>>().join("\n") + "\n"
}

/// The same in the namespaces that these arguments of `unshare` ask for.
#[cfg(target_os = "linux")]
pub(crate) fn in_network(namespaces: &[&str], script: &str, dir: &Scratch, more: &[(&str, &str)]) -> Option<Output> {
    let script = on_cores(script);
    // Under `nohup` SIGHUP is ignored by all that it starts, and a shell cannot undo it; gateways in these scripts get it.
    let resets = Command::new("env").args(["--default-signal=HUP", "true"]).output();
    let mut command = Command::new("env");
    command.args(resets.is_ok_and(|run| run.status.success()).then_some("--default-signal=HUP"));
    command
        .arg("unshare")
        .args(namespaces)
        .args(["bash", "-c", &format!("{PRELUDE}{script}")])
        .envs([("F", env!("CARGO_BIN_EXE_fairlink")), ("D", &dir.path(""))])
        .env("PRELUDE", PRELUDE.lines().count().to_string())
        .envs(more.iter().copied())
        .stdin(Stdio::null());
    let run = command.output();
    if fs::metadata(dir.path("ready")).is_err() {
        let why = run.map_or_else(|error| error.to_string(), |run| String::from_utf8_lossy(&run.stderr).into_owned());
        println!("SKIPPED: no veth pairs in a private network namespace: {}", why.trim());
        return None;
    }
    for entry in fs::read_dir(dir.path("")).expect("a directory").flatten() {
        let is_json = entry.path().extension().is_some_and(|extension| extension == "json");
        if is_json && entry.metadata().is_ok_and(|file| file.len() <= LONGEST as u64) {
            let text = fs::read_to_string(entry.path()).expect("a file");
            if text.contains("\"document\"") {
                FAIRLINK.assert_documents(&entry.path().display().to_string(), &text);
            }
        }
    }
    let mut run = run.expect("it ran");
    if !run.status.success() {
        SCRIPT_FAILED.set(true);
        run.stderr.extend(failure(dir).into_bytes());
    }
    Some(run)
}

/// What a script that failed leaves: the command that failed, and the ends of the logs of all programs.
#[cfg(target_os = "linux")]
fn failure(dir: &Scratch) -> String {
    let read = |path: &Path| String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned();
    let mut text = format!("\nthe script failed: {}", read(Path::new(&dir.path("failed"))));
    let mut paths: Vec<_> =
        fs::read_dir(dir.path("")).expect("a directory").flatten().map(|file| file.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "log"));
    paths.sort();
    for path in paths {
        let log = read(&path);
        let last: Vec<_> = log.lines().skip(log.lines().count().saturating_sub(12)).collect();
        if !last.is_empty() {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            text += &format!("-- {name} ends with:\n{}\n", last.join("\n"));
        }
    }
    text
}
