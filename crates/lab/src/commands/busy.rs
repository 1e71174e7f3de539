//! Finds out whether others use the processors while something is measured: then times are too long, and no run is like
//! another.

use std::time::Instant;

/// The kernel counts processor time in these parts of a second, on every architecture.
const TICKS_PER_SECOND: f64 = 100.0;
/// More than this many processors in use by others are worth a warning.
const NOTABLE: f64 = 0.2;

/// Processor time up to a moment.
pub(crate) struct Load {
    at: Instant,
    ticks: Option<Ticks>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ticks {
    /// Time of all processes, including the kernel and the hypervisor's steal time.
    all: u64,
    /// Of this process, and of those that it started and that have ended.
    own: u64,
}

impl Load {
    /// Up to now.
    pub(crate) fn now() -> Self {
        let read = |path| std::fs::read_to_string(path).unwrap_or_default();
        Self { at: Instant::now(), ticks: Ticks::read(&read("/proc/stat"), &read("/proc/self/stat")) }
    }

    /// The mean number of processors that other programs used since then; `None` if that is not known.
    pub(crate) fn others(&self) -> Option<f64> {
        let (seconds, now) = (self.at.elapsed().as_secs_f64(), Self::now());
        others(self.ticks?, now.ticks?, seconds)
    }

    /// A warning where others used the processors since then.
    pub(crate) fn warning(&self) -> Option<String> {
        warning(self.others()?)
    }
}

impl Ticks {
    /// From the texts of `/proc/stat` and `/proc/self/stat`.
    fn read(machine: &str, own: &str) -> Option<Self> {
        let line = machine.lines().next()?.strip_prefix("cpu ")?;
        let parts: Vec<u64> = line.split_whitespace().map_while(|part| part.parse().ok()).collect();
        // user, nice, system, idle, iowait, irq, softirq, steal
        let all = [0, 1, 2, 5, 6, 7].into_iter().filter_map(|part| parts.get(part)).sum();
        // The name, in brackets, may have blanks in it; 11 fields behind it are utime, stime, cutime and cstime.
        let fields = own.rsplit_once(')')?.1.split_whitespace().skip(11).take(4);
        let fields: Vec<u64> = fields.map(|field| field.parse().ok()).collect::<Option<_>>()?;
        (fields.len() == 4).then(|| Self { all, own: fields.iter().sum() })
    }
}

/// Returns the mean number of processors used by other programs; `None` if the time is too short.
fn others(before: Ticks, after: Ticks, seconds: f64) -> Option<f64> {
    let ticks = after.all.checked_sub(before.all)?.saturating_sub(after.own.checked_sub(before.own)?);
    (seconds >= 0.2).then(|| ticks as f64 / TICKS_PER_SECOND / seconds)
}

fn warning(processors: f64) -> Option<String> {
    (processors > NOTABLE).then(|| {
        format!(
            "WARNING: this machine is busy: other programs used {processors:.1} processors while this measured; times are too long, and \
             another run gives others"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_use_is_what_the_machine_does_less_our_own() {
        let own = |user: u64| format!("7 (a ) b) S 1 1 1 0 -1 0 1 0 2 0 {user} 10 3 1 20");
        let before = Ticks::read("cpu  100 0 50 900 5 1 2 3 0 0\ncpu0 1\n", &own(40)).expect("both are there");
        assert_eq!(before, Ticks { all: 156, own: 54 });
        let after = Ticks::read("cpu  400 0 50 900 5 1 2 3 0 0\n", &own(140)).expect("both are there");
        // 300 ticks of all in 2 s, 100 of them our own.
        assert_eq!(others(before, after, 2.0), Some(1.0));
        assert_eq!(others(before, after, 0.01), None);
        assert!(warning(1.0).is_some_and(|text| text.contains("used 1.0 processors")));
        assert_eq!(warning(0.1), None);
        assert_eq!(Ticks::read("", ""), None);
    }
}
