//! Errors of an invalid command line, in one line: what is wrong, the words as they were typed, no advice
//! that the command would refuse, and which help to read.

use std::ffi::{OsStr, OsString};

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, Error};

/// An error of the parser, in words that lead on.
pub(super) fn mended(mut error: Error, root: &mut Command, words: &[OsString]) -> Error {
    if !error.use_stderr() {
        return error;
    }
    root.build();
    let said = error.get(ContextKind::Usage).map(ToString::to_string).unwrap_or_default();
    let (command, path) = if said.is_empty() { asked(root, words) } else { named(root, &said) };
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
    // The parser's own usage, if there is one, holds what has been given, as if all of that were needed.
    error.insert(ContextKind::Usage, ContextValue::StyledStr(usage(root, &path)));
    error
}

/// The error in one line: what is wrong, then where the right usage stands. None: it is a help, in many lines.
pub(crate) fn line(error: &Error) -> Option<String> {
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return None;
    }
    let text = error.to_string();
    let paragraphs = text.split("\n\n").map(|it| it.split_whitespace().collect::<Vec<_>>().join(" "));
    let (mut said, mut usage) = (String::new(), String::new());
    for paragraph in paragraphs {
        if let Some(what) = paragraph.strip_prefix("error: ") {
            said.push_str(&plainly(what));
        } else if let Some(tip) = paragraph.strip_prefix("tip: ") {
            said.push_str("; ");
            said.push_str(tip);
        } else if let Some(its) = paragraph.strip_prefix("Usage: ") {
            its.clone_into(&mut usage);
        }
    }
    let command: Vec<&str> = usage.split(' ').take_while(|word| !word.starts_with(['[', '<'])).collect();
    let is_lacking = error.kind() == ErrorKind::MissingRequiredArgument;
    let usage = if is_lacking { format!("usage: {usage}, ") } else { String::new() };
    Some(format!("{said}: {usage}see `{} --help`", command.join(" ")))
}

/// What the language's library says of a number, in words that name what is wanted.
fn plainly(what: &str) -> String {
    const NUMBERS: [(&str, &str); 5] = [
        ("invalid digit found in string", "it is no whole number"),
        ("cannot parse integer from empty string", "a number is needed"),
        ("number too large to fit in target type", "the number is too large"),
        ("number too small to fit in target type", "the number is too small"),
        ("invalid float literal", "it is no number"),
    ];
    let found = NUMBERS.iter().find_map(|(theirs, ours)| Some((what.strip_suffix(theirs)?, ours)));
    found.map_or_else(|| what.to_owned(), |(before, ours)| format!("{before}{ours}"))
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

/// The command that the words ask for, and its names. Values of options may be names of commands.
fn asked<'c>(root: &'c Command, words: &[OsString]) -> (&'c Command, Vec<String>) {
    let (mut command, mut path) = (root, Vec::new());
    // Behind the program's name.
    let mut words = words.get(1..).unwrap_or_default().iter().map(|word| word.to_string_lossy());
    while let Some(word) = words.next().filter(|word| *word != "--") {
        if word.starts_with('-') {
            if !word.contains('=') && takes_value(command, &word) {
                words.next();
            }
            continue;
        }
        let Some(found) = command.find_subcommand(&*word) else { break };
        command = found;
        path.push(found.get_name().to_owned());
    }
    (command, path)
}

/// Whether the word behind this option is its value.
fn takes_value(command: &Command, option: &str) -> bool {
    let is_it = |arg: &&clap::Arg| match option.strip_prefix("--") {
        Some(long) => arg.get_long_and_visible_aliases().is_some_and(|names| names.contains(&long)),
        None => {
            arg.get_short().is_some_and(|short| option.chars().nth(1) == Some(short)) && option.len() == 2
        }
    };
    command.get_arguments().find(is_it).is_some_and(|arg| arg.get_action().takes_values())
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
    fn an_error_is_one_line_that_ends_with_the_next_step() {
        let line = |line: &str| super::line(&crate::args::parse(line.split(' ')).unwrap_err()).unwrap();
        for (typed, said) in [
            (
                "tieline up --nodes x",
                "invalid value 'x' for '--nodes <NODES>': it is no whole number: see `tieline up --help`",
            ),
            (
                "tieline --cluster up link degrade 4 8 --delay 2",
                "invalid value '2' for '--delay <TIME>': `2`: give a time with its unit: ns, us, ms or s: see `tieline link \
                 degrade --help`",
            ),
            (
                "tieline link swap 4",
                "the following required arguments were not provided: <B>: usage: tieline link swap [OPTIONS] <A> <B>, see \
                 `tieline link swap --help`",
            ),
            (
                "tieline status --nod 4",
                "unexpected argument '--nod' found; a similar argument exists: '--node': see `tieline status --help`",
            ),
            (
                "tieline frobnicate",
                "unrecognized subcommand 'frobnicate'; a similar subcommand exists: 'fabric': see `tieline --help`",
            ),
        ] {
            assert_eq!(line(typed), said);
        }
        assert_eq!(super::line(&crate::args::parse(["tieline"]).unwrap_err()), None);
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
