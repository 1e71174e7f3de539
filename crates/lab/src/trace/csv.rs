//! A trace as CSV.

use std::io::{self, Write};

use fairlink_core::{NANOS_PER_SEC, Nanos};
use fairlink_sim::{Fate, PacketSeen};

use super::Sink;

const HEAD: &str =
    "packet,class,arrival_s,start_s,departure_s,bytes,accounted_bytes,queueing_delay_s,dropped_s,dropped\n";

pub(super) struct Csv<W> {
    file: W,
    names: Vec<String>,
}

impl<W: Write> Csv<W> {
    pub(super) fn new(mut file: W, names: Vec<String>) -> io::Result<Self> {
        file.write_all(HEAD.as_bytes())?;
        // Whoever reads along sees the columns, and a place that takes nothing is known before the run.
        file.flush()?;
        Ok(Self { file, names })
    }

    /// A time in seconds, exact.
    fn time(&mut self, time: Nanos) -> io::Result<()> {
        write!(self.file, "{}.{:09}", time.0 / NANOS_PER_SEC, time.0 % NANOS_PER_SEC)
    }
}

impl<W: Write + Send> Sink for Csv<W> {
    fn packet(&mut self, packet: &PacketSeen, fate: Option<Fate>) -> io::Result<()> {
        let name = self.names.get(packet.class.index()).map_or("", String::as_str);
        write!(self.file, "{},{name},", packet.number + 1)?;
        self.time(packet.arrived)?;
        let PacketSeen { frame, len, .. } = *packet;
        match fate {
            Some(Fate::Sent { start, done }) => {
                write!(self.file, ",")?;
                self.time(start)?;
                write!(self.file, ",")?;
                self.time(done)?;
                write!(self.file, ",{frame},{len},")?;
                self.time(start.saturating_sub(packet.arrived))?;
                writeln!(self.file, ",,")
            }
            Some(Fate::Dropped { at, reason }) => {
                write!(self.file, ",,,{frame},{len},,")?;
                self.time(at)?;
                writeln!(self.file, ",{}", reason.as_str())
            }
            None => writeln!(self.file, ",,,{frame},{len},,,"),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
