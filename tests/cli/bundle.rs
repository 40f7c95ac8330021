//! `tieline verify --bundle`: an archive that common tools open, whole, with what is needed and without what
//! is secret.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;
use tieline_tests::{Cluster, Watchdog};

/// Planted wherever something may come from.
const SECRET: &str = "hunter2x9";

/// A bundle, unpacked.
struct Unpacked {
    _dir: TempDir,
    top: PathBuf,
    manifest: Value,
}

/// All files below a folder.
fn files(below: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(below).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found.sort();
    found
}

impl Unpacked {
    /// By the system's own tar; one folder comes out, and it holds what the manifest says, byte by byte.
    fn of(archive: &Path) -> Self {
        assert_eq!(fs::metadata(archive).unwrap().permissions().mode() & 0o777, 0o600);
        let dir = tempfile::tempdir().unwrap();
        let status = Command::new("tar").arg("xzf").arg(archive).arg("-C").arg(dir.path()).status().unwrap();
        assert!(status.success());
        let mut tops: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
        let top = tops.pop().unwrap();
        assert!(tops.is_empty() && top.is_dir(), "{tops:?}");
        let manifest = fs::read_to_string(top.join("MANIFEST.json")).unwrap();
        let unpacked = Self { _dir: dir, top, manifest: serde_json::from_str(&manifest).unwrap() };
        unpacked.check();
        unpacked
    }

    fn check(&self) {
        assert_eq!(self.manifest["schema"], "tieline.bundle/1");
        assert_eq!(self.manifest["folder"], self.top.file_name().unwrap().to_str().unwrap());
        let listed = self.manifest["files"].as_array().unwrap();
        let mut paths: Vec<_> =
            listed.iter().map(|file| self.top.join(file["path"].as_str().unwrap())).collect();
        paths.push(self.top.join("MANIFEST.json"));
        paths.sort();
        assert_eq!(files(&self.top), paths);
        let mut sums = String::new();
        for file in listed {
            let path = file["path"].as_str().unwrap();
            assert_eq!(self.text(path).len() as u64, file["size_bytes"].as_u64().unwrap(), "{path}");
            sums += &format!("{}  {path}\n", file["sha256"].as_str().unwrap());
        }
        let mut command = Command::new("sha256sum");
        command.args(["--check", "--strict", "--quiet"]).current_dir(&self.top);
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(sums.as_bytes()).unwrap();
        assert!(child.wait().unwrap().success());
    }

