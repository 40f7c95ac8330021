//! A connection that is reset behind an end.

use Op::{Close, ReadToEnd, ReadWritten, ShutDown, TryRead, TryWrite, Write};

use crate::cases::{case, holds};
use crate::world::{Case, Op};

/// Bytes stay in the ring behind an end, and the connection is reset: readers get what joins on, and never
/// what does not.
#[test]
fn a_reset_behind_an_end() {
    let base = Case {
        buffered: false,
        hurries: true,
        resets: true,
        pipe: 1,
        ..case(
            "closed before everything is back, and reset",
            &[&[TryWrite(2), TryWrite(2), Close]],
            &[&[TryRead, ReadWritten]],
        )
    };
    holds(&base);
    holds(&Case {
        name: "shut down before everything is back, and reset",
        writers: vec![vec![TryWrite(2), TryWrite(1), ShutDown]],
        ..base.clone()
    });
    holds(&Case {
        name: "the same, and a reader that waits",
        readers: vec![vec![ReadToEnd(1)]],
        ..base.clone()
    });
    holds(&Case { name: "killed before everything is back, and reset", kill: vec![0], ..base });
    holds(&left_behind());
}

/// One writer ends while a reader is stopped, and leaves its byte in the ring; the other one goes on over the
/// kernel.
pub(crate) fn left_behind() -> Case {
    Case {
        buffered: false,
        stops: true,
        resets: true,
        ring: 1,
        ..case(
            "left behind a stopped reader, and reset",
            &[&[Write(1), Write(1), Close], &[Write(1)]],
            &[&[TryRead, ReadWritten]],
        )
    }
}
