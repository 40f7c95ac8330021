//! Calls that run at the same moment, checked by properties that hold for every outcome.
//!
//! A race is one call of a program. It makes its own connections and threads, and says `kept`, or which
//! promise was broken: bytes lost, doubled or out of order, a client accepted twice, an error that no kernel
//! gives there. A hang is seen by the controller.

mod crowd;
mod ends;
mod loops;
mod sharing;
mod stream;

use crate::program::call::{Kind, Scenario};
use crate::random::Random;

/// How a race ended.
type Promise = Result<(), String>;

/// Runs a race.
pub(super) fn race(scenario: Scenario, kind: Kind, seed: u32) -> String {
    let mut random = Random::new(u64::from(seed));
    let kept = match scenario {
        Scenario::Writers => stream::two_writers(kind, &mut random),
        Scenario::Duplex => stream::both_ways(kind, &mut random),
        Scenario::Storm => stream::signals(kind, &mut random),
        Scenario::Shutdown => stream::shutdown(kind, &mut random),
        Scenario::Reuse => crowd::numbers_change_hands(kind, &mut random),
        Scenario::Workers => crowd::workers(kind, &mut random),
        Scenario::Accept => crowd::acceptors(kind, &mut random),
        Scenario::Group => sharing::port_group(kind, &mut random),
        Scenario::Vforks => sharing::vforks(kind, &mut random),
        Scenario::Fork => crowd::forked_writer(kind, &mut random),
        Scenario::Readers => loops::two_readers(kind, &mut random),
        Scenario::Replaced => loops::replaced_under_a_writer(kind, &mut random),
        Scenario::Passed => loops::handed_on(kind, &mut random),
        Scenario::Handler => loops::handler_writes(kind, &mut random),
        Scenario::Both => loops::shut_down_both(kind, &mut random),
        Scenario::Busy => loops::never_waits(kind, &mut random),
        Scenario::Edges => loops::short_and_edges(kind, &mut random),
    };
    match kept {
        Ok(()) => "kept".to_owned(),
        Err(why) => format!("broken: {why}"),
    }
}
