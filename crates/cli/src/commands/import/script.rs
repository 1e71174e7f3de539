//! `import tc --run`: runs a shell script in a sandbox in which `tc` and the like record their arguments, and returns the commands.

mod rewrite;
mod shims;

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use fairlink_net::{SANDBOX_USER, Sandbox, end_process_group};

use crate::failure::Failure;

/// Longest time that a script may run.
const MOST_SECONDS: u64 = 10;
/// Largest script, in bytes.
const MOST_SCRIPT: u64 = 4 << 20;
/// Most commands of one kind that are named in the report.
const MOST_NAMED: usize = 20;

/// The script, its arguments and its environment.
pub(super) struct Order<'a> {
    pub(super) script: &'a Path,
    pub(super) args: &'a [String],
    /// Variables of its environment, `NAME=VALUE`.
    pub(super) variables: &'a [String],
    /// The interface of the default route, where the script asks for it.
    pub(super) device: &'a str,
}

/// The outcome of a run.
pub(super) struct Ran {
    /// The recorded commands of tc, iptables and ip6tables, a line each.
    pub(super) text: String,
    /// Messages for the report, a sentence each.
    pub(super) notes: Vec<String>,
}

/// Arguments of the hidden command that confines itself and becomes the script.
#[derive(Debug, clap::Args)]
pub(crate) struct Confined {
    /// The only directory in which files may be written.
    scratch: PathBuf,
    /// The shell, the script and its arguments.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<String>,
}

/// Confines this process and executes the command; returns only when that fails.
pub(crate) fn confined(args: &Confined) -> Result<(), Failure> {
    let sandbox = Sandbox { scratch: args.scratch.clone(), seconds: MOST_SECONDS };
    sandbox.enter().map_err(Failure::wrong)?;
    let error = Command::new(&args.command[0]).args(&args.command[1..]).exec();
    Err(Failure::wrong(format!("{} cannot be started: {error}", args.command[0])))
}

/// Runs a script and reads what was recorded.
pub(super) fn run(order: &Order<'_>) -> Result<Ran, Failure> {
    let name = order.script.display();
    let size = fs::metadata(order.script).map_err(|error| Failure::wrong(format!("{name}: {error}")))?.len();
    if size > MOST_SCRIPT {
        return Err(Failure::wrong(format!("{name}: {size} bytes; a script may have {MOST_SCRIPT}")));
    }
    let text = fs::read(order.script).map_err(|error| Failure::wrong(format!("{name}: {error}")))?;
    let text = String::from_utf8_lossy(&text);
    let shell = rewrite::shell(&text).map_err(|why| Failure::wrong(format!("{name}: {why}")))?;
    for variable in order.variables {
        if !variable.split_once('=').is_some_and(|(name, _)| rewrite::is_name(name)) {
            return Err(Failure::wrong(format!("--set {variable}: write NAME=VALUE")));
        }
    }
    let in_scratch =
        |error: io::Error| Failure::failed(anyhow::anyhow!("the scratch directory of the script: {error}"));
    let scratch = Scratch::new().map_err(in_scratch)?;
    let bin = scratch.path.join("bin");
    let script = scratch.path.join(order.script.file_name().unwrap_or("script".as_ref()));
    prepare(&scratch.path, order.device).map_err(in_scratch)?;
    fs::write(&script, rewrite::rewritten(&text, &bin.display().to_string(), &shims::names())).map_err(in_scratch)?;
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).map_err(in_scratch)?;
    let output = |name: &str| File::create(scratch.path.join(name)).map_err(in_scratch);
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin", bin.display());
    let mut command = Command::new(std::env::current_exe().map_err(in_scratch)?);
    command
        .arg("run-confined")
        .arg(&scratch.path)
        .arg(&shell)
        .arg(&script)
        .args(order.args)
        .env_clear()
        .envs([("PATH", path.as_str()), ("LANG", "C"), ("USER", "root")])
        .env("HOME", &scratch.path)
        .env("TMPDIR", &scratch.path)
        .envs(order.variables.iter().filter_map(|variable| variable.split_once('=')))
        .current_dir(order.script.parent().filter(|dir| *dir != Path::new("")).unwrap_or(Path::new(".")))
        .stdin(Stdio::null())
        .stdout(output("stdout")?)
        .stderr(output("stderr")?)
        .process_group(0);
    let mut child = command.spawn().map_err(in_scratch)?;
    let ended = wait(&mut child);
    end_process_group(child.id());
    let ended = ended.map_err(in_scratch)?;
    let messages = fs::read(scratch.path.join("stderr")).unwrap_or_default();
    let messages = String::from_utf8_lossy(&messages).into_owned();
    let record = fs::read(scratch.path.join("record")).map_err(in_scratch)?;
    if let Some(why) = messages.lines().find_map(|line| line.split_once("this system gives no sandbox")) {
        return Err(Failure::wrong(format!("the script is not run, because this system gives no sandbox{}", why.1)));
    }
    let record = shims::read(&record).map_err(|why| Failure::failed(anyhow::anyhow!("{name}: {why}")))?;
    let mut notes = ending(ended, &messages);
    notes.extend(named(&record));
    if record.tc == 0 {
        let mut why = format!("{name} gave no command of tc that sets something up");
        notes.iter().for_each(|note| why += &format!("\n  {note}"));
        why += "\n  give the script its arguments behind --, and variables by --set NAME=VALUE";
        return Err(Failure::wrong(why));
    }
    Ok(Ran { text: record.text, notes })
}

