//! Parses IBNL files, which describe the inside of a system.

use std::collections::HashMap;

use crate::graph::{Kind, LinkSpec, Speed, Width};
use crate::read::anomaly::{Anomalies, Cause};
use crate::read::lines::{lines, text};

/// Systems that are known.
#[derive(Debug, Default)]
pub struct Library {
    systems: Vec<System>,
    tops: HashMap<String, usize>,
    /// Boards by the file that they are in, since files have boards of equal names.
    boards: HashMap<(usize, String), usize>,
    files: usize,
    /// What could not be understood; lines are those of each file.
    pub anomalies: Anomalies,
}

/// A system or board.
#[derive(Debug)]
pub(super) struct System {
    file: usize,
    pub(super) parts: Vec<Part>,
}

/// A chip or board within a system.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) name: String,
    pub(super) content: Content,
    pub(super) wires: Vec<Wire>,
}

#[derive(Debug)]
pub(super) enum Content {
    Node { kind: Kind, ports: u8 },
    Board(String),
}

/// A port of a part is a port of the system, or is wired to one of another part.
#[derive(Debug)]
pub(super) struct Wire {
    pub(super) port: String,
    pub(super) rate: LinkSpec,
    pub(super) to: String,
    pub(super) inside: Option<String>,
}

impl Library {
    /// Adds what a file describes.
    pub fn add(&mut self, bytes: &[u8]) {
        self.files += 1;
        for (number, line) in lines(bytes) {
            let mut anomalies = std::mem::take(&mut self.anomalies);
            let line = text(number, line, &mut anomalies);
            self.anomalies = anomalies;
            let line = line.split('#').next().unwrap_or("").trim();
            if !line.is_empty() && self.line(line).is_none() {
                self.anomalies.add(number, Cause::NotUnderstood, format_args!("`{line}`"));
            }
        }
    }

    pub(super) fn top(&self, name: &str) -> Option<&System> {
        self.tops.get(name).map(|at| &self.systems[*at])
    }

    /// The board of this name in the file of a system, in the variant that was asked for.
    pub(super) fn board(&self, name: &str, modifier: Option<&str>, of: &System) -> Option<&System> {
        let name = modifier.map_or_else(|| name.to_owned(), |modifier| format!("{name}:{modifier}"));
        self.boards.get(&(of.file, name)).map(|at| &self.systems[*at])
    }

    /// Nothing if the line means nothing here.
    fn line(&mut self, line: &str) -> Option<()> {
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        match word {
            "SYSTEM" | "TOPSYSTEM" => {
                let at = self.systems.len();
                for name in rest.split(',').map(|name| name.trim().to_owned()).filter(|name| !name.is_empty())
                {
                    if word == "TOPSYSTEM" {
                        self.tops.entry(name).or_insert(at);
                    } else {
                        self.boards.entry((self.files, name)).or_insert(at);
                    }
                }
                self.systems.push(System { file: self.files, parts: Vec::new() });
                Some(())
            }
            "NODE" => {
                let words: Vec<&str> = rest.split_whitespace().collect();
                let [kind, ports, _, name] = words.as_slice() else { return None };
                let ports = ports.parse().ok().filter(|ports| (1..=254).contains(ports))?;
                let kind = match *kind {
                    "SW" => Kind::Switch,
                    "CA" | "HCA" => Kind::Host,
                    _ => return None,
                };
                self.part(name, Content::Node { kind, ports })
            }
            "SUBSYSTEM" => {
                let (board, name) = rest.trim().split_once(char::is_whitespace)?;
                self.part(name.trim(), Content::Board(board.to_owned()))
            }
            _ => self.wire(line),
        }
    }

    fn part(&mut self, name: &str, content: Content) -> Option<()> {
        let part = Part { name: name.to_owned(), content, wires: Vec::new() };
        self.systems.iter_mut().rfind(|system| system.file == self.files)?.parts.push(part);
        Some(())
    }

    fn wire(&mut self, line: &str) -> Option<()> {
        let Some((port, rate, rest)) = arrow(line) else {
            // An attribute of a part; not about cables.
            return line.contains('=').then_some(());
        };
        let mut words = rest.split_whitespace();
        let (to, inside) = (words.next()?.to_owned(), words.next().map(str::to_owned));
        let part = self.systems.iter_mut().rfind(|system| system.file == self.files)?.parts.last_mut()?;
        part.wires.push(Wire { port: port.to_owned(), rate, to, inside });
        Some(())
    }
}

/// `P1 -4x-5G-> rest`
pub(super) fn arrow(line: &str) -> Option<(&str, LinkSpec, &str)> {
    let (left, rest) = line.split_once("->")?;
    let (port, rates) = left.trim_end().split_once(char::is_whitespace).unwrap_or((left.trim(), ""));
    let mut spec = LinkSpec::default();
    for rate in rates.trim().split('-').filter(|rate| !rate.is_empty()) {
        if let Some(lanes) = rate.strip_suffix(['x', 'X']) {
            spec.width = Width::of_lanes(lanes.parse().ok()?)?;
        } else {
            spec.speed = SPEEDS.into_iter().find(|known| known.0 == rate)?.1;
        }
    }
    (!port.is_empty()).then_some((port, spec, rest.trim()))
}

const SPEEDS: [(&str, Speed); 6] = [
    ("2.5G", Speed::Sdr),
    ("5G", Speed::Ddr),
    ("10G", Speed::Qdr),
    ("14G", Speed::Fdr),
    ("25G", Speed::Edr),
    ("50G", Speed::Hdr),
];
