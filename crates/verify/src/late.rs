//! Distinguishes delays, which other work on the machine can cause, from real faults. Data that is
//! lost or changed, and links that refuse or are down, are real faults, however busy the machine
//! is.

use bench::error::BenchError;
use node_client::ClientError;
use tieline::Error;

/// Whether this means only that something had not happened in time.
pub(crate) const fn is_only_late(error: &Error) -> bool {
    matches!(error, Error::TimedOut { .. } | Error::Client(ClientError::TimedOut { .. }))
}

/// The same of a benchmark's error.
pub(crate) const fn is_only_late_there(error: &BenchError) -> bool {
    match error {
        BenchError::NoAnswer { .. } | BenchError::Silent { .. } => true,
        BenchError::Api(error) => is_only_late(error),
        _ => false,
    }
}

/// Why a part of a test did not pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Trouble {
    /// The error as text.
    pub(crate) text: String,
    /// It was only late.
    pub(crate) late: bool,
}

impl Trouble {
    /// What took too long, for tests.
    #[cfg(test)]
    pub(crate) fn late(text: impl Into<String>) -> Self {
        Self { text: text.into(), late: true }
    }

    /// With what was tried before its text.
    pub(crate) fn of(what: &str, error: Error) -> Self {
        let trouble = Self::from(error);
        Self { text: format!("{what}: {}", trouble.text), ..trouble }
    }
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Self { text: error.to_string(), late: is_only_late(&error) }
    }
}

impl From<String> for Trouble {
    fn from(text: String) -> Self {
        Self { text, late: false }
    }
}

impl From<&str> for Trouble {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_timed_out_is_late_and_what_was_wrong_is_not() {
        let timed_out = || Error::TimedOut { what: "DMA transfer".into() };
        assert!(is_only_late(&timed_out()) && is_only_late_there(&BenchError::Api(timed_out())));
        assert!(is_only_late_there(&BenchError::NoAnswer { what: "dma", seconds: 1 }));
        let trouble = Trouble::of("the interrupt did not arrive", timed_out());
        assert!(trouble.late && trouble.text.starts_with("the interrupt did not arrive: DMA transfer"));
        let failed = || Error::Failed { what: "DMA transfer".into() };
        assert!(!is_only_late(&failed()) && !is_only_late_there(&BenchError::Api(failed())));
        assert!(!is_only_late_there(&BenchError::WrongDataThere { what: "dma" }));
        assert!(!Trouble::from("byte 3 is wrong").late && Trouble::late("2 s").late);
    }
}
