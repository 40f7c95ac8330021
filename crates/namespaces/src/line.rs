//! Reads a line from a pipe, and no byte behind it.

use std::os::fd::AsFd;

use rustix::io::{read, retry_on_intr};

/// More is no line of ours.
const LINE_BYTES_MAX: usize = 64 * 1024;

/// The next line; `None`: the other end is closed, or what it says is no line.
pub(crate) fn next(from: impl AsFd) -> Option<String> {
    let mut line = Vec::new();
    loop {
        let mut byte = [0];
        match retry_on_intr(|| read(&from, &mut byte)) {
            Ok(1) if byte == *b"\n" => return String::from_utf8(line).ok(),
            Ok(1) if line.len() < LINE_BYTES_MAX => line.extend(byte),
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_line_is_taken_and_nothing_behind_it() {
        let (reader, mut writer) = std::io::pipe().unwrap();
        writer.write_all(b"one\n\ntwo\nhalf").unwrap();
        assert_eq!(next(&reader).as_deref(), Some("one"));
        assert_eq!(next(&reader).as_deref(), Some(""));
        assert_eq!(next(&reader).as_deref(), Some("two"));
        drop(writer);
        assert_eq!(next(&reader), None);
    }
}
