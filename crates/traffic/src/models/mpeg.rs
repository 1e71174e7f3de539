//! MPEG video (\[drrpp\] section 4.4.3): pictures at equal distances, whose lengths depend on their kind.
//!
//! The starting position of a source in its group is random: sources that start together do not send their I pictures
//! together.

use fairlink_core::{NANOS_PER_SEC, Nanos};

use super::{Arrival, Process};
use crate::error::SourceError;
use crate::fine::Fine;
use crate::length::{Lengths, PacketSize};
use crate::random::Random;

/// Most pictures of a group.
pub const MAX_PICTURES: usize = 1024;

/// Pictures of MPEG video (\[drrpp\] section 4.4.3): evenly spaced, their lengths distributed by their kind.
#[derive(Clone, Debug, PartialEq)]
pub struct Mpeg {
    /// The kinds of a group of pictures in order, such as `IPBBPBBPBB`.
    pub pattern: Vec<Picture>,
    /// Groups in 1000 s.
    pub groups_per_1000_s: u64,
    /// Lengths of pictures of kind I, P and B.
    pub lengths: [PacketSize; 3],
    /// True if a picture is one packet. Otherwise it is cut into packets of the source's longest, which arrive together.
    pub whole_frames: bool,
}

/// The kind of a picture in MPEG video.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Picture {
    /// Intra-coded.
    I,
    /// Predicted from the one before.
    P,
    /// Predicted from both sides.
    B,
}

impl Mpeg {
    /// Accounted bytes per second. If pictures are cut, each counts as whole packets and one shorter.
    pub(crate) fn bytes_per_second(&self, packet: &PacketSize, accounted: impl Fn(u32) -> u32) -> f64 {
        let picture = |len: u32| match packet.range() {
            Some((_, longest)) if !self.whole_frames && longest > 0 => {
                let (whole, rest) = (len / longest, len % longest);
                whole * accounted(longest) + if rest > 0 { accounted(rest) } else { 0 }
            }
            _ => accounted(len),
        };
        let means = self.lengths.each_ref().map(|lengths| lengths.mean_accounted(picture));
        let group: f64 = self.pattern.iter().map(|&kind| means[kind as usize]).sum();
        group * self.groups_per_1000_s as f64 / 1000.0
    }

    /// Returns the shortest and longest packet, in bytes.
    pub(crate) fn range(&self, packet: &PacketSize) -> Option<(u32, u32)> {
        if !self.whole_frames {
            let (_, longest) = packet.range()?;
            return Some((1, longest));
        }
        let used = self.pattern.iter().map(|&kind| self.lengths[kind as usize].range());
        let ranges: Option<Vec<(u32, u32)>> = used.collect();
        let ranges = ranges?;
        Some((ranges.iter().map(|range| range.0).min()?, ranges.iter().map(|range| range.1).max()?))
    }
}

/// Pictures as they come.
#[derive(Clone, Debug)]
pub(crate) struct Pictures {
    pattern: Vec<Picture>,
    lengths: [Lengths; 3],
    /// Longest packet.
    longest: u32,
    /// Time from picture to picture: `NANOS_PER_SEC * 1000 / pictures` ns.
    pictures_per_1000_s: u64,
    at: Nanos,
    fraction: u64,
    place: usize,
    /// Rest of the picture that is sent at `at`.
    left: u32,
}

impl Pictures {
    pub(super) fn new(mpeg: &Mpeg, packet: &PacketSize) -> Result<Self, SourceError> {
        let count = mpeg.pattern.len();
        if count == 0 || count > MAX_PICTURES {
            return Err(SourceError::Pictures { count, limit: MAX_PICTURES });
        }
        if mpeg.groups_per_1000_s == 0 {
            return Err(SourceError::NoPackets);
        }
        let pictures = mpeg.groups_per_1000_s.saturating_mul(count as u64);
        if pictures > NANOS_PER_SEC * 1000 {
            let (value, must) = (pictures as f64 / 1000.0, "10^9 at most");
            return Err(SourceError::Parameter { what: "pictures per second", value, must });
        }
        for lengths in &mpeg.lengths {
            lengths.validate()?;
        }
        let [i, p, b] = &mpeg.lengths;
        let longest = match packet.range() {
            Some((_, longest)) if !mpeg.whole_frames => longest,
            _ => u32::MAX,
        };
        Ok(Self {
            pattern: mpeg.pattern.clone(),
            lengths: [Lengths::new(i)?, Lengths::new(p)?, Lengths::new(b)?],
            longest,
            pictures_per_1000_s: pictures,
            at: Nanos::ZERO,
            fraction: 0,
            place: 0,
            left: 0,
        })
    }

    fn picture(&mut self, random: &mut Random) {
        self.left = self.lengths[self.pattern[self.place] as usize].draw(random);
    }
}

impl Process for Pictures {
    fn start(&mut self, start: Nanos, random: &mut Random) {
        let between = Fine::from_ratio(1000, self.pictures_per_1000_s.into());
        self.at = start.saturating_add(between.part(random.unit()).ceil());
        self.fraction = 0;
        self.place = random.below(self.pattern.len() as u64) as usize;
        self.picture(random);
    }

    fn next(&mut self, random: &mut Random) -> Option<Arrival> {
        let arrival = Arrival { at: self.at, len: self.left.min(self.longest) };
        self.left -= arrival.len;
        if self.left == 0 {
            let sum = 1000 * NANOS_PER_SEC + self.fraction;
            self.at = self.at.saturating_add(Nanos(sum / self.pictures_per_1000_s));
            self.fraction = sum % self.pictures_per_1000_s;
            self.place = (self.place + 1) % self.pattern.len();
            self.picture(random);
        }
        Some(arrival)
    }
}
