//! An export of RouterOS as commands: sections, properties, quotes, and lines continued by a backslash.
//!
//! Source: RouterOS' documentation (configuration management, scripting) and exports that people have published, of
//! versions 6 and 7. No scripts are read: an export has values where a script has variables and loops.

use super::super::notes::wrong;
use crate::problem::{Log, Span};

/// `add` or another command, with its section.
#[derive(Clone, Debug)]
pub(super) struct Command {
    /// Such as `queue tree`.
    pub(super) section: String,
    pub(super) verb: String,
    pub(super) properties: Vec<Property>,
    /// Words that are not properties, in commands other than `add`.
    pub(super) words: Vec<String>,
    pub(super) at: Span,
}

/// `name=value`.
#[derive(Clone, Debug)]
pub(super) struct Property {
    pub(super) name: String,
    pub(super) value: String,
    pub(super) at: Span,
}

impl Command {
    /// The value of a property; empty if it is missing.
    pub(super) fn get(&self, name: &str) -> &str {
        self.find(name).map_or("", |property| &property.value)
    }

    pub(super) fn find(&self, name: &str) -> Option<&Property> {
        self.properties.iter().find(|property| property.name == name)
    }

    pub(super) fn is_on(&self, name: &str) -> bool {
        ["yes", "true"].contains(&self.get(name))
    }
}

/// Sections that are read. Others are ignored.
const SECTIONS: [&str; 4] = ["queue tree", "queue simple", "queue type", "ip firewall mangle"];
/// Sections with the surroundings of the queues. Unknown commands there are ignored.
const AROUND: [&str; 6] = [
    "ip firewall address-list",
    "ip firewall filter",
    "ip firewall nat",
    "ip address",
    "ip route",
    "interface list member",
];

const VERBS: [&str; 10] = ["add", "set", "remove", "print", "export", "disable", "enable", "move", "unset", "edit"];

/// A word of a line.
struct Word {
    text: String,
    at: Span,
    /// Offset of the value in `text`, after the first unquoted =.
    value: Option<usize>,
    /// True if a $ or a bracket is outside of quotes, which only scripts have.
    script: bool,
}

/// All commands of the sections that are looked at.
pub(super) fn commands(text: &str, log: &mut Log) -> Vec<Command> {
    let mut commands = Vec::new();
    let mut section = String::new();
    let mut at = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
    while at < text.len() {
        let (words, end) = line(text, at, log);
        at = end;
        let Some(first) = words.first() else { continue };
        if first.text.starts_with(':') {
            let what = format!("\"{}\" is a command of a script", first.text);
            wrong(first.at.clone(), what, "pass the output of /export on the router, which has values instead", log);
            continue;
        }
        let mut rest = &words[..];
        if first.text.starts_with('/') {
            let is_path = |word: &&Word| word.value.is_none() && !word.text.starts_with('[');
            let path: Vec<&str> = rest.iter().take_while(is_path).flat_map(|word| word.text.split('/')).collect();
            let mut path: Vec<&str> = path.into_iter().filter(|part| !part.is_empty()).collect();
            let verb = path.iter().position(|part| VERBS.contains(part));
            let words_of_path = match verb {
                // Words after the verb belong to the command.
                Some(verb) => {
                    let with =
                        rest.iter().position(|word| word.text.split('/').any(|part| part == path[verb])).unwrap_or(0);
                    path.truncate(verb + 1);
                    with
                }
                None => rest.iter().take_while(is_path).count(),
            };
            section = path[..verb.unwrap_or(path.len())].join(" ");
            match verb {
                None => {
                    if let Some(word) = rest.get(words_of_path).filter(|_| SECTIONS.contains(&section.as_str())) {
                        let what = format!("\"{}\" is in the place of a command such as add", word.text);
                        wrong(word.at.clone(), what, "write /queue tree add name=...", log);
                    }
                    continue;
                }
                Some(verb) => {
                    let verb = path[verb].to_owned();
                    rest = &rest[words_of_path + 1..];
                    commands.extend(command(&section, verb, rest, whole(&words), log));
                    continue;
                }
            }
        }
        if section.is_empty() {
            let what = format!("this line begins with \"{}\" outside a section", first.text);
            wrong(
                first.at.clone(),
                what,
                "an export has sections such as /queue tree, and add name=... below them",
                log,
            );
            continue;
        }
        if !SECTIONS.contains(&section.as_str()) && !AROUND.contains(&section.as_str()) {
            continue;
        }
        if !VERBS.contains(&first.text.as_str()) && AROUND.contains(&section.as_str()) {
            continue;
        }
        if !VERBS.contains(&first.text.as_str()) {
            let what = format!("/{section} has no command \"{}\"", first.text);
            wrong(first.at.clone(), what, "write add name=... as an export does", log);
            continue;
        }
        rest = &rest[1..];
        commands.extend(command(&section, first.text.clone(), rest, whole(&words), log));
    }
    commands
}

