//! Hosts that share a leaf are numbered as they come, so that its queue can keep them apart without mixing any two up.
//!
//! A leaf has a number of places. While there are more, a new host has a place of its own. When all are taken, the next new host
//! gets that of one that has not been seen for a while, by the CLOCK algorithm (second chance): a hand goes round and
//! takes the first place whose host has not been seen since it last came by. So hosts that send keep their places while
//! somebody invents addresses, one for each frame. Where all hosts of a full table send all the time, newcomers share places in turn.
//! What is queued of a host that lost its place stays there, and leaves with that of its heir.

use std::collections::HashMap;
use std::hash::RandomState;

/// The hosts of one leaf.
#[derive(Clone, Debug)]
pub(crate) struct Hosts {
    places: HashMap<[u8; 16], u16, RandomState>,
    /// By place: its host, and whether that was seen since the hand was there.
    held: Vec<([u8; 16], bool)>,
    hand: usize,
    most: usize,
}

impl Hosts {
    /// Room for `most` hosts. `salt` is one that nobody outside knows.
    pub(crate) fn new(most: u16, salt: RandomState) -> Self {
        let most = usize::from(most);
        Self { places: HashMap::with_capacity_and_hasher(most, salt), held: Vec::with_capacity(most), hand: 0, most }
    }

    /// The place of `host`, below the number of hosts there is room for.
    #[inline]
    pub(crate) fn place(&mut self, host: [u8; 16]) -> u16 {
        match self.places.get(&host) {
            Some(&place) => {
                self.held[usize::from(place)].1 = true;
                place
            }
            None => self.admit(host),
        }
    }

    /// Bytes that it takes, whoever comes.
    pub(crate) fn memory_bytes(&self) -> usize {
        // A table of hashes has a power of two of entries, an eighth of them free. It doubles once when hosts have come and gone.
        let entries = 2 * (self.most * 8 / 7 + 1).next_power_of_two();
        self.most * size_of::<([u8; 16], bool)>() + entries * (size_of::<([u8; 16], u16)>() + 1)
    }

    #[cold]
    fn admit(&mut self, host: [u8; 16]) -> u16 {
        if self.held.len() < self.most {
            let place = self.held.len() as u16;
            self.held.push((host, false));
            self.places.insert(host, place);
            return place;
        }
        // At most once round: every host that is passed over has been seen no more.
        while std::mem::replace(&mut self.held[self.hand].1, false) {
            self.hand = (self.hand + 1) % self.most;
        }
        let place = self.hand as u16;
        self.hand = (self.hand + 1) % self.most;
        let before = std::mem::replace(&mut self.held[usize::from(place)].0, host);
        self.places.remove(&before);
        self.places.insert(host, place);
        place
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn host(number: u32) -> [u8; 16] {
        u128::from(number).to_be_bytes()
    }

    proptest! {
        #[test]
        fn a_host_has_one_place_and_no_two_that_fit_have_the_same(
            most in 1u16..9, seen in proptest::collection::vec(0u32..12, 1..300),
        ) {
            let mut hosts = Hosts::new(most, RandomState::new());
            // By place, who came there last.
            let mut holders = vec![None; usize::from(most)];
            for number in seen {
                let known = holders.iter().position(|&holder| holder == Some(number));
                let place = usize::from(hosts.place(host(number)));
                prop_assert!(place < usize::from(most));
                if let Some(known) = known {
                    prop_assert_eq!(place, known);
                } else {
                    let free = holders.iter().any(Option::is_none);
                    prop_assert!(holders[place].is_none() || !free, "took a place while others were free");
                    holders[place] = Some(number);
                }
                prop_assert!(hosts.places.len() <= usize::from(most) && hosts.places.len() == hosts.held.len());
            }
        }
    }

    #[test]
    fn a_host_that_sends_keeps_its_place_while_addresses_are_invented() {
        let mut hosts = Hosts::new(64, RandomState::new());
        let own = hosts.place(host(1));
        let capacity = hosts.places.capacity();
        for number in 2..100_000 {
            hosts.place(host(number));
            if number % 20 == 0 {
                assert_eq!(hosts.place(host(1)), own, "{number}");
            }
        }
        assert!(hosts.places.capacity() <= 2 * capacity.max(64));
        let entry = size_of::<([u8; 16], u16)>() + 1;
        assert!(hosts.places.capacity() * 8 / 7 * entry + hosts.held.capacity() * 17 <= hosts.memory_bytes());
    }
}
