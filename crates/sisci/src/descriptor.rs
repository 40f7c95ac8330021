//! `sci_desc_t`: the descriptor from which segments, queues and interrupts are created.

use std::sync::Arc;

use crate::code::{Code, Result};
use crate::handle::{Handle, Handled, Kind};
use crate::library::Library;

/// An open virtual device. Everything made from it holds it.
#[derive(Debug, Default)]
pub struct Descriptor;

impl Handled for Descriptor {
    const KIND: Kind = Kind::Descriptor;
}

/// SCIOpen.
pub fn open() -> Result<Handle<Descriptor>> {
    let library = Library::get()?;
    library.node()?;
    library.descriptors.insert(Arc::new(Descriptor))
}

/// SCIClose.
pub fn close(handle: Handle<Descriptor>) -> Result<()> {
    let library = Library::get()?;
    let descriptor = library.descriptors.get(handle)?;
    if library.is_used(&descriptor) {
        return Err(Code::BUSY
            .because("segments, queues or interrupts of this descriptor still exist: remove them first"));
    }
    drop(descriptor);
    library.descriptors.remove(handle).map(drop)
}
