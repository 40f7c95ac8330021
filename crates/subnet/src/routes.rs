//! Which tables, and in which steps they are written.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use topology::routing::check::{Dependencies, check_lids};
use topology::routing::{
    Changed, Checked, Choice, Engine, Lids, Measured, NO_PATH, Request, RouteError, Routing, Tables, check,
    choose, route, route_measured,
};
use topology::{Graph, NodeIx, PortIx};

use crate::model::Model;

/// Data VLs that routes may use. All routes are free of credit loops on one VL, and so on any: whatever
/// SL-to-VL maps say, and on whichever level hosts send that have not asked subnet administration.
const VLS: u8 = 1;
/// Tables of which less than this part (1 in so many) differs from those of an engine are the engine's, after
/// faults and repairs: those of another manager differ in most entries.
const SAME_ENGINE: usize = 8;

/// Routes of a fabric.
#[derive(Debug)]
pub struct Routes {
    /// By which engine.
    pub engine: Engine,
    /// Why by that one, in one line.
    pub why: String,
    /// Tables and plan.
    pub routing: Routing,
    /// What the checker says of the tables.
    pub checked: Checked,
    choice: Choice,
}

fn request<'a>(choice: &'a Choice, before: Option<&'a Routing>) -> Request<'a> {
    let mut request = Request { vls: VLS, ..Request::by(choice.engine) };
    request.grid = choice.grid.as_ref();
    request.groups = choice.groups.as_ref();
    request.plan = before.map(|before| &before.plan);
    request.prior = before.map(|before| &before.tables);
    request
}

impl Routes {
    /// Of a fabric that was not routed before: by the engine that the recognised shape asks for, or by the
    /// one that was asked for.
    ///
    /// # Errors
    /// The engine refuses.
    pub fn first(graph: &Graph, lids: &Arc<Lids>, asked: Option<Engine>) -> Result<Self, RouteError> {
        let mut choice = choose(graph);
        if let Some(engine) = asked {
            let routing = route(graph, lids, &Request { engine, ..request(&choice, None) })?;
            let checked = check(graph, &routing.tables);
            choice.engine = engine;
            return Ok(Self { engine, why: "requested".to_owned(), routing, checked, choice });
        }
        let Measured { engine, why, routing, checked, .. } =
            route_measured(graph, lids, &request(&choice, None), &choice)?;
        choice.engine = engine;
        Ok(Self { engine, why, routing, checked, choice })
    }

    /// After a change of cables, by the same engine, plan and tables: what the change does not touch stays.
    /// Entries for LIDs to which no cable leads any more stay as they are, too: no packet can arrive, and
    /// when the port comes back they are right. If the checker does not pass the routes that changed, the
    /// fabric is routed as for the first time.
    ///
    /// The checker follows the routes whose entries changed. Credit loops are looked for by [`stages`], which
    /// covers the result, too.
    ///
    /// # Errors
    /// The engine refuses.
    pub fn again(&self, graph: &Graph) -> Result<Self, RouteError> {
        let lids = Arc::clone(self.routing.tables.lids());
        let mut routing = route(graph, &lids, &request(&self.choice, Some(&self.routing)))?;
        keep_unreachable(graph, &self.routing.tables, &mut routing.tables);
        let mut changed = vec![false; routing.tables.width()];
        for change in self.routing.tables.changes(&routing.tables) {
            changed[usize::from(change.lid)] = true;
        }
        let checked = check_lids(graph, &routing.tables, |lid| changed.get(usize::from(lid)) == Some(&true));
        if checked.is_good() {
            let (engine, why, choice) = (self.engine, self.why.clone(), self.choice.clone());
            return Ok(Self { engine, why, routing, checked, choice });
        }
        Self::anew(graph, &lids)
    }

    /// Keeps the tables that the switches hold, if they are as good as the computed ones and nearly the same:
    /// they are this engine's, after repairs. A manager that takes over, or starts again, then sets nothing
    /// that does not have to be set. `recorded` are LIDs that are kept for ports that are not there: their
    /// entries stay.
    pub fn keep_what_is_good(&mut self, model: &Model, recorded: &HashSet<u16>) {
        let held = &model.written;
        let mut differ = 0_usize;
        for change in held.tables.changes(&self.routing.tables) {
            differ += usize::from(self.routing.tables.lids().port(change.lid).is_some());
        }
        let all = self.routing.tables.switches().len() * self.routing.tables.lids().iter().count();
        let is_other_fabric = held.tables.switches() != self.routing.tables.switches();
        if !held.is_whole() || is_other_fabric || differ > all / SAME_ENGINE {
            return;
        }
        let mut kept = self.routing.tables.clone();
        for change in self.routing.tables.changes(&held.tables) {
            let is_used = kept.lids().port(change.lid).is_some() || recorded.contains(&change.lid);
            if is_used {
                kept.set(change.switch, change.lid, change.after);
            }
        }
        let checked = check(&model.graph, &kept);
        if checked.is_good() && checked.lost <= self.checked.lost {
            self.routing.tables = kept;
            self.checked = checked;
        }
    }

