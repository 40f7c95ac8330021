//! Of waits.

use super::*;

#[test]
fn an_edge_that_was_not_told_before_is_not_known() {
    let add = ("a0 epoll_ctl fd=s3 op=add member=s1 events=in+edge", "= 0");
    let wait = "a0 epoll_wait fd=s3 by=wait max=8 timeout=0";
    let told = (wait, "= 1 s1:IN");
    assert_eq!(classified(&[add, told, (wait, "")], "= 0", "= 1 s1:IN"), Some("edge-again"));
    assert_eq!(classified(&[add, told, (wait, "")], "= 0", "= 1 s2:IN"), None);
    assert_eq!(classified(&[add, (wait, "= 0"), (wait, "")], "= 0", "= 1 s1:IN"), None);
    let onto = ("a0 dup2 fd=s3 onto=s4", "= 7");
    let poll = ("a0 poll by=poll set=s4:in,s3:in timeout=0", "");
    assert_eq!(classified(&[add, told, onto, poll], "= 0", "= 2 s4:IN s3:IN"), Some("edge-again"));
    assert_eq!(classified(&[add, told, poll], "= 0", "= 2 s4:IN s3:IN"), None, "another set");
    let level = ("a0 epoll_ctl fd=s3 op=add member=s1 events=in", "= 0");
    assert_eq!(classified(&[level, told, (wait, "")], "= 0", "= 1 s1:IN"), None);
    assert_eq!(classified(&[add, (wait, "")], "= 1 s1:IN", "= 0"), None, "one that is lost");
}

#[test]
fn events_that_only_the_library_tells_are_not_known() {
    let add = ("a0 epoll_ctl fd=s3 op=add member=s1 events=in+out", "= 0");
    let wait = ("a0 epoll_wait fd=s3 by=wait max=8 timeout=0", "");
    assert_eq!(classified(&[add, wait], "= 2 s1:IN s2:OUT", "= 1 s1:IN"), Some("rings-first"));
    assert_eq!(classified(&[add, wait], "= 1 s1:IN", "= 2 s1:IN s2:OUT"), None);
    assert_eq!(classified(&[add, wait], "= 2 s1:IN s2:OUT", "= 0"), None);
    let (all, part) = ("= 1 s1:IN|OUT|ERR|HUP", "= 1 s1:OUT|ERR|HUP");
    let one = ("a0 epoll_wait fd=s3 by=wait max=1 timeout=0", "");
    assert_eq!(classified(&[add, one], all, part), Some("rings-first"));
    assert_eq!(classified(&[add, wait], all, part), None, "there was room to ask the kernel");
    assert_eq!(classified(&[add, one], all, "= 1 s1:IN|OUT|HUP"), None, "an error that is lost");
}

#[test]
fn an_edge_is_known_of_an_epoll_that_was_passed() {
    let add = ("a0 epoll_ctl fd=s3 op=add member=s1 events=in+edge", "= 0");
    let told = ("a0 epoll_wait fd=s3 by=wait max=8 timeout=0", "= 1 s1:IN");
    let pass = ("a0 pass fd=s4 what=s1,s3 len=4", "= 4");
    let take = ("a0 take fd=s5 to=s6,s7 len=4 flags=-", "= 4");
    let poll = |slot: &str| format!("a0 poll by=poll set={slot}:in timeout=0");
    let (epoll, other) = (poll("s7"), poll("s6"));
    assert_eq!(classified(&[add, told, pass, take, (&epoll, "")], "= 0", "= 1 s7:IN"), Some("edge-again"));
    assert_eq!(classified(&[add, told, pass, take, (&other, "")], "= 0", "= 1 s6:IN"), None, "no epoll");
    assert_eq!(classified(&[add, told, take, (&epoll, "")], "= 0", "= 1 s7:IN"), None, "nothing was passed");
}

