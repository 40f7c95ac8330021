//! What the last call of a thread that failed says.

use std::cell::RefCell;
use std::ffi::{CString, c_char};

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// Keeps why `call` failed.
pub(crate) fn keep(call: &str, why: &str) {
    // A NUL in the middle would end it early.
    let text = format!("{call}: {why}").replace('\0', "");
    // A thread that is ending does not ask for it any more.
    let _ = LAST.try_with(|last| {
        if let (Ok(mut last), Ok(text)) = (last.try_borrow_mut(), CString::new(text)) {
            *last = text;
        }
    });
}

/// The text, valid until the next call of this thread that fails.
pub(crate) fn text() -> *const c_char {
    let empty = c"".as_ptr();
    LAST.try_with(|last| last.try_borrow().map_or(empty, |last| last.as_ptr())).unwrap_or(empty)
}
