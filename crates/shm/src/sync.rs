//! All atomics of the project, which loom can replace.
//!
//! Built with `--cfg loom`, the same names are loom's: every interleaving that the memory model allows is
//! then tried. Words that never take part in a protocol between threads (the copy plan, the calibrated clock)
//! use [`plain`], which is always the processor's.

#[cfg(not(loom))]
pub use core::sync::atomic::{
    AtomicBool, AtomicI64, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};
#[cfg(loom)]
pub use loom::sync::atomic::{
    AtomicBool, AtomicI64, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};

/// The processor's atomics, also under loom: for process-wide settings that are no part of a protocol.
pub mod plain {
    pub use core::sync::atomic::{
        AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, compiler_fence, fence,
    };
}

/// Tells the processor (or loom) that this is a busy wait.
#[inline]
pub fn spin_loop() {
    #[cfg(not(loom))]
    core::hint::spin_loop();
    // loom must be told to run somebody else, else a spin never ends.
    #[cfg(loom)]
    loom::thread::yield_now();
}

/// Orders a sequentially consistent read-modify-write (or store) before a later sequentially consistent load.
///
/// By the language both already take part in one total order, so natively this costs nothing. loom treats
/// sequentially consistent accesses as acquire and release only, so there the order is stated by a fence.
#[inline]
pub fn store_load_fence() {
    #[cfg(loom)]
    fence(Ordering::SeqCst);
}

pub mod futex;
