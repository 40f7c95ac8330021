//! Topology files of `ibdm`, whose nodes are whole systems, and the IBNL files that say what is in a system.
//!
//! A topology names systems and the cables between the ports on their panels; IBNL describes boards within
//! systems, chips within boards, and what is wired to what. GUIDs are given out in the order of the nodes, in
//! the range that nobody was assigned.

use std::collections::HashMap;

use super::anomaly::{Anomalies, Cause};
use super::draft::Draft;
use super::lines::{lines, text};
use super::{Format, ReadError, Reading};
use crate::graph::{Kind, LinkSpec, NodeIx, NodeSpec, Speed, Width};

mod library;
#[cfg(test)]
mod tests;

pub use library::Library;
use library::{Content, System};

/// Boards within boards that are followed.
const DEEPEST: usize = 8;
/// Boards that a topology may have, so that boards within boards do not multiply without end.
const MOST_BOARDS: usize = 1 << 17;
/// GUIDs of nodes that come from plans.
const GUIDS: u64 = 0x0254_4c03_0000_0000;

/// A port that a cable can be in, and what its lane is rated at, if a description says it.
type Socket = (NodeIx, u8, LinkSpec);

/// Reads a topology of systems that the library knows.
///
/// # Errors
/// No system of it is known, or it is larger than any fabric.
pub fn read_topo(bytes: &[u8], library: &Library) -> Result<Reading, ReadError> {
    let mut anomalies = Anomalies::default();
    let mut reader = Reader { library, draft: Draft::new(true), systems: HashMap::new(), next: 0, boards: 0 };
    let mut current: Option<String> = None;
    for (number, line) in lines(bytes) {
        let line = text(number, line, &mut anomalies);
        let content = line.split('#').next().unwrap_or("").trim_end();
        if content.trim().is_empty() {
            continue;
        }
        if content.starts_with([' ', '\t']) {
            reader.cable(number, content.trim(), current.as_deref(), &mut anomalies)?;
        } else {
            current = reader.section(number, content, &mut anomalies)?;
        }
    }
    let graph = reader.draft.finish(&mut anomalies);
    if graph.node_count() == 0 {
        let anomaly = anomalies.iter().next().map(ToString::to_string);
        return Err(ReadError::NoNode { format: Format::Topo, is_forced: false, anomaly });
    }
    anomalies.sort();
    Ok(Reading { graph, format: Format::Topo, reason: "requested".to_owned(), anomalies })
}

struct Reader<'a> {
    library: &'a Library,
    draft: Draft,
    /// The panel ports of each system that was made.
    systems: HashMap<String, HashMap<String, Socket>>,
    next: u64,
    boards: usize,
}

