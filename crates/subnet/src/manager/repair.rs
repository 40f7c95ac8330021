//! After a change: looks at the switches concerned, routes again, and writes what differs.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use mad::sm::{NodeInfo, PortInfo, SwitchInfo};
use mad::windowed::Outcome;
use mad::{Lid, Mad, MadTransport};
use topology::routing::check::Dependencies;
use topology::routing::{Engine, Tables};
use topology::{Kind, NodeIx, PortIx};

use super::{Failures, ManageError, Manager, Subnet, Work, elapsed, meanwhile, why, words};
use crate::change::{Change, is_same_peer, is_up, of_port};
use crate::flaps::{self, Flaps};
use crate::keys::end_of;
use crate::model::Model;
use crate::report::{Repaired, Sets};
use crate::routes::{Manner, Routes, Stage, stages};
use crate::set::{Set, Subject};
use crate::wanted::Step;

/// How often further switches are looked at after what the first ones reported, and those that did not
/// respond are asked by another route.
const ROUNDS: usize = 4;

/// What is gathered on the way.
#[derive(Default)]
struct Course {
    sets: Sets,
    failures: Failures,
    down: BTreeSet<PortIx>,
    up: BTreeSet<PortIx>,
    /// Cables that are held back from now on.
    held: BTreeSet<PortIx>,
}

/// What the ports of switches report, and of each switch that did not respond one request and why.
#[derive(Default)]
struct Reports {
    ports: Vec<(PortIx, PortInfo)>,
    silent: HashMap<NodeIx, (Subject, String)>,
    heard: BTreeSet<NodeIx>,
}

impl Manager {
    /// Looks at switches that reported a change, and repairs. The inner error: something new is there, in
    /// words, and the fabric is to be swept.
    pub(super) fn repair<T: MadTransport + ?Sized>(
        &mut self,
        transport: &mut T,
        subnet: &mut Subnet,
        cause: &str,
        switches: &BTreeSet<NodeIx>,
        stop: &dyn Fn() -> bool,
    ) -> Result<Result<Repaired, String>, ManageError> {
        let begun = transport.now();
        let mut course = Course::default();
        if let Some(what) = self.look(transport, subnet, switches, &mut course, stop)? {
            return Ok(Err(what));
        }
        let Course { mut sets, mut failures, down, up, held: held_back } = course;
        let (mut manner, mut entries, mut changed) = (Manner::AtOnce, 0, BTreeSet::new());
        let is_changed = !down.is_empty() || !up.is_empty() || !subnet.model.written.is_whole();
        if is_changed {
            let routes = meanwhile(transport, || subnet.routes.again(&subnet.model.graph))??;
            (entries, changed) = differences(&subnet.routes.routing.tables, &routes.routing.tables);
            // The former tables are what the switches hold: two sets of them need not be in memory while
            // the steps are computed.
            subnet.routes = routes;
            let Subnet { model, held, routes } = subnet;
            let ends: Vec<PortIx> =
                up.iter().flat_map(|port| [Some(*port), model.graph.peer(*port)]).flatten().collect();
            let hosts: Vec<PortIx> = ends.iter().filter_map(|port| end_of(&model.graph, *port)).collect();
            if let Some(keys) = &mut model.keys {
                // Whoever is behind the cable may have started anew.
                hosts.iter().for_each(|port| keys.forget(*port));
            }
            self.set_keys(transport, model, &hosts, (&mut sets, &mut failures), stop)?;
            // A link that came back is made active first: no entry leads to it yet, or one that is right.
            self.set_ports(transport, model, Step::Arm, &mut sets, &mut failures, stop)?;
            self.set_lanes(transport, model, &ends, (&mut sets, &mut failures), stop)?;
            self.set_ports(transport, model, Step::Activate, &mut sets, &mut failures, stop)?;
            let fresh = ends.into_iter().collect();
            let mut course = meanwhile(transport, || steps_to(model, held, routes, &fresh))?;
            if course.is_none() && routes.engine != Engine::MinHop {
                drop(course);
                *routes = Routes::anew(&model.graph, &model.lids)?;
                (entries, changed) = differences(&model.written.tables, &routes.routing.tables);
                course = steps_to(model, held, routes, &fresh);
            }
            let at_once =
                || vec![Stage { tables: Cow::Borrowed(&routes.routing.tables), after_drain: false }];
            let steps;
            (manner, steps) = course.unwrap_or_else(|| (Manner::AtOnce, at_once()));
            self.write_tables(transport, model, &steps, &mut sets, &mut failures, stop)?;
        }
        let seconds = elapsed(transport, begun);
        if is_changed {
            let compute = || Dependencies::of(&subnet.model.graph, &subnet.model.written.tables);
            let held = meanwhile(transport, compute)?;
            subnet.held = held;
        }
        let model = &subnet.model;
        let place = |port: &PortIx| fabric::names::place(&model.whole, *port);
        let (links, active_links) = model.links();
        Ok(Ok(Repaired {
            cause: cause.to_owned(),
            down: down.iter().map(place).collect(),
            up: up.iter().map(place).collect(),
            quarantined: held_back.iter().map(place).collect(),
            changed_entries: entries,
            changed_switches: changed.len(),
            manner,
            sets,
            lost_pairs: subnet.routes.checked.lost,
            cut_off: model.lids.ends().filter(|(_, port)| model.path_to(*port).is_none()).count(),
            links,
            active_links,
            findings: failures.named,
            failed_sets: failures.count,
            seconds,
            seconds_after: elapsed(transport, begun) - seconds,
        }))
    }

