//! Collects what will be packed, removes secrets, and enforces size limits. Nothing gets into the
//! archive by another path.

use serde::Serialize;
use serde_json::Value;

use super::MAX_BYTES;
use super::scrub::{Removed, Scrubber};

/// A file of the bundle.
#[derive(Debug)]
pub(super) struct Piece {
    /// Below the top folder.
    pub(super) path: String,
    pub(super) bytes: Vec<u8>,
    pub(super) removed: Removed,
    /// Bytes of the original that come before what is here.
    pub(super) cut_bytes: u64,
}

/// Something that should be there.
#[derive(Debug, Serialize)]
pub(super) struct Missing {
    pub(super) what: String,
    pub(super) why: String,
}

/// All of it.
#[derive(Debug)]
pub(super) struct Shelf {
    scrubber: Scrubber,
    pub(super) pieces: Vec<Piece>,
    pub(super) missing: Vec<Missing>,
    size_bytes: usize,
}

impl Shelf {
    pub(super) fn new(scrubber: Scrubber) -> Self {
        Self { scrubber, pieces: Vec::new(), missing: Vec::new(), size_bytes: 0 }
    }

    /// A text, without its secrets.
    pub(super) fn text(&mut self, path: &str, text: &str) {
        self.end_of_text(path, text, 0);
    }

    /// The end of a longer text, without its secrets.
    pub(super) fn end_of_text(&mut self, path: &str, text: &str, cut_bytes: u64) {
        let mut removed = Removed::default();
        let bytes = self.scrubber.text(text, &mut removed).into_bytes();
        self.put(Piece { path: path.into(), bytes, removed, cut_bytes });
    }

    /// A document, without its secrets; gives it as it went in.
    pub(super) fn document(&mut self, path: &str, mut document: Value) -> Value {
        let mut removed = Removed::default();
        self.scrubber.document(&mut document, &mut removed);
        let bytes = format!("{document:#}\n").into_bytes();
        self.put(Piece { path: path.into(), bytes, removed, cut_bytes: 0 });
        document
    }

    /// The same of anything that has a JSON form.
    pub(super) fn report(&mut self, path: &str, report: &impl Serialize) {
        match serde_json::to_value(report) {
            Ok(document) => drop(self.document(path, document)),
            Err(error) => self.lacks(path, &error.to_string()),
        }
    }

    /// What was made from clean things alone.
    pub(super) fn clean(&mut self, path: &str, bytes: Vec<u8>) {
        self.put(Piece { path: path.into(), bytes, removed: Removed::default(), cut_bytes: 0 });
    }

    /// Something is not there, and why.
    pub(super) fn lacks(&mut self, what: &str, why: &str) {
        let clean = |text: &str| self.scrubber.text(text, &mut Removed::default());
        let missing = Missing { what: clean(what), why: clean(why) };
        self.missing.push(missing);
    }

    /// A name for a folder, in which nothing is hidden but what has to be.
    pub(super) fn plain_name(&self, name: &str) -> String {
        let clean = self.scrubber.text(name, &mut Removed::default());
        let plain = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_') { c } else { '_' };
        clean.chars().map(plain).collect()
    }

    /// Everything that was taken out.
    pub(super) fn removed(&self) -> Removed {
        let mut all = Removed::default();
        self.pieces.iter().for_each(|piece| all.add(&piece.removed));
        all
    }

    fn put(&mut self, piece: Piece) {
        if self.size_bytes + piece.bytes.len() > MAX_BYTES {
            let why = format!(
                "it has {} bytes, and the files of a bundle hold {MAX_BYTES} together at most",
                piece.bytes.len()
            );
            return self.lacks(&piece.path, &why);
        }
        self.size_bytes += piece.bytes.len();
        self.pieces.push(piece);
    }
}

#[cfg(test)]
mod tests {
    use super::super::scrub::People;
    use super::*;

    #[test]
    fn what_does_not_fit_is_named_and_the_rest_goes_in() {
        let mut shelf = Shelf::new(Scrubber::new(People::default()));
        shelf.text("a.txt", "a");
        shelf.clean("b.bin", vec![0; MAX_BYTES]);
        shelf.text("c.txt", "token=hunter2");
        let paths: Vec<_> = shelf.pieces.iter().map(|piece| piece.path.as_str()).collect();
        assert_eq!(paths, ["a.txt", "c.txt"]);
        assert_eq!(shelf.missing.len(), 1);
        assert!(shelf.missing[0].what == "b.bin" && shelf.missing[0].why.contains("20971520"));
        assert_eq!(shelf.removed().credentials, 1);
        shelf.lacks("token=hunter2", "password: hunter2");
        assert!(!format!("{:?}{:?}", shelf.missing, shelf.pieces).contains("hunter2"));
    }

    #[test]
    fn the_folder_has_a_plain_name() {
        let shelf = Shelf::new(Scrubber::new(People::default()));
        assert_eq!(shelf.plain_name("tieline-bundle-../x y-1"), "tieline-bundle-.._x_y-1");
    }
}
