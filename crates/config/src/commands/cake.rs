//! Tins of cake, which are classes by code point. When all are busy, the bandwidth is shared by their quanta: best
//! effort 16, bulk 1, video 8, voice 4. Sources: tc-cake(8), sch_cake.c.

/// The words that choose tins; without one, the first counts.
pub(super) const KINDS: [&str; 6] = ["diffserv3", "besteffort", "diffserv4", "diffserv8", "diffserv-llt", "precedence"];

/// A tin: its quantum, and the code points that go to it. The first of a list takes all others.
#[derive(Debug)]
pub(super) struct Tin {
    pub(super) quantum: u64,
    pub(super) points: &'static [u8],
}

const BEST_EFFORT: Tin = Tin { quantum: 16, points: &[] };
/// LE and CS1.
const BULK: Tin = Tin { quantum: 1, points: &[1, 8] };

/// Returns the tins of a word; none if they are not supported, or if there is only one.
pub(super) fn tins(kind: &str) -> &'static [Tin] {
    match kind {
        // TOS4, VA, EF, CS6, CS7.
        "diffserv3" => &[BEST_EFFORT, BULK, Tin { quantum: 4, points: &[4, 44, 46, 48, 56] }],
        "diffserv4" => &[
            BEST_EFFORT,
            BULK,
            // TOS4, CS2, AF2x, CS3, AF3x, AF4x.
            Tin { quantum: 8, points: &[4, 16, 18, 20, 22, 24, 26, 28, 30, 34, 36, 38] },
            // CS4, CS5, VA, EF, CS6, CS7.
            Tin { quantum: 4, points: &[32, 40, 44, 46, 48, 56] },
        ],
        _ => &[],
    }
}
