//! Records the circumstances of a run, so that its figures can be compared with others.

use std::{
    collections::BTreeMap,
    fs,
    time::{SystemTime, UNIX_EPOCH},
};

use serde::{Deserialize, Serialize};

/// The circumstances of a measurement.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Env {
    /// Name of the processor.
    pub cpu_model: String,
    /// Processors that are switched on.
    pub cpus_online: String,
    /// Processors that this process may use.
    pub cpus_allowed: String,
    /// Caches of the first processor: `L2 2048K`, ….
    pub caches: Vec<String>,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// Kernel release.
    pub kernel: String,
    /// Boot parameters.
    pub kernel_command_line: String,
    /// Defences of the kernel that cost time: `spectre_v2: …`.
    pub mitigations: Vec<String>,
    /// Whether it runs on a virtual machine, as the processor reports.
    pub virtual_machine: bool,
    /// Frequency governor, where there is one.
    pub governor: Option<String>,
    /// Transparent huge pages: `always [madvise] never`.
    pub transparent_huge_pages: Option<String>,
    /// Simultaneous multithreading, as the kernel puts it.
    pub smt: Option<String>,
    /// The clock that measured.
    pub clock: ClockRecord,
    /// Mean length of the run queue over 1, 5 and 15 minutes at the start.
    pub load: [f64; 3],
    /// Time that the host took away from all processors together during the run, in ms; `null` if
    /// unknown.
    pub steal_ms: Option<f64>,
    /// Versions: `tieline`, `libc`.
    pub versions: BTreeMap<String, String>,
    /// The program that measured: bytes and time of its file. Empty if unknown, or in an older
    /// document.
    #[serde(default)]
    pub program: String,
    /// Command line.
    pub argv: Vec<String>,
    /// Seed of orders and resampling.
    pub seed: u64,
    /// Start, in seconds since 1970.
    pub started_unix_s: u64,
    /// Length of the whole run.
    pub elapsed_s: f64,
}

/// The clock of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ClockRecord {
    /// The clock that was read: `tsc`, or the kernel's clock.
    pub source: String,
    /// The clock source of the kernel.
    pub kernel_source: String,
    /// It runs at one rate in all states of the processor.
    pub invariant: bool,
    /// Smallest difference seen between two readings.
    pub step_ns: f64,
    /// Cost of one reading.
    pub cost_ns: f64,
    /// Rate.
    pub ticks_per_ns: f64,
}

impl Env {
    /// Reads the circumstances. What the machine does not report stays empty.
    pub fn gather(clock: ClockRecord, argv: Vec<String>, seed: u64) -> Self {
        let cpuinfo = read("/proc/cpuinfo");
        let mut versions = BTreeMap::new();
        versions.insert("tieline".to_owned(), env!("CARGO_PKG_VERSION").to_owned());
        if let Some(version) = libc_version() {
            versions.insert("libc".to_owned(), version);
        }
        Self {
            cpu_model: field(&cpuinfo, "model name").unwrap_or_default().to_owned(),
            cpus_online: read("/sys/devices/system/cpu/online"),
            cpus_allowed: field(&read("/proc/self/status"), "Cpus_allowed_list")
                .unwrap_or_default()
                .to_owned(),
            caches: caches(),
            memory_bytes: memory_bytes(&read("/proc/meminfo")),
            kernel: read("/proc/sys/kernel/osrelease"),
            kernel_command_line: read("/proc/cmdline"),
            mitigations: mitigations(),
            virtual_machine: has_flag(&cpuinfo, "hypervisor"),
            governor: known("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            transparent_huge_pages: known("/sys/kernel/mm/transparent_hugepage/enabled"),
            smt: known("/sys/devices/system/cpu/smt/control"),
            clock: ClockRecord {
                kernel_source: read("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
                ..clock
            },
            load: load(&read("/proc/loadavg")),
            steal_ms: None,
            versions,
            program: program().unwrap_or_default(),
            argv,
            seed,
            started_unix_s: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
            elapsed_s: 0.0,
        }
    }
}

impl Env {
    /// Notes what is known only at the end: the duration, and how much time the host took away.
    pub fn finish(&mut self, started: std::time::Instant, steal_before_ms: Option<f64>) {
        self.elapsed_s = started.elapsed().as_secs_f64();
        self.steal_ms = steal_before_ms.zip(steal_ms()).map(|(before, after)| (after - before).max(0.0));
    }
}

/// Identifies the build; the version alone is not precise enough.
fn program() -> Option<String> {
    let file = fs::metadata("/proc/self/exe").ok()?;
    let modified = file.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    Some(format!("{} bytes of {}.{:09}", file.len(), modified.as_secs(), modified.subsec_nanos()))
}

/// Time taken by the host so far, all processors together, in ms. `None` where the kernel does not
/// count it.
pub fn steal_ms() -> Option<f64> {
    // The kernel counts in hundredths of a second for every reader (USER_HZ), whatever its own tick
    // is.
    steal_ticks(&read("/proc/stat")).map(|ticks| ticks as f64 * 10.0)
}

fn steal_ticks(stat: &str) -> Option<u64> {
    let cpu = stat.lines().find(|line| line.starts_with("cpu "))?;
    cpu.split_whitespace().nth(8)?.parse().ok()
}

/// A small system file without its line end; empty if it cannot be read.
fn read(path: &str) -> String {
    fs::read_to_string(path).map(|text| text.trim().to_owned()).unwrap_or_default()
}

fn known(path: &str) -> Option<String> {
    let text = read(path);
    (!text.is_empty()).then_some(text)
}

/// Value of the first line `name : value`.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim())
    })
}

