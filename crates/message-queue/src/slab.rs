//! Things, each with a number under which it is found again.
//!
//! To add, to find and to remove take a few steps, however many there are; places are used again, so nothing
//! is allocated once there were as many things as there are now.

/// No place.
pub(crate) const NONE: u32 = u32::MAX;

#[derive(Debug)]
struct Place<T> {
    /// Of a free place: none, or what is left of the thing that was there before.
    value: Option<T>,
    is_there: bool,
    /// Of a free place: the next free one.
    next: u32,
}

/// Things in places.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    places: Vec<Place<T>>,
    free: u32,
    len: usize,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { places: Vec::new(), free: NONE, len: 0 }
    }
}

impl<T> Slab<T> {
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The number that the next thing will have.
    #[inline]
    pub(crate) fn next_number(&mut self) -> u32 {
        if self.free == NONE {
            // Four billion of anything do not fit the memory.
            self.free = self.places.len() as u32;
            self.places.push(Place { value: None, is_there: false, next: NONE });
        }
        self.free
    }

    /// Adds a thing: its number from now on.
    #[inline]
    pub(crate) fn push(&mut self, value: T) -> u32 {
        let at = self.next_number();
        if let Some(place) = self.places.get_mut(at as usize) {
            self.free = place.next;
            self.len += 1;
            (place.value, place.is_there) = (Some(value), true);
        }
        at
    }

    /// The same, to be written where it lies, all of it: a value that is moved while it is new costs more
    /// than to add it.
    #[inline]
    pub(crate) fn push_place(&mut self) -> Option<&mut T>
    where
        T: Default,
    {
        let at = self.next_number();
        let place = self.places.get_mut(at as usize)?;
        self.free = place.next;
        self.len += 1;
        place.is_there = true;
        Some(place.value.get_or_insert_default())
    }

    #[inline]
    pub(crate) fn get(&self, at: u32) -> Option<&T> {
        self.places.get(at as usize).filter(|place| place.is_there)?.value.as_ref()
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, at: u32) -> Option<&mut T> {
        self.places.get_mut(at as usize).filter(|place| place.is_there)?.value.as_mut()
    }

    /// Takes a thing out, if it is there.
    #[inline]
    pub(crate) fn remove(&mut self, at: u32) -> Option<T> {
        let place = self.places.get_mut(at as usize).filter(|place| place.is_there)?;
        (place.is_there, place.next) = (false, self.free);
        self.free = at;
        self.len -= 1;
        place.value.take()
    }

    /// Shows a thing for the last time, if it is there. What of it is not taken is dropped when its place is
    /// used again.
    #[inline(always)]
    pub(crate) fn vacate(&mut self, at: u32) -> Option<&mut T> {
        let place = self.places.get_mut(at as usize).filter(|place| place.is_there)?;
        (place.is_there, place.next) = (false, self.free);
        self.free = at;
        self.len -= 1;
        place.value.as_mut()
    }

    /// All of them with their numbers, in the order of these.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        let there = self.places.iter().enumerate().filter(|(_, place)| place.is_there);
        // Places are never given back: most of them may be free.
        there.take(self.len).filter_map(|(at, place)| Some((at as u32, place.value.as_ref()?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn what_was_put_in_is_found_until_it_is_taken_out(steps in prop::collection::vec((0..4_u8, 0..20_u32), 0..200)) {
            let (mut slab, mut model, mut most) = (Slab::default(), BTreeMap::new(), 0);
            for (i, (what, at)) in steps.into_iter().enumerate() {
                match what {
                    0 => prop_assert_eq!(model.insert(slab.push(i), i), None),
                    1 => {
                        prop_assert_eq!(model.insert(slab.next_number(), i), None);
                        *slab.push_place().unwrap() = i;
                    }
                    2 => prop_assert_eq!(slab.remove(at), model.remove(&at)),
                    _ => prop_assert_eq!(slab.vacate(at).copied(), model.remove(&at)),
                }
                most = most.max(model.len());
                let all: Vec<_> = slab.iter().map(|(at, value)| (at, *value)).collect();
                prop_assert_eq!(&all, &model.iter().map(|(at, value)| (*at, *value)).collect::<Vec<_>>());
                prop_assert_eq!((slab.len(), slab.is_empty()), (model.len(), model.is_empty()));
                for at in 0..20 {
                    prop_assert_eq!(slab.get(at), model.get(&at));
                    prop_assert_eq!(slab.get_mut(at), model.get_mut(&at));
                }
            }
            // No more places than there were things at a time.
            prop_assert_eq!(slab.places.len(), most);
        }
    }
}
