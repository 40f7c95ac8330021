//! A link over libfabric between two processes, on loopback and between two network namespaces: what arrives,
//! what peers and strangers can break. Without libfabric each test says that it was skipped.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod broken;
mod end;
mod strangers;
mod works;
