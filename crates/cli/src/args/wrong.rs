//! Errors of an invalid command line, in one line: what is wrong, the words as they were typed, no
//! advice that the command would refuse, and which help to read.

use std::ffi::{OsStr, OsString};

use bench::thresholds::ids::edits;
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
    if error.kind() == ErrorKind::MissingRequiredArgument {
        let missing = strings(&error, ContextKind::InvalidArg);
        // An option that is missing whatever is given is missing alone, too.
        let is_option = missing.iter().all(|name| name.starts_with("--"));
        if let Some(option) = needing(root, &path, words, &missing).filter(|_| is_option) {
            error.insert(NEEDED_BY, ContextValue::String(option));
        }
    }
    // The parser's own usage, if there is one, holds what has been given, as if all of that were
    // needed.
    error.insert(ContextKind::Usage, ContextValue::StyledStr(usage(root, &path)));
    error
}

/// The error in one line: what is wrong, then where the right usage stands. None: it is a help, in
/// many lines.
pub(crate) fn line(error: &Error) -> Option<String> {
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return None;
    }
    let usage = error.get(ContextKind::Usage).map(ToString::to_string).unwrap_or_default();
    let usage = usage.split_whitespace().skip(1).collect::<Vec<_>>().join(" ");
    let command: Vec<&str> = usage.split(' ').take_while(|word| !word.starts_with(['[', '<'])).collect();
    let command = command.join(" ");
    let mut whole = String::new();
    let what = match error.kind() {
        ErrorKind::UnknownArgument => unknown(error, &command),
        ErrorKind::InvalidSubcommand => {
            let name = strings(error, ContextKind::InvalidSubcommand).join(" ");
            format!("unknown command `{name}`{}", similar(error, ContextKind::SuggestedSubcommand, &name))
        }
        ErrorKind::InvalidValue | ErrorKind::ValueValidation => value(error),
        ErrorKind::MissingRequiredArgument => {
            let missing = strings(error, ContextKind::InvalidArg);
            // The names of a group of which at least one is needed.
            if let [group] = missing.as_slice()
                && let Some(names) = group.strip_prefix('<').and_then(|rest| rest.strip_suffix('>'))
                && names.contains('|')
                && names.split('|').all(|name| name.starts_with("--"))
            {
                let names: Vec<&str> =
                    names.split('|').map(|name| name.split_whitespace().next().unwrap_or_default()).collect();
                return Some(format!(
                    "none of the options is given: add at least one of {}: see `{command} --help`",
                    names.join(", ")
                ));
            }
            let several = missing.len() > 1;
            let missing = missing.join(", ");
            match strings(error, NEEDED_BY).first() {
                Some(option) => format!("{option} needs {missing}"),
                None => {
                    whole = format!("usage: {usage}, ");
                    format!("{missing} {} missing", if several { "are" } else { "is" })
                }
            }
        }
        ErrorKind::ArgumentConflict => conflict(error),
        ErrorKind::WrongNumberOfValues => number_of_values(error),
        ErrorKind::TooManyValues => {
            let option = strings(error, ContextKind::InvalidArg).join(" ");
            let more = if option.contains('<') { "no further value" } else { "no value" };
            format!("{} takes {more}", plain_name(&option))
        }
        _ => paragraphs(error),
    };
    Some(format!("{what}: {whole}see `{command} --help`"))
}

/// Where [`mended`] leaves the option that needs another one. The parser leaves nothing there.
const NEEDED_BY: ContextKind = ContextKind::Custom;

/// What the parser has noted of an error.
fn strings(error: &Error, kind: ContextKind) -> Vec<String> {
    match error.get(kind) {
        Some(ContextValue::String(one)) => vec![one.clone()],
        Some(ContextValue::Strings(many)) => many.clone(),
        _ => Vec::new(),
    }
}

fn unknown(error: &Error, command: &str) -> String {
    let word = strings(error, ContextKind::InvalidArg).join(" ");
    if !word.starts_with('-') {
        return format!("unexpected word `{word}`");
    }
    let behind = if command == "tieline run" { "; options of the program go after `--`" } else { "" };
    format!("unknown option {word}{}{behind}", similar(error, ContextKind::SuggestedArg, &word))
}

/// A name that differs by two letters at most. The parser also suggests what has little in common.
fn similar(error: &Error, kind: ContextKind, word: &str) -> String {
    let found = strings(error, kind).into_iter().find(|name| edits(word, name) <= 2);
    found.map_or_else(String::new, |name| format!("; a similar one is {name}"))
}

/// An option without the names of its values: `--nodes <NODES>`; an argument without a name is `<A>`.
fn plain_name(option: &str) -> &str {
    if option.starts_with('-') { option.split(' ').next().unwrap_or_default() } else { option }
}