impl Reader<'_> {
    /// `MTS14400 name CFG: leaf1=R,leaf2=12x`
    fn section(
        &mut self,
        number: usize,
        line: &str,
        anomalies: &mut Anomalies,
    ) -> Result<Option<String>, ReadError> {
        let (head, config) = line.split_once("CFG:").unwrap_or((line, ""));
        let words: Vec<&str> = head.split_whitespace().collect();
        let [kind, name] = words.as_slice() else {
            anomalies.add(number, Cause::NotUnderstood, format_args!("`{line}`"));
            return Ok(None);
        };
        let config: HashMap<&str, &str> =
            config.split([',', ' ', '\t']).filter_map(|one| one.trim().split_once('=')).collect();
        let made = self.system(number, kind, name, &config, anomalies)?;
        Ok(made.then(|| (*name).to_owned()))
    }

    /// A system is made when it is first mentioned.
    fn system(
        &mut self,
        number: usize,
        kind: &str,
        name: &str,
        config: &HashMap<&str, &str>,
        anomalies: &mut Anomalies,
    ) -> Result<bool, ReadError> {
        if self.systems.contains_key(name) {
            return Ok(true);
        }
        let library = self.library;
        let Some(system) = library.top(kind) else {
            let what = format_args!("no IBNL file describes `{kind}`, of which `{name}` is one: left out");
            anomalies.add(number, Cause::Dangling, what);
            return Ok(false);
        };
        let make = Make { number, config, depth: 0 };
        let ports = self.expand(system, name, &make, anomalies)?;
        self.systems.insert(name.to_owned(), ports);
        Ok(true)
    }

    /// `P1 -4x-5G-> MTS3600 other P3`
    fn cable(
        &mut self,
        number: usize,
        line: &str,
        from: Option<&str>,
        anomalies: &mut Anomalies,
    ) -> Result<(), ReadError> {
        let parts = library::arrow(line)
            .map(|(port, rate, rest)| (port, rate, rest.split_whitespace().collect::<Vec<_>>()));
        let Some((port, rate, rest)) = parts.filter(|parts| parts.2.len() == 3) else {
            anomalies.add(number, Cause::NotUnderstood, format_args!("`{line}`"));
            return Ok(());
        };
        let Some(from) = from else { return Ok(()) };
        if !self.system(number, rest[0], rest[1], &HashMap::new(), anomalies)? {
            return Ok(());
        }
        let socket =
            |system: &str, port: &str| self.systems.get(system).and_then(|ports| ports.get(port)).copied();
        match (socket(from, port), socket(rest[1], rest[2])) {
            (Some(a), Some(b)) => self.join(number, a, b, rate, anomalies),
            (None, _) => {
                anomalies.add(number, Cause::NoSuchPort, format_args!("`{from}` has no `{port}`: left out"))
            }
            (_, None) => {
                anomalies.add(
                    number,
                    Cause::NoSuchPort,
                    format_args!("`{}` has no `{}`: left out", rest[1], rest[2]),
                );
            }
        }
        Ok(())
    }

    fn join(&mut self, number: usize, a: Socket, b: Socket, rate: LinkSpec, anomalies: &mut Anomalies) {
        // What stands deepest counts; of two sides the slower.
        let width = [a.2.width, b.2.width].into_iter().filter(|width| *width != Width::Unknown).min();
        let speed = [a.2.speed, b.2.speed].into_iter().filter(|speed| *speed != Speed::Unknown).min();
        let spec = LinkSpec { width: width.unwrap_or(rate.width), speed: speed.unwrap_or(rate.speed) };
        let to = self.draft.id(&format!("#{}", b.0.0));
        self.draft.half(number, (a.0, u64::from(a.1)), (to, u64::from(b.1)), spec, anomalies);
    }

    /// Makes all that is in a system, and returns its ports by their names.
    fn expand(
        &mut self,
        system: &System,
        path: &str,
        make: &Make<'_>,
        anomalies: &mut Anomalies,
    ) -> Result<HashMap<String, Socket>, ReadError> {
        if make.depth > DEEPEST {
            anomalies.add(
                make.number,
                Cause::NotUnderstood,
                format_args!("`{path}` contains itself: boards are nested without end"),
            );
            return Ok(HashMap::new());
        }
        self.boards += 1;
        if self.boards > MOST_BOARDS {
            return Err(ReadError::TooLarge { line: make.number, what: "boards", most: MOST_BOARDS });
        }
        let mut inside: HashMap<&str, HashMap<String, Socket>> = HashMap::new();
        for part in &system.parts {
            let ports = match &part.content {
                Content::Node { kind, ports } => {
                    self.chip(*kind, *ports, &format!("{path}/{}", part.name), make, anomalies)?
                }
                Content::Board(board) => {
                    let modifier = make.config.get(part.name.as_str()).copied();
                    if modifier == Some("R") {
                        continue;
                    }
                    let Some(found) = self.library.board(board, modifier, system) else {
                        let what = format_args!("no board `{board}` for `{path}/{}`: left out", part.name);
                        anomalies.add(make.number, Cause::Dangling, what);
                        continue;
                    };
                    let deeper = Make { depth: make.depth + 1, ..*make };
                    self.expand(found, &format!("{path}/{}", part.name), &deeper, anomalies)?
                }
            };
            inside.insert(&part.name, ports);
        }
        let mut outside = HashMap::new();
        for part in &system.parts {
            let Some(ports) = inside.get(part.name.as_str()) else { continue };
            for wire in &part.wires {
                let Some(here) = ports.get(&wire.port).copied() else { continue };
                let here = (here.0, here.1, over(here.2, wire.rate));
                match &wire.inside {
                    None => drop(outside.insert(wire.to.clone(), here)),
                    Some(port) => {
                        if let Some(there) =
                            inside.get(wire.to.as_str()).and_then(|ports| ports.get(port)).copied()
                        {
                            self.join(make.number, here, there, wire.rate, anomalies);
                        }
                    }
                }
            }
        }
        Ok(outside)
    }

    fn chip(
        &mut self,
        kind: Kind,
        ports: u8,
        name: &str,
        make: &Make<'_>,
        anomalies: &mut Anomalies,
    ) -> Result<HashMap<String, Socket>, ReadError> {
        self.next += 1;
        let id = self.draft.id(&format!("#{}", self.next - 1));
        let spec = NodeSpec::new(kind, name, ports).guid(GUIDS | self.next << 8);
        let Some(node) = self.draft.node(make.number, id, spec, anomalies)? else {
            return Ok(HashMap::new());
        };
        Ok((1..=ports).map(|number| (number.to_string(), (node, number, LinkSpec::default()))).collect())
    }
}

/// Where and how deep something is made.
#[derive(Clone, Copy)]
struct Make<'a> {
    number: usize,
    config: &'a HashMap<&'a str, &'a str>,
    depth: usize,
}

/// A deeper description takes precedence.
fn over(deep: LinkSpec, shallow: LinkSpec) -> LinkSpec {
    let width = if deep.width == Width::Unknown { shallow.width } else { deep.width };
    let speed = if deep.speed == Speed::Unknown { shallow.speed } else { deep.speed };
    LinkSpec { width, speed }
}
