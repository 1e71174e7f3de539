//! `fairlink init`: a commented link file to begin with.

mod kinds;
mod lines;
mod questions;

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};

use clap::Arg;
use clap_complete::{ArgValueCandidates, CompletionCandidate};
use console::Term;
use fairlink_config::units::{rate_key, show_rate};
use fairlink_config::{LinkFile, ReadOptions};
use fairlink_core::Rate;
use fairlink_report::{Content, Document};
use fairlink_schema::editor::DIRECTIVE;
use schemars::JsonSchema;
use serde::Serialize;

use crate::commands::tc::device;
use fairlink_terminal::args::{choice, one_of, rate};
use fairlink_terminal::failure::CliError;
use fairlink_terminal::out::{Out, columns, note, write_all_new};
use kinds::{KINDS, Kind};
use lines::{Line, line};
use questions::{Person, Questions};

/// The link. Missing values are asked for if stdin is a terminal.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Use of the link: home, office, provider, tenants, lab.
    #[arg(long, value_name = "KIND", value_parser = kind)]
    kind: Option<&'static Kind>,
    /// Measured or contracted rate of the line from the internet to the users, such as 100mbit. The file uses 95 % of
    /// it, so that packets queue here and not at the provider.
    #[arg(long, value_name = "RATE", value_parser = rate)]
    down: Option<Rate>,
    /// Rate of the line from the users to the internet. With --down, two files are written; in both, --in is the users'
    /// side and --out the internet's side.
    #[arg(long, value_name = "RATE", value_parser = rate)]
    up: Option<Rate>,
    /// Rate of the link in the direction of --toward, to share only one direction.
    #[arg(long, value_name = "RATE", value_parser = rate, conflicts_with_all = ["down", "up"])]
    rate: Option<Rate>,
    /// Interface of this machine, to share the machine's own traffic.
    #[arg(long, value_name = "IF", value_parser = device, conflicts_with_all = ["input", "output"])]
    egress: Option<String>,
    /// Interface that packets come from, on a machine between two networks; with --down or --up the interface of the
    /// users.
    #[arg(long = "in", value_name = "IF", value_parser = device)]
    input: Option<String>,
    /// Interface that packets leave on: the shared link; with --down or --up the interface of the internet.
    #[arg(long = "out", value_name = "IF", value_parser = device)]
    output: Option<String>,
    /// Direction of --rate: internet or users. It decides which addresses and ports belong to the users [default:
    /// internet].
    #[arg(long, value_name = "WAY", value_parser = one_of([("internet", Toward::Internet), ("users", Toward::Users)]), conflicts_with_all = ["down", "up"])]
    toward: Option<Toward>,
    /// The kind of line: fibre, docsis, vdsl, adsl, lte, ethernet. It sets the overhead of each frame, so that the
    /// file's rate is the rate of the modem. Without it, no overhead is set, unless the command asks at a terminal.
    #[arg(long, value_name = "LINE", value_parser = line)]
    line: Option<&'static Line>,
    /// Write the file here instead of to standard output; of both directions NAME-down.toml and NAME-up.toml for
    /// NAME.toml. An existing file is not overwritten.
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
}

/// Direction of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Toward {
    Internet,
    Users,
}

impl Toward {
    /// Name of this direction's link beside that of the other.
    fn name(self) -> &'static str {
        match self {
            Self::Internet => "up",
            Self::Users => "down",
        }
    }
}

/// Between which interfaces.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Ports {
    Egress(String),
    Between(String, String),
}

/// A direction that is shared.
#[derive(Debug, PartialEq, Eq)]
struct Way {
    toward: Toward,
    ports: Ports,
    rate: Rate,
}

/// A file and its text.
#[derive(JsonSchema, Serialize)]
struct Made {
    /// Path of the file.
    file: PathBuf,
    text: String,
}

#[derive(JsonSchema, Serialize)]
pub(crate) struct InitDoc<'a> {
    kind: &'a str,
    files: &'a [Made],
}

impl Content for InitDoc<'_> {
    const KIND: &'static str = "init";
}

