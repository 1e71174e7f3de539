//! The names of all schedulers, one a line, for `scripts/instructions`.

fn main() {
    for info in fairlink_core::registry::SCHEDULERS {
        println!("{}", info.name);
    }
}
