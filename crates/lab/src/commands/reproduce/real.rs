//! Claims on real packets: the demo's stage for rates, and `gateway`, `generate` and `receive` as processes of their
//! own for delays, all in one private network namespace that ends with this process.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use fairlink_api::links_of;
use fairlink_core::registry::find;
use fairlink_core::{Hierarchy, NANOS_PER_SEC, Nanos};
use fairlink_figures::measure::SETTLE;
use fairlink_lab::claims::real::{KERNEL_HTB, Testbed, real};
use fairlink_lab::claims::{Claim, ClaimError, Lab, Row, Unit, Workload};
use fairlink_net::{GatewayStats, Watch};
use fairlink_report::{ClassReport, ClassSpan, Rates};
use fairlink_sim::Phase;
use fairlink_testbed::{
    DemoPlan, KernelHtb, LostProcessor, PlanPhase, Shaper, Stage, TcError, enter_private_namespace, lay_cables,
};
use serde_json::Value;

use fairlink_terminal::failure::CliError;
use fairlink_terminal::out::note;
use fairlink_terminal::program::found;

use super::RealRows;
use super::disturbance::Disturbance;
use crate::commands::busy::Load;

/// The program of the gateway, the generator and the receiver.
const LINKS: &str = "fairlink";

/// The stage's interfaces, from the generator to the receiver.
const SOURCE: &str = "fl-source";
const INPUT: &str = "fl-in";
const OUTPUT: &str = "fl-out";
const SINK: &str = "fl-sink";
/// Those of a second link beside, laid where they are needed.
const SECOND: [&str; 4] = ["fl-source2", "fl-in2", "fl-out2", "fl-sink2"];
/// Time for a process to become ready.
const READY: Duration = Duration::from_secs(5);
/// Time that the receiver listens after the expected end of the generator.
const AFTER: Duration = Duration::from_millis(1500);

/// The rows of all claims that can be tried on real packets, one claim after the other, and the claims that could not be
/// played. Where the machine was disturbed, rows are not judged.
///
/// # Errors
/// There is no private network namespace, or no program `fairlink`.
pub(super) fn rows(lab: &Lab<'_>, claims: &[&'static Claim], stop: &Arc<AtomicBool>) -> Result<RealRows, CliError> {
    let refused = |error: &dyn std::fmt::Display| {
        CliError::wrong(format!("--real: real packets cannot be sent here: {error}; leave --real out to simulate only"))
    };
    let program = found(LINKS).ok_or_else(|| {
        CliError::wrong(format!(
            "--real: there is no program {LINKS} beside this one or in PATH; packages have it, and `cargo build --release -p {LINKS}` builds it"
        ))
    })?;
    let namespace = enter_private_namespace().map_err(|error| refused(&error))?;
    let stage = Stage::new(&namespace).map_err(|error| refused(&error))?;
    let dir = Scratch::new().map_err(|error| refused(&error))?;
    let mut bed = Bed {
        stage,
        program,
        dir,
        stop: Arc::clone(stop),
        played: 0,
        has_second: false,
        disturbance: Disturbance::default(),
    };
    let (mut rows, mut failed) = (BTreeMap::new(), Vec::new());
    for (claim, attempt) in claims.iter().filter_map(|claim| Some((claim, real(claim)?))) {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        note(format!("real packets: {}", claim.id));
        bed.disturbance = Disturbance::default();
        let found = match (attempt(lab, &mut bed), bed.disturbance.reason()) {
            (Err(ClaimError::Stopped), _) => break,
            (Ok(found), None) => found,
            (Ok(found), Some(reason)) => {
                found.into_iter().map(|row| row.not_judged(format!("real packets: {reason}"))).collect()
            }
            (Err(trouble), _) => {
                failed.push(claim.id);
                let reason = format!("real packets: not judged, because they could not be played: {trouble}");
                vec![Row::shown("real packets: runs", Unit::Count, 0.0).not_judged(reason)]
            }
        };
        rows.insert(claim.id, found);
    }
    Ok((rows, failed))
}

