//! Why a host did not do what it was to do, in words, with the next step; by what ssh says.

use crate::ssh::last_line;

/// What kind of failure it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Its name has no address.
    UnknownName,
    /// It does not answer, or there is no way to it.
    Unreachable,
    /// It answers, and no ssh server listens.
    Refused,
    /// Its key is another than the known one.
    HostKeyChanged,
    /// Its key is not known.
    HostKeyUnknown,
    /// It asks for a password, or does not accept the user's keys.
    NoLogin,
    /// The connection ended before the command did.
    Lost,
    /// The command did not end in time.
    TimedOut,
    /// The user has ended the run.
    Interrupted,
    /// ssh could not be started, or what came could not be stored.
    Here,
    /// The command ended with another status than 0.
    Status(i32),
    /// ssh failed otherwise.
    Other,
}

impl Kind {
    /// All names.
    pub const NAMES: [&'static str; 12] = [
        Self::UnknownName.name(),
        Self::Unreachable.name(),
        Self::Refused.name(),
        Self::HostKeyChanged.name(),
        Self::HostKeyUnknown.name(),
        Self::NoLogin.name(),
        Self::Lost.name(),
        Self::TimedOut.name(),
        Self::Interrupted.name(),
        Self::Here.name(),
        Self::Status(1).name(),
        Self::Other.name(),
    ];

    /// As in JSON and punch lists.
    pub const fn name(self) -> &'static str {
        match self {
            Self::UnknownName => "unknown-name",
            Self::Unreachable => "unreachable",
            Self::Refused => "refused",
            Self::HostKeyChanged => "host-key-changed",
            Self::HostKeyUnknown => "host-key-unknown",
            Self::NoLogin => "no-login",
            Self::Lost => "connection-lost",
            Self::TimedOut => "timed-out",
            Self::Interrupted => "interrupted",
            Self::Here => "local-error",
            Self::Status(_) => "exit-status",
            Self::Other => "ssh-failed",
        }
    }
}

/// A failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Its kind.
    pub kind: Kind,
    /// The cause and the next step, on one line.
    pub why: String,
}

impl Failure {
    pub(crate) fn new(kind: Kind, why: impl Into<String>) -> Self {
        Self { kind, why: why.into() }
    }
}

/// Why no command began on a host, by what ssh has printed.
pub(crate) fn not_begun(host: &str, said: &str) -> Failure {
    let has = |text: &str| said.contains(text);
    let line = last_line(said).unwrap_or_else(|| "ssh does not say why".to_owned());
    let next = |kind, why: String| Failure::new(kind, why);
    if has("REMOTE HOST IDENTIFICATION HAS CHANGED") {
        let place = offending(said).map(|place| format!(" ({place})")).unwrap_or_default();
        return next(
            Kind::HostKeyChanged,
            format!(
                "its host key is not the one in known_hosts{place}: ask its administrator why; if it was installed anew, \
                 `ssh-keygen -R {host}` forgets the old key"
            ),
        );
    }
    if has("Host key verification failed") {
        return next(
            Kind::HostKeyUnknown,
            format!("its host key is not known: run `ssh {host}` once, and compare the fingerprint"),
        );
    }
    if has("Permission denied (") {
        let asks = has("password") || has("keyboard-interactive");
        let cause = if asks {
            "it asks for a password, which is never typed here"
        } else {
            "it accepts none of your keys"
        };
        return next(Kind::NoLogin, format!("{cause}: `ssh-copy-id {host}` installs your key"));
    }
    if has("Could not resolve hostname") {
        return next(
            Kind::UnknownName,
            "its name has no address: correct the name, or add it to DNS, /etc/hosts or your ssh configuration".into(),
        );
    }
    if has("Connection refused") {
        return next(Kind::Refused, format!("no ssh server listens there ({line}): start sshd on it"));
    }
    if ["timed out", "No route to host", "Network is unreachable", "Host is down"]
        .iter()
        .any(|text| has(text))
    {
        return next(
            Kind::Unreachable,
            format!("it does not answer ({line}): is it switched on and connected?"),
        );
    }
    if [
        "Connection closed",
        "Connection reset",
        "kex_exchange_identification",
        "Broken pipe",
        "not responding",
    ]
    .iter()
    .any(|text| has(text))
    {
        return next(
            Kind::Lost,
            format!("the connection ended during the login ({line}): see sshd's log there"),
        );
    }
    next(
        Kind::Other,
        format!("no command can be run there ({line}): try `ssh {host} true`, which must print nothing"),
    )
}

/// The file and line of the known key.
fn offending(said: &str) -> Option<String> {
    let line = said.lines().find(|line| line.starts_with("Offending ") && line.contains(" key in "))?;
    Some(line.split_once(" key in ")?.1.trim().to_owned())
}

/// Why a command that had begun gave no status.
pub(crate) fn lost(said: &str) -> Failure {
    let line = last_line(said).map(|line| format!(" ({line})")).unwrap_or_default();
    Failure::new(
        Kind::Lost,
        format!(
            "the connection was lost, or its shell was killed, before the command ended{line}: see whether the host runs"
        ),
    )
}
