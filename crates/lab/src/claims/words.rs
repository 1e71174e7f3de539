//! The numbers that words of the texts are taken for, so that a word means the same in each claim.
//! `docs/reproducing.md` has the table.

/// "About", "approximately", "almost", "similar", "the same", "changes little": within this part.
pub const ABOUT: f64 = 0.15;
/// "Not much", "a bit", "a little", "slightly": at most this many times.
pub const A_LITTLE: f64 = 1.25;
/// "Significantly", "clearly", "especially": at least this many times.
pub const SIGNIFICANTLY: f64 = 1.25;
/// "Much", "far", "large", "reasonably small": at least this many times.
pub const MUCH: f64 = 2.0;
/// "Dramatically", "drastically", "precipitous", "steeply", "sharply": at least this many times.
pub const DRAMATICALLY: f64 = 4.0;
/// "Very low", "very large", "almost no", "impressive", an "order of magnitude": at least this many times.
pub const VERY: f64 = 10.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_the_documentation_has_these_numbers() {
        let page = include_str!("../../../../docs/reproducing.md");
        for (word, meaning) in [
            ("| about", format!("within {} %", ABOUT * 100.0)),
            ("| not much", format!("at most {A_LITTLE} times")),
            ("| significantly", format!("at least {SIGNIFICANTLY} times")),
            ("| much", format!("at least {MUCH} times")),
            ("| dramatically", format!("at least {DRAMATICALLY} times")),
            ("| very low", format!("at least {VERY} times")),
        ] {
            let row = page.lines().find(|line| line.starts_with(word));
            assert!(row.is_some_and(|row| row.contains(&meaning)), "{word}: {meaning}, not {row:?}");
        }
    }
}
