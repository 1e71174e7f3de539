//! The schedulers behind a C interface, for a queueing discipline of the kernel. `kernel/module/fairlink.h` is the other side of it.
//!
//! Each function takes a pointer to one structure and returns 0 or a negative error number, so that the C side can call
//! all of them through one guard. A panic ends in the guard: [`platform`] passes it to the C side, which jumps back to
//! the guard's call and never uses the link again except to free its memory. Packets are not inside: the C side has
//! them all in its table, and a link knows them by number.
//!
//! The C side holds the lock of its queueing discipline around every call that changes a link. [`fl_prepare`] and
//! [`fl_numbers`] use another lock, which excludes [`fl_commit`] but not packets: they read only the configuration,
//! which is a separate part of [`Link`]. [`fl_create`], [`fl_prepare`] and [`fl_release`] allocate and free and may
//! sleep; the others do neither.
#![cfg_attr(not(test), no_std)]
#![cfg_attr(all(not(test), target_os = "none"), feature(alloc_error_handler))]
#![deny(unsafe_op_in_unsafe_fn)]
#![warn(missing_docs)]

extern crate alloc;

mod link;
mod platform;
mod rates;
#[cfg(test)]
mod tests;

use core::fmt::{self, Write};
use core::{ptr, slice};

use fairlink_core::{ClassId, Nanos, Packet};

pub use link::{Change, Link};
use link::{Failure, Numbers as Numbered, Room, Running, Sink};
pub use rates::Sampled;

/// `-EINVAL`.
const INVALID: i64 = -22;
/// `-ENOMEM`.
const NO_MEMORY: i64 = -12;
/// `-ENOENT`.
const NO_ENTRY: i64 = -2;

/// A message for the user, truncated if it is too long.
struct Message<'a> {
    place: &'a mut [u8],
    len: usize,
}

impl Write for Message<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let Some(rest) = self.place.get_mut(self.len..) else { return Ok(()) };
        let take = text.len().min(rest.len().saturating_sub(1));
        for (to, from) in rest.iter_mut().zip(text.bytes().take(take)) {
            *to = from;
        }
        self.len += take;
        if let Some(end) = self.place.get_mut(self.len) {
            *end = 0;
        }
        Ok(())
    }
}

/// Says why, and turns it into an error number.
fn refuse(failure: &Failure, message: *mut u8, message_len: usize) -> i64 {
    if !message.is_null() && message_len > 0 {
        // SAFETY: the caller guarantees that `message_len` bytes may be written there.
        let place = unsafe { slice::from_raw_parts_mut(message, message_len) };
        // A message never refuses a text.
        let _ = write!(Message { place, len: 0 }, "{failure}");
    }
    if failure.is_out_of_memory() { NO_MEMORY } else { INVALID }
}

/// The configuration to make a link from, or to change it to.
#[repr(C)]
pub struct Make {
    /// The configuration's bytes.
    pub config: *const u8,
    /// Length of `config`, in bytes.
    pub config_len: usize,
    /// Most bytes that the scheduler with its queues may take.
    pub memory_limit: u64,
    /// Slots that the C side's table has in any case, because packets are in them.
    pub slots: u64,
    /// Buffer for an error message, terminated by a zero.
    pub message: *mut u8,
    /// Room for it.
    pub message_len: usize,
    /// The link; of [`fl_prepare`] the one that is to change.
    pub link: *mut Link,
    /// Out, of [`fl_prepare`]: the change.
    pub change: *mut Change,
    /// Out: facts for the C side.
    pub facts: Facts,
}

impl Make {
    const fn room(&self) -> Room {
        Room { limit: self.memory_limit, slots: self.slots }
    }
}

