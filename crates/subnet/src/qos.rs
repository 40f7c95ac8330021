//! Quality of service: which virtual lane (VL) each service level (SL) goes by, and how the VLs of a link
//! take turns; read from a file of the form of OpenSM's options.
//!
//! Routes have no credit loop on a single VL, so none of these tables can make one. What they can do is keep
//! a VL from ever sending: a file with such tables is refused.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use mad::sm::{PortInfo, SlToVlMap, VlArbitration};

/// Service levels.
pub const LEVELS: usize = 16;
/// Entries of a block of an arbitration table.
pub const ENTRIES_PER_BLOCK: usize = 32;
/// Entries of the tables of one priority, at most.
const MOST_ENTRIES: usize = 64;
/// The VL of management: what is mapped to it is dropped.
const MANAGEMENT: u8 = 15;
/// The largest file that is read: options of everything else may be in it.
const MOST_BYTES: u64 = 1 << 20;
/// Options without effect that are named; further ones are counted.
const NAMED: usize = 20;

/// A VL, and how many units of 64 bytes it may send before the next has its turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Weight {
    /// 0 to 14.
    pub vl: u8,
    /// 0: the entry is passed over.
    pub weight: u8,
}

/// What ports of one kind get.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lanes {
    /// Most VLs that are operated.
    pub most_vls: u8,
    /// VLHighLimit: units of 4096 bytes of high priority before low priority has a turn; 255: no limit, 0:
    /// one packet.
    pub high_limit: u8,
    /// The turns of high priority.
    pub high: Vec<Weight>,
    /// The turns of low priority.
    pub low: Vec<Weight>,
    /// The VL of each SL.
    pub levels: [u8; LEVELS],
}

impl Default for Lanes {
    /// As OpenSM's, but for a limit of high priority: each SL has its own VL, and all have the same share.
    fn default() -> Self {
        let turn = |vl: u8, weight: u8| Weight { vl, weight };
        Self {
            most_vls: 15,
            high_limit: 0,
            high: (0..15).map(|vl| turn(vl, if vl == 0 { 4 } else { 0 })).collect(),
            low: (0..15).map(|vl| turn(vl, if vl == 0 { 0 } else { 4 })).collect(),
            levels: std::array::from_fn(|level| if level == 15 { 7 } else { level as u8 }),
        }
    }
}

/// Whose port it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// A host's.
    Host,
    /// A router's.
    Router,
    /// An external port of a switch.
    Switch,
}

/// The settings of a file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Qos {
    /// Of all ports that have none of their own.
    pub all: Lanes,
    /// Of hosts' ports.
    pub host: Option<Lanes>,
    /// Of routers' ports.
    pub router: Option<Lanes>,
    /// Of external ports of switches.
    pub switch: Option<Lanes>,
    /// Options of the file that have no effect.
    pub unknown: Vec<String>,
}

/// Why a file can't be taken. Each names the file, the cause and what to do.
#[derive(Debug, thiserror::Error)]
pub enum QosError {
    /// It can't be read.
    #[error("{0} cannot be read: {1}: name a file of the form of OpenSM's options")]
    Read(PathBuf, #[source] std::io::Error),
    /// A line is not of the form.
    #[error("{0}, line {1}: {2}: correct the line")]
    Line(PathBuf, usize, String),
    /// Tables that keep a VL from sending.
    #[error(
        "{path}: {option} maps an SL to VL {vl} where {} operated, and no entry of VL arbitration has a weight for it, so that it could never send: give VL {vl} a weight in qos_vlarb_low or qos_vlarb_high",
        if *vls == 1 { "1 VL is".to_owned() } else { format!("{vls} VLs are") }
    )]
    Starved {
        /// The file.
        path: PathBuf,
        /// The option.
        option: &'static str,
        /// The VL.
        vl: u8,
        /// How many a link operates that shows it.
        vls: u8,
    },
}

/// What a line of the file sets: the prefix says of whom, the rest what.
const OF: [(&str, &str); 4] = [
    ("qos_", "qos_sl2vl"),
    ("qos_ca_", "qos_ca_sl2vl"),
    ("qos_rtr_", "qos_rtr_sl2vl"),
    ("qos_swe_", "qos_swe_sl2vl"),
];

/// How many VLs a code of PortInfo means.
#[must_use]
pub fn vls_of(code: u8) -> u8 {
    match code {
        2 => 2,
        3 => 4,
        4 => 8,
        5.. => 15,
        _ => 1,
    }
}

