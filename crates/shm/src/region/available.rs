//! How much memory can still be allocated without an out-of-memory kill.
//!
//! Two things limit it: the machine (`MemAvailable` of `/proc/meminfo`) and the control groups that this
//! process lives in, each of which may be smaller than the machine. What cannot be read does not limit: the
//! kernel then has the last word.

use crate::proc_file::{self, PathBuffer};
use core::fmt::Write;

/// Memory that can be had, and what limits it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Available {
    pub(super) bytes: usize,
    pub(super) limit: &'static str,
}

const UNLIMITED: Available = Available { bytes: usize::MAX, limit: "no limit" };
const MACHINE: &str = "the machine's free memory (MemAvailable in /proc/meminfo)";
const GROUP_V2: &str = "the control group's memory.max";
const GROUP_V1: &str = "the control group's memory.limit_in_bytes";
/// The part of the free memory that is left for other processes: one in so many bytes.
const LEFT_FREE_PART: usize = 32;

/// One generation of control groups: where it is mounted and what its files are called.
struct Hierarchy {
    /// Marks its line in `/proc/self/cgroup`, between the first and the second colon.
    controllers: &'static str,
    mounts: &'static [&'static str],
    limit_file: &'static str,
    usage_file: &'static str,
    /// Lines of `memory.stat` that count pages which the kernel gives up before it kills.
    reclaimable: &'static [&'static str],
    name: &'static str,
}

const HIERARCHIES: [Hierarchy; 2] = [
    Hierarchy {
        controllers: "",
        mounts: &["/sys/fs/cgroup", "/sys/fs/cgroup/unified"],
        limit_file: "memory.max",
        usage_file: "memory.current",
        reclaimable: &["active_file", "inactive_file", "slab_reclaimable"],
        name: GROUP_V2,
    },
    Hierarchy {
        controllers: "memory",
        mounts: &["/sys/fs/cgroup/memory"],
        limit_file: "memory.limit_in_bytes",
        usage_file: "memory.usage_in_bytes",
        reclaimable: &["total_active_file", "total_inactive_file"],
        name: GROUP_V1,
    },
];

/// What can be had now.
pub(super) fn memory() -> Available {
    let mut buffer = [0; 4096];
    let machine = proc_file::read("/proc/meminfo", &mut buffer)
        .and_then(mem_available)
        .map_or(UNLIMITED, |bytes| Available { bytes: bytes - bytes / LEFT_FREE_PART, limit: MACHINE });
    let Some(groups) = proc_file::read("/proc/self/cgroup", &mut buffer) else { return machine };
    HIERARCHIES.iter().fold(machine, |least, hierarchy| match group_path(groups, hierarchy.controllers) {
        Some(path) => smaller(least, in_groups(hierarchy, path)),
        None => least,
    })
}

fn smaller(a: Available, b: Available) -> Available {
    if b.bytes < a.bytes { b } else { a }
}

/// `MemAvailable` of `/proc/meminfo`, in bytes.
fn mem_available(meminfo: &str) -> Option<usize> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<usize>().ok()?.checked_mul(1024)
}

/// The path of this process's group in the hierarchy whose controllers are named, from `/proc/self/cgroup`.
fn group_path<'a>(groups: &'a str, controllers: &str) -> Option<&'a str> {
    groups.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':');
        let (_number, named, path) = (parts.next()?, parts.next()?, parts.next()?);
        named.split(',').any(|controller| controller == controllers).then_some(path)
    })
}

/// The tightest limit of the group and all above it.
///
/// In a container the path may be the host's, of which only the tail or nothing is mounted: what does not
/// exist is skipped, and the root of the mount is always looked at.
fn in_groups(hierarchy: &Hierarchy, path: &str) -> Available {
    let mut least = UNLIMITED;
    for mount in hierarchy.mounts {
        let mut rest = path.trim_end_matches('/');
        loop {
            if let Some(bytes) = in_group(hierarchy, mount, rest) {
                least = smaller(least, Available { bytes, limit: hierarchy.name });
            }
            let Some(parent) = rest.rfind('/') else { break };
            rest = &rest[..parent];
        }
    }
    least
}

