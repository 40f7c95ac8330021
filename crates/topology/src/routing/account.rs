//! Explains each entry that changed when routes were computed again.

use std::collections::{BTreeMap, BTreeSet};

use super::Routing;
use super::destinations::Destinations;
use super::distances::Distances;
use super::fill::Filler;
use super::repair::{Bridge, Repairer};
use super::tables::{Changed, NO_PATH};
use super::view::View;
use crate::Graph;

/// Changed entries by the first reason that applies to each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Account {
    /// The port led over a cable that is gone, or to an end that does not respond to the LID (any more).
    pub dead: usize,
    /// The port still leads to a switch, but no legal route of the least hops continues from there.
    pub no_route: usize,
    /// There was no entry, and now there is.
    pub new: usize,
    /// There was an entry and now there is none: no route is left, none that could not cause a deadlock, or
    /// none that a manager on a host would ask over.
    pub left_out: usize,
    /// The former port is still good, but the plan's own port has come back.
    pub back: usize,
    /// None of these: the entry could have stayed.
    pub free: usize,
    /// Switches with changed entries.
    pub switches: usize,
    /// Blocks to be written.
    pub blocks: usize,
}

impl Account {
    /// How many entries changed.
    #[must_use]
    pub fn changes(&self) -> usize {
        self.dead + self.no_route + self.new + self.left_out + self.back + self.free
    }
}

/// Says of each entry that is not the same in two routings by the fat-tree engine why. `graph` is the fabric
/// of `after`.
#[must_use]
pub fn account(graph: &Graph, before: &Routing, after: &Routing) -> Account {
    let view = View::of(graph);
    let lids = after.tables.lids();
    let destinations = Destinations::of(graph, &view, lids, &after.plan);
    let distances = Distances::up_down(&view, after.plan.ranks());
    let gaps = distances.gaps(view.switch_count());
    let components = view.components();
    let prior = Some(&before.tables);
    let ranks = after.plan.ranks();
    let mut judge = Judge {
        graph,
        after,
        filler: Filler {
            view: &view,
            distances: &distances,
            plan: &after.plan,
            destinations: &destinations,
            planned: true,
            prior,
        },
        repairer: Repairer {
            view: &view,
            ranks,
            distances: &distances,
            destinations: &destinations,
            prior,
            only: None,
        },
        missing: &|to| {
            gaps[to].iter().map(|sw| *sw as usize).filter(|sw| components[*sw] == components[to]).collect()
        },
        bridges: BTreeMap::new(),
    };
    let mut account = Account::default();
    let mut switches = BTreeSet::new();
    for change in before.tables.changes(&after.tables) {
        switches.insert(change.switch);
        *judge.reason(&change, &mut account) += 1;
    }
    account.switches = switches.len();
    account.blocks = before.tables.blocks_to_write(&after.tables).count();
    account
}

/// What changes are judged by.
struct Judge<'a> {
    graph: &'a Graph,
    after: &'a Routing,
    filler: Filler<'a>,
    repairer: Repairer<'a>,
    /// Switches that have no up/down route to a switch.
    missing: &'a dyn Fn(usize) -> Vec<usize>,
    /// What the switches without a route are near to, for the switches that were asked about.
    bridges: BTreeMap<usize, Vec<Bridge>>,
}

impl Judge<'_> {
    fn reason<'b>(&mut self, change: &Changed, account: &'b mut Account) -> &'b mut usize {
        if change.before == NO_PATH {
            return &mut account.new;
        }
        let view = self.filler.view;
        let end = self.after.tables.lids().port(change.lid);
        let home = end.and_then(|end| view.attachment(self.graph, end));
        let sw = view.index_of(change.switch);
        let (Some((to, _)), Some(sw)) = (home, sw) else { return &mut account.dead };
        let Some((over, _)) = view.beyond(sw, change.before) else { return &mut account.dead };
        if self.filler.distances.hops(sw, to).is_some() {
            let leads = self.filler.distances.leads(self.after.plan.ranks(), sw, over, to);
            return match leads {
                false => &mut account.no_route,
                true if self.is_planned(sw, to, change) => &mut account.back,
                true => &mut account.free,
            };
        }
        if change.after == NO_PATH {
            return &mut account.left_out;
        }
        if self.is_near(sw, to, change.before) { &mut account.free } else { &mut account.no_route }
    }

    fn is_planned(&self, sw: usize, to: usize, change: &Changed) -> bool {
        let one = self.filler.destinations.at(to).iter().find(|one| one.lid == change.lid);
        one.and_then(|one| self.filler.plan_says(sw, to, one)) == Some(change.after)
    }

    /// Of a switch without a route: does the port lead to where it would soonest get to one?
    fn is_near(&mut self, sw: usize, to: usize, port: u8) -> bool {
        let (repairer, missing) = (&self.repairer, self.missing);
        let bridges = self.bridges.entry(to).or_insert_with(|| repairer.bridges(to, &missing(to)));
        bridges.iter().any(|bridge| bridge.sw == sw && bridge.ports.contains(&port))
    }
}
