//! Fail-open by nf_tables alone, without programs in the kernel, for a process in a user namespace. It is less exact.
//!
//! * The wire is a table `fairlink-IN` with one chain, which forwards all frames that IN receives to OUT. It stays when
//!   a process ends.
//! * The hold is a table that the kernel removes with the socket that made it. Its chains see frames before the wire
//!   does, and drop them while their interface is in a set. It is added for 300 ms at a time, which is the heartbeat.
//!
//! The sockets of the gateway receive every frame, whether it is dropped or forwarded. So the gateway has to know when
//! frames were forwarded: before its first heartbeat, after a lapse, and after its end. It drops the frames in its
//! sockets then. If it cannot know, it drops: some frames of the moment are lost, and none is doubled.
//!
//! The redirection of the host's own frames ([`redirect`](super::redirect)) is exact: one rule decides about each
//! frame.
//!
//! Not every kernel can renew an element before its timeout. So there are two sets, used alternately.

use std::io;

use crate::gateway::fail_open::redirect::Marks;
use crate::io::bpf::move_up;
use crate::io::nftables::{Batch, Nftables, has_rule};
use crate::io::sys;

/// Timeout of an interface in a set.
const TIMEOUT_MS: u64 = 300;
/// Interval between heartbeats. The last timeout of a set has expired when it is used again, and the two sets overlap
/// for longer than the data thread sleeps.
const EVERY_NS: u64 = 170_000_000;
/// Margin: the kernel counts these times in ticks of up to 10 ms.
const MARGIN_NS: u64 = 20_000_000;
/// Priority of the wire: it sees frames last, after the hold.
const WIRE_PRIORITY: i32 = 0;
const HOLD_PRIORITY: i32 = -10;

const SETS: [&str; 2] = ["alive0", "alive1"];

/// Keeps the wires of a gateway idle, or redirects the host's frames, while there is a heartbeat.
#[derive(Debug)]
pub(super) struct Table {
    connection: Nftables,
    name: String,
    interfaces: Vec<i32>,
    /// The set in use, and since when.
    turn: usize,
    due: u64,
    /// Time until which frames are certainly dropped, in ns of the machine's monotonic clock. Zero: they are forwarded.
    covered: u64,
}

/// Name of the table of the wire from `interface`.
fn wire_name(interface: &str) -> String {
    format!("fairlink-{interface}")
}

/// Forwards frames from the interface called `from` to that with the index `to`, replacing a wire there.
///
/// # Errors
/// The kernel's answer: no permission (`EPERM`), a kernel without nf_tables or one of its parts (`ENOENT`,
/// `EOPNOTSUPP`).
pub(super) fn lay(from: &str, to: i32) -> io::Result<()> {
    let name = wire_name(from);
    let mut batch = Batch::new();
    batch.table(&name, false);
    batch.delete_table(&name);
    batch.table(&name, false);
    batch.chain(&name, from, WIRE_PRIORITY);
    batch.forward(&name, from, to);
    Nftables::open()?.run(batch)?;
    sys::set_interface_flag(from, libc::IFF_PROMISC, true)
}

/// Returns true while the wire from the interface called `from` exists.
///
/// # Errors
/// The kernel's answer.
pub(super) fn is_laid(from: &str) -> io::Result<bool> {
    has_rule(&wire_name(from), from)
}

/// Removes the wire from the interface called `from`. Returns true if there was one.
pub(super) fn take_up(from: &str) -> bool {
    let mut batch = Batch::new();
    batch.delete_table(&wire_name(from));
    // A kernel without nf_tables has no wire, and neither has a process without permission.
    let taken = Nftables::open().and_then(|connection| connection.run(batch)).is_ok();
    if taken {
        let _ = sys::set_interface_flag(from, libc::IFF_PROMISC, false);
    }
    taken
}

impl Table {
    /// Creates a hold on the wires from these interfaces, which accepts nothing yet.
    ///
    /// # Errors
    /// As [`lay`].
    pub(super) fn new(interfaces: &[(&str, i32)]) -> io::Result<Self> {
        // Another gateway on the same interfaces may be about to end.
        let name = format!("fairlink-hold-{}-{}", interfaces.first().map_or(0, |first| first.1), std::process::id());
        let mut batch = Batch::new();
        batch.table(&name, true);
        for (id, set) in SETS.iter().enumerate() {
            batch.set_of_interfaces(&name, set, id as u32 + 1);
        }
        for (interface, _) in interfaces {
            batch.chain(&name, interface, HOLD_PRIORITY);
            for (id, set) in SETS.iter().enumerate() {
                batch.drop_members(&name, interface, set, id as u32 + 1);
            }
        }
        Self::run(name, batch, interfaces.iter().map(|&(_, index)| index).collect())
    }

    /// Creates a redirection of frames that the interface `from` (name and index) is about to send into a cable. It is
    /// active while there is a heartbeat, and not yet. The cable's first end has the index `host_end`; frames that come
    /// out of the end `gateway_end` go nowhere else. A frame is redirected or passes, and never both: a lapse is never
    /// unnoticed.
    ///
    /// # Errors
    /// As [`lay`]; it needs Linux 5.17.
    pub(super) fn redirecting(from: (&str, i32), host_end: i32, gateway_end: &str, marks: Marks) -> io::Result<Self> {
        let (interface, index) = from;
        let name = format!("fairlink-own-{index}-{}", std::process::id());
        let mut batch = Batch::new();
        batch.table(&name, true);
        batch.closed_chain(&name, gateway_end);
        batch.egress_chain(&name, interface);
        batch.pass_marked(&name, interface, marks.sent);
        for (id, set) in (1..).zip(SETS) {
            batch.set_of_interfaces(&name, set, id);
            batch.redirect_members(&name, interface, (set, id), marks.taken, host_end);
        }
        Self::run(name, batch, vec![index])
    }

    fn run(name: String, batch: Batch, interfaces: Vec<i32>) -> io::Result<Self> {
        let connection = Nftables::open()?;
        connection.run(batch)?;
        Ok(Self { connection: connection.moved(move_up)?, name, interfaces, turn: 0, due: 0, covered: 0 })
    }

    /// Returns true if the kernel may have forwarded frames up to `now`.
    pub(super) fn has_lapsed(&self, now: u64) -> bool {
        now + MARGIN_NS >= self.covered
    }

    /// The data thread lives at `now`.
    pub(super) fn beat(&mut self, now: u64) {
        if now < self.due {
            return;
        }
        let mut batch = Batch::new();
        batch.put(&self.name, SETS[self.turn], &self.interfaces, TIMEOUT_MS);
        // If it fails, the hold lapses, which is noticed.
        if self.connection.run(batch).is_ok() {
            (self.turn, self.due, self.covered) = (1 - self.turn, now + EVERY_NS, now + TIMEOUT_MS * 1_000_000);
        }
    }

    /// Has the wires forward all frames from now on.
    pub(super) fn let_pass(&mut self) {
        let mut batch = Batch::new();
        batch.delete_table(&self.name);
        let _ = self.connection.run(batch);
        (self.due, self.covered) = (u64::MAX, 0);
    }
}