/// A directory for the files of the processes, removed at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> std::io::Result<Self> {
        let dir = std::env::temp_dir().join(format!("fairlink-real-{}", std::process::id()));
        std::fs::create_dir(&dir)?;
        Ok(Self(dir))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Errors of the removal are ignored.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Rates of classes by name, in bit/s.
type ClassRates = Vec<(String, f64)>;

struct Bed {
    stage: Stage,
    /// The program `fairlink`.
    program: PathBuf,
    dir: Scratch,
    stop: Arc<AtomicBool>,
    played: u8,
    /// True if the cables of the second link are laid.
    has_second: bool,
    /// Of the claim that is tried.
    disturbance: Disturbance,
}

impl Testbed for Bed {
    fn rates(&mut self, workload: &Workload, scheduler: &str) -> Result<Vec<Phase>, ClaimError> {
        let (sharer, reader) = match find(scheduler) {
            Some(info) => (Shaper::Gateway(info), scheduler),
            None if scheduler == KERNEL_HTB => (Shaper::KernelHtb, "htb"),
            None => return Err(ClaimError::other(format!("there is no scheduler {scheduler}"))),
        };
        let scenario = links_of(&workload.read(reader)?).first;
        let phases = scenario.phases().into_iter().zip(scenario.ideals());
        let plan = DemoPlan {
            experiment: 0,
            scenario: None,
            phases: phases
                .map(|(phase, ideal_bps)| PlanPhase { start: phase.start, end: phase.end, ideal_bps })
                .collect(),
            tree: scenario.tree,
            names: scenario.names,
            sources: scenario.sources,
            settle: SETTLE,
        };
        let load = Load::now();
        let (run, lost) = LostProcessor::of_all_during(|| self.stage.play(&plan, sharer, &self.stop, |_| ()));
        let run = run.map_err(ClaimError::other)?;
        let link = run.forfeited_s.unwrap_or(0.0) / seconds(plan.duration());
        self.disturbance.add(Disturbance { lost, link, others: load.others() });
        if self.stop.load(Ordering::Relaxed) {
            return Err(ClaimError::Stopped);
        }
        let phases = run.phases.into_iter().map(|phase| Phase {
            start_s: phase.start_s,
            end_s: phase.end_s,
            classes: phase
                .classes
                .into_iter()
                .map(|class| ClassSpan {
                    name: class.name,
                    rates: Rates {
                        rate_bps: class.rates.rate_bps,
                        settled_bps: class.rates.rate_bps,
                        fair_bps: class.rates.fair_bps,
                        ..Rates::default()
                    },
                    ..ClassSpan::default()
                })
                .collect(),
            inner_classes: Vec::new(),
        });
        Ok(phases.collect())
    }

    fn kernel_refuses(&mut self, tree: &Hierarchy) -> Result<Option<String>, ClaimError> {
        match KernelHtb::install(SOURCE, tree) {
            Ok(_) => Ok(None),
            Err(TcError::Failed { message }) => Ok(Some(message)),
            Err(other) => Err(ClaimError::other(other)),
        }
    }

    fn delays(&mut self, workload: &Workload, scheduler: &str) -> Result<Vec<(String, f64)>, ClaimError> {
        self.undisturbed(|bed| bed.play_delays(workload, scheduler))
    }

    fn links(
        &mut self,
        links: &Workload,
        traffic: &[Workload],
        spans: &[(f64, f64)],
    ) -> Result<Vec<Vec<(String, f64)>>, ClaimError> {
        self.undisturbed(|bed| bed.play_links(links, traffic, spans))
    }
}

impl Bed {
    /// Does `work`, which returns the part of the link's time that was lost as well, and records what disturbed it.
    fn undisturbed<T>(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<(T, f64), ClaimError>,
    ) -> Result<T, ClaimError> {
        let load = Load::now();
        let (done, lost) = LostProcessor::during(|| work(self));
        let (done, link) = done?;
        self.disturbance.add(Disturbance { lost, link, others: load.others() });
        Ok(done)
    }