fn kind(text: &str) -> Result<&'static Kind, String> {
    KINDS.iter().find(|kind| kind.name == text).ok_or_else(|| choice(KINDS.iter().map(|kind| kind.name)))
}

/// Writes the file, or one for each direction.
pub(crate) fn run(args: &Args, out: &mut Out) -> Result<(), CliError> {
    let (mut input, mut output) = (io::stdin().lock(), io::stderr());
    let is_person = input.is_terminal();
    let width = columns(&Term::stderr()).unwrap_or(80);
    let person = is_person.then_some(Person { input: &mut input, output: &mut output, width });
    // A file is asked for as well, unless the text is wanted by a program or a shell.
    let to_terminal = out.is_terminal() && !out.json;
    let (made, file) = make(args, Questions::new(person), to_terminal)?;
    if out.json {
        out.document(&Document::new(InitDoc { kind: made.kind.name, files: &made.files }))?;
    } else if file.is_none() {
        made.files.iter().try_for_each(|made| out.raw(made.text.as_bytes()))?;
    }
    if file.is_none() {
        return Ok(());
    }
    let files: Vec<_> = made.files.iter().map(|made| (made.file.clone(), made.text.as_str())).collect();
    write_all_new("--file", &files)?;
    note(written(&files.iter().map(|(path, _)| path.as_path()).collect::<Vec<_>>()));
    Ok(())
}

/// Describes the written files.
fn written(files: &[&Path]) -> String {
    let names: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
    let is = if names.len() > 1 { "are" } else { "is" };
    let checks: Vec<String> = names.iter().map(|name| format!("  fairlink check {name} --gateway\n")).collect();
    let gateway = names.join(" ");
    format!("{} {is} written. Next:\n{}  fairlink gateway {gateway}", names.join(" and "), checks.concat())
}

/// Files and interfaces of a run.
struct Plan {
    kind: &'static Kind,
    files: Vec<Made>,
}

/// Makes the link files from arguments and answers, and chooses the path, if any. Writes nothing.
fn make(args: &Args, mut questions: Questions<'_>, to_terminal: bool) -> Result<(Plan, Option<PathBuf>), CliError> {
    let known = interfaces();
    let kind = match args.kind {
        Some(kind) => kind,
        None => questions.kind()?,
    };
    let ports = ports(args, &known, &mut questions)?;
    let names = match &ports {
        Ports::Egress(name) => vec![name],
        Ports::Between(input, output) => vec![input, output],
    };
    for name in names.into_iter().filter(|name| !known.is_empty() && !known.contains(name)) {
        note(format!("note: this machine has no interface {name} at present"));
    }
    let ways = ways(args, &ports, &mut questions)?;
    let line = match args.line {
        None if questions.asked && kind.has_line => Some(questions.line()?),
        line => line,
    };
    let both = ways.len() > 1;
    let file = match &args.file {
        Some(file) => Some(file.clone()),
        None if to_terminal && questions.has_person() && (questions.asked || both) => {
            Some(PathBuf::from(questions.file(&format!("{}.toml", kind.name), both)?))
        }
        None => None,
    };
    if file.is_none() && both && to_terminal {
        return Err(CliError::wrong("two directions need two files: pass --file home.toml"));
    }
    let base = file.clone().unwrap_or_else(|| PathBuf::from("link.toml"));
    let paths: Vec<PathBuf> =
        ways.iter().map(|way| if both { named(&base, way.toward.name()) } else { base.clone() }).collect();
    let made = |(way, file): (&Way, &PathBuf)| -> Result<Made, CliError> {
        let text = text(kind, way, line, file, &paths);
        // Check that a gateway accepts the file.
        let link = LinkFile::parse(&file.display().to_string(), &text, &ReadOptions::default())?;
        link.require_default()?;
        Ok(Made { file: file.clone(), text })
    };
    let files = ways.iter().zip(&paths).map(made).collect::<Result<Vec<_>, _>>()?;
    Ok((Plan { kind, files }, file))
}