/// Facts on a link for the C side.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Maximum number of packets that it holds.
    pub packets: u32,
    /// Classes with the link itself.
    pub classes: u32,
    /// Longest packet in accounted bytes.
    pub max_packet: u32,
    /// The default class, 0 for none.
    pub default_class: u32,
    /// True if queues look at flows and ECN.
    pub active_queues: u32,
    /// Link-layer overhead of a packet, in bytes.
    pub overhead_bytes: u16,
    /// The least a packet counts.
    pub overhead_min: u16,
    /// 0 plain, 1 PTM, 2 ATM.
    pub framing: u32,
    /// True if hosts share a leaf.
    pub hosts: u32,
    /// Possible lateness of the timer, in ns.
    pub slack: u64,
}

/// Makes a link.
///
/// # Safety
/// `args` points to a [`Make`] whose pointers are valid for their lengths.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fl_create(args: *mut Make) -> i64 {
    // SAFETY: the caller's promise.
    let args = unsafe { &mut *args };
    // SAFETY: the caller's promise.
    let bytes = unsafe { slice::from_raw_parts(args.config, args.config_len) };
    match Link::new(bytes, args.room()) {
        Ok(link) => {
            args.facts = link[0].facts();
            args.link = alloc::boxed::Box::into_raw(link).cast();
            0
        }
        Err(failure) => refuse(&failure, args.message, args.message_len),
    }
}

/// Prepares a change of a link, without touching the link.
///
/// # Safety
/// `args` points to a [`Make`] whose pointers are valid for their lengths; its link was made by [`fl_create`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fl_prepare(args: *mut Make) -> i64 {
    // SAFETY: the caller's promise.
    let args = unsafe { &mut *args };
    // SAFETY: the caller's promise. This borrows the link's configuration, which only a commit changes; another thread
    // may have borrowed the running part.
    let (bytes, old) = unsafe { (slice::from_raw_parts(args.config, args.config_len), &(*args.link).config) };
    match Change::new(old, bytes, args.room()) {
        Ok(change) => {
            args.facts = change[0].facts();
            args.change = alloc::boxed::Box::into_raw(change).cast();
            0
        }
        Err(failure) => refuse(&failure, args.message, args.message_len),
    }
}

/// The host of a packet.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Host {
    /// Key that distinguishes it.
    pub address: [u8; 16],
    /// A hash of that which strangers cannot foresee.
    pub hash: u64,
}

/// A call with a packet, or for one.
#[repr(C)]
pub struct Call {
    /// The link.
    pub link: *mut Link,
    /// Opaque pointer that the C side gets back with drops and marks.
    pub owner: *mut core::ffi::c_void,
    /// The time in ns.
    pub now: u64,
    /// The packet, in and out.
    pub handle: u64,
    /// Its accounted length.
    pub len: u32,
    /// Its class.
    pub class: u32,
    /// Its host, if the class keeps hosts apart; else null.
    pub host: *const Host,
    /// In, of [`fl_enqueue`]: nonzero if nothing is queued, so that the time until now is not made up for.
    pub empty: u64,
    /// Out, if there is no packet now: time of the next call, `u64::MAX` if only an arrival makes a difference.
    pub wake: u64,
    /// Only for [`fl_commit`]: the change, and afterwards the remains to be freed.
    pub change: *mut Change,
}

impl Call {
    /// Makes the record of a packet of a class.
    const fn of(handle: u64, class: ClassId) -> Self {
        Self {
            link: ptr::null_mut(),
            owner: ptr::null_mut(),
            now: 0,
            handle,
            len: 0,
            class: class.0,
            host: ptr::null(),
            empty: 0,
            wake: 0,
            change: ptr::null_mut(),
        }
    }
}

/// Borrows the part of a call's link that packets change, and not its configuration, which another thread may read.
///
/// # Safety
/// The link is one of [`fl_create`], and the C side holds its lock.
const unsafe fn running<'a>(call: &Call) -> &'a mut Running {
    // SAFETY: the caller's promise.
    unsafe { &mut (*call.link).running }
}

