//! The dynamic linker's cache, by which it finds libraries.

use std::process::{Command, Stdio};

use super::place::Place;
use crate::verbs::{found, say};

/// Only what is installed for this system, by root, changes the cache.
pub(super) fn refresh(place: &Place) {
    if !place.destdir.is_empty() || !rustix::process::geteuid().is_root() || found("ldconfig").is_none() {
        return;
    }
    let folder = format!("{}/lib64", place.prefix);
    if !is_searched(&folder) && !is_searched(&format!("{}/lib", place.prefix)) {
        say(&format!(
            "the dynamic linker does not look in {folder}: link with -Wl,-rpath,{folder} \
             (pkg-config --libs sisci says so), or set LD_LIBRARY_PATH"
        ));
    } else if !Command::new("ldconfig").status().is_ok_and(|status| status.success()) {
        say(&format!(
            "ldconfig failed; its reason stands above. Until it is run programs need LD_LIBRARY_PATH={folder}"
        ));
    }
}

/// Whether ldconfig looks for libraries in a folder.
fn is_searched(folder: &str) -> bool {
    let output = Command::new("ldconfig").args(["-v", "-N", "-X"]).stderr(Stdio::null()).output();
    let searched = output.map(|output| output.stdout).unwrap_or_default();
    let start = format!("{folder}:");
    String::from_utf8_lossy(&searched).lines().any(|line| line.starts_with(&start))
}
