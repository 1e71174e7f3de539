//! `import tc --run`: runs a shell script in a sandbox in which `tc` and the like record their arguments, and returns
//! the commands.

mod rewrite;
mod shims;

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, chown, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use fairlink_net::{SANDBOX_USER, Sandbox, end_process_group};

use fairlink_terminal::failure::CliError;

/// Most files beside a script that it finds beside its copy.
const MOST_BESIDE: usize = 1024;
/// Most bytes of files beside a script that are copied; the others are links.
const MOST_COPIED: u64 = 16 << 20;
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
    /// Longest time that it may run.
    pub(super) limit: Duration,
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
    /// Processor time of each process, in seconds.
    seconds: u64,
    /// The shell, the script and its arguments.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<String>,
}

/// Confines this process and executes the command; returns only when that fails.
pub(crate) fn confined(args: &Confined) -> Result<(), CliError> {
    let sandbox = Sandbox { scratch: args.scratch.clone(), seconds: args.seconds };
    sandbox.enter().map_err(CliError::wrong)?;
    let error = Command::new(&args.command[0]).args(&args.command[1..]).exec();
    Err(CliError::wrong(format!("{} cannot be started: {error}", args.command[0])))
}

/// Runs a script and reads what was recorded.
pub(super) fn run(order: &Order<'_>) -> Result<Ran, CliError> {
    let name = order.script.display();
    let size = fs::metadata(order.script).map_err(|error| CliError::wrong(format!("{name}: {error}")))?.len();
    if size > MOST_SCRIPT {
        return Err(CliError::wrong(format!("{name}: {size} bytes; a script may have {MOST_SCRIPT}")));
    }
    let text = fs::read(order.script).map_err(|error| CliError::wrong(format!("{name}: {error}")))?;
    let text = String::from_utf8_lossy(&text);
    let shell = rewrite::shell(&text).map_err(|why| CliError::wrong(format!("{name}: {why}")))?;
    for variable in order.variables {
        if !variable.split_once('=').is_some_and(|(name, _)| rewrite::is_name(name)) {
            return Err(CliError::wrong(format!("--set {variable}: write NAME=VALUE")));
        }
    }
    let in_scratch =
        |error: io::Error| CliError::failed(anyhow::anyhow!("the scratch directory of the script: {error}"));
    let scratch = Scratch::new().map_err(in_scratch)?;
    let bin = scratch.path.join("bin");
    // A directory of its own for the files beside it.
    let beside = scratch.path.join("beside");
    let script = beside.join(order.script.file_name().unwrap_or("script".as_ref()));
    prepare(&scratch.path, order.device).map_err(in_scratch)?;
    let from = order.script.parent().filter(|dir| *dir != Path::new("")).unwrap_or(Path::new("."));
    let rewritten = |text: &str| rewrite::rewritten(text, &bin.display().to_string(), &shims::names());
    let missing = bring_along(from, &beside, &script, rewritten).map_err(in_scratch)?;
    fs::write(&script, rewritten(&text)).map_err(in_scratch)?;
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).map_err(in_scratch)?;
    let output = |name: &str| File::create(scratch.path.join(name)).map_err(in_scratch);
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin", bin.display());
    let mut command = Command::new(std::env::current_exe().map_err(in_scratch)?);
    command
        .arg("run-confined")
        .arg(&scratch.path)
        .arg((order.limit.as_secs() + 1).to_string())
        .arg(&shell)
        .arg(&script)
        .args(order.args)
        .env_clear()
        .envs([("PATH", path.as_str()), ("LANG", "C"), ("USER", "root")])
        .env("HOME", &scratch.path)
        .env("TMPDIR", &scratch.path)
        .envs(order.variables.iter().filter_map(|variable| variable.split_once('=')))
        .current_dir(from)
        .stdin(Stdio::null())
        .stdout(output("stdout")?)
        .stderr(output("stderr")?)
        .process_group(0);
    let mut child = command.spawn().map_err(in_scratch)?;
    let ended = wait(&mut child, order.limit);
    end_process_group(child.id());
    let ended = ended.map_err(in_scratch)?;
    let messages = fs::read(scratch.path.join("stderr")).unwrap_or_default();
    let messages = String::from_utf8_lossy(&messages).into_owned();
    let record = fs::read(scratch.path.join("record")).map_err(in_scratch)?;
    if let Some(why) = messages.lines().find_map(|line| line.split_once("this system gives no sandbox")) {
        return Err(CliError::wrong(format!("the script is not run, because this system gives no sandbox{}", why.1)));
    }
    let record = shims::read(&record).map_err(|why| CliError::failed(anyhow::anyhow!("{name}: {why}")))?;
    let mut notes = ending(ended, order.limit, &messages);
    if missing > 0 {
        notes
            .push(format!("WARNING: {missing} files beside {name} are not beside its copy: it may have {MOST_BESIDE}"));
    }
    notes.extend(named(&record));
    if record.tc == 0 {
        let mut why = format!("{name} gave no command of tc that sets something up");
        notes.iter().for_each(|note| why += &format!("\n  {note}"));
        why += "\n  give the script its arguments behind --, and variables by --set NAME=VALUE";
        return Err(CliError::wrong(why));
    }
    Ok(Ran { text: record.text, notes })
}

/// Puts copies of the texts beside a script beside its copy, with their programs replaced, where all may read them, and
/// links to all else. Returns the number of files that are left out.
fn bring_along(from: &Path, beside: &Path, script: &Path, rewritten: impl Fn(&str) -> String) -> io::Result<usize> {
    fs::create_dir(beside)?;
    // By its real name, since links are read from another directory.
    let Ok(from) = fs::canonicalize(from) else { return Ok(0) };
    let Ok(entries) = fs::read_dir(&from) else { return Ok(0) };
    let (mut missing, mut room) = (0, MOST_COPIED);
    for (place, entry) in entries.filter_map(Result::ok).enumerate() {
        let to = beside.join(entry.file_name());
        if to == script {
            continue;
        }
        if place >= MOST_BESIDE {
            missing += 1;
            continue;
        }
        let path = entry.path();
        let readable = |data: &fs::Metadata| data.is_file() && data.len() <= room && data.mode() & 0o004 != 0;
        let data = fs::metadata(&path).ok().filter(readable);
        let text = data.as_ref().and_then(|_| String::from_utf8(fs::read(&path).ok()?).ok());
        match (data, text.filter(|text| !text.contains('\0'))) {
            (Some(data), Some(text)) => {
                room -= data.len();
                fs::write(&to, rewritten(&text))?;
                fs::set_permissions(&to, fs::Permissions::from_mode(data.mode() & 0o111 | 0o644))?;
            }
            _ => symlink(&path, &to)?,
        }
    }
    Ok(missing)
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

/// Waits for the end; `None` if the time was over first.
fn wait(child: &mut Child, limit: Duration) -> io::Result<Option<ExitStatus>> {
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if begun.elapsed() >= limit {
            end_process_group(child.id());
            child.wait()?;
            return Ok(None);
        }
        thread::sleep(Duration::from_millis(5));
    }
}

fn ending(status: Option<ExitStatus>, limit: Duration, messages: &str) -> Vec<String> {
    let last = messages.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("no message");
    match status {
        None => vec![format!(
            "WARNING: the script was stopped after {} s; the commands that it gave until then are imported; --run-limit gives it more time",
            limit.as_secs_f64()
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
