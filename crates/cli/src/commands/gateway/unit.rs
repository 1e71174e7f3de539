//! `fairlink gateway --print-unit`: a unit for systemd that runs the gateway of a command line.
//!
//! Its text is that of the instance unit, which packages install; only what depends on the command line is another.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::{Arg, ArgAction, Command, ValueHint};
use fairlink_report::{Content, Document};
use schemars::JsonSchema;
use serde::Serialize;

use super::Args;
use fairlink_terminal::failure::CliError;
use fairlink_terminal::out::{Out, note};

/// The instance unit: a link for each instance, with its file and its options below /etc/fairlink.
const INSTANCE: &str = include_str!("../../../../../packaging/systemd/fairlink-gateway@.service");
/// Directories that the unit hides or replaces.
const HOMES: [&str; 3] = ["/home", "/root", "/run/user"];
const SCRATCH: [&str; 2] = ["/tmp", "/var/tmp"];

#[derive(Debug, JsonSchema, Serialize)]
pub(crate) struct UnitDoc<'a> {
    unit: &'a str,
}

impl Content for UnitDoc<'_> {
    const KIND: &'static str = "unit";
}

/// Prints the unit of this process's own command line; without a link file, the instance unit.
pub(super) fn print(files: &[PathBuf], out: &mut Out) -> Result<(), CliError> {
    let unit = if files.is_empty() {
        INSTANCE.to_owned()
    } else {
        let dir = std::env::current_dir().map_err(CliError::failed)?;
        let program = std::env::current_exe().map_err(CliError::failed)?;
        let known = <Args as clap::Args>::augment_args(Command::new("gateway"));
        let line = CommandLine::new(&known, std::env::args_os().skip(1), &dir)?;
        unit(&text(program.into())?, &files[0], &line)
    };
    if out.json { out.document(&Document::new(UnitDoc { unit: &unit })) } else { out.raw(unit.as_bytes()) }
}

/// The options and files of a gateway, with paths that hold wherever it is started.
#[derive(Debug, Default, PartialEq, Eq)]
struct CommandLine {
    words: Vec<String>,
    /// Those that are paths.
    paths: Vec<String>,
    /// Path of the control socket.
    control: Option<String>,
    /// Nice value, which systemd sets.
    nice: Option<String>,
}

impl CommandLine {
    /// Parses `args` for the command `known`, without arguments that do not apply to the service. `args` are already
    /// valid.
    fn new(known: &Command, args: impl Iterator<Item = OsString>, dir: &Path) -> Result<Self, CliError> {
        let mut line = Self::default();
        let mut args = args.skip_while(|arg| arg != "gateway").skip(1);
        let mut files_only = false;
        while let Some(arg) = args.next() {
            let arg = text(arg)?;
            let name = arg.strip_prefix("--").filter(|_| !files_only);
            match name {
                Some("") => {
                    files_only = true;
                    line.words.push(arg);
                }
                Some("print-unit" | "json") => {}
                Some(name) => {
                    let (name, given) = name.split_once('=').map_or((name, None), |(name, value)| (name, Some(value)));
                    line.words.push(format!("--{name}"));
                    let Some(option) = known.get_arguments().find(|option| option.get_long() == Some(name)) else {
                        continue;
                    };
                    if matches!(option.get_action(), ArgAction::Set | ArgAction::Append) {
                        let value = given.map(str::to_owned).map(Ok).or_else(|| args.next().map(text)).transpose()?;
                        line.value(option, value.unwrap_or_default(), dir);
                    }
                }
                None => line.path(&arg, dir),
            }
        }
        Ok(line)
    }

    fn value(&mut self, option: &Arg, value: String, dir: &Path) {
        if option.get_long() == Some("nice") {
            self.words.pop();
            self.nice = Some(value);
            return;
        }
        if option.get_value_hint() != ValueHint::AnyPath {
            self.words.push(value);
            return;
        }
        self.path(&value, dir);
        if option.get_long() == Some("control") {
            self.control = self.words.last().cloned();
        }
    }

    fn path(&mut self, path: &str, dir: &Path) {
        let path = dir.join(path).to_string_lossy().into_owned();
        self.words.push(path.clone());
        self.paths.push(path);
    }
}

/// Returns a word that a unit can contain: text in one line.
fn text(word: OsString) -> Result<String, CliError> {
    let wrong = |word: &str| {
        CliError::wrong(format!("{word:?} cannot be written into a systemd unit (lines of UTF-8 text); rename it"))
    };
    let word = word.into_string().map_err(|word| wrong(&word.to_string_lossy()))?;
    if word.chars().any(char::is_control) { Err(wrong(&word)) } else { Ok(word) }
}

