//! The current state of a class: a set of flags in 16 bits, which is the available room in a leaf's cache line.

/// A set of flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Flags(u16);

impl Flags {
    /// The empty set.
    pub(super) const NONE: Self = Self(0);
    /// The leaf counts in this round.
    pub(super) const ACTIVE: Self = Self(1);
    /// The leaf became backlogged in this round and will be active from the next.
    pub(super) const PENDING: Self = Self(1 << 1);
    /// The leaf is in the list of leaves for the next main round.
    pub(super) const LISTED: Self = Self(1 << 2);
    /// Not a leaf: `parent` is the class's own index among the inner classes.
    pub(super) const INNER: Self = Self(1 << 3);
    /// There is a ceiling at the leaf or above it.
    pub(super) const LIMITED: Self = Self(1 << 4);
    /// The leaf has a ceiling itself.
    pub(super) const CAPPED: Self = Self(1 << 10);
    /// The leaf's own ceiling was in debt at its last charge: it must be checked before packets pass. Of plain leaves
    /// only.
    pub(super) const IN_DEBT: Self = Self(1 << 12);
    /// The leaf has kept a balance since it was parked.
    pub(super) const KEPT: Self = Self(1 << 11);
    /// The leaf does not count in this round: set whenever `ACTIVE` is not, so that one test finds a plain leaf to serve.
    pub(super) const IDLE: Self = Self(1 << 9);
    /// The leaf is backlogged and waits until a ceiling is out of debt.
    pub(super) const PARKED: Self = Self(1 << 5);
    /// The leaf is latency-critical.
    pub(super) const URGENT: Self = Self(1 << 6);
    /// The leaf is latency-critical and listed as one that may send ahead of its turn.
    pub(super) const READY: Self = Self(1 << 7);
    /// The leaf's queue is an active one.
    pub(super) const MANAGED: Self = Self(1 << 8);

    /// The leaf has packets, or owes for some: it is active, or will be.
    pub(super) const BACKLOGGED: Self = Self::ACTIVE.union(Self::PENDING).union(Self::PARKED);
    /// Serving the leaf takes more than its balance and a FIFO.
    pub(super) const NOT_PLAIN: Self = Self::LIMITED.union(Self::URGENT).union(Self::MANAGED);
    /// Queueing at it takes more than appending to a FIFO.
    pub(super) const NOT_FIFO: Self = Self::INNER.union(Self::URGENT).union(Self::MANAGED);
    /// Flags that never change.
    pub(super) const CONSTANT: Self = Self::NOT_PLAIN.union(Self::INNER).union(Self::CAPPED);

    /// Returns the union with `others`.
    pub(super) const fn union(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    /// Returns `self` if `asked`, else the empty set.
    pub(super) const fn if_so(self, asked: bool) -> Self {
        if asked { self } else { Self::NONE }
    }

    /// Returns true if any of `flags` is set.
    #[inline(always)]
    pub(super) const fn intersects(self, flags: Self) -> bool {
        self.0 & flags.0 != 0
    }

    /// Sets the leaf idle.
    #[inline(always)]
    pub(super) const fn idle(&mut self) {
        self.clear(Self::ACTIVE);
        self.set(Self::IDLE);
    }

    /// Sets `flags`.
    #[inline(always)]
    pub(super) const fn set(&mut self, flags: Self) {
        self.0 |= flags.0;
    }

    /// Clears `flags`.
    #[inline(always)]
    pub(super) const fn clear(&mut self, flags: Self) {
        self.0 &= !flags.0;
    }

    /// Clears all but `flags`.
    pub(super) const fn keep(&mut self, flags: Self) {
        self.0 &= flags.0;
    }
}
