//! Reads OpenSM's dumps of tables.

use crate::routing::lids::Lids;
use crate::routing::tables::Tables;
use crate::{Graph, Kind, PortIx};
use std::collections::HashMap;
use std::sync::Arc;

/// Why a dump can't be read: the line, and what is wrong with it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct ReadError {
    /// Counted from 1.
    pub line: usize,
    /// What is wrong.
    pub what: String,
}

fn number(text: &str) -> Option<u64> {
    let text = text.trim();
    u64::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

/// Reads a file `guid2lid` (lines of a port's GUID, its lowest and its highest LID): GUIDs with LIDs.
///
/// # Errors
/// A line that is none of that.
pub fn read_guid2lid(text: &str) -> Result<HashMap<u64, u16>, ReadError> {
    let mut lids = HashMap::new();
    for (line, row) in text.lines().enumerate().filter(|(_, row)| !row.trim().is_empty()) {
        let mut words = row.split_whitespace().map(number);
        let (guid, lid) = (words.next().flatten(), words.next().flatten());
        let lid = lid.and_then(|lid| u16::try_from(lid).ok());
        let (Some(guid), Some(lid)) = (guid, lid) else {
            return Err(ReadError { line: line + 1, what: format!("`{row}` is not a GUID and LIDs") });
        };
        lids.insert(guid, lid);
    }
    Ok(lids)
}

/// What a line of a dump of tables is. OpenSM writes two forms: `opensm.fdbs` and `opensm-lfts.dump`.
enum Line<'a> {
    /// `dump_ucast_routes: Switch 0x0002c9…`, or
    /// `Unicast lids [0-8] of switch Lid 5 guid 0x0002c9… ('name'):`.
    Switch(Option<u64>),
    /// `0x0001 : 003  : 02   : yes`, or `0x0001 003 # Channel Adapter portguid 0x0002c9…: 'name'`:
    /// LID and port.
    Entry(Option<u16>, &'a str),
    /// Heads of columns, sums, comments, and nothing.
    Silent,
    Strange,
}

fn line(row: &str) -> Line<'_> {
    // Comments, whatever words they have: `write_lfts` begins with one.
    if row.starts_with('#') {
        return Line::Silent;
    }
    // Entries come first: their text about a node may be any words.
    if row.starts_with("0x") {
        let mut words = row.split(|c: char| c.is_whitespace() || c == ':').filter(|word| !word.is_empty());
        let lid = words.next().and_then(number).and_then(|lid| u16::try_from(lid).ok());
        return Line::Entry(lid, words.next().unwrap_or_default());
    }
    if let Some(of) = row.strip_prefix("Unicast lids ") {
        let guid = of.split_once(" guid ").and_then(|(_, guid)| guid.split_whitespace().next());
        return Line::Switch(guid.and_then(number));
    }
    if let Some((_, guid)) = row.split_once("Switch ") {
        return Line::Switch(number(guid));
    }
    // Below the line of a switch stands a head (`LID : Port : Hops : Optimal`).
    let row = row.trim();
    if row.is_empty() || row.starts_with("LID") || row.ends_with(" lids dumped") {
        return Line::Silent;
    }
    Line::Strange
}

/// The lowest LID of each port by its GUID, as far as a dump of tables gives it: `opensm-lfts.dump` does,
/// beside each entry, and `opensm.fdbs` does not.
#[must_use]
pub fn read_lids(text: &str) -> HashMap<u64, u16> {
    let mut lids = HashMap::new();
    for row in text.lines() {
        let Line::Entry(Some(lid), _) = line(row) else { continue };
        let guid = row.split_once(" portguid ").and_then(|(_, guid)| number(guid.split(':').next()?));
        if let Some(guid) = guid {
            let lowest = lids.entry(guid).or_insert(lid);
            *lowest = lid.min(*lowest);
        }
    }
    lids
}