/// The code of as many VLs as can be, and no more than `vls`.
#[must_use]
pub fn code_of(vls: u8) -> u8 {
    (1..=5).rev().find(|code| vls_of(*code) <= vls).unwrap_or(1)
}

/// The VL that stands for another one where fewer are operated.
fn folded(vl: u8, vls: u8) -> u8 {
    match (vl, vls) {
        (MANAGEMENT, _) => MANAGEMENT,
        (vl, 15) => vl,
        (vl, vls) => vl % vls.max(1),
    }
}

impl Lanes {
    /// The map of a port that operates so many VLs.
    #[must_use]
    pub fn map(&self, vls: u8) -> SlToVlMap {
        let mut map = SlToVlMap::default();
        for (level, vl) in self.levels.iter().enumerate() {
            let _ = map.set_vl(level, folded(*vl, vls));
        }
        map
    }

    /// The entries of a priority of a port that operates so many VLs and holds so many entries.
    #[must_use]
    pub fn turns(&self, is_high: bool, vls: u8, capacity: u8) -> Vec<u16> {
        let all = if is_high { &self.high } else { &self.low };
        let code = |one: &Weight| u16::from(folded(one.vl, vls)) << 8 | u16::from(one.weight);
        let mut entries: Vec<u16> = all.iter().map(code).collect();
        entries.resize(usize::from(capacity).min(MOST_ENTRIES), 0);
        entries
    }

    /// A VL that an SL is mapped to and that could never send, at a port that operates so many VLs and whose
    /// tables hold so many entries.
    #[must_use]
    pub fn starved(&self, vls: u8, low: u8, high: u8) -> Option<u8> {
        let entries = [self.turns(false, vls, low), self.turns(true, vls, high)];
        let fed: BTreeSet<u8> = entries
            .iter()
            .flatten()
            .filter(|entry| **entry & 0xff != 0)
            .map(|entry| (entry >> 8) as u8)
            .collect();
        let used: BTreeSet<u8> = self.levels.iter().map(|vl| folded(*vl, vls)).collect();
        used.into_iter().find(|vl| *vl != MANAGEMENT && !fed.contains(vl))
    }
}

/// A block of a table, as a datagram carries it.
#[must_use]
pub fn block_of(entries: &[u16]) -> VlArbitration {
    let mut block = VlArbitration::default();
    for (at, entry) in entries.iter().take(ENTRIES_PER_BLOCK).enumerate() {
        let _ = block.set_entry(at, *entry);
    }
    block
}

impl Qos {
    /// What ports of a kind get.
    #[must_use]
    pub fn of(&self, owner: Owner) -> &Lanes {
        let own = match owner {
            Owner::Host => &self.host,
            Owner::Router => &self.router,
            Owner::Switch => &self.switch,
        };
        own.as_ref().unwrap_or(&self.all)
    }

    /// Of a file.
    ///
    /// # Errors
    /// It can't be read, is not of the form, or keeps a VL from sending.
    pub fn read(path: &Path) -> Result<Self, QosError> {
        let text =
            user_files::read_regular(path, MOST_BYTES).map_err(|error| QosError::Read(path.into(), error))?;
        Self::parse(path, &text)
    }

