//! `tieline fleet menu`: the fleet commands as a list, which asks for what each needs. A choice runs this
//! program again with the command that it prints.

use std::io::{BufRead, Write};
use std::process::Command;

use ::fleet::Selection;
use anyhow::Context;

use crate::args::FleetMenu;
use crate::exit::{Outcome, PASS};
use crate::output::Output;

/// A line of the list.
struct Item {
    text: &'static str,
    words: &'static [&'static str],
    /// Questions whose answers are further words; those of the last one are taken apart at spaces if it
    /// stands for several.
    asks: &'static [Ask],
}

/// A question.
struct Ask {
    text: &'static str,
    several: bool,
    /// An option before the answer; without an answer neither is given.
    option: Option<&'static str>,
}

const fn one(text: &'static str) -> Ask {
    Ask { text, several: false, option: None }
}

const ITEMS: [Item; 11] = [
    Item { text: "Verify hosts pingable by ssh", words: &["ping"], asks: &[] },
    Item { text: "Set up ssh without passwords", words: &["setup-ssh"], asks: &[] },
    Item {
        text: "Copy a file to all hosts",
        words: &["copy"],
        asks: &[one("File here"), one("File or directory on the hosts")],
    },
    Item { text: "Fetch a file from all hosts", words: &["fetch"], asks: &[one("File on the hosts")] },
    Item { text: "Run a command on all hosts", words: &["run"], asks: &[one("Command")] },
    Item {
        text: "Install software",
        words: &["install"],
        asks: &[Ask { text: "Packages (.deb) or a tarball", several: true, option: None }],
    },
    Item {
        text: "Upgrade software",
        words: &["upgrade"],
        asks: &[Ask { text: "Packages (.deb) or a tarball", several: true, option: None }],
    },
    Item { text: "Reboot hosts", words: &["reboot"], asks: &[] },
    Item {
        text: "Compare hosts",
        words: &["verify"],
        asks: &[Ask {
            text: "File of rules (none: compare with most hosts)",
            several: false,
            option: Some("--rules"),
        }],
    },
    Item { text: "Problem report of all hosts", words: &["report"], asks: &[] },
    Item { text: "Show kernel and machine", words: &["run", "uname -a"], asks: &[] },
];

pub(super) fn run(arguments: &FleetMenu, output: Output) -> Outcome {
    if output.json {
        return Err(super::super::usage(
            "`tieline fleet menu` is for people: leave out --json, or use the command that it prints",
        ));
    }
    let mut hosts = Vec::new();
    if let Some(file) = &arguments.hosts {
        hosts.extend(["--hosts".to_owned(), file.to_string_lossy().into_owned()]);
    }
    if let Some(on) = &arguments.on {
        hosts.extend(["--on".to_owned(), on.clone()]);
    }
    // A mistake in the list is named before anything is asked.
    if arguments.hosts.is_some() || arguments.on.is_some() {
        Selection { file: arguments.hosts.as_deref(), on: arguments.on.as_deref(), except: None }.hosts()?;
    }
    let program = std::env::current_exe().context("the path of this program is not known")?;
    let mut lines = std::io::stdin().lock().lines();
    let mut next = |question: &str| -> anyhow::Result<Option<String>> {
        say(question)?;
        Ok(lines.next().transpose()?.map(|line| line.trim().to_owned()))
    };
    loop {
        let mut list = String::from("\n");
        for (number, item) in ITEMS.iter().enumerate() {
            list += &format!("{:>3}  {}\n", number + 1, item.text);
        }
        list += "  h  Choose hosts\n  q  End\n";
        let Some(choice) = next(&format!("{list}Hosts: {}\nChoice: ", shown(&hosts)))? else { break };
        match choice.as_str() {
            "q" | "Q" => break,
            "" => {}
            "h" | "H" => {
                if let Some(on) =
                    next("Hosts, such as node[01-16] or @rack1, or a file (with a / in its name): ")?
                {
                    let option = if on.contains('/') { "--hosts" } else { "--on" };
                    hosts = if on.is_empty() { Vec::new() } else { vec![option.to_owned(), on] };
                }
            }
            choice => {
                let item = choice.parse().ok().and_then(|number: usize| ITEMS.get(number.checked_sub(1)?));
                let Some(item) = item else {
                    say(&format!(
                        "`{choice}` is not in the list: type a number from 1 to {}, h or q\n",
                        ITEMS.len()
                    ))?;
                    continue;
                };
                let Some(words) = words_of(item, &hosts, &mut next)? else { continue };
                start(&program, &words)?;
            }
        }
    }
    Ok(PASS)
}

/// The words of a command; none if an answer is missing.
fn words_of(
    item: &Item,
    hosts: &[String],
    next: &mut impl FnMut(&str) -> anyhow::Result<Option<String>>,
) -> anyhow::Result<Option<Vec<String>>> {
    let (command, rest) = item.words.split_at(1);
    let mut words: Vec<String> = command.iter().map(|word| (*word).to_owned()).collect();
    words.extend_from_slice(hosts);
    words.extend(rest.iter().map(|word| (*word).to_owned()));
    for ask in item.asks {
        let answer = next(&format!("{}: ", ask.text))?.unwrap_or_default();
        match (answer.is_empty(), ask.option) {
            (true, Some(_)) => {}
            (true, None) => return Ok(None),
            (false, option) => {
                words.extend(option.map(str::to_owned));
                if ask.several {
                    words.extend(answer.split_whitespace().map(str::to_owned));
                } else {
                    words.push(answer);
                }
            }
        }
    }
    Ok(Some(words))
}

/// Runs a command to its end, and says what its exit status is unless that is 0.
fn start(program: &std::path::Path, words: &[String]) -> anyhow::Result<()> {
    let quoted: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    say(&format!("$ tieline fleet {}\n", quoted.join(" ")))?;
    let status = Command::new(program).arg("fleet").args(words).status();
    let status = status.with_context(|| format!("{} cannot be started", program.display()))?;
    match status.code() {
        Some(0) => Ok(()),
        Some(code) => say(&format!("exit status {code}\n")),
        None => say(&format!("ended by a signal ({status})\n")),
    }
}

fn shown(hosts: &[String]) -> String {
    match hosts {
        [] => "as HOSTS or HOSTS_FILE say".to_owned(),
        hosts => hosts.join(" "),
    }
}

/// As a shell reads it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=@,:+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

fn say(text: &str) -> anyhow::Result<()> {
    crate::output::print_foreign(text.as_bytes())?;
    Ok(std::io::stdout().flush()?)
}
