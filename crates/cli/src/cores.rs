//! The cores that share a link, as arguments.

use fairlink_config::scenario::LAG;
use fairlink_config::units::show_time;
use fairlink_core::{Cores, MAX_CORES, Nanos, Split};

use crate::args;

/// Number of cores, and the ways in which they share the link.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct CoreArgs {
    /// Cores that share the link, 1 to 64, instead of those of its file.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=i64::from(MAX_CORES)))]
    cores: Option<u16>,
    /// Way in which they share it, instead of that of its file: one, hub, shared; for comparison equal, cake-mq,
    /// per-core. `sim` compares several.
    #[arg(long = "split", value_name = "WAY", value_parser = split)]
    splits: Vec<Split>,
}

/// Reads a time until a core sees what others have done.
pub(crate) fn lag(text: &str) -> Result<Nanos, String> {
    let ([least, most], lag) = (LAG, args::time(text)?);
    if (least..=most).contains(&lag) {
        return Ok(lag);
    }
    Err(format!("{}; the limits are {} and {}", show_time(lag), show_time(least), show_time(most)))
}

fn split(name: &str) -> Result<Split, String> {
    Split::named(name).ok_or_else(|| format!("unknown; it is one of {}", Split::NAMES.join(", ")))
}

impl CoreArgs {
    /// Returns true if one of them is given.
    pub(crate) fn are_given(&self) -> bool {
        self.cores.is_some() || !self.splits.is_empty()
    }

    /// Returns the cores that share a link whose file says `own`, in one way.
    ///
    /// # Errors
    /// As [`CoreArgs::of`], or several ways.
    pub(crate) fn only(&self, own: Cores) -> Result<Cores, String> {
        match self.of(own)?[..] {
            [cores] => Ok(cores),
            _ => Err("--split is given twice; only `sim` compares several ways".to_owned()),
        }
    }

    /// Returns the cores that share a link whose file says `own`, one for each way.
    ///
    /// # Errors
    /// A way for several cores, and one core.
    pub(crate) fn of(&self, own: Cores) -> Result<Vec<Cores>, String> {
        let count = self.cores.unwrap_or(own.count);
        let mut splits: Vec<Split> = Vec::new();
        for &split in &self.splits {
            if !splits.contains(&split) {
                splits.push(split);
            }
        }
        if let Some(split) = splits.iter().find(|split| count == 1 && **split != Split::One) {
            let name = split.name();
            return Err(format!("--split {name}: this link has 1 core; add --cores N, or cores = N to [link]"));
        }
        if splits.is_empty() {
            splits.push(if count > 1 && own.is_one() { Split::default() } else { own.split });
        }
        Ok(splits.into_iter().map(|split| Cores { count, split }).collect())
    }
}
