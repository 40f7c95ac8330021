//! The less common functions of the SISCI C API, as C programs see them: each test compiles one of `c/`, and
//! runs it on nodes of its own.

mod maps;
mod names;
mod program;
mod register;
mod share;
