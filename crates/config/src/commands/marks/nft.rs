//! Rules of nft: commands, and files with blocks of tables and chains.
//!
//! Supported are marks of frames and connections, `meta priority set 1:10`, jumps and verdicts, sets with their
//! elements, and variables. A rule with a map, a verdict map or a condition that frames do not carry is not followed,
//! with a note.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use super::iptables::{number, ports, protocol};
use super::{Action, ChainName, Change, Conditions, Firewall, Interface, Rule, Test};
use crate::classid::Classid;
use crate::commands::filter::prefix;
use crate::problem::Span;

/// Chains, sets and variables that rules of nft refer to.
#[derive(Debug, Default)]
pub(super) struct Tables {
    /// Chains that packets enter.
    bases: BTreeMap<ChainName, Base>,
    /// Elements of sets, by family, table and name.
    sets: BTreeMap<ChainName, Vec<String>>,
}

#[derive(Debug)]
struct Base {
    hook: String,
    priority: i64,
    /// The devices of an egress hook; none for all.
    devices: Vec<String>,
}

impl Tables {
    /// The hook of a chain and its place among those of the hook; `None` for a chain that is only called.
    pub(super) fn base(&self, name: &ChainName, device: &str) -> Option<(String, i64)> {
        let base = self.bases.get(name)?;
        let here = base.devices.is_empty() || base.devices.iter().any(|known| known == device);
        here.then(|| (base.hook.clone(), base.priority))
    }
}

/// Reads a command, without the name of the program. Returns its error.
pub(super) fn command(firewall: &mut Firewall, words: &[&str], at: &Span) -> Vec<String> {
    if let Some(file) = words.windows(2).find(|pair| ["-f", "--file"].contains(&pair[0])) {
        return vec![format!("WARNING: the rules of nft in {} are not read: run the script with --run", file[1])];
    }
    // An option ends where the command begins; a priority may be negative.
    let begin = words.iter().position(|word| !word.starts_with('-')).unwrap_or(words.len());
    let tokens = with_variables(tokens(&words[begin..].join(" ")));
    let mut reader = Reader { tokens, next: 0, firewall, at, found: Vec::new() };
    reader.commands();
    reader.found
}

/// Words, signs and the ends of lines.
fn tokens(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut word = String::new();
    let mut rest = text.chars().peekable();
    let end = |word: &mut String, found: &mut Vec<String>| {
        if !word.is_empty() {
            found.push(std::mem::take(word));
        }
    };
    while let Some(c) = rest.next() {
        match c {
            '"' => word.extend(rest.by_ref().take_while(|c| *c != '"')),
            '#' => {
                end(&mut word, &mut found);
                rest.by_ref().find(|c| *c == '\n');
                found.push(";".to_owned());
            }
            '\\' if rest.peek() == Some(&'\n') => _ = rest.next(),
            '\\' => {}
            '\n' | ';' | '{' | '}' | ',' => {
                end(&mut word, &mut found);
                found.push(if c == '\n' { ';' } else { c }.to_string());
            }
            '=' if word.is_empty() && rest.peek() == Some(&'=') => {
                rest.next();
                found.push("==".to_owned());
            }
            '=' if !["!", "<", ">"].contains(&word.as_str()) => {
                end(&mut word, &mut found);
                found.push("=".to_owned());
            }
            c if c.is_whitespace() || c == '(' || c == ')' => end(&mut word, &mut found),
            c => word.push(c),
        }
    }
    end(&mut word, &mut found);
    found
}