fn has_flag(cpuinfo: &str, flag: &str) -> bool {
    field(cpuinfo, "flags").is_some_and(|flags| flags.split_whitespace().any(|f| f == flag))
}

fn memory_bytes(meminfo: &str) -> u64 {
    let kib = field(meminfo, "MemTotal")
        .and_then(|v| v.split_whitespace().next())
        .and_then(|v| v.parse::<u64>().ok());
    kib.unwrap_or(0).saturating_mul(1024)
}

fn load(loadavg: &str) -> [f64; 3] {
    let mut numbers = loadavg.split_whitespace().map(|word| word.parse().unwrap_or(0.0));
    std::array::from_fn(|_| numbers.next().unwrap_or(0.0))
}

fn caches() -> Vec<String> {
    let of =
        |index: usize, file: &str| read(&format!("/sys/devices/system/cpu/cpu0/cache/index{index}/{file}"));
    (0..8)
        .map(|index| (of(index, "level"), of(index, "type"), of(index, "size")))
        .take_while(|(level, ..)| !level.is_empty())
        .map(|(level, kind, size)| {
            let kind = match kind.as_str() {
                "Data" => "d",
                "Instruction" => "i",
                _ => "",
            };
            format!("L{level}{kind} {size}")
        })
        .collect()
}

fn mitigations() -> Vec<String> {
    let Ok(entries) = fs::read_dir("/sys/devices/system/cpu/vulnerabilities") else { return Vec::new() };
    let mut lines: Vec<String> = entries
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let name = entry.file_name().into_string().ok()?;
            let state = read(entry.path().to_str()?);
            state.starts_with("Mitigation").then(|| format!("{name}: {state}"))
        })
        .collect();
    lines.sort();
    lines
}

/// Returns the version that the C library of this process reports: rivals such as memcpy are part
/// of it.
pub fn libc_version() -> Option<String> {
    let maps = fs::read_to_string("/proc/self/maps").ok()?;
    let path = maps
        .lines()
        .filter_map(|line| line.split_whitespace().nth(5))
        .find(|path| path.contains("/libc.so"))?;
    version_in(&fs::read(path).ok()?)
}

/// glibc carries its banner as text: `… stable release version 2.36.`
fn version_in(library: &[u8]) -> Option<String> {
    const MARK: &[u8] = b"release version ";
    let at = library.windows(MARK.len()).position(|window| window == MARK)? + MARK.len();
    let digits: Vec<u8> =
        library[at..].iter().copied().take_while(|b| b.is_ascii_digit() || *b == b'.').take(16).collect();
    let version = String::from_utf8(digits).ok()?;
    let version = version.trim_end_matches('.');
    (!version.is_empty()).then(|| format!("glibc {version}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parsed() {
        let cpuinfo =
            "processor\t: 0\nmodel name\t: Some Processor @ 2 GHz\nflags\t\t: fpu hypervisor rdtscp\n";
        assert_eq!(field(cpuinfo, "model name"), Some("Some Processor @ 2 GHz"));
        assert!(has_flag(cpuinfo, "hypervisor") && !has_flag(cpuinfo, "hyper") && !has_flag("", "fpu"));
        assert_eq!(memory_bytes("MemTotal:       24684096 kB\nMemFree: 1 kB"), 24_684_096 * 1024);
        assert_eq!(load("0.10 1.20 0.05 2/87 4321"), [0.10, 1.20, 0.05]);
        assert_eq!(load(""), [0.0; 3]);
        assert_eq!(steal_ticks("cpu  10 0 20 1000 3 0 1 42 0 0\ncpu0 1 1 1 1 1 1 1 1"), Some(42));
        assert_eq!(steal_ticks("intr 5"), None);
        assert_eq!(version_in(b"..stable release version 2.36.\nCopyright"), Some("glibc 2.36".to_owned()));
        assert_eq!(version_in(b"musl"), None);
    }

    #[test]
    fn a_linux_machine_tells_something() {
        let env = Env::gather(ClockRecord::default(), vec!["tieline".into()], 9);
        assert!(!env.kernel.is_empty() && !env.cpus_allowed.is_empty() && env.memory_bytes > 0);
        assert!(env.started_unix_s > 1_600_000_000 && env.seed == 9);
        let json = serde_json::to_string(&env).unwrap();
        assert_eq!(serde_json::from_str::<Env>(&json).unwrap(), env);
    }
}
