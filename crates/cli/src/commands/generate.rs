//! `fairlink generate`: sends a scenario as real traffic, or TCP; with `--receive` it also measures the received
//! traffic.

pub(crate) mod both;
mod tcp;

use std::path::{Path, PathBuf};

use fairlink_config::matching::{IpVersion, Match};
use fairlink_config::scenario::read_script;
use fairlink_config::{ReadOptions, Scenario, SourceText};
use fairlink_core::{ClassId, Leniency, Nanos, Rate};
use fairlink_report::{Content, Delay, Document};
use fairlink_testbed::{
    FrameChoice, Generator, GeneratorConfig, GeneratorProgress, GeneratorReport, InterfaceReport, Lanes, MAX_FLOWS,
    default_matches, flow_headers, run_together, script_generators,
};
use fairlink_traffic::Script;
use indicatif::{ProgressBar, ProgressStyle};
use schemars::JsonSchema;
use serde::Serialize;

use fairlink_terminal::args::{one_of, rate, time};
use fairlink_terminal::failure::CliError;
use fairlink_terminal::human;
use fairlink_terminal::interrupt::stop_flag;
use fairlink_terminal::out::{Out, note, note_paragraph};

/// Traffic and interfaces.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The scenario file, or a script of the HTB text's generator. Packet lengths are those of whole Ethernet frames
    /// without check sequence.
    #[arg(required_unless_present = "tcp")]
    scenario: Option<PathBuf>,
    /// Output interface. Flows of a script that name one with `i` use that one.
    #[arg(long = "out", value_name = "IF")]
    output: Option<String>,
    /// Duration [default: the scenario's].
    #[arg(long, value_name = "TIME", value_parser = time)]
    duration: Option<Nanos>,
    /// Rate of each greedy source [default: 110 % of the link's].
    #[arg(long, value_name = "RATE", value_parser = rate)]
    greedy_rate: Option<Rate>,
    /// Run number in the frames, 0 to 255, by which a receiver separates runs.
    #[arg(long, value_name = "N", default_value_t = 0)]
    run: u8,
    /// Flows of each class, 1 to 4096: its frames cycle through ports and addresses that the class's matches accept.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_FLOWS)))]
    flows: u32,
    /// IP version if the matches of a class allow both: 4 or 6 [default: 4].
    #[arg(long, value_name = "VERSION", value_parser = one_of([("4", IpVersion::V4), ("6", IpVersion::V6)]))]
    ip: Option<IpVersion>,
    /// DSCP for classes whose matches name none, and for --tcp: a number from 0 to 63, or a name such as ef [default:
    /// 0].
    #[arg(long, value_name = "DSCP", value_parser = dscp)]
    dscp: Option<u8>,
    /// Send packets longer than the interface's MTU as fragments of one IP datagram (UDP over IPv4 or IPv6). A picture
    /// of an mpeg source is then one packet. `fairlink receive` reassembles them.
    #[arg(long)]
    fragment: bool,
    /// Measure the time from a frame's stamp until the kernel passes it to the driver. Costs a system call per frame.
    #[arg(long)]
    kernel_stamps: bool,
    /// Keep the sending thread on this processor.
    #[arg(long, value_name = "CPU")]
    cpu: Option<usize>,
    /// Also receive at this interface and report both: the other end of a cable, or the interface itself if it is
    /// looped back. May be repeated.
    #[arg(long, value_name = "IF", conflicts_with = "tcp")]
    receive: Vec<String>,
    /// With --receive: write rates and delays against time into this directory, as CSV and SVG, with each R of a script
    /// below the x axis.
    #[arg(long, value_name = "DIR", requires = "receive")]
    plots: Option<PathBuf>,
    /// Connections of the kernel.
    #[command(flatten)]
    connections: tcp::Args,
}

fn dscp(text: &str) -> Result<u8, String> {
    let single = !text.contains(char::is_whitespace);
    let parsed = Match::parse(&format!("dscp {text}")).ok().filter(|_| single);
    parsed
        .and_then(|found| found.dscp)
        .ok_or_else(|| format!("\"{text}\" is not a DSCP; write 0 to 63, or a name such as ef"))
}

