//! Comparisons of plans with running links.

use fairlink_core::{ClassConfig, ClassId, Hierarchy, LinkConfig, Rate, registry};

use super::compare::{Present, Steps, compare};
use crate::gateway::config::GatewayConfig;

/// A link from `input` to `output`, which also forwards the other direction if `reverse` is set.
fn link(name: &str, input: &str, output: &str, reverse: bool) -> GatewayConfig {
    let mut tree = Hierarchy::builder(LinkConfig::new(Rate::from_bps(8_000_000).unwrap()));
    let all = tree.add(ClassId::ROOT, ClassConfig::default()).unwrap();
    let mut config = GatewayConfig::new(input, output, registry::find("hls").unwrap(), tree.build().unwrap(), all);
    (config.link_name, config.reverse) = (Some(name.to_owned()), reverse);
    config
}

fn steps(running: &[(GatewayConfig, bool)], plan: &[GatewayConfig]) -> Result<Steps, String> {
    let present: Vec<_> = running.iter().map(|(config, serves)| Present { config, serves: *serves }).collect();
    compare(&present, plan)
}

#[test]
fn a_link_is_its_interfaces_whatever_it_is_called() {
    let running = [(link("a", "i", "o", true), true), (link("b", "x", "y", true), true)];
    let same = steps(&running, &[link("b", "i", "o", true), link("a", "x", "y", true)]).unwrap();
    assert_eq!(same, Steps { kept: vec![(0, 0), (1, 1)], ..Steps::default() });
    let turned = steps(&running, &[link("a", "x", "y", true), link("b", "i", "o", true)]).unwrap();
    assert_eq!(turned.kept, [(1, 0), (0, 1)]);
}

#[test]
fn links_that_come_on_interfaces_of_their_own_and_links_that_go_leave_the_others_as_they_are() {
    let running = [(link("a", "i", "o", true), true), (link("b", "x", "y", true), true)];
    let steps = steps(&running, &[link("a", "i", "o", true), link("c", "p", "q", true)]).unwrap();
    assert_eq!(steps, Steps { kept: vec![(0, 0)], free: vec![1], gone: vec![(1, None)], ..Steps::default() });
}

#[test]
fn a_link_that_shares_an_interface_with_one_that_goes_takes_its_place() {
    let running = [(link("a", "i", "o", true), true)];
    let steps = steps(&running, &[link("a", "i", "p", true)]).unwrap();
    assert_eq!((&steps.kept[..], &steps.free[..], &steps.replacing[..]), (&[][..], &[][..], &[0][..]));
    let (at, why) = &steps.gone[0];
    assert_eq!((*at, why.as_deref()), (0, Some("closed and reopened: it is now i to p")));
    // A link that has not ended yet keeps its interfaces until then.
    let ending = [(link("a", "i", "o", true), false)];
    let again = self::steps(&ending, &[link("a", "i", "o", true)]).unwrap();
    assert_eq!(again, Steps { replacing: vec![0], ..Steps::default() });
}

#[test]
fn the_other_direction_gets_a_link_of_its_own_and_is_given_back() {
    let both = [link("down", "i", "o", false), link("up", "o", "i", false)];
    let one = [link("down", "i", "o", true)];
    let come = steps(&[(one[0].clone(), true)], &both).unwrap();
    assert_eq!((&come.kept[..], &come.replacing[..]), (&[][..], &[0, 1][..]));
    assert!(come.gone[0].1.as_deref().unwrap().contains("now has a link of its own"), "{come:?}");
    let running = both.clone().map(|config| (config, true));
    let go = steps(&running, &one).unwrap();
    assert_eq!((&go.kept[..], &go.replacing[..], go.gone.len()), (&[][..], &[0][..], 2));
    assert!(go.gone[0].1.as_deref().unwrap().contains("forwards the other direction"), "{go:?}");
}

#[test]
fn no_interface_is_received_from_twice() {
    let twice = [link("a", "i", "o", true), link("b", "x", "o", true)];
    assert!(steps(&[], &twice).unwrap_err().contains("the received frames of o;"));
    let without = [link("a", "i", "o", false), link("b", "x", "o", false)];
    assert_eq!(steps(&[], &without).unwrap().free, [0, 1]);
}
