//! Axes: their ranges, ticks, and labels.

/// The scale of an axis.
#[derive(Clone, Debug, PartialEq)]
enum Scale {
    Linear,
    Log,
    /// Names, the first in the middle of 0 .. 1, the second in the middle of 1 .. 2 and so on.
    Names(Vec<String>),
}

/// The unit of tick labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    /// Numbers alone; the label has the unit.
    Plain,
    /// Seconds, each with a unit that suits it.
    Time,
}

/// An axis of a [`Panel`](super::figure::Panel).
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// Its quantity, with the unit.
    pub label: String,
    scale: Scale,
    unit: Unit,
    min: f64,
    max: f64,
}

impl Axis {
    /// Makes a linear axis from `min` to `max`.
    #[must_use]
    pub fn linear(label: impl Into<String>, min: f64, max: f64) -> Self {
        let min = if min.is_finite() { min } else { 0.0 };
        let max = if max.is_finite() && max > min { max } else { min + 1.0 };
        Self { label: label.into(), scale: Scale::Linear, unit: Unit::Plain, min, max }
    }

    /// By powers of ten, from the 1, 2 or 5 of a power at or below `min` to that at or above `max`. Values that are not
    /// positive are not drawn.
    #[must_use]
    pub fn log(label: impl Into<String>, min: f64, max: f64) -> Self {
        let max = if max.is_finite() && max > 0.0 { max } else { 1.0 };
        let min = if min.is_finite() && min > 0.0 { min.min(max) } else { max / 10.0 };
        let above = |value: f64| {
            let power = 10f64.powf(value.log10().floor());
            [1.0, 2.0, 5.0, 10.0].into_iter().map(|n| n * power).find(|&nice| nice >= value * (1.0 - 1e-9))
        };
        let max = above(max).unwrap_or(max);
        // Rounding down is the inverse of rounding up: below(x) = 1 / above(1 / x).
        let min = above(1.0 / min).map_or(min, |over| 1.0 / over).min(max / 10.0);
        Self { label: label.into(), scale: Scale::Log, unit: Unit::Plain, min, max }
    }

    /// Makes an axis with a place for each of these names.
    #[must_use]
    pub fn names(label: impl Into<String>, names: Vec<String>) -> Self {
        let max = names.len().max(1) as f64;
        Self { label: label.into(), scale: Scale::Names(names), unit: Unit::Plain, min: 0.0, max }
    }

    /// Changes the axis to seconds, whose ticks have units of their own.
    #[must_use]
    pub fn of_time(self) -> Self {
        Self { unit: Unit::Time, ..self }
    }

    /// Position of a value, from 0 at the start to 1 at the end; `None` if it cannot be on this axis.
    pub(super) fn place(&self, value: f64) -> Option<f64> {
        let at = match self.scale {
            Scale::Log if value <= 0.0 => return None,
            Scale::Log => (value / self.min).log10() / (self.max / self.min).log10(),
            Scale::Linear | Scale::Names(_) => (value - self.min) / (self.max - self.min),
        };
        at.is_finite().then_some(at)
    }

    /// Positions and labels of the ticks, in order.
    pub(super) fn ticks(&self, most: usize) -> Vec<(f64, String)> {
        match &self.scale {
            Scale::Names(names) => names.iter().enumerate().map(|(n, name)| (n as f64 + 0.5, name.clone())).collect(),
            Scale::Log => {
                let (low, high) = self.powers();
                let each = ((high - low).max(0) as usize).div_ceil(most.max(1)).max(1);
                // With few powers of ten, 2 and 5 have ticks as well.
                let of: &[f64] = if high - low < 2 { &[1.0, 2.0, 5.0] } else { &[1.0] };
                let values = (low - 1..=high).filter(|power| (power - low) % each as i32 == 0 || of.len() > 1);
                let values = values.flat_map(|power| of.iter().map(move |n| n * 10f64.powi(power)));
                values.filter(|&value| self.holds(value)).map(|value| (value, self.show(value, 0))).collect()
            }
            Scale::Linear => {
                let step = nice_step((self.max - self.min) / most.max(1) as f64);
                let decimals = (-step.log10().floor()).max(0.0) as usize;
                let first = (self.min / step - 1e-9).ceil() as i64;
                let last = (self.max / step + 1e-9).floor() as i64;
                (first..=last).map(|n| (n as f64 * step, self.show(n as f64 * step, decimals))).collect()
            }
        }
    }

