//! Follows the routes through the tables.

use super::cycle::Waits;
use super::{Checked, Fault, Finding, NAMED, is_host};
use crate::routing::tables::{BLOCK, NO_PATH, Tables};
use crate::routing::view::{END, NOWHERE, View};
use crate::routing::vls::{Mapping, Service, VlAssignment};
use crate::{Graph, PortIx};

/// Not walked over yet.
const FRESH: u32 = u32::MAX;
/// No route to the end from here.
const LOST: u32 = u32::MAX - 1;
/// On the path that is being walked.
const WALKING: u32 = u32::MAX - 2;

/// What the routes are walked on.
pub(super) struct Walker<'a> {
    pub(super) graph: &'a Graph,
    pub(super) view: &'a View,
    pub(super) tables: &'a Tables,
    pub(super) components: &'a [u32],
}

/// Where a LID is.
struct End {
    lid: u16,
    column: usize,
    /// The switch where it hangs, and the port there.
    sw: usize,
    port: u8,
    host: bool,
    /// Is it an aggregation node's?
    aggregation: bool,
}

/// What a walk needs, made once.
struct Scratch {
    /// The entries of one block of LIDs, switch after switch.
    block: Vec<u8>,
    /// Hops from each switch to the end.
    hops: Vec<u32>,
    /// Switches on the path that is being walked.
    path: Vec<u32>,
    waits: Waits,
    checked: Checked,
    /// Switches that carry hosts.
    sources: Vec<u32>,
    /// Switches that carry none.
    others: Vec<u32>,
    /// Per cable, VL: the walk that last went over it.
    seen: Vec<u32>,
    walk: u32,
}

