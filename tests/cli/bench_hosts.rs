//! `bench acceptance` of the link between hosts, where it cannot be measured: the reason and the next step.

use std::path::{Path, PathBuf};

use serde_json::Value;
use tieline_tests::{Cluster, Watchdog};

/// A folder with one file in it.
fn folder_with(name: &str, file: &str, text: &str) -> PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join(file);
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    folder
}

/// The reason why the only figure that was asked for is missing, in an environment.
fn reason(variable: &str, value: &Path) -> String {
    let cluster = Cluster::empty().unwrap();
    let mut command = cluster.command(&["bench", "acceptance", "--only", "ofi.put.8B", "--json"]).unwrap();
    let output = command.env(variable, value).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    // Nothing could be measured.
    assert_eq!(output.status.code(), Some(4), "{out}{err}");
    let said: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(said["figures"].as_array().unwrap().len(), 0, "{out}");
    let missing = &said["missing"][0];
    assert_eq!(missing["id"], "ofi.put.8B");
    let reason = missing["reason"].as_str().unwrap().to_owned();
    assert!(!reason.contains('\n') && err.contains(&reason), "{reason}: {err}");
    reason
}

fn has_two_processors() -> bool {
    let has = std::thread::available_parallelism().is_ok_and(|count| count.get() > 1);
    if !has {
        println!("skipped: needs two processors");
    }
    has
}

#[test]
fn without_libfabric_the_package_is_named() {
    let _watchdog = Watchdog::usual("figures without libfabric");
    if has_two_processors() {
        let said =
            reason("LD_LIBRARY_PATH", &folder_with("bench-no-libfabric", "libfabric.so.1", "no library"));
        assert!(
            said.contains("libfabric cannot be loaded") && said.contains("install the package libfabric1"),
            "{said}"
        );
    }
}

#[test]
fn without_root_the_reason_says_so() {
    let _watchdog = Watchdog::usual("figures without root");
    if !has_two_processors() {
        return;
    }
    if let Err(error) = ofi::offers(&ofi::Wanted::default()) {
        return println!("skipped: {error}");
    }
    // As the kernel answers everybody else.
    let script = "#!/bin/sh\necho 'unshare: unshare failed: Operation not permitted' >&2\nexit 1\n";
    let said = reason("PATH", &folder_with("bench-no-root", "unshare", script));
    assert!(said.contains("Operation not permitted") && said.contains("need root"), "{said}");
    let said = reason("PATH", Path::new("/nonexistent"));
    assert!(
        said.contains("`unshare` cannot be run") && said.contains("install the package util-linux"),
        "{said}"
    );
}