/// Queues a packet, or drops it or another.
///
/// # Safety
/// `args` points to a [`Call`] with a link of [`fl_create`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fl_enqueue(args: *mut Call) -> i64 {
    // SAFETY: the caller's promise.
    let args = unsafe { &mut *args };
    // SAFETY: the caller's promise.
    let link = unsafe { running(args) };
    if args.empty != 0 {
        link.rested(Nanos(args.now));
    }
    // SAFETY: the caller's promise.
    let host = unsafe { args.host.as_ref() };
    let packet = Packet { handle: args.handle, len: args.len, class: ClassId(args.class) };
    link.enqueue(Nanos(args.now), packet, host, &mut Sink(args.owner));
    0
}

/// Returns 1 with the packet to send now, 0 without one.
///
/// # Safety
/// `args` points to a [`Call`] with a link of [`fl_create`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fl_dequeue(args: *mut Call) -> i64 {
    // SAFETY: the caller's promise.
    let args = unsafe { &mut *args };
    // SAFETY: the caller's promise.
    let link = unsafe { running(args) };
    match link.dequeue(Nanos(args.now), &mut Sink(args.owner)) {
        Ok(packet) => {
            (args.handle, args.len, args.class) = (packet.handle, packet.len, packet.class.0);
            1
        }
        Err(wake) => {
            args.wake = wake.0;
            0
        }
    }
}

/// Drops everything that is queued.
///
/// # Safety
/// `args` points to a [`Call`] with a link of [`fl_create`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fl_reset(args: *mut Call) -> i64 {
    // SAFETY: the caller's promise.
    let args = unsafe { &mut *args };
    // SAFETY: the caller's promise.
    let link = unsafe { running(args) };
    link.reset(Nanos(args.now), &mut Sink(args.owner));
    0
}

/// Commits a prepared change. The change then holds the remains to be freed.
///
/// # Safety
/// `args` points to a [`Call`] with a link of [`fl_create`] and a change of [`fl_prepare`] for it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fl_commit(args: *mut Call) -> i64 {
    // SAFETY: the caller's promise.
    let args = unsafe { &mut *args };
    // SAFETY: the caller's promise.
    let (link, change) = unsafe { (&mut *args.link, &mut *args.change) };
    link.commit(change, Nanos(args.now), &mut Sink(args.owner));
    0
}

/// Frees a link, a change, or both; either may be null. No packet may be queued.
///
/// # Safety
/// `args` points to a [`Call`] with the objects that [`fl_create`] and [`fl_prepare`] made, which are gone afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fl_release(args: *mut Call) -> i64 {
    // SAFETY: the caller's promise.
    let args = unsafe { &mut *args };
    if !args.change.is_null() {
        // SAFETY: it came out of a box of an array of one.
        drop(unsafe { alloc::boxed::Box::from_raw(args.change.cast::<[Change; 1]>()) });
        args.change = ptr::null_mut();
    }
    if !args.link.is_null() {
        // SAFETY: as above.
        drop(unsafe { alloc::boxed::Box::from_raw(args.link.cast::<[Link; 1]>()) });
        args.link = ptr::null_mut();
    }
    0
}

/// Samples the counters of some classes, for their rates. Returns 1 if there are more in this pass, else 0.
///
/// # Safety
/// `args` points to a [`Call`] with a link of [`fl_create`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fl_sample(args: *mut Call) -> i64 {
    // SAFETY: the caller's promise.
    let args = unsafe { &mut *args };
    // SAFETY: the caller's promise.
    let (link, tree) = unsafe { (running(args), &(*args.link).config.tree) };
    link.sample(Nanos(args.now), tree).into()
}

/// Buffers for numbers of classes.
#[repr(C)]
pub struct Numbers {
    /// The link.
    pub link: *const Link,
    /// The pending change whose classes are meant; may be null.
    pub change: *const Change,
    /// By class: its minor number.
    pub minors: *mut u16,
    /// By class: that of its parent, 0 for the link.
    pub parents: *mut u16,
    /// By class: key of its hosts: 0 none, 1 source IP, 2 destination IP, 3 source MAC, 4 destination MAC.
    pub hosts: *mut u8,
    /// Room in each of the three.
    pub minors_len: usize,
    /// By minor number: the class. Other entries stay unchanged.
    pub classes: *mut u32,
    /// Room there.
    pub classes_len: usize,
    /// Offset added to classes that are not leaves.
    pub inner: u32,
}

