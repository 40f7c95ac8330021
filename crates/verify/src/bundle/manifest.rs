//! The list of what a bundle contains and what was left out.

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::shelf::Shelf;
use super::{MAX_BYTES, SCHEMA};
use crate::diag::System;

pub(super) fn of(shelf: &Shelf, top: &str, when: &System) -> Value {
    let files: Vec<_> = shelf
        .pieces
        .iter()
        .map(|piece| {
            json!({
                "path": piece.path,
                "size_bytes": piece.bytes.len(),
                "sha256": hex(&Sha256::digest(&piece.bytes)),
                "cut_bytes": piece.cut_bytes,
                "removed": piece.removed,
            })
        })
        .collect();
    json!({
        "schema": SCHEMA,
        "folder": top,
        "tieline": env!("CARGO_PKG_VERSION"),
        "created_unix_s": when.started_unix_s,
        "limit_bytes": MAX_BYTES,
        "files": files,
        "missing": shelf.missing,
        "removed": shelf.removed(),
    })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_is_that_of_the_standard() {
        // FIPS 180-4, the example of one block.
        assert_eq!(
            hex(&Sha256::digest(b"abc")),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }
}
