//! Programs that know libfabric or MPI, over what these have themselves and over tieline's provider: the same
//! results, and the provider's own counters show that the messages went through it.

mod carried;
mod fabtests;
mod mpi;

pub(super) use fabtests::FABTESTS;
pub(super) use mpi::{HPCC, IMB, NETPIPE, OPENMPI, OPENMPI_RMA, SHMEM};
