//! The plan of copies for this machine: measured once, by whichever node manager starts first, and kept in a
//! file.
//!
//! The file belongs to the machine, not to a cluster, so it lies in the runtime directory beside the
//! clusters' directories. As a rule it goes with the next boot, as the processors of a virtual machine may.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use node_client::copy_plan::{PlanFile, Source};
use node_client::runtime_dir::is_own_or_root;
use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::time::{ClockId, clock_gettime};
use shm::copy::{Limits, Plan, Timings, measure};
use shm::cpu::{CacheSizes, Features};

use crate::error::{NodeError, Result};

/// Longest copy that is measured where memory is short, in bytes, and where it is plentiful.
const LARGEST_BYTES: [usize; 2] = [4 << 20, Limits::DEFAULT.largest_bytes];
/// Memory that has to be free for the latter, in bytes.
const PLENTIFUL_BYTES: u64 = 4 << 30;
/// A measurement during which this process had less of its processor than that is not kept.
const OWN_SHARE: f64 = 0.9;
/// Before a measurement is begun, this process has to have its processor for so long.
const PROBE: Duration = Duration::from_millis(10);
/// A machine that was busy is tried again after so long: all managers of a cluster start at once.
const BUSY_FOR: Duration = Duration::from_secs(60);
/// How long to wait for another process that measures.
const OTHER_MEASURES_LIMIT: Duration = Duration::from_secs(3);
const PAUSE: Duration = Duration::from_millis(10);

/// What was measured of this machine.
#[derive(Debug, Clone)]
pub struct Measured {
    /// Times of all kernels.
    pub timings: Timings,
    /// What follows from them.
    pub plan: Plan,
    /// How long it took.
    pub took: Duration,
    /// The share of that time for which this process had a processor.
    pub own_share: f64,
}

impl Measured {
    /// Whether the plan may be kept: nothing else had this processor meanwhile.
    pub fn is_undisturbed(&self) -> bool {
        self.own_share >= OWN_SHARE
    }
}

/// Where the plan in use comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// `TIELINE_COPY_PLAN`.
    Environment(Source),
    /// Measured on this machine; the file that holds it.
    Measured(PathBuf),
    /// Not measured, or not on this machine as it is: what is known of processors of its kind.
    Table,
}

/// The file with the plan, in a runtime directory.
pub fn path(root: &Path) -> PathBuf {
    root.join("copy-plan")
}

/// The plan that node managers in a runtime directory start with now, without measuring.
///
/// # Errors
/// What the environment names is no plan.
pub fn known(root: &Path) -> Result<(Plan, Origin)> {
    if let Some(source) = Source::of_environment() {
        return Ok((source.plan()?, Origin::Environment(source)));
    }
    let path = path(root);
    if let Some(plan) = of_this_machine(&path) {
        return Ok((plan, Origin::Measured(path)));
    }
    Ok((Source::Table.plan()?, Origin::Table))
}

/// The same, measured first if that has not happened on this machine. One process measures; others wait for
/// it.
///
/// # Errors
/// What the environment names is no plan. That nothing can be measured is none.
pub fn at_start(root: &Path) -> Result<Plan> {
    match known(root)? {
        (plan, Origin::Table) => match first_measurement(root) {
            Ok(Some(measured)) => Ok(measured),
            Ok(None) => {
                tracing::info!(
                    "the machine was busy while its copies were measured: the plan for its kind of processor is used"
                );
                Ok(plan)
            }
            Err(error) => {
                tracing::warn!(
                    "copies are not measured ({error}): the plan for this kind of processor is used"
                );
                Ok(plan)
            }
        },
        (plan, _) => Ok(plan),
    }
}

/// Measures under the lock, unless another process has done so meanwhile. `None`: the machine was busy.
fn first_measurement(root: &Path) -> Result<Option<Plan>> {
    let path = path(root);
    let mut lock = locked(&path)?;
    if let Some(plan) = of_this_machine(&path) {
        return Ok(Some(plan));
    }
    if was_busy_lately(&lock) {
        return Ok(None);
    }
    if has_its_processor() {
        let measured = measure_now()?;
        if measured.is_undisturbed() {
            keep(&path, &measured.plan)?;
            return Ok(Some(measured.plan));
        }
    }
    // The file's time is the time of the attempt; if it cannot be written, the next manager tries again.
    let _ = lock.write_all(b"b");
    Ok(None)
}

