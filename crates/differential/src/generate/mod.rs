//! Makes a program from a number: the same one each time.
//!
//! Programs begin with one to three connections of some kind, and most of what follows happens on them: random calls alone
//! would mostly see `EBADF`.

mod connections;
mod descriptors;
mod lives;
mod model;
mod openings;
mod traffic;
mod waits;

use model::Model;

use crate::program::call::Kind;
use crate::program::{Actor, Call, Program, STEPS, Setting};

/// The program of this seed.
#[must_use]
pub fn program(seed: u64) -> Program {
    let mut model = Model::new(seed);
    if model.random.percent(RACES) {
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
        step(&mut model);
    }
    model.steps.truncate(STEPS);
    Program { setting, steps: model.steps }
}

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
type Move = (usize, fn(&mut Model));

const MOVES: [Move; 35] = [
    (5, openings::open),
    (19, traffic::send),
    (16, traffic::receive),
    (5, traffic::blocked_receive),
    (2, traffic::bulk),
    (4, connections::half_close),
    (2, traffic::sendfile),
    (2, traffic::splice),
    (4, traffic::pass),
    (2, connections::queued),
    (5, connections::options),
    (3, connections::addresses),
    (2, traffic::stdio),
    (2, connections::connect_more),
    (2, connections::reconnect),
    (2, connections::refused),
    (1, connections::kept_name),
    (7, waits::poll),
    (4, waits::epoll_new),
    (4, waits::epoll_change),
    (9, waits::epoll_wait),
    (2, waits::timed),
    (3, waits::edge_dance),
    (7, descriptors::duplicate),
    (4, descriptors::close),
    (1, descriptors::close_many),
    (4, descriptors::flags),
    (4, descriptors::reuse),
    (2, descriptors::wrong),
    (2, lives::multiply),
    (3, lives::signal),
    (2, lives::mask),
    (1, lives::limit),
    (1, lives::exec),
    (1, lives::end),
];

fn step(model: &mut Model) {
    let total: usize = MOVES.iter().map(|(weight, _)| weight).sum();
    let mut at = model.random.below(total);
    for (weight, act) in MOVES {
        if at < weight {
            return act(model);
        }
        at -= weight;
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
