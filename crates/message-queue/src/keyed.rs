//! Things that are found by a source and a tag, first come first.

use std::hash::{BuildHasher, RandomState};

use crate::slab::{NONE, Slab};

/// By what a thing is found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) source: u32,
    pub(crate) tag: u64,
}

#[derive(Debug, Default)]
struct Entry<T> {
    key: Key,
    /// The next thing of this key.
    next: u32,
    prev: u32,
    value: T,
}

/// The first and the last thing of a key; a free slot has no first.
#[derive(Clone, Copy, Debug)]
struct Slot {
    key: Key,
    first: u32,
    last: u32,
}

const FREE: Slot = Slot { key: Key { source: 0, tag: 0 }, first: NONE, last: NONE };

/// The first thing of a key, as long as nothing is changed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct First {
    pub(crate) at: u32,
    /// Or [`ALONE`].
    slot: usize,
}

/// The slot of a thing that is not in the table.
const ALONE: usize = usize::MAX;

/// Slots that a table has at first: a power of two.
const SLOTS: usize = 16;

/// Things with keys.
#[derive(Debug)]
pub(crate) struct Keyed<T> {
    entries: Slab<Entry<T>>,
    /// A power of two of slots, at most half of them taken. A key lies in the first free slot from its hash
    /// on.
    slots: Vec<Slot>,
    keys: usize,
    /// The only thing there is, if it is not in the table yet: one that comes and goes alone costs no search.
    alone: u32,
    /// Odd and not known to peers, who choose tags: so none can make all keys collide.
    multiplier: u64,
}

impl<T> Default for Keyed<T> {
    fn default() -> Self {
        let multiplier = RandomState::new().hash_one(0_u8) | 1;
        Self { entries: Slab::default(), slots: vec![FREE; SLOTS], keys: 0, alone: NONE, multiplier }
    }
}

impl<T> Keyed<T> {
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The number that the next thing will have.
    pub(crate) fn next_number(&mut self) -> u32 {
        self.entries.next_number()
    }

    /// Adds a thing behind all others of its key: its number from now on.
    pub(crate) fn push(&mut self, key: Key, value: T) -> u32 {
        let at = self.entries.next_number();
        let prev = self.put(key, at);
        self.entries.push(Entry { key, next: NONE, prev, value });
        at
    }

    /// The same, to be written where it lies, all of it.
    #[inline]
    pub(crate) fn push_place(&mut self, key: Key) -> (u32, Option<&mut T>)
    where
        T: Default,
    {
        let at = self.entries.next_number();
        let prev = self.put(key, at);
        let value = self.entries.push_place().map(|entry| {
            (entry.key, entry.next, entry.prev) = (key, NONE, prev);
            &mut entry.value
        });
        (at, value)
    }

    /// Finds a place in the table for a thing that is not there yet, behind all others of its key: the last
    /// of these.
    #[inline(always)]
    fn put(&mut self, key: Key, at: u32) -> u32 {
        if self.entries.is_empty() {
            self.alone = at;
            return NONE;
        }
        if self.alone != NONE {
            self.put_alone_into_table();
        }
        let slot = self.slot_of(key);
        let there = &mut self.slots[slot];
        let last = std::mem::replace(&mut there.last, at);
        if let Some(before) = self.entries.get_mut(last) {
            before.next = at;
            return last;
        }
        (there.key, there.first) = (key, at);
        self.keys += 1;
        if self.keys * 2 > self.slots.len() {
            self.grow();
        }
        NONE
    }

    #[cold]
    fn put_alone_into_table(&mut self) {
        if let Some(entry) = self.entries.get(self.alone) {
            let slot = self.slot_of(entry.key);
            self.slots[slot] = Slot { key: entry.key, first: self.alone, last: self.alone };
            self.keys += 1;
        }
        self.alone = NONE;
    }

    /// The first thing of a key.
    #[inline]
    pub(crate) fn first_of(&self, key: Key) -> Option<First> {
        if let Some(entry) = self.entries.get(self.alone) {
            return (entry.key == key).then_some(First { at: self.alone, slot: ALONE });
        }
        if self.entries.is_empty() {
            return None;
        }
        let slot = self.slot_of(key);
        let at = self.slots[slot].first;
        (at != NONE).then_some(First { at, slot })
    }

    /// Takes the first thing of a key out. Nothing was changed since it was found.
    pub(crate) fn remove_first(&mut self, first: First) -> Option<T> {
        let Entry { next, value, .. } = self.entries.remove(first.at)?;
        self.close_gap(first, next);
        Some(value)
    }

    /// The same. What of it was not taken before is dropped when the place is used again.
    #[inline(always)]
    pub(crate) fn vacate_first(&mut self, first: First) {
        if let Some(entry) = self.entries.vacate(first.at) {
            let next = entry.next;
            self.close_gap(first, next);
        }
    }

    /// Makes `next` the first thing of a key, whose first one was taken out.
    #[inline(always)]
    fn close_gap(&mut self, first: First, next: u32) {
        if first.slot == ALONE {
            self.alone = NONE;
        } else if let Some(behind) = self.entries.get_mut(next) {
            behind.prev = NONE;
            self.slots[first.slot].first = next;
        } else {
            self.free(first.slot);
        }
    }