/// Two that exclude each other, or one that was given twice.
fn conflict(error: &Error) -> String {
    let others = strings(error, ContextKind::PriorArg);
    let others: Vec<&str> = others.iter().map(|other| plain_name(other)).collect();
    let command = strings(error, ContextKind::InvalidSubcommand);
    let what = match (strings(error, ContextKind::InvalidArg).first(), command.first()) {
        (Some(option), _) => plain_name(option).to_owned(),
        (None, Some(command)) => format!("the command `{command}`"),
        (None, None) => return paragraphs(error),
    };
    match others.as_slice() {
        [] => paragraphs(error),
        [other] if *other == what => format!("{what} is given more than once: give it once"),
        others => format!("{what} cannot be combined with {}: leave one out", listed(others)),
    }
}

/// An option that takes several values at once.
fn number_of_values(error: &Error) -> String {
    let option = strings(error, ContextKind::InvalidArg).join(" ");
    let number = |kind| match error.get(kind) {
        Some(ContextValue::Number(number)) => Some(*number),
        _ => None,
    };
    let (Some(given), Some(wanted)) =
        (number(ContextKind::ActualNumValues), number(ContextKind::ExpectedNumValues))
    else {
        return paragraphs(error);
    };
    let names: Vec<&str> =
        option.split(['<', '>']).skip(1).step_by(2).filter(|name| !name.is_empty()).collect();
    let names = names.join(" and ");
    format!("{} needs {wanted} values, {names}, and {given} is given", plain_name(&option))
}

/// An argument that may be given several times, or not at all, is named as one: `[TEST]...` is `<TEST>`.
fn argument_name(name: &str) -> String {
    let inner = name.trim_end_matches("...");
    match inner.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        Some(inner) => format!("<{inner}>"),
        None => inner.to_owned(),
    }
}

/// A wrong value, once, and what would be right.
fn value(error: &Error) -> String {
    let option = strings(error, ContextKind::InvalidArg).join(" ");
    let value = strings(error, ContextKind::InvalidValue).join(" ");
    let known = strings(error, ContextKind::ValidValue);
    if value.is_empty() && known.is_empty() && std::error::Error::source(error).is_none() {
        return format!("{option} needs a value");
    }
    let name = argument_name(plain_name(&option));
    let reason = match std::error::Error::source(error) {
        Some(source) => wanted(&value, &source.to_string()),
        None => {
            let known: Vec<&str> = known.iter().map(String::as_str).collect();
            format!("give {}", listed(&known))
        }
    };
    format!("{name} {value}: {reason}")
}

fn listed(known: &[&str]) -> String {
    match known {
        [most @ .., last] if !most.is_empty() => format!("{} or {last}", most.join(", ")),
        _ => known.join(", "),
    }
}

/// A reason without the value, which stands before it.
fn wanted(value: &str, reason: &str) -> String {
    if let Some(range) = reason.strip_prefix(value).and_then(|rest| rest.strip_prefix(" is not in ")) {
        return of_range(range);
    }
    let quoted = format!("`{value}`");
    let rest = reason.strip_prefix(quoted.as_str()).or_else(|| reason.strip_prefix(value));
    match rest.map(|rest| (rest, rest.strip_prefix(": "))) {
        Some((_, Some(rest))) => plainly(rest),
        Some((rest, None)) if rest.starts_with(' ') => plainly(&format!("it{rest}")),
        _ => plainly(reason),
    }
}

/// `0..=9`, in words.
fn of_range(range: &str) -> String {
    match range.split_once("..") {
        Some((from, to)) => match to.trim_start_matches('=').parse::<u64>() {
            Ok(most) if most < u64::from(u32::MAX) => format!("give a number from {from} to {most}"),
            _ => format!("give a number of at least {from}"),
        },
        None => format!("give a number in {range}"),
    }
}

/// The parser's own text, in one line.
fn paragraphs(error: &Error) -> String {
    let text = error.to_string();
    let first = text.split("\n\n").next().unwrap_or_default();
    let first = first.split_whitespace().collect::<Vec<_>>().join(" ");
    plainly(first.strip_prefix("error: ").unwrap_or(&first))
}

/// What the language's library says of a number, in words that name what is wanted.
fn plainly(what: &str) -> String {
    const NUMBERS: [(&str, &str); 5] = [
        ("invalid digit found in string", "it is not a whole number"),
        ("cannot parse integer from empty string", "a number is needed"),
        ("number too large to fit in target type", "the number is too large"),
        ("number too small to fit in target type", "the number is too small"),
        ("invalid float literal", "it is not a number"),
    ];
    let found = NUMBERS.iter().find_map(|(theirs, ours)| Some((what.strip_suffix(theirs)?, ours)));
    found.map_or_else(|| what.to_owned(), |(before, ours)| format!("{before}{ours}"))
}

