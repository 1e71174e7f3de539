//! A generator and a receiver at the ends of a cable.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fairlink_testbed::{Generator, GeneratorConfig, GeneratorReport, Receiver, ReceiverConfig, ReceiverReport};

/// Runs a generator, and a receiver that stays until no more frames arrive.
pub(crate) fn run(generator: GeneratorConfig, receiver: ReceiverConfig) -> (GeneratorReport, ReceiverReport) {
    let receiver = Receiver::open(receiver).unwrap();
    let generator = Generator::open(generator).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let received = scope.spawn(|| receiver.run(&stop, |_| ()).unwrap());
        let sent = generator.run(&AtomicBool::new(false), |_| ()).unwrap();
        std::thread::sleep(Duration::from_millis(300));
        stop.store(true, Ordering::Relaxed);
        (sent, received.join().unwrap())
    })
}