/// The instance unit, with `program` and its command line in the place of the instance's.
fn unit(program: &str, file: &Path, line: &CommandLine) -> String {
    let lies_in = |places: &[&str]| {
        line.paths
            .iter()
            .map(String::as_str)
            .chain([program])
            .find(|path| places.iter().any(|place| Path::new(path).starts_with(place)))
    };
    let (in_home, in_scratch) = (lies_in(&HOMES), lies_in(&SCRATCH));
    let control = line.control.as_deref().and_then(|path| Path::new(path).parent());
    // A user that systemd makes has no files of its own, and only the service's own directory in /run.
    let as_root = in_home.is_some() || in_scratch.is_some() || control.is_some();
    let has = |option: &str| {
        line.words
            .iter()
            .any(|word| word.strip_prefix(option).is_some_and(|rest| rest.is_empty() || rest.starts_with('=')))
    };
    let (egress, tcp) = (has("--egress"), has("--metrics") || has("--page"));
    let name = file.file_stem().unwrap_or_default().to_string_lossy();
    let mut unit = format!(
        "# A gateway as a service. Write this to /etc/systemd/system/fairlink-{name}.service, and start it with\n\
         # `systemctl daemon-reload` and `systemctl enable --now fairlink-{name}`.\n",
    );
    for text in INSTANCE.lines().skip_while(|line| line.starts_with('#')) {
        let (key, value) = text.split_once('=').unwrap_or((text, ""));
        let text = match (key, value) {
            ("EnvironmentFile", _) => continue,
            ("Description", _) => format!("Description=fairlink gateway for {}", name.replace('%', "%%")),
            ("ExecStart", _) => {
                let own = ["--wait-for-interface".to_owned()];
                let own = own.iter().filter(|own| !line.words.contains(own));
                let words: Vec<String> = [program.to_owned(), "gateway".to_owned()]
                    .iter()
                    .chain(own)
                    .chain(&line.words)
                    .map(|word| quoted(word))
                    .collect();
                format!("ExecStart={}", words.join(" "))
            }
            ("Nice", own) => format!("Nice={}", line.nice.as_deref().unwrap_or(own)),
            ("ProtectHome", _) if in_home.is_some() => "ProtectHome=read-only".to_owned(),
            ("PrivateTmp", _) if in_scratch.is_some() => "PrivateTmp=no".to_owned(),
            ("DynamicUser", _) if as_root => match control.map(|dir| setting(&dir.to_string_lossy())) {
                Some(dir) => format!("DynamicUser=no\nReadWritePaths={dir}"),
                None => "DynamicUser=no".to_owned(),
            },
            ("RuntimeDirectory", _) => "RuntimeDirectory=%N".to_owned(),
            ("RestrictAddressFamilies", _) if tcp => format!("{text} AF_INET AF_INET6"),
            ("ProtectKernelTunables", _) if egress => "ProtectKernelTunables=no".to_owned(),
            _ => text.to_owned(),
        };
        unit.push_str(&text);
        unit.push('\n');
    }
    if as_root {
        note(
            "note: the service runs as root (DynamicUser=no) with few capabilities, because another user cannot open all its files",
        );
    }
    if let Some(path) = in_home {
        note(format!(
            "note: {path} is in a home directory, so the service may read home directories (ProtectHome=read-only)"
        ));
    }
    if let Some(path) = in_scratch {
        note(format!(
            "note: {path} is in a temporary directory, whose files may be deleted; the service shares that directory (PrivateTmp=no)"
        ));
    }
    unit
}

/// A word of a command as systemd reads it: specifiers and variables are doubled.
fn quoted(word: &str) -> String {
    setting(&word.replace('$', "$$"))
}

