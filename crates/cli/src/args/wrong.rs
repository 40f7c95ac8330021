//! What is said of a command line that cannot be understood: the whole usage of the command, no advice that the command would refuse, and
//! words as they were typed.

use std::ffi::{OsStr, OsString};

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue};
use clap::{Command, Error};

/// An error of the parser, in words that lead on.
pub(super) fn mended(mut error: Error, root: &mut Command, words: &[OsString]) -> Error {
    if !error.use_stderr() {
        return error;
    }
    root.build();
    let said = error.get(ContextKind::Usage).map(ToString::to_string).unwrap_or_default();
    let (command, path) = named(root, &said);
    if let Some(ContextValue::String(tip)) = error.get(ContextKind::SuggestedArg)
        && is_refused(command, tip)
    {
        error.remove(ContextKind::SuggestedArg);
    }
    if let Some(ContextValue::String(short)) = error.get(ContextKind::InvalidArg)
        && let Some(whole) = typed(words, short)
    {
        error.insert(ContextKind::InvalidArg, ContextValue::String(whole));
    }
    // The parser's own usage holds what has been given, as if all of that were needed.
    if !said.is_empty() {
        error.insert(ContextKind::Usage, ContextValue::StyledStr(usage(root, &path)));
    }
    error
}

/// The error of a call by another name: its usage is of that name, `plain` is what it stands for.
pub(crate) fn called(mut error: Error, name: &str, plain: &str) -> Error {
    if let Some(ContextValue::StyledStr(usage)) = error.get(ContextKind::Usage) {
        let usage = usage.ansi().to_string().replace(plain, name);
        error.insert(ContextKind::Usage, ContextValue::StyledStr(StyledStr::from(usage)));
    }
    error
}

/// The command that the parser's usage is of, and its names.
fn named<'c>(root: &'c Command, usage: &str) -> (&'c Command, Vec<String>) {
    let (mut command, mut path) = (root, Vec::new());
    // Behind `Usage: tieline`. In the words themselves a name may be the value of an option.
    for word in usage.split_whitespace().skip(2) {
        let Some(found) = command.find_subcommand(word) else { break };
        command = found;
        path.push(word.to_owned());
    }
    (command, path)
}

/// The whole usage of the command of these names.
fn usage(command: &mut Command, path: &[String]) -> StyledStr {
    match path.split_first() {
        None => command.render_usage(),
        Some((name, rest)) => match command.find_subcommand_mut(name) {
            Some(found) => usage(found, rest),
            None => StyledStr::new(),
        },
    }
}

/// Is it an option that means nothing to this command, and that its help leaves out for that reason?
fn is_refused(command: &Command, option: &str) -> bool {
    let long = option.trim_start_matches('-');
    command.get_arguments().any(|arg| arg.get_long() == Some(long) && arg.is_hide_set())
}

/// The word of which the parser, that takes it for short options, has named the first letter alone.
fn typed(words: &[OsString], short: &str) -> Option<String> {
    let is_short = short.len() == 2 && short.starts_with('-') && short != "--";
    let words = words.iter().skip(1).take_while(|word| *word != "--").filter_map(|word| OsStr::to_str(word));
    words.filter(|word| is_short && word.len() > 2).find(|word| word.starts_with(short)).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    fn said(line: &str) -> String {
        crate::args::parse(line.split(' ')).unwrap_err().to_string()
    }

    #[test]
    fn no_advice_is_given_that_the_command_would_refuse() {
        for command in ["up", "down", "verify", "clusters", "run", "fabric observe", "bench limits"] {
            let said = said(&format!("tieline {command} --nonsense"));
            assert!(said.contains("'--nonsense'") && !said.contains("--node'"), "{said}");
        }
        assert!(said("tieline status --nod 4").contains("'--node'"));
    }

    #[test]
    fn the_usage_is_that_of_the_command_whatever_was_given() {
        for (line, usage) in [
            ("tieline status --nonsense", "Usage: tieline status [OPTIONS]\n"),
            ("tieline verify --nodes 3 --running", "Usage: tieline verify [OPTIONS]\n"),
            ("tieline verify --quick --thorough", "Usage: tieline verify [OPTIONS]\n"),
            ("tieline --quiet bench scipp --nonsense", "Usage: tieline bench scipp [OPTIONS]\n"),
            ("tieline --cluster up down --nonsense", "Usage: tieline down [OPTIONS]\n"),
            ("tieline link flap 4 --nonsense", "Usage: tieline link flap [OPTIONS] <A> <B>\n"),
            ("tieline frobnicate", "Usage: tieline [OPTIONS] <COMMAND>\n"),
        ] {
            assert!(said(line).contains(usage), "{line}: {}", said(line));
        }
    }

    #[test]
    fn words_stand_as_they_were_typed() {
        assert!(said("tieline diag -bogus").contains("'-bogus'"), "{}", said("tieline diag -bogus"));
        assert!(said("tieline diag -b").contains("'-b'"));
        let error = crate::args::parse(["tieline", "diag", "-bogus"]).unwrap_err();
        let said = super::called(error, "dis_diag", "tieline diag").to_string();
        assert!(said.contains("Usage: dis_diag [OPTIONS]\n") && !said.contains("tieline diag"), "{said}");
    }
}