/// The name with `-up` or the like before its end.
fn named(file: &Path, way: &str) -> PathBuf {
    let part = |part: Option<&std::ffi::OsStr>| part.unwrap_or_default().to_string_lossy().into_owned();
    let end = file.extension().map_or_else(String::new, |end| format!(".{}", end.to_string_lossy()));
    file.with_file_name(format!("{}-{way}{end}", part(file.file_stem())))
}

/// Adds the values that an argument of the command with this name takes, for completion.
pub(crate) fn with_values(command: &str, arg: Arg) -> Arg {
    let value = arg.get_value_names().and_then(|names| names.first()).map(ToString::to_string);
    let candidate = |name: &str, what: &'static str| CompletionCandidate::new(name).help(Some(what.into()));
    match (command, arg.get_id().as_str(), value.as_deref()) {
        ("init", "kind", _) => {
            let all = move || KINDS.iter().map(|kind| candidate(kind.name, kind.what)).collect::<Vec<_>>();
            arg.add(ArgValueCandidates::new(all))
        }
        ("init", "line", _) => {
            let all = move || lines::LINES.iter().map(|line| candidate(line.name, line.what)).collect::<Vec<_>>();
            arg.add(ArgValueCandidates::new(all))
        }
        (_, _, Some("IF")) => {
            let all = || interfaces().into_iter().map(CompletionCandidate::new).collect::<Vec<_>>();
            arg.add(ArgValueCandidates::new(all))
        }
        _ => arg,
    }
}

/// Returns the interfaces of this network namespace, without the loopback; empty if they are unknown.
fn interfaces() -> Vec<String> {
    // A line for each, which begins with its name, behind two lines of titles.
    let known = std::fs::read_to_string("/proc/self/net/dev").unwrap_or_default();
    let names = known.lines().filter_map(|line| line.split_once(':')).map(|(name, _)| name.trim().to_owned());
    names.filter(|name| name != "lo").collect()
}

fn ports(args: &Args, known: &[String], questions: &mut Questions<'_>) -> Result<Ports, CliError> {
    if let Some(egress) = &args.egress {
        return Ok(Ports::Egress(egress.clone()));
    }
    match (&args.input, &args.output) {
        (Some(input), Some(output)) if input == output => {
            Err(CliError::wrong(format!("--in and --out are both {input}; name two different interfaces")))
        }
        (Some(input), Some(output)) => Ok(Ports::Between(input.clone(), output.clone())),
        (Some(_), None) => Err(CliError::wrong("--in needs --out: the interface of the shared link")),
        (None, Some(_)) => Err(CliError::wrong("--out needs --in: the interface that packets come from")),
        (None, None) => questions.ports(known),
    }
}

/// Directions to shape.
fn ways(args: &Args, ports: &Ports, questions: &mut Questions<'_>) -> Result<Vec<Way>, CliError> {
    let one = |rate| vec![Way { toward: args.toward.unwrap_or(Toward::Internet), ports: ports.clone(), rate }];
    let rates = match (args.rate, args.up, args.down, ports) {
        (Some(rate), ..) => return Ok(one(rate)),
        (None, Some(_), Some(_), Ports::Egress(name)) => {
            return Err(CliError::wrong(format!(
                "--egress {name} with --up and --down: --egress shapes only what this machine sends on {name}; to shape downloads, pass --in and --out on a bridge, or on a router write a second file with --egress lan0 --down RATE"
            )));
        }
        (None, None, None, Ports::Egress(_)) => return questions.rate().map(one),
        (None, None, None, Ports::Between(..)) if args.toward.is_some() => return questions.rate().map(one),
        (None, None, None, Ports::Between(..)) => questions.rates()?,
        (None, up, down, _) => {
            let ways = [(Toward::Internet, up), (Toward::Users, down)];
            ways.into_iter().filter_map(|(toward, rate)| Some((toward, rate?))).collect()
        }
    };
    let way = |(toward, rate)| {
        let ports = match (ports, toward) {
            // The first is the one at the users.
            (Ports::Between(users, internet), Toward::Users) => Ports::Between(internet.clone(), users.clone()),
            _ => ports.clone(),
        };
        Way { toward, ports, rate }
    };
    Ok(rates.into_iter().map(way).collect())
}

