//! Fail-open forwarding: while the gateway does not run, the kernel forwards frames from one interface to the other,
//! unshaped.
//!
//! The [`wire`] is the kernel's own path, which stays when the process ends, for whatever reason. The [`programs`] keep
//! it idle while the data thread lives: they give each frame either to the gateway or to the wire. There is no second
//! process that watches the first. If programs are not allowed, the [`table`] does the same by nf_tables.
//!
//! | event | action of the kernel |
//! | --- | --- |
//! | the process dies | it empties the program array with the process's descriptors: frames pass |
//! | the data thread stalls, the process is stopped (SIGSTOP), the machine has no processor for it | the heartbeat turns stale after 300 ms: frames pass |
//! | the data thread resumes | frames accepted before the stall are dropped by age, then the heartbeat is set again |
//! | a clean end | the heartbeat is set to zero, accepted frames are sent, then all is closed |
//! | a start | wire, guard and gate are installed before the first heartbeat |
//!
//! A start, an end or a take-over loses or doubles nothing. Frames overtake those that the gateway still has.

pub(super) mod keep;
mod place;
pub(super) mod programs;
pub(super) mod redirect;
mod table;
mod wire;

use std::sync::atomic::Ordering;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::gateway::fail_open::keep::{Keeper, Parts, SharedParts, Upkeep, Way};
use crate::gateway::fail_open::place::Place;
use crate::gateway::fail_open::programs::Programs;
use crate::gateway::fail_open::redirect::{Marks, Redirection};
use crate::gateway::fail_open::table::Table;
use crate::gateway::open_error::OpenError;
use crate::io::af_xdp::{Beat, Life};
use crate::io::bpf::assembler::Part;
use crate::io::bpf::{BpfError, Map, Program, SharedWords};
use crate::io::interface::Interface;

pub(crate) use crate::gateway::fail_open::programs::STALE;

/// Policy of fail-open: the kernel passes frames, unshaped, while the gateway does not run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FailOpen {
    /// Fail open if possible; else a note gives the reason.
    Auto,
    /// Fail open, or do not start.
    Require,
    /// No fail-open: nothing passes then.
    #[default]
    Never,
}

impl FailOpen {
    /// All choices.
    pub const ALL: [Self; 3] = [Self::Auto, Self::Require, Self::Never];

    /// Its name in commands.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Require => "require",
            Self::Never => "never",
        }
    }

    /// The choice of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|choice| choice.name() == name)
    }
}

/// State of fail-open forwarding.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FailOpenStats {
    /// Mechanism: `bpf`, or `nftables`, which is less exact; `None` if nothing passes.
    pub by: Option<String>,
    /// Reason why it is not `bpf`, if fail-open was requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why_not: Option<String>,
    /// True if the arrangement was complete at the last check, at most a second ago; `None` if nothing passes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub whole: Option<bool>,
    /// Parts that were removed externally and installed again.
    #[serde(default)]
    pub repairs: u64,
}

impl FailOpenStats {
    fn by(by: &str, why_not: Option<String>) -> Self {
        Self { by: Some(by.to_owned()), why_not, ..Self::default() }
    }

    /// The same with the result of the last check.
    pub(super) fn kept(&self, upkeep: Upkeep) -> Self {
        Self { whole: self.by.is_some().then_some(!upkeep.broken), repairs: upkeep.repairs, ..self.clone() }
    }
}

/// The wires of one gateway, and the parts that keep them idle. Dropping it leaves the wires, and frames pass.
#[derive(Debug)]
pub(super) struct Hold {
    by: By,
    /// The parts that can be removed externally.
    parts: SharedParts,
    /// Interfaces whose wires this gateway has created, rather than an earlier one.
    laid: Vec<(String, i32)>,
}

/// Mechanism that keeps the wires idle.
#[derive(Debug)]
enum By {
    Programs(Programs),
    Table(Table),
    /// Programs in the interfaces' drivers, which end with their sockets.
    Driver {
        map: Map,
        beat: SharedWords,
        life: Life,
    },
    /// The host's own frames are redirected.
    Redirection(Redirection),
    RedirectingTable(Table),
}

