//! Recognises grids: torus, mesh, HyperX, hypercube. Such a graph is a product of lines, and in a
//! product each two cables of different directions that meet at a switch span a square, whose
//! opposite cables have one direction.
//!
//! Cables that squares show to be parallel are a class: all those between one layer and the next. Classes
//! that meet without a square belong to one direction; faults are outvoted. What a class has on one side is
//! one layer, and the number of the layer is a switch's coordinate.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::switches::{Sets, Switches};
use super::{Line, Opinion, Shape, spread};

mod repair;

/// Pairs of cables that are examined, at most; more have only graphs that are no grid.
const MOST_WORK: usize = 20_000_000;
/// Directions that a grid may have.
const MOST_DIRECTIONS: usize = 20;

/// A cable between two switches, from the first to the second.
type Cable = (usize, usize);

pub(super) fn judge(switches: &Switches<'_>) -> Option<Opinion> {
    let work: usize = switches.beside.iter().map(|row| row.len() * row.len()).sum();
    if work > MOST_WORK || switches.len() < 3 {
        return None;
    }
    let classes = Classes::of(switches);
    let (direction, directions) = classes.directions(switches);
    if directions == 0 || directions > MOST_DIRECTIONS {
        return None;
    }
    let layers: Vec<(Vec<u32>, u32)> =
        (0..directions as u32).map(|one| classes.layers(switches, &direction, one)).collect();
    weigh(switches, layers)
}

/// Classes of parallel cables.
struct Classes {
    cables: Vec<Cable>,
    index: HashMap<Cable, usize>,
    class: Vec<u32>,
    /// Does it run along its class, or against it?
    turned: Vec<bool>,
    /// How many cables each class has, and the median cable's class.
    size: Vec<u32>,
    usual: u32,
}

/// How often two classes meet with a square, and without.
#[derive(Debug, Clone, Copy, Default)]
struct Votes {
    square: u32,
    none: u32,
}

impl Votes {
    fn add(&mut self, other: Self) {
        self.square += other.square;
        self.none += other.none;
    }
}

impl Classes {
    fn of(switches: &Switches<'_>) -> Self {
        let cables: Vec<Cable> = switches.pairs().collect();
        let index: HashMap<Cable, usize> = cables.iter().copied().zip(0..).collect();
        let mut sets = Turning::new(cables.len());
        for at in 0..switches.len() {
            for (v, w) in corners(switches, at) {
                if let Some(x) = square(switches, at, v, w) {
                    for (one, other) in [((at, v), (w, x)), ((at, w), (v, x))] {
                        let (one, turn) = find(&index, one);
                        let (other, other_turn) = find(&index, other);
                        sets.join(one, other, turn != other_turn);
                    }
                }
            }
        }
        let (mut number, mut class, mut turned) = (HashMap::new(), Vec::new(), Vec::new());
        for cable in 0..cables.len() {
            let (root, turn) = sets.of(cable);
            let next = number.len() as u32;
            class.push(*number.entry(root).or_insert(next));
            turned.push(turn);
        }
        let mut size = vec![0; number.len()];
        class.iter().for_each(|class: &u32| size[*class as usize] += 1);
        let mut sizes: Vec<u32> = class.iter().map(|class| size[*class as usize]).collect();
        sizes.sort_unstable();
        let usual = sizes.get(sizes.len() / 2).copied().unwrap_or(0);
        Self { cables, index, class, turned, size, usual }
    }

    fn class(&self, a: usize, b: usize) -> u32 {
        self.class[find(&self.index, (a, b)).0]
    }

    /// How often classes meet with a square, and without one.
    fn votes(&self, switches: &Switches<'_>) -> BTreeMap<(u32, u32), Votes> {
        let mut votes: BTreeMap<(u32, u32), Votes> = BTreeMap::new();
        for at in 0..switches.len() {
            for (v, w) in all_corners(switches, at) {
                let (a, b) = (self.class(at, v), self.class(at, w));
                if self.is_stray(a) || self.is_stray(b) || a == b {
                    continue;
                }
                let vote = votes.entry((a.min(b), a.max(b))).or_default();
                if !switches.are_wired(v, w) && square(switches, at, v, w).is_some() {
                    vote.square += 1;
                } else {
                    vote.none += 1;
                }
            }
        }
        votes
    }

