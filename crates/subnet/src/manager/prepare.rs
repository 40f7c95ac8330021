//! What is found out and decided before anything is set: the nodes, who else manages, LIDs, and
//! the tables that switches hold.

use fabric::sweep::{self, Found};
use mad::sm::{SmInfo, capability};
use mad::values::SmState;
use mad::windowed::Outcome;
use mad::{Mad, MadTransport};
use topology::NodeIx;
use topology::routing::Tables;

use super::{ManageError, Manager, elapsed};
use crate::lids;
use crate::model::Model;
use crate::report::Seconds;
use crate::set::Subject;

/// What was found and decided, before anything was set.
pub(super) struct Prepared {
    pub(super) model: Model,
    pub(super) anomalies: Vec<String>,
    pub(super) seconds: Seconds,
}

impl Manager {
    /// Sweeps, decides LIDs, and reads the tables that switches have. Sets nothing.
    pub(super) fn prepare<T: MadTransport + ?Sized>(
        &mut self,
        transport: &mut T,
        tell: &mut dyn FnMut(&str),
        stop: &dyn Fn() -> bool,
    ) -> Result<Prepared, ManageError> {
        let begun = transport.now();
        let of_sweep = sweep::Options { limits: self.options.limits, ..sweep::Options::default() };
        let mut progress = |at: &sweep::Progress| tell(&format!("sweep: {} nodes", at.nodes));
        let mut found = sweep::sweep(transport, &of_sweep, &mut progress, stop)?;
        self.swept += found.tally.sent;
        if found.graph.node_count() < 2 {
            return Err(ManageError::NoLink);
        }
        self.others(transport, &found, stop)?;
        let mut seconds = Seconds { sweep: elapsed(transport, begun), ..Seconds::default() };
        let begun = transport.now();
        let mut anomalies: Vec<String> = found.anomalies.iter().map(ToString::to_string).collect();
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
        found.anomalies.clear();
        let tops: Vec<u16> =
            found.nodes.iter().map(|node| node.switch.map_or(0, |info| info.linear_top())).collect();
        let mut model = Model::new(found, ids);
        if let Some((tables, silent)) = held {
            take_over(&mut model, &tables, &silent, &tops);
        }
        Ok(Prepared { model, anomalies, seconds })
    }

    /// Is another manager master? One that is in standby is none: it looks whether this one lives.
    fn others<T: MadTransport + ?Sized>(
        &mut self,
        transport: &mut T,
        found: &Found,
        stop: &dyn Fn() -> bool,
    ) -> Result<(), ManageError> {
        let graph = &found.graph;
        let own = found.node(NodeIx(0)).map(|node| node.info.local_port());
        let is_sm =
            |port| found.port(port).is_some_and(|info| info.capability_mask() & capability::IS_SM != 0);
        let own_number = if graph.kind(NodeIx(0)) == topology::Kind::Switch { Some(0) } else { own };
        let all = graph.nodes().flat_map(|node| graph.ports(node).map(move |port| (node, port)));
        let others = all.filter(|(node, port)| {
            is_sm(*port) && !(*node == NodeIx(0) && Some(graph.number(*port)) == own_number)
        });
        let requests: Vec<(Subject, Mad)> = others
            .filter_map(|(node, port)| {
                let subject = Subject::Manager(port);
                Some((subject, subject.get(graph, &found.node(node)?.path)))
            })
            .collect();
        let mut master = None;
        let mut done = |subject: Subject, outcome: Outcome| {
            let Subject::Manager(port) = subject else { return };
            let what = match &outcome {
                Outcome::Answer(mad) => match mad.data::<SmInfo>().state() {
                    SmState::MASTER => "it is master".to_owned(),
                    SmState::DISCOVERING => "it is discovering, and may become master".to_owned(),
                    _ => return,
                },
                Outcome::Refused(_, status) => format!("it refused to say its state: {status}"),
                Outcome::Silent | Outcome::Unreachable => {
                    "its port says so, and it does not respond to SMInfo".to_owned()
                }
            };
            master.get_or_insert((fabric::names::place(graph, port), what));
        };
        self.asker.all(transport, requests.into_iter(), &mut done, stop)?;
        match master {
            Some((place, what)) => Err(ManageError::Other { place, what }),
            None => Ok(()),
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
    if let Some(path) = manager.options.record.as_deref().filter(|_| updated != manager.record) {
        updated.write(path)?;
    }
    manager.record = updated;
    Ok(())
}