impl Hold {
    /// Creates wires from the first to the second of each of `directions`, and accepts nothing yet. `end` ends the program
    /// that accepts frames, with the context in `R9`. Without fail-open, wires of an earlier gateway are removed if the
    /// interfaces are `claimed`.
    ///
    /// # Errors
    /// [`OpenError::FailOpen`] if it is required and impossible; nothing new is left then.
    pub(super) fn prepare(
        policy: FailOpen,
        directions: &[(&Interface, &Interface)],
        claimed: bool,
        end: Option<Part<'_>>,
        notes: &mut Vec<String>,
    ) -> Result<(Option<Self>, FailOpenStats), OpenError> {
        let opened = |hold: Self, by: &str, why_not| Ok((Some(hold), FailOpenStats::by(by, why_not)));
        let why = match policy {
            FailOpen::Never => None,
            FailOpen::Auto | FailOpen::Require => {
                match Self::by_programs(directions, end) {
                    Ok(hold) => return opened(hold, "bpf", None),
                    Err(programs) => match Self::by_table(directions) {
                        Ok(hold) => {
                            notes.push(format!("fail-open uses nftables instead of programs in the kernel, which is less exact: {programs}"));
                            return opened(hold, "nftables", Some(programs));
                        }
                        Err(table) => Some(format!("{programs}; nftables: {table}")),
                    },
                }
            }
        };
        if let Some(why) = &why {
            if policy == FailOpen::Require {
                return Err(OpenError::FailOpen { why: why.clone() });
            }
            notes.push(format!("no fail-open, so no frame passes while the gateway does not run: {why}"));
        }
        if claimed {
            Self::without(directions, notes);
        }
        Ok((None, FailOpenStats { why_not: why, ..FailOpenStats::default() }))
    }

    /// Prepares the redirection of the host's frames for `from` into the cable from `host_end` (index) to
    /// `gateway_end`. It is active while there is a heartbeat, and not yet.
    ///
    /// # Errors
    /// [`OpenError::OwnTraffic`] if the kernel allows neither mechanism.
    pub(super) fn redirect(
        from: &Interface,
        host_end: i32,
        gateway_end: &Interface,
        notes: &mut Vec<String>,
    ) -> Result<(Self, FailOpenStats), OpenError> {
        let marks = Marks::for_interface(from.index);
        let of = |by, places, name: &str, why_not| {
            let parts = SharedParts::new(Parts { ways: Vec::new(), places });
            (Self { by, parts, laid: Vec::new() }, FailOpenStats::by(name, why_not))
        };
        let [sending, taking] = [from, gateway_end].map(|interface| (interface.name.as_str(), interface.index));
        let programs = match Redirection::begin(sending, host_end, taking, marks) {
            Ok((redirection, places)) => return Ok(of(By::Redirection(redirection), places, "bpf", None)),
            Err(error) => explain(&error),
        };
        match Table::redirecting((&from.name, from.index), host_end, &gateway_end.name, marks) {
            Ok(table) => {
                notes.push(format!(
                    "{}: redirects this host's traffic by nftables instead of programs in the kernel: {programs}",
                    from.name
                ));
                Ok(of(By::RedirectingTable(table), Vec::new(), "nftables", Some(programs)))
            }
            Err(table) => {
                let why = format!(
                    "{programs}; nftables: {table}; it needs tables of the family netdev, their hook egress and fwd \
                     (CONFIG_NF_TABLES_NETDEV, CONFIG_NETFILTER_EGRESS, CONFIG_NFT_FWD_NETDEV), Linux 5.17"
                );
                Err(OpenError::OwnTraffic { name: from.name.clone(), why })
            }
        }
    }

