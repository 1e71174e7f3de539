//! Measures for how long a program under test did not get a processor, by the kernel's own clock of each thread: the
//! second number of `/proc/PID/task/TID/schedstat` (Documentation/scheduler/sched-stats.rst).
//!
//! A test of real packets that fails beside other programs may have failed because of them. It is judged again only if
//! the loss was measured: see [`LostProcessor::excuse`].

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::threads::SetAtEnd;

/// The loss is that within this time.
const WINDOW: Duration = Duration::from_millis(500);
/// Interval between two looks.
const EVERY: Duration = Duration::from_millis(20);
/// Maximum number of processes and threads that are looked at.
const MOST: usize = 4096;

/// Longest time within half a second for which a thread was ready to run and did not run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LostProcessor {
    /// Zero where the kernel does not measure it.
    pub longest: Duration,
}

/// Above this loss it cannot be judged what became of frames. It is less than a gateway that fails open by nftables can
/// pause for without letting frames pass (`fail_open/table.rs` of `net`).
pub const LIMIT_FOR_FRAMES: Duration = Duration::from_millis(100);
/// Above this loss it cannot be judged whether programs answer each other: a gateway's control socket waits 2 s.
pub const LIMIT_FOR_ANSWERS: Duration = Duration::from_secs(1);

impl LostProcessor {
    /// Does `work`, and measures the loss of the processes that this thread starts meanwhile, and of all that they start.
    pub fn during<T>(work: impl FnOnce() -> T) -> (T, Self) {
        // SAFETY: cannot fail, takes nothing.
        let starter = unsafe { libc::gettid() };
        Self::watch(|| children(&format!("/proc/self/task/{starter}")), work)
    }

    /// Does `work`, and measures the loss of all threads of this process, and of all processes that they start.
    pub fn of_all_during<T>(work: impl FnOnce() -> T) -> (T, Self) {
        Self::watch(|| vec![std::process::id()], work)
    }

    fn watch<T>(processes: impl Fn() -> Vec<u32> + Sync, work: impl FnOnce() -> T) -> (T, Self) {
        let ended = AtomicBool::new(false);
        let mut watch = Watch::default();
        // What was lost before does not count.
        watch.look(&processes(), Instant::now());
        watch.forget();
        std::thread::scope(|scope| {
            let watcher = scope.spawn(|| {
                while !ended.load(Ordering::Relaxed) {
                    watch.look(&processes(), Instant::now());
                    std::thread::sleep(EVERY);
                }
                watch.lost
            });
            let done = {
                let _ended = SetAtEnd(&ended);
                work()
            };
            (done, watcher.join().unwrap_or_default())
        })
    }

    /// Returns the line of a test that failed and cannot be judged, because it lost its processor for more than `limit`.
    /// `None` if the failure counts.
    #[must_use]
    pub fn excuse(self, test: &str, limit: Duration) -> Option<String> {
        let excuse = || format!("SKIPPED: {test}: {self} (limit {} ms), and failed", limit.as_millis());
        (self.longest > limit).then(excuse)
    }
}

impl fmt::Display for LostProcessor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "lost its processor for {} ms", self.longest.as_millis())
    }
}

/// Waiting time of one thread.
#[derive(Debug, Default)]
struct Thread {
    /// Since its beginning, at the last look.
    total: Duration,
    /// What was added within [`WINDOW`], with the times of the looks.
    added: VecDeque<(Instant, Duration)>,
}

#[derive(Debug, Default)]
struct Watch {
    threads: HashMap<u32, Thread>,
    lost: LostProcessor,
}

impl Watch {
    /// Keeps the totals of the threads alone.
    fn forget(&mut self) {
        self.threads.values_mut().for_each(|thread| thread.added.clear());
        self.lost = LostProcessor::default();
    }

