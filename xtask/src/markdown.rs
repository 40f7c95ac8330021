//! Parses the parts of Markdown that the rules need: fences, links, headings, code spans.

/// A fenced block.
#[derive(Debug, PartialEq, Eq)]
pub struct Fence<'t> {
    /// Line of the opening fence, from 1.
    pub line: usize,
    /// First word behind the opening fence.
    pub language: &'t str,
    /// The lines inside.
    pub lines: Vec<&'t str>,
    /// The closing fence is there.
    pub closed: bool,
}

/// A text split into its fenced blocks and the numbered lines around them.
#[derive(Debug, Default)]
pub struct Document<'t> {
    /// Blocks, in order.
    pub fences: Vec<Fence<'t>>,
    /// Number (from 1) and text of the lines outside of blocks.
    pub prose: Vec<(usize, &'t str)>,
}

impl<'t> Document<'t> {
    /// Splits a text.
    pub fn read(text: &'t str) -> Self {
        let mut document = Self::default();
        let mut open: Option<(Fence<'t>, &'t str)> = None;
        for (number, line) in text.lines().enumerate() {
            let marks = fence_marks(line.trim_start());
            open = match open {
                None if !marks.is_empty() => {
                    let info = line.trim_start()[marks.len()..].trim();
                    let language = info.split_whitespace().next().unwrap_or("");
                    Some((Fence { line: number + 1, language, lines: Vec::new(), closed: false }, marks))
                }
                None => {
                    document.prose.push((number + 1, line));
                    None
                }
                Some((mut fence, opening)) if marks.starts_with(opening) && line.trim() == marks => {
                    fence.closed = true;
                    document.fences.push(fence);
                    None
                }
                Some((mut fence, opening)) => {
                    fence.lines.push(line);
                    Some((fence, opening))
                }
            };
        }
        document.fences.extend(open.map(|(fence, _)| fence));
        document
    }

    /// Targets of `[text](target)` and `![text](target)`, with their lines. Code spans hold no links.
    pub fn links(&self) -> Vec<(usize, &'t str)> {
        let mut links = Vec::new();
        for (number, line) in &self.prose {
            for piece in outside_code(line) {
                for (at, _) in piece.match_indices("](") {
                    let target = &piece[at + 2..];
                    if let Some(end) = target.find([')', ' ']) {
                        links.push((*number, &target[..end]));
                    }
                }
            }
        }
        links
    }

    /// Anchors of the headings, as hosts of Markdown make them.
    pub fn anchors(&self) -> Vec<String> {
        self.prose
            .iter()
            .filter_map(|(_, line)| {
                line.trim_start_matches('#').strip_prefix(' ').filter(|_| line.starts_with('#'))
            })
            .map(anchor)
            .collect()
    }

    /// Code spans outside of blocks, with their lines.
    pub fn code_spans(&self) -> Vec<(usize, &'t str)> {
        let mut spans = Vec::new();
        for (number, line) in &self.prose {
            spans.extend(line.split('`').skip(1).step_by(2).map(|span| (*number, span)));
        }
        spans
    }
}

/// The run of backticks or tildes that opens or closes a block, or nothing.
fn fence_marks(line: &str) -> &str {
    let length = |mark: char| line.len() - line.trim_start_matches(mark).len();
    let longest = length('`').max(length('~'));
    if longest >= 3 { &line[..longest] } else { "" }
}

fn outside_code(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').step_by(2)
}

/// Lower case, spaces become dashes, other punctuation goes.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_and_prose_are_told_apart() {
        let text = "a\n```sh one\n$ x\n\n```\nb\n~~~~\n```\n~~~\n~~~~\nc\n```text\nopen";
        let document = Document::read(text);
        let prose: Vec<_> = document.prose.iter().map(|(number, line)| (*number, *line)).collect();
        assert_eq!(prose, [(1, "a"), (6, "b"), (11, "c")]);
        let fences: Vec<_> =
            document.fences.iter().map(|f| (f.line, f.language, f.lines.clone(), f.closed)).collect();
        assert_eq!(
            fences,
            [
                (2, "sh", vec!["$ x", ""], true),
                (7, "", vec!["```", "~~~"], true),
                (12, "text", vec!["open"], false)
            ]
        );
    }

    #[test]
    fn links_are_found_outside_of_code() {
        let text = "[a](b.md) and ![p](docs/p.svg \"title\") and `[c](d.md)`\n```\n[e](f.md)\n```\n[g](#h)";
        assert_eq!(Document::read(text).links(), [(1, "b.md"), (1, "docs/p.svg"), (5, "#h")]);
    }

    #[test]
    fn anchors_are_made_as_hosts_make_them() {
        let document = Document::read("# The house, and `run`\n## A-b_c\n#no\n");
        assert_eq!(document.anchors(), ["the-house-and-run", "a-b_c"]);
    }

    #[test]
    fn code_spans_are_found() {
        assert_eq!(Document::read("a `b c` d\n`e` f `g`").code_spans(), [(1, "b c"), (2, "e"), (2, "g")]);
    }
}
