//! One unit for all rates of a table or of a figure.

/// A unit that suits the rates of one link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateUnit {
    /// Its name, such as `Mbit/s`.
    pub name: &'static str,
    /// Its size in bit/s.
    pub bps: f64,
}

impl RateUnit {
    /// Returns the largest unit of which a link of `link_bps` bit/s has at least ten, or bit/s.
    #[must_use]
    pub fn for_link(link_bps: f64) -> Self {
        let units = [("Gbit/s", 1e9), ("Mbit/s", 1e6), ("kbit/s", 1e3)].map(|(name, bps)| Self { name, bps });
        units.into_iter().find(|unit| link_bps >= 10.0 * unit.bps).unwrap_or(Self { name: "bit/s", bps: 1.0 })
    }

    /// Formats a rate in this unit, with two decimals.
    #[must_use]
    pub fn show(self, bps: f64) -> String {
        format!("{:.2}", bps / self.bps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_suit_the_link() {
        let names = [9e3, 1e4, 1e7, 99e8, 1e10].map(|bps| RateUnit::for_link(bps).name);
        assert_eq!(names, ["bit/s", "kbit/s", "Mbit/s", "Mbit/s", "Gbit/s"]);
    }
}
