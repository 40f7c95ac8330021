//! The exit statuses, which are the same for all commands (`docs/exit-status.md`).

use rustix::process::{Resource, getrlimit};

/// Pass, or done.
pub(crate) const PASS: u8 = 0;
/// A check failed, and there is no more of a result than that. (Otherwise this comes from the verdicts of the
/// libraries.)
pub(crate) const FAIL: u8 = 1;
/// Wrong usage or configuration.
pub(crate) const USAGE: u8 = 2;
/// It ran, and something could not be judged.
pub(crate) const INCONCLUSIVE: u8 = 3;
/// Could not run; the reason is printed.
pub(crate) const CANNOT: u8 = 4;

/// An error with the status that it ends with.
#[derive(Debug)]
pub(crate) struct Failure {
    /// One of the above.
    pub status: u8,
    /// For standard error.
    pub error: anyhow::Error,
}

impl Failure {
    /// Wrong usage or configuration.
    pub(crate) fn usage(error: impl Into<anyhow::Error>) -> Self {
        Self { status: USAGE, error: error.into() }
    }

    /// In one line: each cause once. Most errors here name their cause in their own text already.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        for cause in self.error.chain().map(ToString::to_string) {
            // The command has said what it could not do by ending; whose refusal it was helps nobody.
            let cause = cause.strip_prefix(REFUSED).map_or(cause.clone(), str::to_owned);
            if text.is_empty() {
                text = cause;
            } else if !text.contains(&cause) {
                text = format!("{text}: {cause}");
            }
        }
        let mut text = without_numbers(&text);
        if text.contains(NO_PROCESS) && !text.contains("ulimit") {
            text.push_str(
                ": this user may have no further process or thread, raise the limit with `ulimit -u`",
            );
            // A thread's stack is memory, and the system says the same of that.
            if [Resource::As, Resource::Data].into_iter().any(|of| getrlimit(of).current.is_some()) {
                text.push_str("; or this process no further memory (`ulimit -v`, `ulimit -d`)");
            }
        }
        text
    }
}

/// A text without the numbers that the language's library puts behind the system's words:
/// `No such file or directory (os error 2)`.
pub(crate) fn without_numbers(text: &str) -> String {
    const BEGINS: &str = " (os error ";
    let mut parts = text.split(BEGINS);
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.split_once(')') {
            Some((number, rest)) if number.parse::<u32>().is_ok() => plain.push_str(rest),
            _ => plain.extend([BEGINS, part]),
        }
    }
    plain
}

/// How a manager's refusal of a single request begins.
const REFUSED: &str = "request refused: ";

/// What the system says when a process or thread cannot be made; few errors can know that this is what was
/// tried.
const NO_PROCESS: &str = "Resource temporarily unavailable";

impl<E: Into<anyhow::Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        let error = error.into();
        Self { status: crate::status_of::error(&error), error }
    }
}

/// What a command comes to: its exit status.
pub(crate) type Outcome = Result<u8, Failure>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_that_the_error_names_is_not_said_twice() {
        let denied = || std::io::Error::from(std::io::ErrorKind::PermissionDenied);
        let named = node::NodeError::Io { what: "open", path: "/x".into(), source: denied() };
        assert_eq!(Failure::from(named).text(), "cannot open /x: permission denied");
        let unnamed = anyhow::Error::from(denied()).context("writing the result");
        assert_eq!(Failure::from(unnamed).text(), "writing the result: permission denied");
        let refused = proto::wire::program::Refusal::Invalid("node 4 was started without faults".into());
        assert_eq!(Failure::from(refused).text(), "node 4 was started without faults");
        let missing = std::io::Error::from_raw_os_error(2);
        assert_eq!(Failure::from(missing).text(), "No such file or directory");
        assert_eq!(
            without_numbers("a (os error 2): b (os error x): c (os error "),
            "a: b (os error x): c (os error "
        );
        let no_thread = Failure::from(std::io::Error::from_raw_os_error(11)).text();
        assert!(no_thread.contains("ulimit -u"), "{no_thread}");
    }
}
