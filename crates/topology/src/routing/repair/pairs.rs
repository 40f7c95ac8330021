//! VLs by pairs of a source switch and a LID, where one VL for all traffic to a LID does not suffice.
//!
//! Pairs with an up-down route stay on VL 0. Any other pair gets the first VL after it where its route closes
//! no credit loop. So up-down routes take no place on these VLs.

use super::super::order::Order;
use super::super::tables::{NO_PATH, Tables};
use super::super::vls::{Mapping, Service, VlAssignment};
use super::{Destination, Repairer, Step};

/// Fills the entries without an up-down route anew. Returns how many routes from hosts' switches to hosts are
/// left out.
pub(super) fn repair(repairer: &Repairer<'_>, vls: u8, tables: &mut Tables) -> usize {
    let (view, width) = (repairer.view, tables.width());
    let components = view.components();
    let mut pairs = Pairs {
        repairer,
        orders: vec![Order::down_first(view, repairer.ranks); usize::from(vls) - 1],
        levels: vec![0; view.switch_count() * width],
        waits: Vec::new(),
    };
    let gaps: Vec<Vec<usize>> = repairer
        .distances
        .gaps(view.switch_count())
        .into_iter()
        .enumerate()
        .map(|(to, gaps)| {
            gaps.into_iter().map(|sw| sw as usize).filter(|sw| components[*sw] == components[to]).collect()
        })
        .collect();
    let mut left_out = 0;
    for (to, missing) in gaps.iter().enumerate().filter(|(_, missing)| !missing.is_empty()) {
        let bridges = repairer.bridges(to, missing);
        for one in repairer.destinations.at(to).iter().filter(|one| one.port != 0 && repairer.is_mine(one)) {
            let steps = pairs.taken_back(one, missing, &bridges, tables);
            left_out += pairs.host(one, &steps, tables);
        }
    }
    // Requests of managers to switches, and the responses, use the first VL, beside what is there.
    for (to, missing) in gaps.iter().enumerate() {
        if missing.iter().all(|sw| view.programs(*sw) == 0) {
            continue;
        }
        let bridges = repairer.bridges(to, missing);
        for one in repairer.destinations.at(to).iter().filter(|one| one.port == 0 && repairer.is_mine(one)) {
            let mut steps = pairs.taken_back(one, missing, &bridges, tables);
            repairer.only_for_hosts(&mut steps);
            if repairer.all_or_none(to, one, &steps, &mut pairs.orders[0], tables) {
                (0..view.switch_count()).for_each(|sw| pairs.levels[sw * width + usize::from(one.lid)] = 1);
            }
        }
    }
    let count = pairs.levels.iter().copied().max().unwrap_or(0) + 1;
    let service = Service::Each { width, levels: pairs.levels };
    tables.set_vls(if count > 1 {
        VlAssignment { count, service, mapping: Mapping::Same }
    } else {
        VlAssignment::default()
    });
    left_out
}

struct Pairs<'a> {
    repairer: &'a Repairer<'a>,
    /// Of VL 1 and those after it.
    orders: Vec<Order<'a>>,
    /// By switch and LID.
    levels: Vec<u8>,
    /// The dependencies of the present route.
    waits: Vec<(usize, usize)>,
}

impl Pairs<'_> {
    /// Clears the missing entries of a LID, and returns the steps that fill them.
    fn taken_back(
        &self,
        one: &Destination,
        missing: &[usize],
        bridges: &[super::Bridge],
        tables: &mut Tables,
    ) -> Vec<Step> {
        let width = tables.width();
        missing.iter().for_each(|sw| tables.bytes_mut()[sw * width + usize::from(one.lid)] = NO_PATH);
        self.repairer.steps(one, bridges, tables)
    }

    /// Adds the routes to a host, near switches first: each route continues by those before it. Returns how
    /// many are left out.
    fn host(&mut self, one: &Destination, steps: &[Step], tables: &mut Tables) -> usize {
        let (width, lid) = (tables.width(), usize::from(one.lid));
        let mut left_out = 0;
        for step in steps {
            tables.bytes_mut()[step.sw * width + lid] = step.port;
            let carries = self.repairer.view.hosts(step.sw) > 0;
            let whole = self.follow(step.sw, one, tables);
            let vl = match (whole, carries) {
                (true, true) => self.vl(),
                (whole, _) => whole.then_some(0),
            };
            match vl {
                Some(vl) => self.levels[step.sw * width + lid] = vl,
                None => {
                    tables.bytes_mut()[step.sw * width + lid] = NO_PATH;
                    left_out += usize::from(carries);
                }
            }
        }
        left_out
    }

    /// Collects the dependencies of the route from a switch; false if the route does not arrive.
    fn follow(&mut self, sw: usize, one: &Destination, tables: &Tables) -> bool {
        let lid = usize::from(one.lid);
        self.waits.clear();
        let mut sw = sw;
        // A step leads to earlier steps, and those to tables without loops.
        loop {
            let port = tables.table(sw)[lid];
            let Some((over, _)) = self.repairer.view.beyond(sw, port) else { return port == one.port };
            self.waits.extend(self.repairer.wait(sw, port, one, tables));
            sw = over;
        }
    }

    /// The first VL on which the present route closes no cycle.
    fn vl(&mut self) -> Option<u8> {
        let at = self.orders.iter_mut().position(|order| order.wait_for_all(&self.waits))?;
        Some(at as u8 + 1)
    }
}
