//! Packets as CSV.

use std::io::{self, Write};

use fairlink_core::{NANOS_PER_SEC, Nanos};

use super::{Outcome, PacketRecord, PacketSink};

const HEAD: &str =
    "packet,class,arrival_s,start_s,departure_s,bytes,accounted_bytes,queueing_delay_s,dropped_s,dropped\n";

pub(super) struct Csv<W> {
    file: W,
}

impl<W: Write> Csv<W> {
    pub(super) fn new(mut file: W) -> io::Result<Self> {
        file.write_all(HEAD.as_bytes())?;
        // A reader of the growing file sees the columns, and an unwritable target is detected before the run.
        file.flush()?;
        Ok(Self { file })
    }

    /// Writes a time in seconds, exactly.
    fn time(&mut self, time: Nanos) -> io::Result<()> {
        write!(self.file, "{}.{:09}", time.0 / NANOS_PER_SEC, time.0 % NANOS_PER_SEC)
    }
}

impl<W: Write + Send> PacketSink for Csv<W> {
    fn packet(&mut self, packet: &PacketRecord<'_>) -> io::Result<()> {
        let PacketRecord { number, class, arrived, len, accounted, outcome, .. } = *packet;
        write!(self.file, "{},{class},", number + 1)?;
        self.time(arrived)?;
        match outcome {
            Outcome::Sent { start, done } => {
                write!(self.file, ",")?;
                self.time(start)?;
                write!(self.file, ",")?;
                self.time(done)?;
                write!(self.file, ",{len},{accounted},")?;
                self.time(start.saturating_sub(arrived))?;
                writeln!(self.file, ",,")
            }
            Outcome::Dropped { at, reason } => {
                write!(self.file, ",,,{len},{accounted},,")?;
                self.time(at)?;
                writeln!(self.file, ",{reason}")
            }
            Outcome::Queued => writeln!(self.file, ",,,{len},{accounted},,,"),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
