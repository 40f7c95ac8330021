//! Which port is in which partition: by a file of the form of OpenSM's `partitions.conf`.
//!
//! A definition is `NAME=KEY, FLAGS : MEMBERS ;`. Members are GUIDs of ports, each with `=full`, `=limited`
//! or `=both`, or one of the words `ALL`, `ALL_CAS`, `ALL_SWITCHES`, `ALL_ROUTERS` and `SELF` (the manager's
//! port); what goes without a membership has that of the flag `defmember`, or is a limited one. `#` begins a
//! comment.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use topology::Kind;

/// The partition that all ports belong to, without the bit of full members (10.9.1.2).
pub const DEFAULT: u16 = 0x7fff;
/// The bit of full members.
pub const FULL: u16 = 0x8000;
/// The largest file that is read.
const MOST_BYTES: u64 = 16 << 20;
/// Words that are passed over and named; further ones are counted.
const NAMED: usize = 20;

/// Why a file of partitions is refused. Each names the file, the cause and what to do.
#[derive(Debug, thiserror::Error)]
pub enum PartitionError {
    /// The file can't be read.
    #[error("{0} cannot be read: {1}: correct its path or its permissions")]
    Read(PathBuf, #[source] std::io::Error),
    /// A definition is not of the form.
    #[error("{0}, line {1}: {2}: write it as NAME=KEY, FLAGS : MEMBERS ;")]
    Line(PathBuf, usize, String),
}

/// A port, as far as partitions ask for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Candidate {
    /// GUID of the port.
    pub guid: u64,
    /// Kind of its node.
    pub kind: Kind,
    /// Is the manager behind it?
    pub is_own: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Who {
    All,
    Hosts,
    Switches,
    Routers,
    Own,
    Guid(u64),
}

/// Membership, as bits: 1 limited, 2 full.
type Membership = u8;
const LIMITED: Membership = 1;
const FULL_MEMBER: Membership = 2;
const BOTH: Membership = 3;

/// A partition.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Partition {
    name: String,
    members: BTreeMap<Who, Membership>,
    /// It has a broadcast group of IPoIB.
    ipoib: bool,
}

/// All partitions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partitions {
    by_key: BTreeMap<u16, Partition>,
    /// Words of the file that have no effect here, with their lines.
    pub unknown: Vec<String>,
}

impl Default for Partitions {
    /// Without a file: all ports are full members of the partition of all.
    fn default() -> Self {
        let all = Partition {
            name: "Default".to_owned(),
            members: BTreeMap::from([(Who::All, FULL_MEMBER)]),
            ipoib: true,
        };
        Self { by_key: BTreeMap::from([(DEFAULT, all)]), unknown: Vec::new() }
    }
}

fn number(word: &str) -> Option<u64> {
    match word.strip_prefix("0x").or_else(|| word.strip_prefix("0X")) {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => word.parse().ok(),
    }
}

fn membership(word: &str) -> Option<Membership> {
    match word {
        "full" => Some(FULL_MEMBER),
        "limited" => Some(LIMITED),
        "both" => Some(BOTH),
        _ => None,
    }
}

/// The definitions of a text, each with the line on which it begins.
fn definitions(text: &str) -> Vec<(usize, String)> {
    let (mut all, mut one, mut begins) = (Vec::new(), String::new(), 1);
    for (at, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default();
        for (part, piece) in line.split(';').enumerate() {
            if part > 0 {
                all.push((begins, std::mem::take(&mut one)));
            }
            if one.trim().is_empty() {
                begins = at + 1;
            }
            one.push_str(piece);
            one.push(' ');
        }
    }
    if !one.trim().is_empty() {
        all.push((begins, one));
    }
    all.retain(|(_, one)| !one.trim().is_empty());
    all
}

