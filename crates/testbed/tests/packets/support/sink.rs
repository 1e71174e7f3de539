//! Receives packets at an interface, and splits super-frames.

use std::time::{Duration, Instant};

use fairlink_core::Nanos;
use fairlink_net::{AfPacket, AfPacketOptions, Arrival, Backend, Condition, FrameInfo, FramePool, Interface};

/// Receiver of the frames that arrive at an interface.
pub(crate) struct Sink {
    socket: AfPacket,
    pool: FramePool,
    /// Packets, those of super-frames one by one, with their checksums.
    packets: Vec<Vec<u8>>,
    /// For each packet: true if its checksum was unfinished.
    pub(crate) unfinished: Vec<bool>,
    taken: usize,
    /// Frames that came joined.
    pub(crate) joined: usize,
}

impl Sink {
    pub(crate) fn open(name: &str) -> Self {
        let socket = AfPacket::open(&Interface::open(name).unwrap(), &AfPacketOptions::default()).unwrap();
        Self {
            socket,
            pool: FramePool::new(64, 2048).unwrap(),
            packets: Vec::new(),
            unfinished: Vec::new(),
            taken: 0,
            joined: 0,
        }
    }

    /// Returns the next `count` packets, which arrive within some seconds.
    pub(crate) fn next(&mut self, count: usize) -> Vec<Vec<u8>> {
        let end = Instant::now() + Duration::from_secs(10);
        while self.packets.len() < self.taken + count {
            assert!(Instant::now() < end, "{} of {count} packets came", self.packets.len() - self.taken);
            self.receive();
            std::thread::sleep(Duration::from_millis(1));
        }
        let from = self.taken;
        self.taken += count;
        self.packets[from..from + count].to_vec()
    }

    fn receive(&mut self) {
        let Self { socket, pool, packets, unfinished: left, joined, .. } = self;
        let mut arrivals = Vec::new();
        // A frame of the pool stays for the packets of super-frames.
        socket.receive(pool, Nanos::ZERO, 32, &mut arrivals).unwrap();
        for Arrival { frame, len, condition, .. } in arrivals {
            match condition {
                Condition::Super(number) => {
                    *joined += 1;
                    let mut bytes = vec![0; 1 << 17];
                    assert!(socket.fetch(pool, frame, number, &mut bytes).unwrap());
                    let segments = *socket.segments(number);
                    for index in 0..segments.count() {
                        let len = segments.write(&bytes[..len as usize], index, pool.frame_mut(frame)) as u32;
                        let unfinished = segments.unfinished();
                        pool.set_info(frame, FrameInfo { len, unfinished, ..FrameInfo::default() });
                        left.push(unfinished.is_some());
                        pool.finish_checksum(frame);
                        packets.push(pool.packet(frame).to_vec());
                    }
                }
                condition => {
                    assert_eq!(condition, Condition::Whole);
                    left.push(pool.info(frame).unfinished.is_some());
                    pool.finish_checksum(frame);
                    packets.push(pool.packet(frame).to_vec());
                }
            }
            pool.give_back(frame);
        }
    }
}
