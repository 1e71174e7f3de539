//! Configurations for the kernel module, of any bytes: nothing panics, what is read can be written and is read the same, and the scheduler
//! is built or refused.
#![no_main]

use fairlink_core::Members;
use fairlink_qdisc::{Config, MAGIC, VERSION};
use libfuzzer_sys::fuzz_target;

/// What a module would allow a small link.
const MEMORY: u64 = 1 << 20;

fuzz_target!(|data: &[u8]| {
    let _ = Config::read(data);
    // With a header that fits, most of the bytes are looked at.
    let Some((&classes, records)) = data.split_first() else { return };
    let mut bytes = Vec::from(MAGIC);
    bytes.extend(VERSION.to_le_bytes());
    bytes.extend([0; 2]);
    bytes.extend(u32::from(classes % 16).to_le_bytes());
    bytes.extend((16 + records.len() as u32).to_le_bytes());
    bytes.extend(records);
    let Ok(config) = Config::read(&bytes) else { return };
    let written = config.write().expect("as many labels as classes");
    let again = Config::read(&written).expect("it was written");
    assert_eq!(again.write(), Ok(written));
    assert_eq!(again.labels, config.labels);
    if config.scheduler.memory_for(&config.tree) <= MEMORY {
        let _ = config.scheduler.build(&config.tree, config.leniency, Members::new());
    }
});
