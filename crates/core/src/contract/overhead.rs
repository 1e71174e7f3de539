//! Link-layer overhead: the length that a scheduler accounts for a frame on the wire.
//!
//! A frame here is the unit that an Ethernet interface passes on: from the destination address to the end of the
//! payload, without preamble, frame check sequence and gap.

/// The way a link layer splits frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Framing {
    /// Frames are not split.
    #[default]
    Plain,
    /// 65 bytes on the wire for each 64 begun (IEEE 802.3 clause 61, 64/65-octet encapsulation of VDSL2).
    Ptm,
    /// Cells of 53 bytes that carry 48 each; the last is padded (ITU-T I.361, I.363.5).
    Atm,
}

/// Bytes that a link layer adds to each frame. The default is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Overhead {
    /// Added to the length of every frame.
    pub bytes: u16,
    /// The least a frame counts after that.
    pub min: u16,
    /// Splitting of the padded frame.
    pub framing: Framing,
}

impl Overhead {
    /// No overhead.
    pub const NONE: Self = Self::fixed(0);
    /// Ethernet: 4 B frame check sequence, 8 B preamble, 12 B gap; frames are padded to 64 B (IEEE 802.3).
    pub const ETHERNET: Self = Self { bytes: 24, min: 84, framing: Framing::Plain };
    /// DOCSIS accounts rates on Ethernet frames with their frame check sequence, padded to 64 B (DOCSIS 3.1 MULPI C.2.2.9).
    pub const DOCSIS: Self = Self { bytes: 4, min: 64, framing: Framing::Plain };
    /// VDSL2 in packet transfer mode: 4 B frame check sequence and 4 B of PTM around each frame, 65 bytes for each 64.
    pub const PTM: Self = Self { bytes: 8, min: 68, framing: Framing::Ptm };
    /// ADSL with bridged Ethernet: 10 B LLC/SNAP without frame check sequence (RFC 2684) and 8 B AAL5 trailer, in cells.
    pub const ATM: Self = Self { bytes: 18, min: 0, framing: Framing::Atm };

    /// Makes an overhead of `bytes` for every frame.
    #[must_use]
    pub const fn fixed(bytes: u16) -> Self {
        Self { bytes, min: 0, framing: Framing::Plain }
    }

    /// Bytes that a frame of `len` bytes takes on the wire; saturates at `u32::MAX`.
    #[must_use]
    pub const fn accounted(self, len: u32) -> u32 {
        let mut wire = len as u64 + self.bytes as u64;
        if wire < self.min as u64 {
            wire = self.min as u64;
        }
        wire = match self.framing {
            Framing::Plain => wire,
            Framing::Ptm => wire + wire.div_ceil(64),
            Framing::Atm => wire.div_ceil(48) * 53,
        };
        if wire > u32::MAX as u64 { u32::MAX } else { wire as u32 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_take_what_their_link_layer_says() {
        assert_eq!(Overhead::default().accounted(1500), 1500);
        assert_eq!(Overhead::fixed(38).accounted(1500), 1538);
        // 1,488,095 of the smallest frames fill 1 Gbit/s of Ethernet: 84 B each. A frame of 1514 B takes 1538.
        assert_eq!((Overhead::ETHERNET.accounted(60), Overhead::ETHERNET.accounted(1514)), (84, 1538));
        assert_eq!((Overhead::DOCSIS.accounted(42), Overhead::DOCSIS.accounted(1514)), (64, 1518));
        assert_eq!(
            (Overhead::PTM.accounted(56), Overhead::PTM.accounted(120), Overhead::PTM.accounted(121)),
            (70, 130, 132)
        );
        // 42 B and 18 B are 60 B: two cells, the second mostly padding.
        assert_eq!(
            (Overhead::ATM.accounted(42), Overhead::ATM.accounted(30), Overhead::ATM.accounted(31)),
            (106, 53, 106)
        );
        assert_eq!(Overhead::ATM.accounted(u32::MAX), u32::MAX);
    }
}
