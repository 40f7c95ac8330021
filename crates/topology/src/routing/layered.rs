//! The engine `layered`: shortest routes on any graph, deadlock-free by virtual lanes.
//!
//! Destination by destination the shortest route of least load is taken (Hoefler, Schneider and Lumsdaine,
//! "Optimized routing for large-scale InfiniBand networks", 2009). All routes to a destination are put on the
//! first VL where nothing then waits for itself (after Domke, Hoefler and Nagel, "Deadlock-free oblivious
//! routing for arbitrary topologies", 2011, who do it pair by pair). A destination that fits on no VL goes up
//! and down on the last one, which is kept for that: so any number of VLs is enough, one too.

use super::RouteError;
use super::destinations::Destinations;
use super::distances::Distances;
use super::form::{self, Form};
use super::order::Order;
use super::ranks::Ranks;
use super::tables::{NO_PATH, Tables};
use super::view::View;
use super::vls::{MAX_VLS, Mapping, Service, VlAssignment};

/// Not reached.
const FAR: u16 = u16::MAX;

/// What was filled.
pub(crate) struct Filled {
    /// Destinations that the form does not serve.
    pub(crate) rest: usize,
    /// By LID: is it reached by up/down routes, on the last VL?
    pub(crate) up_down: Vec<bool>,
}

/// Fills tables and sets the VLs. Where there is a form, its routes are taken for all destinations that it
/// serves; the rest goes up and down on a VL after its own. Switches from which no route goes up and down
/// have no entry.
pub(crate) fn fill(
    view: &View,
    ranks: &Ranks,
    destinations: &Destinations,
    vls: u8,
    form: Option<&dyn Form>,
    tables: &mut Tables,
) -> Result<Filled, RouteError> {
    let own = form.map_or(0, Form::vls);
    if vls == 0 || vls > MAX_VLS {
        return Err(RouteError::VlCount(vls));
    }
    if own > 0 && vls <= own {
        return Err(RouteError::FewVls { need: own + 1, have: vls });
    }
    let mut layered = Layered::new(view, ranks, if own > 0 { 1 } else { vls });
    let mut levels = vec![0_u8; tables.width()];
    let mut count = own.max(1);
    let mut filled = Filled { rest: 0, up_down: vec![false; tables.width()] };
    let last = own + layered.orders.len() as u8;
    // Switches that the form does not serve.
    let mut unserved = vec![false; view.switch_count()];
    for (sw, one) in destinations.in_turn() {
        layered.breadth_first(sw);
        let formed = form.is_some_and(|form| form.ports(sw, one, &mut layered.port));
        let vl = match (formed, own) {
            (true, 1..) => 0,
            (formed, _) => own + layered.place(sw, formed),
        };
        filled.up_down[usize::from(one.lid)] = vl == last && (own == 0 || !formed);
        if form.is_some() && !formed {
            filled.rest += 1;
            unserved[sw] = true;
        }
        count = count.max(vl + 1);
        levels[usize::from(one.lid)] = vl;
        layered.take(sw);
        let width = tables.width();
        let bytes = tables.bytes_mut();
        for (at, port) in layered.port.iter().enumerate().filter(|(_, port)| **port != NO_PATH) {
            bytes[at * width + usize::from(one.lid)] = *port;
        }
        bytes[sw * width + usize::from(one.lid)] = one.port;
    }
    tables.set_vls(match form.filter(|_| own > 0) {
        Some(form) => vls_of(view, form, &unserved, count),
        None if count > 1 => {
            VlAssignment { count, service: Service::Destination(levels), mapping: Mapping::Same }
        }
        None => VlAssignment::default(),
    });
    Ok(filled)
}

/// VLs of a form: levels pair by pair, and one more for the destinations that it does not serve.
fn vls_of(view: &View, form: &dyn Form, unserved: &[bool], count: u8) -> VlAssignment {
    let switches = view.switch_count();
    let mut levels = vec![0; switches * switches];
    for from in (0..switches).filter(|sw| view.hosts(*sw) > 0) {
        for (to, unserved) in unserved.iter().enumerate() {
            levels[from * switches + to] = if *unserved { form.levels() } else { form.level(from, to) };
        }
    }
    VlAssignment { count, service: Service::Pair { switches, levels }, mapping: form::mapping(view, form) }
}

