//! Packets as a pcapng capture.

use std::borrow::Cow;
use std::io::{self, Write};
use std::time::Duration;

use fairlink_core::{NANOS_PER_SEC, Nanos};
use pcap_file::DataLink;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption, InterfaceTsResolution,
};
use pcap_file::pcapng::blocks::opt_common::CommonOption;
use pcap_file::pcapng::{PcapNgWriteError, PcapNgWriter};

use super::{Outcome, PacketRecord, PacketSink};

pub(super) struct Pcapng<W: Write> {
    file: PcapNgWriter<W>,
}

impl<W: Write> Pcapng<W> {
    pub(super) fn new(file: W, interface: &str) -> io::Result<Self> {
        let mut file = PcapNgWriter::new(file).map_err(as_io)?;
        file.write_pcapng_block(InterfaceDescriptionBlock {
            linktype: DataLink::ETHERNET,
            // No limit.
            snaplen: 0,
            options: vec![
                InterfaceDescriptionOption::IfName(interface.into()),
                InterfaceDescriptionOption::IfTsResol(InterfaceTsResolution::NANO),
            ],
        })
        .map_err(as_io)?;
        file.get_mut().flush()?;
        Ok(Self { file })
    }
}

impl<W: Write + Send> PacketSink for Pcapng<W> {
    fn packet(&mut self, packet: &PacketRecord<'_>) -> io::Result<()> {
        let PacketRecord { number, class, arrived, len, outcome, bytes, .. } = *packet;
        let number = number + 1;
        let time = |time: Nanos| format!("{}.{:09} s", time.0 / NANOS_PER_SEC, time.0 % NANOS_PER_SEC);
        let comment = match outcome {
            Outcome::Sent { start, done } => format!(
                "packet {number}, class {class}, queueing delay {}, sent from {} to {}",
                time(start.saturating_sub(arrived)),
                time(start),
                time(done)
            ),
            Outcome::Dropped { at, reason } => {
                format!("packet {number}, class {class}, dropped at {}: {reason}", time(at))
            }
            Outcome::Queued => format!("packet {number}, class {class}, still queued at the end"),
        };
        self.file
            .write_pcapng_block(EnhancedPacketBlock {
                interface_id: 0,
                timestamp: Duration::from_nanos(arrived.0),
                original_len: len,
                data: Cow::Borrowed(bytes),
                options: vec![EnhancedPacketOption::Common(CommonOption::Comment(comment.into()))],
            })
            .map_err(as_io)?;
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.get_mut().flush()
    }
}

fn as_io(error: PcapNgWriteError) -> io::Error {
    match error {
        PcapNgWriteError::Io(error) => error,
        other => io::Error::other(other),
    }
}
