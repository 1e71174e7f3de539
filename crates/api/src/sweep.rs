//! All combinations of the values that a sweep gives to numbers of a scenario.

use fairlink_config::sweep::{Sweep, Template};
use fairlink_config::units::{parse_rate, parse_size, parse_time};
use fairlink_sim::Setting;

use crate::refused::Refused;

/// The quantity of a swept key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SweptQuantity {
    /// Bits per second.
    Rate,
    /// Bytes.
    Size,
    /// Packets.
    Packets,
    /// Seconds.
    Time,
    /// A number without unit, or a text.
    Number,
}

impl SweptQuantity {
    /// Returns the end of the name of a column with its values in base units.
    #[must_use]
    pub const fn suffix(self) -> &'static str {
        match self {
            Self::Rate => "_bps",
            Self::Size => "_bytes",
            Self::Packets => "_packets",
            Self::Time => "_s",
            Self::Number => "",
        }
    }
}

/// A key that is swept.
#[derive(Clone, Debug, PartialEq)]
pub struct SweptKey {
    /// Its path.
    pub name: String,
    /// The quantity of all its values; a number if they differ.
    pub quantity: SweptQuantity,
}

/// The settings of a sweep: every combination of values, the last key changing fastest.
///
/// ```
/// use fairlink_api::Grid;
/// use fairlink_config::sweep::{Sweep, Template};
///
/// let text = "duration = \"1s\"\n[link]\nrate = \"1mbit\"\n".to_owned();
/// let template = Template::parse("s.toml", text)?;
/// let sweeps = vec![Sweep::parse("link.rate=1mbit,2mbit")?, Sweep::parse("seed=1..3..1")?];
/// let grid = Grid::new(&template, sweeps, 100)?;
/// assert_eq!(grid.len(), 6);
/// assert_eq!(grid.texts(4), [("link.rate", "2mbit"), ("seed", "2")]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Grid {
    sweeps: Vec<Sweep>,
    keys: Vec<SweptKey>,
    /// Of each key, its values in base units.
    values: Vec<Vec<Setting>>,
    len: usize,
}

impl Grid {
    /// The settings of `sweeps` for the scenario `template`, one without sweeps; at most `most`.
    ///
    /// # Errors
    /// [`Refused::Argument`]: an unknown key, with the nearest name, a value given twice, too many settings.
    pub fn new(template: &Template, sweeps: Vec<Sweep>, most: usize) -> Result<Self, Refused> {
        let refuse = |message: String| Refused::argument("sweep", message);
        template.check(&sweeps).map_err(|error| refuse(error.to_string()))?;
        let len = sweeps.iter().map(|sweep| sweep.values.len()).try_fold(1usize, usize::checked_mul);
        let len = len.filter(|&settings| settings <= most).ok_or_else(|| {
            let counts: Vec<String> = sweeps.iter().map(|sweep| sweep.values.len().to_string()).collect();
            refuse(format!("{} settings; the limit is {most}; use fewer values", counts.join(" times ")))
        })?;
        let mut keys = Vec::with_capacity(sweeps.len());
        let mut all = Vec::with_capacity(sweeps.len());
        for Sweep { key, values } in &sweeps {
            let read: Vec<(Setting, SweptQuantity)> = values.iter().map(|value| setting(value)).collect();
            for (n, (value, _)) in read.iter().enumerate() {
                if read[..n].iter().any(|(other, _)| other == value) {
                    return Err(refuse(format!("{key}: the value {} is given twice", values[n])));
                }
            }
            let first = read[0].1;
            let quantity = if read.iter().all(|&(_, other)| other == first) { first } else { SweptQuantity::Number };
            keys.push(SweptKey { name: key.clone(), quantity });
            all.push(read.into_iter().map(|(value, _)| value).collect());
        }
        Ok(Self { sweeps, keys, values: all, len })
    }

    /// Number of settings.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "there is always one")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// The sweeps that it is made of.
    #[must_use]
    pub fn sweeps(&self) -> &[Sweep] {
        &self.sweeps
    }

    /// The keys.
    #[must_use]
    pub fn keys(&self) -> &[SweptKey] {
        &self.keys
    }

    /// The values of each key in base units.
    #[must_use]
    pub fn values(&self) -> &[Vec<Setting>] {
        &self.values
    }

    /// The places of the values of setting `number`, key by key.
    fn places(&self, number: usize) -> impl Iterator<Item = usize> {
        let mut rest = number;
        let mut places = vec![0; self.sweeps.len()];
        for (place, sweep) in places.iter_mut().zip(&self.sweeps).rev() {
            *place = rest % sweep.values.len();
            rest /= sweep.values.len();
        }
        places.into_iter()
    }

    /// Keys and values of setting `number` as they were written, for [`Template::with`].
    #[must_use]
    pub fn texts(&self, number: usize) -> Vec<(&str, &str)> {
        let each = self.sweeps.iter().zip(self.places(number));
        each.map(|(sweep, n)| (sweep.key.as_str(), sweep.values[n].as_str())).collect()
    }

    /// Keys and values of setting `number` in base units, in the order of the keys.
    pub fn settings(&self, number: usize) -> impl Iterator<Item = (&SweptKey, &Setting)> {
        let each = self.keys.iter().zip(&self.values).zip(self.places(number));
        each.map(|((key, values), n)| (key, &values[n]))
    }

    /// The setting `number` in words, such as `link.rate=2mbit, seed=2`.
    #[must_use]
    pub fn describe(&self, number: usize) -> String {
        self.texts(number).iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(", ")
    }
}

/// Returns a value in JSON's form, and its quantity.
fn setting(text: &str) -> (Setting, SweptQuantity) {
    if let Ok(whole) = text.parse() {
        return (Setting::Whole(whole), SweptQuantity::Number);
    }
    if let Some(number) = text.parse().ok().filter(|number: &f64| number.is_finite()) {
        return (Setting::Number(number), SweptQuantity::Number);
    }
    if let Ok(rate) = parse_rate(text, None) {
        return (Setting::Number(rate.bps() as f64), SweptQuantity::Rate);
    }
    if let Ok(bytes) = parse_size(text, u64::MAX) {
        return (Setting::Number(bytes as f64), SweptQuantity::Size);
    }
    if let Some(packets) = text.strip_suffix('p').and_then(|count| count.trim().parse().ok()) {
        return (Setting::Whole(packets), SweptQuantity::Packets);
    }
    match parse_time(text) {
        Ok(time) => (Setting::Number(time.0 as f64 / 1e9), SweptQuantity::Time),
        Err(_) => (Setting::Text(text.to_owned()), SweptQuantity::Number),
    }
}