    /// Of the text of the file at `path`.
    ///
    /// # Errors
    /// A line is not of the form, or the tables keep a VL from sending.
    pub fn parse(path: &Path, text: &str) -> Result<Self, QosError> {
        let mut qos = Self::default();
        let wrong = |line: usize, what: String| QosError::Line(path.into(), line, what);
        // What is said of all is the beginning of what is said of some, in whatever order the lines come.
        let mut more = 0_usize;
        for is_of_all in [true, false] {
            for (at, line) in text.lines().enumerate() {
                let line = line.split('#').next().unwrap_or("").trim();
                let (name, value) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
                if name.is_empty() {
                    continue;
                }
                let Some((prefix, what)) = known(name) else {
                    if is_of_all && qos.unknown.len() < NAMED {
                        let (path, line) = (path.display(), at + 1);
                        qos.unknown
                            .push(format!("{path}, line {line}: the option `{name}` has no effect here"));
                    } else {
                        more += usize::from(is_of_all);
                    }
                    continue;
                };
                // OpenSM writes what is not set as a value in brackets.
                if (prefix == "qos_") != is_of_all || value.trim() == "(null)" {
                    continue;
                }
                let all = qos.all.clone();
                let lanes = match prefix {
                    "qos_ca_" => qos.host.get_or_insert(all),
                    "qos_rtr_" => qos.router.get_or_insert(all),
                    "qos_swe_" => qos.switch.get_or_insert(all),
                    _ => &mut qos.all,
                };
                set(lanes, what, value.trim()).map_err(|what| wrong(at + 1, what))?;
            }
        }
        if more > 0 {
            let counted = topology::counted(more, "further option");
            let has = topology::verb(more, "has", "have");
            qos.unknown.push(format!("{}: {counted} {has} no effect here", path.display()));
        }
        for (owner, (_, word)) in
            [None, Some(Owner::Host), Some(Owner::Router), Some(Owner::Switch)].into_iter().zip(OF)
        {
            let lanes = owner.map_or(&qos.all, |owner| qos.of(owner));
            let most = MOST_ENTRIES as u8;
            // With one VL there is nothing to arbitrate.
            for vls in (2..=5).map(vls_of).filter(|vls| *vls <= vls_of(code_of(lanes.most_vls))) {
                if let Some(vl) = lanes.starved(vls, most, most) {
                    return Err(QosError::Starved { path: path.into(), option: word, vl, vls });
                }
            }
        }
        Ok(qos)
    }
}

/// Of whom and what an option is; `None` if it is none of these.
fn known(name: &str) -> Option<(&'static str, &'static str)> {
    const WHAT: [&str; 5] = ["max_vls", "high_limit", "vlarb_high", "vlarb_low", "sl2vl"];
    OF.into_iter().find_map(|(prefix, _)| {
        let rest = name.strip_prefix(prefix)?;
        WHAT.into_iter().find(|what| *what == rest).map(|what| (prefix, what))
    })
}

/// Takes over the value of an option.
fn set(lanes: &mut Lanes, what: &str, value: &str) -> Result<(), String> {
    let number = |word: &str, most: u8| {
        let number: Option<u8> = word.trim().parse().ok().filter(|number| *number <= most);
        number.ok_or_else(|| format!("`{}` is not a number from 0 to {most}", word.trim()))
    };
    match what {
        "max_vls" => match number(value, 15)? {
            0 => return Err("0 VLs are not possible: give 1 to 15".to_owned()),
            vls => lanes.most_vls = vls,
        },
        // OpenSM's word for what it has by default.
        "high_limit" if value == "-1" => lanes.high_limit = 0,
        "high_limit" => lanes.high_limit = number(value, 255)?,
        "vlarb_high" => lanes.high = weights(value, number)?,
        "vlarb_low" => lanes.low = weights(value, number)?,
        _ => {
            let all = value.split(',').map(|word| number(word, 15)).collect::<Result<Vec<u8>, String>>()?;
            lanes.levels = all
                .try_into()
                .map_err(|all: Vec<u8>| format!("{} VLs are given, and there are {LEVELS} SLs", all.len()))?;
        }
    }
    Ok(())
}

fn weights(value: &str, number: impl Fn(&str, u8) -> Result<u8, String>) -> Result<Vec<Weight>, String> {
    let all: Vec<Weight> = value
        .split(',')
        .map(|word| {
            let (vl, weight) =
                word.split_once(':').ok_or_else(|| format!("`{}` is not VL:WEIGHT", word.trim()))?;
            Ok(Weight { vl: number(vl, 14)?, weight: number(weight, 255)? })
        })
        .collect::<Result<_, String>>()?;
    if all.len() > MOST_ENTRIES {
        return Err(format!("{} entries are given, and a table holds {MOST_ENTRIES}", all.len()));
    }
    Ok(all)
}