fn two_or_one(text: &str) -> Result<Ports, String> {
    match text.split_whitespace().collect::<Vec<_>>()[..] {
        [one] => device(one).map(Ports::Egress),
        [one, two] if one == two => Err(format!("{one} is given twice; name two different interfaces")),
        [one, two] => Ok(Ports::Between(device(one)?, device(two)?)),
        _ => Err("one name or two".to_owned()),
    }
}

/// The file of a home's line in the direction up, between these interfaces.
#[cfg(target_os = "linux")]
pub(crate) fn home_uplink(rate: Rate, [input, output]: [&str; 2]) -> String {
    let ports = Ports::Between(input.to_owned(), output.to_owned());
    let file = PathBuf::from("home-up.toml");
    let way = Way { toward: Toward::Internet, ports, rate };
    text(&KINDS[0], &way, None, &file, std::slice::from_ref(&file))
}

/// The whole file; `all` are the files of all directions.
fn text(kind: &Kind, way: &Way, line: Option<&Line>, file: &Path, all: &[PathBuf]) -> String {
    let Way { toward, ports, rate } = way;
    let taken = Rate::from_bps((u128::from(rate.bps()) * 95 / 100).max(1) as u64).unwrap_or(*rate);
    let (ends, what) = match (ports, toward) {
        (Ports::Egress(name), Toward::Internet) => {
            (format!("egress = \"{name}\"\n"), format!("traffic that this machine itself sends on {name}"))
        }
        (Ports::Egress(name), Toward::Users) => {
            (format!("egress = \"{name}\"\n"), format!("traffic that this machine sends or routes to users on {name}"))
        }
        (Ports::Between(input, output), _) => {
            (format!("in = \"{input}\"\nout = \"{output}\"\n"), format!("traffic from {input} to {output}"))
        }
    };
    let (name, gateway) = match all.len() {
        0 | 1 => (String::new(), "share the link, as root, until Ctrl-C"),
        _ => (format!("name = \"{}\"\n", toward.name()), "share both directions, as root, until Ctrl-C"),
    };
    let queue = match toward {
        Toward::Internet => "here and not behind this machine",
        Toward::Users => "here and not before this machine",
    };
    // All packets are of one machine; to users, it is a router that sends.
    let own = matches!((ports, toward), (Ports::Egress(_), Toward::Internet));
    let classes = kind.text(*toward, own);
    let files: Vec<String> = all.iter().map(|file| file.display().to_string()).collect();
    let commands = [
        (format!("fairlink check {} --gateway", file.display()), "validate the file; print shares and delay bounds"),
        (format!("fairlink gateway {}", files.join(" ")), gateway),
        ("fairlink ctl watch".to_owned(), "live rate of each class"),
    ];
    let width = commands.iter().map(|(command, _)| command.chars().count()).max().unwrap_or_default();
    let commands = commands.map(|(command, what)| format!("#   {command:width$}     # {what}\n")).concat();
    let overhead = line.map_or_else(String::new, |line| format!("{}\n", line.overhead));
    aligned(&format!(
        "{DIRECTIVE}\n# {}: {what}.\n#\n{commands}#\n\
         # A class may use the whole link while others are idle. When all are busy, each gets its guarantee.\n\n\
         [link]\n{name}{ends}\
         rate = \"{}\"          # 95 % of {}, so that packets queue {queue}\n\
         mtu = \"1522B\"             # a frame of an interface with an mtu of 1500, with two VLAN tags\n\
         {overhead}{classes}",
        kind.title,
        shown(taken),
        show_rate(*rate)
    ))
}

/// Aligns the comments after keys in one column, if they fit.
fn aligned(text: &str) -> String {
    let line = |line: &str| match line.split_once("  # ") {
        Some((key, remark)) if !key.starts_with('#') => format!("{:<27} # {}\n", key.trim_end(), remark.trim_start()),
        _ => format!("{line}\n"),
    };
    text.lines().map(line).collect()
}