/// Writes the numbers of all classes of a link, or of a change.
///
/// # Safety
/// `args` points to a [`Numbers`] whose pointers are valid for their lengths.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fl_numbers(args: *mut Numbers) -> i64 {
    // SAFETY: the caller's promise.
    let args = unsafe { &mut *args };
    // SAFETY: the caller's promise.
    let (minors, parents, hosts, classes) = unsafe {
        (
            slice::from_raw_parts_mut(args.minors, args.minors_len),
            slice::from_raw_parts_mut(args.parents, args.minors_len),
            slice::from_raw_parts_mut(args.hosts, args.minors_len),
            slice::from_raw_parts_mut(args.classes, args.classes_len),
        )
    };
    // SAFETY: the caller's promise. Of the link this borrows the configuration alone, as in `fl_prepare`.
    let config = unsafe { args.change.as_ref().map_or_else(|| &(*args.link).config, Change::config) };
    Numbered(config).write(minors, parents, hosts, classes, args.inner);
    0
}

/// A query on a class, and its result.
#[repr(C)]
pub struct About {
    /// The link.
    pub link: *const Link,
    /// The class; 0 is the link.
    pub class: u32,
    /// Its minor number.
    pub minor: u32,
    /// Its parent's minor number, 0 for the link.
    pub parent_minor: u32,
    /// True if it is a leaf.
    pub leaf: u32,
    /// Number of changes of the link.
    pub generation: u64,
    /// Counters; the call adds to them.
    pub stats: Stats,
    /// Measured rates.
    pub sampled: Sampled,
    /// Buffer for its record, in the format of crates/schema.
    pub record: *mut u8,
    /// In: room of `record`; out: written bytes.
    pub record_len: u32,
    /// The class to continue with, initially 0.
    pub next: u32,
}

/// The counters of a class, or of all leaves below it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Guaranteed rate, in bit/s: from its configuration, or else its rate if all classes are backlogged.
    pub guarantee: u64,
    /// Packets and accounted bytes that arrived.
    pub received: [u64; 2],
    /// Sent.
    pub sent: [u64; 2],
    /// Dropped.
    pub dropped: [u64; 2],
    /// Marked.
    pub marked: [u64; 2],
    /// Queued.
    pub queued: [u64; 2],
    /// Bytes dropped because the packet was too long for the link.
    pub too_long: u64,
    /// Bytes borrowed from above, or lent below, if the scheduler counts them; else `u64::MAX`.
    pub lent_bytes: u64,
}

/// Fills in the data of a class. Returns 0, or 1 if another call must add up more leaves below it.
///
/// # Safety
/// `args` points to an [`About`] with a link of [`fl_create`], and with room for a record.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fl_about(args: *mut About) -> i64 {
    // SAFETY: the caller's promise.
    let args = unsafe { &mut *args };
    // SAFETY: the caller's promise.
    let (config, link) = unsafe { (&(*args.link).config, &(*args.link).running) };
    let class = ClassId(args.class);
    if args.next == 0 {
        // SAFETY: the caller's promise.
        let place = unsafe { slice::from_raw_parts_mut(args.record, args.record_len as usize) };
        let Some(known) = link.about(config, class, place) else { return NO_ENTRY };
        (args.minor, args.parent_minor, args.leaf) = (known.minor.into(), known.parent_minor.into(), known.leaf.into());
        (args.sampled, args.record_len) = (known.sampled, known.record as u32);
        (args.generation, args.next) = (link.generation(), args.class);
    }
    match link.add_up(&config.tree, class, ClassId(args.next), &mut args.stats) {
        Some(next) => {
            args.next = next.0;
            1
        }
        None => 0,
    }
}

/// Panics, so that a test can check the handling of a panic. The C side calls it after any other function.
///
/// # Safety
/// None; the signature matches the others.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fl_break(_args: *mut Call) -> i64 {
    panic!("asked to")
}