/// Reads tables from an OpenSM dump of unicast tables (`opensm.fdbs`, or `opensm-lfts.dump`). `known` are
/// LIDs by the GUID of their port. Switches that the graph lacks are named in the second part.
///
/// # Errors
/// A line that belongs to no such dump, or no line that begins a switch's table; LIDs that do not fit.
pub fn read_fdbs(
    graph: &Graph,
    text: &str,
    known: &HashMap<u64, u16>,
) -> Result<(Tables, Vec<u64>), ReadError> {
    let given = |port: PortIx| known.get(&graph.port_guid(port)).copied();
    let lids = Lids::assign(graph, 0, given);
    let lids = lids.map_err(|error| ReadError { line: 0, what: error.to_string() })?;
    let switches: Vec<_> = graph.nodes_of(Kind::Switch).collect();
    let mut tables = Tables::empty(Arc::new(lids), &switches);
    let mut unknown = Vec::new();
    let (mut at, mut is_one) = (None, false);
    for (place, row) in text.lines().enumerate() {
        let wrong = |what: &str| ReadError { line: place + 1, what: format!("`{row}`: {what}") };
        match line(row) {
            Line::Switch(guid) => {
                let guid = guid.ok_or_else(|| wrong("no switch GUID"))?;
                (at, is_one) = (graph.node_by_guid(guid), true);
                if at.is_none() {
                    unknown.push(guid);
                }
            }
            Line::Entry(lid, port) => {
                let lid = lid.ok_or_else(|| wrong("no LID"))?;
                if let (Ok(port), Some(switch)) = (port.parse::<u8>(), at) {
                    tables.set(switch, lid, port);
                }
            }
            Line::Silent => {}
            Line::Strange => {
                // Without the line: in a file that is no dump anything may stand.
                let what = "neither a switch (`… Switch 0x…`) nor an entry (`0x0001 : 001 : …`)".to_owned();
                return Err(ReadError { line: place + 1, what });
            }
        }
    }
    if !is_one {
        let what = "no forwarding tables: there is no line such as `dump_ucast_routes: Switch 0x0002c9…`";
        return Err(ReadError { line: text.lines().count().max(1), what: what.to_owned() });
    }
    Ok((tables, unknown))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routing::{Engine, Request, check, referee, route};
    use crate::{GraphBuilder, LinkSpec, NodeIx, NodeSpec};

    /// Two switches with a host each; the second host describes itself in the words of a dump.
    fn small() -> (Graph, [NodeIx; 2]) {
        let mut builder = GraphBuilder::new();
        let mut node = |kind, name, guid| builder.node(NodeSpec::new(kind, name, 4).guid(guid)).unwrap();
        let switches = [node(Kind::Switch, "one", 0x11), node(Kind::Switch, "two", 0x22)];
        let hosts = [node(Kind::Host, "h", 0x100), node(Kind::Host, "Switch 0x11 : portguid 0x11:", 0x200)];
        builder.link((switches[0], 4), (switches[1], 4), LinkSpec::EDR4X).unwrap();
        for (at, host) in hosts.into_iter().enumerate() {
            builder.link((host, 1), (switches[at], 1), LinkSpec::EDR4X).unwrap();
        }
        (builder.finish(), switches)
    }

    const LFTS: &str = "\
Unicast lids [0-9] of switch Lid 3 guid 0x0000000000000011 ('one'):
0x0003 000 # Switch portguid 0x0000000000000011: 'one'
0x0004 004 # Switch portguid 0x0000000000000022: 'two'
0x0007 001 # Channel Adapter portguid 0x0000000000000101: 'h'
0x0009 004 # Channel Adapter portguid 0x0000000000000201: 'Switch 0x11 : portguid 0x11:'
4 lids dumped
Unicast lids [0-9] of switch Lid 4 guid 0x0000000000000022 ('Switch two'):
0x0003 004 # Switch portguid 0x0000000000000011: 'one'
0x0004 000 # Switch portguid 0x0000000000000022: 'two'
0x0007 004 # Channel Adapter portguid 0x0000000000000101: 'h'
0x0009 001 # Channel Adapter portguid 0x0000000000000201: 'Switch 0x11 : portguid 0x11:'
4 lids dumped
";

    #[test]
    fn a_dump_with_descriptions_says_tables_and_lids() {
        let (graph, switches) = small();
        let lids = read_lids(LFTS);
        let mut all: Vec<(u64, u16)> = lids.iter().map(|(guid, lid)| (*guid, *lid)).collect();
        all.sort_unstable();
        assert_eq!(all, [(0x11, 3), (0x22, 4), (0x101, 7), (0x201, 9)]);
        let (tables, strangers) = read_fdbs(&graph, LFTS, &lids).unwrap();
        assert_eq!(strangers, []);
        assert_eq!([7, 9, 4].map(|lid| tables.port(switches[0], lid)), [Some(1), Some(4), Some(4)]);
        let checked = check(&graph, &tables);
        assert!(checked.is_good() && checked.pairs == 4 && checked.lost_switches == 0, "{checked:?}");
    }

    #[test]
    fn the_other_form_is_read_as_it_is_written_and_says_no_lids() {
        let (graph, _) = small();
        let lids = Arc::new(Lids::of_graph(&graph, 0).unwrap());
        let before = route(&graph, &lids, &Request::by(Engine::MinHop)).unwrap().tables;
        let mut text = Vec::new();
        referee::write_fdbs(&graph, &before, &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert_eq!(read_lids(&text), HashMap::new());
        let known = lids.iter().map(|(lid, port)| (graph.port_guid(port), lid)).collect();
        let (after, _) = read_fdbs(&graph, &text, &known).unwrap();
        assert_eq!(before.changes(&after).count(), 0);
    }
}