    /// Ticks without text between the others.
    pub(super) fn small_ticks(&self) -> Vec<f64> {
        if self.scale != Scale::Log || self.max / self.min > 1e7 {
            return Vec::new();
        }
        let (low, high) = self.powers();
        let values = (low - 1..=high).flat_map(|power| (2..10).map(move |n| f64::from(n) * 10f64.powi(power)));
        values.filter(|&value| self.holds(value)).collect()
    }

    /// Returns the first and the last power of ten on a logarithmic axis.
    fn powers(&self) -> (i32, i32) {
        ((self.min.log10() - 1e-9).ceil() as i32, (self.max.log10() + 1e-9).floor() as i32)
    }

    fn holds(&self, value: f64) -> bool {
        (self.min * (1.0 - 1e-9)..=self.max * (1.0 + 1e-9)).contains(&value)
    }

    /// Returns true if it has names instead of numbers.
    pub(super) fn has_names(&self) -> bool {
        matches!(self.scale, Scale::Names(_))
    }

    fn show(&self, value: f64, decimals: usize) -> String {
        match self.unit {
            Unit::Time => time(value),
            Unit::Plain if value != 0.0 && !(1e-3..1e7).contains(&value.abs()) => format!("{value:e}"),
            Unit::Plain if self.scale == Scale::Log => {
                format!("{value:.*}", (-(value.log10() + 1e-9).floor()).max(0.0) as usize)
            }
            Unit::Plain => format!("{value:.decimals$}"),
        }
    }
}

/// Formats a time with a suitable unit.
fn time(seconds: f64) -> String {
    let units = [(1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns")];
    let fits = |&&(size, _): &&(f64, &str)| seconds.abs() >= 0.999 * size;
    match units.iter().find(fits) {
        _ if seconds == 0.0 => "0".to_owned(),
        Some(&(size, unit)) => {
            let text = format!("{:.3}", seconds / size);
            format!("{} {unit}", text.trim_end_matches('0').trim_end_matches('.'))
        }
        None => format!("{seconds:e} s"),
    }
}

/// Returns the smallest of 1, 2 and 5 times a power of ten that is at least `step`.
fn nice_step(step: f64) -> f64 {
    let power = 10f64.powf(step.log10().floor());
    let of = [1.0, 2.0, 5.0, 10.0].map(|n| n * power);
    of.into_iter().find(|nice| *nice >= step * (1.0 - 1e-9)).unwrap_or(10.0 * power)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(axis: &Axis, most: usize) -> Vec<String> {
        axis.ticks(most).into_iter().map(|(_, text)| text).collect()
    }

    #[test]
    fn ticks_are_round_numbers_within_the_axis() {
        assert_eq!(shown(&Axis::linear("", 0.0, 30.0), 8), ["0", "5", "10", "15", "20", "25", "30"]);
        assert_eq!(shown(&Axis::linear("", 0.0, 1.05), 6), ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
        assert_eq!(shown(&Axis::linear("", 0.0, 0.0), 2), ["0.0", "0.5", "1.0"]);
        assert_eq!(shown(&Axis::log("", 1e-4, 0.9), 10), ["1e-4", "0.001", "0.01", "0.1", "1"]);
        assert_eq!(shown(&Axis::log("", 2e-5, 0.02).of_time(), 10), ["100 us", "1 ms", "10 ms"]);
        assert_eq!(shown(&Axis::log("", 0.3, 4.0), 10), ["0.2", "0.5", "1", "2", "5"]);
        assert_eq!(shown(&Axis::names("", vec!["a".into(), "b".into()]), 1), ["a", "b"]);
        assert!(Axis::log("", 1.0, 1e30).ticks(8).len() <= 9);
    }

    #[test]
    fn values_have_their_place_and_those_that_cannot_be_shown_have_none() {
        let log = Axis::log("", 1.0, 100.0);
        assert_eq!([0.0, 1.0, 10.0, 100.0].map(|value| log.place(value)), [None, Some(0.0), Some(0.5), Some(1.0)]);
        assert_eq!(Axis::linear("", 0.0, 4.0).place(1.0), Some(0.25));
        assert_eq!(Axis::linear("", 0.0, 4.0).place(f64::NAN), None);
    }
}
