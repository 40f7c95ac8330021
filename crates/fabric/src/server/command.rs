//! Parses commands to a served fabric, one per line. Names with blanks are in double quotes; a
//! node may be named by `0x` and its GUID.
//!
//! | line | what it does |
//! |---|---|
//! | `unlink NODE PORT` | pulls the cable |
//! | `relink NODE PORT` | puts it back |
//! | `down NODE` | pulls all cables of a node |
//! | `up NODE` | puts them back |
//! | `counter NODE PORT NAME VALUE` | sets a counter |
//! | `counters NODE PORT` | prints all counters |
//! | `describe NODE TEXT` | gives a node another text |
//! | `lose NODE PORT N` | loses N of each 1000 MADs that come in |
//! | `double NODE PORT N` | lets N of each 1000 MADs that come in come twice |
//! | `garble NODE PORT N` | changes a byte of N of each 1000 MADs that come in |
//! | `delay NODE PORT MS` | holds up responses of what comes in for so many milliseconds |
//! | `reboot NODE` | starts a node anew: tables empty, no LIDs, links train |
//! | `guid NODE GUID` | puts another node in its place |
//! | `sets NODE take`, `refuse`, `ignore` or `one-lid` (no LMC) | how a node responds to Sets |
//! | `port NODE PORT` | prints state, LID and peer |
//! | `clients` | prints the connected programs |
//! | `quit` | ends the server |
//!
//! The response is one line: `ok`, perhaps with what was asked for, or `error:` with the reason.

use std::time::Duration;

use mad::values::{Guid, PortState};
use topology::{Kind, NodeIx, PortIx, counted};

use crate::agents::{Agents, Counters, Obedience};

/// A command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Pulls (or puts back, if the last is true) the cable of a port, or of all.
    Link(String, Option<u8>, bool),
    /// Sets a counter.
    Counter(String, u8, String, u64),
    /// Says all counters.
    Counters(String, u8),
    /// Gives a node another text.
    Describe(String, String),
    /// Loses thousandths of what comes in.
    Lose(String, u8, u32),
    /// Lets thousandths of what comes in come twice, or changes a byte.
    Harm(String, u8, Harms, u32),
    /// Starts a node anew, with another GUID if there is one.
    Reboot(String, Option<u64>),
    /// How a node responds to Sets.
    Sets(String, Option<Obedience>),
    /// Says how a port is.
    Port(String, u8),
    /// Prints the connected programs.
    Clients,
    /// Ends the server.
    Quit,
}

/// What is done to MADs that come in by a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Harms {
    /// They come twice.
    Double,
    /// A byte is changed.
    Garble,
    /// They come late.
    Delay,
}

/// The longest delay, in ms.
const MOST_DELAY_MS: u32 = 60_000;
/// Bytes of a description.
const MOST_TEXT: usize = 64;
const WORDS: &str = "unlink or relink NODE PORT; down or up NODE; counter NODE PORT NAME VALUE; counters or port NODE PORT; \
                     describe NODE TEXT; lose, double or garble NODE PORT N; delay NODE PORT MS; reboot NODE; guid NODE GUID; \
                     sets NODE take|refuse|ignore|one-lid; clients; quit";