impl Partitions {
    /// From the text of the file at `path`.
    ///
    /// # Errors
    /// A definition is not of the form, or a name has two keys.
    pub fn parse(path: &Path, text: &str) -> Result<Self, PartitionError> {
        let mut this = Self { by_key: BTreeMap::new(), unknown: Vec::new() };
        let mut passed_over = 0_usize;
        for (line, one) in definitions(text) {
            let wrong = |what: String| PartitionError::Line(path.into(), line, what);
            let Some((head, members)) = one.split_once(':') else {
                return Err(wrong("a definition has no `:`".to_owned()));
            };
            let mut words = head.split(',').map(str::trim).filter(|word| !word.is_empty());
            let (name, key) = match words.next().map(|first| first.split_once('=').unwrap_or((first, ""))) {
                Some((name, key)) => (name.trim(), key.trim()),
                None => return Err(wrong("a partition has neither name nor key".to_owned())),
            };
            let key = match (name, key) {
                ("Default", "") => DEFAULT,
                (_, "") => return Err(wrong(format!("the partition `{name}` has no key"))),
                (_, key) => match number(key).filter(|key| *key <= 0xffff).map(|key| key as u16 & DEFAULT) {
                    Some(key) if key > 0 => key,
                    _ => return Err(wrong(format!("`{key}` is no P_Key (0x1 to 0x7fff)"))),
                },
            };
            let mut otherwise = LIMITED;
            let (mut unknown, mut ipoib) = (Vec::new(), false);
            for word in words {
                match word.split_once('=').map(|(flag, value)| (flag.trim(), value.trim())) {
                    Some(("defmember", value)) => {
                        otherwise = membership(value).ok_or_else(|| {
                            wrong(format!("`{value}` is no membership (full, limited, both)"))
                        })?;
                    }
                    None if word == "ipoib" => ipoib = true,
                    _ => unknown.push(word.to_owned()),
                }
            }
            let there = this.by_key.entry(key).or_insert_with(|| Partition {
                name: name.to_owned(),
                members: BTreeMap::new(),
                ipoib: false,
            });
            if ![&there.name[..], ""].contains(&name) && !there.name.is_empty() {
                return Err(wrong(format!("the key {key:#x} of `{name}` is that of `{}`", there.name)));
            }
            there.ipoib |= ipoib;
            for word in members.split(',').map(str::trim).filter(|word| !word.is_empty()) {
                let (who, how) =
                    word.split_once('=').map_or((word, None), |(who, how)| (who.trim(), Some(how.trim())));
                let how = match how.map(|how| (how, membership(how))) {
                    None => otherwise,
                    Some((_, Some(how))) => how,
                    Some((how, None)) => {
                        unknown.push(format!("{who}={how}"));
                        continue;
                    }
                };
                let who = match who {
                    "ALL" => Who::All,
                    "ALL_CAS" => Who::Hosts,
                    "ALL_SWITCHES" => Who::Switches,
                    "ALL_ROUTERS" => Who::Routers,
                    "SELF" => Who::Own,
                    guid => match number(guid).filter(|_| guid.starts_with("0x")) {
                        Some(guid) => Who::Guid(guid),
                        None => {
                            unknown.push(word.to_owned());
                            continue;
                        }
                    },
                };
                *there.members.entry(who).or_insert(0) |= how;
            }
            passed_over += unknown.len();
            let room = NAMED.saturating_sub(this.unknown.len());
            this.unknown.extend(unknown.iter().take(room).map(|word| {
                format!("{}, line {line}, partition {name}: `{word}` has no effect here", path.display())
            }));
        }
        if passed_over > this.unknown.len() {
            this.unknown.push(format!(
                "{}: {} more words without effect",
                path.display(),
                passed_over - this.unknown.len()
            ));
        }
        // Without a rule for it all are limited members, but for the manager's port.
        this.by_key.entry(DEFAULT).or_insert_with(|| Partition {
            name: "Default".to_owned(),
            members: BTreeMap::from([(Who::All, LIMITED)]),
            ipoib: false,
        });
        Ok(this)
    }

    /// Of a file.
    ///
    /// # Errors
    /// It can't be read, or is not of the form.
    pub fn read(path: &Path) -> Result<Self, PartitionError> {
        let text = user_files::read_regular(path, MOST_BYTES);
        Self::parse(path, &text.map_err(|error| PartitionError::Read(path.into(), error))?)
    }

    /// The keys of a port. What is said of it by its GUID goes before what is said of its kind, and that
    /// before what is said of all. The manager's port is a full member of the partition of all.
    #[must_use]
    pub fn keys(&self, port: &Candidate) -> BTreeSet<u16> {
        let of_kind = match port.kind {
            Kind::Host => Who::Hosts,
            Kind::Switch => Who::Switches,
            Kind::Router => Who::Routers,
        };
        let mut keys = BTreeSet::new();
        for (key, partition) in &self.by_key {
            let own = port.is_own.then(|| partition.members.get(&Who::Own)).flatten();
            let how = partition
                .members
                .get(&Who::Guid(port.guid))
                .or(own)
                .or_else(|| partition.members.get(&of_kind))
                .or_else(|| partition.members.get(&Who::All));
            let mut how = how.copied().unwrap_or(0);
            if port.is_own && *key == DEFAULT {
                how = FULL_MEMBER;
            }
            if how & FULL_MEMBER != 0 {
                keys.insert(key | FULL);
            }
            if how & LIMITED != 0 {
                keys.insert(*key);
            }
        }
        keys
    }

    /// Keys of partitions that have a broadcast group of IPoIB; that of all is the first.
    pub fn with_ipoib(&self) -> impl Iterator<Item = u16> + '_ {
        self.by_key.iter().rev().filter(|(_, partition)| partition.ipoib).map(|(key, _)| *key)
    }
}

