//! What is found out and decided before anything is set: the nodes, who else manages, LIDs, and
//! the tables that switches hold.

use std::collections::BTreeSet;

use fabric::sweep::{self, Found};
use mad::MadTransport;
use mad::sm::SwitchInfo;
use topology::routing::Tables;
use topology::{Kind, NodeIx};

use super::{ManageError, Manager, elapsed};
use crate::flaps;
use crate::keys::Keys;
use crate::lids;
use crate::model::{Model, Written};
use crate::ordered;
use crate::peer::Peer;
use crate::report::Seconds;

/// What a sweep found, before anything is decided.
pub(super) struct Around {
    pub(super) found: Found,
    pub(super) home: NodeIx,
    /// Other managers.
    pub(super) peers: Vec<Peer>,
    /// What does not fit.
    pub(super) notes: Vec<String>,
    /// Of the sweep.
    pub(super) seconds: f64,
}

/// What was found and decided, before anything was set.
pub(super) struct Prepared {
    pub(super) model: Model,
    pub(super) anomalies: Vec<String>,
    /// End ports that have a LID and get another one.
    pub(super) moved: usize,
    pub(super) seconds: Seconds,
}

impl Manager {
    /// Sweeps, and asks who else manages. Sets nothing.
    pub(super) fn look_round<T: MadTransport + ?Sized>(
        &mut self,
        transport: &mut T,
        tell: &mut dyn FnMut(&str),
        stop: &dyn Fn() -> bool,
    ) -> Result<Around, ManageError> {
        let begun = transport.now();
        let of_sweep = sweep::Options { limits: self.options.limits, ..sweep::Options::default() };
        let mut progress = |at: &sweep::Progress| tell(&format!("sweep: {} nodes", at.nodes));
        let found = sweep::sweep(transport, &of_sweep, &mut progress, stop).map_err(ManageError::of_sweep)?;
        self.swept += found.tally.sent;
        if found.graph.node_count() < 2 {
            return Err(ManageError::NoLink);
        }
        let (mut found, home) = ordered::by_guid(found);
        let mut notes: Vec<String> = found.anomalies.iter().map(ToString::to_string).collect();
        found.anomalies.clear();
        let peers = self.survey(transport, &found, home, &mut notes, stop)?;
        Ok(Around { found, home, peers, notes, seconds: elapsed(transport, begun) })
    }

    /// Decides LIDs, and reads the tables that switches have. Sets nothing.
    pub(super) fn prepare<T: MadTransport + ?Sized>(
        &mut self,
        transport: &mut T,
        around: Around,
        tell: &mut dyn FnMut(&str),
        stop: &dyn Fn() -> bool,
    ) -> Result<Prepared, ManageError> {
        let Around { found, home, notes: mut anomalies, seconds: sweep, .. } = around;
        let mut seconds = Seconds { sweep, ..Seconds::default() };
        let begun = transport.now();
        if std::mem::take(&mut self.learns) {
            self.record = self.record.learned(&lids::held(&found.graph));
        }
        anomalies.extend(self.look_at_protection(&found, home)?);
        let ids = lids::assign(&found.graph, &self.record, self.options.lmc)?;
        let moved = lids::moved(&found.graph, &ids);
        let switches: Vec<NodeIx> = found.graph.nodes_of(Kind::Switch).collect();
        let written = if fabric::tables::has_lids(&found.graph) {
            tell("reading the forwarding tables (LFTs) of the switches");
            // By the LIDs that were decided: those that ports claim may contradict each other.
            let read = fabric::tables::read_as(transport, &found, &ids, self.options.limits, stop)?;
            anomalies.extend(read.why_none.filter(|_| !stop()));
            read.tables.map(|tables| held(tables, &found, &read.silent))
        } else {
            None
        };
        seconds.read_tables = elapsed(transport, begun);
        if stop() {
            return Err(ManageError::Stopped);
        }
        let written = written.unwrap_or_else(|| Written::unknown(&ids, &switches));
        let mut model = Model::new(found, home, ids, written);
        model.protection = self.options.protection;
        model.qos = self.options.qos.clone();
        if let Some(partitions) = &self.options.partitions {
            let ends = model.lids.ends().map(|one| one.1);
            model.keys = Some(Keys::new(&model.graph, partitions, ends, model.here()));
        }
        self.keep_held(&mut model, transport.now());
        Ok(Prepared { model, anomalies, moved, seconds })
    }
}

impl Manager {
    /// Cables that are held back stay so in a new model.
    fn keep_held(&mut self, model: &mut Model, now: std::time::Duration) {
        let held = model.whole.links().map(|(port, far)| port.min(far));
        let held: BTreeSet<topology::PortIx> = held
            .filter(|port| flaps::cable(&model.whole, *port).is_some_and(|it| self.flaps.holds(it, now)))
            .collect();
        if !held.is_empty() {
            let spared = model.hold_back(&held);
            spared
                .iter()
                .filter_map(|port| flaps::cable(&model.whole, *port))
                .for_each(|it| self.flaps.spare(it));
        }
    }
}

/// What switches were found to hold, as far as they use it: entries beyond a switch's last are not known.
fn held(tables: Tables, found: &Found, silent: &[NodeIx]) -> Written {
    let silent: BTreeSet<NodeIx> = silent.iter().copied().collect();
    Written::read(tables, |node, block| {
        let switch = found.node(node).and_then(|facts| facts.switch.as_ref());
        let top = usize::from(switch.map_or(0, SwitchInfo::linear_top));
        top > 0 && block * topology::routing::tables::BLOCK <= top && !silent.contains(&node)
    })
}

/// LIDs and their GUIDs are kept before the first of them is set: else a restart could give others.
pub(super) fn keep(manager: &mut Manager, model: &Model) -> Result<(), ManageError> {
    let updated = manager.record.updated(&lids::in_use(&model.graph, &model.lids));
    if let Some(path) = manager.options.record.as_deref() {
        // Also if nothing changed since it was learned from the fabric, and not written.
        if updated != manager.written_record {
            updated.write(path)?;
        }
        manager.written_record = updated.clone();
    }
    manager.record = updated;
    Ok(())
}
