//! The `fairlink` binary as its users see it: output, JSON as documented, exit codes. One module per group of commands.
#![forbid(unsafe_code)]

#[cfg(target_os = "linux")]
mod af_xdp;
mod api;
#[cfg(target_os = "linux")]
mod bad_input;
mod basics;
mod bench;
mod between;
#[cfg(target_os = "linux")]
mod book;
mod check;
mod clock;
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
mod reproduce;
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
mod traffic;
#[cfg(target_os = "linux")]
mod unit;
mod width;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Result of a run of the binary.
pub(crate) struct Run {
    /// Exit code.
    pub(crate) code: i32,
    /// Standard output.
    pub(crate) stdout: String,
    /// Standard error.
    pub(crate) stderr: String,
}

impl Run {
    /// Standard output as JSON.
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error} in: {}", self.stdout))
    }

    /// Asserts success without output on standard error.
    pub(crate) fn quiet(self) -> Self {
        assert_eq!((self.code, self.stderr.as_str()), (0, ""), "{}", self.stdout);
        self
    }
}

/// The one link of a gateway's statistics, which have the same shape however many links there are.
pub(crate) fn only_link(stats: &serde_json::Value) -> serde_json::Value {
    assert_eq!((&stats["document"], &stats["version"]), (&"stats".into(), &1.into()), "{stats}");
    let [link] = &stats["links"].as_array().expect("a list")[..] else { panic!("one link: {stats}") };
    link.clone()
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

/// The binary with these arguments, without colour or terminal.
pub(crate) fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fairlink"));
    command.args(args).stdin(Stdio::null()).env_remove("CLICOLOR_FORCE").env_remove("COLUMNS");
    command
}

/// Runs it to its end.
pub(crate) fn fairlink(args: &[&str]) -> Run {
    run(&mut command(args))
}

/// Runs this to its end.
pub(crate) fn run(command: &mut Command) -> Run {
    let Output { status, stdout, stderr } = command.output().expect("the binary starts");
    Run {
        code: status.code().expect("it exits by itself"),
        stdout: String::from_utf8(stdout).expect("text"),
        stderr: String::from_utf8(stderr).expect("text"),
    }
}

/// Runs it where no file can grow above a block or two, which is half a kilobyte or one by the shell, as on a disk that
/// is full.
#[cfg(unix)]
pub(crate) fn fairlink_on_a_full_disk(args: &[&str]) -> Run {
    let limited = "trap '' XFSZ; ulimit -f 1; exec \"$0\" \"$@\"";
    run(Command::new("sh").args(["-c", limited, env!("CARGO_BIN_EXE_fairlink")]).args(args).stdin(Stdio::null()))
}

/// The path of a file that the project ships.
pub(crate) fn scenario(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios").join(name).to_str().expect("text").to_owned()
}

/// A directory of its own, removed in the end.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    /// An empty one.
    pub(crate) fn new() -> Self {
        static MADE: AtomicUsize = AtomicUsize::new(0);
        let name = format!("fairlink-test-{}-{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        let dir = std::env::temp_dir().join(name);
        fs::create_dir_all(&dir).expect("a directory");
        Self(dir)
    }

    /// The path of a file in it.
    pub(crate) fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().expect("text").to_owned()
    }

    /// Writes a file into it; returns its path.
    pub(crate) fn write(&self, name: &str, text: &str) -> String {
        fs::write(self.0.join(name), text).expect("written");
        self.path(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Prelude of scripts: two cables, va to vb and vc to vd, and functions that wait, within limits, for a file, a socket,
/// or text in a file. Processes that a script starts end with it.
#[cfg(target_os = "linux")]
const PRELUDE: &str = r#"
set -e
trap 'jobs -p > "$D/jobs"; kill -KILL $(cat "$D/jobs") 2>/dev/null || true' EXIT
until_exists() { n=0; while [ ! -s "$1" ] && [ ! -S "$1" ]; do n=$((n + 1)); [ $n -lt 1000 ]; sleep 0.01; done; }
until_says() { n=0; until grep -q "$2" "$1"; do n=$((n + 1)); [ $n -lt 2000 ]; sleep 0.01; done; }
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

/// The same in the namespaces that these arguments of `unshare` ask for.
#[cfg(target_os = "linux")]
pub(crate) fn in_network(namespaces: &[&str], script: &str, dir: &Scratch, more: &[(&str, &str)]) -> Option<Output> {
    let run = Command::new("unshare")
        .args(namespaces)
        .args(["sh", "-c", &format!("{PRELUDE}{script}")])
        .envs([("F", env!("CARGO_BIN_EXE_fairlink")), ("D", &dir.path(""))])
        .envs(more.iter().copied())
        .stdin(Stdio::null())
        .output();
    if fs::metadata(dir.path("ready")).is_err() {
        let why = run.map_or_else(|error| error.to_string(), |run| String::from_utf8_lossy(&run.stderr).into_owned());
        println!("SKIPPED: no veth pairs in a private network namespace: {}", why.trim());
        return None;
    }
    Some(run.expect("it ran"))
}
