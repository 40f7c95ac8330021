//! Reads the output of `ibnetdiscover`, of all versions, and the net files of `ibsim`.
//!
//! A node is a block: lines `key=value`, one line with its kind, count of ports and name in quotes, and a
//! line for each cabled port. What follows `#` was a comment once, and carries the description, LIDs and
//! rates.

use super::anomaly::{Anomalies, Cause};
use super::draft::Draft;
use super::lines::{Cursor, after, hex, lines, text};
use super::{Format, ReadError};
use crate::graph::{Graph, Kind, LinkSpec, NodeIx, NodeSpec, Speed, Width};
use crate::text::counted;

mod rate;

/// The kinds of nodes by the words of both formats.
pub(super) const KINDS: [(&str, Kind); 6] = [
    ("Switch", Kind::Switch),
    ("Ca", Kind::Host),
    ("Hca", Kind::Host),
    ("CA", Kind::Host),
    ("Rt", Kind::Router),
    ("Router", Kind::Router),
];
/// Lines of a dump by chassis (`ibnetdiscover -g`), and of tools whose outputs stand in the same file, which
/// say nothing of cables.
const SILENT: [&str; 5] = ["Chassis ", "Non-Chassis Nodes", "Spine ", "Line ", "Fabric "];
/// `ibsim` gives nodes without a GUID one of these: hosts and routers a range for their ports, switches one.
const HOSTS_FROM: u64 = 0x10_0000;
const SWITCHES_FROM: u64 = 0x20_0000;

/// The header of a node.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Header<'a> {
    pub(super) kind: Kind,
    pub(super) ports: &'a str,
    pub(super) id: &'a str,
    rest: &'a str,
}

/// `Switch 36 "S-0002c9…"`, and what follows.
pub(super) fn header(line: &str) -> Option<Header<'_>> {
    let mut at = Cursor(line);
    let word = at.word();
    // Where tabs were lost on the way the number is right behind the word.
    let letters = word.trim_end_matches(|digit: char| digit.is_ascii_digit());
    let kind = KINDS.into_iter().find(|kind| kind.0 == letters)?.1;
    let ports = if letters == word { at.word() } else { &word[letters.len()..] };
    at.spaces();
    let id = at.between("\"", "\"")?;
    (!id.is_empty() && ports.starts_with(|first: char| first.is_ascii_digit())).then_some(Header {
        kind,
        ports,
        id,
        rest: at.0,
    })
}

/// The comment of a line: the text in quotes (which may hold quotes), and what is said before and after it.
fn comment(rest: &str) -> (&str, Option<&str>, &str) {
    let Some((_, comment)) = rest.split_once('#') else { return ("", None, "") };
    match (comment.find('"'), comment.rfind('"')) {
        (Some(begin), Some(end)) if begin < end => {
            (&comment[..begin], Some(&comment[begin + 1..end]), &comment[end + 1..])
        }
        _ => (comment, None, comment),
    }
}

/// The attributes of the lines `key=value` before a node.
#[derive(Debug, Default, Clone, Copy)]
struct Keys {
    vendor: u32,
    device: u32,
    system: Option<u64>,
    node: Option<u64>,
    port: Option<u64>,
}

pub(super) fn read(bytes: &[u8], format: Format, anomalies: &mut Anomalies) -> Result<Graph, ReadError> {
    let one_end_is_enough = format == Format::IbSim;
    let draft = Draft::new(one_end_is_enough);
    let mut reader = Reader {
        draft,
        format,
        keys: Keys::default(),
        node: Current::None,
        hosts: HOSTS_FROM,
        switches: SWITCHES_FROM,
        gap: true,
        systems: None,
    };
    for (number, line) in lines(bytes) {
        let line = text(number, line, anomalies);
        reader.line(number, &line, anomalies)?;
    }
    if let Some((line, count)) = reader.systems {
        let what = format_args!(
            "the line of {} begins with another GUID than the one in quotes, by which cables name it: the latter is used",
            counted(count, "node")
        );
        anomalies.add(line, Cause::SystemGuid, what);
    }
    Ok(reader.draft.finish(anomalies))
}

/// Whose ports the next lines are.
#[derive(Debug, Clone, Copy)]
enum Current {
    None,
    /// Of a node that was left out, with an anomaly.
    Skipped,
    /// Of no node: this line begins no readable header.
    Lost(usize),
    Node(NodeIx, Kind),
}

struct Reader {
    draft: Draft,
    format: Format,
    keys: Keys,
    node: Current,
    hosts: u64,
    switches: u64,
    /// Was the last relevant line empty?
    gap: bool,
    /// The first line of a node whose GUID is in the quotes only, and how many there are.
    systems: Option<(usize, usize)>,
}

