//! Runs each test in a process of its own, in a private network namespace: without root a namespace can only be entered by a
//! process of one thread. Where there is no namespace to be had, a line that starts with `SKIPPED:` says why.

use std::process::{Command, ExitCode};

use fairlink_net::{PrivateNamespace, enter_private_namespace};
use libtest_mimic::{Arguments, Trial};

/// Says which test a process is to run; absent in the first process.
const VARIABLE: &str = "FAIRLINK_NAMESPACE_TEST";

/// A test and its name.
pub(crate) type Test = (&'static str, fn(&PrivateNamespace));

/// Runs `tests`, one after the other (there are few processors and much traffic), unless this process is one of them.
pub(crate) fn main(tests: &'static [Test]) -> ExitCode {
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
    let trials = tests
        .iter()
        .map(|&(name, _)| {
            Trial::test(name, move || {
                let mut command = Command::new(std::env::current_exe()?);
                command.env(VARIABLE, name);
                run(command)
            })
        })
        .collect();
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// Runs a test's process; what it printed is shown.
fn run(mut command: Command) -> Result<(), libtest_mimic::Failed> {
    let output = command.output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    if output.status.success() {
        print!("\n{text}");
        Ok(())
    } else {
        Err(format!("{}\n{text}{}", output.status, String::from_utf8_lossy(&output.stderr)).into())
    }
}
