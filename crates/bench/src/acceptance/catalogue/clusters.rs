//! The figures of whole clusters: what their managers cost, and how long tests of them take.

use super::{Entry, Kind, Needs, entry};
use crate::verdict::Goal;

pub(super) const MANAGER_IDLE: Entry = entry(
    "manager.idle",
    Needs::Nine,
    "processor time per minute of a manager with 8 sessions",
    Kind::IdleCpu { at_most: 60.0 },
);
pub(super) const MANAGER_IDLE_PSS: Entry = entry(
    "manager.idle.pss",
    Needs::Nine,
    "memory of a manager with 8 sessions",
    Kind::IdlePss { at_most: 8.0 },
);
pub(super) const CONNTEST: Entry = entry(
    "conntest.9nodes",
    Needs::Nine,
    "data generated, moved and checked between nine nodes, compared with a cold copy",
    Kind::Load { goal: Goal::at_least(0.25) },
);
pub(super) const VERIFY_QUICK: Entry = entry(
    "verify.quick.9nodes",
    Needs::Nine,
    "verify --quick of nine running nodes",
    Kind::Verify { quick: true, at_most: 60.0 },
);
pub(super) const VERIFY_HEALTH: Entry = entry(
    "verify.health.9nodes",
    Needs::Nine,
    "verify --health of nine nodes",
    Kind::Verify { quick: false, at_most: 5.0 },
);
pub(super) const UP: Entry = entry(
    "up.64",
    Needs::SixtyFour,
    "time until 64 nodes are up, all sessions valid",
    Kind::Up { at_most: 5.0 },
);
pub(super) const UP_PSS: Entry = entry(
    "up.64.pss",
    Needs::SixtyFour,
    "memory of 64 managers",
    Kind::UpPss { each: false, at_most: 512.0 },
);

/// A manager among hosts that share nothing, all of which have sessions with all.
pub(super) const HOSTS_IDLE: Entry = entry(
    "hosts.idle",
    Needs::SixteenHosts,
    "processor time per minute of a manager with 15 sessions by TLS",
    Kind::IdleCpu { at_most: 100.0 },
);

/// All hosts tested by one command on the first of them.
pub(super) const HOSTS_VERIFY_4: Entry = entry(
    "hosts.verify.quick.4",
    Needs::FourHosts,
    "verify --running --quick of four hosts in namespaces",
    Kind::Verify { quick: true, at_most: 30.0 },
);
/// Between two of the hosts.
pub(super) const SHADOW: Entry = entry(
    "shadow.store",
    Needs::FourHosts,
    "C API: 64 bytes stored through a shadow map and flushed, compared with 64 bytes copied and flushed and 5 us",
    Kind::Shadow { above_us: 5.0 },
);
/// See [`HOSTS_VERIFY_4`].
pub(super) const HOSTS_VERIFY_16: Entry = entry(
    "hosts.verify.quick.16",
    Needs::SixteenHosts,
    "verify --running --quick of sixteen hosts in namespaces",
    Kind::Verify { quick: true, at_most: 90.0 },
);

/// From making the cluster on the first host to the last session.
pub(super) const HOSTS_UP: Entry = entry(
    "hosts.up.64",
    Needs::SixtyFourHosts,
    "time until 64 hosts in namespaces have made a cluster and joined it, all sessions valid",
    Kind::Up { at_most: 10.0 },
);

pub(super) const HOSTS_UP_PSS: Entry = entry(
    "hosts.up.64.pss",
    Needs::SixtyFourHosts,
    "memory of a manager with 63 sessions by TLS",
    Kind::UpPss { each: true, at_most: 10.0 },
);
