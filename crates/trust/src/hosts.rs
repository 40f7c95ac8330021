//! Which nodes there are on other hosts, and the addresses of their managers.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::SocketAddr;

use proto::ids::NodeId;
use proto::wire::network::MAX_RAILS;
use proto::wire::{CodecError, decode, encode};

use crate::error::Result;
use crate::store::Store;

pub(crate) const FILE: &str = "hosts";
/// More are not kept.
const HOSTS_MAX: usize = 1024;
/// Addresses of one node: the one by which the others know it, and one of each rail.
const ADDRESSES_MAX: usize = MAX_RAILS + 1;
/// Nodes of which one member has told and that have not proved who they are. What a member makes up takes no
/// more room than that.
const TOLD_BY_ONE_MAX: usize = 64;
/// So many members are believed of such a node, each with so many addresses: what the first says of it does
/// not keep the truth away.
const TELLERS_MAX: usize = 16;
const ADDRESSES_OF_TELLER: usize = 2;
/// So many addresses of each node are sent where more do not fit into a message.
const FEW_ADDRESSES: usize = 2;

/// Nodes and addresses; an address helps to find a manager and proves nothing.
///
/// Nodes of which only another member has told are neither stored nor passed on until they have proved who
/// they are, and make room for those that have. Every member has a session with every other, so each hears of
/// a node from one that knows it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostMap {
    /// Of each node one at least, the one by which the others know it comes first.
    entries: BTreeMap<NodeId, Vec<SocketAddr>>,
    /// Which of them have not proved who they are, and who has told what of them.
    told: BTreeMap<NodeId, Vec<Told>>,
    /// Nodes that were not proved and are not in the list any more.
    dropped: Vec<NodeId>,
}

/// What a member has said of a node first.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Told {
    by: NodeId,
    addresses: Vec<SocketAddr>,
}

