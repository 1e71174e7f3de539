//! Trees of ALTQ as link files.

use std::fmt::Write as _;

use super::queues::{Class, Discipline, Tree};
use crate::commands::setup::UNASSURED;
use crate::import::Draft;
use crate::import::plan::ClassNames;
use crate::toml_text::{DEFAULT_LEAF, comment, curve_key, line, quoted};
use crate::units::rate_key;

/// A frame with its Ethernet header, in bytes.
const FRAME: u64 = 1514;
const WRITING: &str = "writing to memory does not fail";

/// Form of the classes in the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Hls,
    Cbq,
    Hfsc,
    Htb,
}

impl Form {
    fn scheduler(self) -> &'static str {
        match self {
            Self::Hls => "hls",
            Self::Cbq => "cbq-top-level",
            Self::Hfsc => "hfsc",
            Self::Htb => "htb",
        }
    }
}

/// Writes the link, and for CBQ the same under CBQ.
pub(super) fn link(tree: &Tree, origin: &str, as_is: bool) -> Draft {
    let head = format!("From {origin} by `fairlink import pf`.");
    let (text, before) = match tree.discipline {
        Discipline::Hfsc => (written(tree, &head, Form::Hfsc), None),
        Discipline::Priq => (written(tree, &head, Form::Htb), None),
        Discipline::Cbq => {
            let cbq = written(tree, &head, Form::Cbq);
            (if as_is { cbq.clone() } else { written(tree, &head, Form::Hls) }, Some(cbq))
        }
    };
    Draft { name: tree.stem.clone(), text, tabled: None, before, idle: Vec::new() }
}

fn written(tree: &Tree, head: &str, form: Form) -> String {
    let mut names = ClassNames::default();
    let names: Vec<String> = tree.classes.iter().map(|class| names.make(&class.name)).collect();
    let mut text = comment(head);
    text.push_str("[link]\n");
    writeln!(text, "{:<26}# {}", format!("rate = {}", quoted(&rate_key(tree.rate))), tree.rate_why).expect(WRITING);
    line(&mut text, "scheduler", form.scheduler());
    writeln!(text, "{:<26}# a frame with its Ethernet header", format!("mtu = \"{FRAME}B\"")).expect(WRITING);
    line(&mut text, "default", &names[tree.default]);
    for (class, name) in tree.classes.iter().zip(&names) {
        text.push_str("\n[[class]]\n");
        line(&mut text, "name", name);
        if let Some(parent) = class.parent {
            line(&mut text, "parent", &names[parent]);
        }
        shares(class, form, &mut text);
        if class.inner {
            continue;
        }
        writeln!(text, "buffer = \"{}p\"", class.buffer).expect(WRITING);
        match (class.kind, form) {
            // pf has no other queue than a fifo where none is chosen.
            ("fifo", Form::Hls) => line(&mut text, "queue", DEFAULT_LEAF),
            ("fifo", _) => {}
            (kind, _) => line(&mut text, "queue", kind),
        }
        if class.ecn {
            text.push_str("ecn = true\n");
        }
        if !class.matches.is_empty() {
            let matches: Vec<String> = class.matches.iter().map(|text| quoted(text)).collect();
            writeln!(text, "match = [{}]", matches.join(", ")).expect(WRITING);
        }
    }
    text
}

fn shares(class: &Class, form: Form, text: &mut String) {
    match form {
        Form::Hls => {
            line(text, "guarantee", &rate_key(class.bandwidth));
            if !class.borrow {
                line(text, "ceiling", &rate_key(class.bandwidth));
            }
        }
        Form::Cbq => {
            line(text, "guarantee", &rate_key(class.bandwidth));
            if !class.borrow {
                text.push_str("bounded = true\n");
            }
            if !class.inner {
                writeln!(text, "priority = {}", 7 - class.priority).expect(WRITING);
            }
        }
        Form::Hfsc => {
            let curves =
                [("link_share", class.link_share), ("real_time", class.real_time), ("upper_limit", class.upper_limit)];
            for (key, curve) in curves {
                if let Some(curve) = curve {
                    let first = curve.first.map(|(first, ms)| (first, format!("{ms}ms")));
                    writeln!(text, "{key} = {}", curve_key(first, curve.rate)).expect(WRITING);
                }
            }
        }
        Form::Htb => {
            line(text, "guarantee", &rate_key(UNASSURED));
            writeln!(text, "priority = {}", class.priority).expect(WRITING);
        }
    }
}