impl Command {
    /// The command of a line; `None` of an empty one, or of one that begins with `#`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(line: &str) -> Result<Option<Self>, String> {
        let words = split(line)?;
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let named = |node: &str| node.to_owned();
        Ok(Some(match words.as_slice() {
            [] => return Ok(None),
            [first, ..] if first.starts_with('#') => return Ok(None),
            ["unlink", node, port] => Self::Link(named(node), Some(number(port)?), false),
            ["relink", node, port] => Self::Link(named(node), Some(number(port)?), true),
            ["down", node] => Self::Link(named(node), None, false),
            ["up", node] => Self::Link(named(node), None, true),
            ["counter", node, port, name, value] => {
                Self::Counter(named(node), number(port)?, named(name), number(value)?)
            }
            ["counters", node, port] => Self::Counters(named(node), number(port)?),
            ["describe", node, text] if text.len() > MOST_TEXT => {
                return Err(format!(
                    "a NodeDescription has at most {MOST_TEXT} bytes, and that for `{node}` has {}: give a shorter one",
                    text.len()
                ));
            }
            ["describe", node, text] => Self::Describe(named(node), named(text)),
            ["lose", node, port, thousandths] => {
                let thousandths: u32 = number(thousandths)?;
                if thousandths > 1_000 {
                    return Err(format!(
                        "lose NODE PORT {thousandths}: N is the number of MADs lost of each 1000: give 0 to 1000"
                    ));
                }
                Self::Lose(named(node), number(port)?, thousandths)
            }
            [word @ ("double" | "garble" | "delay"), node, port, count] => {
                let harm = match *word {
                    "double" => Harms::Double,
                    "garble" => Harms::Garble,
                    _ => Harms::Delay,
                };
                let (most, what) = if harm == Harms::Delay {
                    (MOST_DELAY_MS, "milliseconds")
                } else {
                    (1_000, "MADs of each 1000")
                };
                let count: u32 = number(count)?;
                if count > most {
                    return Err(format!(
                        "{word} NODE PORT {count}: this is a number of {what}: give 0 to {most}"
                    ));
                }
                Self::Harm(named(node), number(port)?, harm, count)
            }
            ["reboot", node] => Self::Reboot(named(node), None),
            ["guid", node, text] => {
                let hex = text.strip_prefix("0x").and_then(|hex| u64::from_str_radix(hex, 16).ok());
                let guid = hex.filter(|guid| *guid != 0);
                let guid = guid.ok_or_else(|| format!("`{text}` is no GUID: give 0x and up to 16 digits"))?;
                Self::Reboot(named(node), Some(guid))
            }
            ["sets", node, "take"] => Self::Sets(named(node), None),
            ["sets", node, "refuse"] => Self::Sets(named(node), Some(Obedience::Refuses)),
            ["sets", node, "ignore"] => Self::Sets(named(node), Some(Obedience::Ignores)),
            ["sets", node, "one-lid"] => Self::Sets(named(node), Some(Obedience::OneLid)),
            ["port", node, port] => Self::Port(named(node), number(port)?),
            ["clients"] => Self::Clients,
            ["quit"] => Self::Quit,
            [word, ..] => {
                return Err(format!(
                    "there is no command `{word}` with {}: give one of {WORDS}",
                    counted(words.len() - 1, "argument")
                ));
            }
        }))
    }

    /// Carries it out.
    ///
    /// # Errors
    /// Why it can't be.
    pub fn obey(&self, agents: &mut Agents) -> Result<String, String> {
        match self {
            Self::Link(node, Some(port), up) => {
                let port = find(agents, node, *port)?;
                let done = if *up { agents.relink(port) } else { agents.unlink(port) };
                let why = if *up { "no cable that was pulled" } else { "no cable" };
                if done {
                    Ok("ok".to_owned())
                } else {
                    Err(format!("that port of `{node}` has {why}: give another port"))
                }
            }
            Self::Link(node, None, up) => {
                let ports: Vec<PortIx> = agents.graph().ports(find_node(agents, node)?).collect();
                let done = ports
                    .into_iter()
                    .filter(|port| if *up { agents.relink(*port) } else { agents.unlink(*port) });
                Ok(format!("ok {}", counted(done.count(), "cable")))
            }
            Self::Counter(node, port, name, value) => {
                let port = find_wired(agents, node, *port)?;
                let counters = agents.counters_mut(port);
                let counter = Counters::key(name).and_then(|key| counters.named(key));
                *counter.ok_or_else(|| {
                    format!("there is no counter `{name}`: give one of {}", Counters::SPECIFIED.join(", "))
                })? = *value;
                Ok("ok".to_owned())
            }
            Self::Counters(node, port) => {
                let port = find_wired(agents, node, *port)?;
                let all: Vec<String> =
                    agents.counters(port).all().map(|(name, value)| format!("{name}={value}")).collect();
                Ok(format!("ok {}", all.join(" ")))
            }
            Self::Describe(node, text) => {
                let node = find_node(agents, node)?;
                agents.describe(node, text);
                Ok("ok".to_owned())
            }
            Self::Lose(node, port, thousandths) => {
                let port = find_wired(agents, node, *port)?;
                agents.lose(port, *thousandths);
                Ok("ok".to_owned())
            }
            Self::Harm(node, port, harm, count) => {
                let port = find_wired(agents, node, *port)?;
                agents.harm(port, |now| match harm {
                    Harms::Double => now.doubles = *count,
                    Harms::Garble => now.garbles = *count,
                    Harms::Delay => now.late = Duration::from_millis((*count).into()),
                });
                Ok("ok".to_owned())
            }
            Self::Reboot(node, guid) => {
                let node = find_node(agents, node)?;
                match guid {
                    Some(guid) => agents.replace(node, Guid(*guid)),
                    None => agents.reboot(node),
                }
                Ok("ok".to_owned())
            }
            Self::Sets(node, how) => {
                let node = find_node(agents, node)?;
                agents.set_obedience(node, *how);
                Ok("ok".to_owned())
            }
            Self::Port(node, port) => {
                let port = find(agents, node, *port)?;
                let info = agents.port_info(port);
                let state: PortState = info.state();
                let peer = agents.peer(port).map_or_else(
                    || "nobody".to_owned(),
                    |peer| {
                        format!(
                            "\"{}\" {}",
                            agents.description(agents.graph().owner(peer)),
                            agents.graph().number(peer)
                        )
                    },
                );
                Ok(format!("ok {state} {} lid {} peer {peer}", info.physical_state(), info.lid()))
            }
            Self::Clients | Self::Quit => {
                Err("only a server can do that: send the line to its control socket".to_owned())
            }
        }
    }
}

