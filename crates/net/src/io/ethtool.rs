//! Reads drivers and offloads of interfaces and sets offloads, by the requests of ethtool(8).

use std::io;

use crate::io::sys;

// Commands of linux/ethtool.h; libc does not have them.
const ETHTOOL_GDRVINFO: u32 = 0x03;
const ETHTOOL_GCHANNELS: u32 = 0x3c;
const ETH_FLAG_RXVLAN: u32 = 1 << 8;
const ETH_FLAG_LRO: u32 = 1 << 15;

/// An offload that can be switched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offload {
    /// Generic receive offload: received packets are joined into one of up to 64 kB.
    Gro,
    /// Large receive offload: the same, by the hardware, beyond recovery.
    Lro,
    /// Generic segmentation offload of this machine's own packets.
    Gso,
    /// TCP segmentation offload of this machine's own packets; needs scatter-gather.
    Tso,
    /// Receive checksums.
    RxChecksum,
    /// Transmit checksums.
    TxChecksum,
    /// Scatter-gather; needs transmit checksums.
    ScatterGather,
    /// VLAN tags of received frames are taken out and handed over beside the frame.
    RxVlan,
}

impl Offload {
    /// Commands that read and set it, and its own bits of the value.
    const fn commands(self) -> (u32, u32, u32) {
        match self {
            Self::Gro => (0x2b, 0x2c, 1),
            Self::Lro => (0x25, 0x26, ETH_FLAG_LRO),
            Self::Gso => (0x23, 0x24, 1),
            Self::Tso => (0x1e, 0x1f, 1),
            Self::RxChecksum => (0x14, 0x15, 1),
            Self::TxChecksum => (0x16, 0x17, 1),
            Self::ScatterGather => (0x18, 0x19, 1),
            Self::RxVlan => (0x25, 0x26, ETH_FLAG_RXVLAN),
        }
    }
}

/// Switches an offload of the interface `name`.
///
/// # Errors
/// The kernel's answer: no such interface (`ENODEV`), no permission (`EPERM`), the driver lacks it (`EOPNOTSUPP`).
pub fn set_offload(name: &str, offload: Offload, on: bool) -> io::Result<()> {
    let (read, write, bits) = offload.commands();
    let before = get(name, read)?;
    let data = if on { before | bits } else { before & !bits };
    request(name, &mut Value { command: write, data })
}

/// Turns each of `offloads` of the interface `name` off. One that the interface lacks, or that is fixed, is skipped.
///
/// # Errors
/// The kernel's answer: no such interface (`ENODEV`), no permission (`EPERM`).
pub fn turn_off(name: &str, offloads: &[Offload]) -> io::Result<()> {
    for &offload in offloads {
        match set_offload(name, offload, false) {
            Err(error) if !is_unsupported(&error) => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Returns true if an offload of the interface `name` is on. One that the driver lacks counts as off.
pub(crate) fn is_on(name: &str, offload: Offload) -> io::Result<bool> {
    let (read, _, bits) = offload.commands();
    Ok(get(name, read)? & bits != 0)
}

/// Driver of the interface `name`, such as `veth`; empty if it is not reported.
pub(crate) fn driver(name: &str) -> String {
    let mut info = DriverInfo { command: ETHTOOL_GDRVINFO, driver: [0; 32], rest: [0; 160] };
    if request(name, &mut info).is_err() {
        return String::new();
    }
    let end = info.driver.iter().position(|&byte| byte == 0).unwrap_or(info.driver.len());
    String::from_utf8_lossy(&info.driver[..end]).into_owned()
}

/// Numbers of an interface's queues: those of one direction alone, and combined ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Queues {
    pub(crate) receive: u32,
    pub(crate) transmit: u32,
    pub(crate) combined: u32,
}

/// Returns the numbers of queues of the interface `name`.
///
/// # Errors
/// The kernel's answer: the driver does not report them (`EOPNOTSUPP`).
pub(crate) fn queues(name: &str) -> io::Result<Queues> {
    let mut channels = Channels { command: ETHTOOL_GCHANNELS, ..Channels::default() };
    request(name, &mut channels)?;
    let Channels { receive, transmit, combined, .. } = channels;
    Ok(Queues { receive, transmit, combined })
}

/// `struct ethtool_channels`.
#[repr(C)]
#[derive(Default)]
struct Channels {
    command: u32,
    most: [u32; 4],
    receive: u32,
    transmit: u32,
    other: u32,
    combined: u32,
}

/// `struct ethtool_value`.
#[repr(C)]
struct Value {
    command: u32,
    data: u32,
}

/// `struct ethtool_drvinfo`; only the driver's name is read.
#[repr(C)]
struct DriverInfo {
    command: u32,
    driver: [u8; 32],
    rest: [u8; 160],
}

/// Runs the request at the start of `value`, the structure that the kernel expects for it.
fn request<T>(name: &str, value: &mut T) -> io::Result<()> {
    sys::interface_request(libc::SIOCETHTOOL, name, |message| {
        message.ifr_ifru.ifru_data = std::ptr::from_mut(value).cast();
    })?;
    Ok(())
}

/// Reads a setting; 0 if the driver lacks it.
fn get(name: &str, command: u32) -> io::Result<u32> {
    let mut value = Value { command, data: 0 };
    match request(name, &mut value) {
        Ok(()) => Ok(value.data),
        Err(error) if is_unsupported(&error) => Ok(0),
        Err(error) => Err(error),
    }
}

fn is_unsupported(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::EINVAL))
}
