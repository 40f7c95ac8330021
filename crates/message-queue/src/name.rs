//! Addresses of end points, as programs carry them from one process to another: 32 opaque bytes, all of one
//! length, because Open MPI and MPICH keep the addresses of all processes in one array. Whatever is above may
//! have names of its own, and map them to these.

use std::collections::HashMap;
use std::sync::OnceLock;

use crate::matching::PeerId;

/// Length of a name.
pub const NAME_BYTES: usize = 32;

/// The last character is raised when records mean something else than before: end points of both versions do
/// not meet.
const MAGIC: [u8; 4] = *b"tlm3";
/// The magic of the names of second end points. No program carries such a name, so none can be given in the
/// place of the other.
const SECOND: [u8; 4] = *b"tls2";

/// An end point's address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct Name {
    magic: [u8; 4],
    /// For those who debug; nothing relies on it.
    pid: [u8; 4],
    /// The machine, that is, its last start: end points of another one are not reached by the name alone.
    machine: [u8; 8],
    /// Of this end point alone, and not to be guessed.
    random: [u8; 16],
}

const _: () = assert!(size_of::<Name>() == NAME_BYTES);

impl Name {
    /// A new name, or `None` if the kernel has no random numbers.
    #[must_use]
    pub fn new() -> Option<Self> {
        let mut random = [0; 16];
        let got = rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty()).ok()?;
        (got == random.len()).then(|| Self {
            magic: MAGIC,
            pid: std::process::id().to_ne_bytes(),
            machine: machine(),
            random,
        })
    }

    /// The name of the second end point of whoever has this one: its owner uses it for messages that are to
    /// wait behind none of the first, and whoever knows the first finds it, too.
    #[must_use]
    pub const fn second(self) -> Self {
        Self { magic: SECOND, ..self }
    }

    /// The name that a program knows its owner by: that of its first end point.
    #[must_use]
    pub const fn first(self) -> Self {
        Self { magic: MAGIC, ..self }
    }

    /// The name that a program gave, if it is one of an end point on this machine, and not of a second one.
    #[must_use]
    pub fn of_bytes(bytes: &[u8; NAME_BYTES]) -> Option<Self> {
        Self::of_any_bytes(bytes).filter(|name| name.magic == MAGIC)
    }

    /// The name that an end point gave, which may be a second one.
    pub(crate) fn of_any_bytes(bytes: &[u8; NAME_BYTES]) -> Option<Self> {
        Self::parsed(bytes).filter(|name| name.machine == machine())
    }

    /// That of an end point on any machine, for who knows another way to it.
    #[must_use]
    pub fn of_any_machine(bytes: &[u8; NAME_BYTES]) -> Option<Self> {
        Self::parsed(bytes).filter(|name| name.magic == MAGIC)
    }

    fn parsed(bytes: &[u8; NAME_BYTES]) -> Option<Self> {
        let (magic, rest) = bytes.split_first_chunk::<4>()?;
        let (pid, rest) = rest.split_first_chunk::<4>()?;
        let (machine, rest) = rest.split_first_chunk::<8>()?;
        let random = *rest.first_chunk::<16>()?;
        let name = Self { magic: *magic, pid: *pid, machine: *machine, random };
        (name.magic == MAGIC || name.magic == SECOND).then_some(name)
    }

    /// As programs carry it.
    #[must_use]
    pub fn bytes(&self) -> [u8; NAME_BYTES] {
        let mut bytes = [0; NAME_BYTES];
        bytes[..4].copy_from_slice(&self.magic);
        bytes[4..8].copy_from_slice(&self.pid);
        bytes[8..16].copy_from_slice(&self.machine);
        bytes[16..].copy_from_slice(&self.random);
        bytes
    }

    /// For people, and the name of its socket.
    #[must_use]
    pub fn text(&self) -> String {
        use std::fmt::Write;
        let mut text = format!("tieline-mq-{}-", u32::from_ne_bytes(self.pid));
        for byte in self.random {
            let _ = write!(text, "{byte:02x}");
        }
        if self.magic == SECOND {
            text.push_str("-second");
        }
        text
    }
}

/// This start of this machine: the kernel's random number of it, of which eight bytes suffice to notice a
/// wrong machine.
fn machine() -> [u8; 8] {
    static MACHINE: OnceLock<[u8; 8]> = OnceLock::new();
    *MACHINE.get_or_init(|| {
        let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        // FNV-1a: it need not resist anybody.
        let hash = id.trim().bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        hash.to_ne_bytes()
    })
}

/// Numbers for names.
#[derive(Debug, Default)]
pub(crate) struct Names {
    numbers: HashMap<Name, PeerId>,
}

impl Names {
    /// The name's number, the same each time.
    pub(crate) fn number(&mut self, name: Name) -> PeerId {
        let next = self.numbers.len() as PeerId;
        *self.numbers.entry(name).or_insert(next)
    }

    /// The number of a name that has one.
    pub(crate) fn find(&self, name: &Name) -> Option<PeerId> {
        self.numbers.get(name).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_survives_its_bytes_and_strangers_do_not() {
        let name = Name::new().unwrap();
        assert_eq!(Name::of_bytes(&name.bytes()), Some(name));
        for (at, what) in [(0, "magic"), (8, "machine")] {
            let mut bytes = name.bytes();
            bytes[at] ^= 1;
            assert_eq!(Name::of_bytes(&bytes), None, "{what}");
            assert_eq!(Name::of_any_machine(&bytes).is_some(), what == "machine");
        }
    }

    #[test]
    fn a_second_name_is_found_by_the_first_and_no_program_can_give_it() {
        let name = Name::new().unwrap();
        let second = name.second();
        assert_eq!((second.first(), second.second(), name.first()), (name, second, name));
        assert_ne!((second, second.text()), (name, name.text()));
        assert_eq!(Name::of_bytes(&second.bytes()), None);
        assert_eq!(Name::of_any_bytes(&second.bytes()), Some(second));
        assert_eq!(Name::of_any_bytes(&name.bytes()), Some(name));
    }

    #[test]
    fn numbers_are_kept() {
        let (a, b) = (Name::new().unwrap(), Name::new().unwrap());
        let mut names = Names::default();
        assert_eq!([names.number(a), names.number(b), names.number(a)], [0, 1, 0]);
        assert_eq!((names.find(&b), names.find(&Name::new().unwrap())), (Some(1), None));
    }
}
