//! Values on the command line.

use std::num::NonZeroUsize;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use fairlink_config::link::scheduler_named;
use fairlink_config::sweep::Sweep;
use fairlink_config::units::{parse_rate, parse_size, parse_time};
use fairlink_core::{Nanos, Rate, SchedulerInfo};
use fairlink_figures::figure::Width;

/// A time with its unit, such as `10ms`.
pub fn time(text: &str) -> Result<Nanos, String> {
    parse_time(text).map_err(|error| format!("{error}; {}", error.help()))
}

/// A length with its unit, such as `2kB`, up to `max` bytes.
pub fn size(text: &str, max: u64) -> Result<u64, String> {
    parse_size(text, max).map_err(|error| format!("{error}; {}", error.help()))
}

/// A rate with its unit, such as `10mbit`.
pub fn rate(text: &str) -> Result<Rate, String> {
    parse_rate(text, None).map_err(|error| format!("{error}; {}", error.help()))
}

/// A scheduler by one of its names.
pub fn scheduler(name: &str) -> Result<&'static SchedulerInfo, String> {
    scheduler_named(name).map_err(|error| format!("{error}; {}", error.help().unwrap_or_default()))
}

/// Lists the valid choices for an error.
pub fn choice<'a>(known: impl IntoIterator<Item = &'a str>) -> String {
    format!("there are: {}", known.into_iter().collect::<Vec<_>>().join(", "))
}

/// Parses one of these words into its value. Help, shells and errors list them.
///
/// # Panics
/// Never: clap takes no other word.
pub fn one_of<T: Clone + Send + Sync + 'static>(
    words: impl IntoIterator<Item = (&'static str, T)>,
) -> impl TypedValueParser<Value = T> {
    let words: Vec<(&'static str, T)> = words.into_iter().collect();
    PossibleValuesParser::new(words.iter().map(|&(word, _)| word)).map(move |text| {
        let found = words.iter().find(|&&(word, _)| word == text);
        found.map(|(_, value)| value.clone()).expect("one of the words")
    })
}

/// Schedulers and settings that a scenario is simulated with.
#[derive(Debug, clap::Args)]
pub struct SweepArgs {
    /// Simulate this scheduler instead of the link file's own. Several run on the same arrivals, each without the
    /// settings that it does not support.
    #[arg(long = "scheduler", value_name = "NAME")]
    pub schedulers: Vec<String>,
    /// Run with each of these values of a number of the scenario: seed=1,2,3 or link.rate=10mbit..50mbit..10mbit or
    /// class.A1.burst=1kB..16kB..x2. Several --sweep make a grid.
    #[arg(long = "sweep", value_name = "KEY=VALUES", value_parser = |text: &str| Sweep::parse(text).map_err(|error| error.to_string()))]
    pub sweeps: Vec<Sweep>,
}

/// Number of threads.
#[derive(Debug, clap::Args)]
pub struct JobArgs {
    /// Parallel runs [default: the number of processors]. Results do not depend on it.
    #[arg(long, value_name = "N")]
    pub jobs: Option<NonZeroUsize>,
}

impl JobArgs {
    /// Returns the number of threads.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.jobs.or_else(|| std::thread::available_parallelism().ok()).map_or(1, NonZeroUsize::get)
    }
}

/// The width of figures.
#[derive(Clone, Copy, Debug, Default, clap::ValueEnum)]
pub enum FigureWidth {
    /// 960 pixels.
    #[default]
    Screen,
    /// 240 pt, a column of a paper.
    Column,
    /// 504 pt, the text of a page.
    Page,
}

impl From<FigureWidth> for Width {
    fn from(width: FigureWidth) -> Self {
        match width {
            FigureWidth::Screen => Self::Screen,
            FigureWidth::Column => Self::Column,
            FigureWidth::Page => Self::Page,
        }
    }
}