/// The work on one destination after the other.
struct Layered<'a> {
    view: &'a View,
    ranks: &'a Ranks,
    /// One for each VL but the last; with one VL there is none.
    orders: Vec<Order<'a>>,
    up_down: Option<Distances>,
    /// Routes that use each cable, weighed by hosts.
    load: Vec<u64>,
    /// Of the destination at hand: hops, switches from near to far, load of the best route, port, hosts
    /// behind.
    hops: Vec<u16>,
    near: Vec<u32>,
    cost: Vec<u64>,
    port: Vec<u8>,
    behind: Vec<u32>,
    /// What waits for what on its routes.
    waits: Vec<(usize, usize)>,
}

impl<'a> Layered<'a> {
    fn new(view: &'a View, ranks: &'a Ranks, vls: u8) -> Self {
        let switches = view.switch_count();
        Self {
            view,
            ranks,
            orders: vec![Order::new(view, ranks); usize::from(vls) - 1],
            up_down: None,
            load: vec![0; switches * view.stride()],
            hops: vec![FAR; switches],
            near: Vec::with_capacity(switches),
            cost: vec![0; switches],
            port: vec![NO_PATH; switches],
            behind: vec![0; switches],
            waits: Vec::new(),
        }
    }

    fn breadth_first(&mut self, from: usize) {
        self.hops.fill(FAR);
        self.near.clear();
        self.hops[from] = 0;
        self.near.push(from as u32);
        let mut at = 0;
        while at < self.near.len() {
            let sw = self.near[at] as usize;
            at += 1;
            for near in self.view.neighbours(sw) {
                let hops = &mut self.hops[near.sw as usize];
                if *hops == FAR {
                    *hops = u16::MAX - 1;
                    self.near.push(near.sw);
                }
            }
            for near in self.view.neighbours(sw) {
                let further = self.hops[sw] + 1;
                let hops = &mut self.hops[near.sw as usize];
                *hops = (*hops).min(further);
            }
        }
    }

    /// Finds the routes and a VL for them; `formed` routes are tried on the first VL as they are.
    fn place(&mut self, to: usize, formed: bool) -> u8 {
        let last = self.orders.len();
        if last > 0 && formed {
            self.count();
            if self.fits(0) {
                return 0;
            }
        }
        if last > 0 {
            self.shortest(to);
            self.count();
            for vl in 0..last {
                if self.fits(vl) {
                    return vl as u8;
                }
            }
        }
        self.up_and_down(to);
        self.count();
        last as u8
    }

    /// The shortest routes of least load to a switch.
    fn shortest(&mut self, to: usize) {
        self.port.fill(NO_PATH);
        self.cost[to] = 0;
        for at in 1..self.near.len() {
            let sw = self.near[at] as usize;
            let hops = self.hops[sw];
            let mut best = (u64::MAX, NO_PATH);
            for near in self.view.neighbours(sw) {
                let over = near.sw as usize;
                if self.hops[over] + 1 == hops {
                    best = self.cheapest(sw, *near, self.cost[over], best);
                }
            }
            (self.cost[sw], self.port[sw]) = best;
        }
    }

    #[inline]
    fn cheapest(&self, sw: usize, near: super::view::Neighbour, behind: u64, best: (u64, u8)) -> (u64, u8) {
        let load = |port: u8| self.load[sw * self.view.stride() + usize::from(port)];
        if near.cables == 1 {
            let cost = behind + load(near.port);
            return if cost < best.0 { (cost, near.port) } else { best };
        }
        let cables = self.view.cables(sw, near).map(|port| (behind + load(port), port));
        cables.fold(best, |best, one| if one.0 < best.0 { one } else { best })
    }

