//! Checks every state between two sets of tables: while entries are written one after the other,
//! packets follow old entries at some switches and new ones at others.

use rayon::prelude::*;

use super::cycle::Waits;
use super::{NO_PATH, Tables, Waiting};
use crate::routing::view::{END, View};
use crate::{Graph, Kind, PortIx};

/// What can wait for what by the routes of some tables, kept for asking about changes of them.
#[derive(Debug, Clone)]
pub struct Dependencies {
    waits: Option<Waits>,
}

impl Dependencies {
    /// Of tables, from every switch with hosts on to all hosts' LIDs.
    #[must_use]
    pub fn of(graph: &Graph, tables: &Tables) -> Self {
        let view = View::of(graph);
        let lids: Vec<usize> = (0..tables.width()).collect();
        Self { waits: Mixed::of(graph, &view, tables, tables).all(&lids) }
    }

    /// A credit loop that is possible while the tables, `old`, are turned into others, in whatever order the
    /// entries are written, with the packets that are under way counted; empty if there is none. Only the
    /// LIDs whose entries differ are walked over.
    ///
    /// For each LID a switch may forward by its old entry or by its new one. What can wait for what is the
    /// union over all such choices, from every switch with hosts on. If that has no cycle, then neither has
    /// any state in between: a forwarding loop would be a cycle of it, too. It is more than what really
    /// happens, so a cycle here is a reason to drain the entries concerned first, and no proof of a deadlock.
    ///
    /// All traffic is taken to be on the same VLs everywhere. Then VLs cannot add a cycle: one over ports and
    /// VLs would be one over the ports. The cables are those of `graph`, which has the nodes and ports that
    /// it had: what was sent to a cable that is gone is gone.
    #[must_use]
    pub fn between(&self, graph: &Graph, old: &Tables, new: &Tables) -> Vec<Waiting> {
        let view = View::of(graph);
        let mut lids: Vec<usize> = old.changes(new).map(|change| usize::from(change.lid)).collect();
        lids.sort_unstable();
        lids.dedup();
        let mixed = Mixed::of(graph, &view, old, new).all(&lids);
        let waits = match (&self.waits, mixed) {
            (Some(own), Some(mut mixed)) => {
                mixed.add(own);
                mixed
            }
            (Some(own), None) => own.clone(),
            (None, Some(mixed)) => mixed,
            (None, None) => return Vec::new(),
        };
        waits.cycle(graph, &view)
    }
}

/// As [`Dependencies::between`], for those who ask once.
#[must_use]
pub fn between(graph: &Graph, old: &Tables, new: &Tables) -> Vec<Waiting> {
    Dependencies::of(graph, old).between(graph, old, new)
}

/// Per switch of the view, the row of the tables; `None` where they have none.
fn rows(view: &View, tables: &Tables) -> Vec<Option<usize>> {
    view.switches().iter().map(|switch| tables.index_of(*switch)).collect()
}

struct Mixed<'a> {
    graph: &'a Graph,
    view: &'a View,
    old: &'a Tables,
    new: &'a Tables,
    rows: Vec<Option<usize>>,
    new_rows: Vec<Option<usize>>,
}

impl<'a> Mixed<'a> {
    fn of(graph: &'a Graph, view: &'a View, old: &'a Tables, new: &'a Tables) -> Self {
        Self { graph, view, old, new, rows: rows(view, old), new_rows: rows(view, new) }
    }

    /// Over some LIDs; `None` if there are none.
    fn all(&self, lids: &[usize]) -> Option<Waits> {
        let parts = rayon::current_num_threads().max(1) * 2;
        let each = lids.len().div_ceil(parts).max(1);
        let found: Vec<Waits> = lids.par_chunks(each).map(|lids| self.walk(lids)).collect();
        found.into_iter().reduce(|mut all, part| {
            all.add(&part);
            all
        })
    }

    fn walk(&self, lids: &[usize]) -> Waits {
        let switches = self.view.switch_count();
        let mut waits = Waits::new(self.view, 1);
        let mut seen = vec![u32::MAX; switches];
        let mut next = Vec::new();
        let sources: Vec<usize> = (0..switches).filter(|sw| self.view.hosts(*sw) > 0).collect();
        for &lid in lids {
            // Only traffic between hosts fills buffers; the routes to switches carry management.
            if !self.is_host(lid) {
                continue;
            }
            next.extend(sources.iter().copied());
            while let Some(sw) = next.pop() {
                if std::mem::replace(&mut seen[sw], lid as u32) == lid as u32 {
                    continue;
                }
                for port in self.ports(sw, lid).into_iter().flatten() {
                    let Some((there, _)) = self.view.beyond(sw, port) else { continue };
                    let came = sw * self.view.stride() + usize::from(port);
                    for out in self.ports(there, lid).into_iter().flatten() {
                        if self.leads_to_switch(there, out) {
                            waits.note(came, 0, out, 0);
                        }
                    }
                    next.push(there);
                }
            }
        }
        waits
    }

    /// The one or two ports by which a switch may forward to a LID.
    fn ports(&self, sw: usize, lid: usize) -> [Option<u8>; 2] {
        let entry = |tables: &Tables, row: Option<usize>| {
            let port = row.and_then(|row| tables.table(row).get(lid).copied());
            port.filter(|port| *port != NO_PATH)
        };
        let (old, new) = (entry(self.old, self.rows[sw]), entry(self.new, self.new_rows[sw]));
        [old, new.filter(|_| new != old)]
    }

