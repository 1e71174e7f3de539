//! The interface to JavaScript: a text in, a text out, both in the memory of this module.

use std::cell::RefCell;

use crate::Engine;

thread_local! {
    static ENGINE: RefCell<Engine> = RefCell::default();
    /// The request, and after it the answer.
    static TEXT: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Makes room for a request of `length` bytes, and returns its address. The room is valid until the next call.
#[unsafe(no_mangle)]
pub extern "C" fn request_room(length: usize) -> *mut u8 {
    TEXT.with_borrow_mut(|text| {
        text.clear();
        text.resize(length, 0);
        text.as_mut_ptr()
    })
}

/// Answers the request that was written into the room. Returns the length of the answer in bytes.
#[unsafe(no_mangle)]
pub extern "C" fn answer() -> usize {
    let request = TEXT.take();
    let answer = ENGINE.with_borrow_mut(|engine| engine.answer(&String::from_utf8_lossy(&request)));
    let length = answer.len();
    TEXT.set(answer.into_bytes());
    length
}

/// Returns the address of the answer, which is valid until the next call.
#[unsafe(no_mangle)]
pub extern "C" fn answer_start() -> *const u8 {
    TEXT.with_borrow(|text| text.as_ptr())
}
