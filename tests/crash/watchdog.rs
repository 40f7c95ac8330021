//! A watchdog that ends a test leaves nothing of it behind.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use tieline_tests::{Watchdog, leftovers};

#[test]
fn what_a_hung_test_has_started_ends_with_it_however_far_away_it_is() {
    let _watchdog = Watchdog::usual("the watchdog");
    let dir = tempfile::tempdir().unwrap();
    let directory: [PathBuf; 1] = [dir.path().to_path_buf()];
    let mut hung = Command::new(crate::PEER);
    hung.args(["parent", dir.path().to_str().unwrap()]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let hung = hung.spawn().unwrap().wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&hung.stderr);
    assert_eq!(hung.status.code(), Some(101), "{said}");
    assert!(said.contains("a test of the watchdog made no progress for 1 s"), "{said}");
    assert_eq!(String::from_utf8_lossy(&hung.stdout), "ready\n");
    // The second look: what was being started when the first was taken.
    assert_eq!(leftovers::with_directory(&directory).len(), 0, "left behind");
}
