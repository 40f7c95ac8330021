//! Selects the copy kernel for each size.

use super::{KernelId, RUN, Run, kernels, libc_memcpy};
use crate::cpu::{CacheSizes, Features};
use crate::sync::plain::{AtomicPtr, AtomicU8, AtomicUsize, Ordering};

/// Through the cache up to this size at least, whatever the second-level cache is, in bytes.
const STREAM_FROM_MIN: usize = 24 << 20;
/// `rep movsb` without the "fast short" feature takes long to start: not below this size, in bytes.
const SLOW_REP_FROM: usize = 2048;

/// Asking for the destination's lines ahead is of use above this size, in bytes.
const AHEAD_FROM: usize = 2048;

/// Which kernel copies which size: one up to `near_bytes`, one up to `far_bytes`, one above.
///
/// Copies of at most [`SHORT_BYTES_MAX`](super::SHORT_BYTES_MAX) bytes never ask the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// For sizes up to `near_bytes`, which should be those of which both buffers fit into the first-level cache.
    pub near: KernelId,
    /// Upper end of `near`, in bytes.
    pub near_bytes: usize,
    /// For sizes up to `far_bytes`.
    pub middle: KernelId,
    /// Upper end of `middle`, in bytes.
    pub far_bytes: usize,
    /// For everything larger.
    pub far: KernelId,
}

/// A plan names a kernel that this processor cannot run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "this processor cannot run the copy kernel {0:?}: choose one that `shm::copy::kernels` lists as available"
)]
pub struct NotAvailable(pub KernelId);

impl Plan {
    /// The plan for a processor with these features and caches.
    ///
    /// Through the cache as long as that can be of use: whoever reads the bytes next finds them there. Above four times
    /// the second-level cache (24 MiB at least, three quarters of the last-level cache at most) the stores go past it: they
    /// then cost one transfer to memory instead of two, and spare everybody's cached data.
    #[must_use]
    pub fn for_cpu(has: Features, caches: CacheSizes) -> Self {
        let (near, middle, far) = if !cfg!(target_arch = "x86_64") {
            (KernelId::Libc, KernelId::Libc, KernelId::Libc)
        } else if has.avx512 && has.fsrm {
            // Fast short `rep movsb` marks the processors on which 64-byte moves no longer lower the clock rate.
            (KernelId::Avx512, KernelId::Avx512Ahead, KernelId::Avx512Stream)
        } else if has.avx2 {
            (KernelId::Avx2, KernelId::Avx2Ahead, KernelId::Avx2Stream)
        } else if has.erms {
            (KernelId::Libc, KernelId::RepMovsb, KernelId::RepMovsb)
        } else {
            (KernelId::Libc, KernelId::Libc, KernelId::Libc)
        };
        // With 64 bytes a move, asking for lines ahead costs nothing where they are there already (4 KiB hot: 34.7 ns either
        // way; spread over a MiB: 185 ns instead of 209). Shorter copies would mostly ask for lines behind their end.
        let near_bytes = match middle {
            KernelId::Avx512Ahead => AHEAD_FROM,
            _ => (caches.l1_data_bytes / 3).max(SLOW_REP_FROM),
        };
        let far_bytes = (4 * caches.l2_bytes).max(STREAM_FROM_MIN).min(caches.last_level_bytes / 4 * 3);
        Self { near, near_bytes, middle, far_bytes: far_bytes.max(near_bytes), far }
    }

    /// The plan that [`copy`](fn@super::copy) follows now.
    #[must_use]
    pub fn current() -> Self {
        ensure_installed();
        Self {
            near: id_of(NEAR.load(Ordering::Relaxed)),
            near_bytes: NEAR_BYTES.load(Ordering::Relaxed),
            middle: id_of(MIDDLE.load(Ordering::Relaxed)),
            far_bytes: FAR_BYTES.load(Ordering::Relaxed),
            far: id_of(FAR.load(Ordering::Relaxed)),
        }
    }

    /// Makes [`copy`](fn@super::copy) follow this plan, in the whole process.
    ///
    /// # Errors
    /// [`NotAvailable`] if it names a kernel that this processor cannot run; the plan is then as before.
    pub fn install(&self) -> Result<(), NotAvailable> {
        let able = kernels();
        for id in [self.near, self.middle, self.far] {
            if !able.iter().any(|kernel| kernel.id == id && kernel.available) {
                return Err(NotAvailable(id));
            }
        }
        // Relaxed throughout: any mixture of two plans is a right plan, because every kernel in either can be run.
        for (id, run) in [(self.near, &NEAR_RUN), (self.middle, &MIDDLE_RUN), (self.far, &FAR_RUN)] {
            run.store(RUN[id as usize] as *mut (), Ordering::Relaxed);
        }
        NEAR.store(self.near as u8, Ordering::Relaxed);
        MIDDLE.store(self.middle as u8, Ordering::Relaxed);
        FAR.store(self.far as u8, Ordering::Relaxed);
        FAR_BYTES.store(self.far_bytes, Ordering::Relaxed);
        NEAR_BYTES.store(self.near_bytes.max(1), Ordering::Relaxed);
        Ok(())
    }
}

