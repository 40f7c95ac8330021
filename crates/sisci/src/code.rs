//! Error codes, and the code for each error of the Rust API.

use link::LinkError;
use node_client::ClientError;
use proto::wire::program::Refusal;
use rustix::io::Errno;
use tieline::Error;

/// A `sci_error_t`.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code(pub u32);

macro_rules! codes {
    ($($name:ident = $value:literal, $text:literal;)*) => {
        impl Code {
            $(
                #[doc = concat!("`SCI_ERR_", stringify!($name), "`: ", $text, ".")]
                pub const $name: Self = Self(if $value == 0 { 0 } else { 0x4000_0000 | $value });
            )*

            /// The code in words, without the circumstances; ends with a NUL.
            pub fn text(self) -> &'static str {
                match self {
                    $(Self::$name => concat!($text, "\0"),)*
                    _ => "an error code that the SISCI API does not have\0",
                }
            }
        }

        /// Every code, with its name in the header.
        #[cfg(test)]
        pub(crate) const ALL: &[(&str, Code)] = &[$((concat!("SCI_ERR_", stringify!($name)), Code::$name)),*];
    };
}

codes! {
    OK = 0, "no error";
    BUSY = 0x900, "in use";
    FLAG_NOT_IMPLEMENTED = 0x901, "a flag is not implemented";
    ILLEGAL_FLAG = 0x902, "a flag is not allowed here";
    NOSPC = 0x904, "out of memory or table space";
    API_NOSPC = 0x905, "the API is out of memory or table space";
    HW_NOSPC = 0x906, "the hardware is out of memory or table space";
    NOT_IMPLEMENTED = 0x907, "the function is not implemented";
    ILLEGAL_ADAPTERNO = 0x908, "invalid adapter number";
    NO_SUCH_ADAPTERNO = 0x909, "there is no such adapter";
    TIMEOUT = 0x90A, "timed out";
    OUT_OF_RANGE = 0x90B, "offset and size lie outside of the segment's pages or of the map";
    NO_SUCH_SEGMENT = 0x90C, "there is no such segment or interrupt, or it is not available";
    ILLEGAL_NODEID = 0x90D, "invalid node ID";
    CONNECTION_REFUSED = 0x90E, "the connection was refused";
    SEGMENT_NOT_CONNECTED = 0x90F, "the segment is not connected";
    SIZE_ALIGNMENT = 0x910, "the size is not aligned";
    OFFSET_ALIGNMENT = 0x911, "the offset is not aligned";
    ILLEGAL_PARAMETER = 0x912, "a parameter is wrong: NULL, or a handle that is not valid";
    MAX_ENTRIES = 0x913, "the DMA queue has no room for so many entries";
    SEGMENT_NOT_PREPARED = 0x914, "the segment is not prepared for this adapter";
    ILLEGAL_ADDRESS = 0x915, "invalid address";
    ILLEGAL_OPERATION = 0x916, "the operation is not allowed now, or not on this";
    ILLEGAL_QUERY = 0x917, "there is no such query";
    SEGMENTID_USED = 0x918, "the segment id or interrupt number is in use";
    SYSTEM = 0x919, "a system call failed";
    CANCELLED = 0x91A, "the wait was cancelled";
    NOT_CONNECTED = 0x91B, "there is no connection";
    NOT_AVAILABLE = 0x91C, "not available";
    INCONSISTENT_VERSIONS = 0x91D, "library and node manager are of different versions";
    COND_INT_RACE_PROBLEM = 0x91E, "conditional interrupts raced";
    OVERFLOW = 0x91F, "the value is too large for the buffer";
    NOT_INITIALIZED = 0x920, "the library is not initialised: call SCIInitialize in this process first";
    ACCESS = 0x921, "access is not allowed";
    NOT_SUPPORTED = 0x980, "not supported";
    DEPRECATED = 0x981, "deprecated";
    SEMAPHORE_COUNT_EXCEEDED = 0x982, "too many waiters";
    IRQL_ILLEGAL = 0x983, "not allowed at this interrupt level";
    REMOTE_BUSY = 0xB00, "the remote side is in use";
    LOCAL_BUSY = 0x985, "the local side is in use";
    ALL_BUSY = 0x986, "both sides are in use";
    NO_SUCH_FDID = 0x987, "there is no such device";
    NOT_FOUND = 0x988, "not found";
    EWOULD_BLOCK = 0x989, "would have to wait";
    DMA_NOT_AVAILABLE = 0x98A, "this kind of DMA is not available";
    DMA_DISABLED = 0x98B, "this kind of DMA is switched off";
    NO_SUCH_NODEID = 0xA00, "there is no such node";
    NODE_NOT_RESPONDING = 0xA02, "the node does not respond";
    NO_REMOTE_LINK_ACCESS = 0xA04, "the link of the remote node is down";
    NO_LINK_ACCESS = 0xA05, "the link is down";
    TRANSFER_FAILED = 0xA06, "the transfer failed";
}

