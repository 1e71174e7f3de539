//! Numbers of one function against those of another, on random link files for every scheduler. `FAIRLINK_TREES` is the
//! number of files for each (a sixth where rates come from runs), `FAIRLINK_SEED` the first seed, `FAIRLINK_SCHEDULER` selects one scheduler.

mod cases;
mod files;
mod levers;
mod most;
