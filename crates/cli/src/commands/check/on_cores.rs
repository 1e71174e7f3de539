//! The bounds of a link that several cores share, as text.

use fairlink_api::OnCores;

use crate::rows::{MOST_ROWS, RowArgs};
use fairlink_terminal::failure::CliError;
use fairlink_terminal::human;
use fairlink_terminal::out::Out;

/// Prints them.
pub(super) fn print(on: &OnCores, link_bps: f64, rows: &RowArgs, out: &mut Out) -> Result<(), CliError> {
    let OnCores { cores, split, notes, .. } = on;
    out.line("")?;
    let mut head = format!("on {cores} cores, split = \"{split}\"");
    if let Some(hubs) = on.hubs {
        head += &format!(", {hubs} hubs");
    }
    if let Some(bytes) = on.interface_bytes {
        let time = human::time(bytes as f64 * 8.0 / link_bps);
        let pass = human::time(on.pass_s);
        head += &format!(
            ": with {pass} between two passes of a core, at most {bytes} B ({time}) stand in the network interface"
        );
    }
    if let Some(packets) = on.ring_packets {
        let time = on.ring_delay_s.map_or_else(String::new, |delay_s| format!(" ({})", human::time(delay_s)));
        head += &format!(": the rings to and from the hub add the time of {packets} packets in it{time} to the delay");
    }
    out.paragraph(&head, 2)?;
    for note in notes {
        out.paragraph(&format!("  {note}"), 4)?;
    }
    if on.classes.is_empty() {
        return Ok(());
    }
    let shown = if rows.shows(on.classes.len()) { on.classes.len() } else { MOST_ROWS.min(on.classes.len()) };
    let bytes = |bytes: Option<f64>| bytes.map_or_else(|| "-".to_owned(), |bytes| format!("{bytes:.0} B"));
    let row = |class: &fairlink_api::ClassOnCores| {
        let delay = class.delay_bound_s.map_or_else(|| "-".to_owned(), human::time);
        vec![class.name.clone(), bytes(class.fairness_bytes), bytes(class.guarantee_lag_bytes), delay]
    };
    out.line("")?;
    let titles = ["class", "from a sibling", "below its guarantee", "delay"];
    out.rows(&titles, shown, |at| row(&on.classes[at]), 1..4)?;
    if shown < on.classes.len() {
        let more = human::count(on.classes.len() - shown, "class is", "classes are");
        out.paragraph(&format!("{more} not shown; --all shows all"), 2)?;
    }
    Ok(())
}
