//! Values on the command line.

use fairlink_config::link::scheduler_named;
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
