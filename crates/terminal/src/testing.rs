//! Runs of a program as its users see it, for tests: output, exit codes, and documents beside their schema.
//!
//! # Panics
//! Everything here panics where a test is to fail.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
#[cfg(target_os = "linux")]
use std::time::{Duration, Instant};

use clap::Parser;
use serde_json::Value;

use crate::program::Program;

/// Result of a run of the binary.
#[derive(Debug)]
pub struct Run {
    /// Exit code.
    pub code: i32,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Run {
    /// Standard output as JSON.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error} in: {}", self.stdout))
    }

    /// Asserts success without output on standard error.
    pub fn quiet(self) -> Self {
        assert_eq!((self.code, self.stderr.as_str()), (0, ""), "{}", self.stdout);
        self
    }
}

/// A program to test.
#[derive(Debug)]
pub struct Tested {
    path: &'static str,
    schema: OnceLock<Schema>,
}

impl Tested {
    /// The program with this path.
    #[must_use]
    pub const fn new(path: &'static str) -> Self {
        Self { path, schema: OnceLock::new() }
    }

    /// The program with these arguments, without colour or terminal.
    #[must_use]
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(self.path);
        command.args(args).stdin(Stdio::null()).env_remove("CLICOLOR_FORCE").env_remove("COLUMNS");
        command
    }

    /// Runs it to its end.
    pub fn with(&self, args: &[&str]) -> Run {
        self.run(&mut self.command(args))
    }

    /// Runs this to its end. A document that it prints is as the program's schema says.
    pub fn run(&self, command: &mut Command) -> Run {
        let Output { status, stdout, stderr } = command.output().expect("the program starts");
        // The other schemas are JSON, but no documents.
        let is_schema = |arg: &std::ffi::OsStr| ["link", "scenario", "documents"].iter().any(|schema| arg == *schema);
        let mut args = command.get_args();
        let is_document = args.next().is_some_and(|name| name != "schema") || !args.any(is_schema);
        if command.get_args().any(|arg| arg == "--json") && is_document {
            self.assert_documents(&format!("{command:?}"), &String::from_utf8_lossy(&stdout));
        }
        Run {
            code: status.code().expect("it exits by itself"),
            stdout: String::from_utf8(stdout).expect("text"),
            stderr: String::from_utf8(stderr).expect("text"),
        }
    }

    /// Runs it where no file can grow above a block or two, which is half a kilobyte or one by the shell, as on a disk
    /// that is full.
    #[cfg(unix)]
    #[must_use]
    pub fn on_a_full_disk(&self, args: &[&str]) -> Run {
        let limited = "trap '' XFSZ; ulimit -f 1; exec \"$0\" \"$@\"";
        self.run(Command::new("sh").args(["-c", limited, self.path]).args(args).stdin(Stdio::null()))
    }

    /// Starts it and sends SIGINT so long after it catches it. Returns its output, and the time from the signal to the
    /// end.
    #[cfg(target_os = "linux")]
    #[must_use]
    pub fn interrupted_after(&self, pause: Duration, args: &[&str]) -> (Output, Duration) {
        let mut child = self.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        while !catches_ctrl_c(child.id()) && child.try_wait().expect("a child").is_none() {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(pause);
        let asked = Instant::now();
        if child.try_wait().expect("a child").is_none() {
            let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill");
            assert!(killed.success());
        }
        (child.wait_with_output().expect("it ends"), asked.elapsed())
    }

    /// Returns the completions of the last of these words behind its name `program`, in a directory.
    #[must_use]
    pub fn offered(&self, program: &str, directory: &str, words: &[&str]) -> Vec<String> {
        let mut asked = self.command(&[&["--", program], words].concat());
        asked.current_dir(directory).env("FAIRLINK_COMPLETE", "bash").env("_CLAP_IFS", "\n");
        let answer = self.run(asked.env("_CLAP_COMPLETE_INDEX", words.len().to_string())).quiet();
        answer.stdout.lines().map(|line| line.trim_end().to_owned()).collect()
    }

    /// Checks the manual pages: every command has one, with examples, and names only pages that are there or that of the
    /// program `other`.
    pub fn check_manual(&self, program: &str, other: &str) {
        let printed = self.with(&["man"]).quiet().stdout;
        let scratch = Scratch::new();
        let dir = scratch.path("new/pages");
        let run = self.with(&["man", "--out", &dir]);
        assert_eq!((run.code, run.stdout.as_str()), (0, ""));
        let read = |name: &str| fs::read_to_string(format!("{dir}/{name}.1"));
        assert_eq!(read(program).expect("the program's page"), printed);
        let mut left = vec![program.to_owned()];
        while let Some(name) = left.pop() {
            let page = read(&name).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert!(page.contains("SYNOPSIS") && page.contains(".SH EXAMPLES\n.TP\n\\fB"), "{name}: {page}");
            let (_, also) = page.split_once(".SH \"SEE ALSO\"\n").unwrap_or_else(|| panic!("{name}: {page}"));
            let also: Vec<String> = also.trim_end().split(", ").map(|page| page.replace("\\-", "-")).collect();
            let also: Vec<&str> =
                also.iter().filter_map(|page| page.strip_prefix("\\fB")?.strip_suffix("\\fR(1)")).collect();
            assert!(also.contains(&other) && (name == program || also.contains(&program)), "{name}: {also:?}");
            let below = |also: &&&str| **also != other && also.starts_with(&format!("{name}-"));
            left.extend(also.iter().filter(below).map(|&also| also.to_owned()));
            fs::remove_file(format!("{dir}/{name}.1")).expect("each page once");
        }
        assert_eq!(fs::read_dir(&dir).expect("a directory").count(), 0, "pages that no page names");
    }

    /// The schema of the documents that it prints.
    pub fn schema(&self) -> &Schema {
        self.schema.get_or_init(|| Schema(self.with(&["schema", "documents"]).quiet().json()))
    }

    /// Panics if `text` is JSON and not the documents that the schema describes, one or a line each. `what` names it.
    pub fn assert_documents(&self, what: &str, text: &str) {
        if text.len() > LONGEST {
            return;
        }
        let one = serde_json::from_str::<Value>(text).map(|document| vec![document]);
        // A program that was ended leaves half a line.
        let lines = || text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        for document in one.unwrap_or_else(|_| lines()) {
            assert_eq!(self.schema().document(&document), Ok(()), "{what}: {document}");
        }
    }
}

