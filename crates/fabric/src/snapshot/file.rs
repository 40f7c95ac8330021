//! Reads and writes snapshots as files, and reads other fabric files as snapshots.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use topology::read::{Cause, Format};
use topology::routing::{NO_PATH, Tables};
use topology::{Graph, GraphBuilder, Kind, LinkSpec, NodeIx, NodeSpec, PortIx, Speed, Width};

use super::{Concern, PortFacts, Snapshot};
use crate::counting::Counters;
use crate::vls::{LEVELS, VlMaps};

/// The form's name.
pub const SCHEMA: &str = "tieline.fabric.snapshot/1";
/// Bytes that a file may have.
const MOST_BYTES: u64 = 1 << 30;

/// Why a file is no fabric.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// It can't be read.
    #[error("{} cannot be read: {cause}: name a topology file or a snapshot", path.display())]
    Io {
        /// The path of the file.
        path: PathBuf,
        /// The error.
        cause: io::Error,
    },
    /// Nothing in it is a fabric.
    #[error("{}: {why}", path.display())]
    Content {
        /// The path of the file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
}

#[derive(Serialize, Deserialize)]
struct File {
    schema: String,
    taken: u64,
    source: String,
    nodes: Vec<Node>,
    links: Vec<Link>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[serde(rename = "lane_maps")]
    vl_maps: Vec<Map>,
    #[serde(default)]
    counted: bool,
    #[serde(default)]
    concerns: Vec<Concern>,
    #[serde(default)]
    more_concerns: u64,
}

/// A switch by its place in the list, ports in and out, and the VL of each level: a hexadecimal digit each.
#[derive(Serialize, Deserialize)]
struct Map {
    node: u32,
    from: u8,
    to: u8,
    #[serde(rename = "lanes")]
    vls: String,
}

