//! Reads Omni-Path topologies in XML, as `opareport -o topology -x` writes them.
//!
//! `LinkSummary` holds a `Link` for each cable with two `Port`s, `Nodes` a `Node` for each node. How many
//! ports a node has is not given: it is as many as are mentioned, unless a `NumPorts` is larger. Other
//! elements of a report are skipped.

use std::collections::HashMap;

use quick_xml::Reader;
use quick_xml::events::Event;

use super::ReadError;
use super::anomaly::{Anomalies, Cause};
use super::draft::Draft;
use super::lines::hex;
use crate::graph::{Graph, Kind, LinkSpec, NodeSpec, Speed, Width};

/// Elements within elements that are followed; more are no topology.
const DEEPEST: usize = 64;

/// An XML element that describes a port or a node.
#[derive(Debug, Default, Clone)]
struct Element {
    guid: Option<u64>,
    port_guid: Option<u64>,
    kind: Option<Kind>,
    name: String,
    port: Option<u64>,
    ports: u64,
}

impl Element {
    /// What it is known by: its GUID, and in plans its name.
    fn key(&self) -> Option<String> {
        match self.guid {
            Some(guid) => Some(format!("{guid:x}")),
            None if !self.name.is_empty() => Some(format!("name {}", self.name)),
            None => None,
        }
    }
}

#[derive(Debug, Default)]
struct Link {
    line: usize,
    rate: Option<LinkSpec>,
    ends: Vec<Element>,
}

/// The parsed report.
#[derive(Default)]
struct Parsed {
    nodes: Vec<(usize, Element)>,
    links: Vec<Link>,
}

pub(super) fn read(bytes: &[u8], anomalies: &mut Anomalies) -> Result<Graph, ReadError> {
    let text = String::from_utf8_lossy(bytes);
    if let std::borrow::Cow::Owned(_) = text {
        anomalies.add(0, Cause::NotText, "bytes that are not UTF-8 were replaced");
    }
    let parsed = parse(text.strip_prefix('\u{feff}').unwrap_or(&text), anomalies);
    // A node has as many ports as the highest number that is mentioned.
    let mut order: Vec<(String, usize, Element)> = Vec::new();
    let mut index: HashMap<String, usize> = HashMap::new();
    let ends = parsed.links.iter().flat_map(|link| link.ends.iter().map(|end| (link.line, end)));
    for (line, element) in parsed.nodes.iter().map(|(line, element)| (*line, element)).chain(ends) {
        let Some(key) = element.key() else {
            anomalies.add(line, Cause::NotUnderstood, "a node with neither GUID nor name: left out");
            continue;
        };
        let at = *index.entry(key.clone()).or_insert(order.len());
        if at == order.len() {
            order.push((key, line, element.clone()));
        }
        let node = &mut order[at].2;
        node.ports = node.ports.max(element.ports).max(element.port.unwrap_or(0).min(254));
        node.kind = node.kind.or(element.kind);
        if node.name.is_empty() {
            node.name.clone_from(&element.name);
        }
    }
    let mut draft = Draft::new(true);
    for (key, line, element) in &order {
        node(&mut draft, key, *line, element, anomalies)?;
    }
    for found in &parsed.links {
        link(&mut draft, found, anomalies);
    }
    Ok(draft.finish(anomalies))
}

fn node(
    draft: &mut Draft,
    key: &str,
    line: usize,
    element: &Element,
    anomalies: &mut Anomalies,
) -> Result<(), ReadError> {
    let Some(kind) = element.kind else {
        anomalies.add(
            line,
            Cause::NotUnderstood,
            format_args!("`{}` is of an unknown kind: left out", element.name),
        );
        return Ok(());
    };
    let ports = u8::try_from(element.ports.clamp(1, 254)).unwrap_or(254);
    let id = draft.id(key);
    draft.node(
        line,
        id,
        NodeSpec::new(kind, &element.name, ports).guid(element.guid.unwrap_or(0)),
        anomalies,
    )?;
    Ok(())
}

fn link(draft: &mut Draft, found: &Link, anomalies: &mut Anomalies) {
    let [from, to] = found.ends.as_slice() else {
        let what = format_args!(
            "a link with {}, and a cable has 2: left out",
            crate::counted(found.ends.len(), "port")
        );
        anomalies.add(found.line, Cause::NotUnderstood, what);
        return;
    };
    let (Some(from_key), Some(to_key)) = (from.key(), to.key()) else { return };
    let (from_id, to_id) = (draft.id(&from_key), draft.id(&to_key));
    let (Some(node), Some(mine), Some(theirs)) = (draft.node_of(from_id), from.port, to.port) else {
        anomalies.add(
            found.line,
            Cause::Dangling,
            format_args!("from `{}` to `{}`: left out", from.name, to.name),
        );
        return;
    };
    for (id, end) in [(from_id, from), (to_id, to)] {
        if let (Some(node), Some(guid), Some(port)) = (draft.node_of(id), end.port_guid, end.port)
            && let Ok(number) = u8::try_from(if end.kind == Some(Kind::Switch) { 0 } else { port })
        {
            draft.graph().port_guid(node, number, guid);
        }
    }
    draft.half(found.line, (node, mine), (to_id, theirs), found.rate.unwrap_or_default(), anomalies);
}

