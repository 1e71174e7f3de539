//! Differences of two link files as a document: keys, and effects on classes.

use std::collections::BTreeSet;

use fairlink_config::units::show_size;
use fairlink_config::{LinkFile, Problem, ReadOptions, Source};
use fairlink_core::{ClassConfig, ClassId};
use fairlink_report::{Content, Document};
use fairlink_schema::keys::{CLASS, ClassKey, LINK, OVERHEADS, Value, difference};
use fairlink_theory::ideal::Most;
use fairlink_theory::latency::DelayBound;
use fairlink_theory::promises::{PromiseError, promised};
use schemars::JsonSchema;
use serde::Serialize;

use crate::check::{busy, unreachable};
use crate::refused::Refused;

/// Two files compared.
#[derive(Debug, JsonSchema, Serialize)]
pub struct DiffDoc {
    /// True if there is no difference.
    pub same: bool,
    /// The links that differ.
    pub links: Vec<LinkDiff>,
}

/// A difference of one link.
#[derive(Debug, JsonSchema, Serialize)]
pub struct LinkDiff {
    /// Its name in the new file, or else in the old one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its state.
    pub change: DiffKind,
    /// Keys of `[link]`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub keys: Vec<KeyDiff>,
    /// The classes that differ or get something else: in the order of the new file, then those that are gone.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<ClassDiff>,
}

/// The state of a link or a class in the new file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DiffKind {
    /// Only the new file has it.
    New,
    /// Only the old file has it.
    Gone,
    /// Both have it, and keys differ.
    Changed,
    /// Both have it with the same keys, and it is given something else.
    Affected,
}

/// A key with other values. A value that is absent is the default.
#[derive(Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct KeyDiff {
    /// Its name.
    pub key: &'static str,
    /// Value in the first file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub old: Option<String>,
    /// Value in the second file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub new: Option<String>,
}

/// A difference of one class.
#[derive(Debug, JsonSchema, Serialize)]
pub struct ClassDiff {
    /// Its name.
    pub name: String,
    /// Its state.
    pub change: DiffKind,
    /// Keys of `[[class]]`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub keys: Vec<KeyDiff>,
    /// Share when all leaves have traffic.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share_all_busy_bps: Option<ValueDiff<u64>>,
    /// Bound on the delay of a packet, if the scheduler promises one, for the traffic of the bounds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay_bound_s: Option<ValueDiff<f64>>,
    /// The most that it can get, rounded down: its rate while its leaves are greedy and all others are idle. Absent if
    /// the rule of the scheduler gives no rates then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub most_bps: Option<ValueDiff<u64>>,
}

/// Two values that differ; one that is absent is not known, or there is no such class.
#[derive(Clone, Copy, Debug, PartialEq, JsonSchema, Serialize)]
pub struct ValueDiff<T> {
    /// Value in the first file, in the unit with which the key ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub old: Option<T>,
    /// Value in the second file, in the same unit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub new: Option<T>,
}

impl<T: PartialEq> ValueDiff<T> {
    fn between(old: Option<T>, new: Option<T>) -> Option<Self> {
        (old != new).then_some(Self { old, new })
    }
}

impl Content for DiffDoc {
    const KIND: &'static str = "diff";
}

/// Compares the links of two files, the old and the new one. If both files have a single link, these are compared under
/// any names; otherwise links of the same name. Returns the document, and warnings about the second file.
///
/// ```
/// use fairlink_api::diff;
/// use fairlink_config::SourceText;
///
/// let text = "[link]\nrate = \"9mbit\"\n[[class]]\nname = \"a\"\nweight = 2\n[[class]]\nname = \"b\"\nweight = 1\n";
/// let (old, new) = (SourceText::new("a.toml", text), SourceText::new("b.toml", text.replace("9mbit", "6mbit")));
/// let (diff, _) = diff(&old, &new)?;
/// let share = diff.content.links[0].classes[0].share_all_busy_bps.unwrap();
/// assert_eq!((share.old, share.new), (Some(6_000_000), Some(4_000_000)));
/// # Ok::<(), fairlink_api::Refused>(())
/// ```
///
/// # Errors
/// [`Refused`]: errors in a text, no memory for the bounds.
pub fn diff(old: &Source, new: &Source) -> Result<(Document<DiffDoc>, Vec<Problem>), Refused> {
    let [old, mut new] = [
        LinkFile::all_from_source(old, &ReadOptions::default())?,
        LinkFile::all_from_source(new, &ReadOptions::default())?,
    ];
    let document = DiffDoc::between(&old, &new).map_err(Refused::failed)?;
    let warnings = new.iter_mut().flat_map(|link| std::mem::take(&mut link.warnings)).collect();
    Ok((Document::new(document), warnings))
}

