//! Configurations for the kernel module, of any bytes: nothing panics, what is read can be written and is read the same, whole and as records,
//! and the scheduler is built or refused. Records of any bytes, as a kernel may tell them: they are read or refused.

use fairlink_core::{ClassId, Members};
use fairlink_schema::qdisc::{Config, MAGIC, MAX_RECORD, VERSION, assemble};

/// Memory in bytes that a module allows a small link.
const MEMORY: u64 = 1 << 20;

/// Tries one input.
pub(crate) fn run(data: &[u8]) {
    told(data);
    // As they are, and with a header that fits, so that most of the bytes are looked at.
    for config in [Config::read(data).ok(), framed(data)].into_iter().flatten() {
        is_written_as_it_was_read(&config);
        if config.scheduler.memory_for(&config.tree) <= MEMORY {
            let _ = config.scheduler.build(&config.tree, config.leniency, Members::new());
        }
    }
}

/// Reads the bytes behind the first one as records of as many classes as the first byte says.
fn framed(data: &[u8]) -> Option<Config> {
    let (&classes, records) = data.split_first()?;
    let mut bytes = Vec::from(MAGIC);
    bytes.extend(VERSION.to_le_bytes());
    bytes.extend([0; 2]);
    bytes.extend(u32::from(classes % 16).to_le_bytes());
    bytes.extend((16 + records.len() as u32).to_le_bytes());
    bytes.extend(records);
    Config::read(&bytes).ok()
}

fn is_written_as_it_was_read(config: &Config) {
    let written = config.write().expect("as many labels as classes");
    let again = Config::read(&written).expect("it was written");
    assert_eq!(again.write(), Ok(written));
    assert_eq!(again.labels, config.labels);
    let records: Vec<Vec<u8>> = (0..config.tree.len() as u32).map(|class| record(config, ClassId(class))).collect();
    assert_eq!(assemble(&records[0], records[1..].iter().map(Vec::as_slice)), again.write());
}

/// A record as the kernel writes it, into the room that it has for one.
fn record(config: &Config, class: ClassId) -> Vec<u8> {
    let mut place = [0; MAX_RECORD];
    let len = config.write_record(class, &mut place).expect("there is room for any");
    assert!(config.write_record(class, &mut place[..len - 1]).is_err());
    place[..len].to_vec()
}

/// Records of lengths and bytes that are in `data`.
fn told(mut data: &[u8]) {
    let mut records = Vec::new();
    while let Some((&len, rest)) = data.split_first() {
        let (record, rest) = rest.split_at(usize::from(len).min(rest.len()));
        records.push(record);
        data = rest;
    }
    if let Some((link, classes)) = records.split_first() {
        let bytes = assemble(link, classes.iter().copied()).expect("records of 255 bytes at most");
        let _ = Config::read(&bytes);
    }
}
