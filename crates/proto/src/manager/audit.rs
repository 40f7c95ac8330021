//! For tests: whether all tables agree with each other.

use std::collections::{BTreeMap, BTreeSet};

use super::objects::Body;
use super::pending::Aim;
use super::{Asker, FdToken, Manager, Timer};
use crate::ids::NodeId;
use crate::wire::program::{ConnectionId, ImportSlot, Imported, RequestId};

/// Fails with the place, unless both sides are the same.
fn same<T: PartialEq + std::fmt::Debug>(what: &str, left: &T, right: &T) -> Result<(), String> {
    if left == right { Ok(()) } else { Err(format!("{what}: {left:?} is not {right:?}")) }
}

fn group_by<K: Ord, V: Ord>(pairs: impl Iterator<Item = (K, V)>) -> BTreeMap<K, BTreeSet<V>> {
    let mut groups: BTreeMap<K, BTreeSet<V>> = BTreeMap::new();
    for (key, value) in pairs {
        groups.entry(key).or_default().insert(value);
    }
    groups
}

impl Manager {
    /// Checks every cross-reference and the owner of each descriptor. Costs O(n log n): for tests, not for
    /// daemons.
    pub fn audit(&self) -> Result<(), String> {
        self.audit_tokens()?;
        self.audit_shares()?;
        self.audit_quotas()?;
        self.audit_objects()?;
        self.audit_exports()?;
        self.audit_imports()?;
        self.audit_requests()?;
        self.audit_peers()?;
        self.audit_groups()?;
        self.audit_agents()
    }

    /// Every token is held by exactly one program, object, or waiting resumption.
    fn audit_tokens(&self) -> Result<(), String> {
        let of_programs = self.programs.values().filter_map(|program| program.pidfd);
        let of_objects = self.objects.values().flat_map(super::objects::Object::tokens);
        let mut held: Vec<FdToken> = of_programs.chain(of_objects).chain(self.kept.iter().copied()).collect();
        held.sort_unstable();
        let owned: Vec<FdToken> = self.tokens.iter().copied().collect();
        same("descriptors held and owned", &held, &owned)
    }

    fn audit_objects(&self) -> Result<(), String> {
        let by_owner = group_by(self.objects.iter().map(|(&what, object)| (object.owner, what)));
        for (program, entry) in &self.programs {
            let none = BTreeSet::new();
            let owned = by_owner.get(program).unwrap_or(&none);
            same("objects of a program", &entry.objects, owned)?;
            if !entry.attached() && (!entry.objects.is_empty() || !entry.imports.is_empty()) {
                return Err(format!("{program:?} is not attached and yet owns something"));
            }
        }
        if let Some(owner) = by_owner.keys().find(|owner| !self.programs.contains_key(owner)) {
            return Err(format!("{owner:?} owns objects and is not there"));
        }
        let segments = self.objects.keys().filter(|what| matches!(what, Imported::Segment(_))).count() as u64;
        same("segments", &self.segments, &segments)?;
        same("interrupts", &self.interrupts, &(self.objects.len() as u64 - segments))
    }

    fn audit_exports(&self) -> Result<(), String> {
        let by_object =
            group_by(self.exports.by_id.iter().map(|(&connection, export)| (export.what, connection)));
        let none: BTreeSet<ConnectionId> = BTreeSet::new();
        for (what, object) in &self.objects {
            let exports = by_object.get(what).unwrap_or(&none);
            same("connections of an object", &object.exports, exports)?;
            if let Body::Interrupt { producers, .. } = &object.body {
                let numbers: Vec<u16> =
                    exports.iter().filter_map(|id| self.exports.by_id.get(id)?.producer).collect();
                let distinct: BTreeSet<u16> = numbers.iter().copied().collect();
                same("producers of an interrupt", producers, &distinct)?;
                same("distinct producers", &numbers.len(), &distinct.len())?;
            }
        }
        if let Some(what) = by_object.keys().find(|what| !self.objects.contains_key(what)) {
            return Err(format!("{what} is connected and not there"));
        }
        self.audit_local_exports()
    }

    /// A connection within the node is in both tables, unless its importer has yet to re-attach.
    fn audit_local_exports(&self) -> Result<(), String> {
        let exported = self.exports.by_id.iter().filter(|(_, export)| export.importer == self.own);
        let exported: BTreeSet<ConnectionId> = exported.map(|(&id, _)| id).collect();
        let imported = self.imports.by_connection.keys().filter(|(node, _)| *node == self.own);
        let imported: BTreeSet<ConnectionId> = imported.map(|&(_, id)| id).collect();
        let either: BTreeSet<ConnectionId> = imported.union(&self.local_unconfirmed).copied().collect();
        same("connections within the node", &exported, &either)?;
        match imported.intersection(&self.local_unconfirmed).next() {
            None => Ok(()),
            Some(id) => Err(format!("{id:?} is held and yet not confirmed")),
        }
    }

