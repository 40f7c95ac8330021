//! The report as its reader sees it: a real run's page in a real browser, on a screen by day and by night, in
//! a narrow window, and on paper. And proof that each of these looks can fail.
//!
//! Needs Chromium, which `./run test` installs; without it each test says that it was skipped.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)]

mod browser;
mod picture;
mod planted;
mod report;