#[derive(Serialize, Deserialize)]
struct Node {
    kind: String,
    name: String,
    guid: String,
    #[serde(default)]
    system: String,
    #[serde(default)]
    vendor: u32,
    #[serde(default)]
    device: u32,
    ports: u8,
    #[serde(default)]
    port: Vec<Port>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    table: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct Port {
    number: u8,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    guid: Option<String>,
    #[serde(default, skip_serializing_if = "is_zero")]
    lid: u16,
    #[serde(default, skip_serializing_if = "is_zero")]
    lmc: u16,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    info: Option<PortFacts>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    counters: Option<BTreeMap<String, u64>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    uncounted: Option<String>,
}

fn is_zero(value: &u16) -> bool {
    *value == 0
}

/// Both ends, by the places of their nodes in the list and their port numbers.
#[derive(Serialize, Deserialize)]
struct Link {
    ends: [(u32, u8); 2],
    #[serde(default)]
    lanes: u8,
    #[serde(default)]
    speed: String,
}

fn hex(guid: u64) -> String {
    format!("{guid:#018x}")
}

/// Escapes what would do something to a terminal that shows the file.
struct Escaping;

impl serde_json::ser::Formatter for Escaping {
    fn write_string_fragment<W: ?Sized + Write>(&mut self, out: &mut W, text: &str) -> io::Result<()> {
        out.write_all(topology::printable_json(text).as_bytes())
    }
}

/// Writes a snapshot.
///
/// # Errors
/// Of the writer.
pub fn write(snapshot: &Snapshot, out: &mut dyn Write) -> io::Result<()> {
    let graph = &snapshot.graph;
    let file = File {
        schema: SCHEMA.to_owned(),
        taken: snapshot.taken,
        source: snapshot.source.clone(),
        nodes: graph.nodes().map(|node| node_of(snapshot, node)).collect(),
        links: graph
            .links()
            .map(|(a, b)| {
                let rate = snapshot.rate(a);
                let end = |port: PortIx| (graph.owner(port).0, graph.number(port));
                let (lanes, speed) = (rate.width.lanes(), rate.speed.word().to_owned());
                Link { ends: [end(a), end(b)], lanes, speed }
            })
            .collect(),
        vl_maps: snapshot
            .vl_maps
            .iter()
            .map(|((from, to), map)| Map {
                node: graph.owner(*to).0,
                from: graph.number(*from),
                to: graph.number(*to),
                vls: map.iter().map(|vl| format!("{:x}", vl & 15)).collect(),
            })
            .collect(),
        counted: snapshot.counters.is_some(),
        concerns: snapshot.concerns.clone(),
        more_concerns: snapshot.more_concerns,
    };
    let mut out = io::BufWriter::new(out);
    file.serialize(&mut serde_json::Serializer::with_formatter(&mut out, Escaping))?;
    out.write_all(b"\n")?;
    out.flush()
}

fn node_of(snapshot: &Snapshot, node: NodeIx) -> Node {
    let graph = &snapshot.graph;
    let table = snapshot.tables.as_ref().and_then(|tables| Some(table(tables, tables.index_of(node)?)));
    Node {
        kind: graph.kind(node).word().to_owned(),
        name: graph.name(node).to_owned(),
        guid: hex(graph.node_guid(node)),
        system: hex(graph.system_guid(node)),
        vendor: graph.vendor(node),
        device: graph.device(node),
        ports: graph.port_count(node),
        port: graph.ports(node).filter_map(|port| port_of(snapshot, node, port)).collect(),
        table,
    }
}

/// Two digits an identifier, from 0 on.
fn table(tables: &Tables, row: usize) -> String {
    let entries = tables.table(row);
    let used = entries.iter().rposition(|port| *port != NO_PATH).map_or(0, |last| last + 1);
    let digit = |value: u8| char::from_digit(u32::from(value), 16).unwrap_or('f');
    entries[..used].iter().flat_map(|port| [digit(port >> 4), digit(port & 15)]).collect()
}

fn port_of(snapshot: &Snapshot, node: NodeIx, port: PortIx) -> Option<Port> {
    let graph = &snapshot.graph;
    let number = graph.number(port);
    // Facts of a switch as a whole are those of its port 0.
    let own = graph.kind(node) != Kind::Switch || number == 0;
    let counters = snapshot.counters.as_ref().and_then(|counters| counters.get(&port)).map(|counters| {
        counters.all().filter(|(_, value)| *value > 0).map(|(name, value)| (name.to_owned(), value)).collect()
    });
    let uncounted = snapshot.uncounted.iter().find(|one| one.0 == port).map(|one| one.1.clone());
    let guid = Some(graph.port_guid(port)).filter(|guid| own && *guid != 0).map(hex);
    let lid = if own { graph.lid(port) } else { 0 };
    let info = snapshot.port(port).copied();
    let said = guid.is_some() || lid != 0 || info.is_some() || counters.is_some() || uncounted.is_some();
    let lmc = if own { graph.lmc(port).into() } else { 0 };
    said.then_some(Port { number, guid, lid, lmc, info, counters, uncounted })
}

/// Opens a file of a fabric: a snapshot, or a topology in any format that can be read.
///
/// # Errors
/// It can't be read, or there is no fabric in it.
pub fn open(path: &Path, forced: Option<Format>) -> Result<Snapshot, OpenError> {
    let bytes = user_files::read(path, MOST_BYTES).map_err(|cause| match cause.kind() {
        io::ErrorKind::FileTooLarge => OpenError::Content { path: path.into(), why: cause.to_string() },
        _ => OpenError::Io { path: path.into(), cause },
    })?;
    read(&bytes, forced, &path.display().to_string())
        .map_err(|why| OpenError::Content { path: path.into(), why })
}

/// The same of bytes; `source` is what they are called.
///
/// # Errors
/// There is no fabric in them, in words.
pub fn read(bytes: &[u8], forced: Option<Format>, source: &str) -> Result<Snapshot, String> {
    if forced.is_none() && bytes.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{') {
        let wanted: Result<Head, _> = serde_json::from_slice(bytes);
        if let Ok(head) = wanted {
            if head.schema != SCHEMA {
                return Err(format!(
                    "it is a `{}`, not a `{SCHEMA}`: name a snapshot or a topology file",
                    shortened(&head.schema)
                ));
            }
            let file: File = serde_json::from_slice(bytes)
                .map_err(|error| format!("the snapshot is not valid: {error}: take it again"))?;
            return of_file(file);
        }
        if bytes.windows(SCHEMA.len()).take(200).any(|part| part == SCHEMA.as_bytes()) {
            return Err("the snapshot is truncated or damaged: take it again".to_owned());
        }
    }
    let reading = topology::read::read(bytes, forced).map_err(|error| error.to_string())?;
    let concerns: Vec<Concern> = reading
        .anomalies
        .iter()
        .map(|anomaly| Concern { grave: is_grave(anomaly.cause), text: anomaly.to_string() })
        .collect();
    Ok(Snapshot {
        taken: 0,
        source: format!("{source} ({})", reading.format),
        graph: reading.graph,
        ports: Vec::new(),
        counters: None,
        uncounted: Vec::new(),
        tables: None,
        vl_maps: VlMaps::new(),
        more_concerns: reading.anomalies.total().saturating_sub(concerns.len() as u64),
        concerns,
    })
}

/// Says it something of the fabric, or only of the file?
fn is_grave(cause: Cause) -> bool {
    !matches!(cause, Cause::NotUnderstood | Cause::NotText | Cause::UnknownRate | Cause::SystemGuid)
}

#[derive(Deserialize)]
struct Head {
    schema: String,
}

fn shortened(text: &str) -> String {
    mad::text::plain(&text.chars().take(60).collect::<String>())
}

fn guid(text: &str) -> Result<u64, String> {
    let bad = || format!("`{}` is not a GUID: take the snapshot again", shortened(text));
    if text.is_empty() {
        return Ok(0);
    }
    u64::from_str_radix(text.strip_prefix("0x").ok_or_else(bad)?, 16).map_err(|_| bad())
}

fn of_file(file: File) -> Result<Snapshot, String> {
    let graph = graph_of(&file)?;
    let mut ports = vec![None; graph.port_total()];
    let (mut counters, mut uncounted) = (BTreeMap::new(), Vec::new());
    for (at, node) in file.nodes.iter().enumerate() {
        for port in &node.port {
            let Some(place) = graph.port(NodeIx(at as u32), port.number) else { continue };
            ports[place.index()] = port.info;
            if let Some(values) = &port.counters {
                let mut all = Counters::default();
                for (name, value) in values {
                    // A counter that only a later version knows is left out.
                    if let Some(counter) = all.named(name) {
                        *counter = *value;
                    }
                }
                counters.insert(place, all);
            }
            uncounted.extend(port.uncounted.clone().map(|why| (place, why)));
        }
    }
    if ports.iter().all(Option::is_none) {
        ports.clear();
    }
    let tables = tables_of(&file, &graph)?;
    let vl_maps = maps_of(&file, &graph)?;
    Ok(Snapshot {
        taken: file.taken,
        source: file.source,
        graph,
        ports,
        counters: file.counted.then_some(counters),
        uncounted,
        tables,
        vl_maps,
        concerns: file.concerns,
        more_concerns: file.more_concerns,
    })
}

fn graph_of(file: &File) -> Result<Graph, String> {
    let mut builder = GraphBuilder::new();
    for node in &file.nodes {
        let kind = [Kind::Host, Kind::Switch, Kind::Router].into_iter().find(|kind| kind.word() == node.kind);
        let kind = kind.ok_or_else(|| format!("a node has the unknown kind `{}`", shortened(&node.kind)))?;
        let mut spec = NodeSpec::new(kind, &node.name, node.ports).guid(guid(&node.guid)?);
        spec.system_guid = guid(&node.system)?;
        (spec.vendor, spec.device) = (node.vendor, node.device);
        let index = builder.node(spec).map_err(|error| error.to_string())?;
        for port in node.port.iter().filter(|port| port.number <= node.ports) {
            if let Some(text) = &port.guid {
                builder.port_guid(index, port.number, guid(text)?);
            }
            if port.lid != 0 {
                builder.lid(index, port.number, port.lid, port.lmc.min(7) as u8);
            }
        }
    }
    for link in &file.links {
        let [(a, from), (b, to)] = link.ends;
        for (node, port) in link.ends {
            let there = file.nodes.get(node as usize).is_some_and(|node| (1..=node.ports).contains(&port));
            if !there {
                return Err(format!("a cable ends at port {port} of node {node}, which does not exist"));
            }
        }
        let rate = LinkSpec {
            width: Width::of_lanes(link.lanes.into()).unwrap_or(Width::Unknown),
            speed: Speed::of_word(&link.speed).filter(|_| !link.speed.is_empty()).unwrap_or(Speed::Unknown),
        };
        builder.link((NodeIx(a), from), (NodeIx(b), to), rate).map_err(|error| error.to_string())?;
    }
    Ok(builder.finish())
}

fn maps_of(file: &File, graph: &Graph) -> Result<VlMaps, String> {
    let map = |one: &Map| {
        // Before the graph is asked, which has no ports of what is not there.
        let node = Some(NodeIx(one.node)).filter(|node| node.index() < graph.node_count())?;
        let port = |number| graph.port(node, number);
        let vls: Vec<u8> = one.vls.chars().filter_map(|c| Some(c.to_digit(16)? as u8)).collect();
        Some(((port(one.from)?, port(one.to)?), <[u8; LEVELS]>::try_from(vls).ok()?))
    };
    let wrong = |one: &Map| format!("`{}` is not an SL-to-VL map of node {}", shortened(&one.vls), one.node);
    file.vl_maps.iter().map(|one| map(one).ok_or_else(|| wrong(one))).collect()
}

fn tables_of(file: &File, graph: &Graph) -> Result<Option<Tables>, String> {
    if file.nodes.iter().all(|node| node.table.is_none()) {
        return Ok(None);
    }
    let lids = std::sync::Arc::new(crate::tables::lids(graph)?);
    crate::tables::afford(graph, &lids)?;
    let switches: Vec<NodeIx> = graph.nodes_of(Kind::Switch).collect();
    let mut tables = Tables::empty(lids, &switches);
    for switch in switches {
        let text = file.nodes[switch.index()].table.as_deref().unwrap_or_default();
        for (lid, digits) in text.as_bytes().chunks(2).enumerate().take(1 << 16) {
            let port = std::str::from_utf8(digits).ok().and_then(|hex| u8::from_str_radix(hex, 16).ok());
            let port = port.filter(|_| digits.len() == 2).ok_or_else(|| {
                format!("the forwarding table of `{}` is not valid", shortened(graph.name(switch)))
            })?;
            tables.set(switch, lid as u16, port);
        }
    }
    Ok(Some(tables))
}
