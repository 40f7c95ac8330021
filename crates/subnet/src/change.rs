//! What a port's new report means, compared with what was known.

use mad::sm::{NodeInfo, PortInfo};
use mad::values::{PhysicalState, PortState};
use topology::PortIx;

use crate::model::Model;

/// What became of the cable at a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// It is down now: the cable as [`Model::down`] has it.
    Down(PortIx),
    /// It is up, and is to be initialised: it came back, or went down and up in between. Who is behind it is
    /// to be asked.
    Up(PortIx),
    /// There is a cable that was not known.
    New(PortIx),
}

/// Is there a partner at the other end?
pub(crate) fn is_up(info: &PortInfo) -> bool {
    info.physical_state() == PhysicalState::LINK_UP || info.state() >= PortState::INITIALIZE
}

/// What changed at an external port of a switch; `None` if nothing did.
#[must_use]
pub fn of_port(model: &Model, port: PortIx, now: &PortInfo) -> Option<Change> {
    let before = model.ports.get(port.index()).and_then(Option::as_ref);
    let Some(cable) = model.cable(port) else { return is_up(now).then_some(Change::New(port)) };
    let was_down = model.down.contains(&cable);
    match (is_up(now), was_down) {
        (false, false) => Some(Change::Down(cable)),
        (true, true) => Some(Change::Up(port)),
        (true, false) => {
            let fell = before.is_none_or(|before| before.state() > now.state());
            fell.then_some(Change::Up(port))
        }
        (false, true) => None,
    }
}

/// Is the node that responds behind a port the one that was there before, by the same of its ports?
#[must_use]
pub fn is_same_peer(model: &Model, port: PortIx, info: &NodeInfo) -> bool {
    model.whole.peer(port).is_some_and(|far| {
        let owner = model.whole.owner(far);
        model.whole.node_guid(owner) == info.node_guid().0 && model.whole.number(far) == info.local_port()
    })
}
