//! Agents: programs that a manager runs on its host for a program of another host, and the bytes between the
//! two.
//!
//! Either side may send as many bytes as the other has given credit for, so nobody decides how much waits at
//! the other side.

use serde::{Deserialize, Serialize};

/// No message carries more bytes of an agent.
pub const AGENT_PIECE_BYTES: usize = 16 * 1024;
/// So many bytes may be under way in each direction before the receiver has passed them on. All agents of a
/// manager together stay far below what may wait for a slow host.
pub const AGENT_WINDOW_BYTES: u32 = 32 * 1024;

/// The number of an agent, as the manager that gives it out counts. Never used twice while that manager runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct AgentNo(pub u64);

/// What the requesting side says of an agent. The number is that of the manager that runs it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToAgent {
    /// Its input: 1 to [`AGENT_PIECE_BYTES`] bytes.
    Bytes(Vec<u8>),
    /// So many bytes of its output have been passed on: as many more may be sent.
    Credit(u32),
    /// Its input ends here.
    InputEnded,
    /// Nobody wants it any more: it is killed, and its end is not reported.
    Stop,
}

/// What the manager that runs an agent says of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum FromAgent {
    /// Its output: 1 to [`AGENT_PIECE_BYTES`] bytes.
    Bytes(Vec<u8>),
    /// So many bytes of its input have been passed on: as many more may be sent.
    Credit(u32),
    /// It has ended, and all of its output was sent. The last word on it.
    Ended(AgentEnd),
}

/// How an agent ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum AgentEnd {
    /// It ended by itself.
    Exited {
        /// Its exit status.
        status: i32,
    },
    /// A signal ended it.
    Killed {
        /// The signal's number.
        signal: i32,
    },
    /// Nothing more comes of it, whatever its process does.
    Lost {
        /// Why.
        why: String,
    },
}