/// Quotes a word for another setting: specifiers are doubled, and special characters are quoted.
fn setting(word: &str) -> String {
    let plain = |letter: char| letter.is_alphanumeric() || "_@+=:,./-%$".contains(letter);
    let doubled = word.replace('%', "%%");
    if !word.is_empty() && word.chars().all(plain) {
        return doubled;
    }
    format!("\"{}\"", doubled.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(words: &[&str]) -> CommandLine {
        let known = <Args as clap::Args>::augment_args(Command::new("gateway"));
        CommandLine::new(&known, words.iter().map(OsString::from), Path::new("/srv/links")).expect("UTF-8")
    }

    fn exec(unit: &str) -> &str {
        unit.lines().find_map(|line| line.strip_prefix("ExecStart=")).expect("a command")
    }

    #[test]
    fn the_unit_differs_from_the_packaged_one_in_what_the_command_line_says_and_nothing_else() {
        let line = line(&["gateway", "office.toml", "--print-unit", "--in", "lan0", "--out=wan0"]);
        let unit = unit("/usr/bin/fairlink", Path::new("office.toml"), &line);
        assert_eq!(
            exec(&unit),
            "/usr/bin/fairlink gateway --wait-for-interface /srv/links/office.toml --in lan0 --out wan0"
        );
        let rest = |text: &str| -> Vec<String> {
            let own = ["#", "Description=", "EnvironmentFile=", "ExecStart=", "RuntimeDirectory="];
            text.lines().filter(|line| !own.iter().any(|own| line.starts_with(own))).map(str::to_owned).collect()
        };
        let packaged: Vec<String> = rest(INSTANCE);
        assert_eq!(rest(&unit), packaged);
        assert!(unit.contains("\nDescription=fairlink gateway for office\n"), "{unit}");
        assert!(unit.contains("\nDynamicUser=yes\nRuntimeDirectory=%N\n"), "{unit}");
        assert!(!unit.contains("%i") && !unit.contains("EnvironmentFile"), "{unit}");
    }

    #[test]
    fn paths_hold_wherever_the_service_is_started_and_values_stay_as_they_are() {
        let words =
            ["--json", "gateway", "--reverse", "up.toml", "--in", "up.toml", "--control=run/c.sock", "--", "down.toml"];
        let line = line(&words);
        let paths = ["/srv/links/up.toml", "/srv/links/run/c.sock", "/srv/links/down.toml"];
        assert_eq!(line.paths, paths);
        assert_eq!(line.words, ["--reverse", paths[0], "--in", "up.toml", "--control", paths[1], "--", paths[2]]);
        let unit = unit("/usr/bin/fairlink", Path::new("down.toml"), &line);
        assert!(unit.contains("\nDynamicUser=no\nReadWritePaths=/srv/links/run\n"), "{unit}");
    }

    #[test]
    fn systemd_sets_the_nice_value_of_the_command_line_or_that_of_the_packaged_unit() {
        for (words, nice) in [(&["--nice", "-12"][..], "-12"), (&["--nice=3"], "3"), (&[], "-5")] {
            let line = line(&[&["gateway", "a.toml"][..], words, &["--force"]].concat());
            assert_eq!(line.words, ["/srv/links/a.toml", "--force"]);
            let unit = unit("/usr/bin/fairlink", Path::new("a.toml"), &line);
            assert!(unit.contains(&format!("\nNice={nice}\n")), "{unit}");
        }
        assert_eq!(fairlink_net::RAISED_NICE, -5, "the packaged unit has the command's default");
    }

    #[test]
    fn words_that_systemd_would_read_otherwise_are_quoted() {
        assert_eq!(quoted("/srv/a b/100%.toml"), "\"/srv/a b/100%%.toml\"");
        assert_eq!(quoted("$HOME/l.toml"), "$$HOME/l.toml");
        assert_eq!(quoted("a\"b\\c"), "\"a\\\"b\\\\c\"");
        assert_eq!(quoted(";"), "\";\"");
        assert_eq!(quoted(""), "\"\"");
    }

    #[test]
    fn a_name_that_would_begin_a_line_of_its_own_is_refused() {
        let known = <Args as clap::Args>::augment_args(Command::new("gateway"));
        let words = ["gateway", "a\nExecStartPre=/bin/evil.toml"].map(OsString::from);
        assert!(CommandLine::new(&known, words.into_iter(), Path::new("/")).is_err());
    }

    #[test]
    fn a_program_at_home_can_be_started_by_its_unit() {
        let unit_of = |program| unit(program, Path::new("a.toml"), &line(&["gateway", "a.toml"]));
        assert!(unit_of("/home/ada/.cargo/bin/fairlink").contains("\nProtectHome=read-only\n"));
        assert!(unit_of("/tmp/fairlink").contains("\nPrivateTmp=no\n"));
        // A user of systemd's making implies a /tmp of its own, and may not read the home of another.
        assert!(["/tmp/fairlink", "/home/ada/f"].into_iter().all(|path| unit_of(path).contains("\nDynamicUser=no\n")));
        let elsewhere = unit_of("/usr/local/bin/fairlink");
        assert!(elsewhere.contains("\nProtectHome=yes\n") && elsewhere.contains("\nPrivateTmp=yes\n"), "{elsewhere}");
    }
}
