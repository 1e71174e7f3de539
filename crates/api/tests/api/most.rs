//! The most that a class can get is what `fluid` gives it while its leaves alone are greedy, or is refused with the
//! same words.

use fairlink_api::diff;
use fairlink_config::SourceText;
use fairlink_core::ClassId;
use fairlink_theory::ideal::Most;

use crate::files::{Demand, LINK_BPS, for_each_file};

#[test]
fn the_most_of_a_class_is_the_ideal_of_the_class_alone() {
    let nothing = SourceText::new("old.toml", format!("[link]\nrate = '{LINK_BPS}bit'\n[[class]]\nname = 'gone'\n"));
    let (mut compared, mut refused, mut wrong) = (0, 0, Vec::new());
    for_each_file(18, |_, file, link, _| {
        let mut most = Most::new(link.info(), &link.tree).unwrap();
        let printed = diff(&nothing, &SourceText::new("new.toml", file.text())).unwrap().0.content;
        for class in 0..file.classes.len() {
            let name = format!("c{class}");
            let alone = Demand(file.leaves_below(class).into_iter().map(|leaf| (leaf, None)).collect());
            let id: ClassId = link.names.find(&name).unwrap();
            let expected = file.fluid(&alone).solved.map(|ideal| ideal.bps(id));
            let found = most.of(id).map_err(|why| why.named(|class| link.names.name(class).to_owned()));
            let same = match (&expected, &found) {
                (Ok(expected), Ok(found)) => (expected - *found as f64).abs() <= 1.0,
                (expected, found) => expected.as_ref().err() == found.as_ref().err(),
            };
            let shown = printed.links[0].classes.iter().find(|class| class.name == name).unwrap();
            let shown = shown.most_bps.and_then(|most| most.new);
            if !same || shown != found.clone().ok() {
                wrong.push(format!("{name}: {expected:?}, but {found:?} and {shown:?} under\n{}", file.text()));
            }
            compared += 1;
            refused += usize::from(found.is_err());
        }
    });
    println!("{compared} classes, refused for {refused}");
    assert!(wrong.is_empty(), "{} of {compared} are wrong; the first: {}", wrong.len(), wrong[0]);
}

#[test]
fn the_most_is_that_of_estimators_real_time_curves_and_ceilings_of_children() {
    let old = |mbit: u64| format!("[link]\nrate = '{mbit}mbit'\n[[class]]\nname = 'gone'\n");
    let most = |mbit: u64, text: &str, class: &str| {
        let text = format!("[link]\nrate = '{mbit}mbit'\n{text}");
        let found = diff(&SourceText::new("old.toml", old(mbit)), &SourceText::new("new.toml", text)).unwrap();
        let classes = &found.0.content.links[0].classes;
        classes.iter().find(|shown| shown.name == class).unwrap().most_bps.unwrap().new.unwrap()
    };
    let cbq = "scheduler = 'cbq-formal'\n[[class]]\nname = 'a'\nguarantee = '1mbit'\nbounded = true\n\
               [[class]]\nname = 'b'\nguarantee = '50mbit'\n\
               [[class]]\nname = 'c'\nguarantee = '10mbit'\nisolated = true\n";
    let of_cbq = ["a", "b", "c"].map(|class| most(100, cbq, class));
    assert_eq!(of_cbq.map(|bps| (bps + 500_000) / 1_000_000), [1, 90, 10], "{of_cbq:?}");
    let hfsc = "scheduler = 'hfsc'\n\
                [[class]]\nname = 'b'\nguarantee = '1mbit'\nreal_time = { rate = '2mbit' }\nceiling = '1mbit'\n\
                [[class]]\nname = 'c'\nguarantee = '5mbit'\n";
    assert_eq!(["b", "c"].map(|class| most(10, hfsc, class)), [2_000_000, 10_000_000]);
    let hls = "[[class]]\nname = 'p'\nceiling = '8mbit'\n[[class]]\nname = 'x'\nparent = 'p'\nceiling = '2mbit'\n\
               [[class]]\nname = 'y'\nparent = 'p'\nceiling = '3mbit'\n";
    assert_eq!(["p", "x"].map(|class| most(10, hls, class)), [5_000_000, 2_000_000]);
}
