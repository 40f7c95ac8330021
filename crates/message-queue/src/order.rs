//! Things in the order in which they came, each with a number under which it is found again.
//!
//! To add, to find by number and to remove take a few steps, however many there are; places are used again,
//! so nothing is allocated once there were as many things as there are now.

/// No place.
pub(crate) const NONE: u32 = u32::MAX;

#[derive(Debug)]
struct Node<T> {
    value: Option<T>,
    prev: u32,
    /// Of a free place: the next free one.
    next: u32,
}

/// Things in their order.
#[derive(Debug)]
pub(crate) struct Order<T> {
    nodes: Vec<Node<T>>,
    free: u32,
    first: u32,
    last: u32,
    len: usize,
}

impl<T> Default for Order<T> {
    fn default() -> Self {
        Self { nodes: Vec::new(), free: NONE, first: NONE, last: NONE, len: 0 }
    }
}

impl<T> Order<T> {
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds a thing behind all others: its number from now on.
    #[inline(always)]
    pub(crate) fn push(&mut self, value: T) -> u32 {
        if self.free == NONE {
            self.grow();
        }
        let at = self.free;
        // Written where it lies: a value that is moved while it is new costs more than all of this.
        if let Some(node) = self.nodes.get_mut(at as usize) {
            self.free = node.next;
            node.value = Some(value);
            (node.prev, node.next) = (self.last, NONE);
        }
        match self.nodes.get_mut(self.last as usize) {
            Some(last) => last.next = at,
            None => self.first = at,
        }
        self.last = at;
        self.len += 1;
        at
    }

    /// Makes a free place.
    #[cold]
    fn grow(&mut self) {
        // Four billion of anything do not fit the memory.
        self.free = self.nodes.len() as u32;
        self.nodes.push(Node { value: None, prev: NONE, next: NONE });
    }

    #[inline]
    pub(crate) fn get(&self, at: u32) -> Option<&T> {
        self.nodes.get(at as usize)?.value.as_ref()
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, at: u32) -> Option<&mut T> {
        self.nodes.get_mut(at as usize)?.value.as_mut()
    }

    /// Takes a thing out, if it is there.
    #[inline]
    pub(crate) fn remove(&mut self, at: u32) -> Option<T> {
        let node = self.nodes.get_mut(at as usize)?;
        let value = node.value.take()?;
        let (prev, next) = (node.prev, node.next);
        node.next = self.free;
        self.free = at;
        match self.nodes.get_mut(prev as usize) {
            Some(node) => node.next = next,
            None => self.first = next,
        }
        match self.nodes.get_mut(next as usize) {
            Some(node) => node.prev = prev,
            None => self.last = prev,
        }
        self.len -= 1;
        Some(value)
    }

    /// All of them with their numbers, in order.
    #[inline]
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        let mut next = self.first;
        std::iter::from_fn(move || {
            let (at, node) = (next, self.nodes.get(next as usize)?);
            next = node.next;
            Some((at, node.value.as_ref()?))
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
