//! The marker trait of types that may lie in memory that another process writes.

use crate::sync::{AtomicI64, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize};

/// Marks types of which a reference may point into shared memory.
///
/// Derive it: the macro checks that the type is a `#[repr(C)]` (or `transparent`) struct, that every field is
/// shareable and that there is no padding. Plain integers are not shareable, because a reference promises
/// that they do not change; use atomics, and arrays of atomics for reserved space.
///
/// ```
/// use shm::{Shareable, sync::{AtomicU32, AtomicU64}};
///
/// #[derive(Shareable)]
/// #[repr(C)]
/// struct Header {
///     magic: AtomicU64,
///     version: AtomicU32,
///     reserved: [AtomicU32; 5],
/// }
/// ```
///
/// A plain integer, a pointer, padding, a missing `repr`, an enum: none of these compile.
///
/// ```compile_fail,E0277
/// #[derive(shm::Shareable)]
/// #[repr(C)]
/// struct PlainInteger {
///     changes_under_a_reference: u64,
/// }
/// ```
/// ```compile_fail,E0277
/// #[derive(shm::Shareable)]
/// #[repr(C)]
/// struct Pointer {
///     means_nothing_elsewhere: *const u8,
/// }
/// ```
/// ```compile_fail,E0080
/// # use shm::sync::{AtomicU32, AtomicU64};
/// #[derive(shm::Shareable)]
/// #[repr(C)]
/// struct Padded {
///     small: AtomicU32,
///     large: AtomicU64,
/// }
/// ```
/// ```compile_fail
/// # use shm::sync::AtomicU32;
/// #[derive(shm::Shareable)]
/// struct NoRepr {
///     word: AtomicU32,
/// }
/// ```
/// ```compile_fail
/// #[derive(shm::Shareable)]
/// #[repr(C)]
/// enum AnyBitPatternIsNotAnEnum {
///     A,
///     B,
/// }
/// ```
/// ```compile_fail
/// # use shm::sync::AtomicBool;
/// #[derive(shm::Shareable)]
/// #[repr(transparent)]
/// struct ABoolCouldBeTwo(AtomicBool);
/// ```
/// ```compile_fail
/// # use shm::sync::AtomicU32;
/// #[derive(shm::Shareable)]
/// #[repr(C, packed)]
/// struct Packed {
///     word: AtomicU32,
/// }
/// ```
///
/// # Safety
///
/// Every bit pattern must be a valid value; all access through a shared reference must be atomic; there must
/// be no pointer, reference or descriptor in it; its layout must be the same in every program built from this
/// source.
#[diagnostic::on_unimplemented(
    message = "`{Self}` may not lie in shared memory",
    label = "not shareable",
    note = "only atomics of `shm::sync`, arrays of shareable types and `#[derive(Shareable)] #[repr(C)]` structs may; a plain integer can change under a reference, a pointer means nothing in another process"
)]
pub unsafe trait Shareable: Sync {
    /// The derive's checks; named wherever a reference into shared memory is made, so that they are always
    /// evaluated.
    #[doc(hidden)]
    const CHECKED: () = ();
}

pub use shm_derive::Shareable;

macro_rules! shareable_atomics {
    ($($atomic:ty),*) => {$(
        // SAFETY: an atomic integer has no padding, takes every bit pattern and is only accessed atomically.
        // (Under loom it is a stand-in on the heap; no region can be made there, so it never lies in shared
        // memory.)
        unsafe impl Shareable for $atomic {}
    )*};
}
shareable_atomics!(AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, AtomicI64);

// SAFETY: an array is its elements, one after the other, without padding between them.
unsafe impl<T: Shareable, const N: usize> Shareable for [T; N] {
    const CHECKED: () = T::CHECKED;
}

/// Used by the derive: fails to compile if the sizes of the fields do not add up to the size of the struct.
#[doc(hidden)]
pub const fn assert_no_padding(size_bytes: usize, sum_of_fields_bytes: usize) {
    // loom's stand-ins have other sizes, and never lie in shared memory.
    assert!(
        cfg!(loom) || size_bytes == sum_of_fields_bytes,
        "a Shareable struct must have no padding: order the fields by size and fill gaps with arrays of atomics"
    );
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[derive(Shareable)]
    #[repr(C)]
    struct Nested<T> {
        first: AtomicU64,
        rest: [T; 4],
    }

    #[derive(Shareable)]
    #[repr(transparent)]
    struct Wrapper(AtomicU32);

    fn is_shareable<T: Shareable>() -> usize {
        size_of::<T>()
    }

    #[test]
    fn generic_and_transparent_structs_can_be_shared() {
        assert_eq!(is_shareable::<Nested<AtomicU16>>(), 16);
        assert_eq!(is_shareable::<[Wrapper; 3]>(), 12);
    }
}
