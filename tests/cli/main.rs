//! The binary: every command, its exit status, its output, and what it says when something is wrong.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)]

mod bench;
mod bench_compare;
mod bench_ends;
mod bench_hosts;
mod bench_tools;
mod builds;
mod bundle;
mod cable;
mod classic;
mod clusters;
mod commands;
mod conntest_managers;
mod diag;
mod environment;
mod examples;
mod hosts;
mod limits;
mod link;
mod misuse;
mod options;
mod paths;
mod printing;
mod query_messages;
mod report;
mod run_compare;
mod signals;
mod states;
mod tune;
mod verify;
mod verify_signals;
mod waiting;
