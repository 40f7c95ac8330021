//! Text for people: names from files and nodes made printable, and counts with their nouns.

use std::borrow::Cow;
use std::fmt::Display;

/// A count with its noun in the number that fits: `1 VL`, `2 VLs`, `3 switches`, `4 entries`.
///
/// `noun` is singular, of a regular plural, and ends with the word that changes.
#[must_use]
pub fn counted<N: Display + PartialEq + From<u8>>(count: N, noun: &str) -> String {
    if count == N::from(1) {
        return format!("{count} {noun}");
    }
    if ["s", "x", "ch", "sh"].iter().any(|end| noun.ends_with(end)) {
        return format!("{count} {noun}es");
    }
    match noun.strip_suffix('y') {
        Some(stem) if !stem.ends_with(['a', 'e', 'o', 'u']) => format!("{count} {stem}ies"),
        _ => format!("{count} {noun}s"),
    }
}

/// The form of a verb that fits a count: `one` for 1, `many` for all others.
#[must_use]
pub fn verb<'a, N: PartialEq + From<u8>>(count: N, one: &'a str, many: &'a str) -> &'a str {
    if count == N::from(1) { one } else { many }
}

/// A text in which nothing moves the cursor, ends the line or turns the direction of writing around: such
/// characters, and those that are invisible, become `\u{…}`. Two different texts still look different.
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

/// Text that is within JSON strings, with such characters as `\u…`: a JSON reader gets the same text.
#[must_use]
pub fn printable_json(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if is_hidden(c) {
            let units =
                c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")).collect::<String>();
            safe.push_str(&units);
        } else {
            safe.push(c);
        }
    }
    Cow::Owned(safe)
}

/// Control characters, ends of lines and paragraphs, marks of direction (Unicode Standard Annex 9), and
/// spaces without width.
pub(crate) fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}')
        || matches!(c, '\u{2060}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nouns_and_verbs_fit_their_count() {
        for (count, noun, said) in [
            (1_usize, "VL", "1 VL"),
            (0, "VL", "0 VLs"),
            (2, "CA", "2 CAs"),
            (1, "switch", "1 switch"),
            (3, "switch", "3 switches"),
            (4, "LFT entry", "4 LFT entries"),
            (2, "path", "2 paths"),
            (5, "key", "5 keys"),
        ] {
            assert_eq!(counted(count, noun), said);
        }
        assert_eq!((verb(1_u64, "has", "have"), verb(0_u64, "has", "have")), ("has", "have"));
    }

    #[test]
    fn what_would_change_the_terminal_is_spelt_out() {
        assert!(matches!(printable("leaf „1“ ü漢"), Cow::Borrowed("leaf „1“ ü漢")));
        assert_eq!(printable("a\u{1b}[2Jb\n"), "a\\u{1b}[2Jb\\u{a}");
        assert_eq!(printable("\u{202e}x\u{2066}\u{2028}\u{2029}"), "\\u{202e}x\\u{2066}\\u{2028}\\u{2029}");
    }
}
