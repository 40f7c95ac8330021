//! Queries about nodes, adapters and the program's own objects.

use proto::wire::status::{LinkStatus, SessionState};
use tieline::Node;

use crate::code::{Code, Result};
use crate::commands as q;
use crate::descriptor::Descriptor;
use crate::dma::ENTRIES_MAX;
use crate::flags;
use crate::handle::Handle;
use crate::library::Library;
use crate::local::LocalSegment;
use crate::map::{Map, Target};
use crate::remote::RemoteSegment;
use crate::signal::peer;

/// Groups that a node can be a member of: any number fits, programs get this one.
const GROUPS: u32 = 64;
/// The number that SCIGetAdapterTypeString converts to text.
pub const CARD_TYPE: u32 = 1;
/// Bytes of a cache line on every processor that this runs on.
const CACHE_LINE_BYTES: u32 = 64;

/// SCIProbeNode: an error for a node that cannot be reached, because some programs examine nothing
/// else.
pub fn probe(descriptor: Handle<Descriptor>, adapter: u32, node: u32) -> Result<()> {
    let library = Library::get()?;
    library.descriptors.get(descriptor)?;
    let own = library.node_with(adapter)?;
    let peer = peer(&own, node)?;
    if own.probe(peer)? {
        return Ok(());
    }
    let detail = format!("node {peer} cannot be reached: `tieline status` says why");
    Err(Code::NO_REMOTE_LINK_ACCESS.because(detail))
}

/// SCIGetLocalNodeId.
pub fn local_node_id(adapter: u32) -> Result<u32> {
    Ok(Library::get()?.node_with(adapter)?.id().get())
}

/// SCIGetNodeIdByAdapterName: the nodes, this program's own last, and the adapter.
pub fn nodes_by_name(name: &str) -> Result<(Vec<u32>, u32)> {
    let named = Library::get()?.node()?.nodes_by_name(name)?;
    if named.nodes.is_empty() {
        let detail = format!(
            "no node of the cluster is on a host `{name}`, nor has an adapter of that name: see `tieline diag` for the hosts"
        );
        return Err(Code::NOT_FOUND.because(detail));
    }
    Ok((named.nodes.iter().map(|node| node.get()).collect(), named.adapter.0))
}

/// Subcommands of `SCI_Q_ADAPTER`, as in the header.
pub fn adapter(adapter: u32, port: u32, subcommand: u32) -> Result<u32> {
    let library = Library::get()?;
    let node = match library.node_with(adapter) {
        // The query is whether the adapter exists.
        Err(failure) if subcommand == q::ADAPTER_CONFIGURED && failure.code == Code::NO_SUCH_ADAPTERNO => {
            return Ok(0);
        }
        node => node?,
    };
    match subcommand {
        q::ADAPTER_SERIAL_NUMBER => Ok(node.id().get()),
        q::ADAPTER_CARD_TYPE => Ok(CARD_TYPE),
        q::ADAPTER_NODEID => Ok(node.id().get()),
        q::ADAPTER_CONFIGURED | q::ADAPTER_HW_LINK_STATUS_IS_OK | q::ADAPTER_FIRMWARE_OK => Ok(1),
        q::ADAPTER_DMA_MTU => Ok(u32::MAX),
        q::ADAPTER_MCAST_MAX_GROUPS => Ok(GROUPS),
        q::ADAPTER_BDF
        | q::ADAPTER_CONNECTED_TO_SWITCH
        | q::ADAPTER_LOCAL_SWITCH_TYPE
        | q::ADAPTER_LOCAL_SWITCH_PORT_NUMBER
        | q::ADAPTER_CONNECTED_TO_EXPECTED_SWITCH_PORT
        | q::ADAPTER_ATT_PAGE_SIZE
        | q::ADAPTER_ATT_NUMBER_OF_ENTRIES
        | q::ADAPTER_ATT_AVAILABLE_ENTRIES => Ok(0),
        q::ADAPTER_NUMBER_OF_LINKS => {
            links(&node).map(|links| u32::try_from(links.len()).unwrap_or(u32::MAX))
        }
        q::ADAPTER_LINK_OPERATIONAL..=q::ADAPTER_LINK_PARTNER_PORT_NO => link(&node, port, subcommand),
        q::ADAPTER_DMA_SIZE_ALIGNMENT
        | q::ADAPTER_DMA_OFFSET_ALIGNMENT
        | q::ADAPTER_SUGGESTED_MIN_DMA_SIZE
        | q::ADAPTER_SUGGESTED_MIN_BLOCK_SIZE
        | q::ADAPTER_NUMBER_OF_STREAMS => Ok(1),
        q::ADAPTER_STREAM_BUFFER_SIZE => Ok(CACHE_LINE_BYTES),
        q::ADAPTER_NUMBER | q::ADAPTER_INSTANCE_NUMBER => Ok(adapter),
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
        q::ADAPTER_LINK_OPERATIONAL | q::ADAPTER_LINK_CABLE_INSERTED => u32::from(link.up),
        // Properties of memory: as wide as a cache line, and without a generation.
        q::ADAPTER_LINK_WIDTH => CACHE_LINE_BYTES,
        q::ADAPTER_LINK_SPEED => 0,
        q::ADAPTER_LINK_UPTIME if link.up => link.seconds,
        q::ADAPTER_LINK_DOWNTIME if !link.up => link.seconds,
        q::ADAPTER_LINK_ENABLED => 1,
        _ => 0,
    })
}

