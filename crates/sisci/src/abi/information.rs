//! The C functions for queries.

use std::ffi::{c_char, c_int, c_void};

use super::{Out, call};
use crate::code::{Code, Result};
use crate::commands as q;
use crate::descriptor::Descriptor;
use crate::handle::Handle;
use crate::last_error;
use crate::local::LocalSegment;
use crate::map::Map;
use crate::query;
use crate::remote::RemoteSegment;

/// `sci_query_adapter_t`.
#[repr(C)]
#[derive(Clone, Copy)]
struct AdapterQuery {
    adapter: u32,
    port: u32,
    subcommand: u32,
    data: Out<u32>,
}

/// `sci_query_system_t`.
#[repr(C)]
#[derive(Clone, Copy)]
struct SystemQuery {
    subcommand: u32,
    data: Out<u32>,
}

/// `sci_query_local_segment_t`, `sci_query_remote_segment_t` and `sci_query_map_t` lie alike.
#[repr(C)]
#[derive(Clone, Copy)]
struct ThingQuery {
    thing: Handle<()>,
    subcommand: u32,
    data: u64,
}

/// `sci_query_dma_t`.
#[repr(C)]
#[derive(Clone, Copy)]
struct DmaQuery {
    adapter: u32,
    subcommand: u32,
    data: *mut c_void,
}

/// `sci_query_string_t`.
#[repr(C)]
#[derive(Clone, Copy)]
struct StringQuery {
    text: *mut c_char,
    length: u32,
}

fn answer<T: Copy>(into: Out<T>, make: impl FnOnce() -> Result<T>) -> Result<()> {
    into.needed("data of the query")?;
    into.put(make()?);
    Ok(())
}

fn thing<T>(data: *mut c_void, ask: impl FnOnce(Handle<T>, u32) -> Result<u64>) -> Result<()> {
    let at = Out::<ThingQuery>::of(data);
    let mut query = at.take("data")?;
    query.data = ask(query.thing.cast(), query.subcommand)?;
    at.put(query);
    Ok(())
}

impl<T> Out<T> {
    fn of(data: *mut c_void) -> Self {
        Self(data.cast())
    }
}

fn text(data: *mut c_void, command: u32) -> Result<()> {
    let query = Out::<StringQuery>::of(data).take("data")?;
    let text = query::text(command)?;
    let room = query.length as usize;
    if query.text.is_null() || room == 0 {
        return Err(Code::ILLEGAL_PARAMETER.because("str is NULL, or length is 0"));
    }
    // A text that does not fit is truncated: the program gave the size of its buffer.
    let len = text.len().min(room - 1);
    for (index, byte) in text.bytes().take(len).chain([0]).enumerate() {
        // SAFETY: the program guarantees that `length` characters from there are its own; `index`
        // is below that.
        unsafe { query.text.add(index).cast::<u8>().write(byte) };
    }
    Ok(())
}

fn ask(command: u32, data: *mut c_void, flags: u32) -> Result<()> {
    match command {
        q::ADAPTER => {
            let query = Out::<AdapterQuery>::of(data).take("data")?;
            answer(query.data, || query::adapter(query.adapter, query.port, query.subcommand))
        }
        q::SYSTEM => {
            let query = Out::<SystemQuery>::of(data).take("data")?;
            answer(query.data, || query::system(query.subcommand))
        }
        q::LOCAL_SEGMENT => thing::<LocalSegment>(data, query::local_segment),
        q::REMOTE_SEGMENT => thing::<RemoteSegment>(data, query::remote_segment),
        q::MAP => thing::<Map>(data, query::map),
        q::VENDORID | q::API | q::SISCI_DRIVER_VERSION => text(data, command),
        q::DMA => {
            let query = Out::<DmaQuery>::of(data).take("data")?;
            match query.subcommand {
                q::DMA_AVAILABLE => {
                    answer(Out::<u32>::of(query.data), || query::dma_available(query.adapter, flags))
                }
                q::DMA_CAPABILITIES => answer(Out::of(query.data), || query::dma_capabilities(query.adapter)),
                other => Err(Code::ILLEGAL_QUERY.because(format!("there is no query {other:#x}"))),
            }
        }
        q::DEVICE => Err(Code::NOT_IMPLEMENTED.because("there are no devices")),
        other => Err(Code::ILLEGAL_QUERY.because(format!("there is no query {other:#x}"))),
    }
}

export! {
    fn SCIQuery(command: u32, data: *mut c_void, flags: u32, error: Out<Code>) {
        call("SCIQuery", error, (), || ask(command, data, flags))
    }

    fn SCIProbeNode(sd: Handle<Descriptor>, adapter: u32, node: u32, _flags: u32, error: Out<Code>) -> c_int {
        call("SCIProbeNode", error, 0, || query::probe(sd, adapter, node).map(|()| 1))
    }

    fn SCIGetLocalNodeId(adapter: u32, node: Out<u32>, _flags: u32, error: Out<Code>) {
        call("SCIGetLocalNodeId", error, (), || answer(node, || query::local_node_id(adapter)))
    }

    fn SCIGetErrorString(error: Code) -> *const c_char {
        last_error::words(error)
    }

    fn SCIGetAdapterTypeString(kind: u32) -> *const c_char {
        if kind == query::CARD_TYPE { c"tieline shared memory" } else { c"unknown adapter" }.as_ptr()
    }

    fn SCIGetAdapterFamilyString(kind: u32) -> *const c_char {
        if kind == query::CARD_TYPE { c"tieline" } else { c"unknown" }.as_ptr()
    }
}
