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

/// Reads tables from an OpenSM dump of unicast tables (`opensm.fdbs`). `known` are LIDs by the GUID of their port.
/// Switches that the graph lacks are named in the second part.
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
    for (line, row) in text.lines().enumerate() {
        let wrong = |what: &str| ReadError { line: line + 1, what: format!("`{row}`: {what}") };
        if let Some((_, guid)) = row.split_once("Switch ") {
            let guid = number(guid).ok_or_else(|| wrong("no switch GUID"))?;
            (at, is_one) = (graph.node_by_guid(guid), true);
            if at.is_none() {
                unknown.push(guid);
            }
            continue;
        }
        // Below the line of a switch stands a head (`LID : Port : Hops : Optimal`).
        if row.trim().is_empty() || row.trim_start().starts_with("LID") {
            continue;
        }
        if !row.starts_with("0x") {
            // Without the line: in a file that is no dump anything may stand.
            let what = "neither a switch (`… Switch 0x…`) nor an entry (`0x0001 : 001 : …`)".to_owned();
            return Err(ReadError { line: line + 1, what });
        }
        let mut fields = row.split(':');
        let lid = fields.next().and_then(number).and_then(|lid| u16::try_from(lid).ok());
        let lid = lid.ok_or_else(|| wrong("no LID"))?;
        let port = fields.next().map(str::trim).unwrap_or_default();
        if let (Ok(port), Some(switch)) = (port.parse::<u8>(), at) {
            tables.set(switch, lid, port);
        }
    }
    if !is_one {
        let what = "no forwarding tables: there is no line such as `dump_ucast_routes: Switch 0x0002c9…`";
        return Err(ReadError { line: text.lines().count().max(1), what: what.to_owned() });
    }
    Ok((tables, unknown))
}
