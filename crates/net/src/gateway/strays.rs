//! Detects frames that go to the default class while classes with matches get none. This indicates matches that do not
//! fit the traffic, such as addresses before translation, or the wrong direction. `check` cannot detect it, because it
//! has no traffic.
//!
//! Every [`SPAN`] a thread of the process compares two snapshots. It logs once when a condition of two parts begins.
//! More than half of the bytes went to the default class, in [`LEAST_PACKETS`] packets or more. A class with matches
//! has received nothing since the gateway started or was changed.

use fairlink_core::{Amount, ClassId, Nanos};

use crate::gateway::account::{Generation, Snapshot};
use crate::gateway::log::LogEvent;
use crate::gateway::remote::{Remote, Ticket};

/// The shortest time that is judged.
const SPAN: Nanos = Nanos::from_millis(10_000);
/// Minimum number of packets for a judgement.
const LEAST_PACKETS: u64 = 100;
/// Most classes that a message names.
const MOST_NAMED: usize = 5;

/// Observations of one gateway.
#[derive(Debug, Default)]
pub(super) struct Strays {
    asked: Option<Ticket>,
    before: Option<Seen>,
    /// True if the condition was logged and still holds.
    said: bool,
}

/// Counters at one time.
#[derive(Debug)]
struct Seen {
    generation: u64,
    at: Nanos,
    all: Amount,
    default: Amount,
    /// By position in [`Generation::matched`], packets that were received before the gateway started or was changed.
    base: Vec<u64>,
}

impl Strays {
    /// Requests a snapshot from `remote` when due, and judges it. Call it about once a second.
    pub(super) fn look(&mut self, remote: &Remote) -> Option<LogEvent> {
        match self.asked.take() {
            Some(ticket) => match remote.answer(ticket) {
                Some(Ok(snapshot)) => self.judge(&snapshot),
                Some(Err(_)) => None,
                None => {
                    self.asked = Some(ticket);
                    None
                }
            },
            None => {
                self.asked = Some(remote.ask());
                None
            }
        }
    }

    /// Judges the arrivals since the last snapshot that was [`SPAN`] older.
    fn judge(&mut self, snapshot: &Snapshot) -> Option<LogEvent> {
        let generation = &*snapshot.generation;
        let at = snapshot.gateway.uptime;
        let of = |class: ClassId| received(snapshot, class);
        let all: Amount = generation.tree.leaves().iter().map(|&leaf| of(leaf)).sum();
        let default = of(generation.default_class);
        let packets = || generation.matched.iter().map(|&class| of(class).packets).collect();
        let base = match self.before.take() {
            None if generation.number == 0 => vec![0; generation.matched.len()],
            Some(before) if before.generation == generation.number => {
                if at.saturating_sub(before.at) < SPAN {
                    self.before = Some(before);
                    return None;
                }
                let event = self.compare(generation, (at, all, default), &before, of);
                self.before = Some(Seen { at, all, default, ..before });
                return event;
            }
            // Arrivals before a change, or before the first snapshot, do not count.
            _ => packets(),
        };
        self.said = false;
        self.before = Some(Seen { generation: generation.number, at, all, default, base });
        None
    }

    fn compare(
        &mut self,
        generation: &Generation,
        (at, all, default): (Nanos, Amount, Amount),
        before: &Seen,
        of: impl Fn(ClassId) -> Amount,
    ) -> Option<LogEvent> {
        let all = all.checked_sub(before.all)?;
        let default = default.checked_sub(before.default)?;
        if all.packets < LEAST_PACKETS {
            return None;
        }
        let silent = generation.matched.iter().zip(&before.base).filter(|&(&class, &base)| of(class).packets == base);
        let silent: Vec<&str> = silent.map(|(class, _)| generation.names[class.index()].as_str()).collect();
        let stray = !silent.is_empty() && u128::from(default.bytes) * 2 > u128::from(all.bytes);
        if !stray || std::mem::replace(&mut self.said, stray) {
            self.said = stray;
            return None;
        }
        let seconds = at.saturating_sub(before.at).0.div_ceil(1_000_000_000);
        let percent = u128::from(default.bytes) * 100 / u128::from(all.bytes.max(1));
        let name = &generation.names[generation.default_class.index()];
        let since = if generation.number == 0 { "the start" } else { "the last change" };
        let text = format!(
            "{percent} % of the bytes of the last {seconds} s went to the default class {name:?}, and {} received no frame since {since}: check that the matches fit the traffic",
            named(&silent)
        );
        Some(LogEvent::warn(text).of_class(name.as_str()))
    }
}

/// Returns the received frames of a leaf.
fn received(snapshot: &Snapshot, class: ClassId) -> Amount {
    let counts = &snapshot.classes[class.index()];
    counts.inside.received + counts.edges.dropped_before + counts.edges.passed
}

