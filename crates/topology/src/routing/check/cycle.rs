//! Finds credit loops: cycles of cables that wait for each other.

use super::Waiting;
use crate::Graph;
use crate::routing::view::View;

/// What waits for what: for each cable and VL by which packets come to a switch, a bit for each port and VL
/// by which they leave it.
#[derive(Debug, Clone)]
pub(super) struct Waits {
    vls: usize,
    stride: usize,
    /// Words of bits a cable and VL.
    words: usize,
    bits: Vec<u64>,
}

impl Waits {
    pub(super) fn new(view: &View, vls: u8) -> Self {
        let vls = usize::from(vls.max(1));
        let words = (view.stride() * vls).div_ceil(64);
        let bits = vec![0; view.switch_count() * view.stride() * vls * words];
        Self { vls, stride: view.stride(), words, bits }
    }

    /// Packets that came over a cable (numbered by where it begins) on a VL leave by a port on a VL.
    #[inline]
    pub(super) fn note(&mut self, came: usize, vl: u8, port: u8, next: u8) {
        let bit = usize::from(port) * self.vls + usize::from(next);
        let at = (came * self.vls + usize::from(vl)) * self.words + bit / 64;
        self.bits[at] |= 1 << (bit % 64);
    }

    pub(super) fn add(&mut self, other: &Self) {
        for (own, other) in self.bits.iter_mut().zip(&other.bits) {
            *own |= other;
        }
    }

    /// A cycle, if there is one: the path of a depth-first search that met itself.
    pub(super) fn cycle(&self, graph: &Graph, view: &View) -> Vec<Waiting> {
        let nodes = self.bits.len() / self.words.max(1);
        // 0: not seen; 1: on the path; 2: no cycle behind it.
        let mut state = vec![0_u8; nodes];
        let mut path: Vec<(usize, usize)> = Vec::new();
        for first in 0..nodes {
            if state[first] != 0 {
                continue;
            }
            state[first] = 1;
            path.push((first, 0));
            while let Some((node, from)) = path.pop() {
                let Some((next, bit)) = self.next(view, node, from) else {
                    state[node] = 2;
                    continue;
                };
                path.push((node, bit + 1));
                match state[next] {
                    0 => {
                        state[next] = 1;
                        path.push((next, 0));
                    }
                    1 => {
                        let begin = path.iter().position(|(node, _)| *node == next).unwrap_or(0);
                        let cycle = path[begin..].iter().map(|(node, _)| self.waiting(graph, view, *node));
                        return cycle.flatten().collect();
                    }
                    _ => {}
                }
            }
        }
        Vec::new()
    }

    /// What a cable and VL waits for: the first from a bit on.
    fn next(&self, view: &View, node: usize, from: usize) -> Option<(usize, usize)> {
        let words = &self.bits[node * self.words..(node + 1) * self.words];
        let mut word = from / 64;
        let mut rest = words.get(word)? & (u64::MAX << (from % 64));
        while rest == 0 {
            word += 1;
            rest = *words.get(word)?;
        }
        let bit = word * 64 + rest.trailing_zeros() as usize;
        let channel = node / self.vls;
        let (sw, _) = view.beyond(channel / self.stride, (channel % self.stride) as u8)?;
        let next = (sw * self.stride + bit / self.vls) * self.vls + bit % self.vls;
        Some((next, bit))
    }

    fn waiting(&self, graph: &Graph, view: &View, node: usize) -> Option<Waiting> {
        let channel = node / self.vls;
        let switch = view.switch(channel / self.stride);
        let port = graph.port(switch, (channel % self.stride) as u8)?;
        Some(Waiting { port, vl: (node % self.vls) as u8 })
    }
}