/// The first of the characters, of a private plane, that stand for bytes until a word is whole.
const FIRST_BYTE: u32 = 0xf_0000;

/// A byte beyond ASCII that is written as two digits.
fn marked(byte: u8) -> char {
    char::from_u32(FIRST_BYTE + u32::from(byte)).unwrap_or('?')
}

/// Decodes escaped bytes as UTF-8, and as ISO 8859-1 if they are not UTF-8, as older versions of RouterOS write.
fn decoded(text: &str) -> String {
    let byte = |c: char| u8::try_from(u32::from(c).wrapping_sub(FIRST_BYTE)).ok();
    let mut made = String::with_capacity(text.len());
    let mut bytes = Vec::new();
    for c in text.chars().map(Some).chain([None]) {
        if let Some(byte) = c.and_then(byte) {
            bytes.push(byte);
            continue;
        }
        match std::str::from_utf8(&bytes) {
            Ok(text) => made.push_str(text),
            Err(_) => made.extend(bytes.iter().map(|&byte| char::from(byte))),
        }
        bytes.clear();
        made.extend(c);
    }
    made
}

fn whole(words: &[Word]) -> Span {
    match (words.first(), words.last()) {
        (Some(first), Some(last)) => first.at.start..last.at.end,
        _ => 0..0,
    }
}

fn command(section: &str, verb: String, words: &[Word], at: Span, log: &mut Log) -> Option<Command> {
    let is_around = AROUND.contains(&section);
    if !is_around && !SECTIONS.contains(&section) {
        return None;
    }
    let mut command = Command { section: section.to_owned(), verb, properties: Vec::new(), words: Vec::new(), at };
    for word in words {
        if is_around && (word.script || word.value.is_none()) {
            return None;
        }
        if word.script && command.verb == "add" {
            let what = format!("\"{}\" is a script expression, whose value is unknown", word.text);
            wrong(word.at.clone(), what, "pass the output of /export on the router, which has values instead", log);
            return None;
        }
        match word.value {
            Some(value) => command.properties.push(Property {
                name: word.text[..value - 1].to_owned(),
                value: decoded(&word.text[value..]),
                at: word.at.clone(),
            }),
            None if command.verb == "add" => {
                let what = format!("\"{}\" is not a property", word.text);
                wrong(word.at.clone(), what, "write name=value", log);
                return None;
            }
            None => command.words.push(word.text.clone()),
        }
    }
    Some(command)
}

/// Reads the words of the line at `start`, including continuation lines. Returns the offset after it.
fn line(text: &str, start: usize, log: &mut Log) -> (Vec<Word>, usize) {
    let mut words: Vec<Word> = Vec::new();
    let mut word: Option<Word> = None;
    let mut quote = None;
    let mut comment = false;
    let mut characters = text[start..].char_indices().peekable();
    while let Some((offset, character)) = characters.next() {
        let at = start + offset;
        let end = at + character.len_utf8();
        if comment && character != '\n' {
            continue;
        }
        let new = || Word { text: String::new(), at: at..end, value: None, script: false };
        match character {
            '\\' if quote.is_some() || !text[end..].trim_start_matches('\r').is_empty() => {
                let next = characters.next().map(|(_, next)| next);
                let goes_on = match next {
                    Some('\r') => characters.next_if(|&(_, c)| c == '\n').is_some(),
                    other => other == Some('\n'),
                };
                if goes_on {
                    // The indentation of the next line is not part of the word.
                    while characters.next_if(|&(_, c)| c == ' ' || c == '\t').is_some() {}
                    continue;
                }
                let word = word.get_or_insert_with(new);
                match next {
                    Some('n') => word.text.push('\n'),
                    Some('r') => word.text.push('\r'),
                    Some('t') => word.text.push('\t'),
                    Some('_') => word.text.push(' '),
                    Some(first) if first.is_ascii_hexdigit() && !first.is_ascii_lowercase() => {
                        // A byte as two digits, of which text beyond ASCII has several: see `decoded`.
                        let second = characters.next_if(|&(_, c)| c.is_ascii_hexdigit()).map_or('0', |(_, c)| c);
                        let byte = u8::from_str_radix(&format!("{first}{second}"), 16).unwrap_or(b'?');
                        word.text.push(if byte.is_ascii() { char::from(byte) } else { marked(byte) });
                    }
                    Some(other) => word.text.push(other),
                    None => {}
                }
                word.at.end = end;
            }
            '\n' if quote.is_none() => {
                words.extend(word);
                return (words, end);
            }
            '"' => {
                let word = word.get_or_insert_with(new);
                quote = if quote.is_some() { None } else { Some(at) };
                word.at.end = end;
            }
            '#' if word.is_none() && words.is_empty() && quote.is_none() => comment = true,
            character if quote.is_none() && character.is_whitespace() => words.extend(word.take()),
            ';' if quote.is_none() => words.extend(word.take()),
            character => {
                let word = word.get_or_insert_with(new);
                if quote.is_none() && ['$', '(', ')', '[', ']', '{', '}'].contains(&character) {
                    word.script = true;
                }
                word.text.push(character);
                if character == '=' && quote.is_none() && word.value.is_none() {
                    word.value = Some(word.text.len());
                }
                word.at.end = end;
            }
        }
    }
    if let Some(quote) = quote {
        let begin = text[..quote].rfind('\n').map_or(0, |at| at + 1);
        wrong(begin.max(start)..quote + 1, "unterminated quote", "close it", log);
        return (Vec::new(), text.len());
    }
    words.extend(word);
    (words, text.len())
}

