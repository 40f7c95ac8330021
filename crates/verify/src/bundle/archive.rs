//! Writes the archive: one folder, files in order, nothing about the user.

use std::io::{self, Write as _};

use flate2::Compression;
use flate2::write::GzEncoder;
use tar::{EntryType, Header};

use super::shelf::Shelf;
use super::{manifest, readme};
use crate::diag::System;

/// Packs everything below the folder `top`. The same things give the same bytes.
pub(super) fn pack(mut shelf: Shelf, top: &str, verdict: &str, when: &System) -> io::Result<Vec<u8>> {
    shelf.pieces.sort_by(|a, b| a.path.cmp(&b.path));
    shelf.missing.sort_by(|a, b| a.what.cmp(&b.what));
    let readme = readme::text(&shelf, verdict, when);
    shelf.clean("README.txt", readme.into_bytes());
    // What is read first comes first.
    shelf.pieces.sort_by_key(|piece| piece.path != "README.txt");
    let manifest = manifest::of(&shelf, top, when);
    let mut tar = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::default()));
    let mut folders = vec![String::new()];
    let mut append = |path: &str, kind: EntryType, bytes: &[u8]| {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(if kind.is_dir() { 0o700 } else { 0o600 });
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(when.started_unix_s);
        header.set_size(bytes.len() as u64);
        tar.append_data(&mut header, format!("{top}/{path}"), bytes)
    };
    append("", EntryType::Directory, &[])?;
    append("MANIFEST.json", EntryType::Regular, format!("{manifest:#}\n").as_bytes())?;
    for piece in &shelf.pieces {
        let folder = piece.path.rsplit_once('/').map_or("", |(folder, _)| folder);
        if !folders.iter().any(|known| known == folder) {
            append(&format!("{folder}/"), EntryType::Directory, &[])?;
            folders.push(folder.to_owned());
        }
        append(&piece.path, EntryType::Regular, &piece.bytes)?;
    }
    let mut gzip = tar.into_inner()?;
    gzip.flush()?;
    gzip.finish()
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::super::scrub::{People, Scrubber};
    use super::*;

    fn packed() -> Vec<u8> {
        let mut shelf = Shelf::new(Scrubber::new(People::default()));
        shelf.text("nodes/4/manager.log", "started\n");
        shelf.text("verify.txt", "VERDICT: PASS\n");
        shelf.lacks("nodes/8/manager.log", "permission denied");
        let when = System { started_unix_s: 1_490_806_972, ..System::default() };
        pack(shelf, "top", "PASS", &when).unwrap()
    }

    #[test]
    fn all_lies_in_one_folder_in_order_and_nothing_tells_who_packed_it() {
        let bytes = packed();
        assert_eq!(bytes, packed(), "the same things, other bytes");
        let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(&bytes[..]));
        let mut names = Vec::new();
        for entry in archive.entries().unwrap() {
            let mut entry = entry.unwrap();
            let header = entry.header();
            assert_eq!((header.uid().unwrap(), header.gid().unwrap()), (0, 0));
            assert_eq!(header.mode().unwrap() & 0o077, 0);
            names.push(entry.path().unwrap().to_string_lossy().into_owned());
            let mut text = String::new();
            entry.read_to_string(&mut text).unwrap();
            if names.last().unwrap() == "top/README.txt" {
                assert!(text.contains("verdict: PASS") && text.contains("nodes/8/manager.log"), "{text}");
            }
        }
        let files = ["MANIFEST.json", "README.txt", "nodes/4/", "nodes/4/manager.log", "verify.txt"]
            .map(|name| format!("top/{name}"));
        assert_eq!((names[0].as_str(), &names[1..]), ("top/", &files[..]));
    }
}
