//! Makes text from other nodes safe for a terminal, a log or a page.

/// May a character go to a terminal? It does not control the terminal, nor the order or visibility of what is
/// around it.
#[must_use]
pub fn is_plain(c: char) -> bool {
    let hidden = matches!(c,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}');
    !c.is_control() && !hidden
}

/// A text in which every character that may not go to a terminal is replaced: one line.
#[must_use]
pub fn plain(text: &str) -> String {
    text.chars().map(|c| if is_plain(c) { c } else { char::REPLACEMENT_CHARACTER }).collect()
}

/// The same of a text of several lines: their ends stay.
#[must_use]
pub fn plain_lines(text: &str) -> String {
    text.chars().map(|c| if c == '\n' || is_plain(c) { c } else { char::REPLACEMENT_CHARACTER }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_controls_a_terminal_does_not_get_through() {
        let bad = "\u{1b}[2J\u{7}\u{7f}\u{9b}31m\u{85}\u{202e}\u{2066}\u{2028}\u{2029}\u{200b}\u{feff}\u{61c}\r\t\u{e0041}";
        assert!(plain(bad).chars().all(is_plain), "{:?}", plain(bad));
        assert_eq!(plain("a\nb\u{1b}c"), "a\u{fffd}b\u{fffd}c");
        assert_eq!(plain_lines("a\nb\u{1b}c"), "a\nb\u{fffd}c");
        assert_eq!(plain("Knoten Süd 7, 交换机 é…"), "Knoten Süd 7, 交换机 é…");
    }
}