    /// A class so small that its squares must have been lost: it can't be trusted.
    fn is_stray(&self, class: u32) -> bool {
        self.size[class as usize] * 4 < self.usual
    }

    /// The direction of each class, and how many there are. Those that meet most often without a square are
    /// joined first, and only if their directions so far do so mostly; `u32::MAX` are strays.
    fn directions(&self, switches: &Switches<'_>) -> (Vec<u32>, usize) {
        let votes = self.votes(switches);
        let mut order: Vec<(u32, (u32, u32))> = votes.iter().map(|(pair, vote)| (vote.none, *pair)).collect();
        order.sort_by_key(|(none, pair)| (std::cmp::Reverse(*none), *pair));
        let mut between: Vec<BTreeMap<usize, Votes>> = vec![BTreeMap::new(); self.size.len()];
        for ((a, b), vote) in votes {
            between[a as usize].insert(b as usize, vote);
            between[b as usize].insert(a as usize, vote);
        }
        let mut sets = Sets::new(self.size.len());
        for (none, (a, b)) in order {
            let (a, b) = (sets.of(a as usize), sets.of(b as usize));
            let sum = between[a].get(&b).copied().unwrap_or_default();
            if none == 0 || a == b || sum.none <= sum.square {
                continue;
            }
            sets.join(a, b);
            let root = sets.of(a);
            let other = if root == a { b } else { a };
            for (third, vote) in std::mem::take(&mut between[other]) {
                between[third].remove(&other);
                if third != root {
                    between[root].entry(third).or_default().add(vote);
                    between[third].entry(root).or_default().add(vote);
                }
            }
        }
        self.numbered(&mut sets)
    }

    fn numbered(&self, sets: &mut Sets) -> (Vec<u32>, usize) {
        let mut number = BTreeMap::new();
        let mut of = |class: usize| {
            if self.is_stray(class as u32) {
                return u32::MAX;
            }
            let next = number.len() as u32;
            *number.entry(sets.of(class)).or_insert(next)
        };
        let direction = (0..self.size.len()).map(&mut of).collect();
        (direction, number.len())
    }

    /// The layer of each switch in a direction, and how many there are: switches at one side of a class, and
    /// those that are wired in another direction, lie in one.
    fn layers(&self, switches: &Switches<'_>, direction: &[u32], wanted: u32) -> (Vec<u32>, u32) {
        let mut sets = Sets::new(switches.len());
        let mut sides: HashMap<(u32, bool), usize> = HashMap::new();
        for (at, (a, b)) in self.cables.iter().enumerate() {
            let class = self.class[at];
            let direction = direction[class as usize];
            if direction != wanted {
                if direction != u32::MAX {
                    sets.join(*a, *b);
                }
                continue;
            }
            for (node, side) in [(*a, self.turned[at]), (*b, !self.turned[at])] {
                let first = *sides.entry((class, side)).or_insert(node);
                sets.join(first, node);
            }
        }
        sets.numbered()
    }
}

/// A cable by its ends in any order: which it is, and whether it is turned.
fn find(index: &HashMap<Cable, usize>, (a, b): Cable) -> (usize, bool) {
    (index[&(a.min(b), a.max(b))], a > b)
}

/// Each two neighbours of a switch.
fn all_corners<'a>(switches: &'a Switches<'_>, at: usize) -> impl Iterator<Item = (usize, usize)> + 'a {
    let row = &switches.beside[at];
    row.iter()
        .enumerate()
        .flat_map(move |(next, v)| row[next + 1..].iter().map(|w| (*v as usize, *w as usize)))
}

/// Those that are not wired to each other.
fn corners<'a>(switches: &'a Switches<'_>, at: usize) -> impl Iterator<Item = (usize, usize)> + 'a {
    all_corners(switches, at).filter(|(v, w)| !switches.are_wired(*v, *w))
}

/// The fourth corner, if there is exactly one and it closes no triangle.
fn square(switches: &Switches<'_>, at: usize, v: usize, w: usize) -> Option<usize> {
    let mut fourth = None;
    for x in &switches.beside[v] {
        let x = *x as usize;
        if x != at && switches.are_wired(x, w) {
            if fourth.is_some() {
                return None;
            }
            fourth = Some(x);
        }
    }
    fourth.filter(|x| !switches.are_wired(*x, at))
}

