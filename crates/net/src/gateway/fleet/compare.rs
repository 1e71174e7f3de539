//! Comparison of a plan with the running links: links that stay, start and end.

use std::collections::BTreeSet;

use crate::gateway::config::GatewayConfig;

/// A running gateway, as far as it is compared.
#[derive(Clone, Copy, Debug)]
pub(super) struct Present<'a> {
    pub(super) config: &'a GatewayConfig,
    /// True if it continues; else it is about to end, and only its interfaces count.
    pub(super) serves: bool,
}

/// Steps for the links. Running links and those of the plan are identified by their positions.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Steps {
    /// Positions of links that stay, among the running ones and in the plan.
    pub(super) kept: Vec<(usize, usize)>,
    /// Positions in the plan of new links on interfaces that this process does not use.
    pub(super) free: Vec<usize>,
    /// Positions in the plan of new links that take interfaces of ending links.
    pub(super) replacing: Vec<usize>,
    /// Positions of ending links, each with the reason unless the plan lacks them.
    pub(super) gone: Vec<(usize, Option<String>)>,
}

/// Returns the interfaces from which a gateway receives, exclusively.
pub(super) fn receiving(config: &GatewayConfig) -> impl Iterator<Item = &String> {
    [&config.input].into_iter().chain(config.reverse.then_some(&config.output))
}

fn same_way(one: &GatewayConfig, other: &GatewayConfig) -> bool {
    (&one.input, &one.output) == (&other.input, &other.output)
}

/// Compares the running links with `plan`.
///
/// # Errors
/// Two links that would receive from one interface, as text.
pub(super) fn compare(running: &[Present<'_>], plan: &[GatewayConfig]) -> Result<Steps, String> {
    let mut steps = Steps::default();
    let stays = |config: &GatewayConfig| {
        running.iter().position(|present| {
            present.serves && same_way(present.config, config) && present.config.reverse == config.reverse
        })
    };
    let of_plan: Vec<Option<usize>> = plan.iter().map(stays).collect();
    let taken: BTreeSet<&String> = running.iter().flat_map(|present| receiving(present.config)).collect();
    let mut planned: BTreeSet<&String> = BTreeSet::new();
    for (place, config) in plan.iter().enumerate() {
        for interface in receiving(config) {
            if !planned.insert(interface) {
                return Err(format!(
                    "two links would forward the received frames of {interface}; each frame can take one path only"
                ));
            }
        }
        match of_plan[place] {
            Some(present) => steps.kept.push((present, place)),
            None if receiving(config).any(|interface| taken.contains(interface)) => steps.replacing.push(place),
            None => steps.free.push(place),
        }
    }
    for (at, present) in running.iter().enumerate() {
        if present.serves && !of_plan.contains(&Some(at)) {
            steps.gone.push((at, why_gone(present.config, plan)));
        }
    }
    Ok(steps)
}

/// Explains why a link ends that the plan has in another form.
fn why_gone(config: &GatewayConfig, plan: &[GatewayConfig]) -> Option<String> {
    if let Some(same) = plan.iter().find(|new| same_way(config, new)) {
        let back = match same.reverse {
            true => "it now forwards the other direction",
            false => "the other direction now has a link of its own",
        };
        return Some(format!("closed and reopened: {back}"));
    }
    let other = plan.iter().find(|new| new.link_name() == config.link_name())?;
    Some(format!("closed and reopened: it is now {}", other.way()))
}
