//! Checks that documents name only commands and options that the binary's `--help` lists.

use crate::markdown::Document;

/// A command line that a document shows or mentions.
#[derive(Debug, PartialEq, Eq)]
pub struct Mention<'t> {
    /// From 1.
    pub line: usize,
    /// The words behind `tieline`.
    pub words: Vec<&'t str>,
}

/// All command lines of `tieline` in code spans and in blocks for a shell.
pub fn mentions(text: &str) -> Vec<Mention<'_>> {
    let document = Document::read(text);
    let mut lines = document.code_spans();
    for fence in document.fences.iter().filter(|fence| matches!(fence.language, "console" | "sh")) {
        for (number, line) in fence.lines.iter().enumerate() {
            // In a console block only what is typed; the rest is output.
            let typed = if fence.language == "console" { line.strip_prefix("$ ") } else { Some(*line) };
            let typed = typed.and_then(|line| line.split(" #").next()).unwrap_or("");
            lines.extend(
                typed.split([';', '&']).flat_map(|c| c.split(" | ")).map(|c| (fence.line + 1 + number, c)),
            );
        }
    }
    let words = lines.into_iter().map(|(line, text)| (line, text.split_whitespace().collect::<Vec<_>>()));
    let ours = words.filter(|(_, words)| words.len() > 1 && words[0] == "tieline");
    ours.map(|(line, words)| Mention { line, words: words[1..].to_vec() }).collect()
}

/// What is wrong with a mention, if anything. `help` gives the text of `tieline PATH… --help`.
pub fn problem(mention: &Mention<'_>, help: &mut impl FnMut(&[&str]) -> Option<String>) -> Option<String> {
    let mut path: Vec<&str> = Vec::new();
    let mut text = help(&path)?;
    let mut after_option = false;
    for word in &mention.words {
        let word = word.trim_matches(['[', ']', ',']);
        if word == "--" {
            break;
        }
        if let Some(option) = word.strip_prefix("--") {
            let option = option.split(['=', '[']).next().unwrap_or("");
            if !has_option(&text, option) {
                return Some(format!("`tieline {}` has no option `--{option}`", path.join(" ")));
            }
            after_option = true;
            continue;
        }
        let commands = subcommands(&text);
        let is_name = word.starts_with(|c: char| c.is_ascii_lowercase()) && !commands.is_empty();
        if is_name && !after_option {
            // Within a table a bar is written `\|`.
            let unknown =
                word.split('|').map(|name| name.trim_end_matches('\\')).find(|name| !commands.contains(name));
            if let Some(name) = unknown {
                return Some(format!("`tieline {}` has no command `{name}`", path.join(" ")));
            }
        }
        if commands.contains(&word) {
            path.push(word);
            text = help(&path)?;
        } else if word.contains('|') {
            break;
        }
        after_option = false;
    }
    None
}

/// The names under `Commands:`.
fn subcommands(help: &str) -> Vec<&str> {
    let section = help.lines().skip_while(|line| line.trim() != "Commands:").skip(1);
    let names = section.take_while(|line| !line.trim().is_empty()).filter_map(|line| {
        let name = line.strip_prefix("  ")?;
        if name.starts_with(' ') { None } else { name.split([' ', ',']).next() }
    });
    names.collect()
}

fn has_option(help: &str, option: &str) -> bool {
    let words = help.split(|c: char| c.is_whitespace() || matches!(c, ',' | '=' | '[' | ']' | '<' | '.'));
    words.filter_map(|word| word.strip_prefix("--")).any(|there| there == option)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn help(path: &[&str]) -> Option<String> {
        let text = match path {
            [] => {
                "Usage: x\n\nCommands:\n  up      Start\n          and more\n  bench   Measure\n  help    Print\n\nOptions:\n  -q, --quiet  Hush"
            }
            ["up"] => "Options:\n      --nodes <N>  How many\n      --cluster=<NAME>\n",
            ["bench"] => "Commands:\n  scipp  PIO\n",
            ["bench", "scipp"] => "Options:\n      --json\n",
            _ => return None,
        };
        Some(text.to_owned())
    }

    fn problem_of(line: &str) -> Option<String> {
        let mention = Mention { line: 1, words: line.split_whitespace().skip(1).collect() };
        problem(&mention, &mut help)
    }

    #[test]
    fn what_the_binary_has_passes() {
        for fine in [
            "tieline up --nodes 9",
            "tieline up --cluster=a --nodes 3",
            "tieline --quiet up",
            "tieline up|bench",
            "tieline up\\|bench",
            "tieline bench scipp --json",
            "tieline bench scipp [--json]",
            "tieline up -- --whatever",
            "tieline COMMAND",
            "tieline bench --help",
        ] {
            let expected = fine.ends_with("--help").then_some(());
            assert_eq!(problem_of(fine).map(drop), expected, "{fine}");
        }
    }

    #[test]
    fn what_it_lacks_is_found() {
        for bad in [
            "tieline fly",
            "tieline up --height 3",
            "tieline bench fly",
            "tieline up|fly",
            "tieline bench --json",
        ] {
            assert!(problem_of(bad).is_some(), "{bad}");
        }
    }

    #[test]
    fn mentions_are_found_in_spans_and_blocks() {
        let text = "`tieline up` and `tieline` and tieline down\n```console\n$ tieline a; tieline b # c\ntieline d\n```\n\
            ```sh\ntieline e | tieline f\n```\n```text\ntieline g\n```";
        let found: Vec<_> = mentions(text).into_iter().map(|m| (m.line, m.words.join(" "))).collect();
        let expected = [(1, "up"), (3, "a"), (3, "b"), (7, "e"), (7, "f")];
        assert_eq!(found, expected.map(|(line, words)| (line, words.to_owned())));
    }
}
