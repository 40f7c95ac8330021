//! Things in their order that are also found by a source and a tag, first come first.

use std::hash::{BuildHasher, RandomState};

use crate::order::{NONE, Order};

/// By what a thing is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) source: u32,
    pub(crate) tag: u64,
}

#[derive(Debug)]
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

/// Slots that a table has at first: a power of two.
const SLOTS: usize = 16;

/// Things with keys.
#[derive(Debug)]
pub(crate) struct Keyed<T> {
    order: Order<Entry<T>>,
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
        Self { order: Order::default(), slots: vec![FREE; SLOTS], keys: 0, alone: NONE, multiplier }
    }
}

impl<T> Keyed<T> {
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.order.len()
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Adds a thing behind all others: its number from now on.
    #[inline]
    pub(crate) fn push(&mut self, key: Key, value: T) -> u32 {
        if self.order.is_empty() {
            self.alone = self.order.push(Entry { key, next: NONE, prev: NONE, value });
            return self.alone;
        }
        if self.alone != NONE {
            self.index(self.alone);
            self.alone = NONE;
        }
        let at = self.order.push(Entry { key, next: NONE, prev: NONE, value });
        self.index(at);
        at
    }

    /// Puts a thing into the table, behind all others of its key.
    fn index(&mut self, at: u32) {
        let Some(entry) = self.order.get(at) else { return };
        let key = entry.key;
        let slot = self.slot_of(key);
        let last = self.slots[slot].last;
        if let Some(before) = self.order.get_mut(last) {
            before.next = at;
            self.slots[slot].last = at;
            if let Some(entry) = self.order.get_mut(at) {
                entry.prev = last;
            }
        } else {
            self.slots[slot] = Slot { key, first: at, last: at };
            self.keys += 1;
            if self.keys * 2 > self.slots.len() {
                self.grow();
            }
        }
    }

    /// The number of the first thing of a key.
    #[inline]
    pub(crate) fn first_of(&self, key: Key) -> Option<u32> {
        if let Some(entry) = self.order.get(self.alone) {
            return (entry.key == key).then_some(self.alone);
        }
        if self.order.is_empty() {
            return None;
        }
        let first = self.slots[self.slot_of(key)].first;
        (first != NONE).then_some(first)
    }

    #[inline]
    pub(crate) fn get(&self, at: u32) -> Option<&T> {
        self.order.get(at).map(|entry| &entry.value)
    }

    /// Takes a thing out, if it is there.
    #[inline]
    pub(crate) fn remove(&mut self, at: u32) -> Option<T> {
        let Entry { key, next, prev, value } = self.order.remove(at)?;
        if at == self.alone {
            self.alone = NONE;
            return Some(value);
        }
        match (self.order.get_mut(prev), next) {
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
        if let Some(behind) = self.order.get_mut(next) {
            behind.prev = prev;
        } else {
            let slot = self.slot_of(key);
            self.slots[slot].last = prev;
        }
        Some(value)
    }

    /// All of them with their numbers, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.order.iter().map(|(at, entry)| (at, &entry.value))
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
        fn the_first_of_each_key_is_found(steps in prop::collection::vec((0..3_u8, 0..40_u32, 0..12_u64), 0..300)) {
            let (mut keyed, mut model) = (Keyed::default(), Vec::<(u32, Key, usize)>::new());
            for (i, (what, at, tag)) in steps.into_iter().enumerate() {
                let key = Key { source: at % 3, tag };
                match what {
                    0 | 1 => model.push((keyed.push(key, i), key, i)),
                    _ => {
                        let place = model.iter().position(|(number, ..)| *number == at);
                        prop_assert_eq!(keyed.remove(at), place.map(|place| model.remove(place).2));
                    }
                }
                for source in 0..3 {
                    for tag in 0..12 {
                        let key = Key { source, tag };
                        let expected = model.iter().find(|(_, of, _)| *of == key).map(|(number, ..)| *number);
                        prop_assert_eq!(keyed.first_of(key), expected);
                    }
                }
                let values: Vec<_> = keyed.iter().map(|(_, value)| *value).collect();
                prop_assert_eq!(values, model.iter().map(|(.., value)| *value).collect::<Vec<_>>());
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