    /// As for the first time, after a repair that the checker did not pass.
    ///
    /// # Errors
    /// The engine refuses.
    pub fn anew(graph: &Graph, lids: &Arc<Lids>) -> Result<Self, RouteError> {
        let mut first = Self::first(graph, lids, None)?;
        first.why = format!("{}, routed anew as the repaired tables did not pass the check", first.why);
        Ok(first)
    }
}

/// Puts back the entries of LIDs whose port has no cable.
fn keep_unreachable(graph: &Graph, before: &Tables, after: &mut Tables) {
    let lids = Arc::clone(after.lids());
    let lost: Vec<u16> = lids
        .iter()
        .filter(|(_, port)| {
            let node = graph.owner(*port);
            let switch = graph.kind(node) == topology::Kind::Switch;
            if switch { graph.cabled(node).next().is_none() } else { graph.peer(*port).is_none() }
        })
        .map(|one| one.0)
        .collect();
    if lost.is_empty() {
        return;
    }
    let switches: Vec<NodeIx> = after.switches().to_vec();
    for switch in switches {
        for lid in &lost {
            let entry = before.port(switch, *lid).unwrap_or(NO_PATH);
            after.set(switch, *lid, entry);
        }
    }
}

/// One step of a change of tables.
#[derive(Debug, Clone)]
pub struct Stage<'a> {
    /// What the switches hold after it.
    pub tables: Cow<'a, Tables>,
    /// Before it, packets that go by former entries have to leave the fabric.
    pub after_drain: bool,
}

/// How a change is carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Manner {
    /// All at once: in whatever order the entries are written, there is no credit loop.
    AtOnce,
    /// Entries of ports whose cable is gone come last: until then they drop packets, as they did.
    DeadLast,
    /// Entries that lead to a cable that came back come first: when the others lead there, they are in place.
    NewFirst,
    /// All entries that change are emptied first: packets to their LIDs are dropped for that time.
    Drained,
    /// As before, but the former tables have a credit loop of their own, which emptying ends.
    OldLoop,
}

/// The steps in which tables are written so that at no moment, packets under way included, there is a loop or
/// a credit loop ([`Dependencies::between`]). `held` are the dependencies of the old tables; `fresh` are
/// cables that came back, by both their ports. `None`: the new tables have a loop themselves.
#[must_use]
pub fn stages<'a>(
    graph: &Graph,
    held: &Dependencies,
    old: &Tables,
    new: &'a Tables,
    fresh: &BTreeSet<PortIx>,
) -> Option<(Manner, Vec<Stage<'a>>)> {
    let first = |tables: Tables| Stage { tables: Cow::Owned(tables), after_drain: false };
    let last = |after_drain| Stage { tables: Cow::Borrowed(new), after_drain };
    let from_old = |to: &Tables| held.between(graph, old, to).is_empty();
    let to_new = |from: &Tables| Dependencies::of(graph, new).between(graph, new, from).is_empty();
    if from_old(new) {
        return Some((Manner::AtOnce, vec![last(false)]));
    }
    let cable = |switch, number| graph.port(switch, number).filter(|port| graph.peer(*port).is_some());
    let is_dead = |change: &Changed| {
        let (switch, port) = (change.switch, change.before);
        port != NO_PATH && port != 0 && cable(switch, port).is_none()
    };
    let dead: Vec<Changed> = old.changes(new).filter(is_dead).collect();
    if !dead.is_empty() {
        // One copy for both: with such entries empty, which is what they do, and then as they were.
        let mut kept = new.clone();
        dead.iter().for_each(|change| kept.set(change.switch, change.lid, NO_PATH));
        if from_old(&kept) && to_new(&kept) {
            dead.iter().for_each(|change| kept.set(change.switch, change.lid, change.before));
            return Some((Manner::DeadLast, vec![first(kept), last(true)]));
        }
    }
    if !fresh.is_empty() {
        let mut fresh_first = old.clone();
        for change in old.changes(new) {
            if cable(change.switch, change.after).is_some_and(|port| fresh.contains(&port)) {
                fresh_first.set(change.switch, change.lid, change.after);
            }
        }
        if from_old(&fresh_first) && to_new(&fresh_first) {
            return Some((Manner::NewFirst, vec![first(fresh_first), last(true)]));
        }
    }
    let mut empty = old.clone();
    for change in old.changes(new) {
        empty.set(change.switch, change.lid, NO_PATH);
    }
    let manner = if from_old(&empty) { Manner::Drained } else { Manner::OldLoop };
    to_new(&empty).then(|| (manner, vec![first(empty), last(true)]))
}