/// A rate as files of `init` have it.
fn shown(rate: Rate) -> String {
    rate_key(rate.bps()).to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::lines::LINES;
    use super::*;
    use fairlink_theory::promises::promised;

    #[test]
    fn the_line_says_what_a_frame_takes_of_it() {
        let way = Way {
            toward: Toward::Internet,
            ports: Ports::Egress("eth0".to_owned()),
            rate: Rate::from_bps(10_000_000).unwrap(),
        };
        let wire = |name: &str| {
            let (file, line) = (PathBuf::from("x.toml"), line(name).unwrap());
            let text = text(&KINDS[0], &way, Some(line), &file, std::slice::from_ref(&file));
            LinkFile::parse("x.toml", &text, &ReadOptions::default()).unwrap().overhead.accounted(214)
        };
        // A packet of a call with its Ethernet header. In cells it is 1.24 times as long: 232 B fill 4.8 of 5.
        let lengths = ["adsl", "vdsl", "docsis", "ethernet", "fibre", "lte"].map(wire);
        assert_eq!(lengths, [265, 226, 218, 238, 238, 214]);
        assert!(line("dsl").unwrap_err().contains("vdsl, adsl"));
    }

    #[test]
    fn every_kind_of_file_is_one_that_a_gateway_takes_without_a_warning() {
        let ends =
            || [Ports::Egress("eth0".to_owned()), Ports::Between("lan0".to_owned(), "wan0".to_owned())].into_iter();
        let alone = [PathBuf::from("x.toml")];
        let both = ["x-up.toml", "x-down.toml"].map(PathBuf::from);
        for kind in &KINDS {
            for ports in ends() {
                for (toward, all) in
                    [Toward::Internet, Toward::Users].into_iter().flat_map(|way| [(way, &alone[..]), (way, &both[..])])
                {
                    let lines = LINES.iter().map(Some).chain([None]);
                    for (bps, line) in [1_000_000, 39_999_999, 1_000_000_000_000]
                        .into_iter()
                        .flat_map(|bps| lines.clone().map(move |line| (bps, line)))
                    {
                        let way = Way { toward, ports: ports.clone(), rate: Rate::from_bps(bps).unwrap() };
                        let text = text(kind, &way, line, &all[0], all);
                        assert!(text.starts_with("#:schema file:///"), "{text}");
                        let link = LinkFile::parse("x.toml", &text, &ReadOptions::default());
                        let link =
                            link.unwrap_or_else(|problems| panic!("{}: {}\n{text}", kind.name, problems.lines()));
                        assert!(link.warnings.is_empty(), "{}: {:?}", kind.name, link.warnings);
                        assert!(link.require_default().is_ok(), "{}", kind.name);
                        assert_eq!(link.tree.link().rate.bps(), bps * 95 / 100, "{text}");
                        assert_eq!(link.egress.is_some(), link.ports[0].is_none());
                        assert_eq!(link.name.as_deref(), (all.len() > 1).then_some(toward.name()));
                        let promised = promised(link.info(), &link.tree).unwrap();
                        let critical = link.tree.leaves().iter().find(|&&leaf| link.tree.config(leaf).latency_critical);
                        assert!(critical.is_none_or(|leaf| promised.delays[leaf.index()].is_some()), "{}", kind.name);
                    }
                }
            }
        }
    }

    #[test]
    fn answers_are_understood_or_say_what_is_wanted() {
        assert!(matches!(two_or_one("eth0"), Ok(Ports::Egress(name)) if name == "eth0"));
        assert!(matches!(two_or_one(" lan0  wan0 "), Ok(Ports::Between(one, two)) if one == "lan0" && two == "wan0"));
        assert!(two_or_one("lan0 lan0").unwrap_err().contains("two different interfaces"));
        assert!(two_or_one("").unwrap_err().contains("one name or two"));
        assert!(two_or_one("a/b").unwrap_err().contains("not the name of a device"));
        assert!(kind("hoem").unwrap_err().contains("home, office"));
    }

    #[test]
    fn the_files_of_both_directions_are_told_apart_by_their_names() {
        for (file, up) in
            [("home.toml", "home-up.toml"), ("links/my.home.toml", "links/my.home-up.toml"), ("home", "home-up")]
        {
            assert_eq!(named(Path::new(file), "up"), Path::new(up));
        }
    }
}
