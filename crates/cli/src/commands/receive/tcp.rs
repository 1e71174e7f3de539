//! `fairlink receive --tcp`: the other end of `generate --tcp`.

use std::time::Duration;

use fairlink_core::Nanos;
use fairlink_report::Document;
use fairlink_testbed::{TcpServer, TcpServerReport};

use fairlink_terminal::failure::CliError;
use fairlink_terminal::human;
use fairlink_terminal::interrupt::stop_flag;
use fairlink_terminal::out::{Out, note};

/// Serves and reports.
pub(super) fn run(port: u16, duration: Option<Nanos>, out: &mut Out) -> Result<(), CliError> {
    let server = TcpServer::open(port).map_err(CliError::wrong)?;
    let stop = stop_flag()?;
    if duration.is_none() {
        note(format!("listening at TCP port {port} until Ctrl-C"));
    }
    let report = server.run(&stop, duration.map(|time| Duration::from_nanos(time.0)), |_, _| ());
    let report = report.map_err(CliError::failed)?;
    if out.json { out.document(&Document::new(report)) } else { text(&report, out) }
}

fn text(report: &TcpServerReport, out: &mut Out) -> Result<(), CliError> {
    out.paragraph(&format!("listened for {}", human::time(report.duration_s)), 2)?;
    let head = ["connection", "bytes", "goodput", "requests"];
    let rows = report.connections.iter().map(|connection| {
        vec![
            connection.from.to_string(),
            connection.received_bytes.to_string(),
            human::rate(connection.goodput_bps),
            connection.requests.to_string(),
        ]
    });
    out.table(&head, rows.collect(), 1..head.len())?;
    if report.refused_connections > 0 {
        out.paragraph(
            &format!(
                "{} were not from `fairlink generate --tcp`, or more than 256 at once",
                human::count(report.refused_connections as usize, "connection", "connections")
            ),
            2,
        )?;
    }
    if report.beyond_connections > 0 {
        out.paragraph(&format!("{} connections beyond the first 4096 are not listed", report.beyond_connections), 2)?;
    }
    Ok(())
}
