//! Routes of grids, dimension by dimension.
//!
//! A route first gets its first coordinate right, then the second, and so on, so that cables of one direction
//! wait only for those of later ones (e-cube; Dally and Seitz, 1987). On a ring the shorter direction is
//! taken, or the other one if a cable is dead there; routes that cross the cable between the last and the
//! first place of a ring are on VL 1 there, all others on VL 0, and a bit of the service level per direction
//! says which (as OpenSM's torus-2QoS does it).

use super::Form;
use crate::routing::destinations::Destination;
use crate::routing::tables::NO_PATH;
use crate::routing::view::{Neighbour, View};
use crate::routing::vls::LEVELS;
use crate::{Graph, NodeIx};

/// Rings that a grid may have: a bit of the service level each, and one level is left for what can't go this
/// way.
const MOST_RINGS: usize = 3;

/// What the switches of a line are wired to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Line {
    /// To both neighbours, round about.
    Ring,
    /// To both neighbours, with open ends.
    Open,
    /// Each to all others.
    Complete,
}

/// Why a grid is none, or not one that can be routed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GridError {
    /// Not a coordinate for every switch.
    #[error("the grid has {places} places, and the fabric has {}", crate::counted(*switches, "switch"))]
    Count {
        /// Places of the grid.
        places: usize,
        /// Switches of the graph.
        switches: usize,
    },
    /// A cable contradicts the coordinates.
    #[error("switches `{0}` and `{1}` are connected, and the grid has no cable between their places")]
    Stray(String, String),
    /// More rings than service levels allow.
    #[error(
        "a torus of {0} rings needs more than the 16 service levels (SLs), which are enough for 3 rings: take the engine `layered`"
    )]
    Rings(usize),
}

/// Where the switches of a graph stand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grid {
    sizes: Vec<u32>,
    lines: Vec<Line>,
    /// Coordinates of all switches.
    at: Vec<u32>,
    /// Switch at each place, the first coordinate running fastest.
    switches: Vec<u32>,
}

impl Grid {
    /// Switches with given coordinates; `at` is asked once for each switch.
    ///
    /// # Errors
    /// See [`GridError`].
    pub fn new(
        graph: &Graph,
        sizes: &[u32],
        lines: &[Line],
        mut at: impl FnMut(NodeIx) -> Vec<u32>,
    ) -> Result<Self, GridError> {
        let view = View::of(graph);
        let places = sizes.iter().map(|size| *size as usize).product();
        let wrong = GridError::Count { places, switches: view.switch_count() };
        if places != view.switch_count() || lines.len() != sizes.len() {
            return Err(wrong);
        }
        let rings = lines.iter().filter(|line| **line == Line::Ring).count();
        if rings > MOST_RINGS {
            return Err(GridError::Rings(rings));
        }
        let mut grid = Self {
            sizes: sizes.to_vec(),
            lines: lines.to_vec(),
            at: Vec::new(),
            switches: vec![u32::MAX; places],
        };
        for sw in 0..view.switch_count() {
            let own = at(view.switch(sw));
            let fits = own.len() == sizes.len() && own.iter().zip(sizes).all(|(at, size)| at < size);
            grid.at.extend_from_slice(&own);
            let place = grid.place(&own);
            if !fits || std::mem::replace(&mut grid.switches[place], sw as u32) != u32::MAX {
                return Err(wrong);
            }
        }
        grid.judge(graph, &view)?;
        Ok(grid)
    }

    /// Switches in the order of the graph, the first coordinate running fastest: as builders make them.
    ///
    /// # Errors
    /// See [`GridError`].
    pub fn in_order(graph: &Graph, sizes: &[u32], line: Line) -> Result<Self, GridError> {
        let mut next = 0_u32;
        Self::new(graph, sizes, &vec![line; sizes.len()], |_| {
            let mut rest = next;
            next += 1;
            sizes
                .iter()
                .map(|size| {
                    let at = rest % size;
                    rest /= size;
                    at
                })
                .collect()
        })
    }

    /// Places of the grid: as many as switches.
    #[must_use]
    pub fn places(&self) -> usize {
        self.switches.len()
    }

    fn place(&self, at: &[u32]) -> usize {
        let mut place = 0;
        for (at, size) in at.iter().zip(&self.sizes).rev() {
            place = place * *size as usize + *at as usize;
        }
        place.min(self.switches.len().saturating_sub(1))
    }

    fn of(&self, sw: usize) -> &[u32] {
        &self.at[sw * self.sizes.len()..(sw + 1) * self.sizes.len()]
    }

    /// Every cable must be one of the grid's.
    fn judge(&self, graph: &Graph, view: &View) -> Result<(), GridError> {
        for sw in 0..view.switch_count() {
            for near in view.neighbours(sw) {
                if self.direction(sw, near.sw as usize).is_none() {
                    let name = |sw: usize| graph.name(view.switch(sw)).to_owned();
                    return Err(GridError::Stray(name(sw), name(near.sw as usize)));
                }
            }
        }
        Ok(())
    }

    /// The direction of the cable between two switches, if the grid has one.
    fn direction(&self, a: usize, b: usize) -> Option<usize> {
        let (a, b) = (self.of(a), self.of(b));
        let mut differ = (0..a.len()).filter(|at| a[*at] != b[*at]);
        let direction = differ.next().filter(|_| differ.next().is_none())?;
        let (size, apart) = (self.sizes[direction], a[direction].abs_diff(b[direction]));
        let wired = match self.lines[direction] {
            Line::Complete => true,
            Line::Open => apart == 1,
            Line::Ring => apart == 1 || apart == size - 1,
        };
        wired.then_some(direction)
    }

