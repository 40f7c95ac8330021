//! The C functions for interrupts with and without a message.

use std::ffi::c_void;

use super::{Out, call};
use crate::callback::{Callback, DataInterruptFn, InterruptFn};
use crate::code::{Code, Result};
use crate::data_interrupt::{self, LocalDataInterrupt, RemoteDataInterrupt};
use crate::descriptor::Descriptor;
use crate::flags::{FIXED_INTNO, USE_CALLBACK};
use crate::handle::Handle;
use crate::interrupt::{self, LocalInterrupt, RemoteInterrupt, Wanted};

/// Read only where it means something: programs pass an uninitialised number without the flag.
fn number_of(number: Out<u32>, flags: u32) -> Result<u32> {
    number.needed("interruptNo")?;
    if flags & FIXED_INTNO == 0 { Ok(0) } else { number.take("interruptNo") }
}

/// The program's buffer for a message.
fn buffer_of<'a>(data: *mut c_void, length: u32) -> Result<&'a mut [u8]> {
    match (data.is_null(), length) {
        (_, 0) => Ok(&mut []),
        (true, _) => Err(Code::ILLEGAL_PARAMETER.because("data is NULL")),
        // SAFETY: by the call the program guarantees that these bytes are its own, and are not
        // changed until the call returns.
        (false, length) => Ok(unsafe { std::slice::from_raw_parts_mut(data.cast(), length as usize) }),
    }
}

export! {
    fn SCICreateInterrupt(
        sd: Handle<Descriptor>, local: Out<Handle<LocalInterrupt>>, adapter: u32, number: Out<u32>,
        callback: Option<InterruptFn>, argument: *mut c_void, flags: u32, error: Out<Code>,
    ) {
        call("SCICreateInterrupt", error, (), || {
            local.needed("interrupt")?;
            let callback = Callback::wanted(callback, argument, flags & USE_CALLBACK != 0);
            let wanted = Wanted { adapter, number: number_of(number, flags)?, callback, flags };
            let (handle, given) = interrupt::create(sd, &wanted)?;
            local.put(handle);
            number.put(given);
            Ok(())
        })
    }

    fn SCIRemoveInterrupt(local: Handle<LocalInterrupt>, _flags: u32, error: Out<Code>) {
        call("SCIRemoveInterrupt", error, (), || interrupt::remove(local))
    }

    fn SCIWaitForInterrupt(local: Handle<LocalInterrupt>, timeout: u32, _flags: u32, error: Out<Code>) {
        call("SCIWaitForInterrupt", error, (), || interrupt::wait(local, timeout))
    }

    fn SCIConnectInterrupt(
        sd: Handle<Descriptor>, remote: Out<Handle<RemoteInterrupt>>, node: u32, adapter: u32, number: u32,
        timeout: u32, _flags: u32, error: Out<Code>,
    ) {
        call("SCIConnectInterrupt", error, (), || {
            remote.needed("interrupt")?;
            remote.put(interrupt::connect(sd, node, adapter, number, timeout)?);
            Ok(())
        })
    }

    fn SCIDisconnectInterrupt(remote: Handle<RemoteInterrupt>, _flags: u32, error: Out<Code>) {
        call("SCIDisconnectInterrupt", error, (), || interrupt::disconnect(remote))
    }

    fn SCITriggerInterrupt(remote: Handle<RemoteInterrupt>, _flags: u32, error: Out<Code>) {
        call("SCITriggerInterrupt", error, (), || interrupt::trigger(remote))
    }

    fn SCICreateDataInterrupt(
        sd: Handle<Descriptor>, local: Out<Handle<LocalDataInterrupt>>, adapter: u32, number: Out<u32>,
        callback: Option<DataInterruptFn>, argument: *mut c_void, flags: u32, error: Out<Code>,
    ) {
        call("SCICreateDataInterrupt", error, (), || {
            local.needed("interrupt")?;
            let callback = Callback::wanted(callback, argument, flags & USE_CALLBACK != 0);
            let wanted = Wanted { adapter, number: number_of(number, flags)?, callback, flags };
            let (handle, given) = data_interrupt::create(sd, &wanted)?;
            local.put(handle);
            number.put(given);
            Ok(())
        })
    }

    fn SCIRemoveDataInterrupt(local: Handle<LocalDataInterrupt>, _flags: u32, error: Out<Code>) {
        call("SCIRemoveDataInterrupt", error, (), || data_interrupt::remove(local))
    }

    fn SCIWaitForDataInterrupt(
        local: Handle<LocalDataInterrupt>, data: *mut c_void, length: Out<u32>, timeout: u32, _flags: u32,
        error: Out<Code>,
    ) {
        call("SCIWaitForDataInterrupt", error, (), || {
            let buffer = buffer_of(data, length.take("length")?)?;
            let len = data_interrupt::wait(local, buffer, timeout)?;
            length.put(u32::try_from(len).unwrap_or(u32::MAX));
            Ok(())
        })
    }

    fn SCIConnectDataInterrupt(
        sd: Handle<Descriptor>, remote: Out<Handle<RemoteDataInterrupt>>, node: u32, adapter: u32, number: u32,
        timeout: u32, _flags: u32, error: Out<Code>,
    ) {
        call("SCIConnectDataInterrupt", error, (), || {
            remote.needed("interrupt")?;
            remote.put(data_interrupt::connect(sd, node, adapter, number, timeout)?);
            Ok(())
        })
    }

    fn SCIDisconnectDataInterrupt(remote: Handle<RemoteDataInterrupt>, _flags: u32, error: Out<Code>) {
        call("SCIDisconnectDataInterrupt", error, (), || data_interrupt::disconnect(remote))
    }

    fn SCITriggerDataInterrupt(
        remote: Handle<RemoteDataInterrupt>, data: *mut c_void, length: u32, _flags: u32, error: Out<Code>,
    ) {
        call("SCITriggerDataInterrupt", error, (), || {
            data_interrupt::trigger(remote, buffer_of(data, length)?)
        })
    }
}
