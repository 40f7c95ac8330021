//! Selects the copy kernel for each size.

use super::classes::{CLASSES, class_end_bytes, class_of};
use super::{KernelId, RUN, Run, kernels};
use crate::cpu::{CacheSizes, Features};
use crate::sync::plain::{AtomicPtr, AtomicU8, Ordering};

/// `rep movsb` without the "fast short" feature takes long to start: not below this size, in bytes.
const SLOW_REP_FROM: usize = 2048;

/// Which kernel copies which [class of sizes](super::class_of).
///
/// Copies that are made on the spot (128 bytes at most) never ask the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    kernels: [KernelId; CLASSES],
}

/// A plan names a kernel that this processor cannot run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "this processor cannot run the copy kernel {0:?}: choose one that `shm::copy::kernels` lists as available"
)]
pub struct NotAvailable(pub KernelId);

impl Plan {
    /// The C library's `memcpy` for every size.
    pub const LIBC: Self = Self { kernels: [KernelId::Libc; CLASSES] };

    /// The plan for a processor that nothing was measured on: what is known to be good on its kind, and the C
    /// library's `memcpy` for everything else.
    ///
    /// Only processors with fast short `rep movsb` and AVX-512 (on which 64-byte moves do not lower the clock
    /// rate) get moves of their own, and only where both buffers fit into the first-level cache. A C library
    /// that knows the processor is hard to beat without measuring.
    #[must_use]
    pub fn for_cpu(has: Features, caches: CacheSizes) -> Self {
        let mut plan = Self::LIBC;
        let l1_bytes = caches.l1_data_bytes / 3;
        for class in 0..CLASSES {
            let end = class_end_bytes(class);
            plan.kernels[class] = if !cfg!(target_arch = "x86_64") {
                KernelId::Libc
            } else if has.avx512 && has.fsrm && end <= l1_bytes {
                KernelId::Avx512
            } else if has.erms && !has.fsrm && !has.avx2 && end > SLOW_REP_FROM {
                KernelId::RepMovsb
            } else {
                KernelId::Libc
            };
        }
        plan
    }

    /// The kernel for copies of `len` bytes.
    #[must_use]
    pub fn kernel_for(&self, len: usize) -> KernelId {
        self.kernels[class_of(len)]
    }

    /// The kernels by class.
    #[must_use]
    pub const fn by_class(&self) -> &[KernelId; CLASSES] {
        &self.kernels
    }

    /// A plan of these kernels, by class.
    #[must_use]
    pub const fn of_classes(kernels: [KernelId; CLASSES]) -> Self {
        Self { kernels }
    }

    /// The numbers of its kernels, by class: a form in which it can be kept.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; CLASSES] {
        self.kernels.map(|id| id as u8)
    }

    /// The plan of such numbers; `None` if one is no kernel's that this processor can run.
    #[must_use]
    pub fn from_bytes(bytes: &[u8; CLASSES]) -> Option<Self> {
        let able = kernels();
        let mut plan = Self::LIBC;
        for (id, byte) in plan.kernels.iter_mut().zip(bytes) {
            *id = able.iter().find(|kernel| kernel.available && kernel.id as u8 == *byte)?.id;
        }
        Some(plan)
    }

    /// The plan that [`copy`](fn@super::copy) follows now.
    #[must_use]
    pub fn current() -> Self {
        ensure_installed();
        let mut plan = Self::LIBC;
        for (id, number) in plan.kernels.iter_mut().zip(&NUMBER) {
            *id = id_of(number.load(Ordering::Relaxed));
        }
        plan
    }

    /// Makes [`copy`](fn@super::copy) follow this plan, in the whole process.
    ///
    /// # Errors
    /// [`NotAvailable`] if it names a kernel that this processor cannot run; the plan is then as before.
    pub fn install(&self) -> Result<(), NotAvailable> {
        let able = kernels();
        for id in self.kernels {
            if !able.iter().any(|kernel| kernel.id == id && kernel.available) {
                return Err(NotAvailable(id));
            }
        }
        // Relaxed throughout: any mixture of two plans is a right plan, because every kernel in either can be
        // run.
        for (class, id) in self.kernels.into_iter().enumerate() {
            NUMBER[class].store(id as u8, Ordering::Relaxed);
            RUN_OF_CLASS[class].store(RUN[id as usize] as *mut (), Ordering::Relaxed);
        }
        Ok(())
    }
}

