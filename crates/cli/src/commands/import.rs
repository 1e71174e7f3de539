//! `fairlink import`: what people run today, as a link file, with a report of what became of it.

mod report;
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
pub(crate) mod script;

use std::path::{Path, PathBuf};

use anyhow::anyhow;
use clap::builder::{PossibleValue, PossibleValuesParser, ValueParser};
use clap::{Arg, ArgAction, ArgMatches, Args as _, Command, FromArgMatches};
#[cfg(target_os = "linux")]
use fairlink_api::ProblemReport;
use fairlink_api::{ImportDoc, ImportedFile, Refused};
use fairlink_config::import::{
    AS_IS, FileInfo, IMPORTS, ImportInfo, ImportedLink, Number, OptionInfo, OptionKind, Options, find,
};
use fairlink_config::units::show_time;
use fairlink_config::{Source, SourceText};
use fairlink_core::Nanos;
use fairlink_figures::human::count;

#[cfg(target_os = "linux")]
use crate::capacity::Capacity;
use fairlink_terminal::args;
use fairlink_terminal::failure::CliError;
use fairlink_terminal::out::{Out, make_directory, write_all_new};

/// From which tool.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Write into this directory, which is made if it is missing: a link file, and tables where there are many classes.
    /// Without it the link file is printed, class by class.
    #[arg(long, global = true, value_name = "DIR")]
    out: Option<PathBuf>,
    #[command(subcommand)]
    tool: Tool,
    /// Do not compare rates before and after, which takes a simulation.
    #[arg(long, global = true)]
    no_compare: bool,
    /// Import classes that no frame can reach, too.
    #[arg(long, global = true)]
    allow_unmatched: bool,
}

/// Returns the help of the command.
pub(crate) fn about() -> String {
    let tools: Vec<&str> = IMPORTS.iter().map(|info| info.tool).collect();
    format!("Convert the configuration of another tool into a link file: {}", tools.join(", "))
}

/// The import of the table, its files and the values of its options.
#[derive(Clone, Debug)]
struct Tool {
    info: &'static ImportInfo,
    files: Vec<PathBuf>,
    options: Options,
    script: Option<Script>,
}

/// The import that can run its file.
const RUNS: &str = "tc";

#[derive(Clone, Debug, clap::Args)]
struct Script {
    /// Run the file as a script, and import its commands. It runs without privileges and network, and can write only to
    /// a scratch directory; tc, iptables, ip and others are replaced by recorders and change nothing.
    #[arg(long)]
    run: bool,
    /// With --run: stop the script after this time, at most 600s, and import its commands so far.
    #[arg(long, value_name = "TIME", requires = "run", default_value = "10s", value_parser = run_limit)]
    run_limit: Nanos,
    /// With --run: a variable of the script's environment.
    #[arg(long, value_name = "NAME=VALUE", requires = "run")]
    set: Vec<String>,
    /// With --run: arguments of the script.
    #[arg(last = true, requires = "run", value_name = "ARGUMENT")]
    args: Vec<String>,
    #[arg(skip)]
    #[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "only the sandbox has devices"))]
    device: Option<String>,
}

/// Subcommands of the table. An option that only other imports have is hidden, so that its use is refused by the reason.
impl clap::Subcommand for Tool {
    fn augment_subcommands(command: Command) -> Command {
        // It may stand before the name of the tool, too.
        let as_is = argument(&AS_IS).global(true);
        command
            .subcommands(IMPORTS.iter().map(subcommand))
            .subcommand_required(true)
            .arg_required_else_help(true)
            .arg(as_is)
    }

    fn augment_subcommands_for_update(command: Command) -> Command {
        Self::augment_subcommands(command)
    }

    fn has_subcommand(name: &str) -> bool {
        find(name).is_ok()
    }
}

