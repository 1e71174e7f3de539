//! `fairlink generate`: a scenario as real traffic.

use std::path::PathBuf;

use fairlink_config::scenario::read_script;
use fairlink_config::{ReadOptions, Scenario};
use fairlink_core::{ClassId, Leniency, Nanos, Rate};
use fairlink_net::{
    Generator, GeneratorConfig, GeneratorProgress, GeneratorReport, InterfaceReport, Lanes, default_matches,
    headers_for, run_together, script_generators,
};
use fairlink_traffic::Script;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use crate::args::{rate, time};
use crate::failure::Failure;
use crate::human;
use crate::interrupt::stop_flag;
use crate::out::{Out, note};

/// What to send where.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The scenario file, or a script of the HTB text's generator. Packet lengths are those of whole Ethernet frames without check
    /// sequence.
    scenario: PathBuf,
    /// Interface to send out of. Flows of a script that name one with `i` leave by that.
    #[arg(long = "out", value_name = "IF")]
    output: Option<String>,
    /// How long to send [default: the scenario's duration].
    #[arg(long, value_name = "TIME", value_parser = time)]
    duration: Option<Nanos>,
    /// Rate that each greedy source offers [default: 110 % of the link's].
    #[arg(long, value_name = "RATE", value_parser = rate)]
    greedy_rate: Option<Rate>,
    /// Number, 0 to 255, that the frames carry and by which a receiver tells runs apart.
    #[arg(long, value_name = "N", default_value_t = 0)]
    run: u8,
    /// Keep the sending thread on this processor.
    #[arg(long, value_name = "CPU")]
    cpu: Option<usize>,
}

impl Args {
    fn config(&self) -> Result<GeneratorConfig, Failure> {
        let Some(output) = self.output.clone() else {
            return Err(Failure::wrong("a scenario needs the interface to send out of: --out IF"));
        };
        // Traffic is the same whatever a scheduler can honour.
        let file = Scenario::read(&self.scenario, &ReadOptions { leniency: Leniency::Ignore, scheduler: None })?;
        if let Some(peer) = file.peers.first() {
            let name = &peer.name;
            let why = format!(
                "{}: [[peer]] \"{name}\": only `fairlink sim` runs several links at once",
                self.scenario.display()
            );
            return Err(Failure::wrong(why));
        }
        if !file.changes.is_empty() {
            let why =
                format!("{}: [[change]]: only `fairlink sim` changes a link while it runs", self.scenario.display());
            return Err(Failure::wrong(why));
        }
        crate::link::warn(file.warnings);
        let link = &file.link;
        let matches = if link.matches.is_empty() && link.default_class.is_none() {
            let matches = default_matches(link.tree.leaves()).map_err(Failure::wrong)?;
            note("the classes have no matches: they are sent to UDP ports from 5001 up, in the order of the file");
            matches
        } else {
            link.matches.clone()
        };
        let mut classes: Vec<ClassId> = file.sources.iter().map(|source| source.class).collect();
        classes.sort_unstable();
        classes.dedup();
        let name = |class: ClassId| link.names.name(class);
        let headers = |class: ClassId| {
            let headers = headers_for(class, &matches, link.default_class);
            let headers = headers.map_err(|error| Failure::wrong(format!("class \"{}\": {error}", name(class))))?;
            Ok((class, headers))
        };
        let link_bps = link.tree.link().rate.bps();
        Ok(GeneratorConfig {
            interface: output,
            classes: classes.iter().copied().map(headers).collect::<Result<_, Failure>>()?,
            names: classes.iter().map(|&class| (class, name(class).to_owned())).collect(),
            sources: file.sources,
            seed: file.seed,
            greedy_rate: self
                .greedy_rate
                .unwrap_or_else(|| Rate::from_bps(link_bps.saturating_mul(11) / 10).unwrap_or(Rate::MAX)),
            duration: self.duration.unwrap_or(file.duration),
            start_ns: None,
            run: self.run,
            lanes: Lanes::Shared,
            kernel_stamps: false,
            cpu: self.cpu,
        })
    }
}

