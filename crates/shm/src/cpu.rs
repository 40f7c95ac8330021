//! The processor: its features, the cores that this thread may use, the current core.

use crate::{Error, Result};
use rustix::thread::CpuSet;

mod caches;
mod features;

pub use caches::CacheSizes;
pub use features::Features;

/// Tells the processor that this is a busy wait, so that it saves power and lets a sibling thread run.
#[inline]
pub fn pause() {
    crate::sync::spin_loop();
}

/// The processors on which this thread may run.
#[derive(Clone, Copy)]
pub struct AllowedCpus {
    set: CpuSet,
}

impl AllowedCpus {
    /// How many there are; at least 1.
    #[must_use]
    pub fn count(&self) -> usize {
        (self.set.count() as usize).max(1)
    }

    /// Whether `cpu` is one of them.
    #[must_use]
    pub fn contains(&self, cpu: usize) -> bool {
        cpu < CpuSet::MAX_CPU && self.set.is_set(cpu)
    }

    /// Their numbers, ascending.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        (0..CpuSet::MAX_CPU).filter(|&cpu| self.set.is_set(cpu))
    }
}

impl core::fmt::Debug for AllowedCpus {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// The processors on which this thread may run, by affinity and cpuset.
///
/// # Errors
/// [`Error::System`], on a machine with more processors than the library can name.
pub fn allowed_cpus() -> Result<AllowedCpus> {
    rustix::thread::sched_getaffinity(None)
        .map(|set| AllowedCpus { set })
        .map_err(|errno| Error::System { what: "sched_getaffinity", errno })
}

/// How many processors of this machine are online, whoever may use them; `None` where the kernel does not
/// tell.
#[must_use]
pub fn online_count() -> Option<usize> {
    let mut buffer = [0; 1024];
    list_count(crate::proc_file::read("/sys/devices/system/cpu/online", &mut buffer)?)
}

/// How many numbers a list such as `0-3,8` has.
fn list_count(list: &str) -> Option<usize> {
    list.trim().split(',').try_fold(0_usize, |sum, range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        sum.checked_add(last.checked_sub(first)?)?.checked_add(1)
    })
}

/// Restricts this thread to one processor.
///
/// # Errors
/// [`Error::CpuNotAllowed`] if there is no such processor or the cpuset forbids it.
pub fn pin_current_thread(cpu: usize) -> Result<()> {
    let not_allowed = |errno| Error::CpuNotAllowed { cpu, errno };
    if cpu >= CpuSet::MAX_CPU {
        return Err(not_allowed(rustix::io::Errno::INVAL));
    }
    let mut set = CpuSet::new();
    set.set(cpu);
    rustix::thread::sched_setaffinity(None, &set).map_err(not_allowed)
}

/// Lets this thread run on these processors again, for instance after [`pin_current_thread`].
///
/// # Errors
/// [`Error::System`].
pub fn restore_current_thread(cpus: &AllowedCpus) -> Result<()> {
    rustix::thread::sched_setaffinity(None, &cpus.set)
        .map_err(|errno| Error::System { what: "sched_setaffinity", errno })
}

/// The processor on which this thread runs at this moment. It may be another one when the call returns,
/// unless pinned.
#[must_use]
pub fn current_cpu() -> usize {
    rustix::thread::sched_getcpu()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn pinning_moves_the_thread_to_that_processor_and_can_be_undone() {
        let before = allowed_cpus().unwrap();
        assert!(before.contains(current_cpu()));
        for cpu in before.iter() {
            pin_current_thread(cpu).unwrap();
            assert_eq!(current_cpu(), cpu);
            assert_eq!(allowed_cpus().unwrap().iter().collect::<Vec<_>>(), [cpu]);
        }
        restore_current_thread(&before).unwrap();
        assert_eq!(allowed_cpus().unwrap().count(), before.count());
    }

    #[test]
    fn processors_online_are_counted_whoever_may_use_them() {
        assert_eq!(list_count("0\n"), Some(1));
        assert_eq!(list_count("0-3,8\n"), Some(5));
        for wrong in ["", "x", "3-1", "0-18446744073709551615", "0,"] {
            assert_eq!(list_count(wrong), None, "{wrong}");
        }
        let before = allowed_cpus().unwrap();
        pin_current_thread(current_cpu()).unwrap();
        assert!(online_count().is_none_or(|online| online >= before.count()));
        restore_current_thread(&before).unwrap();
    }

    #[test]
    fn a_processor_that_does_not_exist_is_an_error_that_names_it() {
        for cpu in [CpuSet::MAX_CPU - 1, CpuSet::MAX_CPU, usize::MAX] {
            let error = pin_current_thread(cpu).unwrap_err();
            assert!(matches!(error, Error::CpuNotAllowed { cpu: named, .. } if named == cpu), "{error}");
            assert!(error.to_string().contains(&format!("processor {cpu} ")), "{error}");
        }
    }
}
