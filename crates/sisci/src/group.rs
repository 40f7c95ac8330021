//! Groups.
mod copies;
mod trap;
mod view;
