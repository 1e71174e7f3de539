//! `fairlink generate`: a scenario as real traffic.

use std::path::PathBuf;

use fairlink_config::{ReadOptions, Scenario};
use fairlink_core::{ClassId, Leniency, Nanos, Rate};
use fairlink_net::{Generator, GeneratorConfig, GeneratorReport, Lanes, default_matches, headers_for};
use indicatif::{ProgressBar, ProgressStyle};

use crate::args::{rate, time};
use crate::failure::Failure;
use crate::human;
use crate::interrupt::stop_flag;
use crate::out::{Out, note};

/// What to send where.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The scenario file. Packet lengths are those of whole Ethernet frames without check sequence.
    scenario: PathBuf,
    /// Interface to send out of.
    #[arg(long = "out", value_name = "IF")]
    output: String,
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
            interface: self.output.clone(),
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
            cpu: self.cpu,
        })
    }
}

/// Sends and reports.
pub(crate) fn run(args: &Args, out: &mut Out) -> Result<(), Failure> {
    let config = args.config()?;
    let duration_s = config.duration.0 as f64 / 1e9;
    let generator = Generator::open(config).map_err(Failure::wrong)?;
    let stop = stop_flag()?;
    // Draws only where standard error is a terminal.
    let style = ProgressStyle::with_template("sending {wide_bar} {msg}").expect("a template");
    let bar = ProgressBar::new((duration_s * 10.0) as u64).with_style(style);
    let report = generator.run(&stop, |progress| {
        bar.set_position((progress.elapsed_s * 10.0) as u64);
        bar.set_message(format!("{} frames", progress.sent_packets));
    });
    bar.finish_and_clear();
    let report = report.map_err(Failure::failed)?;
    if out.json { out.document(&report) } else { text(&report, out) }
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
    out.table(&head, rows.collect(), 1..head.len())
}
