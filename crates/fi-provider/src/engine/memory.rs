//! Memory that a program has registered: what a key stands for, and what peers may do there.

use std::collections::HashMap;

use fabric_sys::constants::{FI_EINVAL, FI_ENOKEY};
use libc::c_int;
use shm::lent::Piece;

use super::slab::Slab;

/// How peers name memory of a domain.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Naming {
    /// By its address, as the owner has it; else by the distance from the beginning of the registration.
    pub(crate) is_virtual: bool,
    /// The domain chooses keys; else the program does.
    pub(crate) chooses_keys: bool,
}

/// A registration.
#[derive(Debug)]
struct Region {
    key: u64,
    start: usize,
    len: usize,
    /// What peers may do, in the flags of `fi_mr_reg(3)`.
    access: u64,
    /// Operations under way that read or write it.
    users: u32,
    counters: Counters,
}

/// The counters of what peers do.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counters {
    pub(crate) reads: Option<u32>,
    pub(crate) writes: Option<u32>,
}

/// All registrations of a domain.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    pub(crate) naming: Naming,
    regions: Slab<Region>,
    by_key: HashMap<u64, u32>,
    last_key: u64,
}

impl Memory {
    /// Registers `len` bytes from `start`: the registration's number and key.
    ///
    /// # Errors
    /// `FI_ENOKEY` if the key is in use.
    pub(crate) fn register(
        &mut self,
        start: usize,
        len: usize,
        access: u64,
        wanted_key: u64,
    ) -> Result<(u32, u64), c_int> {
        let key = if self.naming.chooses_keys {
            self.last_key += 1;
            self.last_key
        } else {
            wanted_key
        };
        if self.by_key.contains_key(&key) {
            return Err(FI_ENOKEY);
        }
        let number =
            self.regions.insert(Region { key, start, len, access, users: 0, counters: Counters::default() });
        self.by_key.insert(key, number);
        Ok((number, key))
    }

    /// Ends a registration: whether that could be done, as no operation uses it.
    pub(crate) fn remove(&mut self, number: u32) -> bool {
        match self.regions.get(number) {
            Some(region) if region.users > 0 => false,
            Some(region) => {
                self.by_key.remove(&region.key);
                self.regions.remove(number);
                true
            }
            None => true,
        }
    }

    /// The memory that a peer means, if it may do all of `access` there, and the number of its registration.
    ///
    /// # Errors
    /// A number of libfabric's: there is no such key, no such memory behind it, or it is not allowed.
    pub(crate) fn find(
        &self,
        key: u64,
        address: u64,
        len: usize,
        access: u64,
    ) -> Result<(u32, Piece), c_int> {
        let number = *self.by_key.get(&key).ok_or(FI_ENOKEY)?;
        let region = self.regions.get(number).ok_or(FI_ENOKEY)?;
        let base = if self.naming.is_virtual { region.start as u64 } else { 0 };
        let offset = address.checked_sub(base).and_then(|offset| usize::try_from(offset).ok());
        let offset = offset.ok_or(FI_EINVAL)?;
        if offset.checked_add(len).is_none_or(|end| end > region.len) {
            return Err(FI_EINVAL);
        }
        if region.access & access != access {
            return Err(libc::EACCES);
        }
        let start = std::ptr::with_exposed_provenance_mut::<u8>(region.start).wrapping_add(offset);
        // SAFETY: the program has registered the memory, with which it allows these accesses until it closes
        // the registration; that waits for operations under way. The range was just checked. That nobody else
        // writes it meanwhile is for the programs to see to (fi_rma(3)): what they get otherwise is any
        // bytes.
        Ok((number, unsafe { Piece::new(start, len) }))
    }

    /// The counters of what peers do in a registration.
    pub(crate) fn counters(&mut self, number: u32) -> Option<&mut Counters> {
        Some(&mut self.regions.get_mut(number)?.counters)
    }

    /// An operation begins to use a registration.
    pub(crate) fn begins(&mut self, number: u32) {
        if let Some(region) = self.regions.get_mut(number) {
            region.users += 1;
        }
    }

    /// It has ended.
    pub(crate) fn ends(&mut self, number: u32) {
        if let Some(region) = self.regions.get_mut(number) {
            region.users = region.users.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const READ: u64 = 1;
    const WRITE: u64 = 2;

    #[test]
    fn memory_is_found_by_key_within_its_bounds_and_rights() {
        let bytes = [0_u8; 64];
        let start = bytes.as_ptr().expose_provenance();
        let mut memory = Memory::default();
        let (number, key) = memory.register(start, 64, READ, 7).unwrap();
        assert_eq!(key, 7);
        assert_eq!(memory.register(start, 64, READ, 7), Err(FI_ENOKEY));
        let found = |memory: &Memory, address, len, access| {
            memory
                .find(7, address, len, access)
                .map(|(number, piece)| (number, piece.as_ptr().addr(), piece.len()))
        };
        assert_eq!(found(&memory, 8, 56, READ), Ok((number, start + 8, 56)));
        assert_eq!(found(&memory, 64, 0, READ), Ok((number, start + 64, 0)));
        assert_eq!(found(&memory, 8, 57, READ), Err(FI_EINVAL));
        assert_eq!(found(&memory, 8, usize::MAX, READ), Err(FI_EINVAL));
        assert_eq!(found(&memory, u64::MAX, 1, READ), Err(FI_EINVAL));
        assert_eq!(found(&memory, 0, 1, WRITE), Err(libc::EACCES));
        assert_eq!(memory.find(8, 0, 1, READ).map(|_| ()), Err(FI_ENOKEY));
        memory.begins(number);
        assert!(!memory.remove(number));
        memory.ends(number);
        assert!(memory.remove(number));
        assert_eq!(found(&memory, 0, 1, READ), Err(FI_ENOKEY));
    }

    #[test]
    fn a_domain_that_chooses_keys_never_gives_one_twice() {
        let mut memory =
            Memory { naming: Naming { is_virtual: true, chooses_keys: true }, ..Memory::default() };
        let (first, key) = memory.register(4096, 64, READ, 5).unwrap();
        assert!(memory.remove(first));
        let (second, next) = memory.register(4096, 64, READ, 5).unwrap();
        assert_ne!(key, next);
        assert_eq!(memory.find(next, 4096 + 63, 1, READ).map(|(number, _)| number), Ok(second));
        assert_eq!(memory.find(next, 4095, 1, READ).map(|_| ()), Err(FI_EINVAL));
        assert_eq!(memory.find(next, 63, 1, READ).map(|_| ()), Err(FI_EINVAL));
    }
}
