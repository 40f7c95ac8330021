//! The details of a thread's last error: object, cause, next step.

use std::cell::RefCell;
use std::ffi::{CString, c_char};

use crate::code::{Code, Failure};

/// Most bytes of a text that is returned, with the NUL, because programs copy it into buffers of
/// their own. The length of the details depends on the program's arguments, such as a long name.
const TEXT_BYTES_MAX: usize = 512;

#[derive(Default)]
struct Last {
    failure: Option<(Code, String)>,
    /// The text that was returned; valid until the next call of the thread.
    given: CString,
}

thread_local! {
    static LAST: RefCell<Last> = RefCell::default();
}

/// Remembers why `call` failed.
pub(crate) fn keep(call: &str, failure: &Failure) {
    let Some(detail) = &failure.detail else { return };
    // A thread that is ending does not query it any more.
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
        last.given = CString::new(shortened(text.replace('\0', ""))).ok()?;
        Some(last.given.as_ptr())
    });
    with_detail.ok().flatten().unwrap_or_else(|| plain.as_ptr().cast())
}

/// The start and the end of a text that is too long: the end has the next step.
fn shortened(text: String) -> String {
    const GAP: &str = " ... ";
    let part = (TEXT_BYTES_MAX - 1 - GAP.len()) / 2;
    if text.len() < TEXT_BYTES_MAX {
        return text;
    }
    let boundary = |at: &usize| text.is_char_boundary(*at);
    let head = (0..=part).rev().find(boundary).unwrap_or(0);
    let tail = (text.len() - part..text.len()).find(boundary).unwrap_or(text.len());
    format!("{}{GAP}{}", &text[..head], &text[tail..])
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
        assert_eq!(text(Code::TIMEOUT), "timed out");
        keep("SCIOpen", &Code::TIMEOUT.because("nobody\0came"));
        assert_eq!(text(Code::TIMEOUT), "timed out (SCIOpen: nobodycame)");
        assert_eq!(text(Code::BUSY), "in use");
        std::thread::spawn(|| assert_eq!(text(Code::TIMEOUT), "timed out")).join().unwrap();
    }

    #[test]
    fn a_text_fits_the_buffers_of_programs_whatever_is_in_it() {
        keep("SCIOpen", &Code::TIMEOUT.because(format!("first {} last", "é".repeat(3000))));
        let told = text(Code::TIMEOUT);
        assert!((TEXT_BYTES_MAX - 10..TEXT_BYTES_MAX).contains(&told.len()), "{}", told.len());
        assert!(told.starts_with("timed out (SCIOpen: first é") && told.ends_with("é last)"), "{told}");
        keep("SCIOpen", &Code::TIMEOUT.because("x".repeat(TEXT_BYTES_MAX - 22)));
        assert_eq!(text(Code::TIMEOUT).len(), TEXT_BYTES_MAX - 1);
        assert!(!text(Code::TIMEOUT).contains("..."));
    }
}
