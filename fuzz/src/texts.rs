//! Recordings, scripts of the HTB text, tc commands and configurations of other tools, of any content: reading ends in a value or an error that can
//! be shown, what was read can be played, and what was imported is a link file.

use fairlink_config::SourceText;
use fairlink_config::import::{IMPORTS, ImportError, ImportInfo, Number, OptionKind, Options};
use fairlink_config::tc::{self, ImportOptions};
use fairlink_traffic::{Accept, Script, read_trace};

/// Tries one input.
pub(crate) fn run(data: &[u8]) {
    let [kind, flags, rest @ ..] = data else { return };
    let (kind, flags) = (usize::from(*kind), *flags);
    match kind % (3 + IMPORTS.len()) {
        0 => {
            let accept = Accept {
                unsorted: flags & 4 != 0,
                truncated: flags & 8 != 0,
                cut: flags & 16 != 0,
                link_type: flags & 32 != 0,
            };
            match read_trace(rest, accept, flags & 64 != 0, |recorded| recorded.bytes.first() != Some(&0xff)) {
                Ok(trace) => {
                    assert!(trace.packets().is_sorted_by_key(|packet| packet.at));
                    assert!(trace.period() > trace.packets().last().map_or_else(Default::default, |last| last.at));
                }
                Err(error) => assert!(!error.to_string().is_empty()),
            }
        }
        1 => match Script::parse(&String::from_utf8_lossy(rest)) {
            Ok(script) => {
                let _ = script.interfaces();
            }
            Err(errors) => assert!(!errors.is_empty()),
        },
        2 => match tc::import("fuzz.tc", String::from_utf8_lossy(rest), &ImportOptions::default()) {
            Ok(_) => {}
            Err(problems) => assert!(!problems.lines().is_empty()),
        },
        kind => imported(&IMPORTS[kind - 3], flags, &String::from_utf8_lossy(rest)),
    }
}

/// Reads a configuration of another tool: texts with a zero byte between them, and options by the bits of `flags`. What
/// is handed out was read as a link file already.
fn imported(tool: &ImportInfo, flags: u8, text: &str) {
    let mut options = Options::default();
    for (at, option) in tool.options.iter().enumerate() {
        let bits = usize::from(flags) >> at;
        options = match option.kind {
            OptionKind::Rate if option.required || bits & 1 == 0 => options.with(option.key, "1gbit"),
            OptionKind::Choice(words) => options.with(option.key, words[words.len() - 1 - bits % words.len()].0),
            OptionKind::Flag if bits & 1 != 0 => options.with(option.key, true),
            OptionKind::Rate | OptionKind::Name | OptionKind::Flag => options,
        };
    }
    let is_one = tool.files.len() == 1 && tool.files[0].number == Number::One;
    let parts = text.split(|c| c == '\0' && !is_one);
    let sources: Vec<_> = parts.map(|text| SourceText::new(tool.files[0].name, text)).collect();
    match tool.read(&sources, &options) {
        Ok(made) => assert!(!made.links.is_empty()),
        Err(ImportError::Text(problems)) => assert!(!problems.lines().is_empty()),
        Err(ImportError::Argument { message, .. }) => assert!(!message.is_empty()),
    }
}
