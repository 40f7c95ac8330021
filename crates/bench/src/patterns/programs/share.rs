//! The share of bytes that went through rings.

use std::path::Path;

use super::absent;
use crate::error::Result;

/// Bytes of entered programs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Share {
    /// All bytes, each counted at both ends of the connection.
    pub bytes: u64,
    /// Those that went past the kernel.
    pub past_kernel: u64,
}

impl Share {
    /// Adds what a statistics file has counted, by programs that run and that have ended.
    pub fn add(&mut self, path: &Path) -> Result<()> {
        let report = sockets_rules::status::report(path, true).map_err(absent)?;
        for process in &report.processes {
            self.bytes += process.moved.bytes_in + process.moved.bytes_out;
            self.past_kernel += process.bytes_past_kernel;
        }
        Ok(())
    }

    /// The share, from 0 to 1; 0 if nothing was counted.
    pub fn part(self) -> f64 {
        if self.bytes == 0 { 0.0 } else { self.past_kernel as f64 / self.bytes as f64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts() {
        assert_eq!(Share::default().part(), 0.0);
        assert_eq!(Share { bytes: 200, past_kernel: 190 }.part(), 0.95);
        let missing = Share::default().add(Path::new("/nonexistent/statistics")).unwrap_err().to_string();
        assert!(missing.contains("/nonexistent/statistics"), "{missing}");
    }
}