    /// Returns the mean delay of each class.
    fn play_delays(&mut self, workload: &Workload, scheduler: &str) -> Result<(Vec<(String, f64)>, f64), ClaimError> {
        self.played = self.played.wrapping_add(1);
        let duration = workload.read(scheduler)?.duration;
        let file = self.dir.0.join("scenario.toml");
        std::fs::write(&file, &workload.text).map_err(ClaimError::other)?;
        let file = file.display().to_string();
        let listening = Duration::from_nanos(duration.0) + AFTER + Duration::from_secs(1);
        let listening = format!("{}ms", listening.as_millis());
        let socket = self.dir.0.join("control.sock").display().to_string();
        let run = self.played.to_string();
        let gateway = [
            "gateway",
            &file,
            "--in",
            INPUT,
            "--out",
            OUTPUT,
            "--scheduler",
            scheduler,
            "--lenient",
            "--control",
            &socket,
        ];
        let _gateway = self.start("gateway", &gateway)?;
        let receive = ["receive", "--in", SINK, "--link", &file, "--duration", &listening, "--json"];
        let mut receiver = self.start("receiver", &receive)?;
        let mut generator = self.start("generator", &["generate", &file, "--out", SOURCE, "--run", &run, "--json"])?;
        let longest = duration.0 / NANOS_PER_SEC + 5;
        generator.wait(&self.stop, Duration::from_secs(longest))?;
        receiver.wait(&self.stop, READY + AFTER + Duration::from_secs(5))?;
        let mut watch = Watch::connect(socket.as_ref()).map_err(ClaimError::other)?;
        let gateway = watch.stats(None, Some(AFTER)).map_err(ClaimError::other)?;
        let lost = gateway.gateway().forfeited_s / seconds(duration);
        let text = std::fs::read_to_string(self.dir.0.join("receiver.out")).map_err(ClaimError::other)?;
        let document: Value = serde_json::from_str(&text).map_err(ClaimError::other)?;
        let class = |class: &Value| Some((class["name"].as_str()?.to_owned(), class["delay_s"]["mean"].as_f64()?));
        Ok((document["classes"].as_array().into_iter().flatten().filter_map(class).collect(), lost))
    }

    /// Returns the rates of the classes of all links in each of `spans`.
    fn play_links(
        &mut self,
        links: &Workload,
        traffic: &[Workload],
        spans: &[(f64, f64)],
    ) -> Result<(Vec<ClassRates>, f64), ClaimError> {
        let [source, input, output, sink] = SECOND;
        if !self.has_second {
            lay_cables(&[(source, input), (output, sink)]).map_err(ClaimError::other)?;
            self.has_second = true;
        }
        self.played = self.played.wrapping_add(1);
        let write = |name: &str, text: &str| -> Result<String, ClaimError> {
            let file = self.dir.0.join(name);
            std::fs::write(&file, text).map_err(ClaimError::other)?;
            Ok(file.display().to_string())
        };
        let file = write("links.toml", &between(&links.text, &[[INPUT, OUTPUT], [input, output]]))?;
        let socket = self.dir.0.join("control.sock");
        let mut gateway = self.start("gateway", &["gateway", &file, "--control", &socket.display().to_string()])?;
        // It says things before it is there.
        let mut watch = loop {
            match Watch::connect(&socket) {
                Ok(watch) => break watch,
                Err(_) if !gateway.has_ended()? && gateway.begun.elapsed() < READY => sleep(Duration::from_millis(10)),
                Err(error) => return Err(ClaimError::other(format!("{error}: {}", gateway.said().trim()))),
            }
        };
        let run = self.played.to_string();
        let mut generators = Vec::new();
        for (number, (workload, out)) in traffic.iter().zip([SOURCE, source]).enumerate() {
            let file = write(&format!("traffic{number}.toml"), &workload.text)?;
            generators.push(self.start("generator", &["generate", &file, "--out", out, "--run", &run])?);
        }
        let begun = Instant::now();
        let names = watch.links().map_err(ClaimError::other)?;
        let (mut rates, mut lost) = (Vec::new(), 0.0f64);
        for &(from, to) in spans {
            let mut seen = [from, to].map(|_| Vec::new());
            for (at, seen) in [from, to].into_iter().zip(&mut seen) {
                self.sleep_until(begun + Duration::from_secs_f64(at))?;
                for name in &names {
                    // The connection stays until the next question.
                    seen.push(watch.stats(Some(name), Some(AFTER * 10)).map_err(ClaimError::other)?);
                }
            }
            let [before, after] = &seen;
            let of_link = |(before, after): (&GatewayStats, &GatewayStats)| {
                let seconds = after.gateway().uptime_s - before.gateway().uptime_s;
                let rate = |(before, after): (&ClassReport, &ClassReport)| {
                    let bytes = after.counts().sent.bytes.saturating_sub(before.counts().sent.bytes);
                    (after.name.clone(), bytes as f64 * 8.0 / seconds)
                };
                before.classes.iter().zip(&after.classes).map(rate).collect::<Vec<_>>()
            };
            for link in after {
                lost = lost.max(link.gateway().forfeited_s / link.gateway().uptime_s);
            }
            rates.push(before.iter().zip(after).flat_map(of_link).collect());
        }
        for mut generator in generators {
            generator.wait(&self.stop, READY)?;
        }
        Ok((rates, lost))
    }
}

