//! Runs each test in a new process, in a private network namespace: without root only a process of one thread can enter
//! a namespace. If no namespace is available, a line that starts with `SKIPPED:` gives the reason.

pub(crate) mod both_ends;
pub(crate) mod cables;
pub(crate) mod ends;
pub(crate) mod faulty;
pub(crate) mod machines;
pub(crate) mod raw;
pub(crate) mod sink;
pub(crate) mod through;
pub(crate) mod variants;

use std::collections::BTreeMap;
use std::process::{Command, ExitCode};
use std::sync::{Mutex, PoisonError};

use fairlink_testbed::{LIMIT_FOR_FRAMES, LostProcessor, PrivateNamespace, enter_private_namespace};
use libtest_mimic::{Arguments, Trial};

/// Environment variable with the test that a process runs; absent in the first process.
const VARIABLE: &str = "FAIRLINK_NAMESPACE_TEST";

/// A test and its name.
pub(crate) type Test = (&'static str, fn(&PrivateNamespace));

/// A second run of some tests, in a variant.
#[derive(Clone, Copy)]
pub(crate) struct Also {
    /// The variant, such as the backend.
    pub(crate) over: &'static str,
    /// The variables that select it in the test's process, and their values.
    pub(crate) variables: &'static [(&'static str, &'static str)],
    /// Returns the reason, determined once in a new process, why it is not available here.
    pub(crate) why_not: fn(&PrivateNamespace) -> Option<String>,
    /// Names of the tests.
    pub(crate) tests: &'static [&'static str],
}

/// Runs `tests` one after the other (there are few processors and much traffic), or the single test for which this
/// process was started.
#[allow(dead_code, reason = "not every suite has a gateway")]
pub(crate) fn main(tests: &'static [Test]) -> ExitCode {
    main_also(tests, Vec::new())
}

/// As [`main`], and runs some of them again.
pub(crate) fn main_also(tests: &'static [Test], also: Vec<Also>) -> ExitCode {
    if let Ok(name) = std::env::var(VARIABLE)
        && let Some(Also { why_not, .. }) = also.iter().find(|also| name == also.probe())
    {
        match enter_private_namespace().map_err(|why| why.to_string()).map(|namespace| why_not(&namespace)) {
            Ok(None) => {}
            Ok(Some(why)) | Err(why) => println!("{why}"),
        }
        return ExitCode::SUCCESS;
    }
    if let Ok(name) = std::env::var(VARIABLE) {
        let (_, test) = tests.iter().find(|(known, _)| *known == name).expect("a test of that name");
        match enter_private_namespace() {
            Ok(namespace) => test(&namespace),
            Err(why) => println!("SKIPPED: {name}: {why}"),
        }
        return ExitCode::SUCCESS;
    }
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(1);
    let trial = |name: &'static str| {
        Trial::test(name, move || {
            let mut command = Command::new(std::env::current_exe()?);
            command.env(VARIABLE, name);
            run(name, command)
        })
    };
    let mut trials: Vec<_> = tests.iter().map(|&(name, _)| trial(name)).collect();
    for (also, &name) in also.iter().flat_map(|also| also.tests.iter().map(move |name| (*also, name))) {
        assert!(tests.iter().any(|&(known, _)| known == name), "there is no test {name}");
        let variant = format!("{name}_{}", also.over);
        trials.push(Trial::test(variant.clone(), move || {
            if let Some(why) = also.why_not_here() {
                println!("\nSKIPPED: {name} {}: {why}", also.over);
                return Ok(());
            }
            let mut command = Command::new(std::env::current_exe()?);
            command.env(VARIABLE, name).envs(also.variables.iter().copied());
            run(&variant, command)
        }));
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// Runs tests of this suite once more, each as the root of a new user namespace, by nftables instead of programs. This
/// user has all rights over its networks and none over the kernel.
#[allow(dead_code, reason = "not every suite has a gateway")]
pub(crate) fn in_user_namespaces(tests: &[&str]) {
    for test in tests {
        let output = Command::new("unshare")
            .args(["--user", "--map-root-user", "--net"])
            .arg(std::env::current_exe().unwrap())
            .env(VARIABLE, test)
            .output();
        match output {
            Ok(output) => {
                print!("nftables: {test}\n{}", String::from_utf8_lossy(&output.stdout));
                assert!(output.status.success(), "{test}: {}", String::from_utf8_lossy(&output.stderr));
            }
            Err(why) => println!("SKIPPED: no user namespace here: {why}"),
        }
    }
}

/// Reasons why variants are not available here, by their names, as far as they were determined.
static PROBED: Mutex<BTreeMap<&str, Option<String>>> = Mutex::new(BTreeMap::new());

impl Also {
    /// The name of the process that determines availability.
    fn probe(&self) -> String {
        format!("(probe) {}", self.over)
    }

    /// Returns the reason why the variant is not available; `None` if it is.
    fn why_not_here(&self) -> Option<String> {
        let mut probed = PROBED.lock().unwrap_or_else(PoisonError::into_inner);
        probed.entry(self.over).or_insert_with(|| probe(&self.probe())).clone()
    }
}

fn probe(name: &str) -> Option<String> {
    let output = std::env::current_exe().and_then(|program| Command::new(program).env(VARIABLE, name).output());
    match output {
        Ok(output) if output.status.success() => {
            let why = String::from_utf8_lossy(&output.stdout).trim().to_owned();
            (!why.is_empty()).then_some(why)
        }
        Ok(output) => Some(String::from_utf8_lossy(&output.stderr).into_owned()),
        Err(error) => Some(error.to_string()),
    }
}

/// Runs a test's process and shows its output. A failure does not count if the process lost its processor for too long.
fn run(name: &str, mut command: Command) -> Result<(), libtest_mimic::Failed> {
    let (output, lost) = LostProcessor::during(|| command.output());
    let output = output?;
    let text = String::from_utf8_lossy(&output.stdout);
    if output.status.success() {
        print!("\n{text}");
        return Ok(());
    }
    let why = format!("{}\n{text}{}", output.status, String::from_utf8_lossy(&output.stderr));
    match lost.excuse(name, LIMIT_FOR_FRAMES) {
        Some(excuse) => {
            println!("\n{why}\n{excuse}");
            Ok(())
        }
        None => Err(format!("{why}\n{lost}").into()),
    }
}
