//! `fairlink diff`: differences between two link files, and their effects on classes.

use std::path::PathBuf;

use fairlink_api::{ClassDiff, DiffKind, KeyDiff, LinkDiff, ValueDiff, diff};
use fairlink_config::{SourceText, human};

use fairlink_terminal::failure::CliError;
use fairlink_terminal::out::Out;
use fairlink_terminal::style::warn;

/// Two files.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The old link file. Templates and tables of classes are expanded before the comparison.
    old: PathBuf,
    /// The new link file. Classes are matched by name; one with another name is a new class.
    new: PathBuf,
}

/// Compares and prints.
pub(crate) fn run(args: &Args, out: &mut Out) -> Result<(), CliError> {
    let (diff, warnings) = diff(&SourceText::read(&args.old)?, &SourceText::read(&args.new)?)?;
    if out.json {
        return out.document(&diff);
    }
    warn(warnings);
    let diff = diff.content;
    if diff.same {
        return out.line("No difference: the same links, classes and keys.");
    }
    for (place, link) in diff.links.iter().enumerate() {
        if place > 0 {
            out.line("")?;
        }
        text(link, out)?;
    }
    Ok(())
}

fn text(link: &LinkDiff, out: &mut Out) -> Result<(), CliError> {
    let name = link.name.as_deref().map_or_else(|| "link".to_owned(), |name| format!("link {name}"));
    match link.change {
        DiffKind::New => return out.line(format!("+ {name}")),
        DiffKind::Gone => return out.line(format!("- {name}")),
        DiffKind::Changed | DiffKind::Affected => {}
    }
    if !link.keys.is_empty() {
        out.paragraph(&format!("~ {name}: {}", in_words(&link.keys)), 4)?;
    }
    for class in link.classes.iter().filter(|class| class.change != DiffKind::Affected) {
        let (mark, keys) = match class.change {
            DiffKind::New => ("+", in_words(&class.keys)),
            DiffKind::Gone => ("-", String::new()),
            _ => ("~", in_words(&class.keys)),
        };
        let colon = if keys.is_empty() { "" } else { ": " };
        out.paragraph(&format!("{mark} {}{colon}{keys}", class.name), 4)?;
    }
    let rate = |bps: u64| human::rate(bps as f64);
    let columns: [(&str, Cell<'_>); 3] = [
        ("share, all busy", &|class| of(class.share_all_busy_bps, rate, |bps| bps as f64)),
        ("delay bound", &|class| of(class.delay_bound_s, |s| human::time(human::up(s)), |s| s)),
        ("maximum rate", &|class| of(class.most_bps, rate, |bps| bps as f64)),
    ];
    let columns: Vec<_> =
        columns.iter().filter(|(_, cell)| link.classes.iter().any(|class| cell(class).is_some())).collect();
    let row = |class: &ClassDiff| {
        let cells: Vec<Option<String>> = columns.iter().map(|(_, cell)| cell(class)).collect();
        let any = cells.iter().any(Option::is_some);
        let cells = cells.into_iter().map(Option::unwrap_or_default);
        any.then(|| std::iter::once(class.name.clone()).chain(cells).collect::<Vec<String>>())
    };
    let rows: Vec<_> = link.classes.iter().filter_map(row).collect();
    if rows.is_empty() {
        return Ok(());
    }
    out.line("")?;
    let head: Vec<&str> = ["class"].into_iter().chain(columns.iter().map(|&&(title, _)| title)).collect();
    out.table(&head, rows, 0..0)
}

/// A cell of the table; `None` if nothing changes.
type Cell<'a> = &'a dyn Fn(&ClassDiff) -> Option<String>;

fn in_words(keys: &[KeyDiff]) -> String {
    let each = |KeyDiff { key, old, new }: &KeyDiff| match (old, new) {
        (None, Some(new)) => format!("{key} {new}"),
        (old, new) => {
            let [old, new] = [old, new].map(|value| value.as_deref().unwrap_or("default"));
            format!("{key} {old} -> {new}")
        }
    };
    keys.iter().map(each).collect::<Vec<_>>().join(", ")
}

/// Both values and the difference in percent.
fn of<T: Copy>(change: Option<ValueDiff<T>>, show: impl Fn(T) -> String, number: impl Fn(T) -> f64) -> Option<String> {
    let ValueDiff { old, new } = change?;
    Some(match (old, new) {
        (Some(old), Some(new)) => {
            let percent = match number(old) {
                0.0 => String::new(),
                before => format!(" ({:+.1} %)", 100.0 * (number(new) - before) / before),
            };
            format!("{} -> {}{percent}", show(old), show(new))
        }
        (None, Some(new)) => format!("- -> {}", show(new)),
        (Some(old), None) => format!("{} -> -", show(old)),
        (None, None) => return None,
    })
}
