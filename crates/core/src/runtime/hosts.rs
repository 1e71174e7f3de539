//! Hosts that share a leaf are numbered as they come, so that its queue can keep them apart without mixing any two up.
//!
//! A leaf has a limited number of slots. While some are free, a new host gets a slot of its own. When all are taken, it
//! gets that of a host that has not been seen for a while, by the CLOCK algorithm (second chance). A hand goes round
//! and takes the first slot whose host has not been seen since it last came by. So hosts that send keep their slots
//! against an adversary that uses a new address for each packet. If all hosts of a full table send all the time,
//! newcomers share slots in turn. The queued packets of a host that lost its slot stay there, and leave with those of
//! the new holder.
//!
//! **Cost per packet.** One step for each host of the same bucket; the expected number is at most one beside the host
//! itself, as there are as many buckets as slots. A new host of a full table costs at most as many steps as slots, and
//! two on average, because each step resets a mark that a packet has set.

use alloc::boxed::Box;
use core::num::NonZeroU16;

use crate::contract::{ClassId, Hierarchy, HostKey, Hosts, OutOfMemory};
use crate::parts::memory::{Stack, bytes_of, filled};

/// No place: there are at most `u16::MAX`, numbered from zero.
const NONE: u16 = u16::MAX;

/// The holder of a slot.
#[derive(Clone, Copy, Debug)]
struct Held {
    host: [u8; 16],
    /// Its bucket, and the next place there.
    bucket: u16,
    next: u16,
    /// True if it was seen since the hand last came by.
    seen: bool,
}

/// The hosts of one leaf.
#[derive(Debug)]
pub struct HostTable {
    hosts: Hosts,
    /// Hosts by place.
    held: Stack<Held>,
    /// By the lowest bits of a host's hash: the first place of its list.
    buckets: Box<[u16]>,
    hand: u16,
}

/// Buckets of a table; a power of two.
fn buckets(most: NonZeroU16) -> usize {
    usize::from(most.get()).next_power_of_two()
}

impl HostTable {
    /// An empty table.
    ///
    /// # Errors
    /// Fails if there is not enough memory.
    pub fn new(hosts: Hosts) -> Result<Self, OutOfMemory> {
        let held = Stack::with_room(hosts.most.get().into())?;
        Ok(Self { hosts, held, buckets: filled(buckets(hosts.most), NONE)?, hand: 0 })
    }

    /// Maximum memory of a table, in bytes.
    #[must_use]
    pub fn memory(hosts: Hosts) -> u64 {
        bytes_of::<Held>(hosts.most.get().into()) + bytes_of::<u16>(buckets(hosts.most))
    }

    /// Returns the key that distinguishes its hosts.
    #[must_use]
    pub const fn by(&self) -> HostKey {
        self.hosts.by
    }

    /// Returns the place of `host`, below the number of hosts with room. `hash` is a hash of the host, evenly spread in
    /// its lowest 16 bits. Strangers must not be able to predict it.
    #[inline]
    pub fn place(&mut self, host: [u8; 16], hash: u64) -> u16 {
        let bucket = hash as usize & (self.buckets.len() - 1);
        let mut at = self.buckets[bucket];
        while at != NONE {
            let held = &mut self.held[usize::from(at)];
            if held.host == host {
                held.seen = true;
                return at;
            }
            at = held.next;
        }
        self.admit(host, bucket as u16)
    }

    #[cold]
    fn admit(&mut self, host: [u8; 16], bucket: u16) -> u16 {
        let most = self.hosts.most.get();
        if self.held.len() < usize::from(most) {
            let place = self.held.len() as u16;
            let next = core::mem::replace(&mut self.buckets[usize::from(bucket)], place);
            self.held.push(Held { host, bucket, next, seen: false });
            return place;
        }
        // At most one round: every host that is passed over is marked as not seen.
        while core::mem::replace(&mut self.held[usize::from(self.hand)].seen, false) {
            self.hand = (self.hand + 1) % most;
        }
        let place = self.hand;
        self.hand = (self.hand + 1) % most;
        self.leave(place);
        let next = core::mem::replace(&mut self.buckets[usize::from(bucket)], place);
        self.held[usize::from(place)] = Held { host, bucket, next, seen: false };
        place
    }

    /// Removes the host of `place` from its list.
    fn leave(&mut self, place: u16) {
        let Held { bucket, next, .. } = self.held[usize::from(place)];
        let first = &mut self.buckets[usize::from(bucket)];
        if *first == place {
            *first = next;
            return;
        }
        let mut at = *first;
        while at != NONE {
            let held = &mut self.held[usize::from(at)];
            if held.next == place {
                held.next = next;
                return;
            }
            at = held.next;
        }
    }
}

/// The hosts of all leaves of a tree that have [`Hosts`].
#[derive(Debug)]
pub struct HostTables {
    /// By class: its position in `tables`, from one; zero for none. Empty if no leaf has hosts.
    of: Box<[u32]>,
    tables: Stack<HostTable>,
}

fn shared(tree: &Hierarchy) -> impl Iterator<Item = (ClassId, Hosts)> {
    tree.leaves().iter().filter_map(|&leaf| Some((leaf, tree.config(leaf).hosts?)))
}

impl HostTables {
    /// The tables of the leaves of `tree`.
    ///
    /// # Errors
    /// Fails if there is not enough memory.
    pub fn new(tree: &Hierarchy) -> Result<Self, OutOfMemory> {
        let count = shared(tree).count();
        let mut of = filled(if count == 0 { 0 } else { tree.len() }, 0)?;
        let mut tables = Stack::with_room(count)?;
        for (leaf, hosts) in shared(tree) {
            tables.push(HostTable::new(hosts)?);
            of[leaf.index()] = tables.len() as u32;
        }
        Ok(Self { of, tables })
    }