/// How many blocks of 32 a priority has at a port.
#[must_use]
pub fn blocks(port: &PortInfo, is_high: bool) -> usize {
    let capacity = if is_high { port.arbitration_high_capacity() } else { port.arbitration_low_capacity() };
    usize::from(capacity).min(MOST_ENTRIES).div_ceil(ENTRIES_PER_BLOCK)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Qos, String> {
        Qos::parse(Path::new("qos"), text).map_err(|error| error.to_string())
    }

    #[test]
    fn options_of_opensm_are_read_and_others_are_named() {
        let text = "# QoS\nqos TRUE\nqos_swe_vlarb_low 0:1,1:2\nqos_max_vls 2\nqos_sl2vl 0,1,0,1,0,1,0,1,0,1,0,1,0,1,0,15\n\
                    qos_vlarb_low 0:8,1:16 # two\nqos_ca_high_limit 200\nqos_rtr_sl2vl (null)\nsm_priority 3\nqos_high_limit -1\n";
        let qos = parsed(text).unwrap();
        assert_eq!(
            (qos.all.most_vls, qos.all.high_limit, qos.all.levels[3], qos.all.levels[15]),
            (2, 0, 1, 15)
        );
        assert_eq!(qos.of(Owner::Host).high_limit, 200);
        assert_eq!(qos.of(Owner::Host).low, [Weight { vl: 0, weight: 8 }, Weight { vl: 1, weight: 16 }]);
        assert_eq!(qos.of(Owner::Switch).low, [Weight { vl: 0, weight: 1 }, Weight { vl: 1, weight: 2 }]);
        assert_eq!(qos.of(Owner::Router), &qos.all);
        let words: Vec<&str> = qos.unknown.iter().map(String::as_str).collect();
        assert_eq!(
            words,
            [
                "qos, line 2: the option `qos` has no effect here",
                "qos, line 9: the option `sm_priority` has no effect here"
            ]
        );
    }

    #[test]
    fn what_is_not_of_the_form_is_refused_with_its_line() {
        for (text, part) in [
            ("qos_max_vls 0", "0 VLs are not possible"),
            ("qos_max_vls 16", "`16` is not a number from 0 to 15"),
            ("\nqos_sl2vl 0,1", "line 2: 2 VLs are given, and there are 16 SLs"),
            ("qos_sl2vl 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,16", "`16` is not"),
            ("qos_vlarb_low 0", "`0` is not VL:WEIGHT"),
            ("qos_vlarb_high 15:1", "`15` is not a number from 0 to 14"),
            ("qos_vlarb_high 1:256", "`256` is not"),
            ("qos_high_limit 300", "`300` is not"),
        ] {
            let said = parsed(text).unwrap_err();
            assert!(said.contains(part) && said.starts_with("qos, line "), "{said}");
        }
        let many = format!("qos_vlarb_low {}", vec!["0:1"; 65].join(","));
        assert!(parsed(&many).unwrap_err().contains("65 entries"));
    }

    #[test]
    fn tables_that_keep_a_vl_from_sending_are_refused() {
        assert!(parsed("").is_ok(), "those of the default do not");
        let said = parsed("qos_vlarb_low 1:4\nqos_vlarb_high 1:4").unwrap_err();
        assert!(
            said.contains("VL 0 where 2 VLs are operated") && said.contains("give VL 0 a weight"),
            "{said}"
        );
        // VLs that nobody is mapped to need no weight, nor do more VLs than are operated.
        let all_zero = "qos_sl2vl 0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0\nqos_vlarb_low 0:1\nqos_vlarb_high 0:0";
        assert!(parsed(all_zero).is_ok());
        assert!(parsed("qos_max_vls 1\nqos_vlarb_low 1:4\nqos_vlarb_high 1:4").is_ok());
        assert!(parsed("qos_ca_vlarb_low 1:4\nqos_ca_vlarb_high 1:4").unwrap_err().contains("qos_ca_sl2vl"));
    }

    #[test]
    fn where_fewer_vls_are_operated_those_above_share_them() {
        let lanes = Lanes::default();
        let map =
            |vls: u8| -> Vec<u8> { (0..LEVELS).map(|level| lanes.map(vls).vl(level).unwrap()).collect() };
        assert_eq!(map(1), [0; 16]);
        assert_eq!(map(4), [0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3]);
        assert_eq!(map(15)[..15], (0..15).collect::<Vec<u8>>());
        let dropped = Lanes { levels: [15; 16], ..Lanes::default() };
        assert_eq!(dropped.map(2).vl(3), Some(15), "what is dropped stays so");
        assert_eq!(lanes.turns(false, 2, 4), [0, 1 << 8 | 4, 4, 1 << 8 | 4]);
        assert_eq!(lanes.turns(true, 8, 64).len(), 64);
        assert_eq!((code_of(15), code_of(14), code_of(3), code_of(1)), (5, 4, 2, 1));
        let mut port = PortInfo::default();
        port.set_arbitration_low_capacity(33).set_arbitration_high_capacity(0);
        assert_eq!((blocks(&port, false), blocks(&port, true)), (2, 0));
    }
}
