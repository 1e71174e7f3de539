//! Figures of a receiver: rate and delay against time, with each `R` of a script marked below.

use std::collections::BTreeMap;
use std::path::Path;

use fairlink_core::ClassId;
use fairlink_figures::figure::Event;
use fairlink_figures::files::{FileError, Marks, write_received};
use fairlink_figures::received::{Received, ReceivedClass, ReceivedWindow};
use fairlink_report::Rates;
use fairlink_testbed::Window;
use fairlink_traffic::Script;

use fairlink_terminal::out::note;

/// Most windows times classes that are kept; 40 bytes each.
const MAX_CELLS: usize = 1 << 20;

/// The windows of a receiver.
#[derive(Default)]
pub(in crate::commands) struct Record {
    /// By class its column.
    columns: BTreeMap<ClassId, usize>,
    received: Received,
    first_s: Option<f64>,
    /// Windows for which there was no room.
    left_out: u64,
}

impl Record {
    /// Records a window. `name` returns the name of a class.
    pub(in crate::commands) fn keep(&mut self, window: &Window, name: impl Fn(ClassId) -> String) {
        self.first_s = self.first_s.or(window.first_s);
        // Windows before the first frame are empty.
        if self.first_s.is_none() {
            return;
        }
        for &class in window.classes.keys() {
            if !self.columns.contains_key(&class) {
                self.columns.insert(class, self.received.names.len());
                self.received.names.push(name(class));
            }
        }
        let cells = (self.received.windows.len() + 1) * self.received.names.len();
        if cells > MAX_CELLS {
            self.left_out += 1;
            return;
        }
        let mut classes = vec![ReceivedClass::default(); self.received.names.len()];
        for (class, seen) in &window.classes {
            classes[self.columns[class]] = ReceivedClass {
                rate_bps: Rates::bps(seen.amount, window.end_s - window.start_s),
                delay_mean_s: seen.mean_s(),
                delay_max_s: seen.longest_s,
            };
        }
        self.received.windows.push(ReceivedWindow { start_s: window.start_s, end_s: window.end_s, classes });
    }

    /// Writes the files into `dir`. The first frame was sent at the first `R` of `script` that sends.
    pub(in crate::commands) fn write(mut self, script: Option<&Script>, dir: &Path) -> Result<(), FileError> {
        let columns = self.received.names.len();
        for window in &mut self.received.windows {
            window.classes.resize(columns, ReceivedClass::default());
        }
        let marks = script.map(|script| marks(script, self.first_s.unwrap_or(0.0))).unwrap_or_default();
        let written = write_received(&self.received, &marks, dir)?;
        if self.left_out > 0 {
            note(format!("{} windows at the end are left out; take a longer --window", self.left_out));
        }
        written.iter().for_each(|path| note(format!("written: {}", path.display())));
        Ok(())
    }
}

/// The `R` commands, where the first that sends was at `first_s`.
fn marks(script: &Script, first_s: f64) -> Marks {
    let began = script.rates.iter().find(|event| event.bytes_per_second > 0).map_or(0, |event| event.at.0);
    let event = |event: &fairlink_traffic::script::RateEvent| {
        let after = (event.at.0 as f64 - began as f64) / 1e9;
        Event { x: first_s + after, text: event.to_string() }
    };
    let note = "Below the axis: each R of the script, as if its first was the first frame; FLOW: rate.".to_owned();
    Marks { events: script.rates.iter().map(event).filter(|event| event.x >= 0.0).collect(), note, ..Marks::default() }
}