    /// Removes wires of an earlier gateway between these interfaces: they would forward frames that the gateway
    /// forwards, too.
    pub(super) fn without(directions: &[(&Interface, &Interface)], notes: &mut Vec<String>) {
        for (from, to) in directions {
            match wire::take_up((&from.name, from.index)).map(|taken| table::take_up(&from.name) || taken) {
                Ok(true) => notes.push(format!(
                    "removed the kernel's own path from {} to {}, which an earlier gateway with fail-open had left",
                    from.name, to.name
                )),
                Ok(false) => {}
                Err(error) => notes.push(format!(
                    "{}: cannot check for the kernel's own path of an earlier gateway with fail-open, which would double frames: {error}",
                    from.name
                )),
            }
        }
    }

    fn new(by: By, directions: &[(&Interface, &Interface)], places: Vec<Place>) -> Self {
        let by_table = matches!(by, By::Table(_));
        let ways = directions.iter().map(|(from, to)| Way::new(from, to, by_table)).collect();
        Self { by, parts: SharedParts::new(Parts { ways, places }), laid: Vec::new() }
    }

    /// Has `keeper` maintain the parts that could be removed externally.
    pub(super) fn keep_by(&self, keeper: &Keeper) {
        keeper.begin(&self.parts);
    }

    /// Loads the programs first, because the kernel may refuse them.
    fn by_programs(directions: &[(&Interface, &Interface)], end: Option<Part<'_>>) -> Result<Self, String> {
        let programs = Programs::load(end).map_err(|error| explain(&error))?;
        let mut places = Vec::new();
        for (from, _) in directions {
            places.push(programs.guard((&from.name, from.index)).map_err(|error| explain(&error))?);
        }
        let mut hold = Self::new(By::Programs(programs), directions, places);
        hold.lay(directions)?;
        Ok(hold)
    }

    /// Creates the missing wires. On a failure, removes those that it has created.
    fn lay(&mut self, directions: &[(&Interface, &Interface)]) -> Result<(), String> {
        for (from, to) in directions {
            match wire::lay((&from.name, from.index), to.index) {
                Ok(true) => self.laid.push((from.name.clone(), from.index)),
                Ok(false) => {}
                Err(source) => {
                    self.take_up();
                    return Err(format!(
                        "{} to {}: cannot create the kernel's own path: {source}; it needs clsact, u32 and mirred \
                         (CONFIG_NET_SCH_INGRESS, CONFIG_NET_CLS_U32, CONFIG_NET_ACT_MIRRED)",
                        from.name, to.name
                    ));
                }
            }
            // The wire of the other kind would see no frames any more.
            table::take_up(&from.name);
        }
        Ok(())
    }

    /// Creates wires as [`Hold::prepare`] does. The programs of AF_XDP in the interfaces' drivers keep them idle while
    /// the heartbeat, [`Hold::heart`], is fresh.
    ///
    /// # Errors
    /// The reason as text; nothing new is left then.
    pub(super) fn in_driver(directions: &[(&Interface, &Interface)]) -> Result<Self, String> {
        let map = Map::shared_array("fairlink_beat", 1, 8).map_err(|error| explain(&error))?;
        let beat = map.share(1).map_err(|error| explain(&error))?;
        let life = Life::begin()?;
        let mut hold = Self::new(By::Driver { map, beat, life }, directions, Vec::new());
        hold.lay(directions)?;
        Ok(hold)
    }

