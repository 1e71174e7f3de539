//! `fairlink generate --tcp`: TCP of this machine's kernel, to a `receive --tcp`.

use std::net::SocketAddr;

use fairlink_config::units::parse_size;
use fairlink_core::Nanos;
use fairlink_report::{Delay, Document};
use fairlink_testbed::{TcpClient, TcpClientReport, TcpConfig, TcpExchange};

use super::Args as Generate;
use fairlink_terminal::args::time;
use fairlink_terminal::failure::CliError;
use fairlink_terminal::human;
use fairlink_terminal::interrupt::stop_flag;
use fairlink_terminal::out::Out;

/// Options of TCP connections.
#[derive(Debug, clap::Args)]
#[group(id = "tcp connections")]
pub(crate) struct Args {
    /// Send by TCP connections of this machine's kernel to a `fairlink receive --tcp` at this address, such as
    /// 192.0.2.1:5201 or
    /// [2001:db8::1]:5201, instead of a scenario.
    #[arg(long, value_name = "ADDR:PORT", value_parser = address, conflicts_with_all = ["scenario", "output"])]
    pub(super) tcp: Option<SocketAddr>,
    /// TCP connections, 1 to 64.
    #[arg(long, value_name = "N", default_value_t = 1, requires = "tcp", conflicts_with = "scenario", value_parser = clap::value_parser!(u32).range(1..=64))]
    connections: u32,
    /// Congestion control of these connections, such as cubic or reno [default: the kernel's].
    #[arg(long, value_name = "NAME", requires = "tcp", conflicts_with = "scenario")]
    congestion_control: Option<String>,
    /// Send requests and wait for responses instead of sending all the time: bytes of each request.
    #[arg(long, value_name = "SIZE", requires = "tcp", conflicts_with = "scenario", requires = "response", value_parser = size)]
    request: Option<u32>,
    /// Bytes of each response.
    #[arg(long, value_name = "SIZE", requires = "request", conflicts_with = "scenario", value_parser = size)]
    response: Option<u32>,
    /// Time between a response and the next request.
    #[arg(long, value_name = "TIME", default_value = "0s", requires = "request", conflicts_with = "scenario", value_parser = time)]
    think: Nanos,
}

fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse()
        .map_err(|_| format!("\"{text}\" is not an address and port; write 192.0.2.1:5201 or [2001:db8::1]:5201"))
}

fn size(text: &str) -> Result<u32, String> {
    const MOST: u64 = 64 << 20;
    match parse_size(text, MOST).map_err(|error| format!("{error}; {}", error.help()))? {
        0 => Err("a message must not be empty; write at least 1B".to_owned()),
        size => Ok(size as u32),
    }
}

/// Sends and reports.
pub(super) fn run(to: SocketAddr, args: &Generate, out: &mut Out) -> Result<(), CliError> {
    let tcp = &args.connections;
    let exchange = match (tcp.request, tcp.response) {
        (Some(request), Some(response)) => Some(TcpExchange { request, response, think: tcp.think }),
        _ => None,
    };
    let duration = args.duration.unwrap_or(Nanos::from_secs(10));
    let config = TcpConfig {
        to,
        connections: tcp.connections,
        congestion_control: tcp.congestion_control.clone(),
        exchange,
        dscp: args.dscp.unwrap_or(0),
        duration,
    };
    let client = TcpClient::open(config).map_err(CliError::wrong)?;
    let stop = stop_flag()?;
    let bar = super::progress_bar(duration.0 as f64 / 1e9);
    let report = client.run(&stop, |elapsed_s, bytes| {
        bar.set_position((elapsed_s * 10.0) as u64);
        bar.set_message(human::size(bytes as f64));
    });
    bar.finish_and_clear();
    let report = report.map_err(CliError::failed)?;
    if out.json { out.document(&Document::new(report)) } else { text(&report, out) }
}

fn text(report: &TcpClientReport, out: &mut Out) -> Result<(), CliError> {
    out.paragraph(&format!("TCP for {}: {}", human::time(report.duration_s), human::rate(report.goodput_bps)), 2)?;
    let exchanges = report.connections.iter().any(|connection| connection.exchanges.is_some());
    let mut head = vec!["connection", "goodput", "control", "sent again", "RTT p50", "p99", "max"];
    if exchanges {
        head.extend(["answers", "per second", "latency p50", "p99", "max"]);
    }
    let rows = report.connections.iter().map(|connection| {
        let times = |of: Option<Delay>| {
            let of = of.unwrap_or_default();
            [of.p50, of.p99, of.max].map(human::known_time)
        };
        let mut row = vec![
            connection.from.to_string(),
            human::rate(connection.goodput_bps),
            connection.congestion_control.clone(),
            connection.retransmitted_segments.to_string(),
        ];
        row.extend(times(connection.rtt_s));
        if let Some(exchanges) = connection.exchanges {
            row.extend([exchanges.transactions.to_string(), format!("{:.1}", exchanges.transactions_per_s)]);
            row.extend(times(exchanges.latency_s));
        }
        row
    });
    out.table(&head, rows.collect(), 1..head.len())?;
    for connection in &report.connections {
        if let Some(why) = &connection.ended_early {
            out.paragraph(&format!("{} ended early: {why}", connection.from), 2)?;
        }
    }
    Ok(())
}