impl Reader {
    fn line(&mut self, number: usize, line: &str, anomalies: &mut Anomalies) -> Result<(), ReadError> {
        let line = line.trim();
        self.gap |= line.is_empty();
        if line.is_empty() || line.starts_with('#') || SILENT.iter().any(|word| line.starts_with(word)) {
            return Ok(());
        }
        if line.starts_with('[') {
            if !self.port(number, line, anomalies) {
                anomalies.add(number, Cause::NotUnderstood, format_args!("`{line}`"));
            }
        } else if let Some(found) = header(line) {
            self.header(number, &found, anomalies)?;
        } else if !self.key(number, line, anomalies) {
            anomalies.add(number, Cause::NotUnderstood, format_args!("`{line}`"));
            // What may have been a header ends the node before it: what follows is not that node's.
            let first = line.split_whitespace().next().unwrap_or("");
            if self.gap || line.contains('"') || KINDS.iter().any(|kind| kind.0 == first) {
                self.node = Current::Lost(number);
            }
        }
        self.gap = false;
        Ok(())
    }

    /// `key=value`, and perhaps a comment.
    fn key(&mut self, number: usize, line: &str, anomalies: &mut Anomalies) -> bool {
        let statement = line.split('#').next().unwrap_or("").trim();
        let Some((key, value)) = statement.split_once('=') else {
            // Words for parts of a node that the simulator knows and cables don't.
            return matches!(statement.split_whitespace().next(), Some("module" | "do" | "include"));
        };
        let (value, inner) = match value.split_once('(') {
            Some((value, inner)) => (value, inner.strip_suffix(')')),
            None => (value, None),
        };
        // Attributes are before a node: with them the one before has ended.
        if key.trim() != "portguid" {
            self.node = Current::Lost(number);
        }
        let parsed = hex(value);
        let small = parsed.and_then(|value| u32::try_from(value).ok());
        let good = match key.trim() {
            "vendid" => small.map(|value| self.keys.vendor = value).is_some(),
            "devid" => small.map(|value| self.keys.device = value).is_some(),
            "sysimgguid" => {
                self.keys.system = parsed;
                parsed.is_some()
            }
            "switchguid" | "caguid" | "hcaguid" | "rtguid" | "nodeguid" => {
                self.keys.port = inner.and_then(hex);
                self.keys.node = parsed;
                parsed.is_some()
            }
            "portguid" => true,
            _ => return false,
        };
        if !good {
            anomalies.add(number, Cause::BadNumber, format_args!("`{line}`: treated as unknown"));
        }
        true
    }

    fn header(
        &mut self,
        number: usize,
        found: &Header<'_>,
        anomalies: &mut Anomalies,
    ) -> Result<(), ReadError> {
        let keys = std::mem::take(&mut self.keys);
        self.node = Current::Skipped;
        let id = self.draft.id(found.id);
        let Some(ports) = found.ports.parse::<u8>().ok().filter(|ports| (1..=254).contains(ports)) else {
            let what =
                format_args!("`{}` with {} ports: a node has 1 to 254; left out", found.id, found.ports);
            anomalies.add(number, Cause::BadNumber, what);
            return Ok(());
        };
        let (_, description, tail) = comment(found.rest);
        let name = description.unwrap_or(found.id);
        let node_guid = match self.quoted_guid(&keys, found.id) {
            Some(quoted) => {
                self.systems.get_or_insert((number, 0)).1 += 1;
                quoted
            }
            None => {
                keys.node.or_else(|| guid_of(found.id)).unwrap_or_else(|| self.next_guid(found.kind, ports))
            }
        };
        let (kind, system_guid) = (found.kind, keys.system.or(keys.node).unwrap_or(node_guid));
        let (vendor, device) = (keys.vendor, keys.device);
        let spec = NodeSpec { kind, name, ports, node_guid, system_guid, vendor, device };
        let Some(node) = self.draft.node(number, id, spec, anomalies)? else { return Ok(()) };
        self.node = Current::Node(node, kind);
        if kind == Kind::Switch {
            if let Some(guid) = keys.port {
                self.draft.graph().port_guid(node, 0, guid);
            }
            self.address(number, (node, 0), tail, anomalies);
        }
        Ok(())
    }

    /// The GUID in the quotes of a dump, if the line above it names another one and has this one in its
    /// brackets: some tools write there first that of the system, which its switches share. Not if another
    /// node has it.
    fn quoted_guid(&self, keys: &Keys, id: &str) -> Option<u64> {
        let quoted = guid_of(id).filter(|quoted| keys.node != Some(*quoted) && keys.port == Some(*quoted))?;
        (self.format == Format::IbNetDiscover && !self.draft.has_guid(quoted)).then_some(quoted)
    }

    /// The GUID that `ibsim` would give it; none in a dump.
    fn next_guid(&mut self, kind: Kind, ports: u8) -> u64 {
        if self.format != Format::IbSim {
            return 0;
        }
        let (next, step) = match kind {
            Kind::Switch => (&mut self.switches, 1),
            Kind::Host | Kind::Router => (&mut self.hosts, u64::from(ports) + 1),
        };
        let guid = *next;
        *next += step;
        guid
    }

