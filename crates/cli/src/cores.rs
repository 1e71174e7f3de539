//! The cores that share a link, as arguments.

use fairlink_config::scenario::LAG;
use fairlink_config::units::show_time;
use fairlink_core::{Cores, MAX_CORES, Nanos, Split};

use fairlink_terminal::args;

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
    /// Cores that schedule with --split hub, 1 to N - 1 of N, instead of those of its file. Several share the virtual
    /// time of the link; for `sim` and `check`.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=i64::from(MAX_CORES)))]
    hubs: Option<u16>,
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
    #[cfg(target_os = "linux")]
    pub(crate) fn are_given(&self) -> bool {
        self.cores.is_some() || !self.splits.is_empty() || self.hubs.is_some()
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
    /// A way for several cores, and one core; more hubs than there may be.
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
        let hubs = self.hubs.unwrap_or(own.hubs);
        if let Some(hubs) = self.hubs.filter(|&hubs| hubs > 1) {
            if !splits.contains(&Split::Hub) {
                return Err(format!("--hubs {hubs}: this link has no hub; add --cores N --split hub"));
            }
            if hubs >= count {
                let most = count - 1;
                return Err(format!("--hubs {hubs}: with {count} cores there are at most {most}; add --cores N"));
            }
        }
        let of = |split| match split {
            Split::Hub => Cores { count, split, hubs: hubs.min(count - 1).max(1) },
            _ => Cores::new(count, split),
        };
        Ok(splits.into_iter().map(of).collect())
    }
}
