//! Captures, one packet after the other.

use std::io::{self, BufRead, BufReader, Read};
use std::time::Duration;

use fairlink_core::Nanos;
use pcap_file::DataLink;
use pcap_file::pcap::{PcapReadError, PcapReader};
use pcap_file::pcapng::{Block, PcapNgReadError, PcapNgReader};

use super::Fault;
use crate::capture::{MAX_BLOCK, is_pcap, is_pcapng};

/// A packet of a capture.
#[derive(Clone, Debug)]
pub(super) struct Captured {
    /// When it was recorded, since 1970.
    pub(super) at: Nanos,
    /// Its length on the wire in bytes.
    pub(super) len: u32,
    /// The captured bytes.
    pub(super) bytes: Vec<u8>,
    /// True if it has no link header.
    pub(super) bare_ip: bool,
}

/// A capture that is being read.
pub(super) struct Reader<R: Read> {
    file: Format<BufReader<R>>,
    /// Packets read.
    pub(super) packets: u64,
    /// True if it ended in the middle of a packet.
    pub(super) cut_off: bool,
    last: Nanos,
}

enum Format<R: Read> {
    Pcap(PcapReader<R>),
    Pcapng(PcapNgReader<R>),
    /// Only the start of a header.
    Nothing,
}

/// Time, link, length on the wire and bytes of a packet.
type Raw = (Duration, DataLink, u32, Vec<u8>);

impl<R: Read> Reader<R> {
    pub(super) fn new(reader: R) -> Result<Self, Fault> {
        let mut reader = BufReader::with_capacity(1 << 16, reader);
        let start: Vec<u8> = reader.fill_buf()?.iter().take(4).copied().collect();
        let mut cut_off = false;
        let mut wrong = |error: Option<&io::Error>, what: String| {
            cut_off = error.is_some_and(|error| error.kind() == io::ErrorKind::UnexpectedEof);
            if cut_off { Ok(Format::Nothing) } else { Err(Fault::Format { packet: 1, what }) }
        };
        let file = if is_pcap(&start) {
            match PcapReader::with_capacity(reader, MAX_BLOCK) {
                Ok(pcap) => Format::Pcap(pcap),
                Err(PcapReadError::Io(error)) => wrong(Some(&error), error.to_string())?,
                Err(error) => wrong(None, error.to_string())?,
            }
        } else if is_pcapng(&start) {
            match PcapNgReader::with_capacity(reader, MAX_BLOCK) {
                Ok(pcapng) => Format::Pcapng(pcapng),
                Err(PcapNgReadError::Io(error)) => wrong(Some(&error), error.to_string())?,
                Err(error) => wrong(None, error.to_string())?,
            }
        } else {
            return Err(Fault::Unknown);
        };
        Ok(Self { file, packets: 0, cut_off, last: Nanos::ZERO })
    }

    /// Returns the next packet; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<Captured>, Fault> {
        let packet = self.packets + 1;
        let raw = match &mut self.file {
            Format::Pcap(pcap) => pcap_packet(pcap),
            Format::Pcapng(pcapng) => pcapng_packet(pcapng),
            Format::Nothing => Ok(None),
        };
        let (time, link, len, bytes) = match raw {
            Ok(Some(raw)) => raw,
            Ok(None) => return Ok(None),
            Err(Wrong::Io(error)) if error.kind() == io::ErrorKind::UnexpectedEof => {
                (self.cut_off, self.file) = (true, Format::Nothing);
                return Ok(None);
            }
            Err(Wrong::Io(error)) => return Err(error.into()),
            Err(Wrong::What(what)) => return Err(Fault::Format { packet, what }),
        };
        let bare_ip = matches!(link, DataLink::RAW | DataLink::IPV4 | DataLink::IPV6);
        if !bare_ip && link != DataLink::ETHERNET {
            return Err(Fault::LinkType { packet, link_type: u32::from(link) });
        }
        // The first half of 64 bits, so that no sum with a delay leaves them.
        let at = u64::try_from(time.as_nanos()).ok().filter(|&at| i64::try_from(at).is_ok());
        let at = Nanos(at.ok_or(Fault::Format { packet, what: "its time is after the year 2262".to_owned() })?);
        if at < self.last {
            return Err(Fault::Unsorted { packet, by: self.last - at });
        }
        (self.last, self.packets) = (at, packet);
        Ok(Some(Captured { at, len, bytes, bare_ip }))
    }
}

enum Wrong {
    Io(io::Error),
    What(String),
}

fn pcap_packet<R: Read>(pcap: &mut PcapReader<R>) -> Result<Option<Raw>, Wrong> {
    let link = pcap.header().datalink;
    match pcap.next_packet() {
        None => Ok(None),
        Some(Ok(packet)) => Ok(Some((packet.timestamp(), link, packet.orig_len(), packet.data().to_vec()))),
        Some(Err(PcapReadError::Io(error))) => Err(Wrong::Io(error)),
        Some(Err(error)) => Err(Wrong::What(error.to_string())),
    }
}

fn pcapng_packet<R: Read>(pcapng: &mut PcapNgReader<R>) -> Result<Option<Raw>, Wrong> {
    while let Some(block) = pcapng.next_block() {
        let (block, state) = match block {
            Ok(block) => block,
            Err(PcapNgReadError::Io(error)) => return Err(Wrong::Io(error)),
            Err(error) => return Err(Wrong::What(error.to_string())),
        };
        let (interface, time, len, data) = match block {
            Block::EnhancedPacket(packet) => (packet.interface_id, packet.timestamp, packet.original_len, packet.data),
            Block::Packet(packet) => (packet.interface_id.into(), packet.timestamp, packet.original_len, packet.data),
            Block::SimplePacket(_) => return Err(Wrong::What("it has no time (a simple packet block)".to_owned())),
            _ => continue,
        };
        let Some(interface) = state.interfaces().get(interface as usize) else {
            return Err(Wrong::What("its interface is not described".to_owned()));
        };
        return Ok(Some((time, interface.linktype, len, data.into_owned())));
    }
    Ok(None)
}
