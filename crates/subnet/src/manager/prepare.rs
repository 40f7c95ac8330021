//! What is found out and decided before anything is set: the nodes, who else manages, LIDs, and
//! the tables that switches hold.

use std::collections::BTreeSet;

use fabric::sweep::{self, Found};
use mad::MadTransport;
use topology::routing::Tables;
use topology::{NodeIx, PortIx};

use super::{ManageError, Manager, elapsed};
use crate::flaps;
use crate::keys::Keys;
use crate::lids;
use crate::model::Model;
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
        let found = sweep::sweep(transport, &of_sweep, &mut progress, stop)?;
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
        let ids = lids::assign(&found.graph, &self.record)?;
        let held = if fabric::tables::has_lids(&found.graph) {
            tell("reading the forwarding tables (LFTs) of the switches");
            let read = fabric::tables::read(transport, &found, self.options.limits, stop)?;
            anomalies.extend(read.why_none.filter(|_| !stop()));
            read.tables.map(|tables| (tables, read.silent))
        } else {
            None
        };
        seconds.read_tables = elapsed(transport, begun);
        if stop() {
            return Err(ManageError::Stopped);
        }
        let tops: Vec<u16> =
            found.nodes.iter().map(|node| node.switch.map_or(0, |info| info.linear_top())).collect();
        let mut model = Model::new(found, home, ids);
        if let Some(partitions) = &self.options.partitions {
            let ends = model.lids.iter().map(|one| one.1);
            model.keys = Some(Keys::new(&model.graph, partitions, ends, model.here()));
        }
        if let Some((tables, silent)) = held {
            take_over(&mut model, &tables, &silent, &tops);
        }
        self.keep_held(&mut model, transport.now());
        Ok(Prepared { model, anomalies, seconds })
    }
}

impl Manager {
    /// Cables that are held back stay so in a new model.
    fn keep_held(&mut self, model: &mut Model, now: std::time::Duration) {
        let held = model.whole.links().map(|(port, far)| port.min(far));
        let held: BTreeSet<PortIx> = held
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
fn take_over(model: &mut Model, tables: &Tables, silent: &[NodeIx], tops: &[u16]) {
    let switches: Vec<NodeIx> = tables.switches().to_vec();
    for (row, node) in switches.iter().enumerate().filter(|(_, node)| !silent.contains(node)) {
        let top = usize::from(tops.get(node.index()).copied().unwrap_or(0));
        for block in 0..model.written.blocks() {
            let known = top > 0 && block * topology::routing::tables::BLOCK <= top;
            let entries = tables.block(row, block).filter(|_| known).and_then(|it| it.try_into().ok());
            model.written.confirm(*node, block as u16, entries.as_ref());
        }
    }
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
