//! Cables that go down and up again and again: they are held back until they have been up for a while, so
//! that not every change leads to new tables.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use topology::{Graph, PortIx};

/// So often a cable goes down within this time before it is held back.
const MOST_FALLS: usize = 2;
/// The time in which they are counted.
const WINDOW: Duration = Duration::from_secs(60);
/// Within this time it is the same fall, which the other end reports.
const SAME: Duration = Duration::from_millis(200);
/// The longest time for which a cable is held back; it doubles each time.
const LONGEST: Duration = Duration::from_secs(600);

/// A cable, as long as it is at the same ports: GUID and port of one end (the lower).
pub(crate) type Cable = (u64, u8);

/// The cable at a port of a graph.
pub(crate) fn cable(graph: &Graph, port: PortIx) -> Option<Cable> {
    let far = graph.peer(port)?;
    let end = |port: PortIx| (graph.node_guid(graph.owner(port)), graph.number(port));
    Some(end(port).min(end(far)))
}

#[derive(Debug, Default)]
struct History {
    falls: VecDeque<Duration>,
    /// Until when it is held back; put off each time that it falls.
    until: Option<Duration>,
    /// How often it was held back.
    times: u32,
}

/// All cables that went down lately.
#[derive(Debug)]
pub(crate) struct Flaps {
    /// For how long a cable has to be up; zero: none is held back.
    hold: Duration,
    by_cable: HashMap<Cable, History>,
}

impl Flaps {
    pub(crate) fn new(hold: Duration) -> Self {
        Self { hold, by_cable: HashMap::new() }
    }

    /// A cable went down. True: it is held back from now on.
    pub(crate) fn fell(&mut self, cable: Cable, now: Duration) -> bool {
        if self.hold.is_zero() {
            return false;
        }
        self.by_cable.retain(|_, history| {
            history.until.is_some() || history.falls.back().is_some_and(|last| *last + LONGEST > now)
        });
        let history = self.by_cable.entry(cable).or_default();
        if history.falls.back().is_some_and(|last| *last + SAME > now) {
            return false;
        }
        history.falls.push_back(now);
        while history.falls.front().is_some_and(|first| *first + WINDOW <= now) {
            history.falls.pop_front();
        }
        let held = history.until.is_some();
        if held || history.falls.len() >= MOST_FALLS {
            history.times += u32::from(!held);
            let hold = self.hold * 2_u32.saturating_pow(history.times.saturating_sub(1).min(16));
            history.until = Some(now + hold.min(LONGEST));
        }
        !held && history.until.is_some()
    }

    /// Is it held back?
    pub(crate) fn holds(&self, cable: Cable, now: Duration) -> bool {
        self.by_cable.get(&cable).and_then(|history| history.until).is_some_and(|until| until > now)
    }

    /// It is not to be held back: nothing else leads to somebody.
    pub(crate) fn spare(&mut self, cable: Cable) {
        self.by_cable.remove(&cable);
    }

    /// Those whose time is over, which are held back no longer. What they did before is forgotten but for how
    /// often they were held back.
    pub(crate) fn released(&mut self, now: Duration) -> Vec<Cable> {
        let mut all: Vec<Cable> = self
            .by_cable
            .iter_mut()
            .filter(|(_, history)| history.until.is_some_and(|until| until <= now))
            .map(|(cable, history)| {
                history.until = None;
                *cable
            })
            .collect();
        all.sort_unstable();
        all
    }

    /// When the next one is released.
    pub(crate) fn due(&self) -> Option<Duration> {
        self.by_cable.values().filter_map(|history| history.until).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOLD: Duration = Duration::from_secs(30);

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_cable_that_falls_too_often_is_held_until_it_was_up_for_long_enough() {
        let (mut flaps, cable) = (Flaps::new(HOLD), (1, 1));
        assert!(!flaps.fell(cable, at(0)) && !flaps.holds(cable, at(0)));
        assert!(!flaps.fell(cable, at(60)), "the first is forgotten");
        let soon = at(60) + SAME / 2;
        assert!(!flaps.fell(cable, soon), "it is the same, from its other end");
        assert!(flaps.fell(cable, at(75)) && flaps.holds(cable, at(104)) && !flaps.holds((1, 2), at(80)));
        assert!(!flaps.fell(cable, at(100)), "it is held already");
        assert!(flaps.holds(cable, at(129)) && flaps.released(at(129)).is_empty());
        assert_eq!((flaps.due(), flaps.released(at(130))), (Some(at(130)), vec![cable]));
        assert!(!flaps.holds(cable, at(130)) && flaps.due().is_none());
        // The next time is twice as long.
        assert!(flaps.fell(cable, at(131)) && flaps.holds(cable, at(190)) && !flaps.holds(cable, at(191)));
    }

    #[test]
    fn without_a_time_none_is_held_and_a_spared_one_begins_anew() {
        let mut none = Flaps::new(Duration::ZERO);
        assert!((0..9).all(|second| !none.fell((1, 1), at(second))));
        let mut flaps = Flaps::new(HOLD);
        assert!(!flaps.fell((1, 1), at(0)) && flaps.fell((1, 1), at(1)));
        flaps.spare((1, 1));
        assert!(!flaps.holds((1, 1), at(3)) && !flaps.fell((1, 1), at(4)));
    }
}
