//! Finds figures by their names.

use super::{ALL, Entry, Kind};
use crate::{
    error::{BenchError, Result},
    thresholds::ids::edits,
};

/// The name of all figures of switched fabrics together.
const GROUP: &str = "fabric";

/// Returns the figures with these names. `fabric` selects all figures of switched fabrics. A name
/// that is not a whole name selects the figures whose names begin with it and a dot. No names
/// select all figures.
pub fn select(only: &[String]) -> Result<Vec<Entry>> {
    let meant = |entry: &Entry, name: &str| {
        if name == GROUP {
            return matches!(entry.kind, Kind::Fabric(_));
        }
        // A whole name selects only its figure, even if another name begins with it.
        if ALL.iter().any(|known| known.id == name) {
            return entry.id == name;
        }
        is_within(entry.id, name)
    };
    for name in only {
        if !ALL.iter().any(|entry| meant(entry, name)) {
            return Err(BenchError::UnknownId { id: name.clone(), nearest: nearest(name) });
        }
    }
    let wanted = |entry: &&Entry| only.is_empty() || only.iter().any(|name| meant(entry, name));
    Ok(ALL.iter().filter(wanted).copied().collect())
}

/// Whether a figure has this name, or one that begins with it up to a dot.
pub(crate) fn is_within(id: &str, name: &str) -> bool {
    id.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// The name of the figure that is most similar to this one, if it differs by two letters at most.
fn nearest(name: &str) -> Option<&'static str> {
    let distances = ALL.iter().map(|entry| (edits(name, entry.id), entry.id));
    distances.min().filter(|(distance, _)| *distance <= 2).map(|(_, id)| id)
}