    fn audit_imports(&self) -> Result<(), String> {
        let by_program = group_by(self.imports.by_slot.iter().map(|(&slot, import)| (import.program, slot)));
        let none: BTreeSet<ImportSlot> = BTreeSet::new();
        for (program, entry) in &self.programs {
            same("imports of a program", &entry.imports, by_program.get(program).unwrap_or(&none))?;
        }
        if let Some(program) = by_program.keys().find(|program| !self.programs.contains_key(program)) {
            return Err(format!("{program:?} holds imports and is not there"));
        }
        let alive = self.imports.by_slot.iter().filter(|(_, import)| import.alive);
        let alive: BTreeMap<(NodeId, ConnectionId), ImportSlot> =
            alive.map(|(&slot, import)| ((import.node, import.shown.connection), slot)).collect();
        same("living imports", &self.imports.by_connection, &alive)?;
        self.imports.audit_slots()?;
        let most = self.config.limits.imports;
        if self.imports.by_slot.len() as u64 > most {
            return Err(format!("{} imports are more than {most}", self.imports.by_slot.len()));
        }
        for (slot, import) in &self.imports.by_slot {
            let request = import.verify.and_then(|id| self.pending.get(&id)).map(|pending| pending.aim);
            let verifies = matches!(request, Some(Aim::Verify { slot: aim }) if aim == *slot);
            if import.verify.is_some() != verifies {
                return Err(format!("{slot:?} is verified by a request that is not there"));
            }
        }
        Ok(())
    }

    fn audit_requests(&self) -> Result<(), String> {
        let by_node = group_by(self.pending.iter().map(|(&id, pending)| (pending.node, id)));
        let none: BTreeSet<RequestId> = BTreeSet::new();
        for (node, peer) in &self.peers {
            same("requests to a peer", &peer.pending, by_node.get(node).unwrap_or(&none))?;
            if !peer.pending.is_empty() && !peer.session.is_valid() {
                return Err(format!("requests to node {node} wait without a session"));
            }
        }
        let of_programs = self.pending.iter().filter_map(|(&id, pending)| Some((pending.aim.program()?, id)));
        let by_program = group_by(of_programs);
        for (program, entry) in &self.programs {
            same("requests of a program", &entry.pending, by_program.get(program).unwrap_or(&none))?;
        }
        for (id, pending) in &self.pending {
            if let Aim::Verify { slot } = pending.aim
                && self.imports.by_slot.get(&slot).and_then(|import| import.verify) != Some(*id)
            {
                return Err(format!("request {id} verifies {slot:?}, which does not wait for it"));
            }
            let program = pending.aim.program();
            if program.is_some_and(|program| !self.programs.contains_key(&program)) {
                return Err(format!("request {id} is on behalf of nobody"));
            }
            same(
                "a timer for each request of a program",
                &program.is_some(),
                &self.timers.contains(Timer::Pending(*id)),
            )?;
        }
        self.audit_waiting()?;
        self.audit_owners_asked()?;
        self.audit_questions()?;
        self.audit_relay_needs()
    }

    fn audit_owners_asked(&self) -> Result<(), String> {
        for (connection, asked) in &self.owners_asked {
            let importer = self.exports.by_id.get(connection).map(|export| export.importer);
            same("the importer that waits for an owner", &importer, &Some(asked.importer))?;
            let has_timer = self.timers.contains(Timer::OwnerAsked(*connection));
            same("a timer for each owner that was asked", &has_timer, &true)?;
        }
        Ok(())
    }

    fn audit_questions(&self) -> Result<(), String> {
        for (connection, asked) in &self.questions {
            let importer = self.exports.by_id.get(connection).map(|export| export.importer);
            same("the importer that asks an owner", &importer, &Some(asked.importer))?;
            let has_timer = self.timers.contains(Timer::Question(*connection));
            same("a timer for each question", &has_timer, &true)?;
        }
        Ok(())
    }

    fn audit_relay_needs(&self) -> Result<(), String> {
        let by_program = group_by(self.relay_needs.by_program());
        let none = BTreeSet::new();
        for (program, entry) in &self.programs {
            same("forwards for a program", &entry.relayed, by_program.get(program).unwrap_or(&none))?;
        }
        match by_program.keys().find(|program| !self.programs.contains_key(program)) {
            None => Ok(()),
            Some(program) => Err(format!("{program:?} has forwards and is not there")),
        }
    }