impl FromArgMatches for Tool {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let (name, matches) = matches.subcommand().expect("a subcommand is required");
        let info = find(name).expect("subcommands are those of the table");
        let files = info.files.iter().filter_map(|file| matches.get_many::<PathBuf>(file.key)).flatten().cloned();
        let mut options = Options::default();
        for option in of_all().map(|option| info.option(option.key).unwrap_or(option)) {
            let value = match option.kind {
                OptionKind::Flag => matches.get_flag(option.key).then(|| "true".to_owned()),
                _ => matches.get_one(option.key).cloned(),
            };
            options = match value {
                Some(value) => options.with(option.key, value),
                None => options,
            };
        }
        let script = (name == RUNS).then(|| Script::from_arg_matches(matches)).transpose()?;
        let device = matches.get_one::<String>("dev").cloned();
        let script = script.filter(|script| script.run).map(|script| Script { device, ..script });
        Ok(Self { info, files: files.collect(), options, script })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Returns the options of all imports, each key once.
fn of_all() -> impl Iterator<Item = &'static OptionInfo> {
    let all = || IMPORTS.iter().flat_map(|info| info.options);
    all()
        .enumerate()
        .filter(move |(at, option)| all().take(*at).all(|known| known.key != option.key))
        .map(|(_, option)| option)
}

fn subcommand(info: &'static ImportInfo) -> Command {
    let own = info
        .options
        .iter()
        .filter(|option| option.key != AS_IS.key)
        .map(|option| argument(option).required(option.required));
    let others = of_all()
        .filter(|option| info.option(option.key).is_none())
        .map(|option| argument(option).default_value(None).hide(true));
    let command = Command::new(info.name).about(info.help).args(info.files.iter().map(file));
    let command = match info.name == RUNS {
        true => Script::augment_args(
            command.mut_arg("file", |arg| arg.help(format!("{}; with --run a shell script", info.files[0].help))),
        ),
        false => command,
    };
    command.args(own).args(others)
}

fn file(info: &'static FileInfo) -> Arg {
    let arg =
        Arg::new(info.key).value_name(info.placeholder).help(info.help).value_parser(clap::value_parser!(PathBuf));
    match info.number {
        Number::One => arg.required(true),
        Number::Optional => arg.long(info.key),
        Number::Many => arg.required(true).action(ArgAction::Append).num_args(1..),
    }
}

/// Returns the argument of an option. A default in words is a part of its help.
fn argument(option: &'static OptionInfo) -> Arg {
    let arg = Arg::new(option.key).long(option.key);
    let parser: ValueParser = match option.kind {
        OptionKind::Flag => return arg.help(option.help).action(ArgAction::SetTrue),
        OptionKind::Rate => ValueParser::new(|text: &str| args::rate(text).map(|_| text.to_owned())),
        OptionKind::Name => ValueParser::string(),
        OptionKind::Choice(words) => {
            PossibleValuesParser::new(words.iter().map(|&(word, help)| PossibleValue::new(word).help(help))).into()
        }
    };
    let arg = arg.value_name(option.placeholder).value_parser(parser);
    match (option.kind, option.default) {
        (OptionKind::Choice(_), Some(word)) => arg.help(option.help).default_value(word),
        (_, Some(words)) => arg.help(format!("{} [default: {words}]", option.help)),
        (_, None) => arg.help(option.help),
    }
}

/// A time that a script may run.
fn run_limit(text: &str) -> Result<Nanos, String> {
    const MOST: Nanos = Nanos(600 * 1_000_000_000);
    let limit = args::time(text)?;
    match limit.0 {
        0 => Err("0 is no time; write one such as 10s".to_owned()),
        _ if limit > MOST => Err(format!("the limit is {}", show_time(MOST))),
        _ => Ok(limit),
    }
}

