//! The binary: every command, its exit status, its output, and what it says when something is wrong.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)]

mod bench;
mod commands;
mod examples;
mod misuse;
mod verify;
