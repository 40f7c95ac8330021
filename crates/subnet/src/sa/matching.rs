//! Which records fit a request: those that are the same in each field that its component mask names.

use mad::bits;
use mad::values::Status;
use mad::{Layout, Mad};

use super::status;

/// A component of a record: its bit of the mask, and where it lies in the record, in bits.
pub(crate) type Component = (u32, usize, usize);

/// A request for records, as far as it names fields.
pub(crate) struct Wanted<'a, T> {
    template: &'a T,
    components: Vec<Component>,
}

impl<'a, T: Layout> Wanted<'a, T> {
    /// Of a request, and the components that can be compared. Reserved ones are passed over.
    pub(crate) fn new(request: &'a Mad, known: &[Component], reserved: u64) -> Result<Self, Status> {
        let mask = mad::sa::header(request).component_mask() & !reserved;
        let all = known.iter().fold(0_u64, |all, one| all | 1 << one.0);
        if mask & !all != 0 {
            return Err(status::INVALID);
        }
        let components = known.iter().filter(|one| mask & 1 << one.0 != 0).copied().collect();
        Ok(Self { template: request.at::<{ mad::sa::DATA_AT }, T>(), components })
    }

    /// Is this component asked for?
    pub(crate) fn has(&self, bit: u32) -> bool {
        self.components.iter().any(|one| one.0 == bit)
    }

    /// What is asked for.
    pub(crate) fn template(&self) -> &T {
        self.template
    }

    /// Does a record fit, but for the component `besides`?
    pub(crate) fn fits(&self, record: &T, besides: Option<u32>) -> bool {
        self.fits_in(record, |bit| Some(bit) != besides)
    }

    /// Does a record fit in those components that `counts`?
    pub(crate) fn fits_in(&self, record: &T, counts: impl Fn(u32) -> bool) -> bool {
        let (wanted, there) = (self.template.as_bytes(), record.as_bytes());
        self.components.iter().filter(|one| counts(one.0)).all(|(_, at, width)| {
            if *width <= 64 {
                return bits::get(wanted, *at, *width) == bits::get(there, *at, *width);
            }
            let bytes = at / 8..(at + width) / 8;
            wanted.get(bytes.clone()) == there.get(bytes)
        })
    }
}
