//! Reads `opensm-subnet.lst`: a line for each end of each cable.
//!
//! Numbers are hexadecimal; vendor and device of the far node are written in an odd byte order by some
//! versions, and are taken from the line where the node comes first.

use super::ReadError;
use super::anomaly::{Anomalies, Cause};
use super::draft::Draft;
use super::lines::{Cursor, hex, lines, text};
use crate::graph::{Graph, Kind, LinkSpec, NodeIx, NodeSpec, Speed, Width};

/// One side of a line.
#[derive(Debug)]
struct Side<'a> {
    kind: Kind,
    ports: u64,
    system: u64,
    node: u64,
    port_guid: u64,
    vendor: u64,
    device: u64,
    name: &'a str,
    lid: u64,
    number: u64,
}

pub(super) fn read(bytes: &[u8], anomalies: &mut Anomalies) -> Result<Graph, ReadError> {
    let mut draft = Draft::new(false);
    for (number, line) in lines(bytes) {
        let line = text(number, line, anomalies);
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let mut at = Cursor(line);
        let (Some(mut near), Some(far)) = (side(&mut at), side(&mut at)) else {
            anomalies.add(number, Cause::NotUnderstood, format_args!("`{line}`"));
            continue;
        };
        // The far side's vendor and device are not worth keeping, unless the node never comes first.
        let Some(node) = node(&mut draft, number, &mut near, anomalies)? else { continue };
        let spec = rate(number, at.0, anomalies);
        let to = draft.id(&key(&far));
        draft.half(number, (node, near.number), (to, far.number), spec, anomalies);
    }
    Ok(draft.finish(anomalies))
}

fn key(side: &Side<'_>) -> String {
    format!("{:x}", side.node)
}

/// The node of a side, described now or before.
fn node(
    draft: &mut Draft,
    line: usize,
    side: &mut Side<'_>,
    anomalies: &mut Anomalies,
) -> Result<Option<NodeIx>, ReadError> {
    let id = draft.id(&key(side));
    let node = match draft.node_of(id) {
        Some(node) => {
            if u64::from(draft.graph().port_count(node)) != side.ports
                || draft.graph().kind(node) != side.kind
            {
                let what =
                    format_args!("`{}` is another kind of node than before: the first is used", side.name);
                anomalies.add(line, Cause::Contradiction, what);
            }
            node
        }
        None => {
            let Some(ports) = u8::try_from(side.ports).ok().filter(|ports| (1..=254).contains(ports)) else {
                let what =
                    format_args!("`{}` with {} ports: a node has 1 to 254; left out", side.name, side.ports);
                anomalies.add(line, Cause::BadNumber, what);
                return Ok(None);
            };
            // Both are at most 32 bits wide: see `side`.
            let spec = NodeSpec {
                kind: side.kind,
                name: side.name,
                ports,
                node_guid: side.node,
                system_guid: side.system,
                vendor: side.vendor as u32,
                device: side.device as u32,
            };
            match draft.node(line, id, spec, anomalies)? {
                Some(node) => node,
                None => return Ok(None),
            }
        }
    };
    let number = if side.kind == Kind::Switch { 0 } else { u8::try_from(side.number).unwrap_or(0) };
    if number > 0 || side.kind == Kind::Switch {
        draft.graph().port_guid(node, number, side.port_guid);
        draft.graph().lid(node, number, side.lid as u16, 0);
    }
    Ok(Some(node))
}

/// `{ CA-SM Ports:02 … {description} LID:0003 PN:01 }`
fn side<'a>(at: &mut Cursor<'a>) -> Option<Side<'a>> {
    at.spaces();
    if !at.take("{") {
        return None;
    }
    let kind = match at.word() {
        word if word.starts_with("SW") => Kind::Switch,
        word if word.starts_with("CA") => Kind::Host,
        word if word.starts_with("R") => Kind::Router,
        _ => return None,
    };
    let mut number = |word: &str, digits: u32| {
        at.spaces();
        let value = at.take(word).then(|| hex(at.word())).flatten()?;
        (digits == 16 || value >> (4 * digits) == 0).then_some(value)
    };
    let ports = number("Ports:", 2)?;
    let (system, node, port_guid) =
        (number("SystemGUID:", 16)?, number("NodeGUID:", 16)?, number("PortGUID:", 16)?);
    let (vendor, device, _) = (number("VenID:", 8)?, number("DevID:", 8)?, number("Rev:", 8)?);
    at.spaces();
    if !at.take("{") {
        return None;
    }
    let name = at.until("} LID:")?;
    let lid = hex(at.word()).filter(|lid| *lid < 0xc000)?;
    at.spaces();
    let number = at.take("PN:").then(|| hex(at.word())).flatten()?;
    at.spaces();
    let side = Side { kind, ports, system, node, port_guid, vendor, device, name, lid, number };
    at.take("}").then_some(side)
}

/// `PHY=4x LOG=ACT SPD=10`
fn rate(line: usize, text: &str, anomalies: &mut Anomalies) -> LinkSpec {
    let mut spec = LinkSpec::default();
    for word in text.split_whitespace() {
        if let Some(lanes) = word.strip_prefix("PHY=") {
            spec.width = lanes
                .strip_suffix('x')
                .and_then(|lanes| Width::of_lanes(lanes.parse().ok()?))
                .unwrap_or_default();
        } else if let Some(speed) = word.strip_prefix("SPD=") {
            spec.speed =
                SPEEDS.into_iter().find(|known| known.0 == speed).map(|known| known.1).unwrap_or_default();
        }
    }
    if spec.width == Width::Unknown || spec.speed == Speed::Unknown {
        anomalies.add(line, Cause::UnknownRate, format_args!("`{}`: treated as unknown", text.trim()));
    }
    spec
}

/// Speeds as OpenSM writes them.
pub(crate) const SPEEDS: [(&str, Speed); 9] = [
    ("2.5", Speed::Sdr),
    ("5", Speed::Ddr),
    ("10", Speed::Qdr),
    ("FDR10", Speed::Fdr10),
    ("14", Speed::Fdr),
    ("25", Speed::Edr),
    ("50", Speed::Hdr),
    ("100", Speed::Ndr),
    ("200", Speed::Xdr),
];
