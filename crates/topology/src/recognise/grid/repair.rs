//! Rejoins layers that missing cables have split.

use std::collections::{BTreeMap, BTreeSet};

use super::Switches;

/// Puts the components of a direction's layers together. Two are of one layer if they are wired to the same
/// third in this direction, not to each other, and have no place in the other directions in common: whole
/// layers have all in common.
pub(super) fn join_components(switches: &Switches<'_>, layers: &mut [(Vec<u32>, u32)], which: usize) {
    if layers.len() < 2 {
        return;
    }
    let mut components = components(switches, layers, which);
    while let Some((keep, drop)) = pair(&components) {
        let Some(dropped) = components.remove(&drop) else { return };
        for component in components.values_mut() {
            if component.beside.remove(&drop) {
                component.beside.insert(keep);
            }
        }
        if let Some(kept) = components.get_mut(&keep) {
            kept.places.extend(dropped.places);
            kept.beside.extend(dropped.beside);
            kept.names.extend(dropped.names);
        }
    }
    let mut number = BTreeMap::new();
    for (next, component) in (0_u32..).zip(components.values()) {
        number.extend(component.names.iter().map(|name| (*name, next)));
    }
    let layer = &mut layers[which];
    layer.1 = components.len() as u32;
    layer.0.iter_mut().for_each(|of| *of = number[of]);
}

/// Takes out layers that are much smaller than is usual: switches that lost so many cables that their place
/// is in doubt.
pub(super) fn drop_crumbs(layer: &mut (Vec<u32>, u32)) {
    let mut size = vec![0_u32; layer.1 as usize];
    layer.0.iter().for_each(|of| size[*of as usize] += 1);
    let mut sorted = size.clone();
    sorted.sort_unstable();
    let usual = sorted.get(sorted.len() / 2).copied().unwrap_or(0);
    let mut next = 0;
    let number: Vec<u32> = size
        .iter()
        .map(|size| {
            let stays = size * 4 >= usual;
            next += u32::from(stays);
            if stays { next - 1 } else { u32::MAX }
        })
        .collect();
    layer.0.iter_mut().for_each(|of| *of = number[*of as usize]);
    layer.1 = next;
}

struct Component {
    /// Where its switches are in the other directions.
    places: BTreeSet<Vec<u32>>,
    beside: BTreeSet<u32>,
    /// What it was called, alone or in components.
    names: Vec<u32>,
}

fn components(switches: &Switches<'_>, layers: &[(Vec<u32>, u32)], which: usize) -> BTreeMap<u32, Component> {
    let of = &layers[which].0;
    let mut components: BTreeMap<u32, Component> = BTreeMap::new();
    for at in 0..switches.len() {
        let others = layers.iter().enumerate().filter(|(one, _)| *one != which);
        let place = others.map(|(_, layer)| layer.0[at]).collect();
        let component = components.entry(of[at]).or_insert_with(|| Component {
            places: BTreeSet::new(),
            beside: BTreeSet::new(),
            names: vec![of[at]],
        });
        component.places.insert(place);
        let beside = switches.beside[at].iter().map(|other| of[*other as usize]);
        component.beside.extend(beside.filter(|other| *other != of[at]));
    }
    components
}

/// Two components of one layer, if there are any.
fn pair(components: &BTreeMap<u32, Component>) -> Option<(u32, u32)> {
    for component in components.values() {
        for a in &component.beside {
            for b in component.beside.range(a + 1..) {
                let (first, second) = (&components[a], &components[b]);
                if !first.beside.contains(b) && first.places.is_disjoint(&second.places) {
                    return Some((*a, *b));
                }
            }
        }
    }
    None
}
