//! `fairlink init`: a commented link file to begin with.

mod kinds;

use std::io::{self, BufRead, IsTerminal};
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use fairlink_config::units::show_rate;
use fairlink_config::{LinkFile, ReadOptions};
use fairlink_core::Rate;
use serde::Serialize;

use crate::args::{choice, rate};
use crate::commands::tc::device;
use crate::failure::Failure;
use crate::out::{Out, note, write_all_new};
use kinds::{KINDS, Kind};

/// For which link. What is not said is asked for, where somebody sits at the terminal.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What the link is used for: home, office, provider, tenants, lab.
    #[arg(long, value_name = "KIND", value_parser = kind)]
    kind: Option<&'static Kind>,
    /// What the link carries, such as 40mbit. Say what was measured or promised; the file takes 95 % of it, so that packets queue here and
    /// not in the modem.
    #[arg(long, value_name = "RATE", value_parser = rate)]
    rate: Option<Rate>,
    /// The interface by which this machine itself sends, whose traffic is to be shared.
    #[arg(long, value_name = "IF", value_parser = device, conflicts_with_all = ["input", "output"])]
    egress: Option<String>,
    /// Where packets come from, on a machine between two networks.
    #[arg(long = "in", value_name = "IF", value_parser = device)]
    input: Option<String>,
    /// Where they go to: the link that is shared.
    #[arg(long = "out", value_name = "IF", value_parser = device)]
    output: Option<String>,
    /// Which way the packets go: to the internet, or to the users. It says which addresses and ports are those of users.
    #[arg(long, value_name = "WAY", default_value = "internet", value_parser = toward)]
    toward: Toward,
    /// Write the file here instead of to standard output. A file that is there is kept.
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
}

/// Which way packets go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Toward {
    Internet,
    Users,
}

/// Between which interfaces.
#[derive(Debug)]
enum Ports {
    Egress(String),
    Between(String, String),
}

#[derive(Serialize)]
struct Document<'a> {
    kind: &'a str,
    text: &'a str,
}

fn kind(text: &str) -> Result<&'static Kind, String> {
    KINDS.iter().find(|kind| kind.name == text).ok_or_else(|| choice(KINDS.iter().map(|kind| kind.name)))
}

fn toward(text: &str) -> Result<Toward, String> {
    match text {
        "internet" => Ok(Toward::Internet),
        "users" => Ok(Toward::Users),
        _ => Err(choice(["internet", "users"])),
    }
}

/// Writes the file.
pub(crate) fn run(args: &Args, out: &mut Out) -> Result<(), Failure> {
    let kind = match args.kind {
        Some(kind) => kind,
        None => ask_kind()?,
    };
    let ports = ports(args)?;
    let rate = match args.rate {
        Some(rate) => rate,
        None => ask("What does the link carry? [100mbit]", "--rate 100mbit", "100mbit", rate)?,
    };
    let file = args.file.as_ref().map_or_else(|| Path::new("link.toml"), PathBuf::as_path).display().to_string();
    let text = text(kind, &ports, rate, args.toward, &file);
    // What is written must be what a gateway takes.
    let link = LinkFile::parse(&file, &text, &ReadOptions::default()).map_err(Failure::from)?;
    link.require_default().map_err(Failure::from)?;
    let names = match &ports {
        Ports::Egress(name) => vec![name],
        Ports::Between(input, output) => vec![input, output],
    };
    // Those of this network namespace; a line for each, which begins with its name.
    let known = std::fs::read_to_string("/proc/self/net/dev").unwrap_or_default();
    let is_known = |name: &str| known.lines().any(|line| line.trim_start().split(':').next() == Some(name));
    for name in names.into_iter().filter(|name| !known.is_empty() && !is_known(name)) {
        note(format!("note: this machine has no interface {name} now"));
    }
    if out.json {
        out.document(&Document { kind: kind.name, text: &text })?;
    } else if args.file.is_none() {
        out.raw(text.as_bytes())?;
    }
    let Some(path) = &args.file else { return Ok(()) };
    write_all_new("--file", &[(path.clone(), text.as_str())])?;
    note(format!("{} is written. Next: fairlink check {0}; fairlink gateway {0}", path.display()));
    Ok(())
}

fn ports(args: &Args) -> Result<Ports, Failure> {
    if let Some(egress) = &args.egress {
        return Ok(Ports::Egress(egress.clone()));
    }
    match (&args.input, &args.output) {
        (Some(input), Some(output)) if input == output => {
            Err(Failure::wrong(format!("--in and --out are both {input}; a link has two ends")))
        }
        (Some(input), Some(output)) => Ok(Ports::Between(input.clone(), output.clone())),
        (Some(_), None) => Err(Failure::wrong("--in needs --out: the link that is shared")),
        (None, Some(_)) => Err(Failure::wrong("--out needs --in: where packets come from")),
        (None, None) => {
            let question = "Which interface? One (eth0) for what this machine itself sends, two (lan0 wan0) for what it passes on:";
            ask(question, "--egress eth0, or --in lan0 --out wan0", "", two_or_one)
        }
    }
}

