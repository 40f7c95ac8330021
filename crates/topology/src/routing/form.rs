//! Routes that a shape prescribes: dimension by dimension on grids, over one global cable in
//! dragonflies.

use super::destinations::Destination;
use super::view::View;
use super::vls::{LEVELS, Mapping};

mod dragonfly;
mod grid;

pub(crate) use dragonfly::DragonflyForm;
pub use dragonfly::Groups;
pub(crate) use grid::GridForm;
pub use grid::{Grid, GridError, Line};

/// What a shape prescribes.
pub(crate) trait Form {
    /// VLs on which its routes never wait for themselves; 0 if they fit beside others on any VL that has no
    /// cycle.
    fn vls(&self) -> u8;

    /// Service levels that its routes need.
    fn levels(&self) -> u8;

    /// The port of each switch on the path to a destination at a switch ([`NO_PATH`](super::NO_PATH) there).
    /// False if a switch that the destination could be reached from has none.
    fn ports(&self, to: usize, one: &Destination, port: &mut [u8]) -> bool;

    /// Level of the route between two maps.
    fn level(&self, from: usize, to: usize) -> u8;

    /// VLs of all levels for what comes in by one port of a switch and goes out by another.
    fn vls_at(&self, sw: usize, came: u8, goes: u8) -> [u8; LEVELS];
}

/// The mapping of a form, with one more level for what goes up and down on the VL after its own.
pub(crate) fn mapping(view: &View, form: &dyn Form) -> Mapping {
    let stride = view.stride();
    let mut maps: Vec<[u8; LEVELS]> = Vec::new();
    let mut map = vec![0_u8; view.switch_count() * stride * stride];
    for at in 0..view.switch_count() {
        for came in 0..stride {
            for goes in 1..stride {
                let mut vls = form.vls_at(at, came as u8, goes as u8);
                for vl in &mut vls[usize::from(form.levels())..] {
                    *vl = form.vls();
                }
                let known = maps.iter().position(|known| *known == vls);
                let index = known.unwrap_or_else(|| {
                    maps.push(vls);
                    maps.len() - 1
                });
                // There are few: a bit per direction, or one of two.
                map[(at * stride + came) * stride + goes] = index as u8;
            }
        }
    }
    if maps.is_empty() {
        maps.push([0; LEVELS]);
    }
    Mapping::Ports { stride, maps, map }
}