/// The kernels of the plan by class; 0 stands for "no plan yet".
static NUMBER: [AtomicU8; CLASSES] = [const { AtomicU8::new(0) }; CLASSES];

/// Their functions. The first copy installs a plan.
static RUN_OF_CLASS: [AtomicPtr<()>; CLASSES] =
    [const { AtomicPtr::new(install_and_copy as *mut ()) }; CLASSES];

/// The kernel for a copy of `len` bytes.
#[inline(always)]
pub(super) fn run_for(len: usize) -> Run {
    let run = RUN_OF_CLASS[class_of(len)].load(Ordering::Relaxed);
    // SAFETY: only addresses of functions of this type are ever stored there.
    unsafe { core::mem::transmute::<*mut (), Run>(run) }
}

/// Longest copy into or out of a ring that is not left to the plan, in bytes.
pub(super) const RING_BYTES_MAX: usize = 16 << 10;

/// The kernel for copies of up to [`RING_BYTES_MAX`] bytes into or out of a ring; none before the first one.
static RUN_FOR_RING: AtomicPtr<()> = AtomicPtr::new(find_and_copy_for_ring as *mut ());

/// The kernel for copies of up to [`RING_BYTES_MAX`] bytes into or out of a ring.
#[inline(always)]
pub(super) fn run_for_ring() -> Run {
    let run = RUN_FOR_RING.load(Ordering::Relaxed);
    // SAFETY: only addresses of functions of this type are ever stored there.
    unsafe { core::mem::transmute::<*mut (), Run>(run) }
}

/// Which one that is: the widest moves of a processor that has any which do not lower its clock rate.
///
/// A plan is measured with memory that one processor has to itself. In a ring the lines of the destination
/// are shared with the other processor, and payload lies behind words that describe it, so source and
/// destination are hardly ever aligned alike. There the string move, which C libraries use from some KiB on,
/// starts late: half a round trip of 4 KiB took 1.5 times as long with it as with plain moves (AMD family
/// 25), and of no size less.
fn kernel_for_ring(has: Features) -> KernelId {
    if !cfg!(target_arch = "x86_64") {
        KernelId::Libc
    } else if has.avx512 && has.fsrm {
        KernelId::Avx512
    } else if has.avx2 {
        KernelId::Avx2
    } else {
        KernelId::Libc
    }
}

/// # Safety
/// As [`copy`](fn@super::copy).
#[cold]
unsafe fn find_and_copy_for_ring(dst: *mut u8, src: *const u8, len: usize) {
    let run = RUN[kernel_for_ring(Features::get()) as usize];
    RUN_FOR_RING.store(run as *mut (), Ordering::Relaxed);
    // SAFETY: the caller's promise; this processor can run the kernel.
    unsafe { run(dst, src, len) }
}

/// # Safety
/// As [`copy`](fn@super::copy).
#[cold]
unsafe fn install_and_copy(dst: *mut u8, src: *const u8, len: usize) {
    ensure_installed();
    let id = id_of(NUMBER[class_of(len)].load(Ordering::Relaxed));
    // SAFETY: the caller's promise; a plan names only kernels that this processor can run.
    unsafe { (RUN[id as usize])(dst, src, len) }
}

#[cold]
fn ensure_installed() {
    if NUMBER[CLASSES - 1].load(Ordering::Relaxed) == 0 {
        // It names available kernels only. Two threads that race here install the same plan; a plan that a
        // user installs at the very same moment may be overwritten, which is why it should be done before the
        // first copy.
        let _ = Plan::for_cpu(Features::get(), CacheSizes::get()).install();
    }
}

