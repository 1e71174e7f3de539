//! A case: the text of a scenario file in pieces, so that it can be shrunk and passed to `fairlink sim` unchanged.

use std::fmt::Write;

use fairlink_config::Scenario;
use fairlink_config::link::ReadOptions;
use fairlink_core::{Leniency, SchedulerInfo};

/// Lines of one table: keys and values as TOML has them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Entry(pub(crate) Vec<(&'static str, String)>);

impl Entry {
    pub(crate) fn set(&mut self, key: &'static str, value: impl Into<String>) {
        self.0.push((key, value.into()));
    }

    /// Like `set`, with the value in quotes.
    pub(crate) fn quote(&mut self, key: &'static str, value: impl std::fmt::Display) {
        self.set(key, format!("\"{value}\""));
    }

    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| *known == key).map(|(_, value)| &**value)
    }

    fn write(&self, text: &mut String) {
        for (key, value) in &self.0 {
            let _ = writeln!(text, "{key} = {value}");
        }
    }
}

/// A link and its classes.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Tree {
    pub(crate) link: Entry,
    pub(crate) classes: Vec<Entry>,
}

impl Tree {
    fn write(&self, place: &str, text: &mut String) {
        let _ = writeln!(text, "\n[{place}link]");
        self.link.write(text);
        for class in &self.classes {
            let _ = writeln!(text, "\n[[{place}class]]");
            class.write(text);
        }
    }

    /// Without the class at `place` and all below it.
    fn without(&self, place: usize) -> Self {
        let mut gone = vec![self.classes[place].get("name")];
        for class in &self.classes {
            if class.get("parent").is_some_and(|parent| gone.contains(&Some(parent))) {
                gone.push(class.get("name"));
            }
        }
        let kept = self.classes.iter().filter(|class| !gone.contains(&class.get("name"))).cloned().collect();
        Self { link: self.link.clone(), classes: kept }
    }
}

/// The kind of events during the scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Constant rates and greedy sources for a long time: rates are judged as well.
    Steady,
    /// Anything.
    Wild,
}

/// A scenario with all that is random in it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Case {
    pub(crate) kind: Kind,
    pub(crate) scheduler: &'static str,
    pub(crate) top: Entry,
    pub(crate) tree: Tree,
    pub(crate) sources: Vec<Entry>,
    /// `at` and `scheduler`, and the link's new configuration.
    pub(crate) change: Option<(Entry, Tree)>,
    /// A further link.
    pub(crate) peer: Option<Tree>,
    pub(crate) pool: Option<Entry>,
}

