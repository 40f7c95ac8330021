//! Virtual lanes (VLs): the service level of each path, and the VL that a switch maps it to.

/// Service levels there are.
pub const LEVELS: usize = 16;
/// Data VLs there can be (VL 15 is for management).
pub const MAX_VLS: u8 = 15;

/// The service level of each path.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Service {
    /// All have level 0.
    #[default]
    One,
    /// By the destination: one per LID.
    Destination(Vec<u8>),
    /// By the switches at both ends: index of the source × switches + index of the destination.
    Pair {
        /// Switches in all.
        switches: usize,
        /// The levels.
        levels: Vec<u8>,
    },
    /// By the switch of the source and the LID, as files give it: index of the source × width + LID.
    Each {
        /// LIDs in all.
        width: usize,
        /// The levels.
        levels: Vec<u8>,
    },
}

/// The VL that a switch maps a level to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Mapping {
    /// The VL of the same number, everywhere.
    #[default]
    Same,
    /// By the port where a packet comes in and the one where it goes out.
    Ports {
        /// Port numbers a switch, 0 too.
        stride: usize,
        /// The different maps: a VL for each level.
        maps: Vec<[u8; LEVELS]>,
        /// Which map: (switch × stride + in) × stride + out.
        map: Vec<u8>,
    },
}

/// VLs of a routing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VlAssignment {
    /// Data VLs in use, from 0 on.
    pub count: u8,
    /// The service level of each path.
    pub service: Service,
    /// Which VL a switch puts it on.
    pub mapping: Mapping,
}

impl Default for VlAssignment {
    fn default() -> Self {
        Self { count: 1, service: Service::One, mapping: Mapping::Same }
    }
}

impl VlAssignment {
    /// From levels and their VLs: the number of VLs follows from them.
    #[must_use]
    pub fn of(service: Service, mapping: Mapping) -> Self {
        let mut used = [false; LEVELS];
        match &service {
            Service::One => used[0] = true,
            Service::Destination(levels) | Service::Pair { levels, .. } | Service::Each { levels, .. } => {
                levels.iter().for_each(|level| used[usize::from(*level) % LEVELS] = true);
            }
        }
        let levels = (0..LEVELS).filter(|level| used[*level]);
        let most = match &mapping {
            Mapping::Same => levels.max().map(|level| level as u8),
            // A packet that is put on the VL of management is dropped.
            Mapping::Ports { maps, .. } => {
                let vls = levels.flat_map(|level| maps.iter().map(move |map| map[level]));
                vls.filter(|vl| *vl < MAX_VLS).max()
            }
        };
        Self { count: most.map_or(1, |most| (most + 1).min(MAX_VLS)), service, mapping }
    }

    /// Service level of the path from a switch's hosts to a LID at another switch.
    #[must_use]
    pub fn level(&self, source: usize, lid: u16, destination: usize) -> u8 {
        match &self.service {
            Service::One => 0,
            Service::Destination(levels) => levels.get(usize::from(lid)).copied().unwrap_or(0),
            Service::Pair { switches, levels } => levels[source * switches + destination],
            Service::Each { width, levels } => {
                levels.get(source * width + usize::from(lid)).copied().unwrap_or(0)
            }
        }
    }

    /// The VL on which a switch forwards a packet that came in at one port and goes out at another.
    #[must_use]
    pub fn vl(&self, sw: usize, came: u8, goes: u8, level: u8) -> u8 {
        match &self.mapping {
            Mapping::Same => level,
            Mapping::Ports { stride, maps, map } => {
                let at = (sw * stride + usize::from(came)) * stride + usize::from(goes);
                maps[usize::from(map[at])][usize::from(level) % LEVELS]
            }
        }
    }

    /// The map of a pair of ports: a VL for each level.
    #[must_use]
    pub fn map(&self, sw: usize, came: u8, goes: u8) -> [u8; LEVELS] {
        std::array::from_fn(|level| match &self.mapping {
            Mapping::Same => (level as u8).min(self.count.saturating_sub(1)),
            Mapping::Ports { .. } => self.vl(sw, came, goes, level as u8),
        })
    }

    /// Bytes in memory.
    #[must_use]
    pub fn memory(&self) -> usize {
        let service = match &self.service {
            Service::One => 0,
            Service::Destination(levels) | Service::Pair { levels, .. } | Service::Each { levels, .. } => {
                levels.capacity()
            }
        };
        let mapping = match &self.mapping {
            Mapping::Same => 0,
            Mapping::Ports { maps, map, .. } => maps.capacity() * LEVELS + map.capacity(),
        };
        service + mapping
    }
}
