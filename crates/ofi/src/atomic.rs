//! Atomic operations that the owner of memory carries out for a peer.

use shm::region::Region;
use shm::sync::Ordering;

use crate::message::{AtomicOp, Width};

/// An atomic operation on memory of this side, by the processor: also atomic against this side's own.
pub(crate) fn carry_out(region: &Region, offset: u64, width: Width, op: AtomicOp) -> Option<u64> {
    let (window, offset) = (region.window(), usize::try_from(offset).ok()?);
    let order = Ordering::SeqCst;
    match width {
        Width::Four => {
            let word = window.atomic_u32(offset).ok()?;
            let was = match op {
                AtomicOp::FetchAdd { add } => word.fetch_add(add as u32, order),
                AtomicOp::Swap { new } => word.swap(new as u32, order),
                AtomicOp::CompareSwap { expected, new } => {
                    let (Ok(was) | Err(was)) =
                        word.compare_exchange(expected as u32, new as u32, order, order);
                    was
                }
            };
            Some(u64::from(was))
        }
        Width::Eight => {
            let word = window.atomic_u64(offset).ok()?;
            Some(match op {
                AtomicOp::FetchAdd { add } => word.fetch_add(add, order),
                AtomicOp::Swap { new } => word.swap(new, order),
                AtomicOp::CompareSwap { expected, new } => {
                    let (Ok(was) | Err(was)) = word.compare_exchange(expected, new, order, order);
                    was
                }
            })
        }
    }
}
