//! Formal link-sharing of \[cbq\] in the long run, in `f64`: every class first gets its own rate, as far as it has
//! demand, and the rest goes to leaves by priority and quanta.
//!
//! A leaf's traffic counts at every class above it, for any lender. So a class that has got its own rate in one way or
//! the other lends no more. While a class with unmet demand has less than its own rate, no leaf outside borrows from
//! above. So at each class leaves share by one *price*. At the price (p, f) a leaf of a priority before p gets its
//! whole demand, one of p gets its quantum times f, and later ones get their own rates. A class takes over the price of
//! its parent, or a higher one at which all below it get the class's own rate together. A class that does not borrow
//! takes at most the latter. The link's price is the one that uses up its rate.
//!
//! **Unknown cases.** The estimator of \[cbq\] lets a class have up to [`EXCESS`] more than its own rate before it has
//! to borrow, and a class above others more, as it adds to the excess of those below it. Others lose that. So rates are
//! computed a second time, with that much more at each level. If both agree there is an answer.
//!
//! Cost: a hundred steps of a bisection for each class, each over the classes below it.

use fairlink_core::schedulers::htb::Plan;
use fairlink_core::{ClassId, Hierarchy};

use crate::floats::{add_up, agree};
use crate::limits::Limits;
use crate::request::Demand;

/// Maximum relative excess of a class over its own rate: the measured maximum for a class that does not borrow is 2.7
/// %.
const EXCESS: f64 = 0.03;

/// Steps of a bisection: enough for the bits of a float between any two prices.
const STEPS: u32 = 120;

/// The numbers that leaves of one tree share by.
#[derive(Clone, Debug)]
pub(crate) struct Allotted {
    plan: Plan,
    limits: Limits,
}

impl Allotted {
    pub(crate) fn new(plan: Plan, limits: Limits) -> Self {
        Self { plan, limits }
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Returns the rate of each class for `demand` in bit/s, by class id, the root first; `None` if it depends on
    /// errors of estimators.
    pub(crate) fn rates(&self, tree: &Hierarchy, demand: &Demand) -> Option<Vec<f64>> {
        let [rates, more] = [0.0, EXCESS].map(|excess| self.rates_of(tree, demand, excess));
        agree(&rates, &more, tree.link().rate.bps() as f64).then_some(rates)
    }

    /// Like `rates`, with own rates that are larger by a fixed part for each level from the leaves up.
    fn rates_of(&self, tree: &Hierarchy, demand: &Demand, excess: f64) -> Vec<f64> {
        let mut factors = vec![1.0 + excess; tree.len()];
        for class in tree.classes().rev() {
            let above = tree.parent(class).unwrap_or(ClassId::ROOT).index();
            factors[above] = factors[above].max(factors[class.index()] * (1.0 + excess));
        }
        let lowest = f64::from(self.plan.priorities.iter().copied().max().unwrap_or(0)) + 1.0;
        let mut sharing = Sharing {
            allotted: self,
            tree,
            asked: (0..tree.len()).map(|index| demand.bps(ClassId(index as u32))).collect(),
            own_price: vec![0.0; tree.len()],
            capacity: tree.link().rate.bps() as f64,
            highest: lowest,
            factors,
        };
        // From the leaves up, the price at which a class has its own rate.
        for index in (1..tree.len()).rev().filter(|&index| !tree.is_leaf(ClassId(index as u32))) {
            sharing.own_price[index] = sharing.price_of(ClassId(index as u32), sharing.own(index));
        }
        let mut prices = vec![0.0; tree.len()];
        prices[0] = sharing.price_of(ClassId::ROOT, sharing.capacity);
        let mut rates = vec![0.0; tree.len()];
        for class in tree.classes() {
            let above = prices[tree.parent(class).unwrap_or(ClassId::ROOT).index()];
            if tree.is_leaf(class) {
                rates[class.index()] = sharing.leaf(class, above);
            } else {
                prices[class.index()] = sharing.price(class, above);
            }
        }
        add_up(tree, &mut rates);
        rates
    }

    /// Returns true if `class` does not borrow.
    fn bounded(&self, class: ClassId) -> bool {
        self.limits.get(class).is_some()
    }
}

struct Sharing<'a> {
    allotted: &'a Allotted,
    tree: &'a Hierarchy,
    asked: Vec<f64>,
    /// Own prices of classes with children, by class id.
    own_price: Vec<f64>,
    capacity: f64,
    highest: f64,
    /// Factors by class id.
    factors: Vec<f64>,
}

impl Sharing<'_> {
    /// Returns the own rate of a class.
    fn own(&self, index: usize) -> f64 {
        self.factors[index] * self.allotted.plan.assured[index].bps() as f64
    }

    /// Rate of a leaf at a price. The integer part of a price is a priority, the fraction stands for quanta.
    fn leaf(&self, leaf: ClassId, price: f64) -> f64 {
        let index = leaf.index();
        let (asked, own) = (self.asked[index], self.own(index));
        if self.allotted.bounded(leaf) {
            let limit = self.allotted.limits.get(leaf).map_or(own, |limit| self.factors[index] * limit.bps as f64);
            return asked.min(limit);
        }
        let part = price - f64::from(self.allotted.plan.priorities[index]);
        let borrowed = if part <= 0.0 {
            0.0
        } else if part >= 1.0 {
            f64::INFINITY
        } else {
            // From zero to more than the rate of the link for the smallest quantum.
            self.allotted.plan.quanta[index] as f64 * self.capacity * part / (1.0 - part)
        };
        asked.min(own.max(borrowed))
    }

    fn price(&self, class: ClassId, above: f64) -> f64 {
        let own = self.own_price[class.index()];
        if self.allotted.bounded(class) { own } else { above.max(own) }
    }

    /// The rate of `class` that counts at its parent at the parent's price: the rate reserved for an isolated class is
    /// not given to others.
    fn counts(&self, class: ClassId, above: f64) -> f64 {
        if let Some(kept) = self.allotted.limits.kept(class) {
            return kept as f64;
        }
        self.uses(class, above)
    }

    fn uses(&self, class: ClassId, above: f64) -> f64 {
        if self.tree.is_leaf(class) {
            return self.leaf(class, above);
        }
        let price = self.price(class, above);
        self.tree.children(class).iter().map(|&child| self.counts(child, price)).sum()
    }

    /// Returns the lowest price at which the classes below `class` get `rate` together; the highest if they never do.
    fn price_of(&self, class: ClassId, rate: f64) -> f64 {
        let given =
            |price: f64| -> f64 { self.tree.children(class).iter().map(|&child| self.counts(child, price)).sum() };
        if given(self.highest) <= rate {
            return self.highest;
        }
        let (mut low, mut high) = (0.0, self.highest);
        for _ in 0..STEPS {
            let middle = (low + high) / 2.0;
            if given(middle) > rate { high = middle } else { low = middle }
        }
        low
    }
}