/// The reason of a failed call: the code that the program gets, and details for
/// [`crate::last_error`].
#[derive(Debug)]
pub struct Failure {
    /// The code that the program gets.
    pub code: Code,
    /// The details.
    pub detail: Option<String>,
}

/// The result of a call.
pub type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    /// For a connection that is being made: an object that was removed in the meantime does not
    /// exist, as if the request had come a moment later.
    pub fn of_connecting(error: impl Into<Self>) -> Self {
        let failure = error.into();
        match failure.code {
            Code::NOT_CONNECTED => Self { code: Code::NO_SUCH_SEGMENT, ..failure },
            _ => failure,
        }
    }

    /// Whether the other node cannot be reached now, but may be reachable later.
    pub fn is_away(&self) -> bool {
        matches!(self.code, Code::NODE_NOT_RESPONDING | Code::NO_LINK_ACCESS)
    }
}

impl From<Code> for Failure {
    fn from(code: Code) -> Self {
        Self { code, detail: None }
    }
}

impl Code {
    /// Adds details.
    pub fn because(self, detail: impl Into<String>) -> Failure {
        Failure { code: self, detail: Some(detail.into()) }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        code_of(&error).because(error.to_string())
    }
}

impl From<shm::Error> for Failure {
    fn from(error: shm::Error) -> Self {
        Error::from(error).into()
    }
}

/// Returns the code of an error of the Rust API.
pub fn code_of(error: &Error) -> Code {
    match error {
        Error::Client(error) => code_of_client(error),
        Error::Link(error) => match error {
            LinkError::OutOfRange { .. } => Code::OUT_OF_RANGE,
            LinkError::Misaligned { .. } => Code::OFFSET_ALIGNMENT,
            LinkError::Down { .. } | LinkError::Failed { .. } | LinkError::InDoubt { .. } => {
                Code::NO_LINK_ACCESS
            }
            LinkError::NotSupported { .. } => Code::NOT_SUPPORTED,
            LinkError::Memory(error) => code_of_memory(error),
        },
        Error::Memory(error) => code_of_memory(error),
        Error::NodeId(_) => Code::ILLEGAL_NODEID,
        Error::Lost { .. } => Code::NOT_CONNECTED,
        // Not for lack of an answer: to wait for it would be in vain.
        Error::NoDataLink { .. } => Code::NOT_AVAILABLE,
        Error::WrongState { .. } => Code::ILLEGAL_OPERATION,
        Error::Busy { .. } => Code::BUSY,
        Error::Limit { .. } | Error::Full { .. } => Code::NOSPC,
        Error::TooLong { .. } => Code::OVERFLOW,
        Error::TimedOut { .. } => Code::TIMEOUT,
        Error::Cancelled { .. } => Code::CANCELLED,
        Error::Forked { .. } => Code::NOT_INITIALIZED,
        Error::Invalid(_) => Code::ILLEGAL_PARAMETER,
        Error::Corrupt { .. } | Error::Failed { .. } => Code::TRANSFER_FAILED,
        Error::Messages(_) | Error::Thread { .. } | Error::System { .. } => Code::SYSTEM,
    }
}

