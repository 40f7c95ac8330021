//! One run: the steps in their order, each by its actor.
//!
//! A step is over when its call has returned, or when its thread sleeps in the kernel: then the call blocks,
//! and whichever later step wakes it is noted. On one machine the kernel delivers within the call that sends,
//! so after each step everything that it causes has begun: threads that it woke run, and are waited for until
//! they sleep again or are done.

use std::time::{Duration, Instant};

use shm::sync::Ordering;

use super::Log;
use super::tasks::{Task, kernel_is_idle, look};
use crate::program::{ACTORS, Actor, Call, Program, STEPS, Step};
use crate::shared::{Front, LOOK, Mail, Shared};
use crate::sys::process;

/// So long a run may take in all.
const WATCHDOG: Duration = Duration::from_secs(5);
/// The same of a patient run, which decides whether one that did not end hangs: on a busy machine a program
/// of many waits takes seconds.
const PATIENT_WATCHDOG: Duration = Duration::from_secs(40);
/// Between two looks at a call that may block, in nanoseconds; twice as long each time that its thread turns
/// out to run.
const GLANCE: u64 = 60_000;
/// A call that ends by itself within milliseconds, and sleeps for so long, does not end.
const TIMEOUTS_END: Duration = Duration::from_millis(1500);
/// So long at most.
const STARE: u64 = 2_000_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Absent,
    Idle,
    /// In a call that blocks: of this step.
    Blocked(usize),
    Dead,
}

/// A run in progress.
#[derive(Debug)]
pub(super) struct Stage<'p> {
    shared: Shared,
    program: &'p Program,
    patience: Duration,
    deadline: Instant,
    roles: [Role; ACTORS],
    results: Vec<String>,
    tables: Vec<(u8, String)>,
    /// Processes by the actor they began with, and whether they ended by themselves.
    processes: Vec<(u8, u32, bool)>,
}

impl<'p> Stage<'p> {
    pub(super) fn new(shared: Shared, program: &'p Program, patience: Duration) -> Self {
        Self {
            shared,
            program,
            patience,
            deadline: Instant::now() + if patience.is_zero() { WATCHDOG } else { PATIENT_WATCHDOG },
            roles: [Role::Absent; ACTORS],
            results: Vec::with_capacity(program.steps.len()),
            tables: Vec::new(),
            processes: Vec::new(),
        }
    }

    /// Goes through all steps, then has each process look at its descriptors.
    pub(super) fn play(&mut self) {
        self.meet(Actor(0), "");
        for (at, step) in self.program.steps.iter().enumerate() {
            let result = self.take(at, step);
            self.results.push(result);
            self.settle(at);
            if Instant::now() > self.deadline {
                break;
            }
        }
        self.results.resize(self.program.steps.len(), "not reached: the run hangs".to_owned());
        self.look_at_descriptors();
    }

    /// What came of it; complete when the processes are buried.
    pub(super) fn log(self) -> Log {
        let ends = self.shared.ends();
        let of =
            |pid: u32| ends.iter().find(|(ended, _)| *ended == pid).map(|(_, status)| status.to_string());
        let processes = self.processes.iter().filter(|(_, _, by_itself)| *by_itself);
        let ends = processes
            .map(|(founder, pid, _)| {
                (*founder, of(*pid).unwrap_or_else(|| "reaped by its parent".to_owned()))
            })
            .collect();
        Log { results: self.results, tables: self.tables, ends }
    }

    /// Waits until a new actor is there, unless its process ends before that.
    fn meet(&mut self, actor: Actor, result: &str) {
        let pid = result.strip_prefix("= %").and_then(|rest| rest.split(' ').next()?.parse().ok());
        let mut time = GLANCE;
        while self.mail(actor, Mail::Alive) == 0 {
            if pid.is_some_and(|pid| look(pid) == Task::Gone) || Instant::now() > self.deadline {
                self.roles[actor.index()] = Role::Dead;
                return;
            }
            self.pause(&mut time);
        }
        self.roles[actor.index()] = Role::Idle;
        let founder = self.mail(actor, Mail::Founder) as u8;
        if founder == actor.0 {
            self.processes.push((founder, self.mail(actor, Mail::Pid), false));
        }
    }

    fn mail(&self, actor: Actor, word: Mail) -> u32 {
        self.shared.mail(actor, word).load(Ordering::SeqCst)
    }

    fn task(&self, actor: Actor) -> Task {
        look(self.mail(actor, Mail::Tid))
    }