    /// Routes that go up and then down.
    fn up_and_down(&mut self, to: usize) {
        let distances = self.up_down.get_or_insert_with(|| Distances::up_down(self.view, self.ranks));
        let distances = std::mem::replace(distances, Distances::none());
        self.near.sort_by_key(|sw| (distances.hops(*sw as usize, to).unwrap_or(FAR), *sw));
        self.port.fill(NO_PATH);
        self.cost[to] = 0;
        for at in 0..self.near.len() {
            let sw = self.near[at] as usize;
            if sw == to || distances.hops(sw, to).is_none() {
                continue;
            }
            let mut best = (u64::MAX, NO_PATH);
            for near in distances.over(self.view, self.ranks, sw, to) {
                best = self.cheapest(sw, near, self.cost[near.sw as usize], best);
            }
            (self.cost[sw], self.port[sw]) = best;
        }
        self.up_down = Some(distances);
    }

    /// Hosts behind each switch, far ones first.
    fn count(&mut self) {
        for sw in &self.near {
            self.behind[*sw as usize] = self.view.hosts(*sw as usize);
        }
        for at in (1..self.near.len()).rev() {
            let sw = self.near[at] as usize;
            if let Some((over, _)) = self.view.beyond(sw, self.port[sw]) {
                self.behind[over] += self.behind[sw];
            }
        }
    }

    /// What the cable of a switch waits for on the routes at hand: nothing if no host is behind it, or the
    /// route ends there.
    #[inline]
    fn wait(&self, sw: usize) -> Option<(usize, usize)> {
        if self.behind[sw] == 0 {
            return None;
        }
        let (over, _) = self.view.beyond(sw, self.port[sw])?;
        self.view.beyond(over, self.port[over])?;
        Some((self.view.channel(sw, self.port[sw]), self.view.channel(over, self.port[over])))
    }

    /// Puts the routes on a VL, if nothing then waits for itself there.
    fn fits(&mut self, vl: usize) -> bool {
        let mut waits = std::mem::take(&mut self.waits);
        waits.clear();
        waits.extend(self.near[1..].iter().filter_map(|sw| self.wait(*sw as usize)));
        let fits = self.orders[vl].wait_for_all(&waits);
        self.waits = waits;
        fits
    }

    /// Counts the routes as taken.
    fn take(&mut self, to: usize) {
        let stride = self.view.stride();
        for sw in &self.near {
            let sw = *sw as usize;
            if sw != to && self.port[sw] != NO_PATH {
                self.load[sw * stride + usize::from(self.port[sw])] += u64::from(self.behind[sw]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build::{FatTree, fat_tree, with_aggregation};
    use crate::graph::Kind;
    use crate::routing::{Lids, Plan};

    /// What was refused is not searched for again by each destination.
    #[test]
    fn what_fits_nowhere_is_soon_known() {
        let whole = with_aggregation(&fat_tree(&FatTree::new(8, 3)).unwrap()).unwrap();
        let is_switch = |port| whole.kind(whole.owner(port)) == Kind::Switch;
        let between = whole.links().filter(|(a, b)| is_switch(*a) && is_switch(*b));
        let dead: Vec<_> = between.map(|(a, _)| a).step_by(9).collect();
        let graph = whole.without(&dead, &[]);
        let (view, lids) = (View::of(&graph), Lids::assign(&graph, 0, |_| None).unwrap());
        let ranks = Ranks::of_leaves(&view);
        let plan = Plan::of(&graph, &view, &ranks, &lids, &[]);
        let destinations = Destinations::of(&graph, &view, &lids, &plan);
        let mut layered = Layered::new(&view, &ranks, 4);
        let mut refusals = 0;
        for (sw, _) in destinations.in_turn() {
            layered.breadth_first(sw);
            refusals += u32::from(layered.place(sw, false));
            layered.take(sw);
        }
        // Without a memory each refusal is a search of its own.
        let searches: u32 = layered.orders.iter().map(|order| order.cycles).sum();
        assert!(refusals > 100 && searches < refusals, "{searches} searches, {refusals} refusals");
    }
}
