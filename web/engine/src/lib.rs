//! The engine of the page: what the command line computes, as requests and answers in JSON.
//!
//! ```
//! let mut engine = fairlink_page::Engine::default();
//! let request = r#"{"check": {"link": "[link]\nrate = \"9mbit\"\n[[class]]\nname = \"a\"\n"}}"#;
//! let answer = engine.answer(request);
//! assert!(answer.starts_with(r#"{"answer":{"document":"check","version":1,"valid":true"#), "{answer}");
//! ```

#[cfg(target_family = "wasm")]
mod abi;
mod request;

pub use request::Engine;
