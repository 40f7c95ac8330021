//! Printing that does not fail when the reader closes the pipe.

use std::io::Write as _;

/// Writes to standard output; a reader that has gone is no error.
pub(crate) fn print(text: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error),
        _ => Ok(()),
    }
}

/// Writes to standard error, where there is nobody to tell that it failed.
pub(crate) fn note(text: &str) {
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}
