//! `fairlink ctl reload`, `ctl rate` and `ctl scheduler`: changes of a running gateway.

use std::io::BufRead;
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use fairlink_config::{SourceText, written_out};
use fairlink_core::Rate;
use fairlink_net::{
    ClassChange, Fate, LinkChange, ReloadRequest, Reloaded, ReloadedLink, ReloadedLinks, Wanted, control,
};
use fairlink_report::{Document, Terms};

use super::unanswered;
use fairlink_terminal::args;
use fairlink_terminal::failure::CliError;
use fairlink_terminal::human;
use fairlink_terminal::out::{Out, note};

/// Name of the link in `ctl rate`.
const LINK: &str = "link";

/// File to load, and targets for the packets of removed classes.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ReloadArgs {
    /// The link, of a gateway with several links.
    #[arg(long, value_name = "NAME")]
    pub(super) link: Option<String>,
    /// The link file [default: the gateway's current file, read again].
    file: Option<PathBuf>,
    /// Move the packets of the removed class OLD to the class NEW; without it they are dropped and counted.
    #[arg(long = "move", value_name = "OLD=NEW", value_parser = pair)]
    moves: Vec<(String, String)>,
    /// Only print what would change.
    #[arg(long)]
    dry_run: bool,
}

/// Arguments of `ctl rate`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct RateArgs {
    /// The link, of a gateway with several links.
    #[arg(long, value_name = "NAME")]
    pub(super) link: Option<String>,
    /// The class, or `link`.
    class: String,
    /// Its guarantee from now on, such as 20mbit; `-` for a rate in each line of standard input.
    #[arg(value_parser = rate)]
    rate: Source,
    /// Its ceiling instead of its guarantee.
    #[arg(long)]
    ceiling: bool,
    /// Only print what would change.
    #[arg(long)]
    dry_run: bool,
}

/// Scheduler to run.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct SchedulerArgs {
    /// The link, of a gateway with several links.
    #[arg(long, value_name = "NAME")]
    pub(super) link: Option<String>,
    /// The scheduler; see `fairlink schedulers`.
    name: String,
    /// Ignore settings that it does not support.
    #[arg(long)]
    lenient: bool,
    /// Only print what would change.
    #[arg(long)]
    dry_run: bool,
}

/// Source of rates.
#[derive(Clone, Copy, Debug)]
enum Source {
    Given(Rate),
    Lines,
}

fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((old, new)) if !old.is_empty() && !new.is_empty() => Ok((old.to_owned(), new.to_owned())),
        _ => Err("write OLD=NEW: the name of a class of the old file and of one of the new file".to_owned()),
    }
}

fn rate(text: &str) -> Result<Source, String> {
    if text == "-" { Ok(Source::Lines) } else { args::rate(text).map(Source::Given) }
}

/// Has the gateway take a link file.
pub(super) fn reload(args: &ReloadArgs, path: &Path, link: Option<&str>, out: &mut Out) -> Result<(), CliError> {
    let text = match &args.file {
        None => None,
        Some(file) => {
            // The tables that it names are read here: the gateway may not be allowed to.
            let text = written_out(&SourceText::read(file)?)?.inner().to_owned();
            // The gateway may run elsewhere, and reads it again by this name.
            let name = std::path::absolute(file).unwrap_or_else(|_| file.clone());
            Some((name.display().to_string(), text))
        }
    };
    let (link, moves) = (link.map(str::to_owned), args.moves.clone());
    let request = ReloadRequest { link, text, moves, dry_run: args.dry_run };
    let reloaded = control::reload(path, &request).map_err(unanswered)?;
    if out.json {
        return out.document(&Document::new(reloaded));
    }
    match &reloaded.links[..] {
        [only] if reloaded.opened.is_empty() && reloaded.closed.is_empty() && only.was.is_none() => {
            show(&only.reloaded, out)
        }
        links => {
            for link in links {
                out.paragraph(&format!("link {}", link.link), 2)?;
                show(&link.reloaded, out)?;
            }
            comings(&reloaded).iter().try_for_each(|line| out.paragraph(line, 2))?;
            if links.is_empty() && !reloaded.committed {
                out.line("dry run: nothing was changed")?;
            }
            Ok(())
        }
    }
}

/// Describes opened, closed and renamed links, one per line; in a dry run, those that would be.
pub(crate) fn comings(reloaded: &ReloadedLinks) -> Vec<String> {
    let [opens, closes, is_called] = match reloaded.committed {
        true => [
            "opened",
            "is closing: queued packets are still sent; its final statistics are printed when the gateway ends",
            "renamed to",
        ],
        false => ["would be opened", "would be closed", "would be renamed to"],
    };
    let mut lines = Vec::new();
    for ReloadedLink { link, was, .. } in &reloaded.links {
        lines.extend(was.as_ref().map(|was| format!("link {was} {is_called} {link}")));
    }
    for LinkChange { link, input, output, why, .. } in &reloaded.closed {
        let why = why.as_ref().map(|why| format!(" ({why})")).unwrap_or_default();
        lines.push(format!("link {link}, {input} to {output}, {closes}{why}"));
    }
    for LinkChange { link, input, output, notes, .. } in &reloaded.opened {
        lines.push(format!("link {link}, {input} to {output}, {opens}"));
        lines.extend(notes.iter().map(|text| format!("note: {link}: {text}")));
    }
    lines
}