#[test]
fn an_edge_is_known_of_an_epoll_within_others() {
    let add = ("a0 epoll_ctl fd=s3 op=add member=s1 events=in+edge", "= 0");
    let told = ("a0 epoll_wait fd=s3 by=wait max=8 timeout=0", "= 1 s1:IN");
    let nests = ("a0 epoll_ctl fd=s4 op=add member=s3 events=in", "= 0");
    // The kernel refuses a loop; the program may ask for it.
    let loops = ("a0 epoll_ctl fd=s3 op=add member=s4 events=in", "= -1 ELOOP");
    let poll = ("a0 poll by=poll set=s4:in timeout=0", "");
    assert_eq!(classified(&[add, told, nests, poll], "= 0", "= 1 s4:IN"), Some("edge-again"));
    assert_eq!(classified(&[add, nests, loops, poll], "= 0", "= 1 s4:IN"), None, "nothing was told");
    assert_eq!(classified(&[add, told, poll], "= 0", "= 1 s4:IN"), None, "not within");
}

#[test]
fn an_edge_of_an_end_is_not_repeated_only_behind_a_shutdown() {
    let add = ("a0 epoll_ctl fd=s3 op=add member=s1 events=in+edge", "= 0");
    let shut = ("a0 shutdown fd=s1 how=both", "= 0");
    let wait = "a0 epoll_wait fd=s3 by=wait max=8 timeout=0";
    let end = "= 1 s1:IN|HUP";
    assert_eq!(classified(&[shut, add, (wait, end), (wait, "")], end, "= 0"), Some("edge-not-repeated"));
    assert_eq!(classified(&[add, (wait, end), (wait, "")], end, "= 0"), None, "nothing was shut down");
    assert_eq!(classified(&[shut, add, (wait, "= 0"), (wait, "")], end, "= 0"), None, "an edge that is lost");
    let crowd = ("a0 crowd fd=s3 by=poll copies=2", "");
    let (all, none) = ("2 copies 7..8 = 2 2*IN", "2 copies 7..8 = 0 2*0x0");
    assert_eq!(classified(&[shut, add, (wait, end), crowd], all, none), Some("edge-not-repeated"));
    assert_eq!(classified(&[shut, add, crowd], all, none), None, "an edge that is lost");
}

#[test]
fn an_edge_of_unread_bytes_is_not_repeated_behind_a_shutdown_by_another_process() {
    let add = ("a0 epoll_ctl fd=s3 op=add member=s1 events=in+edge", "= 0");
    let wait = "a0 epoll_wait fd=s3 by=wait max=8 timeout=0";
    let fork = ("a0 fork actor=a2", "= 7");
    let (told, last) = ((wait, "= 1 s1:IN"), (wait, ""));
    let of = |lines: &[_]| classified(lines, "= 1 s1:IN", "= 0");
    let other = ("a2 shutdown fd=s1 how=write", "= 0");
    assert_eq!(of(&[add, told, fork, other, last]), Some("edge-not-repeated"));
    assert_eq!(of(&[add, told, fork, last]), None, "nothing was shut down");
    assert_eq!(of(&[add, fork, other, last]), None, "an edge that is lost");
    assert_eq!(of(&[add, told, fork, ("a0 shutdown fd=s1 how=write", "= 0"), last]), None, "by itself");
    assert_eq!(of(&[add, told, fork, ("a2 shutdown fd=s2 how=write", "= 0"), last]), None, "another one");
}

#[test]
fn a_poll_of_an_epoll_finds_no_edge_that_is_not_repeated() {
    let add = ("a0 epoll_ctl fd=s3 op=add member=s1 events=in+out+edge", "= 0");
    let told = ("a0 epoll_wait fd=s3 by=wait max=8 timeout=0", "= 1 s1:OUT");
    let recv = ("a0 recv fd=s1 len=4 by=read flags=- bad=no", "= 4 data=4:6f0b70fd:ea");
    let poll = ("a0 poll by=poll set=s1:in+out,s3:in timeout=0", "");
    let of = |lines: &[_]| classified(lines, "= 2 s1:OUT s3:IN", "= 1 s1:OUT");
    assert_eq!(of(&[add, told, SEND, recv, poll]), Some("edge-not-repeated"));
    assert_eq!(of(&[add, SEND, recv, poll]), None, "nothing was told");
    assert_eq!(of(&[add, told, SEND, poll]), None, "bytes are unread");
}

