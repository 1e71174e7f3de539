//! Super-frames on the link (`gso`).

use fairlink_core::{Nanos, Rate};

use crate::problem::Log;
use crate::reader::{Value, unknown_word};
use crate::units::{parse_time, show_time};

/// Longest piece of a super-frame, in accounted bytes: 64 KiB of payload in packets of 1500 B, with headers and overhead.
const LONGEST_PIECE: u32 = 72 << 10;
/// Longest time of a piece.
const MOST: Nanos = Nanos::from_secs(1);

/// Treatment of super-frames in the gateway: frames that an offload has joined from several packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Gso {
    /// Their packets are scheduled one by one.
    #[default]
    Split,
    /// As many consecutive packets as last this long on the link are scheduled as one.
    Whole(Nanos),
}

impl Gso {
    /// The time of `gso = "auto"`.
    pub const AUTO: Nanos = Nanos::from_micros(250);

    /// Returns the length of the longest piece of a super-frame that is scheduled as one, in accounted bytes, on a link of
    /// `rate` with frames of up to `longest_frame`; 0 if there is no room for two of them.
    ///
    /// ```
    /// use fairlink_config::link::Gso;
    /// use fairlink_core::Rate;
    ///
    /// let auto = Gso::Whole(Gso::AUTO);
    /// assert_eq!(auto.longest_piece(Rate::from_bps(1_000_000_000)?, 1514), 31_250);
    /// assert_eq!(auto.longest_piece(Rate::from_bps(90_000_000)?, 1514), 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn longest_piece(self, rate: Rate, longest_frame: u32) -> u32 {
        let Self::Whole(time) = self else { return 0 };
        let bytes = rate.bytes_in(time).min(LONGEST_PIECE.into()) as u32;
        if bytes / 2 < longest_frame { 0 } else { bytes }
    }
}

/// Reads the value of `gso`.
pub(super) fn gso(value: Value<'_, '_>, log: &mut Log) -> Option<Gso> {
    let text = value.quantity("a time such as \"0.5ms\", or auto, split", log)?;
    match text {
        "auto" => return Some(Gso::Whole(Gso::AUTO)),
        "split" => return Some(Gso::Split),
        word if word.starts_with(|first: char| first.is_ascii_alphabetic()) => {
            log.error(value.span(), unknown_word("gso", word, ["auto", "split"].into_iter()));
            return None;
        }
        _ => {}
    }
    let time = value.unit(parse_time(text), log)?;
    if time == Nanos::ZERO || time > MOST {
        value.out_of_range(show_time(time), show_time(Nanos(1)), show_time(MOST), log);
        return None;
    }
    Some(Gso::Whole(time))
}
