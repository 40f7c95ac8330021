//! How often each operation was called, for those who want to know what a program needs: with
//! `TIELINE_FI_TRACE` set, each end point that is closed writes the counts of its process to the standard
//! error stream.

use std::fmt::Write;
use std::sync::OnceLock;

use shm::sync::{AtomicU64, Ordering};

macro_rules! operations {
    ($($op:ident $name:literal,)*) => {
        /// An operation of libfabric's interface.
        #[derive(Clone, Copy)]
        pub(crate) enum Op { $($op,)* }

        const NAMES: &[&str] = &[$($name,)*];
        static COUNTS: [AtomicU64; NAMES.len()] = [const { AtomicU64::new(0) }; NAMES.len()];
    };
}

operations! {
    Getinfo "fi_getinfo",
    Fabric "fi_fabric",
    Domain "fi_domain",
    AvOpen "fi_av_open",
    AvInsert "fi_av_insert",
    AvRemove "fi_av_remove",
    AvLookup "fi_av_lookup",
    CqOpen "fi_cq_open",
    CntrOpen "fi_cntr_open",
    EqOpen "fi_eq_open",
    PollOpen "fi_poll_open",
    WaitOpen "fi_wait_open",
    MrReg "fi_mr_reg",
    Endpoint "fi_endpoint",
    Bind "fi_ep_bind",
    Enable "fi_enable",
    Getname "fi_getname",
    Setopt "fi_setopt",
    Getopt "fi_getopt",
    Cancel "fi_cancel",
    Recv "fi_recv",
    Recvv "fi_recvv",
    Recvmsg "fi_recvmsg",
    Send "fi_send",
    Sendv "fi_sendv",
    Sendmsg "fi_sendmsg",
    Inject "fi_inject",
    Senddata "fi_senddata",
    Injectdata "fi_injectdata",
    Trecv "fi_trecv",
    Trecvv "fi_trecvv",
    Trecvmsg "fi_trecvmsg",
    Tsend "fi_tsend",
    Tsendv "fi_tsendv",
    Tsendmsg "fi_tsendmsg",
    Tinject "fi_tinject",
    Tsenddata "fi_tsenddata",
    Tinjectdata "fi_tinjectdata",
    Read "fi_read",
    Write "fi_write",
    Atomic "fi_atomic",
    CqRead "fi_cq_read",
    CqReadfrom "fi_cq_readfrom",
    CqReaderr "fi_cq_readerr",
    CqSread "fi_cq_sread",
    CqSignal "fi_cq_signal",
    Trywait "fi_trywait",
    Poll "fi_poll",
    Wait "fi_wait",
    CntrRead "fi_cntr_read",
    CntrWait "fi_cntr_wait",
    Again "(answered -FI_EAGAIN)",
    Eager "(messages through the ring)",
    Offered "(messages offered to be copied by the receiver)",
    Pulled "(messages copied by the receiver)",
    Streamed "(offered messages sent through the ring)",
    Unexpected "(messages that no receive waited for)",
    Absent "(not there: -FI_ENOSYS)",
}

fn is_on() -> bool {
    static ON: OnceLock<bool> = OnceLock::new();
    *ON.get_or_init(|| std::env::var_os("TIELINE_FI_TRACE").is_some())
}

/// Counts a call.
#[inline]
pub(crate) fn count(op: Op) {
    add(op, 1);
}

/// Counts several.
#[inline]
pub(crate) fn add(op: Op, times: u64) {
    if is_on() {
        COUNTS[op as usize].fetch_add(times, Ordering::Relaxed);
    }
}

/// Writes the counts, if that is wanted.
pub(crate) fn tell() {
    if !is_on() {
        return;
    }
    let mut text = format!("tieline-fi: process {}:", std::process::id());
    for (name, count) in NAMES.iter().zip(&COUNTS) {
        let count = count.load(Ordering::Relaxed);
        if count > 0 {
            let _ = write!(text, " {name}={count}");
        }
    }
    text.push('\n');
    // SAFETY: the pointer leads to so many bytes.
    unsafe { libc::write(libc::STDERR_FILENO, text.as_ptr().cast(), text.len()) };
}