/// Whether a process that held this lock found the machine busy a moment ago.
fn was_busy_lately(lock: &File) -> bool {
    let Ok(there) = lock.metadata() else { return false };
    there.len() > 0 && there.modified().is_ok_and(|at| at.elapsed().is_ok_and(|since| since < BUSY_FOR))
}

/// Whether this thread gets all of a processor now.
fn has_its_processor() -> bool {
    let (start, own_start) = (Instant::now(), own_time());
    while start.elapsed() < PROBE {
        std::hint::spin_loop();
    }
    let own = own_time().saturating_sub(own_start);
    own.as_secs_f64() >= start.elapsed().as_secs_f64() * OWN_SHARE
}

/// Measures, and keeps the plan if nothing disturbed it. Returns whether it was kept.
///
/// # Errors
/// There is no memory for it, or the file cannot be written.
pub fn renew(root: &Path) -> Result<(Measured, bool)> {
    let path = path(root);
    let _lock = locked(&path)?;
    let measured = measure_now()?;
    let kept = measured.is_undisturbed();
    if kept {
        keep(&path, &measured.plan)?;
    }
    Ok((measured, kept))
}

fn measure_now() -> Result<Measured> {
    // Calibrated before time counts.
    let _ = shm::clock::Clock::global();
    let plentiful = free_memory_bytes().is_some_and(|bytes| bytes >= PLENTIFUL_BYTES);
    let largest_bytes = LARGEST_BYTES[usize::from(plentiful)];
    let (start, own_start) = (Instant::now(), own_time());
    let timings = measure(Limits { largest_bytes, ..Limits::DEFAULT }).map_err(NodeError::Measure)?;
    let (took, own) = (start.elapsed(), own_time().saturating_sub(own_start));
    let own_share = own.as_secs_f64() / took.as_secs_f64().max(1e-9);
    Ok(Measured { plan: timings.plan(), timings, took, own_share })
}

/// Processor time of this thread.
fn own_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.try_into().unwrap_or(0), time.tv_nsec.try_into().unwrap_or(0))
}

/// Another user's word on it counts nothing.
fn of_this_machine(path: &Path) -> Option<Plan> {
    if !std::fs::symlink_metadata(path).is_ok_and(|there| there.is_file() && is_own_or_root(there.uid())) {
        return None;
    }
    let file = PlanFile::read(path).ok()?;
    (file.machine == machine()).then_some(file.plan)
}

fn keep(path: &Path, plan: &Plan) -> Result<()> {
    let text = PlanFile { machine: machine(), plan: *plan }.to_text();
    let new = path.with_extension("new");
    let write = || {
        // Under the lock: what lies there was left by a process that was killed. A new file, as a link would
        // lead elsewhere.
        let _ = std::fs::remove_file(&new);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o644).open(&new)?;
        file.write_all(text.as_bytes())?;
        std::fs::rename(&new, path)
    };
    write().map_err(|source| {
        let _ = std::fs::remove_file(&new);
        NodeError::Io { what: "write", path: path.into(), source }
    })
}

/// The lock under which one process measures. One that is stuck does not hold up others forever: then two
/// measure.
fn locked(path: &Path) -> Result<File> {
    let path = path.with_extension("lock");
    let failed = |source: std::io::Error| {
        let next = match source.kind() {
            ErrorKind::PermissionDenied => {
                ": run it as the owner of that directory, or name your own with --runtime-dir"
            }
            _ => "",
        };
        let source = std::io::Error::new(source.kind(), format!("{source}{next}"));
        NodeError::Io { what: "lock", path: path.clone(), source }
    };
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false).mode(0o600);
    let file = options.custom_flags(OFlags::NOFOLLOW.bits().cast_signed()).open(&path).map_err(failed)?;
    let start = Instant::now();
    while let Err(errno) = flock(&file, FlockOperation::NonBlockingLockExclusive) {
        if errno != rustix::io::Errno::WOULDBLOCK {
            return Err(failed(errno.into()));
        }
        if start.elapsed() >= OTHER_MEASURES_LIMIT {
            break;
        }
        std::thread::sleep(PAUSE);
    }
    Ok(file)
}

