//! The part of libfabric's binary interface that tieline uses (API 1.17, Debian 12), loaded at run time.
//!
//! What it is for: the structures ([`abi`]) and constants ([`constants`]) of the C headers, the library's
//! exported functions by their versioned names ([`library`]), and the headers' inline functions, which are
//! calls through tables of functions ([`calls`]); and bare loops of these calls ([`bare`]), as a reference
//! for measurements.
//!
//! What it must never do: need libfabric at build or link time; guard anything. A process that calls it keeps
//! libfabric's rules: that is crate `ofi`.
//!
//! Where to start reading: [`library::Library::load`]. What a field or a call means is in libfabric's manual
//! pages (`fi_getinfo(3)`, `fi_rma(3)`, …), whose names are kept here. `tests/headers.rs` compares every
//! size, offset and number with the C headers.

pub mod abi;
pub mod bare;
pub mod calls;
pub mod constants;
mod dispositions;
pub mod library;

pub use library::{Library, LoadError};
