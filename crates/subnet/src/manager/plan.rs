//! What bringing a fabric up would set, without setting it.

use mad::MadTransport;
use mad::values::PortState;
use topology::Graph;
use topology::routing::Tables;

use super::prepare::Prepared;
use super::{ManageError, Manager, how};
use crate::model::Model;
use crate::report::Sets;
use crate::routes::{Manner, Routes};
use crate::set::Set;
use crate::wanted::Step;

/// What [`Manager::plan`] found.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Planned {
    /// How many Sets there are.
    pub sets: Sets,
    /// The routing engine.
    pub engine: &'static str,
    /// Why that one.
    pub why: String,
    /// In which steps the tables would be written.
    pub manner: Manner,
    /// Pairs of a switch with CAs and a LID of a CA that have no route though cables lead there.
    pub lost_pairs: u64,
    /// What did not fit in the sweep.
    pub findings: Vec<String>,
}

impl Manager {
    /// Every Set that bringing the fabric up would send, in its order; none is sent. `each` gets them with
    /// the graph that names their ports.
    ///
    /// # Errors
    /// As of [`bring_up`](Self::bring_up).
    pub fn plan<T: MadTransport + ?Sized>(
        &mut self,
        transport: &mut T,
        tell: &mut dyn FnMut(&str),
        each: &mut dyn FnMut(&Set, &Graph),
        stop: &dyn Fn() -> bool,
    ) -> Result<Planned, ManageError> {
        let Prepared { mut model, anomalies, .. } = self.at_desk(transport, |this, front| {
            this.introduce(front, stop)?;
            let around = this.look_round(front, tell, stop)?;
            this.only_one(front, &around.peers)?;
            this.prepare(front, around, tell, stop)
        })?;
        let routes = Routes::first(&model.graph, &model.lids, self.options.engine)?;
        let mut sets = Sets::default();
        let mut one = |set: &Set, graph: &Graph| {
            sets.count(set);
            each(set, graph);
        };
        let arm: Vec<Set> = model.port_sets(Step::Arm).collect();
        arm.iter().for_each(|set| one(set, &model.graph));
        model.switch_sets().for_each(|set| one(&set, &model.graph));
        let (manner, steps) = how(&model, &routes);
        for stage in &steps {
            model.written.to_write(&stage.tables).for_each(|set| one(&set, &model.graph));
            if steps.len() > 1 {
                assume_written(&mut model, &stage.tables);
            }
        }
        arm.iter().for_each(|set| assume(&mut model, set));
        model.port_sets(Step::Activate).for_each(|set| one(&set, &model.graph));
        let (engine, why) = (routes.engine.word(), routes.why);
        Ok(Planned { sets, engine, why, manner, lost_pairs: routes.checked.lost, findings: anomalies })
    }
}

/// As if a Set had been answered.
fn assume(model: &mut Model, set: &Set) {
    if let Set::Port(port, info) = set
        && let Some(now) = model.ports.get_mut(port.index()).and_then(Option::as_mut)
    {
        let state = if info.state() == PortState::NO_CHANGE { now.state() } else { info.state() };
        let mut to_be = *info;
        to_be.set_state(state).set_physical_state(now.physical_state()).set_down_default(now.down_default());
        to_be.set_width_enabled(now.width_enabled()).set_speed_enabled(now.speed_enabled());
        to_be.set_speed_ext_enabled(now.speed_ext_enabled()).set_speed_ext2_enabled(now.speed_ext2_enabled());
        *now = to_be;
    }
}

fn assume_written(model: &mut Model, tables: &Tables) {
    let sets: Vec<Set> = model.written.to_write(tables).collect();
    for set in sets {
        if let Set::Table(node, block, entries) = set {
            model.written.confirm(node, block, Some(&entries));
        }
    }
}
