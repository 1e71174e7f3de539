//! Sends UDP frames of 64 B as fast as the kernel takes them. `scripts/gateway-flood` runs it.
//!
//! Arguments: the interface, the destination port, seconds, and `random` if each frame shall have another, random source
//! address. Prints the number of frames.
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::time::{Duration, Instant};

use fairlink_core::{ClassId, Nanos};
use fairlink_net::{
    AfPacket, AfPacketOptions, Backend, FrameInfo, FramePool, FrameTemplate, Headers, Interface, Stamp,
};

const FRAMES: u32 = 64;
const LENGTH: u32 = 64;
/// Offset of the source address in an IPv4 frame without tags.
const SOURCE: usize = 26;

fn run(interface: &str, port: u16, seconds: u64, is_random: bool) -> Result<u64, Box<dyn std::error::Error>> {
    let mut sender = AfPacket::open(&Interface::open(interface)?, &AfPacketOptions::default())?;
    let mut pool = FramePool::new(FRAMES, LENGTH)?;
    let template = FrameTemplate::new(&Headers::udp(port));
    let stamp = Stamp { run: 0, class: ClassId(1), sequence: 0, monotonic_ns: 0, realtime_us: 0 };
    let mut frames: Vec<u32> = std::iter::from_fn(|| pool.take()).collect();
    for &frame in &frames {
        template.write(&mut pool.frame_mut(frame)[..LENGTH as usize], &stamp);
        pool.set_info(frame, FrameInfo { start: 0, len: LENGTH, received: Nanos::ZERO, ..FrameInfo::default() });
    }
    let (mut sent, mut random) = (0, 0x2545_f491_4f6c_dd1du64);
    let until = Instant::now() + Duration::from_secs(seconds);
    while Instant::now() < until {
        for &frame in frames.iter().filter(|_| is_random) {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            pool.frame_mut(frame)[SOURCE..SOURCE + 4].copy_from_slice(&(random as u32).to_be_bytes());
        }
        let accepted = sender.send(&mut pool, &frames)?.accepted;
        sent += accepted as u64;
        frames.drain(..accepted);
        sender.reclaim(&mut pool);
        frames.extend(std::iter::from_fn(|| pool.take()));
    }
    Ok(sent)
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let parsed = match &arguments[..] {
        [interface, port, seconds, rest @ ..] if rest.is_empty() || rest == ["random"] => {
            port.parse().ok().zip(seconds.parse().ok()).map(|(port, s)| (interface, port, s, !rest.is_empty()))
        }
        _ => None,
    };
    let Some((interface, port, seconds, is_random)) = parsed else {
        eprintln!("arguments: INTERFACE PORT SECONDS [random]");
        return ExitCode::FAILURE;
    };
    match run(interface, port, seconds, is_random) {
        Ok(sent) => {
            println!("{sent} frames in {seconds} s");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
