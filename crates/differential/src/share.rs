//! The share of the programs' bytes that went through memory, by the sockets library's count.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use sockets_rules::{ENV_STATISTICS, statistics, status};

use crate::control::Side;

/// A file in which the library's side counts. It is removed with this.
#[derive(Debug)]
pub struct Counting {
    file: PathBuf,
}

/// Bytes that were written, of the processes that the file has room for, which are the last ones.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Share {
    /// All.
    pub bytes: u64,
    /// Of those, how many the kernel never carried.
    pub through_memory: u64,
    /// How many were put into a ring, and given to the kernel then.
    pub handed_back: u64,
    /// How many were given to the kernel beside a ring, because their reader slept.
    pub reader_slept: u64,
}

impl Share {
    /// Of what was written while its reader did not sleep, how much was put into rings, in percent; of
    /// nothing, 0.
    #[must_use]
    pub fn percent_while_awake(self) -> f64 {
        let awake = self.bytes.saturating_sub(self.reader_slept);
        let into_rings = self.through_memory + self.handed_back;
        if awake == 0 { 0.0 } else { into_rings as f64 * 100.0 / awake as f64 }
    }
}

impl std::fmt::Display for Share {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { bytes, through_memory, handed_back, reader_slept } = self;
        let percent = self.percent_while_awake();
        write!(
            formatter,
            "{bytes} bytes written, {through_memory} through memory, {handed_back} handed back, {reader_slept} while the reader slept: of the \
             others {percent:.1} % into rings"
        )
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
        let mut share = Share::default();
        for process in report.processes {
            let of = |what| process.through_kernel.iter().filter(move |it| it.what == what);
            share.bytes += process.moved.bytes_out;
            share.through_memory += process.through_memory.bytes_out;
            share.handed_back += of(status::HANDED_BACK).map(|it| it.moved.bytes_out).sum::<u64>();
            share.reader_slept += of(status::READER_SLEPT).map(|it| it.moved.bytes_out).sum::<u64>();
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
