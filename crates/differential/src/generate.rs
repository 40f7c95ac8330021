//! Generates a program from a seed: the same one each time.
//!
//! Programs begin with one to three connections of some kind, and most of what follows happens on them:
//! random calls alone would mostly see `EBADF`.

mod connections;
mod descriptors;
mod lives;
mod model;
mod odd;
mod openings;
mod sequences;
mod traffic;
mod waits;

use model::Model;

use crate::program::call::Kind;
use crate::program::{Actor, Call, Program, STEPS, Setting};

/// The program of this seed.
#[must_use]
pub fn program(seed: u64) -> Program {
    focused(seed, &[])
}

/// The program of this seed in a run that looks at some families of moves, by their names: other ones come
/// seldom in it.
#[must_use]
pub fn focused(seed: u64, focus: &[String]) -> Program {
    let mut model = Model::new(seed);
    if model.random.percent(RACES) && (focus.is_empty() || focus.iter().any(|name| name == RACE)) {
        return race(&mut model);
    }
    let setting = Setting { spread: model.random.percent(15), bare: model.random.percent(10) };
    lives::prepare(&mut model);
    for _ in 0..model.random.within(1, 3) {
        openings::open(&mut model);
    }
    if model.random.percent(45) {
        lives::multiply(&mut model);
    }
    let wanted = model.random.within(8, 45) as usize + model.steps.len();
    let mut tries = 0;
    while model.steps.len() < wanted && tries < 400 {
        tries += 1;
        step(&mut model, focus);
    }
    model.steps.truncate(STEPS);
    Program { setting, steps: model.steps }
}

/// The name of races among families.
pub const RACE: &str = "race";
/// So many programs in a hundred are races.
const RACES: usize = 8;

/// One race, or two after each other in the same process.
fn race(model: &mut Model) -> Program {
    for _ in 0..model.random.within(1, 2) {
        let kind =
            model.random.pick(&[Kind::Tcp4, Kind::Tcp4, Kind::Tcp6, Kind::UnixStream]).unwrap_or(Kind::Tcp4);
        let call =
            Call::Race { scenario: model.random.choice(), kind, seed: model.random.within(0, 1 << 20) };
        model.waiting_step(Actor(0), call);
    }
    Program { setting: Setting { spread: true, bare: false }, steps: std::mem::take(&mut model.steps) }
}

/// What may come next, with how often it shall.
type Move = (usize, &'static str, fn(&mut Model));

/// How much more often a family comes that a run is to look at.
const FOCUS: usize = 25;

/// The names of all families of moves.
#[must_use]
pub fn families() -> Vec<&'static str> {
    MOVES.iter().map(|(_, name, _)| *name).chain([RACE]).collect()
}

const MOVES: [Move; 53] = [
    (5, "open", openings::open),
    (19, "send", traffic::send),
    (16, "receive", traffic::receive),
    (5, "blocked-receive", traffic::blocked_receive),
    (2, "bulk", traffic::bulk),
    (4, "half-close", connections::half_close),
    (2, "sendfile", traffic::sendfile),
    (2, "splice", traffic::splice),
    (4, "pass", traffic::pass),
    (2, "queued", connections::queued),
    (5, "options", connections::options),
    (3, "addresses", connections::addresses),
    (2, "stdio", traffic::stdio),
    (2, "connect-more", connections::connect_more),
    (2, "reconnect", connections::reconnect),
    (2, "refused", connections::refused),
    (1, "kept-name", connections::kept_name),
    (7, "poll", waits::poll),
    (4, "epoll-new", waits::epoll_new),
    (4, "epoll-change", waits::epoll_change),
    (9, "epoll-wait", waits::epoll_wait),
    (2, "timed", waits::timed),
    (3, "edge-dance", waits::edge_dance),
    (7, "duplicate", descriptors::duplicate),
    (4, "close", descriptors::close),
    (1, "close-many", descriptors::close_many),
    (4, "descriptor-flags", descriptors::flags),
    (4, "reuse", descriptors::reuse),
    (2, "closed-numbers", descriptors::wrong),
    (2, "multiply", lives::multiply),
    (3, "signal", lives::signal),
    (2, "mask", lives::mask),
    (1, "limit", lives::limit),
    (1, "exec", lives::exec),
    (1, "end", lives::end),
    (2, "ring", odd::ring),
    (1, "aio", odd::aio),
    (1, "cancel", odd::cancel),
    (2, "vfork", odd::vfork),
    (2, "numbers", odd::numbers),
    (1, "scarcity", odd::scarcity),
    (1, "crowd", odd::crowd),
    (4, "wrong", odd::wrong),
    (2, "reset", sequences::reset),
    (2, "farewell", sequences::farewell),
    (3, "peeks", sequences::peeks),
    (2, "nested", sequences::nested),
    (1, "deferred", sequences::deferred),
    (2, "hand-over", sequences::hand_over),
    (1, "two-numbers", sequences::two_numbers),
    (3, "interrupted", sequences::interrupted),
    (1, "socket-times", sequences::socket_times),
    (1, "unshare", sequences::unshare),
];

fn step(model: &mut Model, focus: &[String]) {
    let weight = |one: &Move| one.0 * if focus.iter().any(|name| name == one.1) { FOCUS } else { 1 };
    let total: usize = MOVES.iter().map(weight).sum();
    let mut at = model.random.below(total);
    for one in &MOVES {
        if at < weight(one) {
            return one.2(model);
        }
        at -= weight(one);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::program::Program;

    #[test]
    fn a_seed_is_a_program_and_its_text_reads_back() {
        for seed in 0..300 {
            let made = program(seed);
            assert_eq!(made, program(seed));
            assert_eq!(Program::parse(&made.text()).unwrap(), made, "seed {seed}");
            assert!(!made.steps.is_empty() && made.steps.len() <= STEPS);
        }
    }

    #[test]
    fn every_call_and_several_processes_come_up() {
        let mut seen = BTreeSet::new();
        for seed in 0..3000 {
            seen.extend(program(seed).steps.iter().map(|step| step.call.name()));
        }
        for call in crate::program::call::NAMES {
            assert!(seen.contains(call), "no program of 3000 has a `{call}`");
        }
    }
}
