//! Text of strangers, so that it can be printed.

use std::borrow::Cow;

/// A text in which nothing moves the cursor, ends the line or turns the direction of writing around: such characters, and those
/// that nobody sees, come out as `\u{…}`. Two different texts stay different to the eye.
#[must_use]
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if is_hidden(c) { safe.extend(c.escape_unicode()) } else { safe.push(c) }
    }
    Cow::Owned(safe)
}

/// Control characters, ends of lines and paragraphs, marks of direction (Unicode Standard Annex 9), and spaces without width.
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}')
        || matches!(c, '\u{2060}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_change_the_terminal_is_spelt_out() {
        assert!(matches!(printable("leaf „1“ ü漢"), Cow::Borrowed("leaf „1“ ü漢")));
        assert_eq!(printable("a\u{1b}[2Jb\n"), "a\\u{1b}[2Jb\\u{a}");
        assert_eq!(printable("\u{202e}x\u{2066}\u{2028}\u{2029}"), "\\u{202e}x\\u{2066}\\u{2028}\\u{2029}");
    }
}
