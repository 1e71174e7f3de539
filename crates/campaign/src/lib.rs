#![doc = include_str!("../README.md")]
//!
//! ```
//! use std::ops::ControlFlow;
//!
//! use fairlink_campaign::{Campaign, Directory, Format, Shard};
//! use fairlink_config::sweep::{Sweep, Template};
//!
//! let text = "duration = \"100ms\"\n[link]\nrate = \"1mbit\"\n[[class]]\nname = \"a\"\n[[source]]\nclass = \"a\"\nmodel = \"greedy\"\npacket = \"500B\"\n";
//! let plan = || {
//!     let template = Template::parse("s.toml", text.to_owned())?;
//!     Campaign::new(template, vec![Sweep::parse("link.rate=1mbit,2mbit").unwrap()], Vec::new(), 3)
//! };
//! let dir = std::env::temp_dir().join(format!("campaign-{}", std::process::id()));
//! let campaign = Directory::begin(&dir, plan()?, Format::Csv)?;
//! assert_eq!(campaign.campaign().jobs(), 6);
//! campaign.work(Shard::ALL, 2, &|_, _| ControlFlow::Continue(()), &|_| ())?;
//! let whole = campaign.whole()?.expect("all parts are there");
//! assert_eq!((whole.rows, whole.failed), (6, 0));
//! std::fs::remove_dir_all(&dir)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod directory;
mod part;
mod plan;
mod rows;

pub use directory::{CampaignError, Directory, Outcome, Shard, Whole};
pub use part::Format;
pub use plan::{Campaign, Doer, MAX_JOBS, MAX_SETTINGS, Stopped};
pub use rows::{Cell, Column, Kind};
