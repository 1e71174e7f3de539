//! Demands of classes, as on the command line: `A1=inf,C=300mbit`.

use fairlink_core::{ClassId, Hierarchy};
use thiserror::Error;

use crate::link::first_leaf;
use crate::names::{Names, UnknownClass};
use crate::units::{UnitError, parse_rate};

/// Why a demand was refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DemandError {
    /// Not `NAME=RATE`.
    #[error("\"{item}\" is not of the form NAME=RATE, such as A1=inf or C=300mbit")]
    Form {
        /// As written.
        item: String,
    },
    /// No such class.
    #[error(transparent)]
    UnknownClass(#[from] UnknownClass),
    /// A class with children.
    #[error("\"{name}\" has classes below it, and only leaves have demands; a leaf below it is \"{leaf}\"")]
    NotALeaf {
        /// The class.
        name: String,
        /// A leaf below it.
        leaf: String,
    },
    /// The same class twice.
    #[error("\"{name}\" is given twice")]
    Twice {
        /// The class.
        name: String,
    },
    /// A rate that cannot be read.
    #[error("demand of \"{name}\": {error}; {}", .error.help())]
    Rate {
        /// The class.
        name: String,
        /// The reason.
        error: UnitError,
    },
}

/// The demand of a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked<'a> {
    /// As written: a rate, or `inf`.
    Text(&'a str),
    /// In bit/s.
    Bps(u64),
    /// As much as possible.
    Unlimited,
}

/// Reads demands in bit/s, `None` for unlimited: `A1=inf,C=300mbit,B2=10%,B1=0`. Each leaf may be named once; leaves
/// that are not named want nothing and are not in the answer, which is in the order written. An empty text is no demand
/// at all.
///
/// # Errors
/// The first [`DemandError`].
pub fn parse_demand<'a>(
    text: &'a str,
    tree: &Hierarchy,
    names: &Names,
) -> Result<Vec<(ClassId, Option<u64>)>, DemandError> {
    let items = text.split(',').map(str::trim).filter(|_| !text.trim().is_empty());
    let item = |item: &'a str| {
        let (name, rate) = item.split_once('=').ok_or_else(|| DemandError::Form { item: item.to_owned() })?;
        Ok((name.trim(), Asked::Text(rate.trim())))
    };
    read_demand(items.map(item), tree, names)
}

/// Like [`parse_demand`], of leaves that come one by one.
///
/// # Errors
/// The first [`DemandError`].
pub fn read_demand<'a>(
    items: impl IntoIterator<Item = Result<(&'a str, Asked<'a>), DemandError>>,
    tree: &Hierarchy,
    names: &Names,
) -> Result<Vec<(ClassId, Option<u64>)>, DemandError> {
    let mut seen = vec![false; tree.len()];
    let mut demands = Vec::new();
    for item in items {
        let (name, rate) = item?;
        let class = names.find(name)?;
        if !tree.is_leaf(class) {
            let leaf = names.name(first_leaf(tree, class)).to_owned();
            return Err(DemandError::NotALeaf { name: name.to_owned(), leaf });
        }
        if std::mem::replace(&mut seen[class.index()], true) {
            return Err(DemandError::Twice { name: name.to_owned() });
        }
        let demand = match rate {
            Asked::Unlimited | Asked::Text("inf" | "unlimited") => None,
            Asked::Bps(bps) => Some(bps),
            Asked::Text("0") => Some(0),
            Asked::Text(rate) => match parse_rate(rate, Some(tree.link().rate)) {
                Ok(rate) => Some(rate.bps()),
                Err(UnitError::Zero { .. }) => Some(0),
                Err(error) => return Err(DemandError::Rate { name: name.to_owned(), error }),
            },
        };
        demands.push((class, demand));
    }
    Ok(demands)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LinkFile, ReadOptions};

    fn demand(text: &str) -> Result<Vec<(String, Option<u64>)>, DemandError> {
        let link = "[link]\nrate = \"1gbit\"\n[[class]]\nname = \"A\"\n[[class]]\nname = \"A1\"\nparent = \"A\"\n\
                    [[class]]\nname = \"A2\"\nparent = \"A\"\n[[class]]\nname = \"voice\"\n";
        let file = LinkFile::parse("test.toml", link, &ReadOptions::default()).unwrap();
        let demands = parse_demand(text, &file.tree, &file.names)?;
        Ok(demands.into_iter().map(|(class, rate)| (file.names.name(class).to_owned(), rate)).collect())
    }

    #[test]
    fn demands_are_unlimited_or_rates_and_keep_their_order() {
        assert_eq!(
            demand("voice=300mbit, A1=inf,A2 = 10%"),
            Ok(vec![
                ("voice".to_owned(), Some(300_000_000)),
                ("A1".to_owned(), None),
                ("A2".to_owned(), Some(100_000_000))
            ])
        );
        assert_eq!(demand("A1=0,A2=0mbit"), Ok(vec![("A1".to_owned(), Some(0)), ("A2".to_owned(), Some(0))]));
        assert_eq!(demand(""), Ok(Vec::new()));
    }

    #[test]
    fn what_is_refused_says_why() {
        let table: String =
            ["A1", "A1=5,", "A1=", "A=inf", "link=inf", "Voice=inf", "A3=inf", "nobody=1mbit", "A1=inf,A1=0", "A1=300"]
                .iter()
                .map(|text| format!("{text}: {}\n", demand(text).expect_err(text)))
                .collect();
        insta::assert_snapshot!(table);
    }
}