impl DiffDoc {
    fn between(old: &[LinkFile], new: &[LinkFile]) -> Result<Self, PromiseError> {
        let mut links = Vec::new();
        match (old, new) {
            ([old], [new]) => links.extend(LinkDiff::between(Some(old), Some(new))?),
            _ => {
                let same = |one: &LinkFile, other: &LinkFile| one.name == other.name;
                for link in new {
                    links.extend(LinkDiff::between(old.iter().find(|old| same(old, link)), Some(link))?);
                }
                for link in old.iter().filter(|old| !new.iter().any(|new| same(old, new))) {
                    links.extend(LinkDiff::between(Some(link), None)?);
                }
            }
        }
        Ok(Self { same: links.is_empty(), links })
    }
}

impl LinkDiff {
    /// Compares two links; `None` if nothing differs.
    fn between(old: Option<&LinkFile>, new: Option<&LinkFile>) -> Result<Option<Self>, PromiseError> {
        let name = new.or(old).and_then(|link| link.name.clone());
        let (Some(old), Some(new)) = (old, new) else {
            let change = if new.is_some() { DiffKind::New } else { DiffKind::Gone };
            return Ok(Some(Self { name, change, keys: Vec::new(), classes: Vec::new() }));
        };
        let keys = link_keys(old, new);
        let (before, after) = (Outcome::for_link(old)?, Outcome::for_link(new)?);
        let pair =
            |class: Option<ClassId>, other: Option<ClassId>| class_diff((old, &before, class), (new, &after, other));
        let kept = new.tree.classes().filter_map(|class| pair(old.names.id(new.names.name(class)), Some(class)));
        let gone = old.tree.classes().filter(|&class| new.names.id(old.names.name(class)).is_none());
        let classes: Vec<ClassDiff> = kept.chain(gone.filter_map(|class| pair(Some(class), None))).collect();
        let same = keys.is_empty() && classes.is_empty();
        Ok((!same).then_some(Self { name, change: DiffKind::Changed, keys, classes }))
    }
}

/// Shares, bounds and limits of the classes of a link.
struct Outcome {
    /// By class id; empty if it is not computed for this scheduler.
    shares: Vec<u64>,
    delays: Vec<Option<f64>>,
    most: Vec<Option<u64>>,
}

impl Outcome {
    fn for_link(link: &LinkFile) -> Result<Self, PromiseError> {
        let tree = &link.tree;
        let ideal = busy(link, &unreachable(link, false));
        let all = || (0..tree.len()).map(|class| ClassId(class as u32));
        let shares = ideal.map_or_else(|_| Vec::new(), |ideal| all().map(|class| ideal.floor_bps(class)).collect());
        let promised = promised(link.info(), tree)?;
        let delays = promised.delays.iter().map(|bound| bound.as_ref().map(DelayBound::seconds_in_floats)).collect();
        let mut most = Most::new(link.info(), tree).ok();
        let most = all().map(|class| most.as_mut()?.of(class).ok()).collect();
        Ok(Self { shares, delays, most })
    }
}

type Side<'a> = (&'a LinkFile, &'a Outcome, Option<ClassId>);

/// Compares two classes; `None` if nothing differs.
fn class_diff(old: Side<'_>, new: Side<'_>) -> Option<ClassDiff> {
    let name = |(link, _, class): Side<'_>| class.map(|class| link.names.name(class).to_owned());
    let keys = class_keys((old.0, old.2), (new.0, new.2));
    let share = |(_, outcome, class): Side<'_>| outcome.shares.get(class?.index()).copied();
    let delay = |(_, outcome, class): Side<'_>| *outcome.delays.get(class?.index())?;
    let most = |(_, outcome, class): Side<'_>| outcome.most[class?.index()];
    let diff = ClassDiff {
        name: name(new).or_else(|| name(old))?,
        change: match (old.2, new.2) {
            (None, _) => DiffKind::New,
            (_, None) => DiffKind::Gone,
            _ if keys.is_empty() => DiffKind::Affected,
            _ => DiffKind::Changed,
        },
        keys,
        share_all_busy_bps: ValueDiff::between(share(old), share(new)),
        delay_bound_s: ValueDiff::between(delay(old), delay(new)),
        most_bps: ValueDiff::between(most(old), most(new)),
    };
    let effects = [diff.share_all_busy_bps.is_some(), diff.delay_bound_s.is_some(), diff.most_bps.is_some()];
    (diff.change != DiffKind::Affected || effects.contains(&true)).then_some(diff)
}

