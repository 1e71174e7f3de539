//! The names of all schedulers, one a line, for `scripts/instructions`.
#![forbid(unsafe_code)]

fn main() {
    for info in fairlink_core::registry::SCHEDULERS {
        println!("{}", info.name);
    }
}
