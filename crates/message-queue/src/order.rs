//! Things in the order in which they came, each with a number under which it is found again.

use crate::slab::{NONE, Slab};

#[derive(Debug)]
struct Linked<T> {
    value: T,
    prev: u32,
    next: u32,
}

/// Things in their order.
#[derive(Debug)]
pub(crate) struct Order<T> {
    slab: Slab<Linked<T>>,
    first: u32,
    last: u32,
}

impl<T> Default for Order<T> {
    fn default() -> Self {
        Self { slab: Slab::default(), first: NONE, last: NONE }
    }
}

impl<T> Order<T> {
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.slab.len()
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.slab.is_empty()
    }

    /// Adds a thing behind all others: its number from now on.
    #[inline]
    pub(crate) fn push(&mut self, value: T) -> u32 {
        let at = self.slab.push(Linked { value, prev: self.last, next: NONE });
        match self.slab.get_mut(self.last) {
            Some(last) => last.next = at,
            None => self.first = at,
        }
        self.last = at;
        at
    }

    #[inline]
    pub(crate) fn get(&self, at: u32) -> Option<&T> {
        self.slab.get(at).map(|linked| &linked.value)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, at: u32) -> Option<&mut T> {
        self.slab.get_mut(at).map(|linked| &mut linked.value)
    }

    /// Takes a thing out, if it is there.
    #[inline]
    pub(crate) fn remove(&mut self, at: u32) -> Option<T> {
        let Linked { value, prev, next } = self.slab.remove(at)?;
        match self.slab.get_mut(prev) {
            Some(linked) => linked.next = next,
            None => self.first = next,
        }
        match self.slab.get_mut(next) {
            Some(linked) => linked.prev = prev,
            None => self.last = prev,
        }
        Some(value)
    }

    /// All of them with their numbers, in order.
    #[inline]
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        let mut next = self.first;
        std::iter::from_fn(move || {
            let (at, linked) = (next, self.slab.get(next)?);
            next = linked.next;
            Some((at, &linked.value))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_is_a_list(steps in prop::collection::vec((any::<bool>(), 0..20_u32), 0..200)) {
            let (mut order, mut model) = (Order::default(), Vec::<(u32, usize)>::new());
            for (i, (is_push, at)) in steps.into_iter().enumerate() {
                if is_push {
                    model.push((order.push(i), i));
                } else {
                    let place = model.iter().position(|(number, _)| *number == at);
                    let expected = place.map(|place| model.remove(place).1);
                    prop_assert_eq!(order.remove(at), expected);
                }
                let all: Vec<_> = order.iter().map(|(number, value)| (number, *value)).collect();
                prop_assert_eq!(&all, &model);
                prop_assert_eq!((order.len(), order.is_empty()), (model.len(), model.is_empty()));
                for (number, value) in &model {
                    prop_assert_eq!(order.get(*number), Some(value));
                }
            }
        }
    }
}
