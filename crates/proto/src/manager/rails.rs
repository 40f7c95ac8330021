//! Rails that programs report as failed: they are shown, and nothing is decided by them.

use std::collections::BTreeMap;

use super::programs::printable;
use super::status::{count, cut, fitting, nanos};
use super::{Manager, ProgramConn};
use crate::ids::NodeId;
use crate::time::Instant;
use crate::wire::network::{MAX_RAIL_REASON_BYTES, MAX_RAILS, RailDown};
use crate::wire::program::{ImportSlot, Refusal, Reply};
use crate::wire::status::{NodeStatus, ReducedRail};

/// What the list may take of a datagram.
const REDUCED_BYTES: usize = 3 * 1024;

fn shown(why: &str) -> String {
    cut(printable(why), MAX_RAIL_REASON_BYTES)
}

impl Manager {
    /// A program says which rails of a connection it does not use.
    pub(super) fn tell_rails(
        &mut self,
        program: ProgramConn,
        import: ImportSlot,
        down: Vec<RailDown>,
    ) -> Result<Reply, Refusal> {
        let now = self.now;
        let Some(held) = self.imports.by_slot.get_mut(&import).filter(|held| held.program == program) else {
            return Err(Refusal::Invalid(format!("this program does not hold import {}", import.0)));
        };
        if down.len() > MAX_RAILS
            || down.iter().any(|down| !(1..=MAX_RAILS).contains(&usize::from(down.rail)))
        {
            return Err(Refusal::Invalid(format!("a connection has rails 1 to {MAX_RAILS}")));
        }
        let before = std::mem::take(&mut held.rails_down);
        let entry = |down: RailDown| {
            let known = before.iter().find(|(known, _)| known.rail == down.rail);
            (RailDown { why: shown(&down.why), ..down }, known.map_or(now, |(_, since)| *since))
        };
        held.rails_down = down.into_iter().map(entry).collect();
        Ok(Reply::Done)
    }

    /// By peer and rail.
    pub(super) fn reduced(&self, now: Instant) -> Vec<ReducedRail> {
        let mut rails: BTreeMap<(NodeId, u8), (usize, &str, Instant)> = BTreeMap::new();
        for import in self.imports.by_slot.values().filter(|import| import.alive) {
            for (down, since) in &import.rails_down {
                let rail = rails.entry((import.node, down.rail)).or_insert((0, &down.why, *since));
                rail.0 += 1;
                if *since < rail.2 {
                    (rail.1, rail.2) = (&down.why, *since);
                }
            }
        }
        let rail =
            |((peer, rail), (connections, why, since)): ((NodeId, u8), (usize, &str, Instant))| ReducedRail {
                peer,
                rail,
                connections: count(connections),
                since_ns: nanos(now.since(since)),
                why: why.to_owned(),
            };
        let mut list: Vec<_> = rails.into_iter().map(rail).collect();
        list.truncate(fitting(&list, REDUCED_BYTES));
        list
    }
}

/// What another manager says of its programs' rails.
pub(super) fn clean_reduced(status: &mut NodeStatus) {
    status.reduced.iter_mut().for_each(|rail| rail.why = shown(&rail.why));
    status.reduced.truncate(fitting(&status.reduced, REDUCED_BYTES));
}
