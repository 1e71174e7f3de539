//! Addresses of classes, and the required order of classes.
//!
//! Other tools use the longest prefix of an address; a link file uses the first match. So a class with a longer prefix
//! must come before one whose prefix contains it.

use std::net::IpAddr;

use crate::matching::Prefix;

/// `10.0.0.0/8`, `2001:db8::1`; host bits are cleared, and the second value says whether there were some.
pub(super) fn parse(text: &str) -> Option<(Prefix, bool)> {
    let (address, len) = match text.split_once('/') {
        Some((address, len)) => (address, Some(len)),
        None => (text, None),
    };
    let address: IpAddr = address.parse().ok()?;
    let longest = if address.is_ipv4() { 32 } else { 128 };
    let len: u8 = match len {
        None => longest,
        // "+5" is not a prefix length.
        Some(len) if len.bytes().all(|byte| byte.is_ascii_digit()) => len.parse().ok().filter(|&len| len <= longest)?,
        Some(_) => return None,
    };
    Some(Prefix::cut(address, len))
}

/// Removes prefixes that others of the list contain, and sorts the list.
pub(super) fn minimal(prefixes: &mut Vec<Prefix>) {
    prefixes.sort_unstable();
    prefixes.dedup_by(|next, kept| kept.covers(next));
}

/// Why classes cannot be put in order: positions of classes and prefixes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Conflict {
    /// Two classes have the same prefix.
    Same { first: usize, second: usize, prefix: Prefix },
    /// Each of them has a prefix within one of the other's.
    Crossed { first: usize, second: usize, prefix: Prefix },
}

/// The order of `classes`, by position: that of the list, but longer prefixes before those that contain them.
///
/// # Errors
/// The first two classes for which there is none.
pub(super) fn order(classes: &[Vec<Prefix>]) -> Result<Vec<usize>, Conflict> {
    let mut all: Vec<(Prefix, usize)> = classes
        .iter()
        .enumerate()
        .flat_map(|(class, prefixes)| prefixes.iter().map(move |&prefix| (prefix, class)))
        .collect();
    all.sort_unstable();
    all.dedup();
    // By class: those that have to stand before it.
    let mut before: Vec<Vec<(usize, Prefix)>> = vec![Vec::new(); classes.len()];
    let mut around: Vec<(Prefix, usize)> = Vec::new();
    for &(prefix, class) in &all {
        while around.last().is_some_and(|(outer, _)| !outer.covers(&prefix)) {
            around.pop();
        }
        for &(outer, other) in around.iter().filter(|&&(_, other)| other != class) {
            if outer == prefix {
                let (first, second) = (other.min(class), other.max(class));
                return Err(Conflict::Same { first, second, prefix });
            }
            before[other].push((class, prefix));
        }
        around.push((prefix, class));
    }
    // Depth first, without recursion: chains may be as long as there are classes.
    let mut state = vec![State::New; classes.len()];
    let mut done = Vec::with_capacity(classes.len());
    for start in 0..classes.len() {
        let mut path = vec![start];
        while let Some(&class) = path.last() {
            if state[class] == State::Done {
                path.pop();
                continue;
            }
            state[class] = State::Open;
            match before[class].pop() {
                None => {
                    state[class] = State::Done;
                    done.push(class);
                }
                Some((other, prefix)) => match state[other] {
                    State::New => path.push(other),
                    State::Open => {
                        let (first, second) = (other.min(class), other.max(class));
                        return Err(Conflict::Crossed { first, second, prefix });
                    }
                    State::Done => {}
                },
            }
        }
    }
    Ok(done)
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    New,
    Open,
    Done,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefixes(text: &str) -> Vec<Prefix> {
        text.split_whitespace().map(|text| parse(text).unwrap().0).collect()
    }

    #[test]
    fn prefixes_are_read_with_their_host_bits_cleared() {
        for (text, shown, host_bits) in [
            ("100.64.0.1", "100.64.0.1/32", false),
            ("10.1.2.3/8", "10.0.0.0/8", true),
            ("0.0.0.0/0", "0.0.0.0/0", false),
            ("fdd7:b724:0:100::/56", "fdd7:b724:0:100::/56", false),
            ("::1", "::1/128", false),
        ] {
            let (prefix, had) = parse(text).unwrap();
            assert_eq!((prefix.to_string().as_str(), had), (shown, host_bits));
        }
        for wrong in ["", "10.0.0", "10.0.0.1/33", "::/129", "10.0.0.0/", "10.0.0.0/+8", "10.0.0.0/8/8", "x"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn what_lies_within_another_prefix_of_the_same_class_is_not_said_twice() {
        let mut all = prefixes("10.0.0.5 192.168.0.0/16 10.0.0.0/24 10.0.0.0/25 10.0.1.0/24 10.0.0.5");
        minimal(&mut all);
        assert_eq!(all, prefixes("10.0.0.0/24 10.0.1.0/24 192.168.0.0/16"));
    }

    #[test]
    fn longer_prefixes_come_first_and_the_rest_stays_in_order() {
        let classes = ["10.0.0.0/8", "192.168.0.0/16 10.1.0.0/16", "10.1.2.3", "::/0", "2001:db8::/32"].map(prefixes);
        assert_eq!(order(&classes), Ok(vec![2, 1, 0, 4, 3]));
        // A class may have both.
        assert_eq!(order(&[prefixes("10.0.0.0/8 10.0.0.1")]), Ok(vec![0]));
    }

    #[test]
    fn classes_that_no_order_tells_apart_are_named() {
        let same = order(&[prefixes("10.0.0.1"), prefixes("10.0.0.2"), prefixes("10.0.0.1")]);
        assert_eq!(same, Err(Conflict::Same { first: 0, second: 2, prefix: prefixes("10.0.0.1")[0] }));
        let crossed = order(&[prefixes("10.0.0.0/8 11.0.0.1"), prefixes("11.0.0.0/8 10.0.0.1")]);
        assert!(matches!(crossed, Err(Conflict::Crossed { first: 0, second: 1, .. })), "{crossed:?}");
    }

    /// Brute force: in the order that is made, the first class that has an address is the one with the longest prefix.
    #[test]
    fn the_first_class_in_order_is_the_one_of_the_longest_prefix() {
        let mut state = 7u32;
        let mut next = |below: u32| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 16) % below
        };
        let mut ordered = 0;
        for _ in 0..500 {
            let classes: Vec<Vec<Prefix>> = (0..1 + next(5))
                .map(|_| {
                    let one = |text: String| parse(&text).unwrap().0;
                    (0..1 + next(2)).map(|_| one(format!("10.0.0.{}/{}", next(16), 28 + next(5)))).collect()
                })
                .collect();
            let Ok(order) = order(&classes) else { continue };
            ordered += 1;
            for host in 0..16 {
                let address = parse(&format!("10.0.0.{host}")).unwrap().0;
                let longest = |class: &[Prefix]| {
                    class.iter().filter(|prefix| prefix.covers(&address)).map(Prefix::mapped_len).max()
                };
                let first = order.iter().find_map(|&class| longest(&classes[class]));
                assert_eq!(first, classes.iter().filter_map(|class| longest(class)).max(), "{classes:?} {order:?}");
            }
        }
        assert!(ordered > 100, "{ordered}");
    }
}
