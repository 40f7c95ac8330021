//! Reads and writes OpenSM's dumps of tables and the input files of `ibdmchk`.
//!
//! `ibdmchk -s subnet.lst -f tables.fdbs -m tables.mcfdbs -c levels.psl -d vls.slvl` reads what this module
//! writes, and `opensm -R file -U lfts.dump` what [`write_lfts`] does.

use std::io::{self, Write};

use super::tables::{NO_PATH, Tables};
use super::view::View;
use crate::read::subnet_speed;
use crate::{Graph, Kind, LinkSpec, NodeIx, PortIx};

mod lfts;
mod read;
mod vls;

pub use lfts::write_lfts;
pub use read::{ReadError, read_fdbs, read_guid2lid, read_lids};
pub use vls::{read_levels, read_vls};

/// Writes the cables as OpenSM's `opensm-subnet.lst`: a line for each end of each cable.
///
/// # Errors
/// Of the writer.
pub fn write_subnet(graph: &Graph, tables: &Tables, out: &mut impl Write) -> io::Result<()> {
    for node in graph.nodes() {
        for (near, far) in graph.cabled(node) {
            let (Some(_), Some(_)) = (lid(graph, tables, near), lid(graph, tables, far)) else { continue };
            end(graph, tables, near, out)?;
            out.write_all(b" ")?;
            end(graph, tables, far, out)?;
            let link = graph.link(near).unwrap_or(LinkSpec::EDR4X);
            let width = if link.width.lanes() == 0 { 4 } else { link.width.lanes() };
            writeln!(out, " PHY={width}x LOG=ACT SPD={}", subnet_speed(link.speed))?;
        }
    }
    Ok(())
}

fn lid(graph: &Graph, tables: &Tables, port: PortIx) -> Option<u16> {
    let owner = graph.owner(port);
    match graph.kind(owner) {
        Kind::Switch => tables.lids().of_switch(graph, owner),
        _ => tables.lids().base(port),
    }
}

fn end(graph: &Graph, tables: &Tables, port: PortIx, out: &mut impl Write) -> io::Result<()> {
    let owner = graph.owner(port);
    let (word, guid) = match graph.kind(owner) {
        Kind::Switch => ("SW", node_guid(graph, owner)),
        _ => ("CA", port_guid(graph, port)),
    };
    let node = node_guid(graph, owner);
    let system = Some(graph.system_guid(owner)).filter(|guid| *guid != 0).unwrap_or(node);
    // Braces and line ends would end the name for the one that reads it.
    let name: String =
        graph.name(owner).chars().map(|c| if "{}\n\r".contains(c) { '_' } else { c }).collect();
    write!(
        out,
        "{{ {word} Ports:{:02X} SystemGUID:{system:016x} NodeGUID:{node:016x} PortGUID:{guid:016x} VenID:{:06X} DevID:{:04X} \
         Rev:00000000 {{{name}}} LID:{:04X} PN:{:02X} }}",
        graph.port_count(owner),
        graph.vendor(owner),
        graph.device(owner),
        lid(graph, tables, port).unwrap_or(0),
        graph.number(port)
    )
}

/// Has it a cable? The file of cables knows no other nodes, and its reader takes an unknown one for a
/// mistake.
fn is_there(graph: &Graph, node: NodeIx) -> bool {
    graph.cabled(node).next().is_some()
}

/// The GUID, or a number that stands for it where it is not known.
fn node_guid(graph: &Graph, node: NodeIx) -> u64 {
    match graph.node_guid(node) {
        0 => 0xFFFF_0000_0000_0000 | u64::from(node.0) << 8,
        guid => guid,
    }
}

fn port_guid(graph: &Graph, port: PortIx) -> u64 {
    match graph.port_guid(port) {
        0 => node_guid(graph, graph.owner(port)) + u64::from(graph.number(port)),
        guid => guid,
    }
}

/// Writes the tables as OpenSM's `opensm.fdbs`: of each entry the port, and the cables from the switch to the
/// one that answers (255 where the tables do not lead there).
///
/// # Errors
/// Of the writer.
pub fn write_fdbs(graph: &Graph, tables: &Tables, out: &mut impl Write) -> io::Result<()> {
    let hops = Hops::of(graph, tables);
    for (sw, switch) in tables.switches().iter().enumerate().filter(|(_, switch)| is_there(graph, **switch)) {
        writeln!(out, "dump_ucast_routes: Switch 0x{:016x}", node_guid(graph, *switch))?;
        writeln!(out, "LID    : Port : Hops : Optimal")?;
        for (lid, port) in tables.table(sw).iter().enumerate().filter(|(_, port)| **port != NO_PATH) {
            writeln!(out, "0x{lid:04X} : {port:03}  : {:02}   : yes", hops.to(sw, lid))?;
        }
    }
    Ok(())
}