impl HostMap {
    /// What the directory knows.
    pub fn load(store: &Store) -> Result<Self> {
        let Some(bytes) = store.read(FILE)? else { return Ok(Self::default()) };
        let text = String::from_utf8_lossy(&bytes);
        let mut map = Self::default();
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let mut words = line.split_whitespace();
            let node = words.next().and_then(|node| node.parse().ok());
            let addresses: Option<Vec<_>> = words.map(|address| address.parse().ok()).collect();
            let entry = node.zip(addresses.filter(|addresses| !addresses.is_empty()));
            let (node, addresses) = entry.ok_or_else(|| {
                store.damaged(FILE, format!("`{line}` is not a line such as `8 10.0.0.2:7411`"))
            })?;
            map.set_all(node, addresses);
        }
        Ok(map)
    }

    /// Keeps it.
    pub fn save(&self, store: &Store) -> Result<()> {
        let text = self.proved().fold(String::new(), |mut text, (node, addresses)| {
            let _ = write!(text, "{node}");
            for address in addresses {
                let _ = write!(text, " {address}");
            }
            text + "\n"
        });
        store.write(FILE, text.as_bytes())
    }

    /// Where a node's manager listens: the address by which the others know it.
    pub fn get(&self, node: NodeId) -> Option<SocketAddr> {
        self.addresses(node).first().copied()
    }

    /// All addresses at which a node's manager listens, the one of [`Self::get`] comes first; none: it is not
    /// known.
    pub fn addresses(&self, node: NodeId) -> &[SocketAddr] {
        self.entries.get(&node).map_or(&[], Vec::as_slice)
    }

    /// It has this address alone. True: that is news.
    pub fn set(&mut self, node: NodeId, address: SocketAddr) -> bool {
        self.set_all(node, vec![address])
    }

    /// It has these addresses, the one by which the others know it comes first, and is of the cluster. True:
    /// that is news.
    pub fn set_all(&mut self, node: NodeId, addresses: Vec<SocketAddr>) -> bool {
        let mut kept: Vec<SocketAddr> = Vec::new();
        for address in addresses {
            if kept.len() < ADDRESSES_MAX && !kept.contains(&address) {
                kept.push(address);
            }
        }
        if kept.is_empty() {
            return false;
        }
        if self.entries.len() >= HOSTS_MAX && !self.entries.contains_key(&node) {
            let Some((unproved, _)) = self.told.pop_last() else { return false };
            self.entries.remove(&unproved);
            self.dropped.push(unproved);
        }
        let is_proved_now = self.told.remove(&node).is_some();
        self.entries.insert(node, kept.clone()) != Some(kept) || is_proved_now
    }

    /// A member has told of another node, of which it has told `count` before. True: that is news.
    fn hear_of(&mut self, node: NodeId, addresses: &[SocketAddr], from: NodeId, count: &mut usize) -> bool {
        let is_proved = self.entries.contains_key(&node) && !self.told.contains_key(&node);
        let is_full = self.entries.len() >= HOSTS_MAX && !self.entries.contains_key(&node);
        if is_proved || is_full || addresses.is_empty() {
            return false;
        }
        let has_enough = |told: &Vec<Told>| told.len() >= TELLERS_MAX || has_told(told, from);
        if *count >= TOLD_BY_ONE_MAX || self.told.get(&node).is_some_and(has_enough) {
            return false;
        }
        *count += 1;
        let addresses = addresses.iter().copied().take(ADDRESSES_OF_TELLER).collect();
        let all = self.told.entry(node).or_default();
        all.push(Told { by: from, addresses });
        let all = joined(all);
        self.entries.insert(node, all.clone()) != Some(all)
    }

    /// What is stored and passed on.
    fn proved(&self) -> impl Iterator<Item = (&NodeId, &Vec<SocketAddr>)> {
        self.entries.iter().filter(|(node, _)| !self.told.contains_key(node))
    }

    /// It is not in the list any more, nor is a node of which only it has told; false: it was not.
    pub fn remove(&mut self, node: NodeId) -> bool {
        let (entries, dropped) = (&mut self.entries, &mut self.dropped);
        self.told.retain(|told, all| {
            let before = all.len();
            all.retain(|one| one.by != node && *told != node);
            if all.is_empty() {
                entries.remove(told);
                dropped.push(*told);
            } else if all.len() < before {
                entries.insert(*told, joined(all));
            }
            !all.is_empty()
        });
        self.entries.remove(&node).is_some()
    }

    /// Nodes that nobody has proved, and that are not in the list any more since this was asked last.
    pub fn take_dropped(&mut self) -> Vec<NodeId> {
        std::mem::take(&mut self.dropped)
    }

    /// Whether a node that is not here yet would find no room.
    pub fn is_full(&self) -> bool {
        self.entries.len() - self.told.len() >= HOSTS_MAX
    }

    /// Takes in what a member of the cluster says, which has proved who it is: new nodes, and its own
    /// addresses. The nodes that this changed.
    pub fn merge(&mut self, from: NodeId, told: &Self) -> Vec<NodeId> {
        let mut changed = Vec::new();
        let mut count = self.told.values().filter(|told| has_told(told, from)).count();
        for (&node, addresses) in &told.entries {
            let is_news = if node == from {
                self.set_all(node, addresses.clone())
            } else {
                self.hear_of(node, addresses, from, &mut count)
            };
            if is_news {
                changed.push(node);
            }
        }
        changed
    }

    /// All, ascending.
    pub fn nodes(&self) -> impl Iterator<Item = NodeId> {
        self.entries.keys().copied()
    }

    /// Those that are stored and passed on, ascending.
    pub fn proved_nodes(&self) -> impl Iterator<Item = NodeId> {
        self.proved().map(|(node, _)| *node)
    }

    /// As it is sent.
    pub fn to_bytes(&self) -> std::result::Result<Vec<u8>, CodecError> {
        encode(&self.proved().collect::<Vec<_>>()).or_else(|_| {
            let few = |addresses: &Vec<SocketAddr>| addresses.iter().copied().take(FEW_ADDRESSES).collect();
            let few = self.proved().map(|(node, addresses)| (*node, few(addresses)));
            encode(&few.collect::<Vec<(NodeId, Vec<SocketAddr>)>>())
        })
    }

    /// As it came.
    pub fn from_bytes(bytes: &[u8]) -> std::result::Result<Self, CodecError> {
        let told: Vec<(NodeId, Vec<SocketAddr>)> = decode(bytes)?;
        let mut map = Self::default();
        for (node, addresses) in told {
            map.set_all(node, addresses);
        }
        Ok(map)
    }
}

fn has_told(told: &[Told], from: NodeId) -> bool {
    told.iter().any(|told| told.by == from)
}