/// Longer output is not compared with the schema: it repeats the same for very many classes.
pub const LONGEST: usize = 4 << 20;

/// The part of JSON schema that the schemas of documents use.
#[derive(Debug)]
pub struct Schema(Value);

impl Schema {
    /// Checks `value` against `schema`. Returns the first violation, with its path; a key that the schema does not name
    /// is one.
    fn check(&self, schema: &Value, value: &Value, path: &str) -> Result<(), String> {
        let mut named = Vec::new();
        self.walk(schema, value, path, &mut named)?;
        let Value::Object(object) = value else { return Ok(()) };
        let open = schema.get("additionalProperties").is_some() || named.is_empty();
        match object.keys().find(|key| !open && !named.contains(key)) {
            Some(key) => Err(format!("{path}.{key} is not in the schema")),
            None => Ok(()),
        }
    }

    fn walk(&self, schema: &Value, value: &Value, path: &str, named: &mut Vec<String>) -> Result<(), String> {
        let refuse = |why: String| Err(format!("{path}: {why}: {value}"));
        if let Some(place) = schema["$ref"].as_str() {
            let target = self.0.pointer(place.trim_start_matches('#')).ok_or_else(|| format!("no {place}"))?;
            self.walk(target, value, path, named)?;
        }
        for part in schema["allOf"].as_array().into_iter().flatten() {
            self.walk(part, value, path, named)?;
        }
        for key in ["anyOf", "oneOf"] {
            let Some(parts) = schema[key].as_array() else { continue };
            let mut fits = Vec::new();
            let whys: Vec<String> = parts
                .iter()
                .filter_map(|part| {
                    let mut own = Vec::new();
                    let fit = self.walk(part, value, path, &mut own);
                    fit.map(|()| fits.extend(own)).err()
                })
                .collect();
            if whys.len() == parts.len() {
                return Err(whys.join("; "));
            }
            named.extend(fits);
        }
        if schema.get("const").is_some_and(|constant| constant != value) {
            return refuse(format!("is to be {}", schema["const"]));
        }
        if schema["enum"].as_array().is_some_and(|values| !values.contains(value)) {
            return refuse(format!("is none of {}", schema["enum"]));
        }
        let types = match &schema["type"] {
            Value::Array(types) => types.clone(),
            Value::Null => Vec::new(),
            one => vec![one.clone()],
        };
        let is = |kind: &Value| match kind.as_str() {
            Some("object") => value.is_object(),
            Some("array") => value.is_array(),
            Some("string") => value.is_string(),
            Some("boolean") => value.is_boolean(),
            Some("number") => value.is_number(),
            Some("integer") => value.is_u64() || value.is_i64(),
            Some("null") => value.is_null(),
            _ => false,
        };
        if !types.is_empty() && !types.iter().any(is) {
            return refuse(format!("is not of type {}", schema["type"]));
        }
        if let Value::Array(items) = value
            && schema["items"].is_object()
        {
            for (at, item) in items.iter().enumerate() {
                self.check(&schema["items"], item, &format!("{path}[{at}]"))?;
            }
        }
        if let Value::Object(object) = value {
            for key in schema["required"].as_array().into_iter().flatten() {
                if !object.contains_key(key.as_str().unwrap_or_default()) {
                    return refuse(format!("has no {key}"));
                }
            }
            for (key, value) in object {
                let path = format!("{path}.{key}");
                if let Some(property) = schema["properties"].get(key) {
                    named.push(key.clone());
                    self.check(property, value, &path)?;
                } else if schema["additionalProperties"].is_object() {
                    named.push(key.clone());
                    self.check(&schema["additionalProperties"], value, &path)?;
                }
            }
        }
        Ok(())
    }