/// The packet marks that a queue takes.
pub(super) fn marks(command: &Command) -> impl Iterator<Item = &str> {
    let all = ["packet-mark", "packet-marks", "flow"].into_iter().find_map(|name| command.find(name));
    all.map_or("", |property| &property.value).split(',').map(str::trim).filter(|mark| !mark.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::SourceText;

    fn read(text: &str) -> (Vec<Command>, String) {
        let mut log = Log::new(&SourceText::new("a.rsc", text));
        let commands = commands(text, &mut log);
        (commands, if log.has_errors() { log.into_errors().lines() } else { String::new() })
    }

    fn properties(command: &Command) -> Vec<(&str, &str)> {
        command.properties.iter().map(|property| (property.name.as_str(), property.value.as_str())).collect()
    }

    #[test]
    fn sections_full_paths_and_both_kinds_of_slashes_are_the_same() {
        let (commands, errors) = read(
            "# a comment\r\n/queue simple\r\nadd name=a target=10.0.0.1/32\r\n/queue simple add name=b\n/queue/tree/add name=c\n/ip address\nadd address=1.2.3.4/24 interface=\"x y\"\nset [ find default-name=ether1 ] name=wan\n/queue tree add name=d; \n",
        );
        assert_eq!(errors, "");
        let found: Vec<(&str, &str, &str)> = commands
            .iter()
            .map(|command| (command.section.as_str(), command.verb.as_str(), command.get("name")))
            .collect();
        let expected = [
            ("queue simple", "add", "a"),
            ("queue simple", "add", "b"),
            ("queue tree", "add", "c"),
            ("ip address", "add", ""),
            ("queue tree", "add", "d"),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn lines_go_on_behind_a_backslash_also_within_words_and_quotes() {
        let (commands, errors) = read(
            "/queue simple\nadd comment=\"of 5 \\\"big\\\" \\\n    ones = \\E9 \\C3\\B1\" max-limit=5M/20M name=\"PC 1\" pare\\\n    nt=all target=\\\r\n    10.0.0.1/32\n",
        );
        assert_eq!(errors, "");
        let expected = [
            ("comment", "of 5 \"big\" ones = é ñ"),
            ("max-limit", "5M/20M"),
            ("name", "PC 1"),
            ("parent", "all"),
            ("target", "10.0.0.1/32"),
        ];
        assert_eq!(properties(&commands[0]), expected);
    }

    #[test]
    fn scripts_and_what_is_no_command_are_refused_at_their_line() {
        for (text, line, said) in [
            (":local rate 10M\n", 1, "is a command of a script"),
            ("/queue tree\nadd name=a max-limit=$rate\n", 2, "is a script expression"),
            ("/queue tree\n\nadd name=( \"a\" . $i )\n", 3, "is a script expression"),
            ("add name=a\n", 1, "outside a section"),
            ("/queue tree\nlimit name=a\n", 2, "/queue tree has no command \"limit\""),
            ("/queue tree name=a\n", 1, "in the place of a command"),
            ("/queue tree\nadd name=a fast\n", 2, "\"fast\" is not a property"),
            ("/queue tree\nadd name=\"a\nadd name=b\n", 2, "unterminated quote"),
        ] {
            let (_, errors) = read(text);
            assert!(errors.starts_with(&format!("a.rsc:{line}:")) && errors.contains(said), "{text}: {errors}");
        }
    }
}