    /// The switch at the place that differs in one coordinate.
    fn moved(&self, sw: usize, direction: usize, to: u32) -> usize {
        let mut at = self.of(sw).to_vec();
        at[direction] = to;
        self.switches[self.place(&at)] as usize
    }
}

/// A grid's routes on what is left of its cables.
pub(crate) struct GridForm<'a> {
    grid: &'a Grid,
    view: &'a View,
    components: Vec<u32>,
    /// Which bit of the level is a direction's.
    bit: Vec<Option<u32>>,
}

impl<'a> GridForm<'a> {
    pub(crate) fn of(grid: &'a Grid, view: &'a View) -> Self {
        let mut next = 0;
        let bits = grid.lines.iter().map(|line| {
            let ring = *line == Line::Ring;
            next += u32::from(ring);
            ring.then(|| next - 1)
        });
        Self { bit: bits.collect(), grid, view, components: view.components() }
    }

    fn rings(&self) -> u32 {
        self.bit.iter().flatten().count() as u32
    }

    fn cable(&self, from: usize, to: usize) -> Option<Neighbour> {
        self.view.neighbours(from).iter().copied().find(|near| near.sw as usize == to)
    }

    /// The next switch on the path along one direction.
    fn step(&self, from: usize, to: usize, direction: usize) -> Option<usize> {
        let (here, there) = (self.grid.of(from)[direction], self.grid.of(to)[direction]);
        let next = match self.grid.lines[direction] {
            Line::Complete => there,
            Line::Open => {
                if here < there {
                    here + 1
                } else {
                    here - 1
                }
            }
            Line::Ring => return self.around(from, here, there, direction),
        };
        Some(self.grid.moved(from, direction, next))
    }

    /// The next switch around a ring: the shorter direction, or the longer if that one is broken.
    fn around(&self, from: usize, here: u32, there: u32, direction: usize) -> Option<usize> {
        let size = self.grid.sizes[direction];
        let ahead = (there + size - here) % size;
        let forward = match (ahead * 2).cmp(&size) {
            std::cmp::Ordering::Less => true,
            std::cmp::Ordering::Greater => false,
            // As far either way: some go one way, some the other.
            std::cmp::Ordering::Equal => self.grid.of(from).iter().sum::<u32>().is_multiple_of(2),
        };
        let ways = [forward, !forward];
        let way = ways.into_iter().find(|forward| self.whole(from, here, there, direction, *forward))?;
        Some(self.grid.moved(from, direction, next(here, size, way)))
    }

    /// Is every cable alive on a ring from one place to another?
    fn whole(&self, sw: usize, mut here: u32, there: u32, direction: usize, forward: bool) -> bool {
        let mut from = sw;
        while here != there {
            here = next(here, self.grid.sizes[direction], forward);
            let to = self.grid.moved(from, direction, here);
            if self.cable(from, to).is_none() {
                return false;
            }
            from = to;
        }
        true
    }
}

/// The next place of a ring.
fn next(here: u32, size: u32, forward: bool) -> u32 {
    if forward { (here + 1) % size } else { (here + size - 1) % size }
}

impl Form for GridForm<'_> {
    fn vls(&self) -> u8 {
        // Without a ring nothing forbids to share a VL with other routes.
        if self.rings() == 0 { 0 } else { 2 }
    }

    fn levels(&self) -> u8 {
        if self.rings() == 0 { 0 } else { 1 << self.rings() }
    }

    fn ports(&self, to: usize, one: &Destination, port: &mut [u8]) -> bool {
        port.fill(NO_PATH);
        let mut good = true;
        for from in (0..self.view.switch_count()).filter(|from| *from != to) {
            if self.components[from] != self.components[to] {
                continue;
            }
            let (here, there) = (self.grid.of(from), self.grid.of(to));
            let direction = (0..here.len()).find(|at| here[*at] != there[*at]);
            let next = direction.and_then(|direction| self.step(from, to, direction));
            match next.and_then(|next| self.cable(from, next)) {
                Some(near) => {
                    let cable = one.number as usize % usize::from(near.cables.max(1));
                    port[from] = self.view.cables(from, near).nth(cable).unwrap_or(near.port);
                }
                None => good = false,
            }
        }
        good
    }

    fn level(&self, from: usize, to: usize) -> u8 {
        let mut level = 0;
        let (mut sw, end) = (from, self.grid.of(to));
        for (direction, there) in end.iter().enumerate() {
            while self.grid.of(sw)[direction] != *there {
                let Some(next) = self.step(sw, to, direction) else { return level };
                let apart = self.grid.of(sw)[direction].abs_diff(self.grid.of(next)[direction]);
                if let Some(bit) = self.bit[direction].filter(|_| apart > 1) {
                    level |= 1 << bit;
                }
                sw = next;
            }
        }
        level
    }

    fn vls_at(&self, sw: usize, _: u8, goes: u8) -> [u8; LEVELS] {
        let there = self.view.beyond(sw, goes).and_then(|(there, _)| self.grid.direction(sw, there));
        match there.and_then(|direction| self.bit[direction]) {
            Some(bit) => std::array::from_fn(|level| (level >> bit & 1) as u8),
            None => [0; LEVELS],
        }
    }
}
