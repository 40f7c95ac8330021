//! Reads service levels and VLs, as [`super::write_levels`] and [`super::write_vls`] write
//! them.

use std::collections::HashMap;

use super::read::ReadError;
use super::{View, node_guid};
use crate::routing::tables::Tables;
use crate::routing::vls::{LEVELS, Mapping, Service};
use crate::{Graph, Kind, NodeIx};

/// Different SL-to-VL maps that are distinguished.
const MAX_MAPS: usize = 256;

fn by_guid(graph: &Graph, is: impl Fn(Kind) -> bool) -> HashMap<u64, NodeIx> {
    graph.nodes().filter(|node| is(graph.kind(*node))).map(|node| (node_guid(graph, node), node)).collect()
}

fn hex(word: Option<&str>) -> Option<u64> {
    u64::from_str_radix(word?.strip_prefix("0x")?, 16).ok()
}

fn wrong(line: usize, row: &str, what: &str) -> ReadError {
    ReadError { line: line + 1, what: format!("`{}`: {what}", crate::printable(row.trim())) }
}

/// Reads service levels: lines of a host's GUID, a LID and a level. What no line names has level 0.
///
/// # Errors
/// A line that is none of that, or of a host that the fabric lacks; hosts of one switch that use different
/// levels to one LID, which can't be followed switch by switch.
pub fn read_levels(graph: &Graph, tables: &Tables, text: &str) -> Result<Service, ReadError> {
    let view = View::of(graph);
    let hosts = by_guid(graph, |kind| kind != Kind::Switch);
    let width = tables.width();
    let mut levels = vec![u8::MAX; view.switch_count() * width];
    for (line, row) in text.lines().enumerate().filter(|(_, row)| !row.trim().is_empty()) {
        let mut words = row.split_whitespace();
        let guid = hex(words.next());
        let (lid, level) = (words.next().and_then(|word| word.parse().ok()), words.next());
        let level =
            level.and_then(|word| word.parse::<u8>().ok()).filter(|level| usize::from(*level) < LEVELS);
        let (Some(guid), Some(lid), Some(level)) = (guid, lid, level) else {
            return Err(wrong(line, row, "not a GUID, a LID and a service level (SL) from 0 to 15"));
        };
        let lid: u16 = lid;
        let host = hosts.get(&guid).ok_or_else(|| wrong(line, row, "the fabric has no such CA"))?;
        if usize::from(lid) >= width {
            return Err(wrong(line, row, "the forwarding tables have no such LID"));
        }
        for (source, _) in graph.ports(*host).filter_map(|port| view.attachment(graph, port)) {
            let known = &mut levels[source * width + usize::from(lid)];
            if *known != u8::MAX && *known != level {
                let what = "another CA of the same switch uses another SL, and one SL per switch and LID is followed";
                return Err(wrong(line, row, what));
            }
            *known = level;
        }
    }
    levels.iter_mut().filter(|level| **level == u8::MAX).for_each(|level| *level = 0);
    Ok(Service::Each { width, levels })
}

/// Reads VLs: lines of a switch's GUID, the port in, the port out and sixteen VLs in eight pairs of digits.
/// Between ports that no line names a level goes on the VL of its number.
///
/// # Errors
/// A line that is none of that, or of a switch or port that the fabric lacks; more than 255 different maps.
pub fn read_vls(graph: &Graph, text: &str) -> Result<Mapping, ReadError> {
    let view = View::of(graph);
    let (stride, switches) = (view.stride(), by_guid(graph, |kind| kind == Kind::Switch));
    let mut maps: Vec<[u8; LEVELS]> = vec![std::array::from_fn(|level| level as u8)];
    let mut index = vec![0_u8; view.switch_count() * stride * stride];
    for (line, row) in text.lines().enumerate().filter(|(_, row)| !row.trim().is_empty()) {
        let mut words = row.split_whitespace();
        let guid = hex(words.next());
        let mut port = || words.next().and_then(|word| word.parse::<u8>().ok());
        let (came, goes) = (port(), port());
        let (Some(guid), Some(came), Some(goes), Some(vls)) = (guid, came, goes, pairs(words)) else {
            return Err(wrong(line, row, "not a GUID, two ports and eight pairs of VLs"));
        };
        let switch = switches.get(&guid).ok_or_else(|| wrong(line, row, "the fabric has no such switch"))?;
        let count = graph.port_count(*switch);
        let Some(at) = view.index_of(*switch).filter(|_| came <= count && goes <= count) else {
            return Err(wrong(line, row, "the switch has no such port"));
        };
        let found = maps.iter().position(|known| *known == vls).unwrap_or(maps.len());
        if found == maps.len() {
            if maps.len() == MAX_MAPS {
                return Err(wrong(line, row, "more than 255 different SL2VL maps"));
            }
            maps.push(vls);
        }
        // There are at most 256 maps.
        index[(at * stride + usize::from(came)) * stride + usize::from(goes)] = found as u8;
    }
    Ok(Mapping::Ports { stride, maps, map: index })
}

/// `0x01 0x23 …`: sixteen digits.
fn pairs<'a>(mut words: impl Iterator<Item = &'a str>) -> Option<[u8; LEVELS]> {
    let mut vls = [0; LEVELS];
    for pair in vls.chunks_mut(2) {
        let both = hex(words.next()).filter(|both| *both <= 0xFF)?;
        pair.copy_from_slice(&[(both >> 4) as u8, (both & 0xF) as u8]);
    }
    words.next().is_none().then_some(vls)
}