/// Compares what is there with the grid that the layers make.
fn weigh(switches: &Switches<'_>, mut layers: Vec<(Vec<u32>, u32)>) -> Option<Opinion> {
    for which in 0..layers.len() {
        repair::join_components(switches, &mut layers, which);
    }
    layers.iter_mut().for_each(repair::drop_crumbs);
    layers.sort_by_key(|layer| layer.1);
    let room: f64 = layers.iter().map(|layer| f64::from(layer.1)).product();
    let placed: Vec<usize> =
        (0..switches.len()).filter(|at| layers.iter().all(|layer| layer.0[*at] != u32::MAX)).collect();
    let place = |at: &usize| layers.iter().map(|layer| layer.0[*at]).collect();
    let places: HashSet<Vec<u32>> = placed.iter().map(place).collect();
    let doubled = places.len() < placed.len();
    if layers.iter().any(|layer| layer.1 < 2) || doubled || room > 2.0 * places.len() as f64 {
        return None;
    }
    let mut against = Vec::new();
    let present = places.len() as f64 / room;
    if present < 1.0 {
        against.push(format!(
            "{} of {room} places of the grid are empty or uncertain",
            room as usize - places.len()
        ));
    }
    let lines: Vec<Layout> = layers.iter_mut().map(|layer| layout(switches, layer)).collect::<Option<_>>()?;
    let (sound, missing, extra) = cables(switches, &layers, &lines, &placed);
    if missing > 0 {
        against.push(format!("{missing} of {} neighbours of the grid are not connected", sound + missing));
    }
    if extra > 0 {
        against.push(format!("{extra} connected pairs are no neighbours of the grid"));
    }
    let there = sound as f64 / (sound + missing).max(1) as f64;
    let strange = extra as f64 / (sound + extra).max(1) as f64;
    let mut confidence =
        (1.0 - 1.5 * (1.0 - there)).max(0.0) * (1.0 - 4.0 * strange).max(0.0) * present.sqrt();
    let why = match layers.as_slice() {
        [_] => "it has one dimension only: any ring, chain or complete graph looks like that",
        [(_, 2), (_, 2)] => "it is a ring of four as well: any ring, chain or complete graph looks like that",
        _ => "",
    };
    if !why.is_empty() {
        confidence *= 0.5;
        against.push(why.to_owned());
    }
    let parts = pairs_to_rings(layers, &lines);
    let sizes = parts.iter().map(|part| part.0).collect();
    let lines = parts.iter().map(|part| part.1.0).collect();
    let coordinates = parts.iter().map(|part| spread(switches, &part.2, u32::MAX, true)).collect();
    Some(Opinion { shape: Shape::Grid { sizes, lines, coordinates }, confidence, against })
}

/// How the layers of a direction are wired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Layout(Line);

/// Finds out, and numbers the layers along the line.
fn layout(switches: &Switches<'_>, layer: &mut (Vec<u32>, u32)) -> Option<Layout> {
    let (of, count) = (&mut layer.0, layer.1 as usize);
    let mut cables: BTreeMap<(u32, u32), usize> = BTreeMap::new();
    let known = |at: usize| of[at] != u32::MAX;
    for (a, b) in switches.pairs().filter(|(a, b)| of[*a] != of[*b] && known(*a) && known(*b)) {
        *cables.entry((of[a].min(of[b]), of[a].max(of[b]))).or_default() += 1;
    }
    let possible = count * (count - 1) / 2;
    if cables.len() * 10 >= possible * 8 || count <= 3 && cables.len() == possible {
        return Some(Layout(Line::Complete));
    }
    let mut beside = vec![Vec::new(); count];
    for (a, b) in cables.keys() {
        beside[*a as usize].push(*b as usize);
        beside[*b as usize].push(*a as usize);
    }
    if beside.iter().any(|row| row.len() > 2 || row.is_empty()) {
        return None;
    }
    // A ring has no end; walk from an end, or from anywhere.
    let start = (0..count).find(|at| beside[*at].len() == 1);
    let (mut place, mut at) = (vec![u32::MAX; count], start.unwrap_or(0));
    for number in 0..count as u32 {
        place[at] = number;
        match beside[at].iter().find(|next| place[**next] == u32::MAX) {
            Some(next) => at = *next,
            None if number + 1 == count as u32 => {}
            None => return None,
        }
    }
    of.iter_mut().filter(|of| **of != u32::MAX).for_each(|of| *of = place[*of as usize]);
    Some(Layout(if start.is_some() { Line::Open } else { Line::Ring }))
}

