//! What a program can ask about nodes, adapters and its own things.

use proto::wire::status::{LinkStatus, SessionState};
use tieline::Node;

use crate::code::{Code, Result};
use crate::descriptor::Descriptor;
use crate::dma::ENTRIES_MAX;
use crate::handle::Handle;
use crate::interrupt::peer;
use crate::library::Library;
use crate::local::LocalSegment;
use crate::map::{Map, Target};
use crate::remote::RemoteSegment;

/// Groups that a node can be a member of: any number fits, this is what programs are told.
const GROUPS: u32 = 64;
/// What SCIGetAdapterTypeString makes words of.
pub const CARD_TYPE: u32 = 1;
/// Bytes of a cache line on every processor that this runs on.
const CACHE_LINE_BYTES: u32 = 64;

/// SCIProbeNode. A node that nobody knows is not reachable, which is no error.
pub fn probe(descriptor: Handle<Descriptor>, adapter: u32, node: u32) -> Result<bool> {
    let library = Library::get()?;
    library.descriptors.get(descriptor)?;
    let own = library.node_with(adapter)?;
    let peer = peer(&own, node)?;
    Ok(own.probe(peer)?)
}

/// SCIGetLocalNodeId.
pub fn local_node_id(adapter: u32) -> Result<u32> {
    Ok(Library::get()?.node_with(adapter)?.id().get())
}

/// Subcommands of `SCI_Q_ADAPTER`, as in the header.
pub fn adapter(adapter: u32, port: u32, subcommand: u32) -> Result<u32> {
    let library = Library::get()?;
    let node = match library.node_with(adapter) {
        // Whether an adapter is there is what this asks.
        Err(failure) if subcommand == 0x104 && failure.code == Code::NO_SUCH_ADAPTERNO => return Ok(0),
        node => node?,
    };
    match subcommand {
        0x101 => Ok(node.id().get()),
        0x102 => Ok(CARD_TYPE),
        0x103 => Ok(node.id().get()),
        0x104 | 0x126 | 0x129 => Ok(1),
        0x105 => Ok(u32::MAX),
        0x106 => Ok(GROUPS),
        0x107 | 0x12a | 0x12b | 0x12c => Ok(0),
        0x108 => links(&node).map(|links| u32::try_from(links.len()).unwrap_or(u32::MAX)),
        0x109..=0x110 => link(&node, port, subcommand),
        0x120..=0x124 => Ok(1),
        0x125 => Ok(CACHE_LINE_BYTES),
        0x127 | 0x128 => Ok(adapter),
        _ => Err(no_such(subcommand)),
    }
}

/// A link: the node at its other end, whether it is up, and for how many seconds it has been so.
struct Link {
    up: bool,
    seconds: u32,
}

/// Links in the order of the nodes that they lead to.
fn links(node: &Node) -> Result<Vec<Link>> {
    let status = node.status()?;
    let of = |link: &LinkStatus| Link {
        up: link.session == SessionState::Valid && !link.taken_down,
        seconds: u32::try_from(link.since_ns / 1_000_000_000).unwrap_or(u32::MAX),
    };
    Ok(status.links.iter().map(of).collect())
}

fn link(node: &Node, port: u32, subcommand: u32) -> Result<u32> {
    let links = links(node)?;
    let index = usize::try_from(port).unwrap_or(usize::MAX);
    let link = links.get(index).ok_or_else(|| {
        Code::ILLEGAL_PARAMETER.because(format!(
            "there is no link {port}: node {} has {}",
            node.id(),
            links.len()
        ))
    })?;
    Ok(match subcommand {
        0x109 | 0x10e => u32::from(link.up),
        // Of memory: as wide as a cache line, and of no generation.
        0x10a => CACHE_LINE_BYTES,
        0x10b => 0,
        0x10c if link.up => link.seconds,
        0x10d if !link.up => link.seconds,
        0x10f => 1,
        _ => 0,
    })
}