impl Case {
    /// The scenario file.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        self.top.write(&mut text);
        self.tree.write("", &mut text);
        if let Some((head, tree)) = &self.change {
            text.push_str("\n[[change]]\n");
            head.write(&mut text);
            tree.write("change.", &mut text);
        }
        if let Some(tree) = &self.peer {
            text.push_str("\n[[peer]]\nname = \"peer\"\n");
            tree.write("peer.", &mut text);
        }
        if let Some(pool) = &self.pool {
            text.push_str("\n[[pool]]\n");
            pool.write(&mut text);
        }
        for source in &self.sources {
            text.push_str("\n[[source]]\n");
            source.write(&mut text);
        }
        text
    }

    /// Makes the same case for `times` as long.
    pub(crate) fn longer(&self, times: u64) -> Self {
        let mut case = self.clone();
        for (key, value) in &mut case.top.0 {
            let micros = value.trim_matches('"').strip_suffix("us").and_then(|micros| micros.parse::<u64>().ok());
            if let (&mut "duration", Some(micros)) = (key, micros) {
                *value = format!("\"{}us\"", micros * times);
            }
        }
        case
    }

    /// The scenario, if there may be such a one.
    pub(crate) fn read(&self) -> Result<Scenario, String> {
        let options = ReadOptions { leniency: Leniency::Refuse, scheduler: Some(self.scheduler) };
        Scenario::parse("case.toml", self.text(), &options).map_err(|problems| problems.to_string())
    }

    /// Returns its features, by the names of the coverage counts.
    pub(crate) fn features(&self) -> Vec<String> {
        let mut found = vec![format!("{:?}", self.kind).to_lowercase()];
        let words = ["queue", "per", "model", "overhead", "when_full", "rounds", "rule"];
        let trees = [Some(&self.tree), self.change.as_ref().map(|(_, tree)| tree), self.peer.as_ref()];
        let trees = trees.into_iter().flatten();
        let entries = trees.flat_map(|tree| std::iter::once(&tree.link).chain(&tree.classes));
        for (key, value) in entries.chain(&self.sources).chain(&self.pool).flat_map(|entry| &entry.0) {
            found.push(if words.contains(key) { format!("{key} = {value}") } else { (*key).to_owned() });
        }
        if self.change.is_some() {
            found.push("change".to_owned());
        }
        found.sort();
        found.dedup();
        found.retain(|key| !["name", "class", "rate", "mtu", "link"].contains(&&**key));
        found
    }

    /// Cases with less in them, those with the least first.
    fn smaller(&self) -> Vec<Self> {
        let mut all = Vec::new();
        let mut with = |change: &dyn Fn(&mut Self)| {
            let mut case = self.clone();
            change(&mut case);
            if case != *self {
                all.push(case);
            }
        };
        with(&|case| case.change = None);
        with(&|case| {
            (case.peer, case.pool) = (None, None);
            case.sources.retain(|source| source.get("link").is_none());
            case.tree.classes.iter_mut().for_each(|class| class.0.retain(|(key, _)| *key != "pool"));
        });
        for place in 0..self.sources.len() {
            with(&|case| drop(case.sources.remove(place)));
        }
        for place in 0..self.tree.classes.len() {
            with(&|case| {
                case.tree = case.tree.without(place);
                let names: Vec<_> =
                    case.tree.classes.iter().filter_map(|class| class.get("name")).map(str::to_owned).collect();
                case.sources.retain(|source| {
                    source.get("link").is_some()
                        || source.get("class").is_some_and(|class| names.iter().any(|name| name == class))
                });
            });
        }
        let optional = |key: &str| !["name", "rate", "class", "model", "packet", "parent", "link"].contains(&key);
        for place in 0..self.tree.classes.len() {
            for (key, _) in self.tree.classes[place].0.iter().filter(|(key, _)| optional(key)) {
                with(&|case| case.tree.classes[place].0.retain(|(other, _)| other != key));
            }
        }
        for (key, _) in self.tree.link.0.iter().filter(|(key, _)| optional(key) && *key != "scheduler") {
            with(&|case| case.tree.link.0.retain(|(other, _)| other != key));
        }
        for place in 0..self.sources.len() {
            for (key, _) in self.sources[place].0.iter().filter(|(key, _)| ["shape", "active", "burst"].contains(key)) {
                with(&|case| case.sources[place].0.retain(|(other, _)| other != key));
            }
            if self.sources[place].get("model") != Some("\"greedy\"") {
                with(&|case| {
                    let source = &mut case.sources[place].0;
                    source.retain(|(key, _)| ["class", "packet", "active", "link"].contains(key));
                    source.push(("model", "\"greedy\"".to_owned()));
                });
            }
            if self.sources[place].get("packet") != Some("\"1000B\"") {
                with(&|case| {
                    let source = &mut case.sources[place].0;
                    source.retain(|(key, _)| *key != "packet");
                    source.push(("packet", "\"1000B\"".to_owned()));
                });
            }
        }
        all
    }

    /// Returns the smallest case found in which `fails` still returns the same, and that result.
    pub(crate) fn shrunk(mut self, fails: impl Fn(&Self) -> Option<String>) -> Self {
        // Each step removes a part, so that this ends.
        for _ in 0..200 {
            match self.smaller().into_iter().find(|case| fails(case).is_some()) {
                Some(case) => self = case,
                None => break,
            }
        }
        self
    }
}

/// The scheduler of that name.
pub(crate) fn scheduler(name: &str) -> &'static SchedulerInfo {
    fairlink_core::registry::find(name).unwrap_or_else(|| panic!("there is no scheduler {name}"))
}
