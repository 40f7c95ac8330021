//! Of how connections end.

use super::*;

#[test]
fn what_is_written_behind_a_shutdown_of_both_halves_may_be_read() {
    let fork = ("a0 fork actor=a1", "= %<0>");
    let both = ("a0 shutdown fd=s1 how=both", "= 0");
    let recv = ("a0 recv fd=s1 len=4 by=read flags=- bad=no", "");
    let poll = ("a0 poll by=poll set=s1:in+rdhup timeout=0", "");
    let (some, more) = ("= 4 data=4:88749ae1:320a86ea", "= 8 data=8:558ff043:320a86eafea53566");
    assert_eq!(classified(&[fork, SEND, both, SEND, recv], some, more), Some("shut-down-over-bytes"));
    assert_eq!(classified(&[fork, SEND, SEND, recv], some, more), None, "nothing was shut down");
    assert_eq!(classified(&[fork, SEND, both, recv], more, some), None, "bytes are lost");
    let others = "= 8 data=8:558ff043:fea53566320a86ea";
    assert_eq!(classified(&[fork, SEND, both, recv], some, others), None, "in another order");
    let (reset, ended) = ("= 1 s1:IN|ERR|HUP|RDHUP", "= 1 s1:IN|HUP|RDHUP");
    assert_eq!(classified(&[fork, SEND, both, SEND, poll], reset, ended), Some("shut-down-over-bytes"));
    assert_eq!(classified(&[fork, SEND, SEND, poll], reset, ended), None, "nothing was shut down");
    assert_eq!(classified(&[fork, SEND, both, poll], reset, "= 1 s1:IN"), None, "the end is lost");
}

#[test]
fn a_killed_end_that_had_bytes_unread_is_still_the_peer() {
    let fork = ("a0 fork actor=a1", "= %<0>");
    let kill = ("a1 kill actor=a0 signal=kill by=process", "= 0");
    let address = ("a1 address fd=s2 of=peer", "");
    let of = |lines: &[_], library| classified(lines, "= -1 ENOTCONN none(0)", library);
    assert_eq!(of(&[fork, SEND, kill, address], "= 0 127.0.0.1:@<1>"), Some("killed-over-bytes"));
    assert_eq!(of(&[fork, SEND, address], "= 0 127.0.0.1:@<1>"), None, "nobody has died");
    assert_eq!(of(&[fork, SEND, kill, address], "= -1 EBADF none(0)"), None);
}

#[test]
fn a_read_behind_a_write_to_the_killed_may_be_reset() {
    let fork = ("a0 fork actor=a1", "= %<0>");
    let kill = ("a0 kill actor=a1 signal=kill by=process", "= 0");
    let send = ("a0 send fd=s3 len=4 by=write flags=- name=- bad=no", "= 4");
    let recv = ("a0 recv fd=s3 len=4 by=recvmmsg flags=- bad=no", "");
    let of = |lines: &[_]| classified(lines, "= -1 EPIPE", "= -1 ECONNRESET");
    assert_eq!(of(&[fork, kill, send, recv]), Some("writes-to-the-killed"));
    assert_eq!(of(&[fork, send, recv]), None, "nobody has died");
}

#[test]
fn bytes_behind_a_shutdown_of_the_reading_half_are_known_only_after_a_copy() {
    let fork = ("a0 fork actor=a1", "= %<0>");
    let shut = ("a1 shutdown fd=s2 how=read", "= 0");
    let send = ("a0 send fd=s1 len=4 by=write flags=- name=- bad=no", "= 4");
    let scarcity = ("a1 scarcity of=file fd=s2", "= 0");
    let read = ("a1 recv fd=s2 len=4 by=read flags=- bad=no", "");
    let bytes = "= 4 data=4:a37c8ab4:7a8fb5b5";
    let end = "= 0 data=0:811c9dc5:";
    let known = Some("shut-reading-and-copied");
    assert_eq!(classified(&[fork, shut, send, scarcity, read], bytes, end), known);
    assert_eq!(classified(&[fork, shut, send, read], bytes, end), None, "nothing was copied");
    assert_eq!(classified(&[fork, scarcity, shut, send, read], bytes, end), None, "it was copied before");
    assert_eq!(
        classified(&[shut, ("a1 dup fd=s2 to=s4", "= 7"), read], bytes, end),
        None,
        "nobody has written"
    );
    let both = ("a1 shutdown fd=s2 how=both", "= 0");
    assert_ne!(classified(&[fork, both, send, scarcity, read], bytes, end), known);
    assert_eq!(classified(&[fork, shut, send, scarcity, read], "= -1 EAGAIN", end), None);
}

#[test]
fn an_address_in_use_is_known_where_somebody_was_killed() {
    let fork = ("a0 fork actor=a1", "= %<0>");
    let kill = ("a0 kill actor=a1 signal=kill by=process", "= 0");
    let bind = ("a0 bind fd=s6 at=kept name=n1", "");
    let known = Some("killed-over-bytes");
    assert_eq!(classified(&[fork, SEND, kill, bind], "= 0", "= -1 EADDRINUSE"), known);
    assert_eq!(classified(&[fork, SEND, bind], "= 0", "= -1 EADDRINUSE"), None, "nobody was killed");
    assert_eq!(classified(&[fork, SEND, kill, bind], "= -1 EADDRINUSE", "= 0"), None);
}
