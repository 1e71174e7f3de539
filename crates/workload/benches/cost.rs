//! Nanoseconds of an enqueue and a dequeue, less those of the harness, for work on a scheduler.
//!
//! ```text
//! cargo bench -p fairlink-workload --bench cost                       # all schedulers and patterns, 8 .. 65,536 leaves, 1, 3 and 6 levels
//! cargo bench -p fairlink-workload --bench cost -- hls drr leaves=8,1024,1000000 levels=1,3 pattern=churn single weights=10 len=64
//! ```
//!
//! Words are those of a `Shape`; leaves, levels and pattern may be lists. All subjects of a shape are measured in turn, round after
//! round, so that a disturbance meets all of them. Each figure is the median of the rounds, `harness` and `rings`, which are always there,
//! included. For figures that do not wander, count instructions: `scripts/instructions`.
#![forbid(unsafe_code)]

use std::time::Instant;

use fairlink_workload::{Pattern, Shape, Subject, Workload, WorkloadError, calibrate};

/// Each figure is the median of this many ...
const ROUNDS: usize = 9;
/// ... of at least this many packets.
const PACKETS: u64 = 200_000;

/// Measures, for each of `subjects`, the median of nanoseconds a packet and the share of the leaves that have packets.
fn measure(subjects: &[Subject], shape: Shape) -> Result<Vec<(f64, f64)>, WorkloadError> {
    let mut workloads = Vec::new();
    for &subject in subjects {
        let mut workload = Workload::new(subject, shape)?;
        // Once through all leaves, so that no start-up round is measured and no page is touched for the first time.
        workload.run(PACKETS.max(4 * shape.leaves as u64))?;
        workloads.push((workload, Vec::with_capacity(ROUNDS)));
    }
    for _ in 0..ROUNDS {
        for (workload, figures) in &mut workloads {
            let start = Instant::now();
            let done = workload.run(PACKETS)?;
            figures.push(start.elapsed().as_nanos() as f64 / done as f64);
        }
    }
    let median = |(workload, mut figures): (Workload, Vec<f64>)| {
        figures.sort_by(f64::total_cmp);
        (figures[ROUNDS / 2], workload.busy())
    };
    Ok(workloads.into_iter().map(median).collect())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut subjects = vec![Subject::Harness, Subject::Rings];
    let (mut leaves, mut levels, mut patterns) = (vec![8, 1_024, 65_536], vec![1, 3, 6], Pattern::ALL.to_vec());
    let mut base = Shape::default();
    for word in std::env::args().skip(1).filter(|word| word != "--bench") {
        let numbers = |value: &str| value.split(',').map(str::parse::<usize>).collect::<Result<Vec<_>, _>>();
        match word.split_once('=') {
            Some(("leaves", value)) => leaves = numbers(value)?,
            Some(("levels", value)) => levels = numbers(value)?,
            Some(("pattern", value)) => patterns = value.split(',').map(str::parse).collect::<Result<_, _>>()?,
            _ => match Subject::named(&word) {
                Ok(subject) => subjects.push(subject),
                Err(_) => base.set(&word)?,
            },
        }
    }
    if subjects.len() == 2 {
        subjects.extend(fairlink_core::registry::SCHEDULERS.iter().map(Subject::Scheduler));
    }
    println!("a clock of {:.2} GHz; ns@2.5 is for one of {} GHz", calibrate::clock_ghz(), calibrate::REFERENCE_GHZ);
    println!(
        "{:<18} {:<10} {:>8} {:>6} {:>8} {:>8} {:>8} {:>6}",
        "scheduler", "pattern", "leaves", "levels", "ns", "net ns", "ns@2.5", "busy"
    );
    for pattern in patterns {
        for &leaves in &leaves {
            for &levels in &levels {
                let shape = Shape { leaves, levels, pattern, ..base };
                let scale = calibrate::clock_ghz() / calibrate::REFERENCE_GHZ;
                let tree = shape.tree()?;
                let subjects: Vec<Subject> = subjects.iter().copied().filter(|subject| subject.takes(&tree)).collect();
                let figures = measure(&subjects, shape)?;
                let harness = figures[0].0;
                for (subject, (ns, busy)) in subjects.iter().zip(figures) {
                    let net = ns - harness;
                    println!(
                        "{:<18} {:<10} {leaves:>8} {levels:>6} {ns:>8.1} {net:>8.1} {:>8.1} {busy:>6.2}",
                        subject.name(),
                        pattern.name(),
                        net * scale
                    );
                }
            }
        }
    }
    Ok(())
}