    /// Looks at the threads of `processes` and of their descendants.
    fn look(&mut self, processes: &[u32], now: Instant) {
        // SAFETY: cannot fail, takes nothing.
        let own = unsafe { libc::gettid() } as u32;
        let mut processes = processes.to_vec();
        let mut looked = 0;
        while let Some(process) = processes.pop() {
            let Ok(tasks) = fs::read_dir(format!("/proc/{process}/task")) else { continue };
            for task in tasks.flatten() {
                looked += 1;
                if looked > MOST {
                    return;
                }
                let (path, name) = (task.path().display().to_string(), task.file_name());
                let Some(thread) = name.to_str().and_then(|name| name.parse().ok()) else { continue };
                let text = fs::read_to_string(format!("{path}/schedstat")).unwrap_or_default();
                // The watcher does none of the work.
                if let Some(total) = waited(&text).filter(|_| thread != own) {
                    self.add(thread, total, now);
                }
                processes.extend(children(&path));
            }
        }
    }

    /// Records that `thread` has waited for `total` since its beginning.
    fn add(&mut self, thread: u32, total: Duration, now: Instant) {
        let seen = self.threads.entry(thread).or_default();
        // A number may be used again by another thread.
        let more = total.checked_sub(seen.total).unwrap_or(total);
        seen.total = total;
        seen.added.push_back((now, more));
        while seen.added.front().is_some_and(|&(at, _)| now.duration_since(at) >= WINDOW) {
            seen.added.pop_front();
        }
        let lost = seen.added.iter().map(|&(_, more)| more).sum();
        self.lost.longest = self.lost.longest.max(lost);
    }
}

/// Returns the processes that a thread has started, by its directory in /proc.
fn children(thread: &str) -> Vec<u32> {
    let text = fs::read_to_string(format!("{thread}/children")).unwrap_or_default();
    text.split_whitespace().filter_map(|number| number.parse().ok()).collect()
}

/// Reads the waiting time from the text of `schedstat`: nanoseconds of running, of waiting, and the number of turns.
fn waited(text: &str) -> Option<Duration> {
    text.split_whitespace().nth(1)?.parse().ok().map(Duration::from_nanos)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    #[test]
    fn the_loss_is_that_of_one_thread_within_half_a_second() {
        let (mut watch, begin) = (Watch::default(), Instant::now());
        for (thread, at, total) in [(1, 0, 10), (2, 0, 90), (1, 100, 60), (1, 400, 90), (1, 550, 100), (2, 2000, 170)] {
            watch.add(thread, MS(total), begin + MS(at));
        }
        assert_eq!(watch.lost.longest, MS(90));
        assert_eq!(watch.lost.excuse("x", LIMIT_FOR_FRAMES), None);
        // One long wait, which the kernel adds when it has ended; and another thread of the same number.
        watch.add(2, MS(1170), begin + MS(3000));
        watch.add(2, MS(30), begin + MS(9000));
        assert_eq!(watch.lost.longest, MS(1000));
        let line = "SKIPPED: x: lost its processor for 1000 ms (limit 100 ms), and failed";
        assert_eq!(watch.lost.excuse("x", LIMIT_FOR_FRAMES).as_deref(), Some(line));
        assert_eq!(watch.lost.excuse("x", LIMIT_FOR_ANSWERS), None);
        assert_eq!(waited("116263 6784806 2\n"), Some(Duration::from_nanos(6_784_806)));
    }

    #[test]
    fn processes_that_compete_for_a_processor_are_seen_to_wait_for_it() {
        // Five times as many loops as there are processors, for 0.6 s, in descendants of the process.
        let loops = 5 * std::thread::available_parallelism().map_or(1, usize::from);
        let script =
            format!("for n in $(seq {loops}); do timeout 0.6 sh -c 'while :; do :; done' & done; wait; echo done");
        let ((), none) = LostProcessor::during(|| std::thread::sleep(MS(50)));
        assert_eq!(none, LostProcessor::default(), "nothing was started");
        let mut watch = Watch::default();
        watch.add(1, MS(700), Instant::now());
        watch.forget();
        watch.add(1, MS(703), Instant::now());
        assert_eq!(watch.lost.longest, MS(3), "what was lost before does not count");
        let (output, lost) = LostProcessor::during(|| Command::new("sh").args(["-c", &script]).output().unwrap());
        assert_eq!(output.stdout, b"done\n");
        if ["schedstat", "children"].iter().any(|file| fs::metadata(format!("/proc/thread-self/{file}")).is_err()) {
            return println!("SKIPPED: this kernel does not show what threads wait for (SCHED_INFO, PROC_CHILDREN)");
        }
        assert!(lost.longest > MS(200), "{lost:?}");
    }
}
