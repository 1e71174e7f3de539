//! A trace as a pcapng capture.

use std::borrow::Cow;
use std::io::{self, Write};
use std::time::Duration;

use fairlink_core::{NANOS_PER_SEC, Nanos};
use fairlink_sim::{Fate, PacketSeen};
use pcap_file::DataLink;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption, InterfaceTsResolution,
};
use pcap_file::pcapng::blocks::opt_common::CommonOption;
use pcap_file::pcapng::{PcapNgWriteError, PcapNgWriter};

use super::{Sink, WriteFrame};

pub(super) struct Pcapng<W: Write> {
    file: PcapNgWriter<W>,
    names: Vec<String>,
    write_frame: WriteFrame,
    /// Room for a frame.
    frame: Vec<u8>,
}

impl<W: Write> Pcapng<W> {
    pub(super) fn new(file: W, names: Vec<String>, write_frame: WriteFrame) -> io::Result<Self> {
        let mut file = PcapNgWriter::new(file).map_err(as_io)?;
        let name = names.first().map_or("link", String::as_str);
        file.write_pcapng_block(InterfaceDescriptionBlock {
            linktype: DataLink::ETHERNET,
            // No limit.
            snaplen: 0,
            options: vec![
                InterfaceDescriptionOption::IfName(name.into()),
                InterfaceDescriptionOption::IfTsResol(InterfaceTsResolution::NANO),
            ],
        })
        .map_err(as_io)?;
        file.get_mut().flush()?;
        Ok(Self { file, names, write_frame, frame: Vec::new() })
    }
}

impl<W: Write + Send> Sink for Pcapng<W> {
    fn packet(&mut self, packet: &PacketSeen, fate: Option<Fate>) -> io::Result<()> {
        self.frame.clear();
        self.frame.resize(packet.frame as usize, 0);
        (self.write_frame)(packet.class, &mut self.frame);
        let name = self.names.get(packet.class.index()).map_or("", String::as_str);
        let number = packet.number + 1;
        let time = |time: Nanos| format!("{}.{:09} s", time.0 / NANOS_PER_SEC, time.0 % NANOS_PER_SEC);
        let comment = match fate {
            Some(Fate::Sent { start, done }) => format!(
                "packet {number}, class {name}, queueing delay {}, sent from {} to {}",
                time(start.saturating_sub(packet.arrived)),
                time(start),
                time(done)
            ),
            Some(Fate::Dropped { at, reason }) => {
                format!("packet {number}, class {name}, dropped at {}: {}", time(at), reason.as_str())
            }
            None => format!("packet {number}, class {name}, still queued at the end"),
        };
        self.file
            .write_pcapng_block(EnhancedPacketBlock {
                interface_id: 0,
                timestamp: Duration::from_nanos(packet.arrived.0),
                original_len: packet.frame,
                data: Cow::Borrowed(&self.frame),
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