/// Sends and reports.
pub(crate) fn run(args: &Args, out: &mut Out) -> Result<(), Failure> {
    if std::fs::read_to_string(&args.scenario).is_ok_and(|text| Script::is_one(&text)) {
        return script(args, out);
    }
    let config = args.config()?;
    let duration_s = config.duration.0 as f64 / 1e9;
    let generator = Generator::open(config).map_err(Failure::wrong)?;
    let stop = stop_flag()?;
    let bar = progress_bar(duration_s);
    let report = generator.run(&stop, |progress| show(&bar, progress));
    bar.finish_and_clear();
    let report = report.map_err(Failure::failed)?;
    if out.json { out.document(&report) } else { text(&report, out) }
}

/// Sends a script: each flow out of its interface, all at once.
fn script(args: &Args, out: &mut Out) -> Result<(), Failure> {
    let script = read_script(&args.scenario)?;
    let configs = script_generators(&script, args.output.as_deref(), args.run, args.duration);
    let configs = configs.map_err(|error| Failure::wrong(format!("{error}: --out IF")))?;
    let duration_s = configs.iter().map(|config| config.duration.0).max().unwrap_or(0) as f64 / 1e9;
    let opened = configs.into_iter().map(|config| {
        let config = GeneratorConfig { cpu: args.cpu, ..config };
        Ok((config.interface.clone(), Generator::open(config).map_err(Failure::wrong)?))
    });
    let generators = opened.collect::<Result<Vec<_>, Failure>>()?;
    let stop = stop_flag()?;
    let bar = progress_bar(duration_s);
    let reports = run_together(generators, &stop, |progress| show(&bar, progress));
    bar.finish_and_clear();
    let interfaces = reports.map_err(Failure::failed)?;
    if out.json {
        return out.document(&ScriptReport { interfaces });
    }
    for InterfaceReport { interface, report } in &interfaces {
        out.line(format!("{interface}:"))?;
        text(report, out)?;
    }
    Ok(())
}

/// What became of a script.
#[derive(Serialize)]
struct ScriptReport {
    interfaces: Vec<InterfaceReport>,
}

/// Draws only where standard error is a terminal.
fn progress_bar(duration_s: f64) -> ProgressBar {
    let style = ProgressStyle::with_template("sending {wide_bar} {msg}").expect("a template");
    ProgressBar::new((duration_s * 10.0) as u64).with_style(style)
}

fn show(bar: &ProgressBar, progress: &GeneratorProgress) {
    bar.set_position((progress.elapsed_s * 10.0) as u64);
    bar.set_message(format!("{} frames", progress.sent_packets));
}

fn text(report: &GeneratorReport, out: &mut Out) -> Result<(), Failure> {
    out.line(format!("sent for {}", human::time(report.duration_s)))?;
    if report.unreached_s > 0.0 {
        out.line(format!(
            "this machine fell behind: the last {} of the sources' time were not reached",
            human::time(report.unreached_s)
        ))?;
    }
    let head = ["class", "offered", "sent", "refused by the kernel", "too late", "rate"];
    let rows = report.classes.iter().map(|class| {
        let counts = [class.offered_packets, class.sent_packets, class.refused_packets, class.late_packets];
        let mut row = vec![class.name.clone()];
        row.extend(counts.map(|count| count.to_string()));
        let seconds = report.duration_s;
        row.push(human::rate(if seconds > 0.0 { class.sent_bytes as f64 * 8.0 / seconds } else { 0.0 }));
        row
    });
    out.table(&head, rows.collect(), 1..head.len())?;
    for class in report.classes.iter().filter(|class| class.blocked_sends > 0) {
        out.paragraph(
            &format!(
                "{}: {} would have blocked, for {} in all: its frames fill the socket's buffer before the queue below drops any, and \
                 its timing is not the source's; shorten that queue (pfifo limit 5)",
                class.name,
                human::count(class.blocked_sends as usize, "send", "sends"),
                human::time(class.blocked_s)
            ),
            2,
        )?;
    }
    Ok(())
}
