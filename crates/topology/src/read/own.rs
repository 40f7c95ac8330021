//! Reads our own format, in TOML, which holds everything that a graph holds.
//!
//! The format is ours, so files must be right: an unknown key or a wrong type is an error and not an anomaly.
//! Cables are judged as in any other format.

use std::ops::Range;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::ValueDeserializer;

use super::ReadError;
use super::anomaly::{Anomalies, Cause};
use super::draft::Draft;
use super::lines::hex;
use crate::graph::{Graph, Kind, LinkSpec, NodeIx, NodeSpec};

mod split;

use split::Parts;

/// The key that such a file begins with.
pub(crate) const KEY: &str = "tieline-topology";

/// All keys of the format.
const KEYS: [&str; 19] = [
    KEY, "nodes", "links", "id", "name", "kind", "ports", "guid", "system", "vendor", "device", "lid", "lmc",
    "port", "number", "label", "from", "to", "rate",
];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(rename = "tieline-topology")]
    version: Spanned<u32>,
    #[serde(default)]
    nodes: Vec<Spanned<Node>>,
    #[serde(default)]
    links: Vec<Spanned<Link>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Node {
    /// Its id in links; its name, if it has none.
    id: Option<String>,
    name: String,
    kind: Word,
    ports: u8,
    #[serde(default)]
    guid: Guid,
    system: Option<Guid>,
    #[serde(default)]
    vendor: u32,
    #[serde(default)]
    device: u32,
    #[serde(default)]
    lid: u16,
    #[serde(default)]
    lmc: u8,
    #[serde(default)]
    port: Vec<Port>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Word {
    Host,
    Switch,
    Router,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Port {
    number: u8,
    guid: Option<Guid>,
    #[serde(default)]
    lid: u16,
    #[serde(default)]
    lmc: u8,
    label: Option<u16>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Link {
    from: (String, u64),
    to: (String, u64),
    rate: Option<String>,
}

/// A GUID in a string, because numbers of TOML have a sign.
#[derive(Deserialize, Default, Clone, Copy)]
#[serde(try_from = "String")]
struct Guid(u64);

impl TryFrom<String> for Guid {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let good = text.starts_with("0x") && text.len() > 2;
        good.then(|| hex(&text))
            .flatten()
            .map(Self)
            .ok_or_else(|| format!("`{text}` is not a GUID: write it as \"0x2c9…\""))
    }
}

pub(super) fn read(bytes: &[u8], anomalies: &mut Anomalies) -> Result<Graph, ReadError> {
    let lines = Lines(bytes);
    let text = std::str::from_utf8(bytes).map_err(|error| ReadError::Syntax {
        line: lines.of(error.valid_up_to()),
        cause: "the file is not UTF-8, and TOML must be".to_owned(),
    })?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut draft = Draft::new(true);
    match split::split(text) {
        Some(parts) => by_rows(text, &parts, &mut draft, anomalies)?,
        None => whole(text, &mut draft, anomalies)?,
    }
    Ok(draft.finish(anomalies))
}

/// What is wrong with the syntax, counted from a place of the text on.
fn syntax(text: &str, from: usize, error: &toml::de::Error) -> ReadError {
    let at = from + error.span().map_or(0, |span| span.start);
    let line = Lines(text.as_bytes()).of(at);
    let key = key_of(text, at).map_or_else(String::new, |key| format!("key `{key}`: "));
    let cause = error.message().replace('\n', "; ");
    ReadError::Syntax { line, cause: format!("{key}{cause}: correct it as docs/topology.md says") }
}

/// The key whose value is, or is a list with, what begins at a place of the text.
fn key_of(text: &str, at: usize) -> Option<&str> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let before = text.get(..at)?;
    // A row is one value: what is before its brace is not of it.
    let row = before.rfind(['{', '\n']).map_or(before, |begin| &before[begin + 1..]);
    // A name may hold the sign, too.
    row.rmatch_indices('=').find_map(|(sign, _)| {
        let (key, value) = (row[..sign].trim_end(), row[sign + 1..].trim());
        let name = key.rsplit(|c| !is_word(c)).next().unwrap_or(key);
        (KEYS.contains(&name) && (value.is_empty() || value.starts_with('['))).then_some(name)
    })
}

fn version(version: u32, text: &str, at: usize) -> Result<(), ReadError> {
    if version == 1 {
        return Ok(());
    }
    let cause = format!("version {version} of the format, and only version 1 is read: write `{KEY} = 1`");
    Err(ReadError::Syntax { line: Lines(text.as_bytes()).of(at), cause })
}

/// Row after row, each alone.
fn by_rows(text: &str, parts: &Parts, draft: &mut Draft, anomalies: &mut Anomalies) -> Result<(), ReadError> {
    let head = parts.version.clone().unwrap_or_default();
    let file: File = toml::from_str(&text[head.clone()]).map_err(|error| syntax(text, head.start, &error))?;
    version(*file.version.get_ref(), text, head.start)?;
    // In the order of the file, so that counting lines is one pass over it.
    let mut lines = Counter { bytes: text.as_bytes(), at: 0, line: 1 };
    for range in &parts.nodes {
        let line = lines.to(range.start);
        node(draft, line, &row(text, range)?, anomalies)?;
    }
    lines = Counter { bytes: text.as_bytes(), at: 0, line: 1 };
    for range in &parts.links {
        let line = lines.to(range.start);
        link(draft, line, &row(text, range)?, anomalies);
    }
    Ok(())
}

fn row<T: DeserializeOwned>(text: &str, range: &Range<usize>) -> Result<T, ReadError> {
    let read = ValueDeserializer::parse(&text[range.clone()]).and_then(T::deserialize);
    read.map_err(|error| syntax(text, range.start, &error))
}

/// All at once.
fn whole(text: &str, draft: &mut Draft, anomalies: &mut Anomalies) -> Result<(), ReadError> {
    let file: File = toml::from_str(text).map_err(|error| syntax(text, 0, &error))?;
    version(*file.version.get_ref(), text, file.version.span().start)?;
    let mut lines = Counter { bytes: text.as_bytes(), at: 0, line: 1 };
    for row in &file.nodes {
        let line = lines.to(row.span().start);
        node(draft, line, row.get_ref(), anomalies)?;
    }
    lines = Counter { bytes: text.as_bytes(), at: 0, line: 1 };
    for row in &file.links {
        let line = lines.to(row.span().start);
        link(draft, line, row.get_ref(), anomalies);
    }
    Ok(())
}

fn node(draft: &mut Draft, line: usize, row: &Node, anomalies: &mut Anomalies) -> Result<(), ReadError> {
    let kind = match row.kind {
        Word::Host => Kind::Host,
        Word::Switch => Kind::Switch,
        Word::Router => Kind::Router,
    };
    let id = draft.id(row.id.as_ref().unwrap_or(&row.name));
    let spec = NodeSpec {
        kind,
        name: &row.name,
        ports: row.ports,
        node_guid: row.guid.0,
        system_guid: row.system.unwrap_or(row.guid).0,
        vendor: row.vendor,
        device: row.device,
    };
    let Some(node) = draft.node(line, id, spec, anomalies)? else { return Ok(()) };
    if kind == Kind::Switch {
        address(draft, line, (node, 0), (row.lid, row.lmc), anomalies);
    }
    for port in &row.port {
        if port.number > row.ports {
            let what =
                format_args!("port {} of `{}`, which has {}: left out", port.number, row.name, row.ports);
            anomalies.add(line, Cause::NoSuchPort, what);
            continue;
        }
        if let Some(guid) = port.guid {
            draft.graph().port_guid(node, port.number, guid.0);
        }
        if let Some(label) = port.label {
            draft.graph().external(node, port.number, label);
        }
        if kind != Kind::Switch {
            address(draft, line, (node, port.number), (port.lid, port.lmc), anomalies);
        }
    }
    Ok(())
}

fn address(
    draft: &mut Draft,
    line: usize,
    port: (NodeIx, u8),
    (lid, lmc): (u16, u8),
    anomalies: &mut Anomalies,
) {
    if lid < 0xc000 && lmc < 8 {
        draft.graph().lid(port.0, port.1, lid, lmc);
    } else {
        anomalies.add(line, Cause::BadNumber, format_args!("lid {lid} lmc {lmc}: treated as unknown"));
    }
}

fn link(draft: &mut Draft, line: usize, row: &Link, anomalies: &mut Anomalies) {
    let spec = match row.rate.as_deref().map(str::parse::<LinkSpec>) {
        None => LinkSpec::default(),
        Some(Ok(spec)) => spec,
        Some(Err(())) => {
            let rate = row.rate.as_deref().unwrap_or("");
            anomalies.add(line, Cause::UnknownRate, format_args!("`{rate}`: treated as unknown"));
            LinkSpec::default()
        }
    };
    let (from, to) = (draft.id(&row.from.0), draft.id(&row.to.0));
    match draft.node_of(from) {
        Some(node) => draft.half(line, (node, row.from.1), (to, row.to.1), spec, anomalies),
        None => {
            let what = format_args!("from `{}`, which is not described: left out", row.from.0);
            anomalies.add(line, Cause::Dangling, what);
        }
    }
}

/// Lines of offsets.
struct Lines<'a>(&'a [u8]);