/// Puts variables in, which `define NAME = VALUE` sets.
fn with_variables(tokens: Vec<String>) -> Vec<String> {
    let mut known: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut made: Vec<String> = Vec::new();
    let mut rest = tokens.into_iter().peekable();
    let put_in = |token: String, known: &BTreeMap<String, Vec<String>>| match token.strip_prefix('$') {
        Some(name) => known.get(name).cloned().unwrap_or_else(|| vec![token.clone()]),
        None => vec![token],
    };
    while let Some(token) = rest.next() {
        if token == "define" {
            let name = rest.next().unwrap_or_default();
            rest.next_if(|token| token == "=");
            let (mut value, mut depth) = (Vec::new(), 0);
            while let Some(token) = rest.next_if(|token| depth > 0 || token != ";") {
                depth += i32::from(token == "{") - i32::from(token == "}");
                if token != ";" {
                    value.extend(put_in(token, &known));
                }
            }
            value.truncate(MAX_VALUE);
            known.insert(name, value);
        } else {
            made.extend(put_in(token, &known));
            if made.len() > MAX_TOKENS {
                break;
            }
        }
    }
    made
}

/// Most tokens of a command, with its variables put in, and of a variable.
const MAX_TOKENS: usize = 1 << 20;
const MAX_VALUE: usize = 4096;

struct Reader<'f> {
    tokens: Vec<String>,
    next: usize,
    firewall: &'f mut Firewall,
    at: &'f Span,
    found: Vec<String>,
}

