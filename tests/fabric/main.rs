//! `tieline fabric`: real commands on small fabrics, that of our own server and those of files; faults that
//! were planted.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)]

mod faults;
mod figures;
mod files;
mod harness;
mod hostile;
mod live;
mod manage;
mod misuse;
mod routes;
mod stock;
mod watch;
mod writing;