/// Goes through the elements. What is broken ends it: what was read before counts.
fn parse(file: &str, anomalies: &mut Anomalies) -> Parsed {
    let bytes = file.as_bytes();
    let mut reader = Reader::from_str(file);
    let (mut parsed, mut path) = (Parsed::default(), Vec::<String>::new());
    let (mut text, mut counted, mut line) = (String::new(), 0, 1);
    let mut inside_node: Option<Element> = None;
    loop {
        let event = reader.read_event();
        let at = (reader.buffer_position() as usize).clamp(counted, bytes.len());
        line += bytes[counted..at].iter().filter(|byte| **byte == b'\n').count();
        counted = at;
        match event {
            Err(error) => {
                anomalies.add(line, Cause::Truncated, format_args!("{error}: what follows was not read"));
                return parsed;
            }
            Ok(Event::Eof) => {
                if let Some(open) = path.last() {
                    anomalies.add(line, Cause::Truncated, format_args!("the file ends within `{open}`"));
                }
                return parsed;
            }
            Ok(Event::Start(start)) => {
                let name = start.local_name().as_ref().to_owned();
                match name.as_str() {
                    "Link" => parsed.links.push(Link { line, ..Link::default() }),
                    "Port" if within(&path, "Link") => {
                        if let Some(link) = parsed.links.last_mut() {
                            link.ends.push(Element::default());
                        }
                    }
                    "Node" if within(&path, "Nodes") => inside_node = Some(Element::default()),
                    _ => {}
                }
                text.clear();
                path.push(name);
                if path.len() > DEEPEST {
                    anomalies.add(
                        line,
                        Cause::NotUnderstood,
                        "elements are nested deeper than in any topology",
                    );
                    return parsed;
                }
            }
            Ok(Event::Text(part)) => text.push_str(&part),
            Ok(Event::CData(part)) => text.push_str(&part),
            Ok(Event::GeneralRef(entity)) => text.push_str(&resolved(&entity)),
            Ok(Event::End(_)) => {
                let name = path.pop().unwrap_or_default();
                if name == "Node" && within(&path, "Nodes") {
                    parsed.nodes.extend(inside_node.take().map(|node| (line, node)));
                } else if let Some(node) = &mut inside_node {
                    value(node, &name, &text, line, anomalies);
                } else if path.last().is_some_and(|parent| parent == "Port")
                    && let Some(end) = parsed.links.last_mut().and_then(|link| link.ends.last_mut())
                {
                    value(end, &name, &text, line, anomalies);
                } else if name == "Rate" && path.last().is_some_and(|parent| parent == "Link") {
                    rate(&mut parsed, &text, line, anomalies);
                }
                text.clear();
            }
            Ok(_) => {}
        }
    }
}

fn within(path: &[String], element: &str) -> bool {
    path.iter().any(|name| name == element)
}

/// `&amp;` and the like, and characters by number.
fn resolved(entity: &quick_xml::events::BytesRef<'_>) -> String {
    if let Ok(Some(character)) = entity.resolve_char_ref() {
        return character.to_string();
    }
    let name: &str = entity;
    quick_xml::escape::resolve_predefined_entity(name).map_or_else(|| format!("&{name};"), str::to_owned)
}

/// A value of a port or node.
fn value(element: &mut Element, name: &str, text: &str, line: usize, anomalies: &mut Anomalies) {
    let text = text.trim();
    let mut number = |parsed: Option<u64>| {
        if parsed.is_none() {
            anomalies.add(line, Cause::BadNumber, format_args!("{name} `{text}`: treated as unknown"));
        }
        parsed
    };
    match name {
        "NodeGUID" => element.guid = number(hex(text)),
        "PortGUID" => element.port_guid = number(hex(text)).filter(|guid| *guid != 0),
        "PortNum" => element.port = number(text.parse().ok()),
        "NumPorts" => element.ports = number(text.parse().ok()).unwrap_or(0).min(254),
        "NodeDesc" => text.clone_into(&mut element.name),
        "NodeType" => {
            element.kind = match text {
                "FI" | "HFI" | "CA" => Some(Kind::Host),
                "SW" => Some(Kind::Switch),
                "RT" => Some(Kind::Router),
                _ => None,
            }
        }
        _ => {}
    }
}

