//! Round-robin order of members: the lists of new and old queues of RFC 8290, Section 4.2. The flows of a leaf take
//! turns by it, and so do hosts.

use super::NIL;

/// The list that contains a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Nowhere,
    New,
    Old,
}

/// The state of one member.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn {
    /// RFC 8290's credits, in bytes that it may send before others have their turn. At most a quantum; at least minus a
    /// largest packet, exclusive.
    deficit: i64,
    /// The next in the same list.
    next: u32,
    place: Place,
}

impl Turn {
    pub(super) const NONE: Self = Self { deficit: 0, next: NIL, place: Place::Nowhere };

    pub(super) const fn is_spent(&self) -> bool {
        self.deficit <= 0
    }

    pub(super) fn sent(&mut self, len: u32) {
        self.deficit -= i64::from(len);
    }
}

/// Something that takes turns.
pub(super) trait Member {
    fn turn(&self) -> &Turn;
    fn turn_mut(&mut self) -> &mut Turn;
}

#[derive(Clone, Copy, Debug)]
struct List {
    first: u32,
    last: u32,
}

impl List {
    fn push<M: Member>(&mut self, members: &mut [M], at: u32) {
        members[at as usize].turn_mut().next = NIL;
        if self.first == NIL {
            self.first = at;
        } else {
            members[self.last as usize].turn_mut().next = at;
        }
        self.last = at;
    }
}

/// The order of turns of some of the members in a slice.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rota {
    new: List,
    old: List,
}

impl Rota {
    pub(super) const EMPTY: Self = Self { new: List { first: NIL, last: NIL }, old: List { first: NIL, last: NIL } };

    /// Returns the member whose turn it is.
    pub(super) const fn first(&self) -> Option<u32> {
        match (self.new.first, self.old.first) {
            (NIL, NIL) => None,
            (NIL, old) => Some(old),
            (new, _) => Some(new),
        }
    }

    /// Adds a member that has something to send. `quantum` is in bytes.
    pub(super) fn join<M: Member>(&mut self, members: &mut [M], at: u32, quantum: u32) {
        let turn = members[at as usize].turn_mut();
        if turn.place == Place::Nowhere {
            (turn.place, turn.deficit) = (Place::New, i64::from(quantum));
            self.new.push(members, at);
        }
    }

    /// Gives the first member, which is spent, another quantum and moves it behind the others.
    pub(super) fn renew<M: Member>(&mut self, members: &mut [M], quantum: u32) {
        if let Some(at) = self.take(members) {
            let turn = members[at as usize].turn_mut();
            turn.deficit += i64::from(quantum);
            turn.place = Place::Old;
            self.old.push(members, at);
        }
    }

    /// Passes over the first member, which has nothing to send. A new member gets another turn as an old one, so that
    /// it cannot be new again before all others had theirs.
    pub(super) fn pass_over<M: Member>(&mut self, members: &mut [M]) {
        let Some(at) = self.take(members) else { return };
        let turn = members[at as usize].turn_mut();
        if turn.place == Place::New {
            turn.place = Place::Old;
            self.old.push(members, at);
        } else {
            turn.place = Place::Nowhere;
        }
    }

    /// Returns all members that wait for a turn.
    pub(super) fn members<'a, M: Member>(&self, members: &'a [M]) -> impl Iterator<Item = u32> + use<'a, M> {
        let walk = move |first: u32| {
            let wanted = move |at: u32| (at != NIL).then_some(at);
            core::iter::successors(wanted(first), move |&at| wanted(members[at as usize].turn().next))
        };
        walk(self.new.first).chain(walk(self.old.first))
    }

    /// Copies the members that wait for a turn from `from` to `to`, where each has a number that is `by` larger
    /// (wrapping). Returns their order there.
    pub(super) fn moved<M: Member + Clone>(&self, from: &[M], to: &mut [M], by: u32) -> Self {
        let shifted = |at: u32| if at == NIL { NIL } else { at.wrapping_add(by) };
        for at in self.members(from) {
            let mut member = from[at as usize].clone();
            member.turn_mut().next = shifted(member.turn().next);
            to[shifted(at) as usize] = member;
        }
        let list = |list: List| List { first: shifted(list.first), last: shifted(list.last) };
        Self { new: list(self.new), old: list(self.old) }
    }

    fn take<M: Member>(&mut self, members: &[M]) -> Option<u32> {
        let at = self.first()?;
        let list = if self.new.first == NIL { &mut self.old } else { &mut self.new };
        list.first = members[at as usize].turn().next;
        Some(at)
    }
}