impl Reader<'_> {
    fn peek(&self) -> &str {
        self.tokens.get(self.next).map_or("", String::as_str)
    }

    fn take(&mut self) -> String {
        self.next += 1;
        self.tokens.get(self.next - 1).cloned().unwrap_or_default()
    }

    fn is_over(&self) -> bool {
        self.next >= self.tokens.len()
    }

    fn takes(&mut self, token: &str) -> bool {
        let is = self.peek() == token;
        self.next += usize::from(is);
        is
    }

    /// The tokens up to the end of a statement, which is taken, or up to the end of the block, which is not.
    fn statement(&mut self) -> Vec<String> {
        let (mut found, mut depth) = (Vec::new(), 0usize);
        while !self.is_over() {
            match self.peek() {
                ";" if depth == 0 => {
                    self.next += 1;
                    break;
                }
                "}" if depth == 0 => break,
                "{" => depth += 1,
                "}" => depth -= 1,
                _ => {}
            }
            let token = self.take();
            if token != ";" {
                found.push(token);
            }
        }
        found
    }

    fn commands(&mut self) {
        while !self.is_over() {
            match self.take().as_str() {
                "add" | "create" => self.add(false),
                "insert" => self.add(true),
                "table" => self.table(),
                "flush" | "delete" | "destroy" => self.flush(),
                "include" | "replace" => {
                    self.found.push("WARNING: \"include\" and \"replace\" of nft are not followed".to_owned());
                    self.statement();
                }
                ";" | "}" => {}
                _ => _ = self.statement(),
            }
        }
    }

    /// Reads an optional family, and a table.
    fn table_name(&mut self) -> ChainName {
        let named = ["ip", "ip6", "inet", "arp", "bridge", "netdev"].contains(&self.peek());
        let family = if named { self.take() } else { "ip".to_owned() };
        ChainName { family, table: self.take(), chain: String::new() }
    }

    fn chain_name(&mut self) -> ChainName {
        let table = self.table_name();
        ChainName { chain: self.take(), ..table }
    }

    fn add(&mut self, first: bool) {
        match self.take().as_str() {
            "table" => self.table(),
            "chain" => {
                let name = self.chain_name();
                self.chain(name);
            }
            "rule" => {
                let name = self.chain_name();
                let mut place = None;
                if ["position", "handle", "index"].contains(&self.peek()) {
                    self.next += 1;
                    place = Some(self.take());
                }
                let statement = self.statement();
                self.rule(name, &statement, first, place.is_some());
            }
            "set" | "element" => {
                let name = self.chain_name();
                self.elements(name);
            }
            _ => _ = self.statement(),
        }
    }

    fn flush(&mut self) {
        let what = self.take();
        let of_nft = |name: &ChainName| !name.table.starts_with("-t ");
        match what.as_str() {
            "ruleset" => self.firewall.chains.retain(|name, _| !of_nft(name)),
            "table" => {
                let table = self.table_name();
                self.firewall.chains.retain(|name, _| name.family != table.family || name.table != table.table);
            }
            "chain" => {
                let name = self.chain_name();
                self.firewall.chains.entry(name).or_default().clear();
            }
            "rule" => {
                self.found.push("WARNING: a rule of nft that is deleted by its handle is still followed".to_owned())
            }
            _ => {}
        }
        self.statement();
    }

    /// `table inet x { chain y { ... } set z { ... } }`, behind the first word.
    fn table(&mut self) {
        let table = self.table_name();
        if !self.takes("{") {
            self.statement();
            return;
        }
        while !self.is_over() && !self.takes("}") {
            match self.take().as_str() {
                ";" => {}
                "chain" => {
                    let chain = self.take();
                    self.chain(ChainName { chain, ..table.clone() });
                }
                "set" => {
                    let chain = self.take();
                    self.elements(ChainName { chain, ..table.clone() });
                }
                _ => _ = self.statement(),
            }
        }
    }

    /// Reads the block of a chain, if there is one.
    fn chain(&mut self, name: ChainName) {
        self.firewall.chains.entry(name.clone()).or_default();
        if !self.takes("{") {
            self.statement();
            return;
        }
        while !self.is_over() && !self.takes("}") {
            let statement = self.statement();
            match statement.first().map(String::as_str) {
                None => {}
                Some("type") => _ = base(&statement).map(|base| self.firewall.nft.bases.insert(name.clone(), base)),
                Some("policy" | "comment" | "flags") => {}
                Some(_) => self.rule(name.clone(), &statement, false, false),
            }
        }
    }

    /// Elements of a set, in the block of the set or alone.
    fn elements(&mut self, name: ChainName) {
        let statement = self.statement();
        let body = match statement.iter().position(|token| token == "elements") {
            Some(at) => &statement[at..],
            None if statement.iter().any(|token| token == "type" || token == "typeof") => &[],
            None => &statement[..],
        };
        let found = match body.iter().position(|token| token == "{") {
            Some(open) => braced(&body[open..]).map_or(Vec::new(), |(found, _)| found),
            None => Vec::new(),
        };
        self.firewall.nft.sets.entry(name).or_default().extend(found);
    }

    fn rule(&mut self, name: ChainName, statement: &[String], first: bool, placed: bool) {
        if placed {
            self.found
                .push("WARNING: a rule of nft with a position or handle is moved to the end of its chain".to_owned());
        }
        let mut expression = Expression {
            tokens: statement,
            next: 0,
            sets: &self.firewall.nft.sets,
            table: &name,
            conditions: Conditions::default(),
            untold: None,
            rule: Rule {
                at: self.at.clone(),
                text: statement.join(" "),
                conditions: Ok(Conditions::default()),
                input: None,
                output: None,
                tests: Vec::new(),
                actions: Vec::new(),
            },
        };
        expression.read();
        let Expression { conditions, untold, mut rule, .. } = expression;
        if ["bridge", "arp"].contains(&name.family.as_str()) && rule.sets() {
            self.found.push(format!("WARNING: a rule of the family {} that sets a mark is not followed", name.family));
        }
        rule.conditions = untold.map_or(Ok(conditions), Err);
        let chain = self.firewall.chains.entry(name).or_default();
        chain.insert(if first { 0 } else { chain.len() }, rule);
    }
}

