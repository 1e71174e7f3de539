//! Rates of the classes of one tree, by phase.

use fairlink_core::{Hierarchy, Nanos};
use fairlink_theory::fast::Solver;
use fairlink_theory::hmm::Allocation;
use fairlink_theory::ideal::NotComputed;
use fairlink_theory::request::Demand;
use fairlink_theory::to_f64;
use fairlink_traffic::Interval;

/// Maximum number of classes times phases for exact ideals. Beyond, they have the errors of whole bit/s or of `f64`.
pub(crate) const EXACT_CELLS: usize = 10_000;

/// Rates in bit/s, by class of a tree or of a scenario.
pub(crate) type Rates = Result<Vec<f64>, NotComputed>;

/// Computes the rates of each class of `tree` in each phase by hierarchical max-min fairness. The demand of a phase is
/// that at its start.
pub(crate) fn hmm(
    tree: &Hierarchy,
    phases: &[Interval],
    exact: bool,
    demand: &dyn Fn(Nanos) -> Demand,
) -> Vec<Vec<f64>> {
    if !exact {
        let mut solver = Solver::new(tree);
        let solve = |phase: &Interval| {
            let allocations = solver.solve(tree.link().rate, &demand(phase.start));
            allocations.iter().map(|&bps| bps as f64).collect()
        };
        return phases.iter().map(solve).collect();
    }
    let solve = |phase: &Interval| {
        let exact = Allocation::solve(tree, &demand(phase.start));
        exact.classes().map(|class| to_f64(&class.allocation)).collect()
    };
    phases.iter().map(solve).collect()
}