    /// `lid 7 lmc 0`, if given.
    fn address(&mut self, number: usize, port: (NodeIx, u8), text: &str, anomalies: &mut Anomalies) {
        let (lid, lmc) = (after(text, "lid"), after(text, "lmc"));
        let Some(lid) = lid else { return };
        let value = lid.parse::<u16>().ok().filter(|lid| *lid < 0xc000);
        let bits = lmc.map_or(Some(0), |lmc| lmc.parse::<u8>().ok().filter(|lmc| *lmc < 8));
        match (value, bits) {
            (Some(lid), Some(lmc)) => self.draft.graph().lid(port.0, port.1, lid, lmc),
            _ => {
                let what = format_args!("lid {lid} lmc {}: treated as unknown", lmc.unwrap_or("0"));
                anomalies.add(number, Cause::BadNumber, what);
            }
        }
    }

    /// `[1](guid)[ext 2] "S-…"[3](guid) # …`; false if it is none.
    fn port(&mut self, number: usize, line: &str, anomalies: &mut Anomalies) -> bool {
        let mut at = Cursor(line);
        let Some((mine, own)) = socket(&mut at) else { return false };
        at.spaces();
        let Some(id) = at.between("\"", "\"").filter(|id| !id.is_empty()) else { return false };
        let Some((theirs, _)) = socket(&mut at) else { return false };
        let (node, kind) = match self.node {
            Current::None => return false,
            Current::Skipped => return true,
            Current::Lost(header) => {
                let what =
                    format_args!("`{line}`: no valid node header in line {header} or after it: left out");
                anomalies.add(number, Cause::NoHeader, what);
                return true;
            }
            Current::Node(node, kind) => (node, kind),
        };
        let (before, _, behind) = comment(at.0);
        if let Ok(port) = u8::try_from(mine) {
            if let Some(label) = own.external {
                self.draft.graph().external(node, port, label);
            }
            if kind != Kind::Switch {
                if let Some(guid) = own.guid {
                    self.draft.graph().port_guid(node, port, guid);
                }
                self.address(number, (node, port), before, anomalies);
            }
        }
        let spec = self.rate(number, at.0, behind, anomalies);
        let to = self.draft.id(id);
        self.draft.half(number, (node, mine), (to, theirs), spec, anomalies);
        true
    }

    /// The rate in the comment (`4xHDR`) counts before the simulator's options (`s=4 w=2`).
    fn rate(&mut self, number: usize, options: &str, behind: &str, anomalies: &mut Anomalies) -> LinkSpec {
        let options = options.split('#').next().unwrap_or("");
        let (said, strange) = rate::read(options, behind);
        if let Some(strange) = strange {
            let what = format_args!("`{strange}`: treated as unknown");
            anomalies.add(number, Cause::UnknownRate, what);
        }
        LinkSpec { width: said.width.unwrap_or(Width::Unknown), speed: said.speed.unwrap_or(Speed::Unknown) }
    }
}

/// What is beside a port's number.
#[derive(Debug, Default)]
struct Notes {
    external: Option<u16>,
    guid: Option<u64>,
}

/// `[12](guid)[ext 3]`, in any order behind the number. A number too large for any port comes out as one.
fn socket(at: &mut Cursor<'_>) -> Option<(u64, Notes)> {
    at.spaces();
    let number = at.between("[", "]")?.trim();
    if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let number = number.parse().unwrap_or(u64::MAX);
    let mut notes = Notes::default();
    loop {
        at.spaces();
        if let Some(label) = at.between("[ext", "]") {
            notes.external = label.trim().parse().ok();
        } else if let Some(guid) = at.between("(", ")") {
            notes.guid = hex(guid).filter(|_| !guid.is_empty());
        } else {
            return Some((number, notes));
        }
    }
}

/// `S-0002c90000000001` names its node's GUID.
fn guid_of(id: &str) -> Option<u64> {
    let digits = id.strip_prefix(['S', 'H', 'R'])?.strip_prefix('-')?;
    (digits.len() == 16).then(|| hex(digits)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_and_sockets_are_read_along_the_line() {
        let found = header("Switch\t36 \"S-0001\"\t# \"a \"b\" #c\" base port 0 lid 7 lmc 0").unwrap();
        assert_eq!((found.kind, found.ports, found.id), (Kind::Switch, "36", "S-0001"));
        assert_eq!(comment(found.rest), (" ", Some("a \"b\" #c"), " base port 0 lid 7 lmc 0"));
        assert_eq!(header("Switch \"S-0001\""), None);
        // The tabs of a dump were lost.
        let found = header("Switch41 \"S-0001\"# \"a\"").map(|found| (found.kind, found.ports, found.id));
        assert_eq!(found, Some((Kind::Switch, "41", "S-0001")));
        let (number, notes) = socket(&mut Cursor("[12](0x1f)[ext 3] rest")).unwrap();
        assert_eq!((number, notes.guid, notes.external), (12, Some(0x1f), Some(3)));
        assert!(socket(&mut Cursor("[]")).is_none());
        assert_eq!(socket(&mut Cursor("[99999999999999999999999]")).unwrap().0, u64::MAX);
        assert_eq!((guid_of("S-0002c90000000001"), guid_of("S-x")), (Some(0x2_c900_0000_0001), None));
    }
}