    /// Checks a document. Returns the first violation, with its path.
    ///
    /// # Errors
    /// The first violation.
    pub fn document(&self, document: &Value) -> Result<(), String> {
        let of_kind = |schema: &&Value| schema["properties"]["document"]["const"] == document["document"];
        let mut why = format!("no schema of {}", document["document"]);
        for schema in self.0["anyOf"].as_array().expect("a list").iter().filter(of_kind) {
            match self.check(schema, document, "") {
                Ok(()) => return Ok(()),
                Err(violation) => why = violation,
            }
        }
        Err(why)
    }
}

/// Returns true if the process catches SIGINT, so that it is not simply killed by it.
#[cfg(target_os = "linux")]
#[must_use]
pub fn catches_ctrl_c(pid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap_or("0");
    u64::from_str_radix(caught.trim(), 16).unwrap_or(0) & (1 << (2 - 1)) != 0
}

/// The path of a file that the project ships.
#[must_use]
pub fn scenario(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios").join(name).to_str().expect("text").to_owned()
}

/// A scenario of two Poisson sources at 80 % of 10 Mbit/s.
pub const POISSON: &str = r#"
    duration = "2s"
    link = { rate = "10mbit", scheduler = "drr" }
    class = [ { name = "a", guarantee = "5mbit", buffer = "20p" }, { name = "b", guarantee = "5mbit" } ]
    source = [
        { class = "a", model = "poisson", rate = "5mbit", packet = "1250B" },
        { class = "b", model = "poisson", packets_per_second = 300, packet = "1250B" },
    ]
"#;

