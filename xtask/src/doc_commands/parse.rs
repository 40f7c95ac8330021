//! Finds the commands and expected outputs in a Markdown text.

use crate::markdown::Document;

/// One command and what it prints.
#[derive(Debug, PartialEq, Eq)]
pub struct Example {
    /// Line of the `$`, from 1.
    pub line: usize,
    /// For the shell; may have several lines.
    pub command: String,
    /// Lines of the pattern; see [`super::pattern`].
    pub expected: Vec<String>,
}

/// A block that cannot be run.
#[derive(Debug, PartialEq, Eq)]
pub struct BadBlock {
    /// From 1.
    pub line: usize,
    /// Why.
    pub what: String,
}

/// The commands of all `console` blocks of a text, in order.
pub fn blocks(text: &str) -> Result<Vec<Example>, BadBlock> {
    let mut examples = Vec::new();
    for fence in Document::read(text).fences.iter().filter(|fence| fence.language == "console") {
        let bad = |what: &str| BadBlock { line: fence.line, what: what.to_owned() };
        let first = examples.len();
        let mut continues = false;
        for (number, line) in fence.lines.iter().enumerate() {
            let line_number = fence.line + 1 + number;
            let current: Option<&mut Example> =
                if examples.len() > first { examples.last_mut() } else { None };
            match (line.strip_prefix("$ "), current) {
                (_, Some(example)) if continues => {
                    continues = line.ends_with('\\');
                    example.command.push('\n');
                    example.command.push_str(line);
                }
                (Some(command), _) => {
                    continues = command.ends_with('\\');
                    let command = command.to_owned();
                    examples.push(Example { line: line_number, command, expected: Vec::new() });
                }
                (None, Some(example)) => example.expected.push((*line).to_owned()),
                (None, None) => return Err(bad("a `console` block starts with a line `$ COMMAND`")),
            }
        }
        if continues {
            return Err(bad("the last command of this block ends with a backslash"));
        }
        if examples.len() == first {
            return Err(bad("this `console` block holds no command"));
        }
    }
    Ok(examples)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example(line: usize, command: &str, expected: &[&str]) -> Example {
        Example {
            line,
            command: command.into(),
            expected: expected.iter().map(|line| (*line).into()).collect(),
        }
    }

    #[test]
    fn commands_and_their_output_are_found() {
        let text = "```console\n$ a b\none\n\ntwo\n$ c \\\n  d\n...\n```\n```sh\n$ not this\n```\n```console\n$ e\n```";
        let expected = [
            example(2, "a b", &["one", "", "two"]),
            example(6, "c \\\n  d", &["..."]),
            example(14, "e", &[]),
        ];
        assert_eq!(blocks(text).unwrap(), expected);
    }

    #[test]
    fn blocks_that_cannot_be_run_are_refused() {
        for (text, line) in
            [("```console\noutput\n```", 1), ("x\n```console\n```", 2), ("```console\n$ a \\\n```", 1)]
        {
            assert_eq!(blocks(text).unwrap_err().line, line, "{text}");
        }
        // Output before the first command of the second block does not belong to the first.
        assert_eq!(blocks("```console\n$ a\n```\n```console\nb\n```").unwrap_err().line, 4);
    }
}