/// Neighbours of the grid that are wired, that are not, and wired pairs that are none.
fn cables(
    switches: &Switches<'_>,
    layers: &[(Vec<u32>, u32)],
    lines: &[Layout],
    placed: &[usize],
) -> (usize, usize, usize) {
    let place = |at: usize| layers.iter().map(|layer| layer.0[at]).collect::<Vec<_>>();
    let all: HashMap<Vec<u32>, usize> = placed.iter().map(|at| (place(*at), *at)).collect();
    let (mut sound, mut missing) = (0, 0);
    for (here, at) in &all {
        for (which, line) in lines.iter().enumerate() {
            let (mine, size) = (here[which], layers[which].1);
            let others: Vec<u32> = match line.0 {
                Line::Complete => (mine + 1..size).collect(),
                Line::Ring => vec![(mine + 1) % size],
                Line::Open if mine + 1 < size => vec![mine + 1],
                Line::Open => Vec::new(),
            };
            for other in others {
                let mut there = here.clone();
                there[which] = other;
                let Some(there) = all.get(&there) else { continue };
                if switches.are_wired(*at, *there) { sound += 1 } else { missing += 1 }
            }
        }
    }
    let known: HashSet<usize> = placed.iter().copied().collect();
    let wired = switches.pairs().filter(|(a, b)| known.contains(a) && known.contains(b)).count();
    (sound, missing, wired - sound)
}

/// A direction: how many layers, how they are wired, and which one each switch lies in.
type Direction = (u32, Layout, Vec<u32>);

/// Two directions of two switches are a ring of four; beside longer rings that is what was meant.
fn pairs_to_rings(layers: Vec<(Vec<u32>, u32)>, lines: &[Layout]) -> Vec<Direction> {
    let rings = lines.iter().any(|line| line.0 == Line::Ring);
    let mut parts = Vec::new();
    let mut waiting: Option<Vec<u32>> = None;
    for ((row, size), line) in layers.into_iter().zip(lines) {
        match waiting.take() {
            None if rings && size == 2 => waiting = Some(row),
            Some(first) if size == 2 => {
                // 00, 01, 11, 10: round the square.
                let around = first.iter().zip(&row).map(|(a, b)| a * 2 + (a ^ b)).collect();
                parts.push((4, Layout(Line::Ring), around));
            }
            before => {
                parts.extend(before.map(|first| (2, Layout(Line::Complete), first)));
                parts.push((size, *line, row));
            }
        }
    }
    parts.extend(waiting.map(|first| (2, Layout(Line::Complete), first)));
    parts.sort_by_key(|part| part.0);
    parts
}

/// Sets that grow together, whose members may be turned towards each other.
struct Turning {
    parent: Vec<u32>,
    turned: Vec<bool>,
}

impl Turning {
    fn new(count: usize) -> Self {
        Self { parent: (0..count as u32).collect(), turned: vec![false; count] }
    }

    fn of(&mut self, at: usize) -> (usize, bool) {
        let (mut root, mut turn) = (at, false);
        while self.parent[root] as usize != root {
            turn ^= self.turned[root];
            root = self.parent[root] as usize;
        }
        // The way is made short; each keeps its turn towards the root.
        let (mut at, mut rest) = (at, turn);
        while self.parent[at] as usize != root && at != root {
            let next = self.parent[at] as usize;
            let mine = std::mem::replace(&mut self.turned[at], rest);
            self.parent[at] = root as u32;
            rest ^= mine;
            at = next;
        }
        (root, turn)
    }

    fn join(&mut self, a: usize, b: usize, turn: bool) {
        let ((first, a), (second, b)) = (self.of(a), self.of(b));
        if first != second {
            self.parent[second] = first as u32;
            self.turned[second] = a ^ b ^ turn;
        }
    }
}