/// A directory of its own, removed in the end.
#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    /// An empty one.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "a directory is made")]
    pub fn new() -> Self {
        static MADE: AtomicUsize = AtomicUsize::new(0);
        let name = format!("fairlink-test-{}-{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        let dir = std::env::temp_dir().join(name);
        fs::create_dir_all(&dir).expect("a directory");
        Self(dir)
    }

    /// The path of a file in it.
    #[must_use]
    pub fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().expect("text").to_owned()
    }

    /// Writes a file into it; returns its path.
    pub fn write(&self, name: &str, text: &str) -> String {
        fs::write(self.0.join(name), text).expect("written");
        self.path(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Every line of the documents that begins as a command does, by page.
fn shown(program: &str) -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut pages = vec![root.join("README.md")];
    for folder in ["docs", "docs/tutorials", "docs/schedulers"] {
        let entries = std::fs::read_dir(root.join(folder)).unwrap().map(|entry| entry.unwrap().path());
        pages.extend(entries.filter(|path| path.extension().is_some_and(|extension| extension == "md")));
    }
    let prefix = format!("{program} ");
    let mut all = Vec::new();
    for page in pages {
        let mut inside = false;
        for line in std::fs::read_to_string(&page).unwrap().lines() {
            if line.starts_with("```") {
                inside = line == "```sh" && !inside;
            } else if inside && let Some(command) = line.strip_prefix("sudo ").unwrap_or(line).strip_prefix(&prefix) {
                let end = [" #", " &", " >", " |", " <"].iter().filter_map(|end| command.find(end)).min();
                all.push((page.display().to_string(), command[..end.unwrap_or(command.len())].trim_end().to_owned()));
            }
        }
    }
    all
}

/// The words of a line; blanks between quotes do not part them.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut quoted) = (vec![String::new()], false);
    for c in line.chars() {
        match (c, words.last_mut()) {
            ('"', _) => quoted = !quoted,
            (' ', _) if !quoted => words.push(String::new()),
            (c, Some(word)) => word.push(c),
            _ => {}
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Checks that every command line of `program` in README and docs is one that the command line `C` takes. There are
/// more than `least` of them.
pub fn check_documented_lines<C: Parser>(program: &str, least: usize) {
    let shown = shown(program);
    assert!(shown.len() > least, "{}", shown.len());
    // Placeholders and abridged lines.
    let abridged = |command: &str| command.contains("...") || command.contains('[') || command.contains('\\');
    for (page, command) in shown.iter().filter(|(_, command)| !abridged(command)) {
        let words = words(command);
        if let Err(error) = C::try_parse_from(std::iter::once(program).chain(words.iter().map(String::as_str))) {
            let asked =
                matches!(error.kind(), clap::error::ErrorKind::DisplayHelp | clap::error::ErrorKind::DisplayVersion);
            assert!(asked, "{page}: {program} {command}: {error}");
        }
    }
}

/// Checks that the command line `C` has the commands of `own`, and beside them only those that both programs have.
pub fn check_commands<C: Parser>(own: &[&str]) {
    let command = C::command();
    let listed = command.get_subcommands().filter(|below| !below.is_hide_set()).map(clap::Command::get_name);
    let (both, only): (Vec<&str>, Vec<&str>) = listed.partition(|name| ["schema", "completions", "man"].contains(name));
    assert_eq!((both.len(), &only[..]), (3, own));
}

/// Adds all commands below `command`, as they are typed behind the program, with their help.
fn all(command: &mut clap::Command, above: &str, found: &mut Vec<(String, String)>) {
    for below in command.get_subcommands_mut().filter(|below| below.get_name() != "help" && !below.is_hide_set()) {
        let name = format!("{above}{}", below.get_name());
        found.push((name.clone(), below.render_long_help().to_string()));
        all(below, &format!("{name} "), found);
    }
}

/// Checks that every help of `program` has examples that its command line `C` takes, with files that are there. There
/// are more than `least` commands.
pub fn check_examples<C: Parser>(program: &str, parts: &Program, least: usize) {
    let mut command = parts.command::<C>();
    let mut commands = vec![(program.to_owned(), command.render_long_help().to_string())];
    all(&mut command, "", &mut commands);
    assert!(commands.len() > least, "{}", commands.len());
    for (name, _) in parts.examples {
        assert!(commands.iter().any(|(known, _)| known == name), "there is no command {name}");
    }
    for (name, help) in commands {
        let lines: Vec<&str> = help.lines().skip_while(|line| *line != "Examples:").skip(1).collect();
        let typed = lines.iter().filter_map(|line| line.strip_prefix("  ").filter(|line| !line.starts_with(' ')));
        let typed: Vec<&str> = typed.collect();
        assert!(!typed.is_empty(), "{program} {name} --help has no examples");
        for line in typed {
            let mut words = words(line);
            words.truncate(words.iter().position(|word| word == ">").unwrap_or(words.len()));
            if words[0] != program {
                continue;
            }
            let begins = words[1..].join(" ");
            assert!(name == program || format!("{begins} ").starts_with(&format!("{name} ")), "{line} is under {name}");
            let parsed = C::try_parse_from(&words);
            assert!(parsed.is_ok(), "{line}: {}", parsed.err().map(|error| error.to_string()).unwrap_or_default());
            for file in words.iter().filter(|word| word.starts_with("scenarios/")) {
                let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(file);
                assert!(path.exists(), "{line}: {file} is not there");
            }
        }
    }
}
