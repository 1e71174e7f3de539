//! `fairlink generate --receive`: one command sends and measures the received traffic, like the HTB text's program over
//! a crossover cable or a looped-back card.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use fairlink_core::ClassId;
use fairlink_report::{Content, Document};
use fairlink_testbed::{Receiver, ReceiverConfig, ReceiverError, ReceiverReport};
use schemars::JsonSchema;
use serde::Serialize;

use super::{Args, Sending, Sent, text_of, warn};
use crate::commands::receive;
use fairlink_terminal::failure::CliError;
use fairlink_terminal::out::{Out, make_directory};

/// Time for frames in flight to arrive after the last was sent.
const AFTERWARDS: Duration = Duration::from_secs(1);
/// Length of the windows of the plots.
const WINDOW: Duration = Duration::from_millis(200);

/// The document that `--json` prints.
#[derive(JsonSchema, Serialize)]
pub(crate) struct BothDoc<'a> {
    sent: &'a Sent,
    received: Vec<Received<'a>>,
}

impl Content for BothDoc<'_> {
    const KIND: &'static str = "generate_and_receive";
}

#[derive(JsonSchema, Serialize)]
struct Received<'a> {
    interface: &'a str,
    #[serde(flatten)]
    report: &'a ReceiverReport,
}

/// Results of a receiver, with its windows.
type Heard = Result<(ReceiverReport, receive::Record), ReceiverError>;

/// Receives, sends, waits for packets in flight, and reports both.
pub(super) fn run(sending: Sending, args: &Args, out: &mut Out) -> Result<(), CliError> {
    let mut interfaces: Vec<&str> = args.receive.iter().map(String::as_str).collect();
    interfaces.sort_unstable();
    if let Some(twice) = interfaces.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(CliError::wrong(format!("--receive {} is given twice", twice[0])));
    }
    if let Some(dir) = &args.plots {
        // Before the work, not after it.
        make_directory(dir)?;
    }
    let script = sending.script.clone();
    let names = sending.names.clone();
    let name = |class: ClassId| {
        let known = names.iter().find(|(known, _)| *known == class);
        known.map_or_else(|| format!("flow {}", class.0), |(_, name)| name.clone())
    };
    let receivers = interfaces.iter().map(|interface| {
        let mut config = ReceiverConfig::new(interface);
        config.names = names.iter().cloned().collect();
        config.flows = args.flows;
        config.window = WINDOW;
        Receiver::open(config).map_err(CliError::wrong)
    });
    let receivers = receivers.collect::<Result<Vec<_>, CliError>>()?;
    let end = AtomicBool::new(false);
    let (sent, heard) = thread::scope(|scope| {
        let listen = |receiver: Receiver| {
            let (end, name) = (&end, &name);
            scope.spawn(move || -> Heard {
                let mut record = receive::Record::default();
                let report = receiver.run(end, |window| record.keep(window, name))?;
                Ok((report, record))
            })
        };
        let listening: Vec<_> = receivers.into_iter().map(listen).collect();
        let sent = sending.run();
        if sent.is_ok() {
            thread::sleep(AFTERWARDS);
        }
        end.store(true, Ordering::Relaxed);
        let heard: Vec<Heard> =
            listening.into_iter().map(|thread| thread.join().expect("a receiver does not panic")).collect();
        (sent, heard)
    });
    let sent = sent?;
    let mut reports = Vec::new();
    for (interface, heard) in interfaces.iter().zip(heard) {
        let (report, record) = heard.map_err(CliError::failed)?;
        if let Some(dir) = &args.plots {
            // Of several interfaces, each has a directory of its own.
            let dir = if interfaces.len() == 1 { dir.clone() } else { dir.join(interface) };
            make_directory(&dir)?;
            record.write(script.as_ref(), &dir).map_err(CliError::failed)?;
        }
        reports.push((*interface, report));
    }
    warn(&sent);
    if out.json {
        let received = reports.iter().map(|(interface, report)| Received { interface, report }).collect();
        return out.document(&Document::new(BothDoc { sent: &sent, received }));
    }
    text_of(&sent, args, out)?;
    for (interface, report) in &reports {
        out.line("")?;
        out.paragraph(&format!("{interface}:"), 2)?;
        receive::text(report, out)?;
    }
    Ok(())
}