    /// Bytes that those of `tree` take.
    #[must_use]
    pub fn memory(tree: &Hierarchy) -> u64 {
        let tables: u64 = shared(tree).map(|(_, hosts)| bytes_of::<HostTable>(1) + HostTable::memory(hosts)).sum();
        if tables == 0 { 0 } else { tables + bytes_of::<u32>(tree.len()) }
    }

    /// Returns the table of a leaf, if it has one.
    #[inline]
    pub fn of(&mut self, leaf: ClassId) -> Option<&mut HostTable> {
        let number = *self.of.get(leaf.index())?;
        self.tables.get_mut((number as usize).wrapping_sub(1))
    }

    /// Takes over the hosts of `old` for leaves that survive: `class_map` has the new class of each old one. A leaf
    /// whose [`Hosts`] changed begins with none.
    pub fn inherit(&mut self, old: &mut Self, class_map: &[Option<ClassId>]) {
        for (class, heir) in class_map.iter().enumerate() {
            if let (Some(before), Some(now)) = (old.of(ClassId(class as u32)), heir.and_then(|heir| self.of(heir)))
                && before.hosts == now.hosts
            {
                core::mem::swap(before, now);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec;
    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;
    use crate::contract::{ClassConfig, LinkConfig, Rate};

    fn table(most: u16) -> HostTable {
        HostTable::new(shared_by(most)).unwrap()
    }

    fn shared_by(most: u16) -> Hosts {
        Hosts { most: NonZeroU16::new(most).unwrap(), by: HostKey::SourceIp }
    }

    /// Returns the place of the host of this number.
    fn place(hosts: &mut HostTable, number: u32) -> u16 {
        hosts.place(u128::from(number).to_be_bytes(), u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40)
    }

    proptest! {
        #[test]
        fn a_host_has_one_place_and_no_two_that_fit_have_the_same(
            most in 1u16..9, seen in proptest::collection::vec(0u32..12, 1..300), hashes in any::<u64>(),
        ) {
            let mut hosts = table(most);
            // The last host of each slot.
            let mut holders = vec![None; usize::from(most)];
            for number in seen {
                let known = holders.iter().position(|&holder| holder == Some(number));
                // Some hosts have one hash, some have others in the same bucket.
                let hash = hashes >> (number % 4 * 16);
                let place = usize::from(hosts.place(u128::from(number).to_be_bytes(), hash));
                prop_assert!(place < usize::from(most));
                if let Some(known) = known {
                    prop_assert_eq!(place, known);
                } else {
                    let free = holders.iter().any(Option::is_none);
                    prop_assert!(holders[place].is_none() || !free, "took a place while others were free");
                    holders[place] = Some(number);
                }
                // Every host with a slot is in one list, once.
                let mut listed = 0;
                for &first in &hosts.buckets {
                    let mut at = first;
                    while at != NONE {
                        listed += 1;
                        at = hosts.held[usize::from(at)].next;
                    }
                }
                prop_assert_eq!(listed, hosts.held.len());
            }
        }
    }

    #[test]
    fn a_host_that_sends_keeps_its_place_while_addresses_are_invented() {
        let mut hosts = table(64);
        let own = place(&mut hosts, 1);
        for number in 2..100_000 {
            place(&mut hosts, number);
            if number % 20 == 0 {
                assert_eq!(place(&mut hosts, 1), own, "{number}");
            }
        }
        let bytes = size_of_val(&hosts.held[..]) + size_of_val(&hosts.buckets[..]);
        assert_eq!(bytes as u64, HostTable::memory(shared_by(64)));
    }

    #[test]
    fn as_many_as_can_be_have_a_place_each() {
        let mut hosts = table(u16::MAX);
        for number in 0..2 * u32::from(u16::MAX) {
            assert_eq!(u32::from(place(&mut hosts, number)), number % u32::from(u16::MAX));
        }
    }

    #[test]
    fn leaves_have_their_own_and_keep_them_where_they_go_on() {
        let tree = |most: &[Option<u16>]| {
            let mut tree = Hierarchy::builder(LinkConfig::new(Rate::from_bps(1).unwrap()));
            for most in most {
                let hosts = most.map(shared_by);
                tree.add(ClassId::ROOT, ClassConfig { hosts, ..ClassConfig::default() }).unwrap();
            }
            tree.build().unwrap()
        };
        let none = tree(&[None, None]);
        assert!(HostTables::new(&none).unwrap().of(ClassId(1)).is_none());
        assert_eq!(HostTables::memory(&none), 0);
        let first = tree(&[None, Some(9), Some(5), Some(7)]);
        let mut old = HostTables::new(&first).unwrap();
        assert!(old.of(ClassId::ROOT).is_none() && old.of(ClassId(1)).is_none() && old.of(ClassId(5)).is_none());
        let of = |tables: &mut HostTables, class, number| place(tables.of(ClassId(class)).unwrap(), number);
        let seen: Vec<u16> =
            [(2, 10), (2, 11), (3, 11), (2, 12), (4, 12)].map(|(class, number)| of(&mut old, class, number)).into();
        assert_eq!(seen, [0, 1, 0, 2, 0]);
        // The second survives as the first, the third has other hosts, the fourth is gone.
        let mut new = HostTables::new(&tree(&[Some(9), Some(6)])).unwrap();
        new.inherit(&mut old, &[None, None, Some(ClassId(1)), Some(ClassId(2)), None]);
        assert_eq!(
            [(1, 12), (1, 13), (2, 12), (2, 11)].map(|(class, number)| of(&mut new, class, number)),
            [2, 3, 0, 1]
        );
    }
}
