//! Nanoseconds for a packet through one tree that several threads share, with classes of three kinds, beside `hls` and
//! `hvt` on one thread and behind a hub, and several hubs. `fairlink-lab bench --cores` prints a part of it, as a table.
//!
//! ```text
//! cargo run --release -p fairlink-workload --example cores -- [THREADS] [SECONDS] [WORDS]
//! ```
//!
//! Printed are the median and the least of all segments of 65,536 packets, as `fairlink_workload::cores` measures them.
//! WORDS: only lines with all of them.
#![forbid(unsafe_code)]

#[cfg(target_os = "linux")]
mod linux {
    use std::time::Duration;

    use fairlink_core::registry;
    use fairlink_workload::cores::{Classes, Segment, alone, hub, hubs, shared};
    use fairlink_workload::{Pattern, WorkloadError};

    /// Returns the median and the least time, and the median of the empty calls or of the time without packets, in
    /// words.
    fn summary(segments: &[Segment], empty: &str) -> String {
        let sorted = |of: fn(&Segment) -> f64| {
            let mut all: Vec<f64> = segments.iter().map(of).collect();
            all.sort_by(f64::total_cmp);
            all
        };
        let (nanos, waits) = (sorted(|segment| segment.nanos), sorted(|segment| segment.empty));
        let middle = segments.len() / 2;
        format!("{:.1} ns a packet, least {:.1}; {:.2} {empty}", nanos[middle], nanos[0], waits[middle])
    }

    pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
        let mut args = std::env::args().skip(1);
        let most: usize = args.next().map_or(Ok(2), |threads| threads.parse())?;
        let time = Duration::from_secs_f64(args.next().map_or(Ok(2.0), |seconds| seconds.parse())?);
        let words: Vec<String> = args.collect();
        let print = |title: String, empty: &str, run: &dyn Fn() -> Result<Vec<Segment>, WorkloadError>| {
            if words.iter().all(|word| title.contains(word.as_str())) {
                println!("{title}: {}", summary(&run()?, empty));
            }
            Ok::<(), WorkloadError>(())
        };
        for pattern in [Pattern::Backlogged, Pattern::Churn] {
            let word = pattern.name();
            for info in ["hls", "hvt"].into_iter().filter_map(registry::find) {
                let calls = "empty calls a batch";
                print(format!("{word}, {}, 1 thread", info.name), calls, &|| alone(info, pattern, time))?;
                for threads in 2..=most {
                    let title = format!("{word}, {}, hub, {threads} threads", info.name);
                    print(title, "of its time without packets", &|| hub(info, threads, pattern, time))?;
                }
            }
            for classes in [Classes::Apart(8), Classes::Own(8), Classes::Common(8), Classes::Common(1)] {
                for threads in 1..=most {
                    let title = format!("{word}, classes {classes:?}, {threads} threads");
                    print(title, "empty calls a batch", &|| shared(threads, classes, pattern, time))?;
                }
            }
            for threads in 1..=most {
                print(format!("{word}, {threads} hubs"), "empty turns a batch", &|| hubs(threads, pattern, time))?;
            }
        }
        Ok(())
    }
}

#[cfg(target_os = "linux")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    linux::main()
}

#[cfg(not(target_os = "linux"))]
fn main() {
    println!("SKIPPED: it takes the processor time of threads from Linux");
}
