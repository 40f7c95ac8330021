//! The README of a bundle.

use std::fmt::Write as _;

use super::shelf::Shelf;
use crate::diag::System;

/// What each file is, by its name or its last part.
const FILES: [(&str, &str); 13] = [
    (
        "verify.txt, verify.json, verify.html",
        "the result: as a terminal shows it, as data, as a page for a browser",
    ),
    ("error.txt", "instead of these: why there is no result"),
    ("status.txt, status.json", "which nodes run and see each other, asked again at the end"),
    ("query.json", "each node's own facts"),
    ("diag.txt, diag.json", "the static test at the end, all details and counters; nothing was moved for it"),
    ("runtime-directory.txt", "names, modes and owners in the cluster's directory"),
    ("nodes/ID/manager.log", "the end of the node manager's log"),
    ("nodes/ID/config.json", "the configuration as it takes effect, and the files that it comes from"),
    (
        "nodes/ID/process.json",
        "the manager's process: command line, TIELINE_ variables, limits, control group",
    ),
    ("config/N.toml", "those files"),
    ("machine/env.json", "kernel, processor, mitigations, clock"),
    ("machine/process.json", "the process that made this: as above"),
    ("MANIFEST.json", "every file with size and SHA-256, what is cut, what is missing, what was removed"),
];

pub(super) fn text(shelf: &Shelf, verdict: &str, when: &System) -> String {
    let mut text = format!(
        "What `tieline verify --bundle` has found, tieline {}, {}\nverdict: {verdict}\n\n",
        env!("CARGO_PKG_VERSION"),
        when.date()
    );
    text.push_str("Start with verify.txt, then diag.txt and the logs of the nodes that it names.\n\n");
    for (name, what) in FILES {
        let _ = writeln!(text, "  {name}\n      {what}");
    }
    let cut: Vec<_> = shelf.pieces.iter().filter(|piece| piece.cut_bytes > 0).collect();
    if !cut.is_empty() {
        text.push_str("\nOnly the end is here of:\n");
        for piece in cut {
            let _ = writeln!(text, "  {}: {} bytes before it are left out", piece.path, piece.cut_bytes);
        }
    }
    if !shelf.missing.is_empty() {
        text.push_str("\nNot here:\n");
        for missing in &shelf.missing {
            let _ = writeln!(text, "  {}: {}", missing.what, missing.why);
        }
    }
    let removed = shelf.removed();
    let _ = writeln!(
        text,
        "\nRemoved: {} credential(s), {} private key(s), {} login(s) in addresses, each now `[removed]`; replaced: {} path(s) of \
         home directories by `~`, {} user name(s) by `user`. Host names are here. What was not looked for may be here, too: \
         read it before you pass it on.",
        removed.credentials,
        removed.private_keys,
        removed.address_logins,
        removed.home_paths,
        removed.user_names
    );
    text
}
