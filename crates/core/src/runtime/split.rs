//! The ways in which several cores of a machine share a link.

/// Most cores that share a link.
pub const MAX_CORES: u16 = 64;

/// The way in which several cores share a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Split {
    /// One core does all.
    One,
    /// Cores receive and send; one has the scheduler.
    #[default]
    Hub,
    /// The virtual times of the classes are shared; each core sends from leaf queues of its own.
    Shared,
    /// Each core has an equal part of the link and a scheduler of its own; the hash of a flow selects the core.
    Equal,
    /// As [`Split::Equal`], but the link is divided among the cores that had packets within 200 us, as cake_mq does.
    CakeMq,
    /// Each class directly below the link belongs to one core, which has the sum of their shares.
    PerCore,
}

impl Split {
    /// All ways.
    pub const ALL: [Self; 6] = [Self::One, Self::Hub, Self::Shared, Self::Equal, Self::CakeMq, Self::PerCore];
    /// Their names in files, in the order of [`Split::ALL`].
    pub const NAMES: [&str; 6] = ["one", "hub", "shared", "equal", "cake-mq", "per-core"];

    /// Returns its name in files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }

    /// Returns the way of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|split| split.name() == name)
    }

    /// Returns true if packets leave in the order of one scheduler, so that its bounds hold.
    #[must_use]
    pub const fn is_exact(self) -> bool {
        matches!(self, Self::One | Self::Hub)
    }
}

/// The cores that share a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cores {
    /// Number of cores, 1 to [`MAX_CORES`].
    pub count: u16,
    /// The way in which they share the link.
    pub split: Split,
    /// With [`Split::Hub`]: number of cores that schedule, 1 to `count` - 1. Several share the virtual time of the link,
    /// and each has some of the classes directly below it. Else 1.
    pub hubs: u16,
}

impl Cores {
    /// One core.
    pub const ONE: Self = Self { count: 1, split: Split::One, hubs: 1 };

    /// Returns `count` cores that share the link in one way, with one hub if it is that of a hub.
    #[must_use]
    pub const fn new(count: u16, split: Split) -> Self {
        Self { count, split, hubs: 1 }
    }

    /// Returns true if several hubs share the link.
    #[must_use]
    pub const fn has_hubs(self) -> bool {
        !self.is_one() && matches!(self.split, Split::Hub) && self.hubs > 1
    }

    /// Returns true if packets leave in the order of one scheduler, so that its bounds hold.
    #[must_use]
    pub const fn is_exact(self) -> bool {
        self.split.is_exact() && !self.has_hubs()
    }

    /// Returns true if one core does all.
    #[must_use]
    pub const fn is_one(self) -> bool {
        self.count == 1 || matches!(self.split, Split::One)
    }
}

impl Default for Cores {
    fn default() -> Self {
        Self::ONE
    }
}