impl Args {
    fn config(&self, scenario: &Path) -> Result<GeneratorConfig, CliError> {
        let Some(output) = self.output.clone() else {
            return Err(CliError::wrong("a scenario needs the interface to send on: --out IF"));
        };
        // Traffic does not depend on the features of a scheduler.
        let file = Scenario::read(scenario, &ReadOptions { leniency: Leniency::Ignore, scheduler: None })?;
        if let Some(peer) = file.peers.first() {
            let name = &peer.name;
            let why =
                format!("{}: [[peer]] \"{name}\": only `fairlink sim` runs several links at once", scenario.display());
            return Err(CliError::wrong(why));
        }
        if !file.changes.is_empty() {
            let why = format!("{}: [[change]]: only `fairlink sim` changes a link while it runs", scenario.display());
            return Err(CliError::wrong(why));
        }
        fairlink_terminal::style::warn(file.warnings);
        let link = &file.link;
        let matches = if link.matches.is_empty() && link.default_class.is_none() {
            let matches = default_matches(link.tree.leaves()).map_err(CliError::wrong)?;
            note("the classes have no matches: their frames go to UDP ports from 5001 up, in the order of the file");
            matches
        } else {
            link.matches.clone()
        };
        let mut classes: Vec<ClassId> = file.sources.iter().map(|source| source.class).collect();
        classes.sort_unstable();
        classes.dedup();
        let name = |class: ClassId| link.names.name(class);
        let choice = FrameChoice { version: self.ip, dscp: self.dscp };
        let mut headers = Vec::new();
        for &class in &classes {
            let flows = flow_headers(class, &matches, link.default_class, choice, self.flows);
            let flows = flows.map_err(|error| {
                let wanted = if choice == FrameChoice::default() { "" } else { ", with the --ip and --dscp given" };
                CliError::wrong(format!("class \"{}\": {error}{wanted}", name(class)))
            })?;
            headers.extend(flows.into_iter().map(|flow| (class, flow)));
        }
        let link_bps = link.tree.link().rate.bps();
        Ok(GeneratorConfig {
            interface: output,
            classes: headers,
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
            fragment: self.fragment,
            kernel_stamps: self.kernel_stamps,
            cpu: self.cpu,
        })
    }
}

/// Sends and reports.
pub(crate) fn run(args: &Args, out: &mut Out) -> Result<(), CliError> {
    if let Some(to) = args.connections.tcp {
        return tcp::run(to, args, out);
    }
    let Some(scenario) = &args.scenario else { return Err(CliError::wrong("a scenario is missing, or --tcp")) };
    let sending = Sending::open(scenario, args)?;
    if !args.receive.is_empty() {
        return both::run(sending, args, out);
    }
    let sent = sending.run()?;
    warn(&sent);
    match (out.json, sent) {
        (true, Sent::Script(interfaces)) => out.document(&Document::new(ScriptReport { interfaces })),
        (true, Sent::Scenario(report)) => out.document(&Document::new(*report)),
        (false, sent) => text_of(&sent, args, out),
    }
}

/// Traffic to send, with open sockets.
struct Sending {
    generators: Vec<(String, Generator)>,
    duration_s: f64,
    /// A script of the HTB text's generator.
    script: Option<Script>,
    /// Names of the classes that are sent.
    names: Vec<(ClassId, String)>,
}

/// Report of the sent traffic.
#[derive(JsonSchema, Serialize)]
#[serde(untagged)]
enum Sent {
    Scenario(Box<GeneratorReport>),
    Script(Vec<InterfaceReport>),
}

impl Sent {
    fn reports(&self) -> Vec<&GeneratorReport> {
        match self {
            Self::Scenario(report) => vec![report],
            Self::Script(interfaces) => interfaces.iter().map(|interface| &interface.report).collect(),
        }
    }
}

impl Sending {
    fn open(path: &Path, args: &Args) -> Result<Self, CliError> {
        let is_script = std::fs::read_to_string(path).is_ok_and(|text| Script::is_one(&text));
        let (configs, script) = if is_script {
            if args.flows > 1 || args.ip.is_some() || args.dscp.is_some() || args.fragment {
                note("--flows, --ip, --dscp and --fragment do not apply to a script: its frames have no IP");
            }
            let script = read_script(&SourceText::read(path)?)?;
            let configs = script_generators(&script, args.output.as_deref(), args.run, args.duration);
            let configs = configs.map_err(|error| CliError::wrong(format!("{error}: --out IF")))?;
            let own = |config| GeneratorConfig { cpu: args.cpu, kernel_stamps: args.kernel_stamps, ..config };
            (configs.into_iter().map(own).collect(), Some(script))
        } else {
            (vec![args.config(path)?], None)
        };
        let duration_s = configs.iter().map(|config| config.duration.0).max().unwrap_or(0) as f64 / 1e9;
        let names =
            if is_script { Vec::new() } else { configs.iter().flat_map(|config| config.names.clone()).collect() };
        let opened = configs
            .into_iter()
            .map(|config| Ok((config.interface.clone(), Generator::open(config).map_err(CliError::wrong)?)));
        Ok(Self { generators: opened.collect::<Result<_, CliError>>()?, duration_s, script, names })
    }

