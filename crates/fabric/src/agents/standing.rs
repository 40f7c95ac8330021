//! A transport within the process, from the view of one port.

use std::time::Duration;

use mad::in_process::Fabric;
use mad::{Address, Lid, Mad, Received};
use topology::PortIx;

use super::{Agents, Carried};

/// How long a question and its answer take together.
const ROUND_TRIP: Duration = Duration::from_micros(20);

/// A port of a simulated fabric. What gets lost does so silently, as on a wire.
#[derive(Debug)]
pub struct Standing {
    /// The fabric.
    pub agents: Agents,
    /// The port.
    pub port: PortIx,
}

impl Fabric for Standing {
    fn carry(&mut self, _now: Duration, to: &Address, mad: &Mad, back: &mut Vec<(Duration, Received)>) {
        if let Carried::Answered(lid, mad) = self.agents.carry(self.port, to, mad) {
            let from = Address { lid, ..*to };
            back.push((ROUND_TRIP, Received { from, mad: *mad, undelivered: false }));
        }
    }

    fn lids(&self) -> (Lid, Lid) {
        let info = self.agents.port_info(self.port);
        (info.lid(), info.sm_lid())
    }
}