/// Subcommands of `SCI_Q_SYSTEM`.
pub fn system(subcommand: u32) -> Result<u32> {
    Library::get()?;
    match subcommand {
        q::SYSTEM_CPU_CACHE_LINE_SIZE => Ok(CACHE_LINE_BYTES),
        q::SYSTEM_HOSTBRIDGE => Ok(0),
        q::SYSTEM_WRITE_POSTING_ENABLED | q::SYSTEM_WRITE_COMBINING_ENABLED => Ok(1),
        _ => Err(no_such(subcommand)),
    }
}

/// Subcommands of `SCI_Q_LOCAL_SEGMENT`: addresses are those of this program.
pub fn local_segment(handle: Handle<LocalSegment>, subcommand: u32) -> Result<u64> {
    let segment = Library::get()?.local_segments.get(handle)?;
    match subcommand {
        q::LOCAL_SEGMENT_IOADDR | q::LOCAL_SEGMENT_PHYS_ADDR | q::LOCAL_SEGMENT_VIRTUAL_KERNEL_ADDR => {
            Ok(segment.window().as_ptr().expose_provenance() as u64)
        }
        _ => Err(no_such(subcommand)),
    }
}

/// Subcommands of `SCI_Q_REMOTE_SEGMENT`.
pub fn remote_segment(handle: Handle<RemoteSegment>, subcommand: u32) -> Result<u64> {
    match subcommand {
        q::REMOTE_SEGMENT_IOADDR => {
            let segment = Library::get()?.remote_segments.get(handle)?;
            let connection = segment.connection()?;
            if connection.far().is_some() {
                let detail = format!(
                    "segment {} of node {} is on another host and has no address here: use SCIMemCpy or DMA",
                    segment.id(),
                    segment.node()
                );
                return Err(Code::NOT_SUPPORTED.because(detail));
            }
            Ok(connection.address()? as u64)
        }
        // Programs use the other command for these of a map; both structures have the same layout.
        q::MAP_MAPPED_TO_LOCAL_TARGET | q::MAP_IOADDR | q::MAP_PHYS_ADDR => map(handle.cast(), subcommand),
        _ => Err(no_such(subcommand)),
    }
}

/// Subcommands of `SCI_Q_MAP`.
pub fn map(handle: Handle<Map>, subcommand: u32) -> Result<u64> {
    let map = Library::get()?.maps.get(handle)?;
    match subcommand {
        q::MAP_MAPPED_TO_LOCAL_TARGET => Ok(match map.target() {
            Target::Local(_) => 1,
            Target::Remote(segment) => u64::from(segment.node() == local_node_id(0)?),
        }),
        q::MAP_IOADDR | q::MAP_PHYS_ADDR => Ok(map.address() as u64),
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

/// The kinds of DMA that can be requested: of the adapter, global, of the system. All are the same
/// copies here.
const DMA_KINDS: u32 = flags::DMA_ADAPTER | flags::DMA_GLOBAL | flags::DMA_SYSDMA;

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
        q::VENDORID => Ok("tieline".to_owned()),
        q::API | q::SISCI_DRIVER_VERSION => {
            Ok(concat!("tieline ", env!("CARGO_PKG_VERSION"), " (SISCI API 2)").to_owned())
        }
        _ => Err(no_such(command)),
    }
}

fn no_such(number: u32) -> crate::code::Failure {
    Code::ILLEGAL_QUERY.because(format!("there is no query {number:#x}"))
}
