//! The support bundle: one archive with the result, the nodes' logs, configuration and final state,
//! and the machine's facts. `docs/bundle.md` lists its content.
//!
//! Nothing goes in but through [`shelf`], which takes secrets out and keeps the bounds. What cannot be had is
//! named in the archive and is no failure: a bundle is made when something is wrong.
//!
//! Where to start reading: [`Bundle`], then `look`.

mod archive;
mod config;
mod listing;
mod logs;
mod look;
mod machine;
mod manifest;
mod process;
mod readme;
mod scrub;
mod shelf;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;

use crate::Target;
use crate::baseline::Judged;
use crate::capacity::CouldNotRun;
use crate::diag::System;
use crate::own::LastLook;
use crate::report;
use crate::writer::{Kind, WriteError, Writer};
use scrub::{People, Scrubber};
use shelf::Shelf;

/// Schema of the manifest.
pub const SCHEMA: &str = "tieline.bundle/1";

/// What the files of a bundle may hold together, in bytes, before they are packed.
pub const MAX_BYTES: usize = 20 << 20;

/// How every archive of gzip begins.
const GZIP: [u8; 2] = [0x1f, 0x8b];

static ARCHIVE: Kind = Kind {
    what: "bundle",
    option: "--bundle",
    size_bytes: 1 << 20,
    mode: 0o600,
    may_replace: |beginning| beginning.starts_with(&GZIP),
};

/// An archive that is being made.
#[derive(Debug)]
pub struct Bundle {
    writer: Writer,
    config: Option<PathBuf>,
    /// What was found when the cluster was examined.
    seen: Arc<Mutex<Option<Shelf>>>,
}

impl Bundle {
    /// Makes sure now that it can be written later. `config`: the configuration that was named, if any.
    pub fn prepare(path: &Path, config: Option<PathBuf>) -> Result<Self, WriteError> {
        Ok(Self { writer: Writer::prepare(&ARCHIVE, path)?, config, seen: Arc::default() })
    }

    /// For a cluster that will be gone when the result is there: examines it before that.
    pub fn last_look(&self) -> LastLook {
        let (seen, config) = (Arc::clone(&self.seen), self.config.clone());
        LastLook(Arc::new(move |target| {
            let mut shelf = Shelf::new(Scrubber::new(People::here()));
            look::at(target, config.as_deref(), &mut shelf);
            *seen.lock().unwrap_or_else(PoisonError::into_inner) = Some(shelf);
        }))
    }

    /// Packs the result, and what was found; examines the cluster now if that has not been done. `running`:
    /// the cluster that was tested, if it still runs.
    pub fn finish(
        &self,
        outcome: Result<&Judged, &CouldNotRun>,
        running: Option<&Target>,
    ) -> Result<(), WriteError> {
        if let Some(target) = running {
            (self.last_look().0)(target);
        }
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner).take();
        let mut shelf = seen.unwrap_or_else(|| {
            let mut shelf = Shelf::new(Scrubber::new(People::here()));
            shelf.lacks("everything about nodes", "the cluster was not started");
            shelf
        });
        machine::put(&mut shelf);
        let verdict = match outcome {
            Ok(result) => put_result(result, &mut shelf),
            Err(error) => {
                shelf.text("error.txt", &format!("{error}\n"));
                "could not run".to_owned()
            }
        };
        let when = System::here();
        let cluster = outcome.map_or("none", |result| result.report.cluster.as_str());
        let top = shelf.plain_name(&format!("tieline-bundle-{cluster}-{}", when.stamp()));
        let packed = archive::pack(shelf, &top, &verdict, &when);
        let bytes = packed.map_err(|source| self.writer.failed(source))?;
        self.writer.write(&bytes)
    }
}

/// The result in its three forms; gives the verdict.
fn put_result(result: &Judged, shelf: &mut Shelf) -> String {
    shelf.text("verify.txt", &result.render());
    match result.document() {
        Ok(document) => {
            let clean = shelf.document("verify.json", document);
            put_page(&clean, shelf);
        }
        Err(error) => shelf.lacks("verify.json", &error.to_string()),
    }
    result.verdict().to_string()
}

/// Made from what is clean already.
fn put_page(clean: &Value, shelf: &mut Shelf) {
    match report::render(clean) {
        Ok(page) => shelf.clean("verify.html", page.into_bytes()),
        Err(error) => shelf.lacks("verify.html", &error.to_string()),
    }
}
