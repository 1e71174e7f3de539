//! The kinds of lines, and the overhead of each.

use fairlink_terminal::args::choice;

/// A kind of line.
#[derive(Debug)]
pub(crate) struct Line {
    /// As on the command line.
    pub(crate) name: &'static str,
    /// In a question.
    pub(crate) what: &'static str,
    /// The line of the link file.
    pub(super) overhead: &'static str,
}

/// All kinds.
pub(crate) const LINES: [Line; 6] = [
    Line {
        name: "ethernet",
        what: "a cable or a radio bridge with Ethernet",
        overhead: r#"overhead = "ethernet"       # check sequence, preamble and gap: 24 B for each frame"#,
    },
    Line {
        name: "fibre",
        what: "fibre to the home (GPON and the like)",
        overhead: r#"overhead = "ethernet"       # Ethernet behind the fibre terminal: 24 B for each frame"#,
    },
    Line {
        name: "docsis",
        what: "a cable modem",
        overhead: r#"overhead = "docsis"         # the check sequence, 4 B for each frame, at least 64 B"#,
    },
    Line {
        name: "vdsl",
        what: "VDSL2, if the rate is the modem's sync rate",
        overhead: r#"overhead = "ptm"            # VDSL2: 8 B for each frame, then 65 B for each 64"#,
    },
    Line {
        name: "adsl",
        what: "ADSL (ATM cells)",
        overhead: r#"overhead = "atm"            # ADSL: 18 B for each frame, then 53 B for each 48 begun"#,
    },
    Line {
        name: "lte",
        what: "mobile: LTE, 5G, satellites",
        overhead: r#"overhead = "0B"             # the rate of a mobile link varies: use the lowest measured, or adjust it with `fairlink ctl rate`"#,
    },
];

/// The line of that name.
pub(super) fn line(text: &str) -> Result<&'static Line, String> {
    LINES.iter().find(|line| line.name == text).ok_or_else(|| choice(LINES.iter().map(|line| line.name)))
}
