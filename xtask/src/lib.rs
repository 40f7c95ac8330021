//! Developer commands: the project's rules as checks that fail.
//!
//! What it is for: `tidy` checks the text of the tree, `licences` what the dependencies may be used under,
//! and `doc-commands` runs what the documentation tells a reader to type.
//!
//! `run` is what `./run` does once it has found Rust ([`verbs`]), `test` runs all tests. `figures` and
//! `picture` make what the documents show from real runs, `modules` the list of modules from doc comments.
//!
//! What it must never do: change anything in the tree but what a command names, or be needed by a crate that
//! users get.
//!
//! Where to start reading: [`tidy::check`] and the list of rules in it; [`doc_commands`] for the format of
//! the documentation's examples.
#![forbid(unsafe_code)]

pub mod doc_commands;
pub mod figures;
pub mod finding;
pub mod licences;
pub mod markdown;
pub mod modules;
pub mod picture;
pub mod run_tests;
pub mod rust;
pub mod surface;
pub mod tidy;
pub mod tree;
pub mod verbs;
