//! Prints the bounds of a scenario's routes.

use fairlink_api::{FlowReport, HopReport, MethodReport, NetworkReport, ServerReport};
use fairlink_config::human;

use fairlink_terminal::failure::CliError;
use fairlink_terminal::out::Out;

/// Prints a table of the routes with their links, and the reasons for absent bounds.
pub(super) fn print(network: &NetworkReport, out: &mut Out) -> Result<(), CliError> {
    let routes: Vec<&FlowReport> = network.flows.iter().filter(|flow| flow.path.len() > 1).collect();
    let rows: Vec<[String; 4]> = routes.iter().flat_map(|flow| rows(network, flow)).collect();
    out.line("")?;
    out.line("Routes, over all their links:")?;
    let titles = ["route", "burst + rate", "delay bound", "method"];
    out.rows(&titles, rows.len(), |row| rows[row].to_vec(), 1..titles.len())?;
    out.line("")?;
    for flow in routes {
        if let Some(why) = &flow.why_not {
            out.paragraph(&format!("not computed      {}, because {why}", flow.name), 18)?;
        }
    }
    let about = "routes            a packet that is not dropped is at the end of the last link within this time, while \
                 all sources keep to their arrival curves; below, bursts and bounds at each link";
    out.paragraph(about, 18)
}

/// A route, and the servers on it.
fn rows(network: &NetworkReport, flow: &FlowReport) -> Vec<[String; 4]> {
    let time = |seconds: Option<f64>| human::known_time(seconds.map(human::up));
    let traffic = |burst: Option<f64>, bps: Option<f64>| match (burst, bps) {
        (Some(burst), Some(bps)) => format!("{} + {}", human::size(human::up(burst)), human::rate(bps)),
        _ => "-".to_owned(),
    };
    let method = match flow.method {
        None => "-",
        Some(MethodReport::BurstsOnce) => "bursts once",
        Some(MethodReport::EachLink) => "each link",
    };
    let whole =
        [flow.name.clone(), traffic(flow.burst_bytes, flow.rate_bps), time(flow.delay_bound_s), method.to_owned()];
    let at = |hop: &HopReport| {
        let server: Option<&ServerReport> = network.servers.iter().find(|server| server.name == hop.server);
        let rate = flow.rate_bps.map(|bps| bps * hop.ratio);
        let delay = server.and_then(|server| server.delay_bound_s);
        [format!("  at {}", hop.server), traffic(hop.burst_bytes, rate), time(delay), String::new()]
    };
    std::iter::once(whole).chain(flow.path.iter().map(at)).collect()
}