/// What one group still allows, or `None` if it does not limit.
fn in_group(hierarchy: &Hierarchy, mount: &str, path: &str) -> Option<usize> {
    let mut buffer = [0; 8192];
    let limit = number(file(mount, path, hierarchy.limit_file, &mut buffer)?)?;
    let usage = number(file(mount, path, hierarchy.usage_file, &mut buffer)?)?;
    let reclaimable = file(mount, path, "memory.stat", &mut buffer)
        .map_or(0, |stat| reclaimable(stat, hierarchy.reclaimable))
        .min(usage);
    Some(limit.saturating_sub(usage - reclaimable))
}

/// The sum of the named lines of a `memory.stat`, in bytes.
fn reclaimable(stat: &str, names: &[&str]) -> usize {
    stat.lines()
        .filter_map(|line| line.split_once(' '))
        .filter(|(name, _)| names.contains(name))
        .filter_map(|(_, value)| value.trim().parse::<usize>().ok())
        .fold(0, usize::saturating_add)
}

/// A limit or a usage in bytes; "max" is none.
fn number(text: &str) -> Option<usize> {
    text.trim().parse().ok()
}

fn file<'a>(mount: &str, path: &str, name: &str, buffer: &'a mut [u8]) -> Option<&'a str> {
    let mut full = PathBuffer::new();
    write!(full, "{mount}{path}/{name}").ok()?;
    proc_file::read(full.as_str()?, buffer)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const V1: Hierarchy = Hierarchy { mounts: &[], ..HIERARCHIES[1] };

    #[test]
    fn meminfo() {
        assert_eq!(mem_available("MemTotal: 8 kB\nMemFree: 4 kB\nMemAvailable:  6 kB\n"), Some(6144));
        for broken in ["", "MemAvailable: x kB", "MemAvailable: 6", "MemAvailable: 99999999999999999999 kB"] {
            assert_eq!(mem_available(broken), None, "{broken}");
        }
    }

    #[test]
    fn groups_of_both_generations() {
        let mixed = "9:name=systemd:/\n4:cpu,memory:/a:b/c\n0::/user.slice\n";
        assert_eq!(group_path(mixed, "memory"), Some("/a:b/c"));
        assert_eq!(group_path(mixed, ""), Some("/user.slice"));
        assert_eq!(group_path("1:cpu:/\n", "memory"), None);
        assert_eq!(group_path("nonsense\n", ""), None);
    }

    #[test]
    fn numbers_of_a_group() {
        assert_eq!(number("4096\n"), Some(4096));
        assert_eq!(number("max\n"), None);
        let stat = "anon 5\nactive_file 10\ninactive_file 20\ntotal_active_file 100\nslab_reclaimable 1\n";
        assert_eq!(reclaimable(stat, HIERARCHIES[0].reclaimable), 31);
        assert_eq!(reclaimable(stat, V1.reclaimable), 100);
    }

    /// A made-up hierarchy in a directory of its own: the tightest limit on the way up decides.
    #[test]
    fn the_tightest_group_on_the_way_up_decides() {
        let root = std::env::temp_dir().join(format!("tieline-groups-{}", std::process::id()));
        let group = |path: &str, limit: &str, usage: &str, cache: &str| {
            let directory = root.join(path);
            std::fs::create_dir_all(&directory).unwrap();
            std::fs::write(directory.join("memory.max"), limit).unwrap();
            std::fs::write(directory.join("memory.current"), usage).unwrap();
            std::fs::write(directory.join("memory.stat"), format!("inactive_file {cache}\n")).unwrap();
        };
        group("outer", "1000", "900", "300");
        group("outer/inner", "max", "800", "0");
        group("outer/inner/ours", "5000", "700", "0");
        let mount: &'static str = Box::leak(root.to_str().unwrap().to_owned().into_boxed_str());
        let hierarchy = Hierarchy { mounts: Box::leak(Box::new([mount])), ..HIERARCHIES[0] };
        let outer = Available { bytes: 400, limit: GROUP_V2 };
        assert_eq!(in_groups(&hierarchy, "/outer/inner/ours"), outer);
        assert_eq!(in_groups(&hierarchy, "/outer/inner/unmounted/below"), outer);
        assert_eq!(in_groups(&hierarchy, "/"), UNLIMITED);
        std::fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn this_machine_has_some_memory() {
        let available = memory();
        assert!(available.bytes > 1 << 20 && available.bytes < usize::MAX, "{available:?}");
    }
}
