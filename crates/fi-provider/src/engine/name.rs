//! Addresses of end points, and the numbers that a domain has for them.

use std::collections::HashMap;

pub(crate) use message_queue::name::{NAME_BYTES, Name};

/// Which end point, within this domain: a number for its name.
pub(crate) type PeerId = u32;

/// Numbers for names.
#[derive(Debug, Default)]
pub(crate) struct Names {
    numbers: HashMap<Name, PeerId>,
    names: Vec<Name>,
}

impl Names {
    /// The name's number, the same each time.
    pub(crate) fn number(&mut self, name: Name) -> PeerId {
        let next = self.names.len() as PeerId;
        let number = *self.numbers.entry(name).or_insert(next);
        if number == next {
            self.names.push(name);
        }
        number
    }

    /// The name of a number.
    pub(crate) fn name(&self, number: PeerId) -> Option<Name> {
        self.names.get(number as usize).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_kept() {
        let (a, b) = (Name::new().unwrap(), Name::new().unwrap());
        let mut names = Names::default();
        assert_eq!([names.number(a), names.number(b), names.number(a)], [0, 1, 0]);
        assert_eq!((names.name(1), names.name(2)), (Some(b), None));
    }
}
