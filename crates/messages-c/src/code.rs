//! The codes that functions return, and which error has which.

use std::fmt::Display;

use node_client::ClientError;
use proto::wire::program::Refusal;
use rustix::io::Errno;
use tieline::Error;
use tieline::messages::MessageError;

/// `enum tieline_mq_code` of the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
#[allow(missing_docs, reason = "the header has their meanings, and `text` the words")]
pub enum Code {
    Ok = 0,
    Invalid = 1,
    Truncated = 2,
    PeerGone = 3,
    PeerWrong = 4,
    NoSuchPeer = 5,
    Cancelled = 6,
    NoSuchRequest = 7,
    TimedOut = 8,
    NoResources = 9,
    NoManager = 10,
    PortInUse = 11,
    NotFound = 12,
    OtherHost = 13,
    Denied = 14,
    Busy = 15,
    System = 16,
    GroupBroken = 17,
    Mismatch = 18,
}

impl Code {
    const ALL: [(Self, &'static str); 19] = [
        (Self::Ok, "no error\0"),
        (Self::Invalid, "an argument is wrong\0"),
        (Self::Truncated, "the message was longer than the receive\0"),
        (Self::PeerGone, "the peer has ended or closed its queue\0"),
        (Self::PeerWrong, "the peer broke the protocol\0"),
        (Self::NoSuchPeer, "there is no such peer\0"),
        (Self::Cancelled, "the receive was cancelled\0"),
        (Self::NoSuchRequest, "there is no such request\0"),
        (Self::TimedOut, "the time limit was reached\0"),
        (Self::NoResources, "memory, descriptors or threads are missing\0"),
        (Self::NoManager, "no node manager can be reached\0"),
        (Self::PortInUse, "the port is in use\0"),
        (Self::NotFound, "there is no queue at that port of that node\0"),
        (Self::OtherHost, "the node is on another host, and no link for data leads there\0"),
        (Self::Denied, "the queue belongs to another user\0"),
        (Self::Busy, "in use by another call\0"),
        (Self::System, "an error of the system or of the library\0"),
        (Self::GroupBroken, "a call of this group failed, here or at another member\0"),
        (Self::Mismatch, "another member made another call\0"),
    ];

    /// The words for a code, ended by a NUL.
    #[must_use]
    pub fn text(code: i32) -> &'static str {
        let known = usize::try_from(code).ok().and_then(|at| Self::ALL.get(at));
        known.map_or("no code of tieline_mq\0", |(_, text)| text)
    }

    /// This code with its cause and the next step.
    pub(crate) fn because(self, why: impl Display) -> Failure {
        Failure { code: self, why: why.to_string() }
    }
}

/// Why a call failed.
#[derive(Debug)]
pub struct Failure {
    /// What it returns.
    pub code: Code,
    /// The object, the cause, the next step.
    pub why: String,
}

/// What a call gives.
pub type Result<T> = std::result::Result<T, Failure>;

/// The code of an operation's error.
#[must_use]
pub fn of_message(error: &MessageError) -> Code {
    match error {
        MessageError::Truncated { .. } => Code::Truncated,
        MessageError::PeerGone { .. } => Code::PeerGone,
        MessageError::PeerWrong { .. } => Code::PeerWrong,
        MessageError::NoSuchPeer { .. } => Code::NoSuchPeer,
        MessageError::Cancelled => Code::Cancelled,
        MessageError::NoSuchRequest => Code::NoSuchRequest,
        MessageError::TimedOut => Code::TimedOut,
        MessageError::Setting { .. } => Code::Invalid,
        MessageError::NotNow { .. } => Code::Busy,
        MessageError::NoWay { .. } | MessageError::NoEndpoint { .. } => Code::NoResources,
    }
}

impl From<MessageError> for Failure {
    fn from(error: MessageError) -> Self {
        of_message(&error).because(error)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        of(&error).because(error)
    }
}

impl From<collectives::Error> for Failure {
    fn from(error: collectives::Error) -> Self {
        use collectives::Error as Of;
        let code = match &error {
            Of::Gone { .. } => Code::PeerGone,
            Of::GivenUp { .. } | Of::Broken => Code::GroupBroken,
            Of::Mismatch { .. } => Code::Mismatch,
            Of::Foreign { .. } => Code::PeerWrong,
            Of::Messages { error, .. } => of_message(error),
            Of::TimedOut { .. } => Code::TimedOut,
            Of::NoRoot { .. } | Of::Length { .. } | Of::NotMember | Of::Twice { .. } => Code::Invalid,
            Of::TooMany { .. } | Of::WrongQueue => Code::Invalid,
        };
        code.because(error)
    }
}

fn of(error: &Error) -> Code {
    match error {
        Error::Messages(error) => of_message(error),
        Error::NoDataLink { .. } => Code::OtherHost,
        Error::Memory(_) | Error::Limit { .. } | Error::Thread { .. } => Code::NoResources,
        Error::NodeId(_) | Error::Invalid(_) => Code::Invalid,
        Error::Lost { .. } => Code::NotFound,
        Error::TimedOut { .. } => Code::TimedOut,
        Error::Client(error) => match error {
            ClientError::Refused(refusal) => of_refusal(refusal),
            ClientError::NoManager { .. } | ClientError::NoSuchNode { .. } => Code::NoManager,
            ClientError::ManagerGone { .. } => Code::NoManager,
            ClientError::SeveralNodes { .. } | ClientError::BadNode(_) => Code::Invalid,
            ClientError::Denied { .. } => Code::Denied,
            ClientError::TimedOut { .. } => Code::TimedOut,
            ClientError::Io { errno, .. } if is_scarce(*errno) => Code::NoResources,
            _ => Code::System,
        },
        _ => Code::System,
    }
}

/// Whether a limit of the process or of the machine is the reason.
fn is_scarce(errno: Errno) -> bool {
    matches!(errno, Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::AGAIN | Errno::NOBUFS)
}

fn of_refusal(refusal: &Refusal) -> Code {
    match refusal {
        Refusal::InUse { .. } => Code::PortInUse,
        Refusal::NotFound { .. } | Refusal::NotAvailable { .. } => Code::NotFound,
        _ => Code::System,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_code_has_its_place_and_words() {
        for (at, (code, text)) in Code::ALL.iter().enumerate() {
            assert_eq!(*code as usize, at);
            assert!(Code::text(at as i32) == *text && text.ends_with('\0'));
        }
        assert!(Code::text(19).starts_with("no code") && Code::text(-1).starts_with("no code"));
    }
}