    fn audit_waiting(&self) -> Result<(), String> {
        let mut of_programs = 0;
        let mut of_peers = 0;
        for &(what, asker) in self.waiting.keys() {
            let known = match asker {
                Asker::Program(_, program) => {
                    of_programs += 1;
                    self.programs.get(&program).is_some_and(|entry| entry.waiting.contains(&(what, asker)))
                }
                Asker::Peer(node, connection, pid) => {
                    of_peers += 1;
                    let waits = self.peers.get(&node).and_then(|peer| peer.waiting.get(&(connection, pid)));
                    waits == Some(&what)
                }
            };
            if !known {
                return Err(format!("{asker:?} does not know that it waits for {what}"));
            }
            let there = self.objects.get(&what);
            if there.is_some_and(|object| !object.reattached || !self.in_grace()) {
                return Err(format!("{asker:?} waits for {what}, which is there"));
            }
        }
        let kept: BTreeSet<FdToken> = self.waiting.values().filter_map(|waiting| waiting.pidfd).collect();
        same("descriptors of what waits", &self.kept, &kept)?;
        let programs: usize = self.programs.values().map(|entry| entry.waiting.len()).sum();
        let peers: usize = self.peers.values().map(|peer| peer.waiting.len()).sum();
        same("programs that wait", &programs, &of_programs)?;
        same("peers that wait", &peers, &of_peers)
    }

    fn audit_peers(&self) -> Result<(), String> {
        let remote = self.exports.by_id.iter().filter(|(_, export)| export.importer != self.own);
        let exports = group_by(remote.map(|(&id, export)| (export.importer, id)));
        let remote = self.imports.by_connection.iter().filter(|((node, _), _)| *node != self.own);
        let imports = group_by(remote.map(|(&(node, _), &slot)| (node, slot)));
        let (no_exports, no_imports) = (BTreeSet::new(), BTreeSet::new());
        for (node, peer) in &self.peers {
            same("connections to a peer", &peer.exports, exports.get(node).unwrap_or(&no_exports))?;
            same("imports from a peer", &peer.imports, imports.get(node).unwrap_or(&no_imports))?;
            if !peer.unconfirmed.is_subset(&peer.exports) || !peer.stale_groups.is_subset(&peer.groups) {
                return Err(format!("node {node} is to resume what is not there"));
            }
            if let Some(conn) = peer.session.conn()
                && self.sockets.get(&conn).map(|socket| socket.node) != Some(Some(*node))
            {
                return Err(format!("the session with node {node} has {conn:?}, which is not its own"));
            }
            same("a peer is seen or waited for", &peer.seen, &!self.timers.contains(Timer::Unseen(*node)))?;
            let owed = peer.owed_lost.len() + peer.owed_released.len();
            if peer.session.is_valid() && owed > 0 {
                return Err(format!("node {node} is owed {owed} messages while its session is valid"));
            }
        }
        let missing = exports.keys().chain(imports.keys()).find(|node| !self.peers.contains_key(node));
        if let Some(node) = missing {
            return Err(format!("connections with node {node}, which is not known"));
        }
        for (conn, socket) in &self.sockets {
            let of_session = socket.node.and_then(|node| self.peers.get(&node)?.session.conn());
            if of_session != Some(*conn) && !self.timers.contains(Timer::PeerHello(*conn)) {
                return Err(format!("{conn:?} belongs to nobody and nothing ends it"));
            }
        }
        Ok(())
    }

    fn audit_agents(&self) -> Result<(), String> {
        let asked = group_by(self.agents.of_programs());
        let none = BTreeSet::new();
        for (program, entry) in &self.programs {
            same("agents of a program", &entry.agents, asked.get(program).unwrap_or(&none))?;
        }
        if let Some(program) = asked.keys().find(|program| !self.programs.contains_key(program)) {
            return Err(format!("{program:?} has agents and is not there"));
        }
        self.agents.audit()?;
        let lost =
            self.agents.nodes().find(|node| self.peers.get(node).is_none_or(|peer| !peer.session.is_valid()));
        lost.map_or(Ok(()), |node| Err(format!("agents of node {node} go on without a session")))
    }

    fn audit_groups(&self) -> Result<(), String> {
        let watches = self
            .programs
            .iter()
            .flat_map(|(&program, entry)| entry.watches.iter().map(move |&group| (group, program)));
        same("watchers of groups", &self.watchers, &group_by(watches))
    }
}
