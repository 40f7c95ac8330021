//! Brings a fabric up: LIDs and link parameters, tables, and then active links.

use std::collections::{BTreeSet, HashSet};
use std::time::Duration;

use mad::sm::{LIDS_PER_BLOCK, LinearTable, PortInfo, SwitchInfo};
use mad::values::SmState;
use mad::{Mad, MadTransport};
use topology::PortIx;
use topology::routing::Tables;
use topology::routing::check::Dependencies;

use super::prepare::{Around, Prepared, keep};
use super::{Failures, ManageError, Manager, Subnet, Work, elapsed, how, meanwhile};
use crate::model::Model;
use crate::report::{BroughtUp, NAMED, Sets};
use crate::routes::{Routes, Stage};
use crate::set::{Set, Subject};
use crate::wanted::Step;

/// A packet that is not delivered within the time that its switch allows is dropped (SwitchLifeTime); 20 and
/// more is without limit, and then no longer than this is waited.
const MOST_DRAIN: Duration = Duration::from_secs(1);

impl Manager {
    /// Brings the fabric up, unless another manager is master or goes first. `tell` gets the progress; `stop`
    /// ends it. Afterwards [`attend`](Self::attend) goes on as master.
    ///
    /// # Errors
    /// No fabric, another manager, too few LIDs, no routes, or `stop` returned true. What single nodes refuse
    /// is in the result.
    pub fn bring_up<T: MadTransport + ?Sized>(
        &mut self,
        transport: &mut T,
        tell: &mut dyn FnMut(&str),
        stop: &dyn Fn() -> bool,
    ) -> Result<BroughtUp, ManageError> {
        self.at_desk(transport, |this, front| {
            this.introduce(front, stop)?;
            let around = this.look_round(front, tell, stop)?;
            this.only_one(front, &around.peers)?;
            front.desk.me.state = SmState::MASTER;
            this.up(front, around, tell, stop)
        })
    }

    /// Brings a fabric up of which a sweep is there.
    ///
    /// The order: ports get their LIDs and parameters, and go to Armed, while the routes are computed; the
    /// tables are written; then links go to Active. So no link carries packets before the tables are there.
    /// Where links are active already, the tables are written in steps that have no loop in between.
    pub(super) fn up<T: MadTransport + ?Sized>(
        &mut self,
        transport: &mut T,
        around: Around,
        tell: &mut dyn FnMut(&str),
        stop: &dyn Fn() -> bool,
    ) -> Result<BroughtUp, ManageError> {
        let begun = transport.now().saturating_sub(Duration::from_secs_f64(around.seconds.max(0.0)));
        let sent = self.asker.sent() + self.swept - around.found.tally.sent;
        let Prepared { mut model, anomalies, moved, mut seconds } =
            self.prepare(transport, around, tell, stop)?;
        keep(self, &model)?;
        self.own_lid = model.sm_lid();
        self.has_served = true;
        let (mut sets, mut failures) = (Sets::default(), Failures::default());

        self.unsure.clear();
        tell("setting LIDs and link parameters, computing the forwarding tables (LFTs)");
        let at = transport.now();
        model.reregister = self.stays && self.lost;
        let (graph, lids, engine) = (model.graph.clone(), model.lids.clone(), self.options.engine);
        let mut routes = std::thread::scope(|scope| {
            let computing = scope.spawn(|| Routes::first(&graph, &lids, engine));
            let armed = self.set_ports(transport, &mut model, Step::Arm, &mut sets, &mut failures, stop);
            let compute = || computing.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            let routes = meanwhile(transport, compute);
            armed?;
            routes?.map_err(ManageError::from)
        })?;
        // Who was not reached is asked when the fabric is brought up again.
        self.lost &= !(model.reregister && failures.count == 0);
        model.reregister = false;
        let ends: Vec<PortIx> =
            model.lids.ends().map(|one| one.1).filter(|port| model.path_to(*port).is_some()).collect();
        self.set_keys(transport, &mut model, &ends, (&mut sets, &mut failures), stop)?;
        let live: Vec<PortIx> = model.live_ports().collect();
        self.set_lanes(transport, &model, &live, (&mut sets, &mut failures), stop)?;
        self.set_switches(transport, &mut model, &mut sets, &mut failures, stop)?;
        seconds.ports_and_routes = elapsed(transport, at);

        tell("writing the forwarding tables (LFTs)");
        let at = transport.now();
        let recorded: HashSet<u16> = self.record.lids();
        let (manner, steps) = meanwhile(transport, || {
            routes.keep_what_is_good(&model, &recorded);
            how(&model, &routes)
        })?;
        self.write_tables(transport, &mut model, &steps, &mut sets, &mut failures, stop)?;
        seconds.write_tables = elapsed(transport, at);

        tell("activating the links");
        let at = transport.now();
        self.set_ports(transport, &mut model, Step::Activate, &mut sets, &mut failures, stop)?;
        seconds.activate = elapsed(transport, at);

        seconds.total = elapsed(transport, begun);
        let (links, active_links) = model.links();
        let findings: Vec<String> = anomalies.into_iter().chain(failures.named).collect();
        let up = BroughtUp {
            nodes: model.graph.node_count(),
            switches: model.graph.count(topology::Kind::Switch),
            lids: model.lids.iter().count(),
            lmc: model.lids.lmc(),
            moved_ports: moved,
            sm_lid: model.sm_lid().0,
            links,
            active_links,
            engine: routes.engine.word(),
            why: routes.why.clone(),
            notes: routes.routing.notes.clone(),
            lost_pairs: routes.checked.lost,
            credit_loop: routes.checked.credit_loop.len(),
            manner,
            sets,
            datagrams: self.asker.sent() + self.swept - sent,
            seconds,
            findings_in_all: findings.len() + failures.count.saturating_sub(NAMED),
            findings: findings.into_iter().take(NAMED).collect(),
            failed_sets: failures.count,
        };
        let held = meanwhile(transport, || Dependencies::of(&model.graph, &model.written.tables))?;
        self.subnet = Some(Subnet { model, routes, held });
        Ok(up)
    }