fn two_or_one(text: &str) -> Result<Ports, String> {
    match text.split_whitespace().collect::<Vec<_>>()[..] {
        [one] => device(one).map(Ports::Egress),
        [one, two] if one == two => Err(format!("{one} twice; a link has two ends")),
        [one, two] => Ok(Ports::Between(device(one)?, device(two)?)),
        _ => Err("one name or two".to_owned()),
    }
}

fn ask_kind() -> Result<&'static Kind, Failure> {
    if io::stdin().is_terminal() {
        KINDS.iter().for_each(|kind| note(format!("  {:9} {}", kind.name, kind.what)));
    }
    ask("What is it used for? [home]", "--kind home", "home", kind)
}

/// Asks until the answer is understood; an empty answer is `usual`. Where nobody can answer, `flag` is what is missing.
fn ask<T>(question: &str, flag: &str, usual: &str, parse: impl Fn(&str) -> Result<T, String>) -> Result<T, Failure> {
    let input = io::stdin();
    if !input.is_terminal() {
        return Err(Failure::wrong(format!("say it on the command line, as nobody can be asked here: {flag}")));
    }
    loop {
        note(question);
        let mut line = String::new();
        if input.lock().read_line(&mut line).map_err(|error| Failure::Failed(error.into()))? == 0 {
            return Err(Failure::Failed(anyhow!("no answer; nothing is written")));
        }
        let answer = line.trim();
        match parse(if answer.is_empty() { usual } else { answer }) {
            Ok(value) => return Ok(value),
            Err(why) => note(why),
        }
    }
}

/// The whole file.
fn text(kind: &Kind, ports: &Ports, rate: Rate, toward: Toward, file: &str) -> String {
    let taken = Rate::from_bps((u128::from(rate.bps()) * 95 / 100).max(1) as u64).unwrap_or(rate);
    let (ends, way) = match ports {
        Ports::Egress(name) => (format!("egress = \"{name}\"\n"), format!("what this machine itself sends by {name}")),
        Ports::Between(input, output) => {
            (format!("in = \"{input}\"\nout = \"{output}\"\n"), format!("what goes from {input} to {output}"))
        }
    };
    let own = matches!(ports, Ports::Egress(_));
    let classes = kind.text(toward, own);
    aligned(&format!(
        "# {}: {way}.\n#\n#   fairlink check {file} --gateway     # is it sound; what does each class get, and how long does it wait?\n\
         #   fairlink gateway {file}             # share the link, as root, until Ctrl-C\n\
         #   fairlink ctl watch                  # what each class gets now\n#\n\
         # A class may use the whole link while the others are quiet. When all are busy, each gets its guarantee.\n\n\
         [link]\n{ends}\
         rate = \"{}\"          # 95 % of {}, so that packets queue here and not behind this machine\n\
         mtu = \"1522B\"             # a frame of an interface with an mtu of 1500, with two VLAN tags\n\
         {classes}",
        kind.title,
        shown(taken),
        show_rate(rate)
    ))
}

/// The same with the remarks behind its keys in one column, where they fit.
fn aligned(text: &str) -> String {
    let line = |line: &str| match line.split_once("  # ") {
        Some((key, remark)) if !key.starts_with('#') => format!("{:<27} # {}\n", key.trim_end(), remark.trim_start()),
        _ => format!("{line}\n"),
    };
    text.lines().map(line).collect()
}

/// A rate as link files have it: the largest unit in which it is a whole number.
fn shown(rate: Rate) -> String {
    let units = [(1_000_000_000, "gbit"), (1_000_000, "mbit"), (1_000, "kbit")];
    let bps = rate.bps();
    units
        .into_iter()
        .find(|(unit, _)| bps.is_multiple_of(*unit))
        .map_or_else(|| format!("{bps}bit"), |(unit, name)| format!("{}{name}", bps / unit))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairlink_theory::promises::promised;

    #[test]
    fn every_kind_of_file_is_one_that_a_gateway_takes_without_a_warning() {
        let ends =
            || [Ports::Egress("eth0".to_owned()), Ports::Between("lan0".to_owned(), "wan0".to_owned())].into_iter();
        for kind in &KINDS {
            for ports in ends() {
                for toward in [Toward::Internet, Toward::Users] {
                    for bps in [1_000_000, 39_999_999, 1_000_000_000_000] {
                        let text = text(kind, &ports, Rate::from_bps(bps).unwrap(), toward, "x.toml");
                        let link = LinkFile::parse("x.toml", &text, &ReadOptions::default());
                        let link =
                            link.unwrap_or_else(|problems| panic!("{}: {}\n{text}", kind.name, problems.lines()));
                        assert!(link.warnings.is_empty(), "{}: {:?}", kind.name, link.warnings);
                        assert!(link.require_default().is_ok(), "{}", kind.name);
                        assert_eq!(link.tree.link().rate.bps(), bps * 95 / 100, "{text}");
                        assert_eq!(link.egress.is_some(), link.ports[0].is_none());
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
        assert!(two_or_one("lan0 lan0").unwrap_err().contains("two ends"));
        assert!(two_or_one("").unwrap_err().contains("one name or two"));
        assert!(two_or_one("a/b").unwrap_err().contains("no name of a device"));
        assert!(kind("hoem").unwrap_err().contains("home, office"));
    }
}