/// Returns a class's configuration without derived values, and without the queue, which is compared by hand.
fn written(link: &LinkFile, class: Option<ClassId>) -> ClassConfig {
    let Some(class) = class else { return ClassConfig::default() };
    let mut config = *link.tree.config(class);
    config.limits = ClassConfig::default().limits;
    // A class of a pool has the link's rate as its ceiling.
    if config.ceiling == Some(link.tree.link().rate) && link.pools.iter().any(|&(member, _)| member == class) {
        config.ceiling = None;
    }
    config
}

fn class_keys(old: (&LinkFile, Option<ClassId>), new: (&LinkFile, Option<ClassId>)) -> Vec<KeyDiff> {
    let (before, after) = (written(old.0, old.1), written(new.0, new.1));
    let mut changed = difference(&CLASS, &before, &after).peekable();
    let mut keys = Vec::new();
    for key in CLASS.iter() {
        if let Some(change) = changed.next_if(|change| std::ptr::eq(change.key, key)) {
            let show = |value: Option<Value>| value.map(|value| key.show(value));
            keys.push(KeyDiff { key: key.name, old: show(change.old), new: show(change.new) });
        } else if let (old, new) = (by_hand(key, old), by_hand(key, new))
            && old != new
        {
            keys.push(KeyDiff { key: key.name, old, new });
        }
    }
    keys
}

/// Returns the value of a key that is not a field of [`ClassConfig`], and of the queue, whose default depends on other
/// keys.
fn by_hand(key: &ClassKey, (link, class): (&LinkFile, Option<ClassId>)) -> Option<String> {
    let class = class?;
    match key.name {
        "parent" => link
            .tree
            .parent(class)
            .filter(|&parent| parent != ClassId::ROOT)
            .map(|parent| link.names.name(parent).into()),
        "buffer" if link.tree.is_leaf(class) && !link.has_default_queue(class) => {
            Some(key.show(Value::Limits(link.tree.config(class).limits)))
        }
        "match" => {
            let all: BTreeSet<String> =
                link.matches.iter().filter(|(of, _)| *of == class).map(|(_, made)| made.to_string()).collect();
            (!all.is_empty()).then(|| all.into_iter().collect::<Vec<_>>().join(", "))
        }
        "pool" => link.pools.iter().find(|(member, _)| *member == class).map(|(_, pool)| pool.clone()),
        "classid" => link.number_of(class).map(|number| number.to_string()),
        _ => None,
    }
}

fn link_keys(old: &LinkFile, new: &LinkFile) -> Vec<KeyDiff> {
    let mut keys: Vec<KeyDiff> = LINK
        .iter()
        .filter_map(|key| {
            let value = |link: &LinkFile| match key.name {
                "name" => link.name.clone(),
                "in" => link.ports[0].clone(),
                "out" => link.ports[1].clone(),
                "egress" => link.egress.clone(),
                "scheduler" => Some(link.scheduler.clone()),
                "mtu" => Some(show_size(link.mtu.into())),
                "overhead" => Some(overhead(link)),
                "default" => link.default_class.map(|class| link.names.name(class).to_owned()),
                "memory" => Some(show_size(link.memory_limit)),
                _ => key.value(&link.tree.link()).map(|value| key.show(value)),
            };
            let (old, new) = (value(old), value(new));
            (old != new).then_some(KeyDiff { key: key.name, old, new })
        })
        .collect();
    keys.extend(order_of_matches(old, new));
    keys
}

fn overhead(link: &LinkFile) -> String {
    let word = OVERHEADS.iter().find(|(_, known)| *known == link.overhead);
    word.map_or_else(|| show_size(link.overhead.bytes.into()), |&(word, _)| word.to_owned())
}

/// The same matches in another order: frames that several hold for may go elsewhere.
fn order_of_matches(old: &LinkFile, new: &LinkFile) -> Option<KeyDiff> {
    let all = |link: &LinkFile| -> Vec<String> {
        link.matches.iter().map(|(class, made)| format!("{}: {made}", link.names.name(*class))).collect()
    };
    let (old, new) = (all(old), all(new));
    let first = old.iter().zip(&new).find(|(old, new)| old != new)?;
    let sorted = |all: &[String]| all.iter().cloned().collect::<BTreeSet<_>>();
    let place = |text: &str| Some(format!("{text} first"));
    (sorted(&old) == sorted(&new)).then(|| KeyDiff { key: "match", old: place(first.0), new: place(first.1) })
}
