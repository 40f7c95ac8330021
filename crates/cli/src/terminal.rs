//! Output for a terminal: folds lines to its width, and colours verdicts. Other output is not changed.

use std::borrow::Cow;
use std::io::IsTerminal;

use clap::builder::styling::{AnsiColor, Style};

/// Below this nothing is folded: there would be more indentation than text.
const MIN_COLUMNS: usize = 20;
/// By how much the rest of a folded line is indented more than its beginning.
const INDENTATION: usize = 4;

/// The text as standard output shows it best.
pub(crate) fn for_stdout(text: &str) -> Cow<'_, str> {
    let out = std::io::stdout();
    if !out.is_terminal() {
        return text.into();
    }
    let folded = match columns() {
        Some(columns) => fold(text, columns),
        None => text.into(),
    };
    if has_colour() { painted(&folded).into() } else { folded }
}

/// How wide the terminal is, if it says so.
fn columns() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns >= MIN_COLUMNS)
}

/// Whether colour is wanted: <https://no-color.org>, and no terminal that shows codes as text.
fn has_colour() -> bool {
    let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    !is_set("NO_COLOR") && knows_codes()
}

/// Does the terminal know how to erase a line, and colours?
pub(crate) fn knows_codes() -> bool {
    std::env::var_os("TERM").is_some_and(|terminal| terminal != "dumb")
}

/// Lines of so many columns: longer ones are broken at spaces, and what follows is indented. A word is never
/// broken.
fn fold(text: &str, columns: usize) -> Cow<'_, str> {
    if text.lines().all(|line| line.chars().count() <= columns) {
        return text.into();
    }
    let mut folded = String::with_capacity(text.len() * 5 / 4);
    for line in text.split_inclusive('\n') {
        let body = line.strip_suffix('\n').unwrap_or(line);
        fold_line(&mut folded, body, columns);
        folded.push_str(&line[body.len()..]);
    }
    folded.into()
}

fn fold_line(folded: &mut String, line: &str, columns: usize) {
    let leading = line.len() - line.trim_start_matches(' ').len();
    let indentation = (leading + INDENTATION).min(columns / 3);
    let (mut rest, mut room) = (line, columns);
    while let Some(at) = break_at(rest, room) {
        folded.push_str(rest[..at].trim_end());
        folded.push('\n');
        folded.push_str(&" ".repeat(indentation));
        rest = rest[at..].trim_start();
        room = columns - indentation;
    }
    folded.push_str(rest);
}

/// Where a line that is too long is broken: at the last space within the room, or the first one behind it.
/// None: not at all.
fn break_at(line: &str, room: usize) -> Option<usize> {
    let (end, _) = line.char_indices().nth(room)?;
    let text = line.len() - line.trim_start().len();
    // The character that no longer fits may be the space.
    let within = line[text..].char_indices().take_while(|(at, _)| text + at <= end);
    let last = within.filter(|(_, character)| *character == ' ').last();
    let first_behind = || line[end..].find(' ').map(|at| end + at);
    let at = last.map(|(at, _)| text + at).or_else(first_behind)?;
    (!line[at..].trim().is_empty()).then_some(at)
}

/// Verdicts in colour, which say in words what they are all the same.
fn painted(text: &str) -> String {
    let mut painted = String::with_capacity(text.len() + 64);
    let mut rest = text;
    while let Some(start) = rest.find(|c: char| c.is_ascii_uppercase()) {
        let before = rest[..start].chars().next_back();
        painted.push_str(&rest[..start]);
        rest = &rest[start..];
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
        let (word, behind) = rest.split_at(end);
        match style(word).filter(|_| !before.is_some_and(|c| c.is_alphanumeric())) {
            Some(style) => painted.push_str(&format!("{style}{word}{style:#}")),
            None => painted.push_str(word),
        }
        rest = behind;
    }
    painted.push_str(rest);
    painted
}

fn style(word: &str) -> Option<Style> {
    let colour = match word {
        "PASS" | "PASSED" => AnsiColor::Green,
        "FAIL" | "FAILED" => AnsiColor::Red,
        "INCONCLUSIVE" | "PARTIAL" | "WARN" => AnsiColor::Yellow,
        _ => return None,
    };
    Some(colour.on_default().bold())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_folded_at_spaces_and_short_ones_stay() {
        assert!(matches!(fold("short\nalso short\n", 10), Cow::Borrowed(_)));
        let row = "  node adapter  link       state\n     4       1  4-8        up\n";
        assert_eq!(fold(row, 24), "  node adapter  link\n      state\n     4       1  4-8\n        up\n");
        assert_eq!(fold("one two three", 7), "one two\n  three");
        assert_eq!(fold("a-word-that-is-too-long and more", 20), "a-word-that-is-too-long\n    and more");
        assert_eq!(fold("a-word-that-is-too-long", 20), "a-word-that-is-too-long");
        assert_eq!(fold("trailing spaces only           \n", 20), "trailing spaces only           \n");
    }

    #[test]
    fn nothing_but_white_space_changes_at_any_width() {
        let text =
            "tieline cable: cluster `ä€`, 3 nodes\n\n  node  4: “does not respond”: x\n\tend without newline";
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        for columns in 1..60 {
            let folded = fold(text, columns);
            assert_eq!(words(&folded), words(text), "{columns}");
            let is_longer = |line: &str| line.chars().count() > columns;
            let one_word = |line: &str| line.split_whitespace().count() <= 1;
            assert!(
                folded.lines().all(|line| !is_longer(line) || one_word(line) || columns < 8),
                "{columns}:\n{folded}"
            );
        }
    }

    #[test]
    fn verdicts_have_colour_and_nothing_else_has() {
        let green = "\x1b[1m\x1b[32mPASSED\x1b[0m";
        assert_eq!(painted("TEST RESULT: *PASSED*\n"), format!("TEST RESULT: *{green}*\n"));
        assert!(painted("verify: FAIL: link 4-8").contains("\x1b[31mFAIL\x1b[0m:"));
        assert!(painted("[WARN] x").starts_with("[\x1b"));
        for plain in ["", "PASSAGE", "xPASS", "1PASS", "ÄPASS", "COMPASS", "FAILURES", "a b"] {
            assert_eq!(painted(plain), plain);
        }
    }
}
