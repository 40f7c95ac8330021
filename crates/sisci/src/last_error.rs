//! The circumstances of a thread's last error: the code says what failed, this says which thing, why, and what to do.

use std::cell::RefCell;
use std::ffi::{CString, c_char};

use crate::code::{Code, Failure};

#[derive(Default)]
struct Last {
    failure: Option<(Code, String)>,
    /// What was given out; stays until the thread asks again.
    given: CString,
}

thread_local! {
    static LAST: RefCell<Last> = RefCell::default();
}

/// Remembers why `call` failed.
pub(crate) fn keep(call: &str, failure: &Failure) {
    let Some(detail) = &failure.detail else { return };
    // In a thread that is ending there is nobody left to ask.
    let _ = LAST.try_with(|last| {
        if let Ok(mut last) = last.try_borrow_mut() {
            last.failure = Some((failure.code, format!("{call}: {detail}")));
        }
    });
}

/// The code in words, with the circumstances if it is the code of this thread's last error.
pub(crate) fn words(code: Code) -> *const c_char {
    let plain = code.text();
    let with_detail = LAST.try_with(|last| {
        let mut last = last.try_borrow_mut().ok()?;
        let (known, detail) = last.failure.as_ref()?;
        if *known != code {
            return None;
        }
        let text = format!("{} ({detail})", plain.trim_end_matches('\0'));
        // A NUL in the middle would end it early.
        last.given = CString::new(text.replace('\0', "")).ok()?;
        Some(last.given.as_ptr())
    });
    with_detail.ok().flatten().unwrap_or_else(|| plain.as_ptr().cast())
}

#[cfg(test)]
mod tests {
    use std::ffi::CStr;

    use super::*;

    fn text(code: Code) -> String {
        // SAFETY: `words` gives a string that ends with NUL and stays until the next call.
        unsafe { CStr::from_ptr(words(code)) }.to_str().unwrap().to_owned()
    }

    #[test]
    fn the_last_error_is_told_with_its_circumstances_and_others_plainly() {
        assert_eq!(text(Code::TIMEOUT), "the time is over");
        keep("SCIOpen", &Code::TIMEOUT.because("nobody\0came"));
        assert_eq!(text(Code::TIMEOUT), "the time is over (SCIOpen: nobodycame)");
        assert_eq!(text(Code::BUSY), "in use");
        std::thread::spawn(|| assert_eq!(text(Code::TIMEOUT), "the time is over")).join().unwrap();
    }
}
