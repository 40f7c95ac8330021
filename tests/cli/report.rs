//! `tieline verify --report`: a page of a run and of a saved result; what cannot be written is said, early
//! where it can be.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tieline_tests::{Cluster, Watchdog};

const SAVED: &str = r#"{"schema": "tieline.verify/1", "verdict": "FAIL", "cluster": "<lab>",
    "steps": [{"name": "up", "verdict": "PASS", "detail": "all valid", "duration_s": 0.1}]}"#;

fn names(dir: &Path) -> Vec<String> {
    std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect()
}

fn verify(arguments: &[&str]) -> (i32, String, String) {
    let cluster = Cluster::empty().unwrap();
    let result = cluster.run(&[&["verify"], arguments].concat()).unwrap();
    assert_eq!(names(cluster.runtime_dir()), Vec::<String>::new());
    result
}

/// Of the page `a.html`.
pub(crate) const TITLE: &str = "Rack 7, for <R&D>";

/// Of a run with this result, whose page `a.html` lies alone in this folder. (A whole run takes half a
/// minute, so it is another test's, too.)
pub(crate) fn it_leaves_a_page_and_its_saved_result_makes_the_same(result: &str, dir: &Path) {
    let file = |name: &str| dir.join(name).to_str().unwrap().to_owned();
    let page = std::fs::read_to_string(file("a.html")).unwrap();
    assert!(page.contains("<h1>Rack 7, for &lt;R&amp;D&gt;</h1>"), "{page}");
    assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>"), "{page}");
    std::fs::write(file("a.json"), result).unwrap();
    // Its verdict is of another time: what is made now is the page.
    let (status, out, err) = verify(&["--from", &file("a.json"), "--report", &file("b.html")]);
    assert_eq!((status, out.as_str(), err.as_str()), (0, "", ""));
    assert!(std::fs::read_to_string(file("b.html")).unwrap() == page, "the same document, another page");
    assert_eq!(names(dir).len(), 3, "{:?}", names(dir));
}

#[test]
fn what_is_no_saved_result_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let [from, to] =
        ["saved.json", "page.html"].map(|name| dir.path().join(name).to_str().unwrap().to_owned());
    let (status, _, err) = verify(&["--from", &from, "--report", &to]);
    assert!(status == 2 && err.contains(&from), "{status} {err}");
    for (text, said) in [
        ("{\"schema\": \"tieline.verify/1\",", "is not JSON (EOF"),
        ("", "is not JSON"),
        ("[]", "saved.json: its schema is missing, and `tieline.verify/1` is needed"),
        (
            "{\"schema\": \"tieline.figures/1\"}",
            "saved.json: its schema is `tieline.figures/1`, and `tieline.verify/1` is needed",
        ),
        ("{\"schema\": \"tieline.verify/1\"}", "saved.json: it has no steps"),
    ] {
        std::fs::write(&from, text).unwrap();
        let (status, out, err) = verify(&["--from", &from, "--report", &to, "--json"]);
        assert!(status == 2 && err.contains(said) && err.contains("verify --json"), "{status} {err}");
        assert!(out.contains("tieline.error/1"), "{out}");
        assert_eq!(names(dir.path()), ["saved.json"]);
    }
    let longer = || std::fs::File::create(&from).unwrap().set_len((256 << 20) + 1).unwrap();
    let binary = || std::fs::write(&from, b"\x1f\x8b\x08\0").unwrap();
    for (make, said) in [(&binary as &dyn Fn(), "is not text (its byte 1 "), (&longer, "more than 268435456")]
    {
        make();
        let (status, _, err) = verify(&["--from", &from, "--report", &to]);
        assert!(status == 2 && err.contains(&from) && err.contains(said), "{status} {err}");
        assert_eq!(names(dir.path()), ["saved.json"]);
    }
    std::fs::write(&from, SAVED).unwrap();
    assert_eq!(verify(&["--from", &from]).0, 2, "without --report");
    assert_eq!(verify(&["--title", "x"]).0, 2, "without --report");
    assert_eq!(verify(&["--from", &from, "--report", &to, "--nodes", "3"]).0, 2, "with --nodes");
    assert_eq!(verify(&["--from", &from, "--report", &to]).0, 0);
    assert!(std::fs::read_to_string(&to).unwrap().contains("<title>FAIL: cluster &lt;lab&gt; "));
    assert!(std::fs::read_to_string(&to).unwrap().contains("<h1>Cluster &lt;lab&gt;</h1>"));
    assert_eq!(verify(&["--from", &from, "--report", &to, "--title", "Rack 7"]).0, 0);
    assert!(std::fs::read_to_string(&to).unwrap().contains("<h1>Rack 7</h1><p>Cluster &lt;lab&gt;</p>"));
}

