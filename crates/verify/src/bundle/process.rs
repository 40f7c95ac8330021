//! Facts about a process: command line, variables of tieline, limits, control group.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

/// Variables that are no secrets by their purpose, and that change what tieline does.
const PREFIX: &str = "TIELINE_";
/// Lines of `/proc/PID/status` that say how it is.
const STATUS: [&str; 10] = [
    "State",
    "FDSize",
    "VmPeak",
    "VmSize",
    "VmLck",
    "VmRSS",
    "Threads",
    "Cpus_allowed_list",
    "Mems_allowed_list",
    "nonvoluntary_ctxt_switches",
];
/// What of a control group limits its processes, or says that they were; of both versions of control groups.
const GROUP: [&str; 15] = [
    "cpu.cfs_period_us",
    "cpu.cfs_quota_us",
    "cpu.max",
    "cpu.shares",
    "cpu.stat",
    "cpu.weight",
    "cpuset.cpus",
    "cpuset.cpus.effective",
    "memory.current",
    "memory.events",
    "memory.failcnt",
    "memory.high",
    "memory.limit_in_bytes",
    "memory.max",
    "pids.max",
];

/// Looks at one: a number, or `self`.
pub(super) struct Process {
    of: PathBuf,
}

impl Process {
    pub(super) fn new(pid: &str) -> Self {
        Self { of: Path::new("/proc").join(pid) }
    }

    fn read(&self, name: &str) -> std::io::Result<String> {
        fs::read(self.of.join(name)).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Words between zero bytes.
    fn words(&self, name: &str) -> std::io::Result<Vec<String>> {
        let text = self.read(name)?;
        Ok(text.split('\0').filter(|word| !word.is_empty()).map(str::to_owned).collect())
    }

    pub(super) fn command_line(&self) -> std::io::Result<Vec<String>> {
        self.words("cmdline")
    }

    /// Those of tieline alone.
    pub(super) fn variables(&self) -> std::io::Result<Map<String, Value>> {
        let words = self.words("environ")?;
        let pairs = words.iter().filter_map(|word| word.split_once('='));
        let ours = pairs.filter(|(name, _)| name.starts_with(PREFIX));
        Ok(ours.map(|(name, value)| (name.to_owned(), value.into())).collect())
    }

    /// How many descriptors it may have at most.
    pub(super) fn descriptor_limit(&self) -> Option<u64> {
        let limits = self.read("limits").ok()?;
        let rest = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
        rest.split_whitespace().next()?.parse().ok()
    }

    /// All of it; what cannot be read is an `error` in its place.
    pub(super) fn describe(&self) -> Value {
        let or_error = |result: std::io::Result<Value>| {
            result.unwrap_or_else(|error| json!({ "error": error.to_string() }))
        };
        json!({
            "command_line": or_error(self.command_line().map(Value::from)),
            "variables": or_error(self.variables().map(Value::Object)),
            "open_descriptors": fs::read_dir(self.of.join("fd")).map(Iterator::count).ok(),
            "status": or_error(self.read("status").map(|text| fields(&text, &STATUS))),
            "limits": or_error(self.read("limits").map(|text| lines(&text))),
            "cgroup": or_error(self.read("cgroup").map(|text| group(&text))),
        })
    }
}

fn lines(text: &str) -> Value {
    text.lines().map(str::trim_end).collect::<Vec<_>>().into()
}

/// Those lines `name: value` that are wanted.
fn fields(text: &str, wanted: &[&str]) -> Value {
    let pairs = text.lines().filter_map(|line| line.split_once(':'));
    let wanted = pairs.filter(|(name, _)| wanted.contains(name));
    wanted.map(|(name, value)| (name.to_owned(), Value::from(value.trim()))).collect::<Map<_, _>>().into()
}

/// Where it is, and what its groups and those above them say; `text` as in `/proc/PID/cgroup`:
/// `NUMBER:CONTROLLERS:PATH`.
fn group(text: &str) -> Value {
    let mut groups = Map::new();
    for line in text.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        for path in Path::new(path.trim_start_matches('/')).ancestors() {
            let folder = Path::new("/sys/fs/cgroup").join(controllers).join(path);
            let known = said_in(&folder);
            if !known.is_empty() {
                groups.insert(folder.to_string_lossy().into_owned(), known.into());
            }
        }
    }
    json!({ "of_the_process": lines(text), "groups": groups })
}

fn said_in(folder: &Path) -> Map<String, Value> {
    let known = GROUP.iter().filter_map(|name| {
        let text = fs::read_to_string(folder.join(name)).ok()?;
        Some(((*name).to_owned(), lines(&text)))
    });
    known.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_described() {
        let process = Process::new("self");
        let described = process.describe();
        assert!(described["status"]["Threads"].is_string(), "{described:#}");
        assert!(described["limits"].as_array().unwrap().len() > 10, "{described:#}");
        assert!(described["open_descriptors"].as_u64().unwrap() > 2);
        assert!(process.descriptor_limit().unwrap() > 2);
        let variables = described["variables"].as_object().unwrap();
        assert!(variables.keys().all(|name| name.starts_with("TIELINE_")), "{described:#}");
        // One that is not there is an error in the document, and nothing worse.
        let gone = Process::new("0").describe();
        assert!(gone["command_line"]["error"].is_string() && gone["cgroup"]["error"].is_string(), "{gone:#}");
    }

    #[test]
    fn only_what_is_wanted_is_taken() {
        assert_eq!(fields("Name:\tx\nThreads:\t3\nUid: 1\n", &STATUS), json!({ "Threads": "3" }));
    }
}
