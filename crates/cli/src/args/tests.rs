//! Tests that the commands in messages exist.

use std::path::{Path, PathBuf};

use clap::{Command, CommandFactory};

use super::Cli;

/// Crates whose messages a user of the binary sees.
const CRATES: [&str; 6] = ["cli", "verify", "bench", "node", "node-client", "tieline"];

fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Code without comments and without the tests at the end, where other things are typed.
fn code(text: &str) -> String {
    let tests = text.find("#[cfg(test)]").unwrap_or(text.len());
    text[..tests].lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

/// Every `--name` in a text.
fn options(text: &str) -> Vec<&str> {
    let is_name = |c: char| c.is_ascii_lowercase() || c == '-';
    let parts = text.split("--").skip(1).map(|rest| rest.split(|c| !is_name(c)).next().unwrap_or_default());
    parts.map(|name| name.trim_end_matches('-')).filter(|name| name.len() > 1).collect()
}

fn longs(command: &Command, found: &mut Vec<String>) {
    for argument in command.get_arguments() {
        found.extend(argument.get_long_and_visible_aliases().into_iter().flatten().map(str::to_owned));
    }
    command.get_subcommands().for_each(|command| longs(command, found));
}

/// The command that a text like `tieline node start --node {node}` names, and what it says behind
/// it.
fn command_of<'c>(root: &'c Command, words: &[&str]) -> Result<&'c Command, String> {
    let mut command = root;
    for word in words.iter().take_while(|word| word.starts_with(|c: char| c.is_ascii_lowercase())) {
        match command.find_subcommand(word) {
            Some(found) => command = found,
            None if command.has_subcommands() => return Err(format!("no command `{word}`")),
            None => break,
        }
    }
    Ok(command)
}

fn built() -> Command {
    let mut root = Cli::command();
    root.build();
    root
}

fn each_source(mut check: impl FnMut(&Path, &str)) {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut files = Vec::new();
    CRATES.iter().for_each(|name| sources(&crates.join(name).join("src"), &mut files));
    assert!(files.len() > 50, "only {} files", files.len());
    // Those of the programs of others that figures are measured with are not ours.
    let is_ours = |file: &&PathBuf| {
        let is_others =
            file.ends_with("patterns/programs.rs") || file.parent().unwrap().ends_with("patterns/programs");
        !file.ends_with("args/tests.rs") && !is_others
    };
    for file in files.iter().filter(is_ours) {
        check(file, &code(&std::fs::read_to_string(file).unwrap()));
    }
}

/// `--id` is understood everywhere and is advice nowhere: a reader that meets both takes them for
/// two things.
#[test]
fn a_node_is_named_by_one_option_in_all_messages() {
    each_source(|file, text| {
        // What is run for a manager is read by nobody.
        let is_call = file.ends_with("cluster/launch.rs");
        assert!(is_call || !options(text).contains(&"id"), "{}: say --node", file.display());
    });
}

/// The parser does not ask for what an option needs where that is barred by a third one.
#[test]
fn an_option_without_the_one_that_it_goes_with_is_refused_whatever_else_is_given() {
    for line in [
        "cable --save x --nodes 4",
        "cable --plan x --force",
        "cable --plan x --measure",
        "cable --plan x --nodes 4",
        "cable --generate --force",
        "fabric observe --from x --at n",
        "fabric observe --from x --times 3",
        "fabric observe --umad 0 --at n",
        "fabric check x --at n",
        "fabric route x --at n",
        "verify --report x --from y --quick",
        "verify --report x --from y --plan z",
        "verify --report x --from y --baseline z",
    ] {
        let words = std::iter::once("tieline").chain(line.split(' '));
        assert!(crate::args::parse(words).is_err(), "{line}");
    }
}

#[test]
fn every_option_that_a_message_names_exists() {
    let mut known = Vec::new();
    longs(&built(), &mut known);
    each_source(|file, text| {
        for option in options(text) {
            assert!(known.iter().any(|long| long == option), "{}: there is no --{option}", file.display());
        }
    });
}

#[test]
fn every_command_that_a_message_advises_takes_the_options_that_it_names() {
    let root = built();
    let mut seen = 0;
    each_source(|file, text| {
        let joined = text.replace("\\\n", " ");
        for advice in joined.split("`tieline ").skip(1).filter_map(|rest| rest.split('`').next()) {
            let words: Vec<&str> = advice.split_whitespace().collect();
            let command = command_of(&root, &words);
            let command =
                command.unwrap_or_else(|why| panic!("{}: `tieline {advice}`: {why}", file.display()));
            let mut takes = Vec::new();
            longs(command, &mut takes);
            for option in options(advice).into_iter().filter(|option| *option != "help") {
                assert!(takes.iter().any(|long| long == option), "{}: `tieline {advice}`", file.display());
            }
            seen += 1;
        }
    });
    assert!(seen > 10, "only {seen} were looked at");
}