    /// Sends: each flow out of its interface, all at once.
    fn run(self) -> Result<Sent, CliError> {
        let stop = stop_flag()?;
        let bar = progress_bar(self.duration_s);
        let reports = run_together(self.generators, &stop, |progress| show(&bar, progress));
        bar.finish_and_clear();
        let mut interfaces = reports.map_err(CliError::failed)?;
        Ok(match (&self.script, interfaces.pop()) {
            (None, Some(only)) => Sent::Scenario(Box::new(only.report)),
            (_, last) => {
                interfaces.extend(last);
                Sent::Script(interfaces)
            }
        })
    }
}

/// Prints deviations of the sent traffic from its sources to standard error.
fn warn(sent: &Sent) {
    for class in sent.reports().into_iter().flat_map(|report| &report.classes) {
        if class.blocked_sends > 0 {
            note_paragraph(
                &format!(
                    "WARNING: {}: {} would have blocked, for {} in total: the device queue holds more frames than the socket's buffer, so the source's timing is not what is measured. Shorten that queue, for example with pfifo limit 5",
                    class.name,
                    human::count(class.blocked_sends as usize, "send", "sends"),
                    human::time(class.blocked_s)
                ),
                2,
            );
        }
        if class.late_packets > 0 {
            note_paragraph(
                &format!(
                    "WARNING: {}: {} of {} were not sent, because this machine was too slow. Lower the rate, or dedicate a processor with --cpu",
                    class.name,
                    human::count(class.late_packets as usize, "packet", "packets"),
                    class.offered_packets
                ),
                2,
            );
        }
    }
}

/// Prints the sent traffic, for each interface if there are several.
fn text_of(sent: &Sent, args: &Args, out: &mut Out) -> Result<(), CliError> {
    match sent {
        Sent::Scenario(report) => text(report, args, out),
        Sent::Script(interfaces) => {
            for InterfaceReport { interface, report } in interfaces {
                out.paragraph(&format!("{interface}:"), 2)?;
                text(report, args, out)?;
            }
            Ok(())
        }
    }
}

/// Report of a script.
#[derive(JsonSchema, Serialize)]
pub(crate) struct ScriptReport {
    interfaces: Vec<InterfaceReport>,
}

impl Content for ScriptReport {
    const KIND: &'static str = "generate_script";
}

/// Makes a progress bar, drawn only if standard error is a terminal.
fn progress_bar(duration_s: f64) -> ProgressBar {
    let style = ProgressStyle::with_template("sending {wide_bar} {msg}").expect("a template");
    ProgressBar::new((duration_s * 10.0) as u64).with_style(style)
}

fn show(bar: &ProgressBar, progress: &GeneratorProgress) {
    bar.set_position((progress.elapsed_s * 10.0) as u64);
    bar.set_message(format!("{} frames", progress.sent_packets));
}

fn text(report: &GeneratorReport, args: &Args, out: &mut Out) -> Result<(), CliError> {
    out.paragraph(&format!("sent for {}", human::time(report.duration_s)), 2)?;
    if report.unreached_s > 0.0 {
        out.paragraph(
            &format!(
                "this machine fell behind: the last {} of the sources' time were not sent",
                human::time(report.unreached_s)
            ),
            2,
        )?;
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
    let times = |of: &Delay| {
        let [p50, p99, p999, max] = [of.p50, of.p99, of.p999, of.max].map(human::known_time);
        format!("p50 {p50}, p99 {p99}, p99.9 {p999}, longest {max}")
    };
    if let Some(after) = &report.departure_after_due_s {
        out.paragraph(&format!("lateness of frames: {}", times(after)), 2)?;
    }
    match &report.driver_after_stamp_s {
        Some(after) => out.paragraph(&format!("further delay to the driver: {}", times(after)), 2)?,
        None if args.kernel_stamps => out.line("the kernel has no driver timestamps for this interface")?,
        None => {}
    }
    for class in &report.classes {
        if class.lost_at_source_packets > 0 {
            let packets = human::count(class.lost_at_source_packets as usize, "packet", "packets");
            out.paragraph(&format!("{}: {packets} were dropped by the sources' own shapers", class.name), 2)?;
        }
        if class.fragments > 0 {
            let packets = human::count(class.fragmented_packets as usize, "packet", "packets");
            out.paragraph(
                &format!("{}: {packets} were sent as fragments; {} fragments in total", class.name, class.fragments),
                2,
            )?;
        }
        if class.padded_packets > 0 {
            let packets = human::count(class.padded_packets as usize, "packet", "packets");
            out.paragraph(
                &format!("{}: {packets} were padded to the minimum length of headers and stamp", class.name),
                2,
            )?;
        }
    }
    Ok(())
}
