//! Lets zig link for macOS and Windows on other systems.

use std::env;
use std::fs;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is_target = |name: &str| env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == name);
    let on_apple = env::var("HOST").is_ok_and(|host| host.contains("apple"));
    if is_target("macos") && !on_apple {
        // Apple's SDK is not here: a stub stands for the one framework that is named.
        let sources = env::var("CARGO_MANIFEST_DIR").expect("cargo sets it");
        println!("cargo::rustc-link-search=framework={sources}/macos");
    }
    if is_target("windows") {
        // In the list of exports that it writes for zig, maturin 1.16 names the initialiser by the module's whole path.
        let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
        let argument =
            |flag: &str| flag.strip_prefix("link-arg=").filter(|path| path.ends_with(".def")).map(String::from);
        for path in flags.split('\u{1f}').filter_map(argument) {
            println!("cargo::rerun-if-changed={path}");
            if let Ok(exports) = fs::read_to_string(&path) {
                let right = exports.replace("PyInit_fairlink._engine", "PyInit__engine");
                fs::write(&path, right).expect("maturin has written it");
            }
        }
    }
}
