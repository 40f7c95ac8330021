//! Checks that the README's blocks have two commands to type, and that all documents name only
//! verbs that `./run` has.

use anyhow::Result;

use crate::finding::Finding;
use crate::markdown::Document;
use crate::tree::Tree;

const RULE: &str = "readme";
const README: &str = "README.md";
/// What a stranger types first, in this order.
const MAIN_COMMANDS: [&str; 2] = ["./run verify", "./run test"];

/// Names what the README's blocks tell to type besides, and verbs that `./run` lacks.
pub(super) fn check(tree: &Tree) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    if let Some(text) = tree.text(README) {
        let told = told(text);
        if told.iter().map(|(_, command)| *command).ne(MAIN_COMMANDS) {
            let line = told.first().map_or(1, |(line, _)| *line);
            let what = format!(
                "the README's blocks tell to type {:?}",
                told.iter().map(|t| t.1).collect::<Vec<_>>()
            );
            let next = format!("tell these and nothing else of ./run: {MAIN_COMMANDS:?}");
            findings.push(Finding::error(README, line, RULE, what, next));
        }
    }
    if let Some(script) = tree.text("run") {
        for (path, text) in tree.files_ending(".md") {
            for (line, verb) in verbs(text) {
                // As its usage names them.
                if !script.contains(&format!("\n  {verb} ")) {
                    let what = format!("`./run {verb}` is no verb of ./run");
                    findings.push(Finding::error(
                        path,
                        line,
                        RULE,
                        what,
                        "see ./run for the verbs there are",
                    ));
                }
            }
        }
    }
    Ok(findings)
}

/// The lines of blocks that start with `./run`, without the prompt and a comment.
fn told(text: &str) -> Vec<(usize, &str)> {
    let mut told = Vec::new();
    for fence in Document::read(text).fences {
        for (number, line) in fence.lines.iter().enumerate() {
            let command = line.trim_start_matches("$ ").split('#').next().unwrap_or("").trim();
            if command.starts_with("./run") {
                told.push((fence.line + 1 + number, command));
            }
        }
    }
    told
}

/// The word behind each `./run`, wherever it stands.
fn verbs(text: &str) -> Vec<(usize, &str)> {
    let mut verbs = Vec::new();
    for (number, line) in text.lines().enumerate() {
        for (at, prefix) in line.match_indices("./run ") {
            let rest = &line[at + prefix.len()..];
            let verb =
                &rest[..rest.find(|c: char| c != '-' && !c.is_ascii_lowercase()).unwrap_or(rest.len())];
            // `./run [VERB]` and a word of prose behind a closing quote are no verbs.
            if !verb.is_empty() && !verb.starts_with('-') {
                verbs.push((number + 1, verb));
            }
        }
    }
    verbs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::places;

    const GOOD: &str =
        "# x\n```sh\n./run verify   # brings it up\n./run test\n```\nThere is `./run soak-it` too.";
    const SCRIPT: &str = "usage: ./run VERB\n\n  verify [OPTION…]  a verdict\n  test  all\n  soak-it  long\n";

    #[test]
    fn the_two_commands_pass() {
        assert!(places(check, &[(README, GOOD), ("run", SCRIPT)]).is_empty());
    }

    #[test]
    fn a_third_command_or_a_missing_one_is_found() {
        let third = GOOD.replace("./run test\n", "./run test\n./run soak\n");
        assert_eq!(places(check, &[(README, &third)]), ["README.md:3"]);
        assert_eq!(places(check, &[(README, "# x")]), ["README.md:1"]);
    }

    #[test]
    fn a_verb_that_does_not_exist_is_found() {
        let files = [("docs/a.md", "a\nuse `./run verify` or `./run fly`"), ("run", SCRIPT)];
        assert_eq!(places(check, &files), ["docs/a.md:2"]);
    }
}