impl Walker<'_> {
    /// Walks to all LIDs of some blocks.
    pub(super) fn walk(&self, blocks: &[&[(u16, PortIx)]]) -> (Checked, Waits) {
        let vls = self.tables.vls();
        let switches = self.view.switch_count();
        let plain = matches!((&vls.service, &vls.mapping), (Service::One, Mapping::Same));
        let channels = if plain { 0 } else { switches * self.view.stride() * usize::from(vls.count.max(1)) };
        let mut scratch = Scratch {
            block: vec![NO_PATH; switches * BLOCK],
            hops: vec![FRESH; switches],
            path: Vec::new(),
            waits: Waits::new(self.view, vls.count),
            checked: Checked { vls: 1, ..Checked::default() },
            sources: self.sources(true),
            others: self.sources(false),
            seen: vec![0; channels],
            walk: 0,
        };
        for block in blocks {
            self.load(&mut scratch, block);
            // Nothing is sent to what was taken out of the fabric on purpose.
            for (lid, end) in block.iter().filter(|(_, end)| !self.graph.is_dead(self.graph.owner(*end))) {
                let Some((sw, port)) = self.view.attachment(self.graph, *end) else {
                    let lost = scratch.sources.len() as u64 * u64::from(is_host(self.graph, *end));
                    scratch.checked.pairs += lost;
                    scratch.checked.cut += lost;
                    continue;
                };
                let host = is_host(self.graph, *end);
                let aggregation = self.graph.is_aggregation(self.graph.owner(*end));
                let end = End { lid: *lid, column: usize::from(*lid) % BLOCK, sw, port, host, aggregation };
                self.reach(&mut scratch, &end, host && plain);
                if host && !plain {
                    self.vls(&mut scratch, &end, vls);
                }
            }
        }
        (scratch.checked, scratch.waits)
    }

    /// Switches that carry hosts, or those that do not.
    fn sources(&self, hosts: bool) -> Vec<u32> {
        (0..self.view.switch_count() as u32)
            .filter(|sw| (self.view.hosts(*sw as usize) > 0) == hosts)
            .collect()
    }

    fn load(&self, scratch: &mut Scratch, block: &[(u16, PortIx)]) {
        let Some((lid, _)) = block.first() else { return };
        for (sw, own) in scratch.block.chunks_mut(BLOCK).enumerate() {
            let switch = self.view.switch(sw);
            // Tables that were read from elsewhere may lack switches.
            let table = if self.tables.switches().get(sw) == Some(&switch) {
                Some(sw)
            } else {
                self.tables.index_of(switch)
            };
            match table.and_then(|sw| self.tables.block(sw, usize::from(*lid) / BLOCK)) {
                Some(entries) => own.copy_from_slice(entries),
                None => own.fill(NO_PATH),
            }
        }
    }

    /// Follows the routes from all sources; notes what waits for what, if all paths are on one VL.
    fn reach(&self, scratch: &mut Scratch, end: &End, note: bool) {
        scratch.hops.fill(FRESH);
        for index in 0..scratch.sources.len() {
            let source = scratch.sources[index] as usize;
            // What aggregation nodes can't reach is counted apart, and not named.
            let apart = self.view.programs(source) == 0 || end.aggregation;
            let named = scratch.checked.findings.len();
            if scratch.hops[source] == FRESH {
                self.follow(scratch, end, source, note);
            }
            if apart {
                scratch.checked.findings.truncate(named);
            }
            let hops = scratch.hops[source];
            let whole = self.components[source] == self.components[end.sw];
            let checked = &mut scratch.checked;
            checked.pairs += u64::from(end.host);
            match (hops == LOST, end.host) {
                (true, true) if whole && apart => checked.lost_aggregation += 1,
                (true, true) if whole => checked.lost += 1,
                (true, true) => checked.cut += 1,
                (true, false) => checked.lost_switches += u64::from(whole && !apart),
                (false, true) => checked.most_hops = checked.most_hops.max(hops),
                (false, false) => {}
            }
        }
        self.reach_others(scratch, end);
    }

    /// Follows the routes from switches that carry no hosts, as managers' responses go.
    fn reach_others(&self, scratch: &mut Scratch, end: &End) {
        if !end.host {
            return;
        }
        for index in 0..scratch.others.len() {
            let source = scratch.others[index] as usize;
            if self.components[source] != self.components[end.sw] {
                continue;
            }
            // Entries that no host's route uses do no harm: they are counted, not named.
            let named = scratch.checked.findings.len();
            if scratch.hops[source] == FRESH {
                self.follow(scratch, end, source, false);
            }
            scratch.checked.findings.truncate(named);
            scratch.checked.lost_switches += u64::from(end.host && scratch.hops[source] == LOST);
        }
    }

    /// From one source to the end, or to where the route is known.
    fn follow(&self, scratch: &mut Scratch, end: &End, source: usize, note: bool) {
        let far = self.view.far();
        let stride = self.view.stride();
        scratch.path.clear();
        let mut sw = source;
        let mut came = usize::MAX;
        let outcome = loop {
            let hops = scratch.hops[sw];
            let port = scratch.block[sw * BLOCK + end.column];
            let known = hops != FRESH;
            if known && hops >= WALKING {
                if hops == WALKING {
                    self.name(scratch, Fault::Loop, sw, end, port, source);
                }
                break LOST;
            }
            let beyond = if port == NO_PATH || usize::from(port) >= stride {
                NOWHERE
            } else {
                far[sw * stride + usize::from(port)]
            };
            if note && came != usize::MAX && beyond < END {
                scratch.waits.note(came, 0, port, 0);
            }
            if known {
                break hops;
            }
            scratch.hops[sw] = WALKING;
            scratch.path.push(sw as u32);
            if beyond >= END {
                match self.arrival(end, sw, port) {
                    None => break 0,
                    Some(fault) => {
                        self.name(scratch, fault, sw, end, port, source);
                        break LOST;
                    }
                }
            }
            came = sw * stride + usize::from(port);
            sw = (beyond >> 8) as usize;
        };
        let mut hops = outcome;
        for sw in scratch.path.drain(..).rev() {
            hops = if hops == LOST { LOST } else { hops + 1 };
            scratch.hops[sw as usize] = hops;
        }
    }

    /// What is wrong where a route ends.
    fn arrival(&self, end: &End, sw: usize, port: u8) -> Option<Fault> {
        match port {
            NO_PATH => Some(Fault::NoEntry),
            _ if sw == end.sw && port == end.port => None,
            0 => Some(Fault::WrongSwitch),
            _ if self.view.is_end(sw, port) => Some(Fault::WrongEnd),
            _ => Some(Fault::DeadPort),
        }
    }

    fn name(&self, scratch: &mut Scratch, fault: Fault, sw: usize, end: &End, port: u8, from: usize) {
        let cut = self.components[sw] != self.components[end.sw] && fault == Fault::NoEntry;
        if scratch.checked.findings.len() < NAMED && end.host && !cut {
            let (switch, from) = (self.view.switch(sw), self.view.switch(from));
            scratch.checked.findings.push(Finding { fault, switch, lid: end.lid, port, from });
        }
    }

    /// Follows the routes from all sources again, each on its VL.
    fn vls(&self, scratch: &mut Scratch, end: &End, vls: &VlAssignment) {
        // Sources of one level share what they have walked.
        let mut levels = 0_u16;
        for source in &scratch.sources {
            levels |= 1 << (vls.level(*source as usize, end.lid, end.sw) % 16);
        }
        for level in (0..16_u8).filter(|level| levels & 1 << level != 0) {
            scratch.walk += 1;
            for index in 0..scratch.sources.len() {
                let source = scratch.sources[index] as usize;
                let own = vls.level(source, end.lid, end.sw) == level;
                if own && scratch.hops[source] < WALKING {
                    self.follow_vl(scratch, end, vls, source, level);
                }
            }
        }
    }

    fn follow_vl(&self, scratch: &mut Scratch, end: &End, vls: &VlAssignment, source: usize, level: u8) {
        let stride = self.view.stride();
        // Hosts send on the VL of their own table; only buffers of switches wait for each other.
        let (mut sw, mut came) = (source, None::<(usize, u8)>);
        let mut entry = 0;
        loop {
            let port = scratch.block[sw * BLOCK + end.column];
            let Some((there, far_port)) = self.view.beyond(sw, port).filter(|_| sw != end.sw) else {
                return;
            };
            let vl = vls.vl(sw, entry, port, level);
            if vl >= vls.count {
                self.name(scratch, Fault::NoVl, sw, end, port, source);
                scratch.checked.lost += 1;
                return;
            }
            scratch.checked.vls = scratch.checked.vls.max(vl + 1);
            let channel = sw * stride + usize::from(port);
            if let Some((came, before)) = came {
                scratch.waits.note(came, before, port, vl);
            }
            let seen = &mut scratch.seen[channel * usize::from(vls.count) + usize::from(vl)];
            if *seen == scratch.walk {
                return;
            }
            *seen = scratch.walk;
            came = Some((channel, vl));
            entry = far_port;
            sw = there;
        }
    }
}
