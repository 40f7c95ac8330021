//! The interposers, grouped by subject; their names, arguments and results are the C library's.

mod close;
mod create;
mod data;
mod file;
mod limits;
mod message;
mod name;
mod process;
mod stream;
mod syscall;
mod variadic;
mod wait;
