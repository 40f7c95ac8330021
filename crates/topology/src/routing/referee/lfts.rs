//! Writes tables in the form that OpenSM's routing engine `file` reads: that of its own `opensm-lfts.dump`.

use std::io::{self, Write};

use super::{is_there, node_guid, port_guid};
use crate::routing::tables::{NO_PATH, Tables};
use crate::{Graph, Kind, NodeIx, PortIx};

/// So much of a name is written, in characters: lines that are longer than its buffer OpenSM takes for
/// several.
const NAME_CHARS: usize = 64;

/// Writes the tables for `opensm -R file -U FILE`. Each entry names the port that has the LID, by which
/// OpenSM finds the LID that it gave that port. `vls` are the VLs that the tables need: OpenSM's engine knows
/// no SLs, and a comment says what that means.
///
/// # Errors
/// Of the writer.
pub fn write_lfts(graph: &Graph, tables: &Tables, vls: u8, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "# Forwarding tables of tieline for OpenSM: opensm -R file -U opensm-lfts.dump")?;
    if vls > 1 {
        writeln!(
            out,
            "# WARNING: these tables need {vls} VLs, and this engine of OpenSM knows no SLs: all traffic would be on one VL, \
             where it can deadlock"
        )?;
    }
    let (width, mut ends) = (tables.width(), vec![None; tables.width()]);
    for (lid, end) in tables.lids().iter() {
        if let Some(place) = ends.get_mut(usize::from(lid)) {
            *place = Some(end);
        }
    }
    for (sw, switch) in tables.switches().iter().enumerate().filter(|(_, switch)| is_there(graph, **switch)) {
        let own = tables.lids().of_switch(graph, *switch).unwrap_or(0);
        let (guid, name) = (node_guid(graph, *switch), name(graph, *switch));
        let last = width.saturating_sub(1);
        writeln!(out, "Unicast lids [0-{last}] of switch Lid {own} guid 0x{guid:016x} ('{name}'):")?;
        let entries = || tables.table(sw).iter().enumerate().filter(|(_, port)| **port != NO_PATH);
        for (lid, port) in entries() {
            write!(out, "0x{lid:04x} {port:03} # ")?;
            match ends.get(lid).copied().flatten() {
                Some(end) => describe(graph, end, out)?,
                None => writeln!(out, "unknown node and type")?,
            }
        }
        writeln!(out, "{} lids dumped", entries().count())?;
    }
    Ok(())
}

fn describe(graph: &Graph, end: PortIx, out: &mut impl Write) -> io::Result<()> {
    let owner = graph.owner(end);
    let (kind, guid) = match graph.kind(owner) {
        Kind::Switch => ("Switch", node_guid(graph, owner)),
        Kind::Host => ("Channel Adapter", port_guid(graph, end)),
        Kind::Router => ("Router", port_guid(graph, end)),
    };
    writeln!(out, "{kind} portguid 0x{guid:016x}: '{}'", name(graph, owner))
}

/// A name on one line.
fn name(graph: &Graph, node: NodeIx) -> String {
    graph.name(node).chars().take(NAME_CHARS).map(|c| if c.is_control() { '_' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::build::{FatTree, Torus, fat_tree, torus};
    use crate::routing::referee::{read_fdbs, read_lids};
    use crate::routing::{Engine, Lids, Request, check, route};

    fn written(graph: &Graph, engine: Engine, vls: u8) -> String {
        let lids = Arc::new(Lids::assign(graph, 0, |_| None).unwrap());
        let tables = route(graph, &lids, &Request::by(engine)).unwrap().tables;
        assert!(check(graph, &tables).vls >= vls.min(2));
        let mut bytes = Vec::new();
        write_lfts(graph, &tables, vls, &mut bytes).unwrap();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn every_switch_has_its_entries_with_the_ports_they_are_for() {
        let text = written(&fat_tree(&FatTree::new(4, 2)).unwrap(), Engine::MinHop, 1);
        let heads = text.lines().filter(|line| line.starts_with("Unicast lids [0-")).count();
        let entries: Vec<&str> = text.lines().filter(|line| line.starts_with("0x")).collect();
        // 6 switches, of which each knows the 14 LIDs of all.
        assert_eq!((heads, entries.len()), (6, 6 * 14), "{text}");
        assert!(entries.iter().all(|line| line[7..10].parse::<u8>().is_ok()), "{text}");
        assert_eq!(entries.iter().filter(|line| line.contains("# Channel Adapter portguid 0x")).count(), 48);
        assert_eq!(text.matches("\n14 lids dumped\n").count(), 6, "{text}");
        assert!(!text.contains("WARNING"), "{text}");
    }

    #[test]
    fn what_is_written_is_read_back() {
        let graph = torus(&Torus::new(&[5, 5], 1)).unwrap();
        let text = written(&graph, Engine::Layered, 2);
        assert!(text.starts_with("# Forwarding tables") && text.contains("\n# WARNING"), "{text}");
        let (tables, strangers) = read_fdbs(&graph, &text, &read_lids(&text)).unwrap();
        let checked = check(&graph, &tables);
        assert!(strangers.is_empty() && checked.pairs == 25 * 25 && checked.lost == 0, "{checked:?}");
    }

    #[test]
    fn tables_that_need_vls_say_that_they_are_not_safe_there() {
        let text = written(&torus(&Torus::new(&[5, 5], 1)).unwrap(), Engine::Layered, 2);
        let warning = text.lines().nth(1).unwrap();
        assert!(warning.starts_with("# WARNING") && warning.contains("2 VLs"), "{warning}");
    }
}