/// Classes in a sentence.
fn named(classes: &[&str]) -> String {
    let (shown, more) = classes.split_at(classes.len().min(MOST_NAMED));
    let names: Vec<String> = shown.iter().map(|name| format!("{name:?}")).collect();
    let verb = if classes.len() == 1 { "has" } else { "have" };
    match more.len() {
        0 => format!("{} {verb}", names.join(", ")),
        more => format!("{} and {more} more {verb}", names.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::gateway::account::played::{Played, two_levels};

    const SECOND: u64 = 1_000_000_000;

    /// A gateway of three leaves, the first of which is the default class.
    fn gateway(number: u64) -> Played {
        let mut played = Played::new(two_levels(1, 3), "hls");
        let leaves = played.generation.tree.leaves().to_vec();
        let generation = Generation::of_tree(two_levels(1, 3), "hls");
        let (default_class, matched) = (leaves[0], leaves[1..].to_vec());
        played.generation = Arc::new(Generation { number, default_class, matched, ..generation });
        played
    }

    /// From second `from` on, ten times a second, frames for each leaf; then a check at `to`.
    fn play(played: &mut Played, strays: &mut Strays, [from, to]: [u64; 2], frames: [usize; 3]) -> Option<LogEvent> {
        for tenth in from * 10..to * 10 {
            for (leaf, &frames) in frames.iter().enumerate() {
                (0..frames).for_each(|_| played.arrive(leaf, 1000));
            }
            // Frames leave at ten in a millisecond.
            (0..10).for_each(|part| played.turn(tenth * SECOND / 10 + part * 1_000_000));
        }
        played.turn(to * SECOND);
        strays.judge(&played.observe().snapshot)
    }

    #[test]
    fn frames_that_go_to_the_default_class_while_another_waits_are_logged_once_for_each_time_that_it_begins() {
        let (mut played, mut strays) = (gateway(0), Strays::default());
        assert_eq!(play(&mut played, &mut strays, [0, 1], [0, 0, 0]), None, "there is nothing to compare with");
        assert_eq!(play(&mut played, &mut strays, [1, 8], [3, 2, 0]), None, "too short a time");
        let event = play(&mut played, &mut strays, [8, 11], [3, 2, 0]).expect("a message");
        let says = "60 % of the bytes of the last 10 s went to the default class \"2\", and \"4\" has received no frame since the start";
        assert!(event.message.starts_with(says) && event.class.as_deref() == Some("2"), "{event:?}");
        assert_eq!(play(&mut played, &mut strays, [11, 21], [3, 2, 0]), None, "it was said");
        assert_eq!(play(&mut played, &mut strays, [21, 31], [2, 2, 0]), None, "half is not more than half");
        assert!(play(&mut played, &mut strays, [31, 41], [3, 2, 0]).is_some(), "it has begun again");
        assert_eq!(play(&mut played, &mut strays, [41, 51], [2, 3, 0]), None);
        assert_eq!(play(&mut played, &mut strays, [51, 61], [3, 1, 1]), None, "each has received something");
        assert_eq!(play(&mut played, &mut strays, [61, 71], [9, 0, 0]), None, "since the start");
    }

    #[test]
    fn a_change_begins_anew_and_few_packets_say_nothing() {
        let (mut played, mut strays) = (gateway(0), Strays::default());
        assert_eq!(play(&mut played, &mut strays, [0, 1], [1, 1, 1]), None);
        assert_eq!(play(&mut played, &mut strays, [1, 11], [1, 0, 0]), None, "both have received something");
        let (tree, matched) = (two_levels(1, 3), played.generation.matched.clone());
        let default_class = played.generation.default_class;
        let generation = Generation { number: 1, matched, default_class, ..Generation::of_tree(tree, "hls") };
        played.generation = Arc::new(generation);
        assert_eq!(play(&mut played, &mut strays, [11, 12], [1, 0, 0]), None, "the first look after a change");
        let event = play(&mut played, &mut strays, [12, 22], [1, 0, 0]).expect("a message");
        assert!(event.message.contains("\"3\", \"4\" have received no frame since the last change"), "{event:?}");
        let (mut played, mut strays) = (gateway(0), Strays::default());
        assert_eq!(play(&mut played, &mut strays, [0, 1], [0, 0, 0]), None);
        assert_eq!(play(&mut played, &mut strays, [1, 10], [1, 0, 0]), None, "nine seconds");
        let (mut played, mut strays) = (gateway(0), Strays::default());
        assert_eq!(play(&mut played, &mut strays, [0, 9], [1, 0, 0]), None, "the first look");
        assert_eq!(play(&mut played, &mut strays, [9, 18], [1, 0, 0]), None);
        assert_eq!(play(&mut played, &mut strays, [18, 19], [0, 0, 0]), None, "90 packets in 10 s");
    }
}