    /// Reads the ports of switches, and takes over which cables are up. Where a cable went down, the switch
    /// at its other end is looked at, too; of one that does not respond, its neighbours: a switch that died
    /// is known by all its cables then, and not by one after the other. What was not known before, in words.
    fn look<T: MadTransport + ?Sized>(
        &mut self,
        transport: &mut T,
        subnet: &mut Subnet,
        switches: &BTreeSet<NodeIx>,
        course: &mut Course,
        stop: &dyn Fn() -> bool,
    ) -> Result<Option<String>, ManageError> {
        let model = &mut subnet.model;
        let (mut left, mut looked) = (switches.clone(), BTreeSet::new());
        let mut silent = HashMap::new();
        for _ in 0..ROUNDS {
            left.retain(|switch| model.path(*switch).is_some());
            if left.is_empty() {
                break;
            }
            let mut reports = self.clear(transport, model, &left, course, stop)?;
            looked.append(&mut left);
            self.read_ports(transport, model, &mut reports, stop)?;
            let before = model.down.clone();
            let mut up = Vec::new();
            let mut down = before.clone();
            for (port, info) in &reports.ports {
                match of_port(model, *port, info) {
                    Some(Change::Down(cable)) => drop(down.insert(cable)),
                    Some(Change::Up(port)) => up.push(port),
                    Some(Change::New(port)) => {
                        let place = fabric::names::place(&model.whole, port);
                        return Ok(Some(format!("a new cable at {place}")));
                    }
                    None => self.still_down(transport.now(), model, *port, info),
                }
                model.ports[port.index()] = Some(*info);
            }
            let up = self.hold_back(transport.now(), model, up, &mut down, course);
            if let Some(what) = self.meet(transport, model, &up, stop)? {
                return Ok(Some(what));
            }
            for cable in up.into_iter().filter_map(|port| model.cable(port)) {
                down.remove(&cable);
                course.up.insert(cable);
            }
            let fell: Vec<PortIx> = down.difference(&before).copied().collect();
            course.down.extend(&fell);
            let moved = model.set_down(down);
            let ends = fell.iter().flat_map(|port| [Some(*port), model.whole.peer(*port)]).flatten();
            let silents = reports.silent.keys();
            let around = silents.flat_map(|node| model.graph.cabled(*node)).map(|(_, far)| far);
            let next = ends.chain(around).map(|port| model.whole.owner(port));
            left.extend(next.filter(|it| model.whole.kind(*it) == Kind::Switch && !looked.contains(it)));
            if moved {
                // By another route it may respond.
                left.extend(reports.silent.keys());
            }
            reports.silent.iter().for_each(|(node, why)| drop(silent.insert(*node, why.clone())));
            reports.heard.iter().for_each(|node| drop(silent.remove(node)));
        }
        for (node, (subject, reason)) in silent {
            if model.path(node).is_some() {
                course.failures.add(|| format!("{}: {reason}", words(&model.graph, subject)));
            }
        }
        Ok(None)
    }