impl Lines<'_> {
    fn of(&self, offset: usize) -> usize {
        1 + self.0.iter().take(offset).filter(|byte| **byte == b'\n').count()
    }
}

/// Lines of growing offsets.
struct Counter<'a> {
    bytes: &'a [u8],
    at: usize,
    line: usize,
}

impl Counter<'_> {
    fn to(&mut self, offset: usize) -> usize {
        let offset = offset.min(self.bytes.len());
        if offset >= self.at {
            self.line += self.bytes[self.at..offset].iter().filter(|byte| **byte == b'\n').count();
            self.at = offset;
        }
        self.line
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NET: &str = "\u{feff}# a net\r\ntieline-topology = 1 # one\r\nnodes = [\n  { name = \"a]}\\\"\", kind = \"switch\", ports = 4, guid = \"0x254000000000100\", lid = 7, lmc = 0 }, # {\n  { id = 'b', name = '\\', kind = \"host\", ports = 1, port = [{ number = 1, lid = 3, label = 2 }] },\n]\n\nlinks = [ { from = [\"a]}\\\"\", 1], to = [\"b\", 1], rate = \"4xHDR\" }, ]\n";

    fn by(text: &str, rows: bool) -> Option<Result<(Graph, Anomalies), ReadError>> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let parts = split::split(text)?;
        let (mut draft, mut anomalies) = (Draft::new(true), Anomalies::default());
        let done = match rows {
            true => by_rows(text, &parts, &mut draft, &mut anomalies),
            false => whole(text, &mut draft, &mut anomalies),
        };
        Some(done.map(|()| (draft.finish(&mut anomalies), anomalies)))
    }

    #[test]
    fn what_is_wrong_names_its_key_and_line_and_what_to_do() {
        let node = "{ name = \"a\", kind = \"switch\", ports = 4 }";
        for (from, to, says) in [
            ("ports = 4", "ports = \"4\"", "line 3: key `ports`: invalid type"),
            ("ports = 4", "ports = 400", "line 3: key `ports`: invalid value"),
            ("\"switch\"", "\"hub\"", "line 3: key `kind`: unknown variant `hub`"),
            ("ports = 4", "guid = 7, ports = 4", "line 3: key `guid`: invalid type"),
            ("ports = 4", "ports = 4, port = [{ number = true }]", "line 3: key `number`: invalid type"),
            ("ports = 4", "ports = 4, colour = 1", "line 3: unknown field `colour`"),
            (", ports = 4", "", "line 3: missing field `ports`"),
            ("[\"a\", 1]", "[\"a=b\", true]", "line 6: key `from`: invalid type"),
            ("= 1\n", "= \"1\"\n", "line 1: key `tieline-topology`: invalid type"),
            ("= 1\n", "= 2\n", "line 1: version 2 of the format"),
        ] {
            for open in ["nodes = [\n", "nodes=[ # rows\n"] {
                let text = format!(
                    "tieline-topology = 1\n{open}{node},\n]\nlinks = [\n{{ from = [\"a\", 1], to = [\"a\", 2] }},\n]\n"
                );
                let why = read(text.replacen(from, to, 1).as_bytes(), &mut Anomalies::default())
                    .unwrap_err()
                    .to_string();
                assert!(
                    why.starts_with(says) && (why.contains("docs/topology.md") || why.contains("write")),
                    "{why}"
                );
                assert!(!why.contains('\n'), "{why}");
            }
        }
    }

    /// A letter of several bytes before the sign of a key, wherever the error is.
    #[test]
    fn a_key_of_any_letters_is_refused() {
        for (at, _) in NET.char_indices() {
            for with in ["é=", "é = [", "é\n=\""] {
                let text = format!("{}{with}{}", &NET[..at], &NET[at..]);
                drop((by(&text, true), by(&text, false)));
            }
        }
    }

    #[test]
    fn the_net_is_read_by_rows() {
        let (graph, anomalies) = by(NET, true).unwrap().unwrap();
        assert!(anomalies.is_empty() && graph.link_count() == 1);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

        /// Whatever is done to a file: read by rows it is what the library alone makes of it.
        #[test]
        fn rows_say_what_the_whole_says(
            changes in prop::collection::vec((any::<u16>(), 0..5_u8, prop::sample::select(
                vec!["{", "}", "[", "]", "\"", "'", ",", "#", "\n", "\r", "\\", "=", " ", "\t", "\u{1}", "\u{7f}", "é", "1", "\"\"\"", "nodes = []\n", "x"]
            )), 1..4),
        ) {
            let mut text: Vec<char> = NET.chars().collect();
            for (at, kind, with) in changes {
                let at = usize::from(at) % text.len();
                let until = match kind { 0 => at, 1 | 2 => at + 1, _ => (at + 7).min(text.len()) };
                let with = if kind == 2 { "" } else { with };
                drop(text.splice(at..until, with.chars()));
            }
            let text: String = text.into_iter().collect();
            let (Some(rows), Some(whole)) = (by(&text, true), by(&text, false)) else { return Ok(()) };
            match (rows, whole) {
                (Ok(rows), Ok(whole)) => prop_assert_eq!(rows, whole, "{}", text),
                (Err(_), Err(_)) => {}
                (rows, whole) => prop_assert!(false, "{:?} and {:?}: {}", rows.err(), whole.err(), text),
            }
        }
    }
}
