//! The dependencies between cables on one VL, kept acyclic while they grow.
//!
//! Every cable has a place in an order in which it only waits for later cables. If a new wait contradicts the
//! order, either the cables in between are moved (Pearce and Kelly, "A dynamic topological sort algorithm for
//! directed acyclic graphs", 2006), or the wait closes a cycle and is refused.

use super::ranks::Ranks;
use super::view::View;

/// Waits between the cables of one VL. A cable's number is switch × stride + port where it begins.
#[derive(Debug, Clone)]
pub(crate) struct Order<'a> {
    view: &'a View,
    words: usize,
    /// Per cable: the ports that it waits for, of the switch where it ends.
    bits: Vec<u64>,
    /// Per cable: the ports that it can never wait for, because they wait for it. Waits stay, so the cycle
    /// does too.
    never: Vec<u64>,
    place: Vec<u32>,
    /// Per cable: the last search that has seen it, so that a new search need not clear anything.
    seen: Vec<u32>,
    search: u32,
    /// Cables that a search may visit before the wait is refused without a result.
    search_limit: usize,
    /// Searches that found a cycle.
    #[cfg(test)]
    pub(crate) cycles: u32,
}

impl<'a> Order<'a> {
    /// An order without any wait. Cables that lead up are first, so that up-down routes fit without a search.
    pub(crate) fn new(view: &'a View, ranks: &Ranks) -> Self {
        Self::with_first(view, ranks, true)
    }

    /// An order in which cables that lead down are first, for routes that go down and then up.
    pub(crate) fn down_first(view: &'a View, ranks: &Ranks) -> Self {
        Self::with_first(view, ranks, false)
    }

    fn with_first(view: &'a View, ranks: &Ranks, up_first: bool) -> Self {
        let cables = view.switch_count() * view.stride();
        let words = view.stride().div_ceil(64);
        let mut sorted: Vec<u32> = (0..cables as u32).collect();
        sorted.sort_by_cached_key(|cable| {
            let (sw, port) = (*cable as usize / view.stride(), *cable as usize % view.stride());
            let Some((there, _)) = view.beyond(sw, port as u8) else { return (2, 0, 0) };
            let rank = i32::from(ranks.rank(sw));
            // Between equal ranks the lower switch is above.
            let is_up = ranks.is_up(sw, there);
            let of_group = if is_up { (rank, -(sw as i64)) } else { (-rank, sw as i64) };
            (u8::from(is_up != up_first), of_group.0, of_group.1)
        });
        let mut place = vec![0; cables];
        for (at, cable) in sorted.into_iter().enumerate() {
            place[cable as usize] = at as u32;
        }
        Self {
            view,
            words,
            bits: vec![0; cables * words],
            never: vec![0; cables * words],
            place,
            seen: vec![0; cables],
            search: 0,
            search_limit: usize::MAX,
            #[cfg(test)]
            cycles: 0,
        }
    }

    /// Refuses a wait if its search would visit more cables than this.
    pub(crate) fn with_search_limit(mut self, search_limit: usize) -> Self {
        self.search_limit = search_limit;
        self
    }

    fn word(&self, cable: usize, port: usize) -> (usize, u64) {
        (cable * self.words + port / 64, 1 << (port % 64))
    }

    /// Lets one cable wait for the next of a route. Returns whether the wait is new; refuses it if it closes
    /// a cycle.
    #[inline]
    pub(crate) fn wait(&mut self, cable: usize, next: usize) -> Result<bool, Cycle> {
        let (word, bit) = self.word(cable, next % self.view.stride());
        if self.bits[word] & bit != 0 {
            return Ok(false);
        }
        if self.never[word] & bit != 0 {
            return Err(Cycle);
        }
        if self.place[cable] >= self.place[next] {
            self.reorder(cable, next)?;
        }
        self.bits[word] |= bit;
        Ok(true)
    }

    /// Adds all of some waits, or none: false if one of them closes a cycle.
    pub(crate) fn wait_for_all(&mut self, waits: &[(usize, usize)]) -> bool {
        // Most routes that do not fit have a wait that was refused before: then nothing is tried and taken
        // back.
        if waits.iter().any(|(cable, next)| self.is_refused(*cable, *next)) {
            return false;
        }
        let mut added = Vec::new();
        for (cable, next) in waits.iter().copied() {
            match self.wait(cable, next) {
                Ok(true) => added.push((cable, next)),
                Ok(false) => {}
                Err(_) => {
                    added.into_iter().for_each(|(cable, next)| self.forget(cable, next));
                    self.remember_refused(cable, next);
                    return false;
                }
            }
        }
        true
    }

    /// Is it known that the wait closes a cycle?
    #[inline]
    fn is_refused(&self, cable: usize, next: usize) -> bool {
        let (word, bit) = self.word(cable, next % self.view.stride());
        self.never[word] & bit != 0
    }

    /// Remembers a wait that was refused, if it closes a cycle with the waits that stay, so that it is not
    /// searched again. Waits that were tried and [taken back](Self::forget) do not count.
    fn remember_refused(&mut self, cable: usize, next: usize) {
        if self.place[cable] >= self.place[next] && self.after(next, cable) == Err(Refused::Cycle) {
            let (word, bit) = self.word(cable, next % self.view.stride());
            self.never[word] |= bit;
        }
    }