/// Makes the recorders and an empty record, for the user that the script runs as.
fn prepare(scratch: &Path, device: &str) -> io::Result<()> {
    let bin = scratch.join("bin");
    fs::create_dir(&bin)?;
    let record = scratch.join("record");
    File::create(&record)?;
    for (name, text) in shims::all(&record.display().to_string(), device) {
        let path = bin.join(name);
        fs::write(&path, text)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
    }
    if fs::metadata(scratch)?.uid() == 0 {
        chown(scratch, Some(SANDBOX_USER), Some(SANDBOX_USER))?;
        chown(&record, Some(SANDBOX_USER), Some(SANDBOX_USER))?;
    }
    Ok(())
}

/// Waits for the end; `None` where the time was over first.
fn wait(child: &mut Child) -> io::Result<Option<ExitStatus>> {
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if begun.elapsed() >= Duration::from_secs(MOST_SECONDS) {
            end_process_group(child.id());
            child.wait()?;
            return Ok(None);
        }
        thread::sleep(Duration::from_millis(5));
    }
}

fn ending(status: Option<ExitStatus>, messages: &str) -> Vec<String> {
    let last = messages.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("no message");
    match status {
        None => vec![format!(
            "WARNING: the script was stopped after {MOST_SECONDS} s; the commands that it gave until then are imported"
        )],
        Some(status) if !status.success() => {
            vec![format!("WARNING: the script ended with {status}; its last message: {last}")]
        }
        Some(_) => Vec::new(),
    }
}

/// Returns messages about commands that were not run, and about questions that were answered.
fn named(record: &shims::Record) -> Vec<String> {
    let mut notes = Vec::new();
    for (what, all) in [("not run", &record.listed), ("answered without asking the system", &record.answered)] {
        notes.extend(all.iter().take(MOST_NAMED).map(|command| format!("{what}: {command}")));
        if all.len() > MOST_NAMED {
            notes.push(format!("{what}: {} more commands", all.len() - MOST_NAMED));
        }
    }
    notes
}

/// A directory of its own, which is removed in the end.
struct Scratch {
    path: PathBuf,
}

impl Scratch {
    fn new() -> io::Result<Self> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_nanos());
        // By its real name, as landlock and the script see it.
        let within = fs::canonicalize(std::env::temp_dir())?;
        let path = within.join(format!("fairlink-run-{}-{now}", std::process::id()));
        fs::DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Self { path })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}