fn seconds(time: Nanos) -> f64 {
    time.0 as f64 / NANOS_PER_SEC as f64
}

/// The link file with these interfaces, in and out of each of its links in turn.
fn between(links: &str, interfaces: &[[&str; 2]]) -> String {
    let mut of = [0, 0];
    let line = |line: &str| {
        let side = ["in = ", "out = "].iter().position(|key| line.starts_with(key));
        let named = side.and_then(|side| {
            of[side] += 1;
            Some((["in", "out"][side], interfaces.get(of[side] - 1)?[side]))
        });
        named.map_or_else(|| format!("{line}\n"), |(key, name)| format!("{key} = \"{name}\"\n"))
    };
    links.lines().map(line).collect()
}

impl Bed {
    fn sleep_until(&self, then: Instant) -> Result<(), ClaimError> {
        while Instant::now() < then {
            if self.stop.load(Ordering::Relaxed) {
                return Err(ClaimError::Stopped);
            }
            sleep(then.saturating_duration_since(Instant::now()).min(Duration::from_millis(50)));
        }
        Ok(())
    }

    /// Starts the program with these arguments and waits until it says that it is ready, which all of them do on
    /// standard error but the generator.
    fn start(&self, name: &'static str, arguments: &[&str]) -> Result<Process, ClaimError> {
        let path = |end: &str| self.dir.0.join(format!("{name}.{end}"));
        let (out, log) = (File::create(path("out")), File::create(path("log")));
        let child = Command::new(&self.program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(out.map_err(ClaimError::other)?)
            .stderr(log.map_err(ClaimError::other)?)
            .spawn()
            .map_err(ClaimError::other)?;
        let mut process = Process { name, child, log: path("log"), begun: Instant::now() };
        while name != "generator" && process.said().is_empty() {
            if process.begun.elapsed() > READY || process.has_ended()? {
                return Err(ClaimError::other(format!("{name}: {}", process.said())));
            }
            sleep(Duration::from_millis(10));
        }
        Ok(process)
    }
}

/// A process that ends with this value.
struct Process {
    name: &'static str,
    child: Child,
    log: PathBuf,
    begun: Instant,
}

impl Process {
    /// Returns the standard error of the process.
    fn said(&self) -> String {
        read(&self.log)
    }

    fn has_ended(&mut self) -> Result<bool, ClaimError> {
        Ok(self.child.try_wait().map_err(ClaimError::other)?.is_some())
    }

    /// Waits for its end, for at most `longest`.
    fn wait(&mut self, stop: &AtomicBool, longest: Duration) -> Result<(), ClaimError> {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().map_err(ClaimError::other)? {
                let said = format!("{}: {}", self.name, self.said().trim());
                return if status.success() { Ok(()) } else { Err(ClaimError::other(said)) };
            }
            if stop.load(Ordering::Relaxed) {
                return Err(ClaimError::Stopped);
            }
            if begun.elapsed() > longest {
                return Err(ClaimError::other(format!("{} did not end", self.name)));
            }
            sleep(Duration::from_millis(20));
        }
    }
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

impl Drop for Process {
    fn drop(&mut self) {
        // One that has ended already is only waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