    /// Takes a wait back.
    pub(crate) fn forget(&mut self, cable: usize, next: usize) {
        let (word, bit) = self.word(cable, next % self.view.stride());
        self.bits[word] &= !bit;
    }

    /// Moves `cable` before `next`, with all cables that must move with them.
    fn reorder(&mut self, cable: usize, next: usize) -> Result<(), Cycle> {
        let low = self.place[next];
        let mut after = self.after(next, cable).map_err(|_| Cycle)?;
        let mut before = vec![cable];
        self.search += 1;
        self.seen[cable] = self.search;
        let mut at = 0;
        while at < before.len() {
            let begin = before.len();
            self.waiting(before[at], &mut before);
            self.keep_new(&mut before, begin, |place| place >= low);
            at += 1;
        }
        after.sort_unstable_by_key(|cable| self.place[*cable]);
        before.sort_unstable_by_key(|cable| self.place[*cable]);
        let mut places: Vec<u32> = before.iter().chain(&after).map(|cable| self.place[*cable]).collect();
        places.sort_unstable();
        for (cable, place) in before.into_iter().chain(after).zip(places) {
            self.place[cable] = place;
        }
        Ok(())
    }

    /// A cable with all cables that it waits for, directly or not, up to the place of another, which must not
    /// be among them.
    fn after(&mut self, next: usize, cable: usize) -> Result<Vec<usize>, Refused> {
        let high = self.place[cable];
        let mut after = vec![next];
        self.search += 1;
        self.seen[next] = self.search;
        let mut at = 0;
        while at < after.len() {
            let begin = after.len();
            self.waited_for(after[at], &mut after);
            if after[begin..].contains(&cable) {
                #[cfg(test)]
                {
                    self.cycles += 1;
                }
                return Err(Refused::Cycle);
            }
            self.keep_new(&mut after, begin, |place| place <= high);
            at += 1;
            if after.len() > self.search_limit {
                return Err(Refused::Long);
            }
        }
        Ok(after)
    }

    /// Of the cables found from `begin` on, keeps those that this search has not seen and that lie between.
    fn keep_new(&mut self, found: &mut Vec<usize>, begin: usize, between: impl Fn(u32) -> bool) {
        let mut kept = begin;
        for index in begin..found.len() {
            let cable = found[index];
            if self.seen[cable] != self.search && between(self.place[cable]) {
                self.seen[cable] = self.search;
                found[kept] = cable;
                kept += 1;
            }
        }
        found.truncate(kept);
    }

    /// The cables that a cable waits for.
    fn waited_for(&self, cable: usize, found: &mut Vec<usize>) {
        let stride = self.view.stride();
        let Some((sw, _)) = self.view.beyond(cable / stride, (cable % stride) as u8) else { return };
        for word in 0..self.words {
            let mut bits = self.bits[cable * self.words + word];
            while bits != 0 {
                found.push(sw * stride + word * 64 + bits.trailing_zeros() as usize);
                bits &= bits - 1;
            }
        }
    }

    /// The cables that wait for a cable.
    fn waiting(&self, cable: usize, found: &mut Vec<usize>) {
        let stride = self.view.stride();
        let (sw, port) = (cable / stride, cable % stride);
        for entry in 0..stride {
            let Some((there, number)) = self.view.beyond(sw, entry as u8) else { continue };
            let before = there * stride + usize::from(number);
            let (word, bit) = self.word(before, port);
            if self.bits[word] & bit != 0 {
                found.push(before);
            }
        }
    }
}

/// Why a wait is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Refused {
    /// It would close a cycle.
    Cycle,
    /// The search was given up.
    Long,
}

/// It would close a cycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cycle;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{GraphBuilder, Kind, LinkSpec, NodeSpec};

    /// Three switches in a ring: from each by its first port to the next one.
    fn ring() -> View {
        let mut builder = GraphBuilder::new();
        let switch = |at: u64| NodeSpec::new(Kind::Switch, "s", 2).guid(1 + at);
        let all: Vec<_> = (0..3).map(|at| builder.node(switch(at)).unwrap()).collect();
        for at in 0..3 {
            builder.link((all[at], 1), (all[(at + 1) % 3], 2), LinkSpec::EDR4X).unwrap();
        }
        View::of(&builder.finish())
    }

    #[test]
    fn a_cycle_is_remembered_and_one_of_waits_that_were_taken_back_is_not() {
        let view = ring();
        let ranks = Ranks::of_centre(&view);
        let [a, b, c] = [0, 1, 2].map(|sw| view.channel(sw, 1));
        let mut order = Order::new(&view, &ranks);
        assert_eq!(order.wait(a, b), Ok(true));
        assert_eq!(order.wait(b, c), Ok(true));
        assert_eq!(order.wait(c, a), Err(Cycle));
        assert!(!order.is_refused(c, a));
        // The cycle needs the wait that is taken back.
        order.forget(b, c);
        order.remember_refused(c, a);
        assert!(!order.is_refused(c, a));
        assert_eq!(order.wait(b, c), Ok(true));
        assert_eq!(order.wait(c, a), Err(Cycle));
        order.remember_refused(c, a);
        assert!(order.is_refused(c, a) && !order.is_refused(a, b));
        let cycles = order.cycles;
        assert_eq!((order.wait(c, a), order.cycles), (Err(Cycle), cycles));
    }
}