fn rate(parsed: &mut Parsed, text: &str, line: usize, anomalies: &mut Anomalies) {
    let known = RATES.into_iter().find(|known| known.0.eq_ignore_ascii_case(text.trim()));
    if known.is_none() {
        anomalies.add(line, Cause::UnknownRate, format_args!("`{text}`: treated as unknown"));
    }
    if let Some(link) = parsed.links.last_mut() {
        link.rate = known.map(|(_, width, speed)| LinkSpec { width, speed });
    }
}

/// Rates of whole links.
const RATES: [(&str, Width, Speed); 6] = [
    ("100g", Width::X4, Speed::Opa25),
    ("75g", Width::X3, Speed::Opa25),
    ("50g", Width::X2, Speed::Opa25),
    ("25g", Width::X1, Speed::Opa25),
    ("37.5g", Width::X3, Speed::Opa12),
    ("12.5g", Width::X1, Speed::Opa12),
];

#[cfg(test)]
mod tests {
    use super::super::{Format, read};
    use super::*;

    const REPORT: &str = r#"<?xml version="1.0" encoding="utf-8" ?>
<Report date="Fri May 01 00:01:02 2020" unixtime="1588291262" options="-o topology -x">
<LinkSummary>
  <LinkCount>2</LinkCount>
  <Link id="0x0011750101671ed9:1">
    <Rate>100g</Rate>
    <Rate_Int>16</Rate_Int>
    <Internal>0</Internal>
    <Cable><CableLabel>a &lt;1&gt;</CableLabel></Cable>
    <Port id="0x0011750101671ed9:1">
      <NodeGUID>0x0011750101671ed9</NodeGUID>
      <PortNum>1</PortNum>
      <PortGUID>0x0011750101671eda</PortGUID>
      <NodeType>FI</NodeType>
      <NodeDesc>node &amp; 1 hfi1_0</NodeDesc>
    </Port>
    <Port id="0x00117501026a5683:33">
      <NodeGUID>0x00117501026a5683</NodeGUID>
      <PortNum>33</PortNum>
      <NodeType>SW</NodeType>
      <NodeDesc>edge</NodeDesc>
    </Port>
  </Link>
  <Link>
    <Rate>9g</Rate>
    <Port><NodeType>SW</NodeType><NodeDesc>edge2</NodeDesc><PortNum>2</PortNum></Port>
    <Port><NodeGUID>0x00117501026a5683</NodeGUID><PortNum>48</PortNum></Port>
  </Link>
</LinkSummary>
<Nodes><Switches><Node id="0x00117501026a5683"><NodeGUID>0x00117501026a5683</NodeGUID><NodeType>SW</NodeType>
<NodeDesc>edge</NodeDesc></Node></Switches><SMs></SMs></Nodes>
</Report>
"#;

    #[test]
    fn a_report_is_read() {
        let reading = read(REPORT.as_bytes(), None).unwrap();
        assert_eq!((reading.format, reading.anomalies.total()), (Format::OmniPath, 1));
        assert_eq!(
            reading.anomalies.iter().next().map(|anomaly| (anomaly.line, anomaly.cause)),
            Some((25, Cause::UnknownRate))
        );
        let graph = reading.graph;
        assert_eq!((graph.count(Kind::Switch), graph.count(Kind::Host), graph.link_count()), (2, 1, 2));
        let edge = graph.node_by_guid(0x0011_7501_026a_5683).unwrap();
        let host = graph.node_by_guid(0x0011_7501_0167_1ed9).unwrap();
        assert_eq!((graph.name(host), graph.port_count(edge)), ("node & 1 hfi1_0", 48));
        let port = graph.port(edge, 33).unwrap();
        assert_eq!(graph.neighbour(port), Some(host));
        assert_eq!(graph.link(port).map(LinkSpec::mbps), Some(100_000));
    }

    #[test]
    fn a_report_that_is_cut_off_is_read_as_far_as_it_goes() {
        for end in 0..REPORT.len() {
            if let Ok(reading) = read(&REPORT.as_bytes()[..end], Some(Format::OmniPath)) {
                assert!(reading.graph.link_count() <= 2);
            }
        }
        let cut = &REPORT[..REPORT.find("</LinkSummary>").unwrap()];
        let reading = read(cut.as_bytes(), None).unwrap();
        assert_eq!((reading.graph.link_count(), reading.anomalies.count(Cause::Truncated)), (2, 1));
    }
}