// 0 bytes stands for "no plan yet". The kernels are the C library's until then, which is always right.
static NEAR_BYTES: AtomicUsize = AtomicUsize::new(0);
static FAR_BYTES: AtomicUsize = AtomicUsize::new(0);
static NEAR: AtomicU8 = AtomicU8::new(KernelId::Libc as u8);
static MIDDLE: AtomicU8 = AtomicU8::new(KernelId::Libc as u8);
static FAR: AtomicU8 = AtomicU8::new(KernelId::Libc as u8);

/// The functions of the three: finding one takes a comparison or two and two loads.
static NEAR_RUN: AtomicPtr<()> = AtomicPtr::new(libc_memcpy as *mut ());
static MIDDLE_RUN: AtomicPtr<()> = AtomicPtr::new(libc_memcpy as *mut ());
static FAR_RUN: AtomicPtr<()> = AtomicPtr::new(libc_memcpy as *mut ());

/// The kernel for a copy of `len` bytes.
#[inline(always)]
pub(super) fn run_for(len: usize) -> Run {
    let near_bytes = NEAR_BYTES.load(Ordering::Relaxed);
    let run = if len <= near_bytes {
        &NEAR_RUN
    } else {
        if near_bytes == 0 {
            ensure_installed();
        }
        if len <= FAR_BYTES.load(Ordering::Relaxed) { &MIDDLE_RUN } else { &FAR_RUN }
    };
    // SAFETY: only addresses of functions of this type are ever stored there.
    unsafe { core::mem::transmute::<*mut (), Run>(run.load(Ordering::Relaxed)) }
}

#[cold]
fn ensure_installed() {
    if NEAR_BYTES.load(Ordering::Relaxed) == 0 {
        // It names available kernels only. Two threads that race here install the same plan; a plan that a user installs
        // at the very same moment may be overwritten, which is why it should be done before the first copy.
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
    fn plans_follow_features_and_caches() {
        let server = Features { avx2: true, avx512: true, erms: true, fsrm: true, ..Features::default() };
        let plan = Plan::for_cpu(server, caches(48, 2048, 480));
        assert_eq!(
            (plan.near, plan.middle, plan.far),
            (KernelId::Avx512, KernelId::Avx512Ahead, KernelId::Avx512Stream)
        );
        assert_eq!((plan.near_bytes, plan.far_bytes), (2 * KIB, 24 * MIB));

        let desktop =
            Plan::for_cpu(Features { avx2: true, erms: true, ..Features::default() }, caches(32, 256, 8));
        assert_eq!(
            (desktop.near, desktop.middle, desktop.far),
            (KernelId::Avx2, KernelId::Avx2Ahead, KernelId::Avx2Stream)
        );
        assert_eq!(desktop.far_bytes, 6 * MIB);

        // 64-byte moves lower the clock rate of processors of that age.
        let early = Plan::for_cpu(Features { fsrm: false, ..server }, caches(32, 1024, 24));
        assert_eq!(early.middle, KernelId::Avx2Ahead);
        let old = Plan::for_cpu(Features { erms: true, ..Features::default() }, caches(32, 256, 8));
        assert_eq!((old.near, old.middle), (KernelId::Libc, KernelId::RepMovsb));
        let unknown = Plan::for_cpu(Features::default(), caches(0, 0, 0));
        assert_eq!(unknown.far, KernelId::Libc);
        assert!(unknown.near_bytes <= unknown.far_bytes);
    }

    #[test]
    fn the_first_plan_fits_this_processor_and_can_be_replaced() {
        let first = Plan::current();
        let able = kernels();
        for id in [first.near, first.middle, first.far] {
            assert!(able.iter().any(|kernel| kernel.id == id && kernel.available));
        }
        let other = Plan {
            near: KernelId::Libc,
            near_bytes: 300,
            middle: KernelId::Libc,
            far_bytes: 400,
            far: KernelId::Libc,
        };
        other.install().unwrap();
        assert_eq!(Plan::current(), other);
        first.install().unwrap();
        assert_eq!(Plan::current(), first);
        let run = |id: KernelId| RUN[id as usize] as usize;
        assert_eq!(run_for(first.near_bytes) as usize, run(first.near));
        assert_eq!(run_for(first.near_bytes + 1) as usize, run(first.middle));
        assert_eq!(run_for(first.far_bytes + 1) as usize, run(first.far));
    }

    #[test]
    fn a_kernel_that_cannot_run_is_refused_by_name() {
        let Some(missing) = kernels().into_iter().find(|kernel| !kernel.available) else {
            // This processor runs everything, so there is nothing that could be refused.
            return;
        };
        let plan = Plan { far: missing.id, ..Plan::current() };
        assert_eq!(plan.install(), Err(NotAvailable(missing.id)));
        assert_ne!(Plan::current().far, missing.id);
    }
}
