//! Prints adapters, their links and their peers.

use std::fmt::{self, Formatter};

use proto::wire::status::{AdapterInfo, LinkStatus, SessionState};

use super::{BEFORE_SECTION, Shown, banner, fact, level};

/// Everything that a link can do, in the order of the list of capabilities.
const ABILITIES: [&str; 5] = ["map", "put", "get", "atomics", "doorbell"];

/// Sessions are valid and it has not been taken down.
fn is_enabled(link: &LinkStatus) -> bool {
    link.session == SessionState::Valid && !link.taken_down
}

impl Shown<'_> {
    pub(super) fn adapters(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (node, system) = (self.node, self.system());
        if let Some(info) = &node.info {
            writeln!(f, "Driver : tieline node manager {} (pid {})", info.version, info.manager_pid)?;
        }
        writeln!(f, "Date   : {}", system.date())?;
        writeln!(f, "System : {}\n", system.uname)?;
        writeln!(f, "Number of configured local adapters found: {}\n", node.adapters().len())?;
        node.adapters().iter().try_for_each(|adapter| self.adapter(f, adapter))
    }

    fn adapter(&self, f: &mut Formatter<'_>, adapter: &AdapterInfo) -> fmt::Result {
        let Some(info) = &self.node.info else { return Ok(()) };
        let peers = self.node.nodes_seen.len();
        let enabled =
            self.node.links.iter().filter(|link| link.adapter == adapter.number && is_enabled(link)).count();
        writeln!(f, "\nAdapter {} > {:<27}: {}", adapter.number, "Type", adapter.kind)?;
        fact(f, "NodeId", info.node)?;
        fact(f, "Manager instance", format_args!("{:016x}", info.incarnation))?;
        fact(f, "Cluster", &info.cluster)?;
        fact(f, "Host", &info.host)?;
        fact(f, "Capabilities", adapter.capabilities.join(", "))?;
        let topology = match peers {
            0 | 1 => "Alone".to_owned(),
            2 => "Direct 2 nodes".to_owned(),
            many => format!("full mesh of {many} nodes"),
        };
        fact(f, "Topology type", topology)?;
        fact(f, "Number of links", self.node.links.len())?;
        fact(f, "Number of enabled links", enabled)?;
        fact(f, "Fault injection", if info.faults { "on" } else { "off" })?;
        if self.shows(level::CAPABILITIES) {
            fact(f, "Manager's uptime", format_args!("{:.0} seconds", self.node.uptime_ns as f64 / 1e9))?;
            for ability in ABILITIES {
                let has = adapter.capabilities.iter().any(|capability| capability == ability);
                fact(f, &format!("Can {ability}"), if has { "Yes" } else { "n/a" })?;
            }
        }
        Ok(())
    }

    pub(super) fn links(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let own = self.kind();
        for (number, link) in self.node.links.iter().enumerate() {
            // What the adapter is like within the host is not what leads out of it.
            let kind = if link.other_host { link.kind.name().to_uppercase() } else { own.clone() };
            let adapter = link.adapter;
            banner(f, BEFORE_SECTION, &format!("{kind} ADAPTER {adapter} LINK {number} STATE"))?;
            self.link(f, number, link)?;
            banner(
                f,
                BEFORE_SECTION,
                &format!("{kind} ADAPTER {adapter}, PARTNER INFORMATION FOR LINK {number}"),
            )?;
            partner(f, link)?;
        }
        // The level must show also where there is no link to show it of.
        if self.node.links.is_empty() && self.shows(level::HISTORY) {
            fact(f, "Links", "none")?;
        }
        Ok(())
    }

    fn link(&self, f: &mut Formatter<'_>, number: usize, link: &LinkStatus) -> fmt::Result {
        let fact = |f: &mut Formatter<'_>, name: &str, value: fmt::Arguments<'_>| {
            fact(f, &format!("Link {number} {name}"), value)
        };
        let state = if is_enabled(link) { "ENABLED" } else { "DISABLED" };
        let taken_down = if link.taken_down { " (taken down)" } else { "" };
        fact(f, "downtime", format_args!("{:.0} seconds", link.downtime_ns as f64 / 1e9))?;
        fact(f, "state", format_args!("{state}{taken_down}"))?;
        fact(f, "configuration", format_args!("to node {}", link.peer))?;
        if self.shows(level::HISTORY) {
            fact(f, "as it is since", format_args!("{:.0} seconds", link.since_ns as f64 / 1e9))?;
            fact(f, "changes of state", format_args!("{}", link.generation))?;
        }
        if self.shows(level::HEARTBEATS) {
            fact(f, "heartbeats", format_args!("{}", link.heartbeats_received))?;
            fact(f, "heartbeats missed", format_args!("{}", link.heartbeats_missed))?;
            if let (Some(latest), Some(least)) = (link.round_trip_ns, link.least_round_trip_ns) {
                let ms = |ns: u64| ns as f64 / 1e6;
                fact(f, "round trip", format_args!("{:.2} ms (least {:.2} ms)", ms(latest), ms(least)))?;
            }
        }
        if self.shows(level::FAULTS) {
            fact(f, "faults on purpose", format_args!("{}", link.faults))?;
        }
        Ok(())
    }
}

fn partner(f: &mut Formatter<'_>, link: &LinkStatus) -> fmt::Result {
    if !is_enabled(link) {
        return writeln!(f, "            Partner information not available");
    }
    let swapped =
        if link.partner == link.peer { String::new() } else { format!(" (should be {})", link.peer) };
    fact(f, "Partner node", format_args!("{}{swapped}", link.partner))?;
    fact(f, "Partner host", &link.peer_host)
}