fn find_node(agents: &Agents, named: &str) -> Result<NodeIx, String> {
    agents.node(named).ok_or_else(|| format!("there is no node `{named}`: give a NodeDescription or a GUID"))
}

fn find(agents: &Agents, named: &str, number: u8) -> Result<PortIx, String> {
    let node = find_node(agents, named)?;
    // Port 0 is the switch itself; a host has none.
    let there = number > 0 || agents.graph().kind(node) == Kind::Switch;
    let port = agents.graph().port(node, number).filter(|_| there);
    port.ok_or_else(|| {
        format!("`{named}` has no port {number}: give 1 to {}", agents.graph().port_count(node))
    })
}

/// A port that may have a cable: one that counts and loses.
fn find_wired(agents: &Agents, named: &str, number: u8) -> Result<PortIx, String> {
    if number == 0 {
        return Err(format!("port 0 of `{named}` has no cable: give a port from 1 on"));
    }
    find(agents, named, number)
}

fn number<T: std::str::FromStr>(word: &str) -> Result<T, String> {
    word.parse().map_err(|_| format!("`{word}` is not a number in the range of this field"))
}

/// The words of a line; what is in double quotes is one.
fn split(line: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut rest = line.trim();
    while !rest.is_empty() {
        let (word, behind) = if let Some(quoted) = rest.strip_prefix('"') {
            quoted.split_once('"').ok_or_else(|| "a quote is not closed: end it with \"".to_owned())?
        } else {
            rest.split_once(char::is_whitespace).unwrap_or((rest, ""))
        };
        words.push(word.to_owned());
        rest = behind.trim_start();
    }
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use topology::build::{FatTree, fat_tree};

    #[test]
    fn arguments_that_mean_nothing_are_refused_and_change_nothing() {
        let mut agents = Agents::new(fat_tree(&FatTree::new(4, 2)).unwrap());
        let before = format!("{agents:?}");
        for (line, says) in [
            ("lose leaf000 1 1001", "1001"),
            ("lose leaf000 1 99999", "0 to 1000"),
            ("lose leaf000 1 -1", "-1"),
            ("lose leaf000 0 5", "port 0"),
            ("lose leaf000 99 5", "no port 99"),
            ("double leaf000 1 1001", "0 to 1000"),
            ("garble leaf000 0 5", "port 0"),
            ("delay leaf000 1 60001", "0 to 60000"),
            ("delay leaf000 1 -1", "-1"),
            ("reboot nobody", "no node"),
            ("guid leaf000 17", "no GUID"),
            ("guid leaf000 0x0", "no GUID"),
            ("guid nobody 0x17", "no node"),
            ("sets leaf000 maybe", "no command"),
            ("sets nobody refuse", "no node"),
            ("lose leaf000 256 5", "256"),
            ("counter leaf000 0 discards 1", "port 0"),
            ("counter leaf000 1 joy 1", "no counter"),
            ("counter leaf000 1 discards 18446744073709551616", "18446744073709551616"),
            ("counters host00000 0", "port 0"),
            ("port host00000 0", "no port 0"),
            ("unlink leaf000 0", "no cable"),
            ("relink leaf000 1", "no cable that was pulled"),
            ("unlink nobody 1", "no node"),
            ("down nobody", "no node"),
            ("up", "no command"),
            ("unlink leaf000 1 2", "no command"),
            (
                "describe leaf000 aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
                "64 bytes",
            ),
            ("describe leaf000 \"open", "quote"),
        ] {
            let parsed = Command::parse(line);
            let done = parsed.and_then(|command| command.unwrap().obey(&mut agents));
            let why = done.expect_err(line);
            assert!(why.contains(says), "{line}: {why}");
        }
        assert_eq!(format!("{agents:?}"), before);
        for line in [
            "lose leaf000 1 1000",
            "lose leaf000 1 0",
            "port leaf000 0",
            "counter leaf000 1 discards 18446744073709551615",
        ] {
            assert!(Command::parse(line).unwrap().unwrap().obey(&mut agents).is_ok(), "{line}");
        }
    }
}
