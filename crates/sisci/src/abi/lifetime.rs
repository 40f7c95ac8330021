//! The C functions that initialise and terminate the library, open and close descriptors.

use super::{Out, call};
use crate::code::Code;
use crate::descriptor::{self, Descriptor};
use crate::handle::Handle;
use crate::library::Library;

export! {
    fn SCIInitialize(_flags: u32, error: Out<Code>) {
        call("SCIInitialize", error, (), || {
            Library::initialize();
            Ok(())
        })
    }

    fn SCITerminate() {
        super::quiet("SCITerminate", (), || {
            Library::terminate();
            Ok(())
        })
    }

    fn SCIOpen(sd: Out<Handle<Descriptor>>, _flags: u32, error: Out<Code>) {
        call("SCIOpen", error, (), || {
            sd.needed("sd")?;
            sd.put(descriptor::open()?);
            Ok(())
        })
    }

    fn SCIClose(sd: Handle<Descriptor>, _flags: u32, error: Out<Code>) {
        call("SCIClose", error, (), || descriptor::close(sd))
    }
}
