//! Switched fabrics as graphs.
//!
//! What it is for: [`graph`] holds a fabric's nodes, ports and cables in compressed rows, [`build`] makes
//! well-known shapes of any size, [`read`] takes files of others, and [`mod@write`] makes them; [`recognise`]
//! finds the shape of a fabric, and [`draw`] draws it. [`text`] makes foreign names safe to print.
//! [`routing`] computes forwarding tables and checks them; [`quality`] measures them.
//!
//! What it must never do: talk to a device or to the network; guess silently about what a file means; panic
//! on a file of a stranger.
//!
//! Where to start reading: [`graph::Graph`], then [`build::fat_tree`].
#![forbid(unsafe_code)]

pub mod build;
pub mod draw;
pub mod graph;
mod leaves;
pub mod quality;
pub mod read;
pub mod recognise;
pub mod routing;
pub mod text;
pub mod write;

pub use graph::{Graph, GraphBuilder, GraphError, Kind, LinkSpec, NodeIx, NodeSpec, PortIx, Speed, Width};
pub use text::{counted, printable, printable_json, verb};