/// The given option that needs a missing one: given alone, it lacks the same.
fn needing(root: &Command, path: &[String], words: &[OsString], missing: &[String]) -> Option<String> {
    let command = path.iter().try_fold(root, |command, name| command.find_subcommand(name))?;
    let words: Vec<_> = words.iter().take_while(|word| *word != "--").collect();
    words.iter().enumerate().find_map(|(at, word)| {
        let option = word.to_str().filter(|word| word.starts_with("--"))?;
        let takes_next = !option.contains('=') && takes_value(command, option);
        let line = std::iter::once(OsString::from("tieline")).chain(path.iter().map(OsString::from));
        let line =
            line.chain(words.iter().skip(at).take(1 + usize::from(takes_next)).map(|it| (*it).clone()));
        let lacking = root.clone().try_get_matches_from(line).err()?;
        let same = strings(&lacking, ContextKind::InvalidArg) == missing;
        (same && lacking.kind() == ErrorKind::MissingRequiredArgument)
            .then(|| option.split('=').next().unwrap_or_default().to_owned())
    })
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

/// Is it an option that means nothing to this command, and that its help leaves out for that
/// reason?
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
            ("tieline up --nodes x", "--nodes x: it is not a whole number: see `tieline up --help`"),
            ("tieline up --nodes 0", "--nodes 0: give a number from 1 to 256: see `tieline up --help`"),
            ("tieline diag -V 10", "--verbosity 10: give a number from 0 to 9: see `tieline diag --help`"),
            (
                "tieline conntest --loops 0",
                "--loops 0: give a number of at least 1: see `tieline conntest --help`",
            ),
            ("tieline up --nodes", "--nodes <NODES> needs a value: see `tieline up --help`"),
            (
                "tieline bench scipp --placement x",
                "--placement x: give shared or own: see `tieline bench scipp --help`",
            ),
            (
                "tieline --cluster up link degrade 4 8 --delay 2",
                "--delay 2: give a time with its unit: ns, us, ms or s: see `tieline link degrade --help`",
            ),
            (
                "tieline link degrade 4 8 --delay ms",
                "--delay ms: it does not begin with a number: see `tieline link degrade --help`",
            ),
            (
                "tieline link swap 4",
                "<B> is missing: usage: tieline link swap [OPTIONS] <A> <B>, see `tieline link swap --help`",
            ),
            (
                "tieline status --nod 4",
                "unknown option --nod; a similar one is --node: see `tieline status --help`",
            ),
            ("tieline up --no-such", "unknown option --no-such: see `tieline up --help`"),
            ("tieline link swap 4 8 --foo", "unknown option --foo: see `tieline link swap --help`"),
            ("tieline down 4", "unexpected word `4`: see `tieline down --help`"),
            (
                "tieline run --foo x",
                "unknown option --foo; options of the program go after `--`: see `tieline run --help`",
            ),
            ("tieline frobnicate", "unknown command `frobnicate`: see `tieline --help`"),
            ("tieline statis", "unknown command `statis`; a similar one is status: see `tieline --help`"),
            ("tieline cable --nodes 3", "--nodes needs --generate: see `tieline cable --help`"),
            ("tieline cable --measure", "--measure needs --save <FILE>: see `tieline cable --help`"),
            ("tieline verify --title=x", "--title needs --report <FILE>: see `tieline verify --help`"),
            ("tieline verify --from x", "--from needs --report <FILE>: see `tieline verify --help`"),
            (
                "tieline up --hosts x --nodes 3",
                "--hosts cannot be combined with --nodes: leave one out: see `tieline up --help`",
            ),
            (
                "tieline status --node 4 --node 8",
                "--node is given more than once: give it once: see `tieline status --help`",
            ),
            (
                "tieline fabric observe --route a",
                "--route needs 2 values, A and B, and 1 is given: see `tieline fabric observe --help`",
            ),
            ("tieline status --json=yes", "--json takes no value: see `tieline status --help`"),
            (
                "tieline status --node -4",
                "--node -4: it is not a node ID: use a multiple of 4 from 4 to 16384, except 252 (the broadcast group): \
                 see `tieline status --help`",
            ),
            (
                "tieline link down -4 8",
                "<A> -4: it is not a node ID: use a multiple of 4 from 4 to 16384, except 252 (the broadcast group): \
                 see `tieline link down --help`",
            ),
            ("tieline up --nodes -1", "--nodes -1: give a number from 1 to 256: see `tieline up --help`"),
            (
                "tieline bench scipp --size -1",
                "--size -1: it is not a size: give bytes, or a number with K, M or G, such as 64 or 4K: see \
                 `tieline bench scipp --help`",
            ),
            (
                "tieline on",
                "<HOST>, <COMMAND>... are missing: usage: tieline on [OPTIONS] <HOST> <COMMAND>..., see `tieline on --help`",
            ),
            (
                "tieline bench pt2pt fly",
                "<TEST> fly: it is no test: give latency, bw, bibw, mr, multi-lat, barrier, broadcast, allreduce, allgather, alltoall, \
                 put, get, put-bw, get-bw, fetch-add, compare-swap: see `tieline bench pt2pt --help`",
            ),
            (
                "tieline fleet run --tiemout 5s true",
                "unknown option --tiemout; a similar one is --timeout: see `tieline fleet run --help`",
            ),
            (
                "tieline fleet copy",
                "<FILE>... is missing: usage: tieline fleet copy [OPTIONS] <FILE>... <TO>, see `tieline fleet copy --help`",
            ),
            (
                "tieline fabric observe --at n",
                "--at needs --ibsim <NAME>: see `tieline fabric observe --help`",
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