    /// The heartbeat for programs in the drivers.
    pub(super) fn heart(&self) -> Option<Beat<'_>> {
        match &self.by {
            By::Driver { map, life, .. } => Some(Beat { map, stale: STALE, life: &life.map }),
            _ => None,
        }
    }

    /// Creates the hold first, so that a kernel that refuses it has no wires. From the first wire on frames pass.
    fn by_table(directions: &[(&Interface, &Interface)]) -> Result<Self, String> {
        let interfaces: Vec<_> = directions.iter().map(|(from, _)| (from.name.as_str(), from.index)).collect();
        let failed = |source| {
            format!(
                "{source}; it needs tables of the family netdev and fwd (CONFIG_NF_TABLES_NETDEV, CONFIG_NFT_FWD_NETDEV), Linux 5.12"
            )
        };
        let table = Table::new(&interfaces).map_err(failed)?;
        let mut hold = Self::new(By::Table(table), directions, Vec::new());
        for (from, to) in directions {
            if let Err(source) = table::lay(&from.name, to.index) {
                hold.undo();
                return Err(failed(source));
            }
            // The other kind passes nothing without its wire.
            if !wire::take_up((&from.name, from.index)).unwrap_or(false) {
                hold.laid.push((from.name.clone(), from.index));
            }
        }
        Ok(hold)
    }

    /// Filter for receiving sockets; `None` if they receive every frame.
    pub(super) fn gate(&self) -> Option<&Program> {
        match &self.by {
            By::Programs(programs) => Some(programs.gate()),
            By::Table(_) | By::Driver { .. } | By::Redirection(_) | By::RedirectingTable(_) => None,
        }
    }

    /// Returns true if the kernel may have passed frames up to `now` that the sockets have, too. This is only possible
    /// with a table for wires.
    #[inline]
    pub(super) fn has_lapsed(&self, now: u64) -> bool {
        match &self.by {
            By::Programs(_) | By::Driver { .. } | By::Redirection(_) | By::RedirectingTable(_) => false,
            By::Table(table) => table.has_lapsed(now),
        }
    }

    /// Sets the heartbeat to `now`, in ns of the machine's monotonic clock.
    #[inline]
    pub(super) fn beat(&mut self, now: u64) {
        match &mut self.by {
            By::Programs(programs) => programs.beat(now),
            By::Driver { beat, .. } => beat.first().store(now, Ordering::Release),
            By::Redirection(redirection) => redirection.beat(now),
            By::Table(table) | By::RedirectingTable(table) => table.beat(now),
        }
    }

    /// Accepts nothing more: the wires forward all frames. Returns true if all frames still in the sockets were
    /// accepted before.
    pub(super) fn let_pass(&mut self) -> bool {
        match &mut self.by {
            By::Programs(programs) => {
                programs.beat(0);
                true
            }
            By::Driver { beat, .. } => {
                beat.first().store(0, Ordering::Release);
                true
            }
            By::Redirection(redirection) => {
                redirection.beat(0);
                true
            }
            By::RedirectingTable(table) => {
                table.let_pass();
                true
            }
            By::Table(table) => {
                table.let_pass();
                false
            }
        }
    }

    /// Removes the wires that this gateway has created, because it does not start.
    pub(super) fn undo(mut self) {
        self.take_up();
    }

    fn take_up(&mut self) {
        for (name, index) in self.laid.drain(..) {
            // Another error is to be reported.
            let _ = wire::take_up((&name, index));
            table::take_up(&name);
        }
    }
}

/// Returns true if the wires of all `directions` exist, as a gateway with fail-open creates them.
pub(super) fn are_laid(directions: &[(&Interface, &Interface)]) -> bool {
    directions.iter().all(|(from, to)| matches!(wire::target(from.index), Ok(Some(Some(target))) if target == to.index))
}

/// Removes the kernel's own path between the interfaces `names`, which gateways that fail open leave behind. From then
/// on nothing passes while no gateway runs. Returns the names of the interfaces that had one.
///
/// # Errors
/// [`OpenError`]: an interface that does not exist, no permission.
pub fn close_wires<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<Vec<String>, OpenError> {
    let mut closed = Vec::new();
    for name in names {
        let failed =
            |what| move |source| crate::io::interface::InterfaceError::Request { name: name.to_owned(), what, source };
        let index = crate::io::sys::interface_index(name).map_err(failed("its index"))?;
        let taken = wire::take_up((name, index)).map_err(failed("removing the kernel's own path"))?;
        if table::take_up(name) || taken {
            closed.push(name.to_owned());
        }
    }
    Ok(closed)
}

/// Explains the kernel's refusal.
fn explain(error: &BpfError) -> String {
    error.explain("programs behind packet sockets, tcx, came with Linux 6.6")
}