    /// Sets what ports lack in a step. The response of each is what the port has from then on.
    pub(super) fn set_ports<T: MadTransport + ?Sized>(
        &mut self,
        transport: &mut T,
        model: &mut Model,
        step: Step,
        counts: &mut Sets,
        failures: &mut Failures,
        stop: &dyn Fn() -> bool,
    ) -> Result<(), ManageError> {
        let mut reported = Vec::new();
        let mut good = |subject: Subject, mad: Option<&Mad>| {
            if let (Subject::Port(port), Some(mad)) = (subject, mad) {
                reported.push((port, *mad.data::<PortInfo>()));
            }
        };
        let work = Work { good: &mut good, counts, failures };
        let ended = self.send(transport, model, work, model.port_sets(step), stop);
        for (port, info) in reported {
            if let Some(what) = model.not_taken(port, &info) {
                failures.add(|| format!("{}: {what}", fabric::names::place(&model.graph, port)));
            }
            model.ports[port.index()] = Some(info);
        }
        ended
    }

    /// Sets the ends of the tables, and clears what switches remember of changed ports.
    fn set_switches<T: MadTransport + ?Sized>(
        &mut self,
        transport: &mut T,
        model: &mut Model,
        counts: &mut Sets,
        failures: &mut Failures,
        stop: &dyn Fn() -> bool,
    ) -> Result<(), ManageError> {
        let mut reported = Vec::new();
        let mut good = |subject: Subject, mad: Option<&Mad>| {
            if let (Subject::Switch(node), Some(mad)) = (subject, mad) {
                reported.push((node, *mad.data::<SwitchInfo>()));
            }
        };
        let work = Work { good: &mut good, counts, failures };
        let ended = self.send(transport, model, work, model.switch_sets(), stop);
        for (node, info) in reported {
            let before = model.nodes[node.index()].switch.replace(info);
            if before.is_some_and(|before| before.state_change()) {
                self.unsure.insert(node);
            }
        }
        ended
    }

    /// Writes tables step by step. A block counts as written when its switch has returned it. Where one did
    /// not, the further steps leave that block alone at all switches, as they rely on the step before: the
    /// entries of its LIDs are written when everything is tried again.
    pub(super) fn write_tables<T: MadTransport + ?Sized>(
        &mut self,
        transport: &mut T,
        model: &mut Model,
        steps: &[Stage<'_>],
        counts: &mut Sets,
        failures: &mut Failures,
        stop: &dyn Fn() -> bool,
    ) -> Result<(), ManageError> {
        let mut failed_blocks = BTreeSet::new();
        for stage in steps {
            if stage.after_drain {
                self.drain(transport, model, stop)?;
            }
            let mut ended = Vec::new();
            let mut good = |subject: Subject, mad: Option<&Mad>| {
                if let Subject::Table(node, block) = subject {
                    ended.push((node, block, mad.is_some_and(|mad| holds(&stage.tables, node, block, mad))));
                }
            };
            let work = Work { good: &mut good, counts, failures };
            // A switch to which no cable leads keeps what it has: what it lacks is written when it is back.
            let reached = |set: &Set| matches!(set, Set::Table(node, ..) if model.path(*node).is_some());
            let is_sure =
                |set: &Set| !matches!(set, Set::Table(_, block, _) if failed_blocks.contains(block));
            let sets = model.written.to_write(&stage.tables).filter(reached).filter(is_sure);
            let result = self.send(transport, model, work, sets, stop);
            failed_blocks.extend(ended.iter().filter(|one| !one.2).map(|one| one.1));
            for (node, block, is_written) in ended {
                let row = stage.tables.index_of(node);
                let entries = row.and_then(|row| stage.tables.block(row, block.into()));
                let entries = entries.filter(|_| is_written).and_then(|entries| entries.try_into().ok());
                model.written.confirm(node, block, entries.as_ref());
            }
            result?;
        }
        Ok(())
    }

    /// Waits until no packet can be under way that went by former entries.
    pub(super) fn drain<T: MadTransport + ?Sized>(
        &self,
        transport: &mut T,
        model: &Model,
        stop: &dyn Fn() -> bool,
    ) -> Result<(), ManageError> {
        let lives = model.nodes.iter().filter_map(|node| node.switch.as_ref()).map(SwitchInfo::life_time);
        let life = match lives.max().unwrap_or(0) {
            code @ 0..20 => Duration::from_nanos(4096 << code).min(MOST_DRAIN),
            _ => MOST_DRAIN,
        };
        let until = transport.now() + life;
        while transport.now() < until && !stop() {
            let left = until.saturating_sub(transport.now());
            let _ = transport.receive(left)?;
        }
        Ok(())
    }
}

/// Did the switch return the block that was written?
fn holds(tables: &Tables, node: topology::NodeIx, block: u16, mad: &Mad) -> bool {
    let table: &LinearTable = mad.data();
    let row = tables.index_of(node);
    row.and_then(|row| tables.block(row, block.into())).is_some_and(|entries| {
        (0..usize::from(LIDS_PER_BLOCK)).all(|at| table.port(at) == entries.get(at).copied())
    })
}
