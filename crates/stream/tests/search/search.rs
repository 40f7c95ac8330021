//! Every interleaving of a case, breadth first: is a promise broken in a state that can be reached, and can
//! the stream finish from each of them?

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use crate::choices::{Choice, choices};
use crate::fingerprint::{FirstHalf, fingerprint};
use crate::steps::apply;
use crate::world::{Case, World};

/// What a search found.
#[derive(Debug)]
pub(crate) struct Searched {
    pub(crate) states: usize,
    pub(crate) steps: usize,
    /// What went wrong, and how one gets there.
    pub(crate) fault: Option<Fault>,
}

#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) what: String,
    pub(crate) trace: Vec<String>,
}

/// Where a state was first reached from.
struct Reached {
    from: u32,
    by: Choice,
}

struct Graph {
    ids: HashMap<u128, u32, BuildHasherDefault<FirstHalf>>,
    reached: Vec<Reached>,
    /// Steps from one state to another that nobody has to die for.
    steps: Vec<(u32, u32)>,
    done: Vec<u32>,
    count: usize,
}

/// Explores a case; panics above `most` states, so that a case that is too large is noticed.
pub(crate) fn search(case: &Case, most: usize) -> Searched {
    let mut graph =
        Graph { ids: HashMap::default(), reached: Vec::new(), steps: Vec::new(), done: Vec::new(), count: 0 };
    let first = World::new(case);
    graph.ids.insert(fingerprint(&first), 0);
    graph.reached.push(Reached { from: 0, by: Choice::Arrive });
    let mut level = vec![(0, first)];
    while !level.is_empty() {
        let mut next = Vec::new();
        for (id, world) in &level {
            if let Err(fault) = graph.expand(case, *id, world, &mut next) {
                return graph.searched(Some(fault));
            }
        }
        assert!(graph.reached.len() <= most, "{}: more than {most} states", case.name);
        level = next;
    }
    let stuck = graph.stuck();
    let fault = stuck
        .map(|id| Fault { what: "the stream cannot finish from here".into(), trace: graph.trace(case, id) });
    graph.searched(fault)
}

impl Graph {
    fn expand(
        &mut self,
        case: &Case,
        id: u32,
        world: &World,
        next: &mut Vec<(u32, World)>,
    ) -> Result<(), Fault> {
        if world.is_done(case) {
            self.done.push(id);
        }
        let mut possible = Vec::new();
        choices(case, world, &mut possible);
        for choice in possible {
            let mut after = world.clone();
            if let Err(what) = apply(case, &mut after, choice) {
                let mut trace = self.trace(case, id);
                trace.push(format!("{choice:?}: {what}"));
                return Err(Fault { what, trace });
            }
            self.count += 1;
            let fresh = self.reached.len() as u32;
            let to = *self.ids.entry(fingerprint(&after)).or_insert(fresh);
            if to == fresh {
                self.reached.push(Reached { from: id, by: choice });
                next.push((to, after));
            }
            if choice.is_help(case, world) && to != id {
                self.steps.push((to, id));
            }
        }
        Ok(())
    }

    /// A state from which no done one can be reached: the first that was found.
    fn stuck(&mut self) -> Option<u32> {
        self.steps.sort_unstable();
        let mut finishes = vec![false; self.reached.len()];
        let mut open = self.done.clone();
        open.iter().for_each(|&id| finishes[id as usize] = true);
        while let Some(to) = open.pop() {
            let begin = self.steps.partition_point(|&(at, _)| at < to);
            for &(_, from) in self.steps[begin..].iter().take_while(|&&(at, _)| at == to) {
                if !std::mem::replace(&mut finishes[from as usize], true) {
                    open.push(from);
                }
            }
        }
        finishes.iter().position(|&finishes| !finishes).map(|id| id as u32)
    }

    /// The steps from the beginning, each with what it left behind.
    fn trace(&self, case: &Case, mut id: u32) -> Vec<String> {
        let mut path = Vec::new();
        while id != 0 {
            let reached = &self.reached[id as usize];
            path.push(reached.by);
            id = reached.from;
        }
        let mut world = World::new(case);
        let line = |world: &mut World, choice| {
            let what = match choice {
                Choice::Step { who, .. } => format!("{:?}", world.processes[who].next),
                _ => String::new(),
            };
            // It went well when the state was found.
            let _ = apply(case, world, choice);
            format!("{choice:?} {what} -> {:?}", world.words)
        };
        path.into_iter().rev().map(|choice| line(&mut world, choice)).collect()
    }

    fn searched(self, fault: Option<Fault>) -> Searched {
        Searched { states: self.reached.len(), steps: self.count, fault }
    }
}