/// Subcommands of `SCI_Q_SYSTEM`.
pub fn system(subcommand: u32) -> Result<u32> {
    Library::get()?;
    match subcommand {
        0x201 => Ok(CACHE_LINE_BYTES),
        0x202 => Ok(0),
        0x203 | 0x204 => Ok(1),
        _ => Err(no_such(subcommand)),
    }
}

/// Subcommands of `SCI_Q_LOCAL_SEGMENT`: addresses are those of this program.
pub fn local_segment(handle: Handle<LocalSegment>, subcommand: u32) -> Result<u64> {
    let segment = Library::get()?.local_segments.get(handle)?;
    match subcommand {
        0x301..=0x303 => Ok(segment.window().as_ptr().expose_provenance() as u64),
        _ => Err(no_such(subcommand)),
    }
}

/// Subcommands of `SCI_Q_REMOTE_SEGMENT`.
pub fn remote_segment(handle: Handle<RemoteSegment>, subcommand: u32) -> Result<u64> {
    match subcommand {
        0x401 => {
            let segment = Library::get()?.remote_segments.get(handle)?;
            Ok(segment.connection()?.address()? as u64)
        }
        // Programs ask for these of a map under the other command; both structures lie alike.
        0x501..=0x503 => map(handle.cast(), subcommand),
        _ => Err(no_such(subcommand)),
    }
}

/// Subcommands of `SCI_Q_MAP`.
pub fn map(handle: Handle<Map>, subcommand: u32) -> Result<u64> {
    let map = Library::get()?.maps.get(handle)?;
    match subcommand {
        0x501 => Ok(match map.target() {
            Target::Local(_) => 1,
            Target::Remote(segment) => u64::from(segment.node() == local_node_id(0)?),
        }),
        0x502 | 0x503 => Ok(map.address() as u64),
        _ => Err(no_such(subcommand)),
    }
}

/// `sci_dma_capabilities_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DmaCapabilities {
    num_channels: u32,
    max_transfer_size: u32,
    max_vector_length: u32,
    support_mem2io: u32,
    support_io2mem: u32,
    support_io2io: u32,
    min_align_bytes: u32,
    suggested_align_bytes: u32,
}

/// Kinds of DMA that can be asked for: the adapter's, everybody's, the system's. All are the same copies here.
const DMA_KINDS: u32 = 0x800 | 0x40 | 0x100;

/// `SCI_Q_DMA_AVAILABLE`.
pub fn dma_available(adapter: u32, flags: u32) -> Result<u32> {
    Library::get()?.node_with(adapter)?;
    Ok(u32::from(flags == 0 || flags & DMA_KINDS != 0))
}

/// `SCI_Q_DMA_CAPABILITIES`.
pub fn dma_capabilities(adapter: u32) -> Result<DmaCapabilities> {
    Library::get()?.node_with(adapter)?;
    Ok(DmaCapabilities {
        num_channels: 1,
        max_transfer_size: u32::MAX,
        max_vector_length: u32::try_from(ENTRIES_MAX).unwrap_or(u32::MAX),
        support_mem2io: 1,
        support_io2mem: 1,
        support_io2io: 0,
        min_align_bytes: 1,
        suggested_align_bytes: CACHE_LINE_BYTES,
    })
}

/// `SCI_Q_VENDORID`, `SCI_Q_API`, `SCI_Q_SISCI_DRIVER_VERSION`.
pub fn text(command: u32) -> Result<String> {
    Library::get()?;
    match command {
        6 => Ok("tieline".to_owned()),
        7 | 9 => Ok(concat!("tieline ", env!("CARGO_PKG_VERSION"), " (SISCI API 2)").to_owned()),
        _ => Err(no_such(command)),
    }
}

fn no_such(number: u32) -> crate::code::Failure {
    Code::ILLEGAL_QUERY.because(format!("there is no query {number:#x}"))
}
