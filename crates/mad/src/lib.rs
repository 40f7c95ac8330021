//! Management datagrams of switched fabrics (InfiniBand): codec, transports, client.
//!
//! What it is for: the codec of the subnet-management, subnet-administration and performance classes as views
//! over the bytes of a datagram; the trait [`MadTransport`] with three implementations (a kernel device, a
//! fabric simulator's socket, a fabric in the same process); a client that keeps many requests in flight and
//! repeats those that stay without a response.
//!
//! What it must never do: judge the content of a datagram (whose GUID it is, whether a port number exists:
//! callers do that); panic or wait without limit, whatever comes in.
//!
//! Where to start reading: [`layout`] (how a structure is written down), [`header`], [`sm`], [`sa`], [`pm`];
//! then [`transport`] and [`windowed`]. Bit numbers are those of the InfiniBand Architecture Specification,
//! volume 1: byte times eight, counted from the most significant bit of each byte.
#![deny(unsafe_code)]

#[macro_use]
pub mod layout;

pub mod bits;
pub mod header;
pub mod ibsim;
pub mod in_process;
pub mod injure;
pub mod notice;
pub mod pm;
pub mod rmpp;
pub mod sa;
pub mod sa_records;
pub mod sm;
pub mod text;
pub mod transport;
#[allow(unsafe_code, reason = "the kernel's device is opened, polled and told by calls of the C library")]
pub mod umad;
pub mod values;
pub mod windowed;

pub use header::{Mad, MadHeader, Smp};
pub use layout::Layout;
pub use transport::{Address, MadTransport, Received, TransportError};
pub use values::{Gid, Guid, Lid};