    /// Lets actors run that share this processor, longer each time.
    fn pause(&self, time: &mut u64) {
        process::yield_now();
        let _ = self.shared.to_controller().wait(*time);
        *time = (*time * 2).min(STARE);
    }

    fn take(&mut self, at: usize, step: &Step) -> String {
        match self.roles[step.actor.index()] {
            Role::Absent => return "nobody".to_owned(),
            Role::Dead => return "dead".to_owned(),
            Role::Blocked(_) => return "busy".to_owned(),
            Role::Idle => {}
        }
        let order = at as u32 + 1;
        self.order(step.actor, order);
        let result = self.wait_for(at, step, order);
        self.follow(step, &result);
        result
    }

    fn order(&self, actor: Actor, order: u32) {
        self.shared.mail(actor, Mail::Order).store(order, Ordering::SeqCst);
        self.shared.to_actor(actor).post();
    }

    /// Waits until the call is over or blocks.
    fn wait_for(&mut self, at: usize, step: &Step, order: u32) -> String {
        let ends_by_itself = self.ends_by_itself(step);
        let (mut slept, mut time, mut asleep) = (0, GLANCE, None);
        loop {
            let _ = self.shared.to_controller().wait(time);
            if self.mail(step.actor, Mail::Done) == order {
                return self.shared.record(at);
            }
            match self.task(step.actor) {
                Task::Gone if self.moved_by_exec(step) => continue,
                Task::Gone => {
                    self.bury(step.actor, at);
                    return "died".to_owned();
                }
                Task::Sleeps if !ends_by_itself => (slept, time) = (slept + 1, GLANCE),
                Task::Sleeps => {
                    asleep.get_or_insert_with(Instant::now);
                    time = (time * 2).min(STARE);
                }
                Task::Runs => (slept, time, asleep) = (0, (time * 2).min(STARE), None),
            }
            // What others do that this call has woken may wake it in turn.
            if slept >= 2 && self.others_move() {
                self.settle_once(at);
                slept = 0;
            }
            if slept >= 2 {
                self.let_kernel_deliver();
                if self.task(step.actor) != Task::Sleeps {
                    slept = 0;
                }
            }
            // Looked at before the word was: a call that returned in between has set it.
            if slept >= 2 && self.mail(step.actor, Mail::Done) != order {
                self.roles[step.actor.index()] = Role::Blocked(at);
                return "blocks".to_owned();
            }
            let overslept = asleep.is_some_and(|since: Instant| since.elapsed() > TIMEOUTS_END);
            let is_race = matches!(step.call, Call::Race { .. });
            let is_late = Instant::now() > self.deadline;
            if overslept && !is_race || is_late {
                self.roles[step.actor.index()] = Role::Blocked(at);
                return if is_late { "hangs, and runs" } else { "hangs" }.to_owned();
            }
        }
    }

    /// Whether nobody else is needed for the call to return.
    fn ends_by_itself(&self, step: &Step) -> bool {
        match step.call {
            Call::Exec { .. }
            | Call::Fork { .. }
            | Call::PosixSpawn { .. }
            | Call::Vfork { .. }
            | Call::VforkExit { .. }
            | Call::Spawn { .. }
            | Call::Exit { .. } => true,
            // The kernel lets a dead process be waited for a moment after it shows it as dead.
            Call::Wait { actor } => step.wait || self.roles[actor.index()] == Role::Dead,
            _ => step.wait,
        }
    }

    /// An exec by another than the first thread of a process goes on under the first one's number.
    fn moved_by_exec(&self, step: &Step) -> bool {
        matches!(step.call, Call::Exec { .. }) && look(self.mail(step.actor, Mail::Pid)) != Task::Gone
    }

    /// Whether a call that blocked does so no more.
    fn others_move(&self) -> bool {
        self.cast().any(|actor| match self.roles[actor.index()] {
            Role::Blocked(step) => {
                self.task(actor) != Task::Sleeps || self.mail(actor, Mail::Done) == step as u32 + 1
            }
            _ => false,
        })
    }

    /// What a step does to the cast.
    fn follow(&mut self, step: &Step, result: &str) {
        match &step.call {
            Call::Fork { actor } | Call::PosixSpawn { actor, .. } | Call::Vfork { actor, .. }
                if result.starts_with("= %") =>
            {
                self.meet(*actor, result)
            }
            Call::Spawn { actor } if result.starts_with("= 0") => self.meet(*actor, result),
            Call::Exec { .. } if result.starts_with("= 0") => {
                let founder = self.mail(step.actor, Mail::Founder);
                for other in self.cast().filter(|other| *other != step.actor) {
                    if self.mail(other, Mail::Founder) == founder {
                        self.drop_out(other, "ended by exec");
                    }
                }
            }
            Call::Kill { .. } => self.take_census(),
            _ => {}
        }
    }