#[test]
fn what_cannot_be_written_is_known_before_the_run() {
    let _watchdog = Watchdog::usual("verify --report nowhere");
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().to_str().unwrap();
    let nowhere = format!("{folder}/no/such/page.html");
    for path in [nowhere.as_str(), folder, "/proc/page.html", "/dev/full"] {
        let (status, out, err) = verify(&["--nodes", "9", "--report", path]);
        assert_eq!((status, out.as_str()), (4, ""), "{err}");
        assert!(
            err.contains("the report cannot be written to") && err.contains(path) && err.contains("--report"),
            "{err}"
        );
        // No step of the run has begun.
        assert_eq!(err.lines().count(), 1, "{err}");
    }
}

#[test]
fn what_is_no_page_is_not_replaced_and_a_page_is() {
    let _watchdog = Watchdog::usual("verify --report over another file");
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(file("saved.json"), SAVED).unwrap();
    for option in ["--report", "--bundle"] {
        let (status, out, err) = verify(&["--nodes", "9", option, &file("saved.json")]);
        assert_eq!((status, out.as_str(), err.lines().count()), (2, "", 1), "{err}");
        assert!(err.contains("saved.json exists and is not a") && err.contains(option), "{err}");
        std::os::unix::fs::symlink("nothing", file("link")).unwrap();
        let (status, _, err) = verify(&["--nodes", "9", option, &file("link")]);
        assert!(status == 4 && err.contains("symbolic link") && err.lines().count() == 1, "{status} {err}");
        std::fs::remove_file(file("link")).unwrap();
    }
    assert_eq!(std::fs::read_to_string(file("saved.json")).unwrap(), SAVED);
    for _ in 0..2 {
        assert_eq!(verify(&["--from", &file("saved.json"), "--report", &file("page.html")]).0, 0);
    }
}

/// Its page's folder goes while it runs.
fn without_its_folder(arguments: &[&str]) -> (Option<i32>, String, String) {
    let (cluster, dir) = (Cluster::empty().unwrap(), tempfile::tempdir().unwrap());
    let folder = dir.path().join("of-the-page");
    std::fs::create_dir(&folder).unwrap();
    let call = [&["verify", "--nodes", "2", "--quick"], arguments, &["--report"]].concat();
    let mut command = cluster.command(&call).unwrap();
    command.arg(folder.join("page.html")).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    // What is to be written is tried before the first node is started.
    while names(cluster.runtime_dir()).is_empty() {
        std::thread::sleep(Duration::from_millis(5));
    }
    std::fs::remove_dir_all(&folder).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn a_page_that_is_missing_after_the_run_is_in_the_status_and_the_verdict_is_printed() {
    let _watchdog = Watchdog::usual("verify --report into a folder that goes");
    let (status, out, err) = without_its_folder(&[]);
    assert_eq!(status, Some(4), "{out}{err}");
    assert!(
        out.contains("VERDICT: ")
            && err.contains("the report cannot be written to")
            && err.contains("page.html"),
        "{out}{err}"
    );
    let (status, out, _) = without_its_folder(&["--json"]);
    // One result, not two.
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert!(status == Some(4) && report["schema"] == "tieline.verify/1", "{status:?} {out}");
}

#[test]
fn an_interrupted_run_leaves_no_half_of_a_page() {
    let _watchdog = Watchdog::usual("verify --report interrupted");
    for ms in [1, 5, 20, 100, 300] {
        let (cluster, dir) = (Cluster::empty().unwrap(), tempfile::tempdir().unwrap());
        let page = dir.path().join("page.html");
        let mut command = cluster.command(&["verify", "--nodes", "5", "--report"]).unwrap();
        let mut child = command.arg(&page).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(ms));
        // It may have ended by itself, if it was quick.
        let _ = kill_process(Pid::from_child(&child), Signal::INT);
        let status = child.wait().unwrap();
        assert_eq!(names(cluster.runtime_dir()), Vec::<String>::new(), "{ms}");
        match &names(dir.path())[..] {
            [] => {}
            [name] if name == "page.html" => {
                assert!(std::fs::read_to_string(&page).unwrap().ends_with("</html>"), "{ms}: {status}");
            }
            other => panic!("{ms}: {status}: {other:?}"),
        }
    }
}
