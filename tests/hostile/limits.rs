//! Other users, foreign directories, limits: each a clear error.

use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::process::Command;

use tieline_tests::cluster::commands_binary;
use tieline_tests::{Cluster, Watchdog, executable};

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[test]
fn another_user_may_not_attach() {
    if !is_root() {
        println!("skipped: only root can become another user");
        return;
    }
    let _watchdog = Watchdog::usual("other user");
    let cluster = Cluster::up(1).unwrap();
    // Where it is built no other user may reach, as in a home directory.
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let program = folder.path().join("tieline-commands");
    executable::copy(&commands_binary().unwrap(), &program).unwrap();
    let mut command = Command::new(program);
    command.arg("query").current_dir("/");
    cluster.set_environment(&mut command);
    // The directory itself keeps them out; opening it must not be enough.
    for mode in [0o700, 0o755] {
        for dir in [cluster.runtime_dir().to_path_buf(), cluster.cluster_dir()] {
            std::fs::set_permissions(dir, PermissionsExt::from_mode(mode)).unwrap();
        }
        let output = command.uid(65_534).gid(65_534).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(4), "{said}");
        let words = ["may not", "ermission", "denied", "belongs to"];
        assert!(words.iter().any(|word| said.contains(word)), "{said}");
    }
}

#[test]
fn a_runtime_directory_of_somebody_else_is_not_used() {
    if !is_root() {
        println!("skipped: only root can give a directory away");
        return;
    }
    let _watchdog = Watchdog::usual("foreign directory");
    let cluster = Cluster::empty().unwrap();
    std::fs::create_dir(cluster.cluster_dir()).unwrap();
    chown(cluster.cluster_dir(), Some(65_534), Some(65_534)).unwrap();
    let (status, out, err) = cluster.run(&["up", "--nodes", "1"]).unwrap();
    assert!(status == 2 || status == 4, "{out}{err}");
    assert!(err.contains("65534") || err.contains("another user") || err.contains("belongs to"), "{err}");
    assert_eq!(std::fs::metadata(cluster.cluster_dir()).unwrap().uid(), 65_534);
}

#[test]
fn a_directory_that_others_may_write_is_not_used() {
    let _watchdog = Watchdog::usual("open directory");
    let cluster = Cluster::empty().unwrap();
    std::fs::create_dir(cluster.cluster_dir()).unwrap();
    std::fs::set_permissions(cluster.cluster_dir(), PermissionsExt::from_mode(0o777)).unwrap();
    let (status, out, err) = cluster.run(&["up", "--nodes", "1"]).unwrap();
    assert!(status == 2 || status == 4, "{out}{err}");
    assert!(err.contains("mode 0777") && err.contains("chmod 0700"), "{err}");
}
