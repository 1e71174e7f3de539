//! Super-frames of any content with any description: nothing panics, packets are bounded in number and length, their payloads are
//! the super-frame's, each byte once and in order, and a checksum that is left unfinished can be finished.

use fairlink_net::{MOST_SEGMENTS, Segments, Unfinished, VirtioHeader, complete_checksum};

/// Tries one input.
pub(crate) fn run(data: &[u8]) {
    let Some((&[flags, kind, a, b, c, d, e, f, longest], frame)) = data.split_first_chunk::<9>() else { return };
    // What a kernel says, more often than chance would.
    let kind = if kind < 128 { [0, 1, 4, 5][usize::from(kind) % 4] } else { kind };
    let header = VirtioHeader {
        flags,
        kind,
        header_len: 0,
        segment: u16::from_be_bytes([a, b]),
        checksum_start: u16::from_be_bytes([c, d]),
        checksum_offset: u16::from_be_bytes([e, f]),
    };
    let longest = 40 + 16 * usize::from(longest);
    let Ok(segments) = Segments::from_frame(frame, &header, longest) else { return };
    assert!((1..=MOST_SEGMENTS).contains(&segments.count()));
    let mut out = vec![0; longest];
    let mut at = segments.payload(0).start;
    for index in 0..segments.count() {
        let payload = segments.payload(index);
        let len = segments.write(frame, index, &mut out);
        assert_eq!((len, payload.start), (segments.len(index), at));
        assert_eq!(out[len - payload.len()..len], frame[payload.clone()]);
        if let Some(Unfinished { start, offset }) = segments.unfinished() {
            assert!(complete_checksum(&mut out[..len], start, offset));
        }
        at = payload.end;
    }
    assert_eq!(at, frame.len());
}