    /// Those who live.
    fn cast(&self) -> impl Iterator<Item = Actor> + use<> {
        let roles = self.roles;
        (0..ACTORS as u8)
            .map(Actor)
            .filter(move |actor| matches!(roles[actor.index()], Role::Idle | Role::Blocked(_)))
    }

    /// After a signal: who got it has handled it, or is gone.
    fn take_census(&mut self) {
        for actor in self.cast() {
            let mut time = GLANCE;
            loop {
                match self.task(actor) {
                    Task::Sleeps => break,
                    Task::Gone => {
                        self.bury(actor, self.results.len());
                        break;
                    }
                    Task::Runs if Instant::now() > self.deadline => break,
                    Task::Runs => self.pause(&mut time),
                }
            }
        }
    }

    /// The whole process of this actor has ended or is about to: waits until all of it is gone, for only then
    /// are its descriptors closed.
    fn bury(&mut self, actor: Actor, at: usize) {
        let founder = self.mail(actor, Mail::Founder);
        for other in self.cast() {
            if self.mail(other, Mail::Founder) != founder {
                continue;
            }
            let mut time = GLANCE;
            while self.task(other) != Task::Gone && Instant::now() < self.deadline {
                self.pause(&mut time);
            }
            self.drop_out(other, &format!("died at step {}", at + 1));
        }
        self.roles[actor.index()] = Role::Dead;
        for process in self.processes.iter_mut().filter(|process| u32::from(process.0) == founder) {
            process.2 = true;
        }
    }

    fn drop_out(&mut self, actor: Actor, why: &str) {
        if let Role::Blocked(step) = self.roles[actor.index()]
            && let Some(result) = self.results.get_mut(step)
        {
            result.push_str(&format!(", {why}"));
        }
        self.roles[actor.index()] = Role::Dead;
    }

    /// After a step: calls that it has woken run to their end, or to their next sleep.
    fn settle(&mut self, at: usize) {
        self.settle_once(at);
        let blocked = |stage: &Self| stage.roles.iter().any(|role| matches!(role, Role::Blocked(_)));
        if !self.patience.is_zero() && blocked(self) {
            std::thread::sleep(self.patience);
            self.settle_once(at);
        }
    }

    fn settle_once(&mut self, at: usize) {
        if self.roles.iter().any(|role| matches!(role, Role::Blocked(_))) {
            self.let_kernel_deliver();
        }
        for actor in self.cast() {
            let Role::Blocked(step) = self.roles[actor.index()] else { continue };
            let mut time = GLANCE;
            loop {
                let task = self.task(actor);
                if self.mail(actor, Mail::Done) == step as u32 + 1 {
                    let result = self.shared.record(step);
                    if let Some(before) = self.results.get_mut(step) {
                        before.push_str(&format!(", after step {}: {result}", at + 1));
                    }
                    self.roles[actor.index()] = Role::Idle;
                    break;
                }
                match task {
                    Task::Sleeps => break,
                    Task::Gone => {
                        self.bury(actor, at);
                        break;
                    }
                    Task::Runs if Instant::now() > self.deadline => break,
                    Task::Runs => self.pause(&mut time),
                }
            }
        }
    }

    /// Waits for what the kernel has put off on the program's processor. Only a few times: it may be busy
    /// with others' packets.
    fn let_kernel_deliver(&self) {
        const TIMES: u32 = 20;
        let cpu = self.shared.front(Front::Cpu).load(Ordering::SeqCst) as usize;
        let cpu = (!self.program.setting.spread).then_some(cpu);
        let mut time = GLANCE;
        for _ in 0..TIMES {
            if kernel_is_idle(cpu) {
                return;
            }
            self.pause(&mut time);
        }
    }

    fn look_at_descriptors(&mut self) {
        for (founder, ..) in self.processes.clone() {
            let of_it = |actor: &Actor| {
                self.roles[actor.index()] == Role::Idle
                    && self.mail(*actor, Mail::Founder) == u32::from(founder)
            };
            let Some(actor) = self.cast().find(of_it) else { continue };
            self.order(actor, LOOK);
            let mut time = GLANCE;
            while self.mail(actor, Mail::Done) != LOOK && Instant::now() < self.deadline {
                if self.task(actor) == Task::Gone {
                    break;
                }
                self.pause(&mut time);
            }
            self.tables.push((founder, self.shared.record(STEPS + usize::from(founder))));
        }
    }
}