/// What a measurement holds for: the processor with its microcode and caches, the kernel, the hypervisor.
pub fn machine() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    describe(&info, &rustix::system::uname().release().to_string_lossy(), CacheSizes::get(), Features::get())
}

fn describe(cpuinfo: &str, kernel: &str, caches: CacheSizes, has: Features) -> String {
    let field = |name: &str| {
        let value = cpuinfo.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            (key.trim() == name).then(|| value.trim().to_owned())
        });
        value.unwrap_or_else(|| "?".to_owned())
    };
    let text = format!(
        "{} {} family {} model {} stepping {} microcode {}, caches {}/{}/{} bytes, kernel {kernel}, {}",
        field("vendor_id"),
        field("model name"),
        field("cpu family"),
        field("model"),
        field("stepping"),
        field("microcode"),
        caches.l1_data_bytes,
        caches.l2_bytes,
        caches.last_level_bytes,
        if has.hypervisor { "virtual" } else { "real" },
    );
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// What this process can have without anything being swapped or killed: by the system, and by its control
/// group.
fn free_memory_bytes() -> Option<u64> {
    let info = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = info.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kilobytes: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    Some((kilobytes << 10).min(free_in_group_bytes().unwrap_or(u64::MAX)))
}

/// Of this process's control group (version 2), if that has a limit.
fn free_in_group_bytes() -> Option<u64> {
    let groups = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    let group = groups.lines().find_map(|line| line.strip_prefix("0::/"))?.to_owned();
    let number = |name: &str| -> Option<u64> {
        let path = Path::new("/sys/fs/cgroup").join(&group).join(name);
        std::fs::read_to_string(path).ok()?.trim().parse().ok()
    };
    Some(number("memory.max")?.saturating_sub(number("memory.current")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CACHES: CacheSizes = CacheSizes { l1_data_bytes: 1, l2_bytes: 2, last_level_bytes: 3 };

    #[test]
    fn another_processor_microcode_or_kernel_is_another_machine() {
        let info = "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmicrocode\t: 0x1\n\nprocessor\t: 1\n";
        let has = Features::default();
        let one = describe(info, "6.1", CACHES, has);
        assert!(one.contains("GenuineIntel") && one.contains("microcode 0x1,"), "{one}");
        for other in [
            describe(&info.replace("0x1", "0x2"), "6.1", CACHES, has),
            describe(info, "6.2", CACHES, has),
            describe(info, "6.1", CacheSizes { l2_bytes: 4, ..CACHES }, has),
            describe(info, "6.1", CACHES, Features { hypervisor: true, ..has }),
        ] {
            assert_ne!(one, other);
        }
        assert_eq!(describe(info, "6.1", CACHES, has), one);
        assert!(!describe("model name : a\u{7}b", "6.1", CACHES, has).contains('\u{7}'));
    }

    #[test]
    fn a_plan_is_kept_for_this_machine_only() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("copy-plan");
        assert_eq!(of_this_machine(&path), None);
        keep(&path, &Plan::LIBC).unwrap();
        assert_eq!(of_this_machine(&path), Some(Plan::LIBC));
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, text.replace("\nmachine ", "\nmachine other ")).unwrap();
        assert_eq!(of_this_machine(&path), None);
        std::fs::write(&path, "").unwrap();
        assert_eq!(of_this_machine(&path), None);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_machine_that_was_busy_is_left_alone_for_a_while() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("copy-plan");
        let mut lock = locked(&path).unwrap();
        assert!(!was_busy_lately(&lock));
        lock.write_all(b"b").unwrap();
        assert!(was_busy_lately(&lock));
        let long_ago = std::time::SystemTime::now() - 2 * BUSY_FOR;
        lock.set_modified(long_ago).unwrap();
        assert!(!was_busy_lately(&lock));
    }

    #[test]
    fn what_cannot_be_written_is_named() {
        let error = keep(Path::new("/nonexistent/copy-plan"), &Plan::LIBC).unwrap_err().to_string();
        assert!(error.contains("/nonexistent/copy-plan"), "{error}");
    }
}