/// Cables on the paths of tables.
struct Hops {
    width: usize,
    /// Of each switch and LID; [`UNREACHED`] where there is none.
    cables: Vec<u8>,
}

/// More cables than a dump can express.
const UNREACHED: u8 = 255;

impl Hops {
    fn of(graph: &Graph, tables: &Tables) -> Self {
        let (view, width) = (View::of(graph), tables.width());
        let switches = tables.switches().len();
        let mut hops = Self { width, cables: vec![UNREACHED; switches * width] };
        let mut path = Vec::new();
        for (lid, _) in tables.lids().iter() {
            for from in 0..switches {
                hops.follow(&view, tables, usize::from(lid), from, &mut path);
            }
        }
        hops
    }

    /// Follows one path until it ends or joins one that is known.
    fn follow(&mut self, view: &View, tables: &Tables, lid: usize, from: usize, path: &mut Vec<usize>) {
        path.clear();
        let mut sw = from;
        let mut far = loop {
            let known = self.cables[sw * self.width + lid];
            let port = tables.table(sw)[lid];
            if known != UNREACHED || port == NO_PATH || path.len() > tables.switches().len() {
                break known;
            }
            if port == 0 {
                self.cables[sw * self.width + lid] = 0;
                break 0;
            }
            path.push(sw);
            let beyond = view.index_of(tables.switches()[sw]).map(|at| (at, view.beyond(at, port)));
            match beyond {
                Some((_, Some((there, _)))) => match tables.index_of(view.switch(there)) {
                    Some(there) => sw = there,
                    None => break UNREACHED,
                },
                Some((at, None)) if view.is_end(at, port) => break 0,
                _ => break UNREACHED,
            }
        };
        for sw in path.drain(..).rev() {
            far = far.saturating_add(1);
            self.cables[sw * self.width + lid] = far;
        }
    }

    fn to(&self, sw: usize, lid: usize) -> u8 {
        self.cables[sw * self.width + lid]
    }
}

/// Writes the service level of every path: source's GUID, LID, level. LIDs of switches are left out.
///
/// # Errors
/// Of the writer.
pub fn write_levels(graph: &Graph, tables: &Tables, out: &mut impl Write) -> io::Result<()> {
    let view = View::of(graph);
    let hosts: Vec<(u16, usize)> = tables
        .lids()
        .iter()
        .filter(|(_, end)| graph.kind(graph.owner(*end)) != Kind::Switch)
        .filter_map(|(lid, end)| Some((lid, view.attachment(graph, end)?.0)))
        .collect();
    for node in graph.nodes().filter(|node| graph.kind(*node) != Kind::Switch) {
        // One line a node and destination is all that the format has; a host with two ports sends by the
        // first.
        let Some(source) = graph.ports(node).find_map(|port| view.attachment(graph, port)) else { continue };
        for (lid, sw) in &hosts {
            let level = tables.vls().level(source.0, *lid, *sw);
            writeln!(out, "0x{:016x} {lid} {level}", node_guid(graph, node))?;
        }
    }
    Ok(())
}

/// Writes the VLs that each switch puts levels on: switch's GUID, port in, port out, sixteen VLs.
///
/// # Errors
/// Of the writer.
pub fn write_vls(graph: &Graph, tables: &Tables, out: &mut impl Write) -> io::Result<()> {
    let view = View::of(graph);
    for sw in (0..view.switch_count()).filter(|sw| is_there(graph, view.switch(*sw))) {
        let switch = view.switch(sw);
        for came in 0..=graph.port_count(switch) {
            for goes in 1..=graph.port_count(switch) {
                write!(out, "0x{:016x} {came} {goes}", node_guid(graph, switch))?;
                for pair in tables.vls().map(sw, came, goes).chunks(2) {
                    write!(out, " 0x{:x}{:x}", pair[0], pair[1])?;
                }
                writeln!(out)?;
            }
        }
    }
    Ok(())
}
