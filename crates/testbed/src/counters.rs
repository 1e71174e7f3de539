//! The kernel's counters of interfaces.

use std::io;

/// Packets that have passed an interface since it was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketCounters {
    /// Packets that have arrived.
    pub received: u64,
    /// Packets that have left.
    pub sent: u64,
}

/// Reads the counters of the interface `name` of this thread's network namespace.
///
/// # Errors
/// `NotFound` if there is no such interface.
pub fn packet_counters(name: &str) -> io::Result<PacketCounters> {
    let text = std::fs::read_to_string("/proc/thread-self/net/dev")?;
    parse(&text, name)
        .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, format!("/proc/net/dev has no interface {name}")))
}

/// Parses `/proc/net/dev`: a line for each interface, `name:` and 8 numbers for each direction, of which the second is
/// that of packets.
fn parse(text: &str, name: &str) -> Option<PacketCounters> {
    let line = text.lines().find_map(|line| line.trim_start().strip_prefix(name)?.strip_prefix(':'))?;
    let number = |place: usize| line.split_whitespace().nth(place)?.parse().ok();
    Some(PacketCounters { received: number(1)?, sent: number(9)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_packets_of_an_interface_are_read() {
        let text = "\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    in:     126       2    0    0    0     0          0         0      640      10    0    0    0     0       0          0
 inner:       1       3    0    0    0     0          0         0        4       5    0    0    0     0       0          0
";
        assert_eq!(parse(text, "in"), Some(PacketCounters { received: 2, sent: 10 }));
        assert_eq!(parse(text, "inner"), Some(PacketCounters { received: 3, sent: 5 }));
        assert_eq!(parse(text, "out"), None);
    }
}
