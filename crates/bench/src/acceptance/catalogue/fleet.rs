//! The figures of commands on many hosts.

use super::{Entry, Kind, Needs, entry};
use crate::{patterns::fleet::Load, verdict::Goal};

/// Beside the rival that the load names.
pub(super) const fn fleet(id: &'static str, what: &'static str, load: Load, at_most: f64) -> Entry {
    entry(id, Needs::Nothing, what, Kind::Fleet { load, goal: Goal::at_most(at_most) })
}

pub(super) const RUN: Entry = fleet(
    "fleet.run.64",
    "tieline fleet: `true` on 64 ssh servers of this machine, no connection kept",
    Load::Run { clush: false },
    1.05,
);
pub(super) const RUN_CLUSH: Entry =
    fleet("fleet.run.64.clush", "the same, beside ClusterShell", Load::Run { clush: true }, 1.1);
pub(super) const WARM: Entry =
    fleet("fleet.run.64.warm", "tieline fleet: `true` on 64 ssh servers, connections kept", Load::Warm, 0.3);
/// The whole run may take a second more than the time-out of a host.
pub(super) const DEAD: Entry = fleet(
    "fleet.dead",
    "tieline fleet: `true` on 64 hosts of which 3 do not answer, compared with the time-out and 1 s",
    Load::Dead,
    1.0,
);
pub(super) const COPY: Entry = fleet(
    "fleet.copy.100MB",
    "tieline fleet: 100 MB to 16 ssh servers of this machine, in memory",
    Load::Copy,
    1.1,
);