/// Sets a rate, or each that a program writes.
pub(super) fn set_rate(args: &RateArgs, path: &Path, link: Option<&str>, out: &mut Out) -> Result<(), CliError> {
    let wanted = |rate| match (args.class.as_str(), args.ceiling) {
        (LINK, false) => Ok(Wanted::LinkRate { rate }),
        (LINK, true) => Err(CliError::wrong("the link has a rate and no ceiling; remove --ceiling")),
        (class, false) => Ok(Wanted::Guarantee { class: class.to_owned(), rate }),
        (class, true) => Ok(Wanted::Ceiling { class: class.to_owned(), rate }),
    };
    match args.rate {
        Source::Given(rate) => ask(path, link, &wanted(rate)?, args.dry_run, out),
        Source::Lines => {
            let mut refused = 0;
            for line in std::io::stdin().lock().lines() {
                let line = line.map_err(|error| CliError::failed(anyhow!("cannot read standard input: {error}")))?;
                let text = line.trim();
                if text.is_empty() {
                    continue;
                }
                let done = args::rate(text)
                    .map_err(|why| CliError::wrong(format!("{text}: {why}")))
                    .and_then(|rate| ask(path, link, &wanted(rate)?, args.dry_run, out))
                    .and_then(|()| out.flush());
                // One bad line, or a rate that the gateway refuses, is not the end of the others.
                match done {
                    Ok(()) => {}
                    Err(CliError::ClosedPipe) => return Err(CliError::ClosedPipe),
                    Err(failure) => {
                        refused += 1;
                        let _ = failure.report();
                    }
                }
            }
            match refused {
                0 => Ok(()),
                lines => Err(CliError::Failed(anyhow!("{} refused", human::count(lines, "rate was", "rates were")))),
            }
        }
    }
}

/// Has the gateway run another scheduler.
pub(super) fn set_scheduler(
    args: &SchedulerArgs,
    path: &Path,
    link: Option<&str>,
    out: &mut Out,
) -> Result<(), CliError> {
    args::scheduler(&args.name).map_err(CliError::wrong)?;
    ask(path, link, &Wanted::Scheduler { name: args.name.clone(), lenient: args.lenient }, args.dry_run, out)
}

fn ask(path: &Path, link: Option<&str>, wanted: &Wanted, dry_run: bool, out: &mut Out) -> Result<(), CliError> {
    let reloaded = control::change(path, link, wanted, dry_run).map_err(unanswered)?;
    if out.json { out.document(&Document::new(reloaded)) } else { show(&reloaded, out) }
}

/// Prints the changes of a reload, or those of a dry run.
pub(crate) fn show(reloaded: &Reloaded, out: &mut Out) -> Result<(), CliError> {
    reloaded.notes.iter().for_each(note);
    let [before, after] = &reloaded.scheduler;
    if before != after {
        out.paragraph(&format!("scheduler: {before} -> {after}"), 2)?;
    }
    let [before, after] = reloaded.link_bps.map(|bps| human::rate(bps as f64));
    if before != after {
        out.paragraph(&format!("link: {before} -> {after}"), 2)?;
    }
    if reloaded.guarantees_scaled_by < 1.0 {
        out.paragraph(
            &format!(
                "WARNING: guarantees exceed the link rate: all are multiplied by {:.4} until the rate rises",
                reloaded.guarantees_scaled_by
            ),
            2,
        )?;
    }
    let changed: Vec<&ClassChange> =
        reloaded.classes.iter().filter(|class| class.fate != Fate::Kept || class.before != class.after).collect();
    if !changed.is_empty() {
        let head = ["class", "", "guarantee", "share, all busy", "ceiling"];
        out.table(&head, changed.iter().map(|class| row(class)).collect(), 0..0)?;
    }
    let same = reloaded.classes.len() - changed.len();
    if same > 0 {
        out.paragraph(&format!("{} unchanged", human::count(same, "class", "classes")), 2)?;
    }
    let what = match &reloaded.committed {
        None => "dry run: nothing was changed".to_owned(),
        Some(done) => format!(
            "change {}: queued packets: {} kept, {} dropped (class removed), {} dropped (no longer fit); data thread paused for {}",
            done.generation,
            done.kept_packets,
            done.removed_packets,
            done.dropped_packets,
            human::time(done.took_s)
        ),
    };
    out.paragraph(&what, 2)
}

fn row(class: &ClassChange) -> Vec<String> {
    let fate = match (class.fate, &class.moved_to) {
        (Fate::Kept, _) => "kept".to_owned(),
        (Fate::Added, _) => "new".to_owned(),
        (_, Some(heir)) => format!("removed, its packets to {heir}"),
        (_, None) => "removed".to_owned(),
    };
    let both = |of: fn(&Terms) -> Option<u64>| {
        let show = |terms: Option<Terms>| {
            terms.map(|terms| of(&terms).map_or_else(|| "-".to_owned(), |bps| human::rate(bps as f64)))
        };
        match (show(class.before), show(class.after)) {
            (Some(before), Some(after)) if before == after => before,
            (Some(before), Some(after)) => format!("{before} -> {after}"),
            (Some(one), None) | (None, Some(one)) => one,
            (None, None) => String::new(),
        }
    };
    vec![
        class.name.clone(),
        fate,
        both(|terms| terms.guarantee_bps),
        both(|terms| terms.share_all_busy_bps),
        both(|terms| terms.ceiling_bps),
    ]
}