fn id_of(number: u8) -> KernelId {
    kernels().iter().find(|kernel| kernel.id as u8 == number).map_or(KernelId::Libc, |kernel| kernel.id)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const KIB: usize = 1 << 10;
    const MIB: usize = 1 << 20;

    fn caches(l1_kib: usize, l2_kib: usize, l3_mib: usize) -> CacheSizes {
        CacheSizes { l1_data_bytes: l1_kib * KIB, l2_bytes: l2_kib * KIB, last_level_bytes: l3_mib * MIB }
    }

    #[test]
    fn numbers_and_names_of_kernels_agree() {
        for kernel in kernels() {
            assert_eq!(id_of(kernel.id as u8), kernel.id);
        }
        assert_eq!(id_of(0), KernelId::Libc);
        assert_eq!(id_of(255), KernelId::Libc);
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn what_is_not_measured_is_left_to_the_c_library_but_for_what_is_known() {
        let server = Features { avx2: true, avx512: true, erms: true, fsrm: true, ..Features::default() };
        let plan = Plan::for_cpu(server, caches(48, 2048, 480));
        assert_eq!((plan.kernel_for(200), plan.kernel_for(16 * KIB)), (KernelId::Avx512, KernelId::Avx512));
        assert_eq!((plan.kernel_for(64 * KIB), plan.kernel_for(1 << 30)), (KernelId::Libc, KernelId::Libc));
        // 64-byte moves lower the clock rate of processors of that age.
        let early = Features { fsrm: false, ..server };
        assert_eq!(Plan::for_cpu(early, caches(32, 1024, 24)), Plan::LIBC);
        let old = Plan::for_cpu(Features { erms: true, ..Features::default() }, caches(32, 256, 8));
        assert_eq!((old.kernel_for(2048), old.kernel_for(4096)), (KernelId::Libc, KernelId::RepMovsb));
        assert_eq!(Plan::for_cpu(Features::default(), caches(0, 0, 0)), Plan::LIBC);
    }

    #[test]
    fn whatever_features_a_processor_lacks_its_plan_needs_none_of_them() {
        for bits in 0..16_u32 {
            let bit = |number: u32| bits >> number & 1 == 1;
            let has =
                Features { avx2: bit(0), avx512: bit(1), erms: bit(2), fsrm: bit(3), ..Features::default() };
            for caches in [caches(48, 2048, 480), caches(32, 256, 8), caches(0, 0, 0)] {
                let plan = Plan::for_cpu(has, caches);
                let able = super::super::kernels_of(has);
                let is_able = |id: &KernelId| able.iter().any(|kernel| kernel.id == *id && kernel.available);
                assert!(plan.by_class().iter().all(is_able), "{has:?}: {plan:?}");
                assert!(is_able(&kernel_for_ring(has)), "{has:?}");
                // The string move can always be run; where it is slow it is not used.
                let uses_rep = plan.by_class().contains(&KernelId::RepMovsb);
                assert!(has.erms || !uses_rep, "{has:?}: {plan:?}");
            }
        }
    }

    #[test]
    fn the_first_plan_fits_this_processor_and_can_be_replaced() {
        let first = Plan::current();
        assert_eq!(Plan::from_bytes(&first.to_bytes()), Some(first));
        Plan::LIBC.install().unwrap();
        assert_eq!(Plan::current(), Plan::LIBC);
        first.install().unwrap();
        assert_eq!(Plan::current(), first);
        for len in [129, 4096, 1 << 20, 1 << 40] {
            assert_eq!(run_for(len) as usize, RUN[first.kernel_for(len) as usize] as usize);
        }
    }

    #[test]
    fn a_kernel_that_cannot_run_is_refused_by_name() {
        assert_eq!(Plan::from_bytes(&[0; CLASSES]), None);
        let Some(missing) = kernels().into_iter().find(|kernel| !kernel.available) else {
            // This processor runs everything, so there is nothing that could be refused.
            return;
        };
        let plan = Plan::of_classes([missing.id; CLASSES]);
        assert_eq!(plan.install(), Err(NotAvailable(missing.id)));
        assert_eq!(Plan::from_bytes(&plan.to_bytes()), None);
        assert_ne!(Plan::current().kernel_for(1 << 30), missing.id);
    }
}