/// `type filter hook postrouting priority mangle + 5`.
fn base(statement: &[String]) -> Option<Base> {
    let after = |word: &str| statement.iter().position(|token| token == word).map(|at| &statement[at + 1..]);
    let known = |name: &str| {
        Some(match name {
            "raw" => -300,
            "mangle" => -150,
            "dstnat" => -100,
            "filter" => 0,
            "security" => 50,
            "srcnat" => 100,
            other => other.parse::<i64>().ok()?,
        })
    };
    let priority = after("priority").map_or(Some(0), |rest| {
        let first = known(rest.first()?)?;
        match (rest.get(1).map(String::as_str), rest.get(2).and_then(|more| more.parse::<i64>().ok())) {
            (Some("+"), Some(more)) => first.checked_add(more),
            (Some("-"), Some(less)) => first.checked_sub(less),
            _ => Some(first),
        }
    });
    let devices = match (after("device"), after("devices")) {
        (Some(one), _) => one.first().cloned().into_iter().collect(),
        (None, Some(rest)) => rest.iter().position(|token| token == "{").and_then(|at| braced(&rest[at..]))?.0,
        (None, None) => Vec::new(),
    };
    Some(Base { hook: after("hook")?.first()?.clone(), priority: priority?, devices })
}

/// The first words of the elements between braces, and the number of tokens; `None` for those of a map, or of several
/// values.
fn braced(tokens: &[String]) -> Option<(Vec<String>, usize)> {
    let end = tokens.iter().position(|token| token == "}")?;
    let mut found = Vec::new();
    for element in tokens[1..end].split(|token| token == ",").filter(|element| !element.is_empty()) {
        if element.iter().any(|token| [":", "."].contains(&token.as_str())) {
            return None;
        }
        found.push(element[0].clone());
    }
    Some((found, end + 1))
}

/// A rule that is being read.
struct Expression<'r> {
    tokens: &'r [String],
    next: usize,
    sets: &'r BTreeMap<ChainName, Vec<String>>,
    table: &'r ChainName,
    conditions: Conditions,
    untold: Option<String>,
    rule: Rule,
}

