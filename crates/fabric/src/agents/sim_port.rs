//! One port of a simulated fabric, as an in-process transport.

use std::time::Duration;

use mad::in_process::Fabric;
use mad::{Address, Lid, Mad, Received};
use topology::PortIx;

use super::{Agents, Carried};

/// The time from a request to its response.
const ROUND_TRIP: Duration = Duration::from_micros(20);

/// A port of a simulated fabric. Datagrams are lost silently, as on a cable.
#[derive(Debug)]
pub struct SimPort {
    /// The agents of the fabric.
    pub agents: Agents,
    /// The port.
    pub port: PortIx,
}

impl Fabric for SimPort {
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