    #[inline]
    pub(crate) fn get(&self, at: u32) -> Option<&T> {
        self.entries.get(at).map(|entry| &entry.value)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, at: u32) -> Option<&mut T> {
        self.entries.get_mut(at).map(|entry| &mut entry.value)
    }

    /// Takes a thing out, if it is there.
    pub(crate) fn remove(&mut self, at: u32) -> Option<T> {
        let Entry { key, next, prev, value } = self.entries.remove(at)?;
        if at == self.alone {
            self.alone = NONE;
            return Some(value);
        }
        match (self.entries.get_mut(prev), next) {
            (Some(before), _) => before.next = next,
            (None, NONE) => {
                let slot = self.slot_of(key);
                self.free(slot);
                return Some(value);
            }
            (None, _) => {
                let slot = self.slot_of(key);
                self.slots[slot].first = next;
            }
        }
        if let Some(behind) = self.entries.get_mut(next) {
            behind.prev = prev;
        } else {
            let slot = self.slot_of(key);
            self.slots[slot].last = prev;
        }
        Some(value)
    }

    /// All of them with their numbers and keys, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, Key, &T)> {
        self.entries.iter().map(|(at, entry)| (at, entry.key, &entry.value))
    }

    #[inline]
    fn home(&self, key: Key) -> usize {
        let mixed = (key.tag ^ u64::from(key.source).rotate_left(40)).wrapping_mul(self.multiplier);
        // The high bits are the well mixed ones. There are fewer than 2^32 slots.
        (mixed >> 32) as usize & (self.slots.len() - 1)
    }

    /// The slot of a key, or the free one where it would go.
    #[inline]
    fn slot_of(&self, key: Key) -> usize {
        let mask = self.slots.len() - 1;
        let mut at = self.home(key);
        // Ends: at least half of the slots are free.
        while self.slots[at].first != NONE && self.slots[at].key != key {
            at = (at + 1) & mask;
        }
        at
    }

    /// Frees a slot, and moves those behind it that would not be found any more.
    #[inline]
    fn free(&mut self, slot: usize) {
        let mask = self.slots.len() - 1;
        let (mut hole, mut at) = (slot, slot);
        self.keys -= 1;
        loop {
            at = (at + 1) & mask;
            if self.slots[at].first == NONE {
                break;
            }
            let home = self.home(self.slots[at].key);
            // Whether the hole lies between its home and where it is.
            if (at.wrapping_sub(home) & mask) >= (at.wrapping_sub(hole) & mask) {
                self.slots[hole] = self.slots[at];
                hole = at;
            }
        }
        self.slots[hole] = FREE;
    }

    #[cold]
    fn grow(&mut self) {
        let larger = vec![FREE; self.slots.len() * 2];
        for slot in std::mem::replace(&mut self.slots, larger) {
            if slot.first != NONE {
                let at = self.slot_of(slot.key);
                self.slots[at] = slot;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_first_of_each_key_is_found(steps in prop::collection::vec((0..4_u8, 0..40_u32, 0..12_u64), 0..300)) {
            let (mut keyed, mut model) = (Keyed::default(), Vec::<(u32, Key, usize)>::new());
            for (i, (what, at, tag)) in steps.into_iter().enumerate() {
                let key = Key { source: at % 3, tag };
                match what {
                    0 | 1 => model.push((keyed.push(key, i), key, i)),
                    2 => {
                        let place = model.iter().position(|(_, of, _)| *of == key);
                        let expected = place.map(|place| model.remove(place).2);
                        let first = keyed.first_of(key);
                        prop_assert_eq!(first.and_then(|first| keyed.get(first.at)).copied(), expected);
                        match first {
                            Some(first) if i % 2 == 0 => keyed.vacate_first(first),
                            Some(first) => prop_assert_eq!(keyed.remove_first(first), expected),
                            None => {}
                        }
                    }
                    _ => {
                        let place = model.iter().position(|(number, ..)| *number == at);
                        prop_assert_eq!(keyed.remove(at), place.map(|place| model.remove(place).2));
                    }
                }
                for source in 0..3 {
                    for tag in 0..12 {
                        let key = Key { source, tag };
                        let expected = model.iter().find(|(_, of, _)| *of == key).map(|(number, ..)| *number);
                        prop_assert_eq!(keyed.first_of(key).map(|first| first.at), expected);
                    }
                }
                let mut all: Vec<_> = keyed.iter().map(|(number, key, value)| (number, key, *value)).collect();
                all.sort_by_key(|(.., value)| *value);
                prop_assert_eq!(&all, &model);
            }
        }
    }

    #[test]
    fn the_way_to_one_of_many_keys_is_short() {
        let mut keyed = Keyed::default();
        for tag in 0..1000 {
            keyed.push(Key { source: 1, tag: tag << 32 }, tag);
            keyed.push(Key { source: 1, tag: tag << 32 }, tag);
        }
        assert_eq!((keyed.len(), keyed.is_empty()), (2000, false));
        let mask = keyed.slots.len() - 1;
        let steps = |tag: u64| {
            let key = Key { source: 1, tag: tag << 32 };
            keyed.slot_of(key).wrapping_sub(keyed.home(key)) & mask
        };
        let all: usize = (0..1000).map(steps).sum();
        // On average two slots beyond the first; a list would have taken five hundred.
        assert!(all < 2000, "{all} steps");
    }
}