#[test]
fn an_edge_is_known_of_a_number_that_an_epoll_has_by_now() {
    let pair = ("a0 socketpair to=s6 other=s7 kind=dgram with=-", "= 0 fds=5,6");
    let epoll = ("a0 epoll_create to=s3 with=-", "= 5");
    let add = ("a0 epoll_ctl fd=s3 op=add member=s1 events=in+edge", "= 0");
    let told = ("a0 epoll_wait fd=s3 by=wait max=8 timeout=0", "= 1 s1:IN");
    let poll = ("a0 poll by=poll set=s6:in timeout=0", "");
    let of = |epoll| classified(&[pair, epoll, add, told, poll], "= 0", "= 1 s6:IN");
    assert_eq!(of(epoll), Some("edge-again"));
    assert_eq!(of((epoll.0, "= 7")), None, "another number");
}

#[test]
fn a_cancelled_wait_for_an_epoll_that_told_an_edge_may_end() {
    let add = ("a0 epoll_ctl fd=s7 op=add member=s6 events=in+edge", "= 0");
    let told = ("a0 epoll_wait fd=s7 by=wait max=8 timeout=0", "= 1 s6:IN");
    let vfork = ("a0 vfork actor=a2 close=s6 fd=s7 onto=s5", "= %<1> child 0,4,-");
    let cancel = ("a2 cancel fd=s5 at=select how=asynchronous", "");
    let of = |lines: &[_], library| classified(lines, "= 0 cancelled returned nothing cleaned true", library);
    assert_eq!(of(&[add, told, vfork, cancel], "= 0 ended returned 1 cleaned true"), Some("edge-again"));
    assert_eq!(of(&[add, vfork, cancel], "= 0 ended returned 1 cleaned true"), None, "no edge was told");
    assert_eq!(of(&[add, told, vfork, cancel], "= 0 ended returned 0 cleaned true"), None);
    let waits = ("a2 cancel fd=s7 at=epoll how=asynchronous", "");
    assert_eq!(of(&[add, told, waits], "= 0 ended returned 1 cleaned true"), Some("edge-again"));
    assert_eq!(of(&[add, waits], "= 0 ended returned 1 cleaned true"), None, "no edge was told");
}

#[test]
fn another_one_may_come_first_of_an_epoll_that_was_copied() {
    let near = ("a0 epoll_ctl fd=s3 op=add member=s1 events=in", "= 0");
    let copy = ("a0 dup fd=s3 to=s4", "= 7");
    let far = ("a0 epoll_ctl fd=s4 op=add member=s2 events=in", "= 0");
    let wait = |fd| (fd, "");
    let of = |lines: &[_]| classified(lines, "= 1 s2:HUP", "= 1 s1:IN");
    let first = wait("a0 epoll_wait fd=s3 by=wait max=1 timeout=0");
    let second = wait("a0 epoll_wait fd=s4 by=wait max=1 timeout=0");
    assert_eq!(of(&[near, copy, far, first]), Some("other-one-first"));
    assert_eq!(of(&[near, copy, far, second]), Some("other-one-first"));
    assert_eq!(of(&[near, far, first]), None, "that is in another epoll");
    assert_eq!(
        of(&[near, copy, far, wait("a0 epoll_wait fd=s3 by=wait max=2 timeout=0")]),
        None,
        "there was room"
    );
}

#[test]
fn a_wait_that_looks_for_other_ends_first_may_be_cancelled_first() {
    let connect = ("a0 connect fd=s7 name=n2", "= 0");
    let cancel = ("a0 cancel fd=s3 at=select how=blocked", "");
    let (ended, cancelled) =
        ("= 0 ended returned 1 cleaned true", "= 0 cancelled returned nothing cleaned true");
    assert_eq!(classified(&[connect, cancel], ended, cancelled), Some("cancelled-first"));
    assert_eq!(classified(&[cancel], ended, cancelled), None, "there is nothing to look for");
    assert_eq!(classified(&[connect, cancel], cancelled, ended), None, "it has found something");
    let read = ("a0 cancel fd=s3 at=read how=blocked", "");
    assert_eq!(classified(&[connect, read], ended, cancelled), None, "a read may have taken it");
}