    /// A cable that is held back has to be up for a while from now on, if it is down.
    fn still_down(&mut self, now: Duration, model: &Model, port: PortIx, info: &PortInfo) {
        let cable = flaps::cable(&model.whole, port).filter(|_| !is_up(info));
        if let Some(cable) = cable.filter(|cable| self.flaps.holds(*cable, now)) {
            self.flaps.fell(cable, now);
        }
    }

    /// Counts which cables fell, and takes those that fall too often for down though they are up. What is
    /// left of the ports that came up. Cables to CAs are not held back, as no route changes with them; nor
    /// are those without which nothing leads to one of their ends.
    fn hold_back(
        &mut self,
        now: Duration,
        model: &mut Model,
        up: Vec<PortIx>,
        down: &mut BTreeSet<PortIx>,
        course: &mut Course,
    ) -> Vec<PortIx> {
        let is_switch = |port: PortIx| model.whole.kind(model.whole.owner(port)) == Kind::Switch;
        let between = |port: &PortIx| is_switch(*port) && model.whole.peer(*port).is_some_and(is_switch);
        let renewed = up.iter().filter_map(|port| model.cable(*port)).filter(|it| !model.down.contains(it));
        let fell = down.difference(&model.down).copied();
        let fell: BTreeSet<PortIx> = fell.chain(renewed).filter(between).collect();
        for port in &fell {
            if flaps::cable(&model.whole, *port).is_some_and(|cable| self.flaps.fell(cable, now)) {
                course.held.insert(*port);
            }
        }
        let holds = |flaps: &Flaps, port: PortIx| {
            flaps::cable(&model.whole, port).is_some_and(|cable| flaps.holds(cable, now))
        };
        let mut held: BTreeSet<PortIx> = up
            .iter()
            .filter(|port| holds(&self.flaps, **port))
            .filter_map(|port| model.cable(*port))
            .collect();
        if held.is_empty() {
            return up;
        }
        let before = model.down.clone();
        model.set_down(down.difference(&held).copied().collect());
        for spared in model.hold_back(&held) {
            if let Some(cable) = flaps::cable(&model.whole, spared) {
                self.flaps.spare(cable);
            }
            held.remove(&spared);
            course.held.remove(&spared);
        }
        model.set_down(before);
        down.extend(&held);
        up.into_iter().filter(|port| model.cable(*port).is_none_or(|cable| !held.contains(&cable))).collect()
    }

    /// Clears the switches' mark of a changed port, before the ports are read: a change after that sets it
    /// again. Who does not respond to this is not asked for its ports.
    fn clear<T: MadTransport + ?Sized>(
        &mut self,
        transport: &mut T,
        model: &Model,
        switches: &BTreeSet<NodeIx>,
        course: &mut Course,
        stop: &dyn Fn() -> bool,
    ) -> Result<Reports, ManageError> {
        let sets = switches.iter().filter_map(|switch| {
            let mut info: SwitchInfo = model.nodes.get(switch.index())?.switch?;
            info.set_linear_top(model.lids.top()).set_state_change(true);
            Some(Set::Switch(*switch, info))
        });
        let mut reports = Reports::default();
        let mut good = |subject: Subject, mad: Option<&Mad>| {
            let Subject::Switch(node) = subject else { return };
            match mad {
                Some(_) => drop(reports.heard.insert(node)),
                None => drop(reports.silent.insert(node, (subject, "not answered".to_owned()))),
            }
        };
        let mut failures = Failures::default();
        let work = Work { good: &mut good, counts: &mut course.sets, failures: &mut failures };
        self.send(transport, model, work, sets, stop)?;
        Ok(reports)
    }