    fn leads_to_switch(&self, sw: usize, port: u8) -> bool {
        let at = sw * self.view.stride() + usize::from(port);
        usize::from(port) < self.view.stride() && self.view.far()[at] < END
    }

    /// Is it the LID of a host or router in either set of tables?
    fn is_host(&self, lid: usize) -> bool {
        let Ok(lid) = u16::try_from(lid) else { return false };
        let host = |port: Option<PortIx>| {
            let owned = port.filter(|port| port.index() < self.graph.port_total());
            owned.is_some_and(|port| self.graph.kind(self.graph.owner(port)) != Kind::Switch)
        };
        host(self.old.lids().port(lid)) || host(self.new.lids().port(lid))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::build::{FatTree, fat_tree};
    use crate::routing::{Engine, Lids, Request, check, route};
    use crate::{GraphBuilder, LinkSpec, NodeSpec};

    /// Switches in a ring with a host each; at each switch port 1 goes on, port 2 back, port 3 to the host.
    fn ring(count: usize) -> Graph {
        let mut builder = GraphBuilder::new();
        let switches: Vec<_> = (0..count)
            .map(|at| {
                builder.node(NodeSpec::new(Kind::Switch, &format!("s{at}"), 3).guid(at as u64 + 1)).unwrap()
            })
            .collect();
        for (at, switch) in switches.iter().enumerate() {
            let host =
                builder.node(NodeSpec::new(Kind::Host, &format!("h{at}"), 1).guid(at as u64 + 100)).unwrap();
            builder.link((*switch, 3), (host, 1), LinkSpec::EDR4X).unwrap();
            builder.link((*switch, 1), (switches[(at + 1) % count], 2), LinkSpec::EDR4X).unwrap();
        }
        builder.finish()
    }

    /// Routes of a ring that never go over the cable between `cut` and the next switch: a line.
    fn line(graph: &Graph, lids: &Arc<Lids>, cut: usize) -> Tables {
        let switches: Vec<_> = graph.nodes_of(Kind::Switch).collect();
        let count = switches.len();
        let mut tables = Tables::empty(Arc::clone(lids), &switches);
        let place = |at: usize| (at + count - cut - 1) % count;
        for (at, switch) in switches.iter().enumerate() {
            for (lid, end) in lids.iter() {
                let owner = graph.owner(end);
                let home = switches.iter().position(|other| {
                    *other == owner
                        || graph.cabled(*other).any(|(_, far)| graph.owner(far) == owner)
                            && graph.kind(owner) != Kind::Switch
                });
                let home = home.unwrap();
                let port = match place(home).cmp(&place(at)) {
                    std::cmp::Ordering::Equal => {
                        if graph.kind(owner) == Kind::Switch {
                            0
                        } else {
                            3
                        }
                    }
                    std::cmp::Ordering::Greater => 1,
                    std::cmp::Ordering::Less => 2,
                };
                tables.set(*switch, lid, port);
            }
        }
        tables
    }

    /// Both sets are free of credit loops, and on the way from one to the other there is one.
    #[test]
    fn two_good_sets_of_tables_may_have_a_credit_loop_between_them() {
        let graph = ring(5);
        let lids = Arc::new(Lids::assign(&graph, 0, |_| None).unwrap());
        let (one, other) = (line(&graph, &lids, 4), line(&graph, &lids, 2));
        assert!(check(&graph, &one).is_good() && check(&graph, &other).is_good());
        assert_eq!(between(&graph, &one, &one), []);
        assert!(!between(&graph, &one, &other).is_empty());
        // By way of empty entries there is none: each half is checked for itself.
        let mut drained = one.clone();
        for change in one.changes(&other) {
            drained.set(change.switch, change.lid, NO_PATH);
        }
        assert_eq!(between(&graph, &one, &drained), []);
        assert_eq!(between(&graph, &drained, &other), []);
    }

    /// A switch that lost its cable down gets routes up again, and the one above still sends down to it: a
    /// loop, unless those routes are written when no packet comes down any more.
    #[test]
    fn after_a_fault_what_led_to_the_dead_cable_is_to_be_written_last() {
        let graph = fat_tree(&FatTree::new(8, 3)).unwrap();
        let lids = Arc::new(Lids::assign(&graph, 0, |_| None).unwrap());
        let before = route(&graph, &lids, &Request::by(Engine::FatTree)).unwrap();
        let up = graph
            .links()
            .find(|(a, b)| [a, b].into_iter().all(|end| graph.kind(graph.owner(*end)) == Kind::Switch));
        let rest = graph.without(&[up.unwrap().0], &[]);
        let again =
            Request { plan: Some(&before.plan), prior: Some(&before.tables), ..Request::by(Engine::FatTree) };
        let after = route(&rest, &lids, &again).unwrap();
        assert!(!between(&rest, &before.tables, &after.tables).is_empty());
        let mut held = after.tables.clone();
        for change in before.tables.changes(&after.tables) {
            let dead = rest.port(change.switch, change.before).is_none_or(|port| rest.peer(port).is_none());
            if dead && change.before != 0 {
                held.set(change.switch, change.lid, NO_PATH);
            }
        }
        assert_ne!(held, after.tables);
        assert_eq!(between(&rest, &before.tables, &held), []);
        assert_eq!(between(&rest, &held, &after.tables), []);
    }
}
