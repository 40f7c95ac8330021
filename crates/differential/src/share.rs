//! How many of the programs' bytes went through memory, as the project's own library counts.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use sockets_rules::{ENV_STATISTICS, statistics, status};

use crate::control::Side;

/// A file in which the library's side counts. It is removed with this.
#[derive(Debug)]
pub struct Counting {
    file: PathBuf,
}

/// What was counted: of the processes that the file has room for, which are the last ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// Bytes that the programs have written and read.
    pub bytes: u64,
    /// Of those, how many the kernel never carried.
    pub through_memory: u64,
}

impl Share {
    /// In percent; of nothing, 0.
    #[must_use]
    pub fn percent(self) -> f64 {
        if self.bytes == 0 { 0.0 } else { self.through_memory as f64 * 100.0 / self.bytes as f64 }
    }
}

impl Counting {
    /// Has this side count from here on.
    ///
    /// # Errors
    /// The file cannot be made.
    pub fn begin(side: &mut Side) -> Result<Self> {
        let file = std::env::temp_dir().join(format!(
            "differential-{}-{}",
            std::process::id(),
            side.environment.len()
        ));
        statistics::create(&file, true).with_context(|| file.display().to_string())?;
        side.environment.push((ENV_STATISTICS.to_owned(), file.display().to_string()));
        Ok(Self { file })
    }

    /// What was counted until now.
    ///
    /// # Errors
    /// The file cannot be read any more.
    pub fn share(&self) -> Result<Share> {
        let report = status::report(&self.file, true).with_context(|| self.file.display().to_string())?;
        let mut share = Share { bytes: 0, through_memory: 0 };
        for process in report.processes {
            share.bytes += process.moved.bytes_in + process.moved.bytes_out;
            share.through_memory += process.bytes_past_kernel;
        }
        Ok(share)
    }
}

impl Drop for Counting {
    fn drop(&mut self) {
        // What cannot be removed is a file in a folder for such.
        let _ = std::fs::remove_file(&self.file);
    }
}
