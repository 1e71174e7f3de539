//! A number of packets through one scheduler, for callgrind, which counts instructions: these do not depend on the machine's mood.
//! `scripts/instructions` makes tables of it.
//!
//! ```text
//! cargo build --release -p fairlink-workload --example callgrind
//! valgrind --tool=callgrind --toggle-collect='*measured*' target/release/examples/callgrind hls 1024 3 50000 churn
//! ```
//!
//! The cost of a packet is the count reported by callgrind as collected, divided by the number of packets. As many
//! packets pass before, so that no start-up round is counted. `harness` is the workload without a scheduler, to be
//! subtracted, and `rings` are bare rings. For the distribution of the instructions, read callgrind's output file with
//! `callgrind_annotate`. Exit code 3: the scheduler does not support the tree.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use fairlink_workload::{Shape, Subject, Workload, WorkloadError};

const USAGE: &str = "usage: callgrind SCHEDULER LEAVES LEVELS PACKETS [backlogged|sparse|churn] [single] [ceilings] \
                     [record] [long] [len=BYTES] [max=BYTES] [weights=N]";

/// The function that callgrind counts.
#[inline(never)]
fn measured(workload: &mut Workload, packets: u64) -> Result<u64, WorkloadError> {
    workload.run(packets)
}

fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [scheduler, leaves, levels, packets, words @ ..] = &args[..] else { return Err(USAGE.into()) };
    let mut shape = Shape { leaves: leaves.parse()?, levels: levels.parse()?, ..Shape::default() };
    for word in words {
        shape.set(word)?;
    }
    let (subject, tree, packets) = (Subject::named(scheduler)?, shape.tree()?, packets.parse()?);
    if !subject.takes(&tree) {
        eprintln!("{scheduler} takes no such tree");
        return Ok(ExitCode::from(3));
    }
    let mut workload = Workload::on(&tree, subject, shape)?;
    workload.run(packets)?;
    println!("{}", measured(&mut workload, packets)?);
    Ok(ExitCode::SUCCESS)
}
