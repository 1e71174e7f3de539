//! `fairlink ctl watch`: rates, ideals and delays of a running gateway, again and again.
//!
//! One thread asks the gateway; this one draws, looks for Ctrl-C, and sees to it that the terminal is as it was in the
//! end. So a gateway that does not answer holds up neither.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use console::Term;
use fairlink_core::Nanos;
use fairlink_net::{ControlError, GatewayStats, Watch};

use super::rates::{self, View};
use super::stats::{interval, of_links, pause};
use super::unanswered;
use crate::gateway_stats::document;
use fairlink_terminal::failure::CliError;
use fairlink_terminal::interrupt::stop_flag;
use fairlink_terminal::out::{Out, note};

/// Classes, interval and number of tables.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Interval of the tables and of their rates.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = interval)]
    interval: Nanos,
    /// End after this number of tables.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Only this link, of a gateway with several links.
    #[arg(long, value_name = "NAME")]
    link: Option<String>,
    /// Only this class, with its descendants.
    #[arg(long, value_name = "NAME")]
    class: Option<String>,
}

/// Interval of polling for Ctrl-C and a new size of the terminal.
const NAP: Duration = Duration::from_millis(50);

/// The statistics of all links, or why there are none.
type News = Result<Vec<GatewayStats>, ControlError>;

/// Watches until Ctrl-C, or until it has shown as many as it should.
pub(super) fn run(args: &Args, socket: &Path, out: &mut Out) -> Result<(), CliError> {
    let stop = stop_flag()?;
    // A gateway that is not there at the start is a mistake; one that ends later may come back.
    let mut watch = Watch::connect(socket).map_err(unanswered)?;
    let span = Duration::from_nanos(args.interval.0);
    let first = of_links(&mut watch, args.link.as_deref(), Some(span)).map_err(unanswered)?;
    if let Some(name) = &args.class
        && !first.iter().flat_map(|stats| &stats.classes).any(|class| class.name == *name)
    {
        return Err(CliError::wrong(format!("--class: the gateway has no class {name:?}; omit --class to show all")));
    }
    let (news, from) = sync_channel(1);
    let asking = Asking { socket: socket.to_owned(), link: args.link.clone(), span, stop: Arc::clone(&stop), news };
    // It ends with the process where the gateway does not answer.
    let _ = std::thread::Builder::new()
        .name("asking".to_owned())
        .spawn(move || asking.run(watch))
        .map_err(CliError::failed)?;
    if out.json {
        return tell(args, &from, &stop, |links| out.json_line(&document(links)).and_then(|()| out.flush()));
    }
    if !out.is_terminal() {
        let view = View { class: args.class.clone(), width: out.width().unwrap_or(100), lines: None };
        return tell(args, &from, &stop, |links| {
            for stats in links {
                rates::lines(stats, &view).iter().try_for_each(|line| out.line(line))?;
                out.line("")?;
            }
            out.flush()
        });
    }
    let last = on_screen(args, first, &from, &stop)?;
    // A limited number of tables stays on the screen.
    if args.count.is_some() {
        last.iter().try_for_each(|line| out.line(line))?;
    }
    Ok(())
}