/// Reads, compares, writes and reports. Nothing is written before everything was read and found sound.
pub(crate) fn run(args: &Args, out: &mut Out) -> Result<(), CliError> {
    let mut ran = Vec::new();
    let info = args.tool.info;
    info.check(&args.tool.options).map_err(Refused::from)?;
    let sources = match &args.tool.script {
        Some(script) => vec![run_script(script, &args.tool.files[0], &mut ran)?],
        None => args.tool.files.iter().map(SourceText::read).collect::<Result<_, _>>()?,
    };
    let imported = fairlink_api::import(info, &sources, &args.tool.options).map_err(|refused| {
        // If the commands are invalid, an early end of the script is often the reason.
        let warnings: Vec<&str> = ran.iter().map(String::as_str).filter(|note| note.starts_with("WARNING")).collect();
        if warnings.is_empty() { CliError::from(refused) } else { CliError::from(refused).within(warnings.join("; ")) }
    })?;
    let links = &imported.links;
    if links.len() > 1 && args.out.is_none() {
        let names: Vec<&str> = links.iter().map(|link| link.name.as_str()).collect();
        let names = names.join(", ");
        return Err(CliError::wrong(format!(
            "there are several links ({names}): write them with --out DIR, or choose one"
        )));
    }
    let mut document = ImportDoc::new(info, &imported, !args.no_compare)?;
    document.content.ran = ran;
    #[cfg(target_os = "linux")]
    for (link, report) in links.iter().zip(&mut document.content.links) {
        let capacity = Capacity::of(&link.link);
        report.gateway_bps = capacity.bps();
        report.problems.extend(capacity.warning(&link.link).iter().map(ProblemReport::from));
    }
    let unmatched: usize = document.content.links.iter().map(|link| link.unreachable.len()).sum();
    let refused = (unmatched > 0 && !args.allow_unmatched).then(|| {
        CliError::failed(anyhow!(
            "nothing was imported: no frame can reach {}; {}, or add --allow-unmatched and write the missing matches into the link file",
            count(unmatched, "class", "classes"),
            info.unmatched
        ))
    });
    let files = &mut document.content.files;
    *files = if refused.is_some() { Vec::new() } else { made(links, args.out.is_some()) };
    if let (Some(dir), None) = (&args.out, &refused) {
        write(dir, files)?;
        files.iter_mut().for_each(|file| file.name = dir.join(&file.name).display().to_string());
    }
    if out.json {
        out.document(&document)?;
        // So that it comes before the error on a terminal.
        out.flush()?;
        return refused.map_or(Ok(()), Err);
    }
    let report = report::Report {
        document: &document.content,
        links,
        notes: &imported.notes,
        is_written: args.out.is_some() && refused.is_none(),
    };
    report.warn_of_unreachable();
    report.warn_of_rates();
    if args.out.is_none() && refused.is_none() {
        out.raw(links[0].text.as_bytes())?;
        // So that it comes before the report on a terminal.
        out.flush()?;
    }
    report.to_people();
    refused.map_or(Ok(()), Err)
}

/// Runs a script and returns its commands. Messages about the run are added to `ran`.
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
fn run_script(script: &Script, file: &Path, ran: &mut Vec<String>) -> Result<Source, CliError> {
    let device = script.device.as_deref().unwrap_or("eth0");
    let limit = std::time::Duration::from_nanos(script.run_limit.0);
    let made = script::run(&script::Order { script: file, args: &script.args, variables: &script.set, device, limit })?;
    *ran = made.notes;
    Ok(SourceText::new(format!("{}, as recorded", file.display()), made.text))
}

#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64"))))]
fn run_script(_: &Script, _: &Path, _: &mut Vec<String>) -> Result<Source, CliError> {
    Err(CliError::wrong("--run needs a sandbox, which there is on Linux (x86_64, aarch64, riscv64) only"))
}

/// Returns the files to write. They have tables if `tables` is true; a file that is printed has none.
fn made(links: &[ImportedLink], tables: bool) -> Vec<ImportedFile> {
    let mut all = Vec::new();
    for link in links {
        let name = format!("{}.toml", link.name);
        match link.tabled.as_ref().filter(|_| tables) {
            Some(tabled) => {
                all.push(ImportedFile { name, text: tabled.text.clone() });
                let table = |(name, text): &(String, String)| ImportedFile { name: name.clone(), text: text.clone() };
                all.extend(tabled.tables.iter().map(table));
            }
            None => all.push(ImportedFile { name, text: link.text.clone() }),
        }
    }
    all
}

/// Writes all files or none. Files that are there already are not overwritten.
fn write(dir: &Path, files: &[ImportedFile]) -> Result<(), CliError> {
    make_directory(dir)?;
    let files: Vec<(PathBuf, &str)> = files.iter().map(|file| (dir.join(&file.name), file.text.as_str())).collect();
    write_all_new("--out", &files)
}
