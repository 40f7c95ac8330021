//! After a change: looks at the switches concerned, routes again, and writes what differs.

use std::collections::{BTreeSet, HashMap};

use mad::sm::{NodeInfo, PortInfo, SwitchInfo};
use mad::windowed::Outcome;
use mad::{Lid, Mad, MadTransport};
use topology::routing::Engine;
use topology::routing::check::Dependencies;
use topology::{Kind, NodeIx, PortIx};

use super::{Failures, ManageError, Manager, Subnet, Work, elapsed, why, words};
use crate::change::{Change, is_same_peer, of_port};
use crate::model::Model;
use crate::report::{Repaired, Sets};
use crate::routes::{Manner, Routes, Stage, stages};
use crate::set::{Set, Subject};
use crate::wanted::Step;

/// How often switches are asked that did not respond, by other routes after what the others reported.
const ROUNDS: usize = 3;

/// What is gathered on the way.
#[derive(Default)]
struct Course {
    sets: Sets,
    failures: Failures,
    down: BTreeSet<PortIx>,
    up: BTreeSet<PortIx>,
}

/// What the ports of switches report, and of each switch that did not respond one request and why.
struct Reports {
    ports: Vec<(PortIx, PortInfo)>,
    silent: HashMap<NodeIx, (Subject, String)>,
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
        let before = subnet.routes.routing.tables.clone();
        let Course { mut sets, mut failures, down, up } = course;
        let mut manner = Manner::AtOnce;
        let is_changed = !down.is_empty() || !up.is_empty() || !subnet.model.written.is_whole();
        if is_changed {
            let mut routes = subnet.routes.again(&subnet.model.graph)?;
            let Subnet { model, held, .. } = subnet;
            // A link that came back is made active first: no entry leads to it yet, or one that is right.
            self.set_ports(transport, model, Step::Arm, &mut sets, &mut failures, stop)?;
            self.set_ports(transport, model, Step::Activate, &mut sets, &mut failures, stop)?;
            let fresh = up.iter().flat_map(|port| [Some(*port), model.graph.peer(*port)]).flatten().collect();
            let steps_to = |routes: &Routes| {
                stages(&model.graph, held, &model.written.tables, &routes.routing.tables, &fresh)
            };
            let mut course = steps_to(&routes);
            if course.is_none() && routes.engine != Engine::MinHop {
                routes = Routes::anew(&model.graph, &model.lids)?;
                course = steps_to(&routes);
            }
            let at_once = || vec![Stage { tables: routes.routing.tables.clone(), after_drain: false }];
            let steps;
            (manner, steps) = course.unwrap_or_else(|| (Manner::AtOnce, at_once()));
            self.write_tables(transport, model, &steps, &mut sets, &mut failures, stop)?;
            subnet.routes = routes;
        }
        let seconds = elapsed(transport, begun);
        if is_changed {
            subnet.held = Dependencies::of(&subnet.model.graph, &subnet.model.written.tables);
        }
        let model = &subnet.model;
        let (mut entries, mut changed) = (0, BTreeSet::new());
        for change in before.changes(&subnet.routes.routing.tables) {
            entries += 1;
            changed.insert(change.switch);
        }
        let place = |port: &PortIx| fabric::names::place(&model.whole, *port);
        let (links, active_links) = model.links();
        Ok(Ok(Repaired {
            cause: cause.to_owned(),
            down: down.iter().map(place).collect(),
            up: up.iter().map(place).collect(),
            changed_entries: entries,
            changed_switches: changed.len(),
            manner,
            sets,
            lost_pairs: subnet.routes.checked.lost,
            cut_off: model.lids.iter().filter(|(_, port)| model.path_to(*port).is_none()).count(),
            links,
            active_links,
            findings: failures.named,
            failed_sets: failures.count,
            seconds,
        }))
    }

    /// Reads the ports of switches, those that do not respond again by other routes, and takes over which
    /// cables are up. What was not known before, in words.
    fn look<T: MadTransport + ?Sized>(
        &mut self,
        transport: &mut T,
        subnet: &mut Subnet,
        switches: &BTreeSet<NodeIx>,
        course: &mut Course,
        stop: &dyn Fn() -> bool,
    ) -> Result<Option<String>, ManageError> {
        let model = &mut subnet.model;
        let mut left = switches.clone();
        for round in 1..=ROUNDS {
            left.retain(|switch| model.path(*switch).is_some());
            if left.is_empty() {
                break;
            }
            self.clear(transport, model, &left, course, stop)?;
            let Reports { ports, silent } = self.read_ports(transport, model, &left, stop)?;
            let (mut down, mut up) = (model.down.clone(), Vec::new());
            for (port, info) in ports {
                match of_port(model, port, &info) {
                    Some(Change::Down(cable)) => drop(down.insert(cable)),
                    Some(Change::Up(port)) => up.push(port),
                    Some(Change::New(port)) => {
                        let place = fabric::names::place(&model.whole, port);
                        return Ok(Some(format!("a new cable at {place}")));
                    }
                    None => {}
                }
                model.ports[port.index()] = Some(info);
            }
            course.down.extend(down.difference(&model.down));
            if let Some(what) = self.meet(transport, model, &up, stop)? {
                return Ok(Some(what));
            }
            for port in up {
                let cable = model.cable(port).unwrap_or(port);
                down.remove(&cable);
                course.up.insert(cable);
            }
            let moved = model.set_down(down);
            if silent.is_empty() || !moved || round == ROUNDS {
                for (subject, reason) in silent.into_values() {
                    course.failures.add(|| format!("{}: {reason}", words(&model.graph, subject)));
                }
                break;
            }
            left = silent.into_keys().collect();
        }
        Ok(None)
    }

    /// Clears the switches' mark of a changed port, before the ports are read: a change after that sets it
    /// again.
    fn clear<T: MadTransport + ?Sized>(
        &mut self,
        transport: &mut T,
        model: &Model,
        switches: &BTreeSet<NodeIx>,
        course: &mut Course,
        stop: &dyn Fn() -> bool,
    ) -> Result<(), ManageError> {
        let sets = switches.iter().filter_map(|switch| {
            let mut info: SwitchInfo = model.nodes.get(switch.index())?.switch?;
            info.set_linear_top(model.lids.top()).set_state_change(true);
            Some(Set::Switch(*switch, info))
        });
        // Who does not respond to this does not respond to the question that follows either, which says so.
        let mut failures = Failures::default();
        let work = Work { good: &mut |_, _| (), counts: &mut course.sets, failures: &mut failures };
        self.send(transport, model, work, sets, stop)
    }

    /// The external ports of switches as they are now.
    fn read_ports<T: MadTransport + ?Sized>(
        &mut self,
        transport: &mut T,
        model: &Model,
        switches: &BTreeSet<NodeIx>,
        stop: &dyn Fn() -> bool,
    ) -> Result<Reports, ManageError> {
        let graph = &model.graph;
        let mut reports = Reports { ports: Vec::new(), silent: HashMap::new() };
        let ports = switches.iter().flat_map(|switch| graph.ports(*switch));
        let requests = ports.filter(|port| graph.number(*port) > 0).filter_map(|port| {
            let subject = Subject::Port(port);
            Some((subject, subject.get(graph, &model.path(graph.owner(port))?)))
        });
        let mut done = |subject: Subject, outcome: Outcome| {
            let Subject::Port(port) = subject else { return };
            match outcome {
                Outcome::Answer(mad) => reports.ports.push((port, *mad.data::<PortInfo>())),
                outcome => drop(reports.silent.insert(graph.owner(port), (subject, why(&outcome)))),
            }
        };
        if !self.asker.all(transport, requests, &mut done, stop)? {
            return Err(ManageError::Stopped);
        }
        reports.ports.sort_by_key(|one| one.0);
        Ok(reports)
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
                    model.whole.number(port) > 0 || Some(info.lid()) == model.lids.base(port).map(Lid)
                }
                Subject::Table(..) | Subject::Manager(_) => true,
            };
            if !is_same {
                what.get_or_insert(format!("{} is not what it was", words(&model.whole, subject)));
            }
        }
        Ok(what)
    }
}