/// Hands each interval to `show`.
fn tell(
    args: &Args,
    news: &Receiver<News>,
    stop: &AtomicBool,
    mut show: impl FnMut(&[GatewayStats]) -> Result<(), CliError>,
) -> Result<(), CliError> {
    let (mut left, mut silent) = (args.count.unwrap_or(u64::MAX), false);
    while left > 0 && !stop.load(Ordering::Relaxed) {
        match news.recv_timeout(NAP) {
            Ok(Ok(links)) => {
                silent = false;
                // The first of a gateway that has come back has nothing to compare with.
                if links.iter().all(|stats| stats.interval().is_some()) {
                    show(&links)?;
                    left -= 1;
                }
            }
            Ok(Err(error)) => {
                if !std::mem::replace(&mut silent, true) {
                    note(format!("{error}; retrying"));
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    Ok(())
}

/// The thread that queries the gateway.
struct Asking {
    socket: PathBuf,
    link: Option<String>,
    span: Duration,
    stop: Arc<AtomicBool>,
    news: SyncSender<News>,
}

impl Asking {
    /// Queries at intervals, and reconnects if the gateway has gone.
    fn run(self, watch: Watch) {
        let mut watch = Some(watch);
        let mut due = Instant::now() + self.span;
        while !pause(due.saturating_duration_since(Instant::now()), &self.stop) {
            due = (due + self.span).max(Instant::now());
            let news = match &mut watch {
                Some(watch) => of_links(watch, self.link.as_deref(), Some(self.span)),
                None => Watch::connect(&self.socket).and_then(|mut new| {
                    let stats = of_links(&mut new, self.link.as_deref(), Some(self.span));
                    watch = Some(new);
                    stats
                }),
            };
            if news.is_err() {
                watch = None;
            }
            if self.news.send(news).is_err() {
                return;
            }
        }
    }
}

/// Draws on the terminal. Returns the last table.
fn on_screen(
    args: &Args,
    first: Vec<GatewayStats>,
    news: &Receiver<News>,
    stop: &AtomicBool,
) -> Result<Vec<String>, CliError> {
    let term = Term::stdout();
    let mut screen = Screen::open(term.clone())?;
    let (mut links, mut trouble) = (first, None);
    let (mut left, mut drawn_for) = (args.count.unwrap_or(u64::MAX), None);
    loop {
        let size = term.size();
        if drawn_for != Some(size) {
            screen.draw(&page(args, &links, trouble.as_deref(), size), size)?;
            drawn_for = Some(size);
        }
        if left == 0 || stop.load(Ordering::Relaxed) {
            break;
        }
        match news.recv_timeout(NAP) {
            Ok(Ok(new)) => {
                left -= u64::from(new.iter().all(|stats| stats.interval().is_some()));
                (links, trouble, drawn_for) = (new, None, None);
            }
            Ok(Err(error)) => (trouble, drawn_for) = (Some(format!("{error}; retrying")), None),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    let (_, columns) = term.size();
    let view = View { class: args.class.clone(), width: columns.into(), lines: None };
    Ok(links.iter().flat_map(|stats| rates::lines(stats, &view)).collect())
}

/// Formats a page for a terminal of this size.
fn page(args: &Args, links: &[GatewayStats], trouble: Option<&str>, (rows, columns): (u16, u16)) -> Vec<String> {
    let (rows, columns) = (usize::from(rows).max(1), usize::from(columns).max(20));
    let head = trouble.map(|trouble| console::truncate_str(trouble, columns, "…").into_owned());
    let room = rows - usize::from(head.is_some()).min(rows - 1);
    // A blank line between two links.
    let each = ((room + 1) / links.len().max(1)).saturating_sub(1);
    let view = View { class: args.class.clone(), width: columns, lines: Some(each) };
    let mut page: Vec<String> = head.into_iter().collect();
    for (at, stats) in links.iter().enumerate() {
        if at > 0 {
            page.push(String::new());
        }
        page.extend(rates::lines(stats, &view));
    }
    page.truncate(rows);
    page
}

/// A second screen of the terminal, without a cursor. The first one is back, as it was, when this is dropped.
struct Screen(Term);

impl Screen {
    fn open(mut term: Term) -> Result<Self, CliError> {
        term.write_all(b"\x1b[?1049h\x1b[?25l")?;
        Ok(Self(term))
    }

    /// Draws lines over the previous ones. Nothing is cleared before it is overwritten, to avoid flicker.
    fn draw(&mut self, lines: &[String], (rows, _): (u16, u16)) -> Result<(), CliError> {
        let mut text = String::from("\x1b[H");
        for (at, line) in lines.iter().enumerate() {
            text.push_str(line);
            text.push_str("\x1b[K");
            if at + 1 < lines.len() {
                text.push_str("\r\n");
            }
        }
        if lines.len() < usize::from(rows) {
            text.push_str("\r\n\x1b[J");
        }
        self.0.write_all(text.as_bytes())?;
        self.0.flush()?;
        Ok(())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // Errors of a closed terminal are ignored.
        let _ = self.0.write_all(b"\x1b[?25h\x1b[?1049l");
        let _ = self.0.flush();
    }
}
