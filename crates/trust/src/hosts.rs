//! Which nodes there are on other hosts, and the addresses of their managers.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::SocketAddr;

use proto::ids::NodeId;
use proto::wire::{CodecError, decode, encode};

use crate::error::Result;
use crate::store::Store;

pub(crate) const FILE: &str = "hosts";
/// More are not kept.
const HOSTS_MAX: usize = 1024;

/// Nodes and addresses; an address helps to find a manager and proves nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostMap {
    entries: BTreeMap<NodeId, SocketAddr>,
}

impl HostMap {
    /// What the directory knows.
    pub fn load(store: &Store) -> Result<Self> {
        let Some(bytes) = store.read(FILE)? else { return Ok(Self::default()) };
        let text = String::from_utf8_lossy(&bytes);
        let mut map = Self::default();
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let entry = line
                .split_once(char::is_whitespace)
                .and_then(|(node, address)| Some((node.parse().ok()?, address.trim().parse().ok()?)));
            let (node, address) = entry.ok_or_else(|| {
                store.damaged(FILE, format!("`{line}` is not a line such as `8 10.0.0.2:7411`"))
            })?;
            map.set(node, address);
        }
        Ok(map)
    }

    /// Keeps it.
    pub fn save(&self, store: &Store) -> Result<()> {
        let text = self.entries.iter().fold(String::new(), |mut text, (node, address)| {
            let _ = writeln!(text, "{node} {address}");
            text
        });
        store.write(FILE, text.as_bytes())
    }

    /// Where a node's manager listens.
    pub fn get(&self, node: NodeId) -> Option<SocketAddr> {
        self.entries.get(&node).copied()
    }

    /// True: that is news.
    pub fn set(&mut self, node: NodeId, address: SocketAddr) -> bool {
        if self.entries.len() >= HOSTS_MAX && !self.entries.contains_key(&node) {
            return false;
        }
        self.entries.insert(node, address) != Some(address)
    }

    /// It is not in the list any more; false: it was not.
    pub fn remove(&mut self, node: NodeId) -> bool {
        self.entries.remove(&node).is_some()
    }

    /// Whether a node that is not here yet would find room.
    pub fn is_full(&self) -> bool {
        self.entries.len() >= HOSTS_MAX
    }

    /// Takes in what a member of the cluster says: new nodes, and its own address. The nodes that this changed.
    pub fn merge(&mut self, from: NodeId, told: &Self) -> Vec<NodeId> {
        let news = told.entries.iter().filter(|(node, _)| **node == from || !self.entries.contains_key(node));
        let news: Vec<_> = news.map(|(node, address)| (*node, *address)).collect();
        news.into_iter().filter(|(node, address)| self.set(*node, *address)).map(|(node, _)| node).collect()
    }

    /// All, ascending.
    pub fn nodes(&self) -> impl Iterator<Item = NodeId> {
        self.entries.keys().copied()
    }

    /// As it is sent.
    pub fn to_bytes(&self) -> std::result::Result<Vec<u8>, CodecError> {
        encode(&self.entries.iter().collect::<Vec<_>>())
    }

    /// As it came.
    pub fn from_bytes(bytes: &[u8]) -> std::result::Result<Self, CodecError> {
        let told: Vec<(NodeId, SocketAddr)> = decode(bytes)?;
        let mut map = Self::default();
        for (node, address) in told {
            map.set(node, address);
        }
        Ok(map)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(id: u32) -> NodeId {
        NodeId::new(id).unwrap()
    }

    #[test]
    fn a_map_survives_the_file_and_the_wire() {
        let root = tempfile::tempdir().unwrap();
        let store = Store::create(&root.path().join("c")).unwrap();
        assert_eq!(HostMap::load(&store).unwrap(), HostMap::default());
        let mut map = HostMap::default();
        assert!(map.set(node(4), "10.0.0.1:7411".parse().unwrap()));
        assert!(map.set(node(8), "[fd00::2]:7411".parse().unwrap()));
        assert!(!map.set(node(8), "[fd00::2]:7411".parse().unwrap()));
        map.save(&store).unwrap();
        assert_eq!(HostMap::load(&store).unwrap(), map);
        assert_eq!(HostMap::from_bytes(&map.to_bytes().unwrap()).unwrap(), map);
        store.write(FILE, b"# by hand\n4 somewhere\n").unwrap();
        assert!(HostMap::load(&store).unwrap_err().to_string().contains("4 somewhere"));
    }

    #[test]
    fn a_member_moves_itself_and_nobody_else() {
        let mut known = HostMap::default();
        known.set(node(4), "10.0.0.1:1".parse().unwrap());
        known.set(node(8), "10.0.0.2:1".parse().unwrap());
        let mut told = HostMap::default();
        told.set(node(4), "10.9.9.9:1".parse().unwrap());
        told.set(node(8), "10.0.0.3:1".parse().unwrap());
        told.set(node(12), "10.0.0.4:1".parse().unwrap());
        assert_eq!(known.merge(node(8), &told), [node(8), node(12)]);
        assert_eq!(known.get(node(4)), Some("10.0.0.1:1".parse().unwrap()));
        assert_eq!(known.get(node(8)), Some("10.0.0.3:1".parse().unwrap()));
    }
}