impl Expression<'_> {
    fn peek(&self) -> &str {
        self.tokens.get(self.next).map_or("", String::as_str)
    }

    fn take(&mut self) -> String {
        self.next += 1;
        self.tokens.get(self.next - 1).cloned().unwrap_or_default()
    }

    fn read(&mut self) {
        while self.next < self.tokens.len() {
            let begin = self.next;
            if self.part().is_none() {
                let end = self.next.max(begin + 1).min(self.tokens.len());
                self.untold.get_or_insert(format!("\"{}\"", self.tokens[begin..end].join(" ")));
                self.next = end;
            }
        }
    }

    /// Reads one condition or statement; `None` if it is unknown.
    fn part(&mut self) -> Option<()> {
        let first = self.take();
        match first.as_str() {
            "meta" => self.meta(),
            "mark" | "iif" | "iifname" | "oif" | "oifname" | "l4proto" | "nfproto" | "priority" => {
                self.next -= 1;
                self.meta()
            }
            "ct" if self.peek() == "mark" => {
                self.next += 1;
                self.mark(true)
            }
            "ip" | "ip6" => self.address(&first),
            "tcp" | "udp" | "th" => self.port(&first),
            "counter" => {
                while ["packets", "bytes", "name"].contains(&self.peek()) {
                    self.next += 2;
                }
                Some(())
            }
            "comment" => {
                self.next += 1;
                Some(())
            }
            "log" => {
                while ["prefix", "level", "flags", "group", "snaplen", "queue-threshold"].contains(&self.peek()) {
                    self.next += 2;
                }
                Some(())
            }
            "notrack" | "continue" | "drop" | "reject" | "masquerade" => Some(()),
            "accept" => self.ends_with(Action::Accept),
            "return" => self.ends_with(Action::Return),
            "jump" => {
                let to = self.take();
                self.ends_with(Action::Jump(to))
            }
            "goto" => {
                let to = self.take();
                self.ends_with(Action::Goto(to))
            }
            _ => None,
        }
    }

    fn ends_with(&mut self, action: Action) -> Option<()> {
        self.rule.actions.push(action);
        Some(())
    }

    fn meta(&mut self) -> Option<()> {
        match self.take().as_str() {
            "mark" => self.mark(false),
            "priority" if self.peek() == "set" => {
                self.next += 1;
                let text = self.take();
                let class = Classid::parse(&text).filter(|_| text.contains(':'));
                if class.is_none() && !["none", "root", "0"].contains(&text.as_str()) {
                    self.rule.actions.push(Action::Class(None));
                    return None;
                }
                self.ends_with(Action::Class(class))
            }
            side @ ("iif" | "iifname" | "oif" | "oifname") => {
                let input = side.starts_with('i');
                let (negated, names) = self.values()?;
                let found = Some(Interface { names, negated });
                *(if input { &mut self.rule.input } else { &mut self.rule.output }) = found;
                Some(())
            }
            "l4proto" => {
                let (negated, values) = self.values()?;
                let all = values.iter().map(|name| protocol(name)).collect::<Option<Vec<_>>>()?;
                self.hold(negated, all);
                Some(())
            }
            "nfproto" | "protocol" => {
                let (negated, values) = self.values()?;
                let family = |name: &String| match name.as_str() {
                    "ipv4" | "ip" => Some("ip".to_owned()),
                    "ipv6" | "ip6" => Some("ip6".to_owned()),
                    _ => None,
                };
                let all = values.iter().map(family).collect::<Option<Vec<_>>>()?;
                self.hold(negated, all);
                Some(())
            }
            _ => None,
        }
    }

    fn hold(&mut self, negated: bool, list: Vec<String>) {
        if negated {
            self.conditions.not.extend(list);
        } else {
            self.conditions.lists.push(list);
        }
    }

    /// Reads values to compare with, and true for a negated comparison.
    fn values(&mut self) -> Option<(bool, Vec<String>)> {
        let negated = match self.peek() {
            "!=" | "ne" => true,
            "==" | "eq" => false,
            "<" | ">" | "<=" | ">=" | "lt" | "gt" | "le" | "ge" | "vmap" | "map" | "." | "&" | "and" | "" => {
                return None;
            }
            _ => {
                self.next -= 1;
                false
            }
        };
        self.next += 1;
        if self.peek() == "{" {
            let (found, length) = braced(&self.tokens[self.next..])?;
            self.next += length;
            return Some((negated, found));
        }
        let value = self.take();
        if [".", "vmap", "map"].contains(&self.peek()) {
            return None;
        }
        match value.strip_prefix('@') {
            // An empty set is filled by others.
            Some(set) => {
                let name = ChainName { chain: set.to_owned(), ..self.table.clone() };
                self.sets.get(&name).filter(|found| !found.is_empty()).map(|found| (negated, found.clone()))
            }
            None => (!value.starts_with('$') && !value.is_empty()).then(|| (negated, vec![value])),
        }
    }

    /// A mark that is set or asked for, behind its name.
    fn mark(&mut self, of_connection: bool) -> Option<()> {
        if self.peek() == "set" {
            self.next += 1;
            let Some(found) = self.changes(of_connection) else {
                // A map, or what no frame shows: the mark is not known from here on.
                self.rule.actions.push(Action::Unknown);
                let behind = self.tokens[self.next..].iter().position(|token| token == "}");
                self.next = behind.map_or(self.tokens.len(), |at| self.next + at + 1);
                return Some(());
            };
            self.rule.actions.extend(found);
            return Some(());
        }
        let mut mask = u32::MAX;
        if ["and", "&"].contains(&self.peek()) {
            self.next += 1;
            mask = number(&self.take())?;
        }
        let (negated, values) = self.values()?;
        // Of several values any may be met, which a list of tests does not say, but for those that must not be.
        if values.len() > 1 && !negated {
            return None;
        }
        for text in values {
            let (value, under) = text.split_once('/').unwrap_or((&text, ""));
            let mask = if under.is_empty() { mask } else { number(under)? };
            self.rule.tests.push(Test { of_connection, value: number(value)?, mask, negated });
        }
        Some(())
    }

    /// `0x10`, `mark and 0xff or 0x10`, `ct mark`.
    fn changes(&mut self, of_connection: bool) -> Option<Vec<Action>> {
        let first = self.take();
        let (from, mut change) = match first.as_str() {
            "ct" | "meta" if self.peek() == "mark" => {
                self.next += 1;
                (Some(first == "ct"), Change { mask: 0, value: 0 })
            }
            "mark" => (Some(false), Change { mask: 0, value: 0 }),
            text => (None, Change::to(number(text)?)),
        };
        let mut sets = false;
        while let "and" | "&" | "or" | "|" | "xor" | "^" = self.peek() {
            let sign = self.take();
            let bits = number(&self.take())?;
            match sign.as_str() {
                // It has a higher precedence than the preceding operator.
                "and" | "&" if sets => return None,
                "and" | "&" => change = Change { mask: change.mask | !bits, value: change.value & bits },
                "or" | "|" => change = Change { mask: change.mask | bits, value: change.value | bits },
                _ => change.value ^= bits,
            }
            sets = !["and", "&"].contains(&sign.as_str());
        }
        let all = (u32::MAX, u32::MAX);
        let (frame, connection) = all;
        let own = if of_connection { Action::Connection(change) } else { Action::Mark(change) };
        Some(match from {
            Some(from) if from == of_connection => vec![own],
            Some(true) => vec![Action::Restore { frame, connection }, own],
            Some(false) => vec![Action::Save { frame, connection }, own],
            None => vec![own],
        })
    }

    fn address(&mut self, family: &str) -> Option<()> {
        let field = self.take();
        if self.peek() == "set" {
            // The field of a frame that leaves is another one then, which only matches on it would see.
            self.next += 2;
            return Some(());
        }
        let (negated, values) = self.values()?;
        let all: Vec<String> = match field.as_str() {
            "saddr" | "daddr" => {
                let side = if field == "saddr" { "src" } else { "dst" };
                let nets = values.iter().map(|text| networks(text, family == "ip6")).collect::<Option<Vec<_>>>()?;
                nets.into_iter().flatten().map(|net| format!("{side} {net}")).collect()
            }
            "protocol" | "nexthdr" => values.iter().map(|name| protocol(name)).collect::<Option<_>>()?,
            "dscp" => values.iter().map(|code| format!("dscp {code}")).collect(),
            _ => return None,
        };
        self.conditions.lists.push(vec![family.to_owned()]);
        self.hold(negated, all);
        Some(())
    }

    fn port(&mut self, of: &str) -> Option<()> {
        let side = match self.take().as_str() {
            "sport" => "src",
            "dport" => "dst",
            _ => return None,
        };
        if of != "th" {
            self.conditions.lists.push(vec![of.to_owned()]);
        }
        let (negated, values) = self.values()?;
        let all = values.iter().map(|range| ports(range, '-')).collect::<Option<Vec<_>>>()?;
        self.hold(negated, all.into_iter().map(|range| format!("{side} port {range}")).collect());
        Some(())
    }
}

/// An address, a prefix or a range of addresses as prefixes.
fn networks(text: &str, v6: bool) -> Option<Vec<String>> {
    let Some((first, last)) = text.split_once('-') else { return prefix(text, v6).ok().map(|net| vec![net]) };
    let [first, last] = [first, last].map(|address| address.parse::<Ipv4Addr>().ok().map(u32::from));
    let (mut at, last) = (u64::from(first?), u64::from(last?));
    let mut found = Vec::new();
    while at <= last {
        let aligned = if at == 0 { 32 } else { at.trailing_zeros().min(32) };
        let bits = (0..=aligned).rev().find(|&bits| at + (1 << bits) - 1 <= last)?;
        found.push(format!("net {}/{}", Ipv4Addr::from(u32::try_from(at).ok()?), 32 - bits));
        at += 1 << bits;
    }
    Some(found)
}
