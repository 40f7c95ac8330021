//! Matches output against an expected text with gaps.

/// Stands for any number of lines, or for any text inside a line.
const GAP: &str = "...";

/// Whether the output is what the pattern says. White space at the ends of lines, and empty lines at the end,
/// do not count.
pub fn matches(pattern: &[String], output: &str) -> bool {
    let output: Vec<&str> = trimmed(output.lines());
    let pattern: Vec<&str> = trimmed(pattern.iter().map(String::as_str));
    // reached[i]: the pattern so far can stand for the first i lines. One row per line of the pattern.
    let mut reached = vec![false; output.len() + 1];
    reached[0] = true;
    for line in pattern {
        let mut next = vec![false; output.len() + 1];
        for at in 0..=output.len() {
            next[at] = if line.trim() == GAP {
                reached[at] || (at > 0 && next[at - 1])
            } else {
                at > 0 && reached[at - 1] && line_matches(line, output[at - 1])
            };
        }
        reached = next;
    }
    reached[output.len()]
}

fn trimmed<'l>(lines: impl Iterator<Item = &'l str>) -> Vec<&'l str> {
    let mut lines: Vec<&str> = lines.map(str::trim_end).collect();
    while lines.last().is_some_and(|line| line.is_empty()) {
        lines.pop();
    }
    lines
}

/// The pieces between the gaps stand in the line, in order; the first at its start, the last at its end.
fn line_matches(pattern: &str, line: &str) -> bool {
    let mut pieces: Vec<&str> = pattern.split(GAP).collect();
    let Some(last) = pieces.pop().filter(|_| !pieces.is_empty()) else { return pattern == line };
    let Some(mut rest) = line.strip_prefix(pieces[0]) else { return false };
    for piece in &pieces[1..] {
        let Some(at) = rest.find(piece) else { return false };
        rest = &rest[at + piece.len()..];
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn same(pattern: &str, output: &str) -> bool {
        let pattern: Vec<String> = pattern.lines().map(str::to_owned).collect();
        matches(&pattern, output)
    }

    #[test]
    fn plain_output_must_be_the_same() {
        assert!(same("a\nb", "a  \nb\n\n"));
        assert!(same("", ""));
        assert!(!same("a", "a\nb"));
        assert!(!same("a\nb", "a"));
        assert!(!same("", "a"));
    }

    #[test]
    fn gaps_stand_for_lines() {
        for output in ["a\nz", "a\nb\nz", "a\nb\nc\nz"] {
            assert!(same("a\n...\nz", output), "{output}");
        }
        assert!(same("...", "") && same("...", "a\nb"));
        assert!(same("...\nm\n...\nm\n...", "m\nx\nm"));
        assert!(!same("...\nm\n...\nm\n...", "x\nm"));
        assert!(!same("a\n...", "b\na"));
    }

    #[test]
    fn gaps_stand_for_text_in_a_line() {
        assert!(same("node ... up in ... ms", "node 4 up in 12 ms"));
        assert!(same("...end", "the end") && same("start...", "start") && same("a...a", "aa"));
        assert!(!same("a...a", "a"));
        assert!(!same("x...y...z", "xzy"));
    }
}