    fn text(&self, path: &str) -> String {
        fs::read_to_string(self.top.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    fn json(&self, path: &str) -> Value {
        serde_json::from_str(&self.text(path)).unwrap()
    }

    /// Why something is not there.
    fn missing(&self, what: &str) -> Option<String> {
        let all = self.manifest["missing"].as_array().unwrap();
        all.iter().find(|lack| lack["what"] == what).map(|lack| lack["why"].as_str().unwrap().to_owned())
    }

    fn holds_nowhere(&self, what: &str) {
        for file in files(&self.top) {
            assert!(!fs::read_to_string(&file).unwrap().contains(what), "`{what}` is in {}", file.display());
        }
    }
}

fn run(mut command: Command) -> (i32, String, String) {
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

fn names(dir: &Path) -> Vec<String> {
    fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect()
}

#[test]
fn a_cluster_of_its_own_is_packed_before_it_is_removed_and_without_secrets() {
    let _watchdog = Watchdog::usual("verify --bundle");
    let (cluster, dir) = (Cluster::empty().unwrap(), tempfile::tempdir().unwrap());
    let home = dir.path().join("alice");
    let config = home.join("lab.toml");
    fs::create_dir(&home).unwrap();
    let text = format!(
        "# join_token = \"{SECRET}\"\n# from https://bob:{SECRET}@host/lab.toml\n[manager]\nheartbeat_limit_ms = 7000\n"
    );
    fs::write(&config, text).unwrap();
    let archive = dir.path().join("own.tar.gz");
    let mut command = cluster.command(&["verify", "--nodes", "2", "--quick", "--bundle"]).unwrap();
    command.arg(&archive).arg("--config").arg(&config);
    command.env("HOME", &home).env("PGPASSWORD", SECRET).env("OTHER", "not tieline's");
    command.env("TIELINE_JOIN_TOKEN", SECRET).env("TIELINE_PROXY", format!("http://bob:{SECRET}@proxy:80"));
    let (status, out, err) = run(command);
    assert!(matches!(status, 0 | 1 | 3) && out.contains("VERDICT: "), "{status} {out}{err}");
    assert_eq!(names(cluster.runtime_dir()), Vec::<String>::new());
    let bundle = Unpacked::of(&archive);
    assert!(bundle.text("verify.txt").contains("VERDICT: "));
    assert_eq!(bundle.json("verify.json")["schema"], "tieline.verify/1");
    assert!(bundle.text("verify.html").starts_with("<!DOCTYPE html>"));
    assert_eq!(bundle.json("status.json")["nodes"].as_array().unwrap().len(), 2);
    assert_eq!(bundle.json("query.json")[1]["query"]["node"], 8);
    assert!(bundle.text("diag.txt").contains("TEST RESULT: *PASSED*"), "{}", bundle.text("diag.txt"));
    assert!(bundle.text("runtime-directory.txt").contains("node-8.sock"));
    assert!(bundle.json("machine/env.json")["kernel"].as_str().unwrap().len() > 2);
    for node in ["4", "8"] {
        assert!(bundle.text(&format!("nodes/{node}/manager.log")).contains("started"));
        let config = bundle.json(&format!("nodes/{node}/config.json"));
        assert_eq!(config["effective"]["manager"]["heartbeat_limit_ms"], 7000, "{config}");
        assert_eq!(config["files"][0]["path"], "~/lab.toml", "{config}");
        let process = bundle.json(&format!("nodes/{node}/process.json"));
        assert_eq!(process["variables"]["TIELINE_JOIN_TOKEN"], "[removed]");
        assert_eq!(process["variables"]["TIELINE_PROXY"], "http://[removed]@proxy:80");
    }
    assert!(bundle.text("config/1.toml").contains("heartbeat_limit_ms = 7000"));
    for secret in [SECRET, "alice", "PGPASSWORD", "not tieline's"] {
        bundle.holds_nowhere(secret);
    }
    let removed = &bundle.manifest["removed"];
    assert!(
        removed["credentials"].as_u64() > Some(2) && removed["home_paths"].as_u64() > Some(2),
        "{removed}"
    );
    assert_eq!(bundle.manifest["missing"], Value::Array(Vec::new()));
}

#[test]
fn of_a_running_cluster_what_cannot_be_had_is_named_and_the_rest_is_there() {
    let _watchdog = Watchdog::usual("verify --running --bundle");
    let (cluster, dir) = (Cluster::up(3).unwrap(), tempfile::tempdir().unwrap());
    let log = |node: u32| cluster.cluster_dir().join(format!("node-{node}.log"));
    // Longer than what is taken of it; a secret where the cut is, and one in what stays.
    let mut long = fs::OpenOptions::new().append(true).open(log(4)).unwrap();
    let line = format!("a line with password={SECRET}\n");
    long.write_all(line.repeat(60_000).as_bytes()).unwrap();
    let pid = Pid::from_raw(cluster.manager_pid(1).unwrap().try_into().unwrap()).unwrap();
    kill_process(pid, Signal::KILL).unwrap();
    fs::remove_file(log(8)).unwrap();
    fs::create_dir(log(8)).unwrap();
    let archive = dir.path().join("lab.tar.gz");
    let mut command = cluster.command(&["verify", "--health", "--json", "--bundle"]).unwrap();
    command.arg(&archive);
    let (status, out, err) = run(command);
    assert_eq!(status, 1, "{out}{err}");
    let result: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(result["verdict"], "FAIL");
    let bundle = Unpacked::of(&archive);
    assert!(bundle.text("verify.txt").contains("VERDICT: FAIL"));
    assert!(bundle.text("README.txt").contains("verdict: FAIL"));
    assert!(bundle.missing("nodes/8/process.json").unwrap().contains("does not run"));
    assert!(bundle.missing("nodes/8/manager.log").unwrap().contains("regular file"));
    assert!(bundle.json("nodes/8/config.json")["effective"].is_object());
    assert!(bundle.text("diag.txt").contains("node 8 cannot be tested"));
    assert!(bundle.text("nodes/12/manager.log").contains("started"));
    bundle.holds_nowhere(SECRET);
    let files = bundle.manifest["files"].as_array().unwrap();
    let cut = files.iter().find(|file| file["path"] == "nodes/4/manager.log").unwrap();
    assert!(cut["cut_bytes"].as_u64() > Some(500_000) && cut["size_bytes"].as_u64() < Some(1 << 20), "{cut}");
    assert!(bundle.text("nodes/4/manager.log").starts_with("a line with password=[removed]\n"));
    assert!(bundle.text("README.txt").contains("Only the end is here of:\n  nodes/4/manager.log"));
    fs::remove_dir(log(8)).unwrap();
    // It is left running.
    assert!(cluster.attach(2).is_ok());
}

#[test]
fn the_comparison_with_a_baseline_is_in_it() {
    // Two verifications, beside whatever else the machine does.
    let _watchdog = Watchdog::new("verify --baseline --bundle", Duration::from_secs(400));
    let (cluster, dir) = (Cluster::up(2).unwrap(), tempfile::tempdir().unwrap());
    let file = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (status, out, err) = run(cluster.command(&["verify", "--running", "--quick", "--json"]).unwrap());
    assert!(matches!(status, 0 | 1 | 3), "{status} {err}");
    fs::write(file("old.json"), out).unwrap();
    let (old, packed) = (file("old.json"), file("lab.tar.gz"));
    let call = ["verify", "--running", "--baseline", &old, "--bundle", &packed];
    let (status, out, err) = run(cluster.command(&call).unwrap());
    assert!(matches!(status, 0 | 1 | 3), "{status} {out}{err}");
    let bundle = Unpacked::of(Path::new(&packed));
    // All that was printed is in the bundle, the comparison too.
    let compared = out.split("\nBeside ").nth(1).unwrap();
    let text = bundle.text("verify.txt");
    let packed = text.split("\nBeside ").nth(1).unwrap();
    assert_eq!(packed.lines().count(), compared.lines().count(), "{text}");
    let document = bundle.json("verify.json");
    assert_eq!(document["baseline"]["schema"], "tieline.compare_verify/1");
    let said = format!("verdict: {}", document["verdict"].as_str().unwrap());
    assert!(bundle.text("README.txt").contains(&said), "{said}");
}

#[test]
fn a_cluster_that_does_not_come_up_is_packed_with_its_logs() {
    let _watchdog = Watchdog::usual("verify --bundle without up");
    let (cluster, dir) = (Cluster::empty().unwrap(), tempfile::tempdir().unwrap());
    let archive = dir.path().join("own.tar.gz");
    // Where the manager of node 8 wants its socket there is something else. The shell's number is that of the
    // command.
    let mut command = Command::new("sh");
    command.args([
        "-c",
        "umask 077; mkdir -p \"$TIELINE_RUNTIME_DIR/verify-$$/node-8.sock/x\"; exec \"$@\"",
        "sh",
    ]);
    command.arg(cluster.command(&[]).unwrap().get_program());
    command.args(["verify", "--nodes", "3", "--bundle"]).arg(&archive);
    cluster.set_environment(&mut command);
    let (status, out, err) = run(command);
    assert!(status == 4 && out.is_empty() && err.contains("node 8"), "{status} {out}{err}");
    let bundle = Unpacked::of(&archive);
    assert!(bundle.text("error.txt").contains("node 8"), "{}", bundle.text("error.txt"));
    assert!(bundle.text("README.txt").contains("verdict: could not run"));
    // What its manager said, and how the others were.
    assert!(
        bundle.text("nodes/8/manager.log").contains("node-8.sock"),
        "{}",
        bundle.text("nodes/8/manager.log")
    );
    assert!(bundle.text("runtime-directory.txt").contains("node-8.sock"));
    assert_eq!(names(cluster.runtime_dir()), Vec::<String>::new());
}

#[test]
fn a_run_that_could_not_be_is_packed_too() {
    let _watchdog = Watchdog::usual("verify --bundle of nothing");
    let (cluster, dir) = (Cluster::empty().unwrap(), tempfile::tempdir().unwrap());
    let archive = dir.path().join("none.tar.gz");
    let ours = cluster.command(&[]).unwrap();
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -n 40; exec \"$@\"", "sh"]).arg(ours.get_program());
    command.args(["verify", "--nodes", "9", "--bundle"]).arg(&archive);
    cluster.set_environment(&mut command);
    let (status, out, err) = run(command);
    assert!(status == 4 && out.is_empty() && err.contains("ulimit -n"), "{status} {out}{err}");
    let bundle = Unpacked::of(&archive);
    assert!(bundle.text("error.txt").contains("ulimit -n"));
    assert!(bundle.text("README.txt").contains("verdict: could not run"));
    assert!(bundle.missing("everything about nodes").unwrap().contains("not started"));
    let limits = bundle.json("machine/process.json")["limits"].to_string();
    assert!(limits.contains("Max open files            40 "), "{limits}");
    assert_eq!(names(cluster.runtime_dir()), Vec::<String>::new());
}

#[test]
fn what_cannot_be_written_is_known_before_the_run() {
    let _watchdog = Watchdog::usual("verify --bundle nowhere");
    let (cluster, dir) = (Cluster::empty().unwrap(), tempfile::tempdir().unwrap());
    let folder = dir.path().to_str().unwrap();
    for path in [format!("{folder}/no/such/b.tar.gz"), folder.to_owned(), "/proc/b.tar.gz".to_owned()] {
        let (status, out, err) = cluster.run(&["verify", "--bundle", &path]).unwrap();
        assert_eq!((status, out.as_str()), (4, ""), "{err}");
        assert!(err.contains("the bundle cannot be written to") && err.contains(&path), "{err}");
        assert!(err.contains("--bundle") && err.lines().count() == 1, "{err}");
    }
    let same = format!("{folder}/same");
    assert_eq!(cluster.run(&["verify", "--bundle", &same, "--report", &same]).unwrap().0, 2);
    let from = ["verify", "--bundle", &same, "--report", "x", "--from", "y"];
    assert_eq!(cluster.run(&from).unwrap().0, 2);
    assert_eq!(names(dir.path()), Vec::<String>::new());
}

#[test]
fn one_that_is_missing_after_the_run_is_in_the_status_and_the_verdict_is_printed() {
    let _watchdog = Watchdog::usual("verify --bundle into a folder that goes");
    let (cluster, dir) = (Cluster::empty().unwrap(), tempfile::tempdir().unwrap());
    let (page, folder) = (dir.path().join("page.html"), dir.path().join("of-the-bundle"));
    fs::create_dir(&folder).unwrap();
    let mut command = cluster.command(&["verify", "--nodes", "2", "--quick", "--json", "--bundle"]).unwrap();
    command.arg(folder.join("b.tar.gz")).arg("--report").arg(&page);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // What is to be written is tried before the first node is started.
    while names(cluster.runtime_dir()).is_empty() {
        std::thread::sleep(Duration::from_millis(5));
    }
    fs::remove_dir_all(&folder).unwrap();
    let output = child.wait_with_output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let result: Value = serde_json::from_str(&out).unwrap();
    assert!(output.status.code() == Some(4) && result["schema"] == "tieline.verify/1", "{output:?}");
    assert!(err.contains("the bundle cannot be written to") && err.contains("b.tar.gz"), "{err}");
    // What could be written is there.
    assert!(fs::read_to_string(&page).unwrap().ends_with("</html>"));
    assert_eq!(names(cluster.runtime_dir()), Vec::<String>::new());
}
