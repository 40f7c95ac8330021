//! The figures of the subnet manager.

use super::{Entry, Fabric, fabric};
use crate::patterns::subnet::Load;

/// Ports of a switch of the tree with 11,664 hosts and 1,620 switches, and of that with 432 and 180.
const LARGE: u32 = 36;
const SMALL: u32 = 12;

const fn subnet(id: &'static str, what: &'static str, load: Load, radix: u32, limit: f64) -> Entry {
    fabric(id, what, Fabric::Subnet { load, radix, limit })
}

pub(super) const BRING_UP: Entry = subnet(
    "subnet.bringup.11664",
    "tieline fabric manage: from its start until all links of 11,664 hosts are active",
    Load::BringUp,
    LARGE,
    6.0,
);
pub(super) const ONE_LINK: Entry = subnet(
    "subnet.onelink.11664",
    "tieline fabric manage: from the loss of a cable of a leaf until the last LFT entry is written",
    Load::OneLink,
    LARGE,
    1.0,
);
pub(super) const SWITCH: Entry = subnet(
    "subnet.switch.11664",
    "tieline fabric manage: from the loss of a switch of the top until the last LFT entry is written",
    Load::Switch,
    LARGE,
    2.0,
);
pub(super) const FAILOVER: Entry = subnet(
    "subnet.failover",
    "tieline fabric manage, 432 hosts: from the end of the master until another one has taken over",
    Load::Failover { tuned: false },
    SMALL,
    3.0,
);
pub(super) const FAILOVER_TUNED: Entry =
    subnet("subnet.failover.tuned", "the same, with --poll 100", Load::Failover { tuned: true }, SMALL, 1.0);
pub(super) const MEMORY: Entry = subnet(
    "subnet.memory.11664",
    "memory of tieline fabric manage with 11,664 hosts",
    Load::Memory,
    LARGE,
    150.0,
);
pub(super) const PATHS: Entry = subnet(
    "sa.path",
    "path records per second of 11,664 hosts, compared with a program that sends requests back",
    Load::Paths,
    LARGE,
    0.8,
);
