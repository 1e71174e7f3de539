//! Instructions per packet, which do not depend on the machine's mood. Run it twice under callgrind with different numbers
//! of packets; the difference of the two counts over the difference of the packets is the cost of one:
//!
//! ```text
//! cargo build --release -p fairlink-core --example callgrind
//! for packets in 200000 400000; do
//!   valgrind --tool=callgrind --callgrind-out-file=/dev/null target/release/examples/callgrind drr 1024 1 $packets
//! done 2>&1 | awk '/Collected/ {n[++i] = $4} END {print (n[2] - n[1]) / 200000, "instructions per packet"}'
//! ```
//!
//! The scheduler `harness` is the workload alone, to be subtracted. To see where the instructions go, give an output file
//! and read it with `callgrind_annotate`. Further arguments: length of a packet and of the largest one (1500), largest
//! weight (1).

#[path = "../benches/common/mod.rs"]
mod common;

use common::{Shape, Workload};

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let number = |index: usize, default: Option<u64>| -> u64 {
        let usage = "usage: callgrind SCHEDULER LEAVES LEVELS PACKETS [LEN [MAX [WEIGHTS]]]";
        args.get(index).map(|arg| arg.parse().expect(usage)).or(default).expect(usage)
    };
    let shape = Shape {
        leaves: number(2, None) as usize,
        levels: number(3, None) as u32,
        len: number(5, Some(1500)) as u32,
        max_packet: number(6, Some(1500)) as u32,
        weights: number(7, Some(1)),
    };
    let mut workload = Workload::new(&args[1], shape);
    let done = workload.run(number(4, None));
    println!("{done} packets, {:.2} of the leaves backlogged", workload.backlogged().unwrap_or(1.0));
}