/// The addresses that all tellers name, each once.
fn joined(all: &[Told]) -> Vec<SocketAddr> {
    let mut joined: Vec<SocketAddr> = Vec::new();
    for address in all.iter().flat_map(|told| &told.addresses) {
        if !joined.contains(address) {
            joined.push(*address);
        }
    }
    joined
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
        let rails =
            ["10.0.0.3:7411", "10.1.0.3:7411", "10.0.0.3:7411"].map(|address| address.parse().unwrap());
        assert!(map.set_all(node(12), rails.to_vec()) && !map.set_all(node(12), rails.to_vec()));
        assert_eq!((map.get(node(12)), map.addresses(node(12))), (Some(rails[0]), &rails[..2]));
        assert_eq!(map.addresses(node(16)), []);
        map.save(&store).unwrap();
        assert_eq!(HostMap::load(&store).unwrap(), map);
        assert_eq!(HostMap::from_bytes(&map.to_bytes().unwrap()).unwrap(), map);
        for wrong in ["4 somewhere", "4", "4 10.0.0.1:7411 somewhere"] {
            store.write(FILE, format!("# by hand\n{wrong}\n").as_bytes()).unwrap();
            assert!(HostMap::load(&store).unwrap_err().to_string().contains(wrong));
        }
    }

    #[test]
    fn as_many_nodes_as_there_can_be_fit_into_a_message_and_keep_two_addresses() {
        let mut map = HostMap::default();
        for nth in 0..HOSTS_MAX {
            let address = |rail: usize| format!("[fd00:{rail}:1:1:1:1:1:{nth:x}]:65535").parse().unwrap();
            map.set_all(NodeId::nth(nth).unwrap(), (1..=9).map(address).collect());
        }
        let last = NodeId::nth(HOSTS_MAX - 1).unwrap();
        assert_eq!(map.addresses(last).len(), ADDRESSES_MAX);
        let told = HostMap::from_bytes(&map.to_bytes().unwrap()).unwrap();
        assert_eq!(told.nodes().count(), HOSTS_MAX);
        assert_eq!(told.addresses(last), &map.addresses(last)[..FEW_ADDRESSES]);
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

    /// One record of a member that names as many nodes as the list holds: hosts that join find room, and
    /// nobody else hears of them.
    #[test]
    fn nodes_that_a_member_makes_up_take_little_room_and_no_file() {
        let address: SocketAddr = "10.0.0.1:1".parse().unwrap();
        let mut known = HostMap::default();
        known.set(node(4), address);
        let mut lies = HostMap::default();
        for nth in 10..HOSTS_MAX {
            lies.set(NodeId::nth(nth).unwrap(), address);
        }
        assert_eq!(known.merge(node(8), &lies).len(), TOLD_BY_ONE_MAX);
        assert_eq!(known.merge(node(8), &lies), []);
        // From one that others tell them: the same ones, which is no news, and no others.
        assert_eq!(known.merge(node(12), &lies), []);
        let passed_on = HostMap::from_bytes(&known.to_bytes().unwrap()).unwrap();
        assert_eq!(passed_on.nodes().collect::<Vec<_>>(), [node(4)]);
        let root = tempfile::tempdir().unwrap();
        let store = Store::create(&root.path().join("c")).unwrap();
        known.save(&store).unwrap();
        assert_eq!(HostMap::load(&store).unwrap(), passed_on);
        // One of them is there after all: that is news, once.
        let real = NodeId::nth(10).unwrap();
        let mut own = HostMap::default();
        own.set(real, address);
        assert_eq!((known.merge(real, &own), known.merge(real, &own)), (vec![real], vec![]));
        assert!(HostMap::from_bytes(&known.to_bytes().unwrap()).unwrap().get(real).is_some());
        // Revoked: what it alone has made up goes with it, and the machine is told.
        known.remove(node(8));
        assert_eq!((known.nodes().count(), known.take_dropped().len()), (1 + TOLD_BY_ONE_MAX, 0));
        known.remove(node(12));
        assert_eq!((known.nodes().count(), known.take_dropped().len()), (2, TOLD_BY_ONE_MAX - 1));
        assert_eq!(known.take_dropped(), []);
    }

    /// Whichever comes first.
    #[test]
    fn a_lie_about_a_node_does_not_keep_its_address_away() {
        let (wrong, right): (SocketAddr, SocketAddr) =
            ("10.0.0.99:1".parse().unwrap(), "10.0.0.8:1".parse().unwrap());
        let told = |address: SocketAddr| {
            let mut told = HostMap::default();
            told.set(node(8), address);
            told
        };
        let mut known = HostMap::default();
        assert_eq!(known.merge(node(12), &told(wrong)), [node(8)]);
        assert_eq!(known.merge(node(12), &told("10.0.0.98:1".parse().unwrap())), [], "its first word counts");
        assert_eq!(known.merge(node(4), &told(right)), [node(8)]);
        assert_eq!(known.addresses(node(8)), [wrong, right]);
        known.remove(node(12));
        assert_eq!(known.addresses(node(8)), [right]);
        assert_eq!(known.merge(node(8), &told(right)), [node(8)]);
        assert_eq!(known.merge(node(16), &told(wrong)), [], "it has proved where it is");
    }

    #[test]
    fn a_full_list_makes_room_for_a_node_that_has_proved_who_it_is() {
        let address: SocketAddr = "10.0.0.1:1".parse().unwrap();
        let mut known = HostMap::default();
        for nth in 0..HOSTS_MAX - 1 {
            known.set(NodeId::nth(nth).unwrap(), address);
        }
        let (made_up, joined, late) = (NodeId::nth(2000), NodeId::nth(2001), NodeId::nth(2002));
        let mut lie = HostMap::default();
        lie.set(made_up.unwrap(), address);
        assert_eq!(known.merge(node(8), &lie), [made_up.unwrap()]);
        assert!(!known.is_full() && known.set(joined.unwrap(), address));
        assert_eq!((known.get(made_up.unwrap()), known.is_full()), (None, true));
        assert_eq!(known.take_dropped(), [made_up.unwrap()]);
        assert!(!known.set(late.unwrap(), address), "none of those that are of the cluster goes");
    }
}