/// May ports of these keys send to each other, and with which key of those that `counts`? At least one of
/// them is a full member (10.9.3); the key of the first is given. The partition of all goes first.
#[must_use]
pub fn shared(from: &BTreeSet<u16>, to: &BTreeSet<u16>, counts: impl Fn(u16) -> bool) -> Option<u16> {
    let can = |key: &&u16| {
        let full = to.contains(&(**key | FULL));
        counts(**key) && (full || **key & FULL != 0 && to.contains(&(**key & DEFAULT)))
    };
    let of_all = from.iter().rev().filter(|key| **key & DEFAULT == DEFAULT).find(can);
    of_all.or_else(|| from.iter().rev().find(can)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Partitions, String> {
        Partitions::parse(Path::new("partitions.conf"), text).map_err(|error| error.to_string())
    }

    fn keys(partitions: &Partitions, guid: u64, kind: Kind, is_own: bool) -> Vec<u16> {
        partitions.keys(&Candidate { guid, kind, is_own }).into_iter().collect()
    }

    #[test]
    fn a_file_of_opensm_says_who_is_in_which_partition() {
        let text = "# storage\nDefault=0x7fff, ipoib, mtu=5, defmember=full : ALL_CAS=limited, ALL_SWITCHES, SELF ;\n\
                    Storage = 0x8005 , defmember=full: 0x11, 0x12=limited,\n 0x13=both, nonsense ; Jobs=6:ALL=full,0x11=limited;";
        let partitions = parsed(text).unwrap();
        let host = |guid| keys(&partitions, guid, Kind::Host, false);
        assert_eq!(host(0x11), [6, 0x7fff, 0x8005]);
        assert_eq!(host(0x12), [5, 0x7fff, 0x8006]);
        assert_eq!(host(0x13), [5, 0x7fff, 0x8005, 0x8006]);
        assert_eq!(host(0x99), [0x7fff, 0x8006]);
        assert_eq!(keys(&partitions, 0x99, Kind::Switch, false), [0x8006, 0xffff]);
        assert_eq!(keys(&partitions, 0x99, Kind::Host, true), [0x8006, 0xffff]);
        assert_eq!(partitions.with_ipoib().collect::<Vec<_>>(), [DEFAULT]);
        let unknown: Vec<&str> = partitions.unknown.iter().map(String::as_str).collect();
        assert_eq!(
            unknown,
            [
                "partitions.conf, line 2, partition Default: `mtu=5` has no effect here",
                "partitions.conf, line 3, partition Storage: `nonsense` has no effect here"
            ]
        );
    }

    #[test]
    fn without_a_rule_all_are_limited_members_but_the_manager() {
        let partitions = parsed("A=1: 0x5=full;").unwrap();
        assert_eq!(keys(&partitions, 5, Kind::Host, false), [0x7fff, 0x8001]);
        assert_eq!(keys(&partitions, 6, Kind::Host, true), [0xffff]);
        assert_eq!(keys(&Partitions::default(), 6, Kind::Host, false), [0xffff]);
    }

    #[test]
    fn what_is_not_of_the_form_is_named_with_its_line() {
        for (text, says) in [
            ("\nA=1 0x5;", "line 2: a definition has no `:`"),
            ("A: 0x5;", "line 1: the partition `A` has no key"),
            ("A=0: 0x5;", "`0` is no P_Key"),
            ("A=0x12345: 0x5;", "`0x12345` is no P_Key"),
            ("A=1: 0x5;\n\nB=1: 0x6;", "line 3: the key 0x1 of `B` is that of `A`"),
            ("A=1, defmember=some: 0x5;", "`some` is no membership"),
            (": 0x5;", "line 1: a partition has neither name nor key"),
        ] {
            let error = parsed(text).unwrap_err();
            assert!(error.contains(says), "{text}: {error}");
        }
    }

    #[test]
    fn two_limited_members_do_not_reach_each_other() {
        let set = |keys: &[u16]| keys.iter().copied().collect::<BTreeSet<u16>>();
        let any = |from: &[u16], to: &[u16]| shared(&set(from), &set(to), |_| true);
        assert_eq!(any(&[0x7fff], &[0x7fff]), None);
        assert_eq!(any(&[0x7fff], &[0xffff]), Some(0x7fff));
        assert_eq!(any(&[0xffff], &[0x7fff]), Some(0xffff));
        assert_eq!(any(&[0x7fff, 0x8005], &[0x0005, 0x7fff]), Some(0x8005));
        assert_eq!(any(&[0x8005, 0xffff], &[0x0005, 0xffff]), Some(0xffff));
        assert_eq!(
            shared(&set(&[0x8005, 0xffff]), &set(&[5, 0xffff]), |key| key & DEFAULT == 5),
            Some(0x8005)
        );
    }
}
