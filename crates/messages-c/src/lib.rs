//! The C API of message queues: `libtieline_mq.so`.
//!
//! What it is for: C and C++ programs compile against `include/tieline/tieline_mq.h` and link with
//! `-ltieline_mq`. The functions are those of [`tieline::MessageQueue`], with memory that the program lends.
//!
//! What it must never do: crash because of a wrong argument other than a pointer to nowhere, let a panic out,
//! or use memory after the operation that it was lent to has ended.
//!
//! Where to start reading: [`abi`], the functions themselves; then [`queue`], what a program holds.

pub mod abi;
pub mod code;
mod fork;
mod last_error;
pub mod queue;