    /// The external ports of the switches that were heard, as they are now.
    fn read_ports<T: MadTransport + ?Sized>(
        &mut self,
        transport: &mut T,
        model: &Model,
        reports: &mut Reports,
        stop: &dyn Fn() -> bool,
    ) -> Result<(), ManageError> {
        let graph = &model.graph;
        let Reports { ports, silent, heard } = reports;
        let asked: Vec<PortIx> = heard.iter().flat_map(|switch| graph.ports(*switch)).collect();
        let requests = asked.into_iter().filter(|port| graph.number(*port) > 0).filter_map(|port| {
            let subject = Subject::Port(port);
            Some((subject, subject.get(graph, &model.path(graph.owner(port))?)))
        });
        let mut done = |subject: Subject, outcome: Outcome| {
            let Subject::Port(port) = subject else { return };
            match outcome {
                Outcome::Answer(mad) => ports.push((port, *mad.data::<PortInfo>())),
                outcome => drop(silent.insert(graph.owner(port), (subject, why(&outcome)))),
            }
        };
        if !self.asker.all(transport, requests, &mut done, stop)? {
            return Err(ManageError::Stopped);
        }
        ports.sort_by_key(|one| one.0);
        heard.retain(|node| !silent.contains_key(node));
        Ok(())
    }

    /// Asks who is behind ports that came up. In words what is not as it was: another node, or a switch that
    /// lost what it had.
    fn meet<T: MadTransport + ?Sized>(
        &mut self,
        transport: &mut T,
        model: &mut Model,
        up: &[PortIx],
        stop: &dyn Fn() -> bool,
    ) -> Result<Option<String>, ManageError> {
        let graph = &model.whole;
        let mut requests: Vec<(Subject, Mad)> = Vec::new();
        for port in up {
            let (Some(path), Some(far)) = (model.path_behind(*port), graph.peer(*port)) else { continue };
            let there = graph.owner(far);
            let mut subjects = vec![Subject::Behind(*port), Subject::Port(far)];
            if graph.kind(there) == Kind::Switch {
                subjects.push(Subject::Switch(there));
                subjects.extend(graph.port(there, 0).map(Subject::Port));
            }
            requests.extend(subjects.into_iter().map(|subject| (subject, subject.get(graph, &path))));
        }
        let (mut answers, mut what) = (Vec::new(), None);
        let mut done = |subject: Subject, outcome: Outcome| match outcome {
            Outcome::Answer(mad) => answers.push((subject, mad)),
            outcome => drop(what.get_or_insert(format!("{}: {}", words(graph, subject), why(&outcome)))),
        };
        if !self.asker.all(transport, requests.into_iter(), &mut done, stop)? {
            return Err(ManageError::Stopped);
        }
        for (subject, mad) in answers {
            let is_same = match subject {
                Subject::Behind(port) => is_same_peer(model, port, mad.data::<NodeInfo>()),
                Subject::Switch(_) => mad.data::<SwitchInfo>().linear_top() == model.lids.top(),
                Subject::Port(port) => {
                    let info = *mad.data::<PortInfo>();
                    model.ports[port.index()] = Some(info);
                    // Where another manager is named, it is to be found, or it was here and is gone.
                    let is_ours = info.sm_lid() == model.sm_lid();
                    let lid = || Some(info.lid()) == model.lids.base(port).map(Lid);
                    model.whole.number(port) > 0 || is_ours && lid()
                }
                Subject::Table(..)
                | Subject::Keys(..)
                | Subject::Multicast(..)
                | Subject::Levels(..)
                | Subject::Arbitration(..)
                | Subject::Manager(_) => true,
            };
            if !is_same {
                what.get_or_insert(format!("{} is not what it was", words(&model.whole, subject)));
            }
        }
        Ok(what)
    }
}

/// How many entries differ, and at which switches.
fn differences(before: &Tables, after: &Tables) -> (usize, BTreeSet<NodeIx>) {
    let (mut entries, mut switches) = (0, BTreeSet::new());
    for change in before.changes(after) {
        entries += 1;
        switches.insert(change.switch);
    }
    (entries, switches)
}

/// The steps in which the switches come to the routes; `None`: the routes have a loop themselves.
fn steps_to<'a>(
    model: &Model,
    held: &Dependencies,
    routes: &'a Routes,
    fresh: &BTreeSet<PortIx>,
) -> Option<(Manner, Vec<Stage<'a>>)> {
    stages(&model.graph, held, &model.written.tables, &routes.routing.tables, fresh)
}