fn code_of_client(error: &ClientError) -> Code {
    match error {
        ClientError::Refused(refusal) => code_of_refusal(refusal),
        ClientError::NoManager { .. } | ClientError::NoSuchNode { .. } => Code::NO_SUCH_ADAPTERNO,
        ClientError::Denied { .. } => Code::ACCESS,
        ClientError::Version { .. } => Code::INCONSISTENT_VERSIONS,
        ClientError::TimedOut { .. } => Code::NODE_NOT_RESPONDING,
        ClientError::ManagerGone { .. } => Code::NOT_AVAILABLE,
        ClientError::Forked { .. } => Code::NOT_INITIALIZED,
        ClientError::Io { errno: Errno::MFILE | Errno::NFILE, .. } => Code::NOSPC,
        _ => Code::SYSTEM,
    }
}

/// An id that is missing and one that is not open yet are the same to a program, which tries again
/// on this code alone.
fn code_of_refusal(refusal: &Refusal) -> Code {
    match refusal {
        Refusal::InUse { .. } => Code::SEGMENTID_USED,
        Refusal::NotFound { .. } | Refusal::NotAvailable { .. } | Refusal::NotShared { .. } => {
            Code::NO_SUCH_SEGMENT
        }
        Refusal::Denied { .. } => Code::ACCESS,
        Refusal::Unreachable { .. } => Code::NODE_NOT_RESPONDING,
        Refusal::NoDataLink { .. } | Refusal::NoAgents { .. } => Code::NOT_AVAILABLE,
        Refusal::Busy { .. } | Refusal::OwnerBusy { .. } => Code::BUSY,
        Refusal::Limit { .. } | Refusal::NoDescriptors { .. } => Code::NOSPC,
        Refusal::Invalid(_) => Code::ILLEGAL_PARAMETER,
        Refusal::Version { .. } => Code::INCONSISTENT_VERSIONS,
    }
}

fn code_of_memory(error: &shm::Error) -> Code {
    match error {
        shm::Error::Empty => Code::ILLEGAL_PARAMETER,
        shm::Error::OutOfRange { .. } => Code::OUT_OF_RANGE,
        shm::Error::Misaligned { .. } => Code::OFFSET_ALIGNMENT,
        shm::Error::ReadOnly => Code::ACCESS,
        shm::Error::AddressMisaligned { .. }
        | shm::Error::AddressTaken { .. }
        | shm::Error::NotAdoptable { .. } => Code::ILLEGAL_ADDRESS,
        shm::Error::TooLarge { .. }
        | shm::Error::Create { .. }
        | shm::Error::DescriptorLimit { .. }
        | shm::Error::SystemDescriptorLimit { .. }
        | shm::Error::LockLimit { .. }
        | shm::Error::System { errno: Errno::NOMEM, .. } => Code::NOSPC,
        _ => Code::SYSTEM,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_those_of_the_header_and_every_one_has_words() {
        let header = include_str!("../../../include/sisci/sisci_error.h");
        let mut found = 0;
        for line in header.lines() {
            let Some((name, value)) = line.trim().trim_end_matches(',').split_once(" = ") else { continue };
            if let Some(hex) = value.strip_prefix("0x") {
                let (_, code) = ALL.iter().find(|(known, _)| *known == name).unwrap();
                assert_eq!(code.0, u32::from_str_radix(hex, 16).unwrap(), "{name}");
                found += 1;
            }
        }
        assert_eq!(found + 1, ALL.len(), "all but SCI_ERR_OK");
        for (name, code) in ALL {
            assert!(code.text().ends_with('\0') && !code.text().contains("does not have"), "{name}");
        }
        let document = include_str!("../../../docs/sisci.md");
        for (name, code) in ALL {
            let row = format!("| `{name}` | {} |", code.text().trim_end_matches('\0'));
            assert!(document.contains(&row), "docs/sisci.md lacks: {row}");
        }
        assert!(Code(77).text().contains("does not have"));
    }
}
