mod edges;
mod ends;

use super::*;

/// What a program's last call came to on both sides, those before it having come to this.
fn classified(lines: &[(&str, &str)], plain: &str, library: &str) -> Option<&'static str> {
    classified_after(lines, plain, library, None)
}

/// The same, if this step has hung in a hasty run.
fn classified_after(
    lines: &[(&str, &str)],
    plain: &str,
    library: &str,
    hung: Option<usize>,
) -> Option<&'static str> {
    let text: Vec<&str> = lines.iter().map(|(line, _)| *line).collect();
    let program = Program::parse(&format!("tieline-differential 1\n{}", text.join("\n"))).unwrap();
    let mut outcomes: Vec<String> = lines.iter().map(|(_, outcome)| (*outcome).to_owned()).collect();
    outcomes.pop();
    let with = |last: &str| [outcomes.clone(), vec![last.to_owned()]].concat();
    of(&program, &Finding { plain: with(plain), library: with(library), hung }).map(|known| known.name)
}

const SEND: (&str, &str) = ("a1 send fd=s2 len=4 by=write flags=- name=- bad=no", "= 4");
const DUP: (&str, &str) = ("a0 dup fd=s1 to=s3", "");

#[test]
fn a_wait_for_a_writer_of_the_same_process_is_not_known() {
    let fork = ("a0 fork actor=a1", "= %<0>");
    let spawn = ("a0 spawn actor=a1", "= 0");
    assert_eq!(classified(&[fork, SEND, DUP], "= 4", "blocks"), Some("waits-for-a-writer"));
    assert_eq!(classified(&[spawn, SEND, DUP], "= 4", "blocks"), None);
    assert_eq!(classified(&[fork, DUP], "= 4", "blocks"), None, "nobody has written");
    assert_eq!(classified(&[fork, SEND, DUP], "= 4", "= 5"), None);
}

#[test]
fn a_reset_is_known_where_a_writer_was_waited_for() {
    let fork = ("a0 fork actor=a1", "= %<0>");
    let aio = ("a0 aio fd=s1 by=read len=19", "");
    let (read, reset) = ("= 0 over 19 data=19:a02414e8:572be16d5a801480", "= 0 over ECONNRESET");
    assert_eq!(classified(&[fork, SEND, aio], read, reset), Some("waits-for-a-writer"));
    assert_eq!(classified(&[fork, SEND, aio], read, "= -1 EIO over EPIPE"), Some("waits-for-a-writer"));
    assert_eq!(classified(&[fork, aio], read, reset), None, "nobody has written");
    assert_eq!(classified(&[fork, SEND, aio], read, "= 0 over 18"), None);
    let copies = ("a0 vfork_exit close=- fd=s1 onto=s4 status=0", "= %<1>");
    let send = ("a0 send fd=s1 len=4 by=send flags=oob name=- bad=no", "");
    assert_eq!(classified(&[fork, SEND, copies, send], "= 4", "= -1 ECONNRESET"), Some("waits-for-a-writer"));
    assert_eq!(classified(&[fork, SEND, send], "= 4", "= -1 ECONNRESET"), None, "nothing was waited for");
}

#[test]
fn a_connection_that_was_reset_behind_another_program_connects_again() {
    let fork = ("a0 fork actor=a1", "= %<0>");
    let vfork = ("a0 vfork actor=a2 close=- fd=s3 onto=s1", "= %<1> child -,-,-");
    let connect = ("a0 connect fd=s1 name=n0", "");
    let of = |lines: &[_], library| classified(lines, "= -1 EISCONN", library);
    assert_eq!(of(&[fork, SEND, vfork, connect], "= 0"), Some("waits-for-a-writer"));
    assert_eq!(of(&[fork, vfork, connect], "= 0"), None, "nobody has written");
    assert_eq!(of(&[fork, SEND, connect], "= 0"), None, "no other program");
    assert_eq!(of(&[fork, SEND, vfork, connect], "= -1 EINPROGRESS"), None);
    let poll = ("a0 poll by=poll set=s1:in+out+rdhup timeout=0", "");
    let told = |library| classified(&[fork, SEND, vfork, poll], "= 1 s1:IN|OUT|ERR|HUP|RDHUP", library);
    assert_eq!(told("= 1 s1:OUT|ERR|HUP"), Some("waits-for-a-writer"));
    assert_eq!(told("= 1 s1:OUT"), None, "no reset");
    let select = ("a0 poll by=select set=s1:in timeout=-1", "");
    let (waits, came) = ("blocks, after step 9: = 1 s3:IN", "blocks, after step 3: = 1 s1:IN");
    assert_eq!(classified(&[fork, SEND, vfork, select], waits, came), Some("waits-for-a-writer"));
    assert_eq!(classified(&[fork, SEND, vfork, select], "= 0", came), None, "it waits for nothing");
}

#[test]
fn bytes_that_differ_are_not_known() {
    let recv = ("a0 recv fd=s1 len=4 by=read flags=- bad=no", "");
    let close = ("a0 close fd=s2", "= 0");
    let spawn = ("a0 posix_spawn actor=a1 fd=- onto=-", "= %<0>");
    let (end, reset) = ("= 0 data=0:811c9dc5:", "= -1 ECONNRESET");
    assert_eq!(classified(&[spawn, close, recv], end, reset), Some("reset-for-end"));
    assert_eq!(classified(&[close, recv], end, reset), None, "nobody else can have it");
    let file = ("a0 sendfile fd=s1 from=s5 len=533", "");
    let sent = |library| classified(&[spawn, close, file], "= -1 ECONNRESET offset=0", library);
    assert_eq!(sent("= 195 offset=195"), Some("end-for-reset"), "the file is shorter");
    assert_eq!(sent("= 0 offset=0"), None, "nothing was written");
    assert_eq!(classified(&[spawn, close, recv], end, "= 1 data=1:6f0b70fd:ea"), None);
}

#[test]
fn a_difference_is_looked_at_where_it_began() {
    let poll = ("a0 poll by=poll set=s0:in timeout=-1", "");
    let program = Program::parse(&format!("tieline-differential 1\n{}\n{}\n", poll.0, DUP.0)).unwrap();
    let finding = |dup: &str| Finding {
        plain: vec!["blocks, after step 9: = -1 EINTR".to_owned(), "= 4".to_owned()],
        library: vec!["blocks, died at step 9".to_owned(), dup.to_owned()],
        hung: None,
    };
    assert!(line(&program, &finding("blocks")).contains("dup"));
    assert!(line(&program, &finding("= 4")).contains("poll"));
}

#[test]
fn a_reset_behind_a_step_that_hung_is_known_only_then() {
    let fork = ("a0 fork actor=a1", "= %<0>");
    let dup = ("a0 dup fd=s4 to=s5", "= 5");
    let recv = ("a0 recv fd=s1 len=4 by=read flags=- bad=no", "");
    let of = |lines: &[_], hung| classified_after(lines, "= 4 data=4:6f0b70fd:ea", "= -1 ECONNRESET", hung);
    let lines = [fork, SEND, dup, recv];
    assert_eq!(of(&lines, Some(2)), Some("waits-for-a-writer"));
    assert_eq!(of(&lines, None), None, "nothing was waited for");
    assert_eq!(of(&lines, Some(1)), None, "a write that hangs");
    assert_eq!(of(&[fork, dup, recv], Some(1)), None, "nobody has written");
    let lost = classified_after(&lines, "= 4 data=4:6f0b70fd:ea", "= 0 data=0:811c9dc5:", Some(2));
    assert_eq!(lost, None, "lost bytes");
}

#[test]
fn a_reset_behind_another_program_is_known_of_what_others_wrote() {
    let fork = ("a0 fork actor=a1", "= %<0>");
    let spawn = ("a0 spawn actor=a1", "= 0");
    let replaces = ("a0 vfork_exit close=- fd=s5 onto=s1 status=0", "= %<1>");
    let exec = ("a0 exec environment=kept", "= 0");
    let recv = ("a0 recv fd=s1 len=4 by=read flags=- bad=no", "");
    let of = |lines: &[_], library| classified(lines, "= 4 data=4:6f0b70fd:ea", library);
    for behind in [replaces, exec] {
        assert_eq!(of(&[fork, SEND, behind, recv], "= -1 ECONNRESET"), Some("waits-for-a-writer"));
        assert_eq!(of(&[fork, SEND, behind, recv], "= 0 data=0:811c9dc5:"), None, "lost bytes");
        assert_eq!(of(&[fork, behind, SEND, recv], "= -1 ECONNRESET"), None, "written later");
        assert_eq!(of(&[spawn, SEND, behind, recv], "= -1 ECONNRESET"), None, "by a thread of its own");
    }
    let read = ("a0 stdio fd=s3 by=read len=4", "");
    let shut = ("a0 shutdown fd=s1 how=read", "= 0");
    let (plain, library) = ("= 0 data=4:f597dc8f:f2623882", "= 0 data=0:811c9dc5:");
    assert_eq!(classified(&[fork, shut, SEND, read], plain, library), Some("waits-for-a-writer"));
    assert_eq!(classified(&[fork, SEND, read], plain, library), None, "nothing was shut down");
    let splice = ("a0 splice from=s1 fd=s10 len=4", "");
    assert_eq!(classified(&[fork, shut, SEND, splice], "= 4", "= 0"), Some("waits-for-a-writer"));
    assert_eq!(classified(&[fork, SEND, splice], "= 4", "= 0"), None, "nothing was shut down");
    let parts = ("a0 wrong fd=s1 by=readv_most", "");
    assert_eq!(classified(&[fork, shut, SEND, parts], "= 4", "= 0"), Some("waits-for-a-writer"));
    assert_eq!(classified(&[fork, shut, SEND, parts], "= 4", "= 3"), None);
}

#[test]
fn an_end_differs_only_after_a_write_to_the_killed() {
    let fork = ("a0 fork actor=a1", "= %<0>");
    let kill = ("a0 kill actor=a1 signal=kill by=process", "= 0");
    let send = ("a0 send fd=s1 len=4 by=write flags=- name=- bad=no", "= 4");
    let recv = ("a0 recv fd=s1 len=4 by=read flags=- bad=no", "");
    let (end, reset) = ("= 0 data=0:811c9dc5:", "= -1 ECONNRESET");
    assert_eq!(classified(&[fork, kill, send, recv], end, reset), Some("writes-to-the-killed"));
    assert_eq!(classified(&[fork, send, kill, recv], end, reset), None, "written before");
    assert_eq!(classified(&[fork, send, recv], end, reset), None, "nobody has died");
    let bytes = "= 4 data=4:6f0b70fd:ea";
    assert_eq!(classified(&[fork, kill, send, recv], bytes, reset), None, "bytes are lost");
    assert_eq!(classified(&[fork, kill, send, send], "died", "= 4"), Some("writes-to-the-killed"));
    let refused = "= -1 EFAULT";
    assert_eq!(classified(&[fork, kill, send, send], "died", refused), Some("writes-to-the-killed"));
    assert_eq!(classified(&[fork, send, send], "died", refused), None, "nobody has died");
    assert_eq!(classified(&[fork, kill, send], "died", "= 4"), None, "the first write");
}

#[test]
fn an_error_that_a_wait_misses_is_looked_for_at_each_descriptor() {
    let fork = ("a0 fork actor=a1", "= %<0>");
    let kill = ("a0 kill actor=a1 signal=kill by=process", "= 0");
    let poll = ("a0 poll by=poll set=s3:in+out,s1:in timeout=0", "");
    let of = |lines: &[_], library| classified(lines, "= 2 s3:OUT|ERR s1:IN|ERR|HUP", library);
    assert_eq!(of(&[fork, kill, poll], "= 2 s3:OUT|ERR s1:IN"), Some("killed-over-bytes"));
    assert_eq!(of(&[fork, kill, poll], "= 2 s3:OUT|ERR s1:IN|ERR"), None, "no error is missed");
    assert_eq!(of(&[fork, poll], "= 2 s3:OUT|ERR s1:IN"), None, "nobody has died");
}

#[test]
fn a_reset_is_known_behind_a_killed_writer() {
    let fork = ("a0 fork actor=a1", "= %<0>");
    let kill = ("a0 kill actor=a1 signal=kill by=process", "= 0");
    let dup = ("a0 dup fd=s1 to=s3", "= 5");
    let send = ("a0 send fd=s1 len=4 by=write flags=- name=- bad=no", "");
    let of = |lines: &[_]| classified(lines, "= 4", "= -1 ECONNRESET");
    assert_eq!(of(&[fork, SEND, kill, dup, send]), Some("waits-for-a-writer"));
    assert_eq!(of(&[fork, SEND, dup, send]), None, "it can go back");
    assert_eq!(of(&[fork, kill, dup, send]), None, "nobody has written");
    assert_eq!(of(&[fork, dup, SEND, kill, send]), None, "copied before");
    assert_eq!(classified(&[fork, SEND, kill, dup, send], "= 4", "= -1 EFAULT"), None, "no reset");
}

#[test]
fn a_process_that_ends_later_was_not_killed_by_a_signal_that_it_handles() {
    let lines = [
        "a0 posix_spawn actor=a1 fd=- onto=-",
        "a0 kill actor=a0 signal=usr1 by=thread",
        "a0 send fd=s2 len=4 by=write flags=- name=- bad=no",
        "a0 wrong fd=s2 by=ppoll_time",
        "a1 dup fd=s1 to=s3",
        "a1 stdio fd=s3 by=write len=4",
    ];
    let program = Program::parse(&format!("tieline-differential 1\n{}", lines.join("\n"))).unwrap();
    let outcomes = |last: &str, end: &str| {
        ["= %<0>", "= 0", "= 4", "died", "= 5", last, end].map(str::to_owned).to_vec()
    };
    let found = |end: &str| {
        let (plain, library) = (outcomes("= 0 data=1:f9:31", end), outcomes("= -1 ECONNRESET", end));
        of(&program, &Finding { plain, library, hung: None }).map(|known| known.name)
    };
    assert_eq!(found("a0 ended 11"), Some("waits-for-a-writer"), "it died behind its write");
    assert_eq!(found("a0 ended 10"), None, "it died before it wrote");
}

#[test]
fn a_close_that_waits_is_known_of_what_is_in_an_epoll() {
    let fork = ("a0 fork actor=a1", "= %<0>");
    let add = ("a0 epoll_ctl fd=s3 op=add member=s1 events=in+edge", "= 0");
    let close = ("a0 close fd=s1", "");
    let other = ("a0 close fd=s4", "");
    assert_eq!(classified(&[add, fork, SEND, close], "= 0", "blocks"), Some("waits-for-a-writer"));
    assert_eq!(classified(&[add, fork, close], "= 0", "blocks"), None, "nobody has written");
    assert_eq!(classified(&[add, fork, SEND, other], "= 0", "blocks"), None, "another number");
    assert_eq!(classified(&[fork, SEND, close], "= 0", "blocks"), None, "in no epoll");
}

#[test]
fn of_two_that_began_at_once_the_step_itself_is_looked_at() {
    let lines =
        ["a0 recv fd=s0 len=4 by=read flags=- bad=no", "a1 send fd=s3 len=4 by=write flags=- name=- bad=no"];
    let program = Program::parse(&format!("tieline-differential 1\n{}\n", lines.join("\n"))).unwrap();
    let finding = Finding {
        plain: vec!["blocks, died at step 2".to_owned(), "died".to_owned()],
        library: vec!["blocks".to_owned(), "= 4".to_owned()],
        hung: None,
    };
    assert!(line(&program, &finding).contains("send"));
}

#[test]
fn an_end_for_a_reset_is_known_where_a_holder_was_killed() {
    let fork = ("a0 fork actor=a1", "= %<0>");
    let kill = ("a0 kill actor=a1 signal=kill by=process", "= 0");
    let close = ("a0 close fd=s2", "= 0");
    let recv = ("a0 recv fd=s1 len=4 by=read flags=- bad=no", "");
    let (end, reset) = ("= 0 data=0:811c9dc5:", "= -1 ECONNRESET");
    assert_eq!(classified(&[fork, kill, close, recv], reset, end), Some("end-for-reset"));
    assert_eq!(classified(&[fork, close, recv], reset, end), None, "it lives");
    assert_eq!(classified(&[kill, close, recv], reset, end), None, "nobody had it");
    assert_eq!(classified(&[fork, kill, close, recv], "= 4 data=4:6f0b70fd:ea", end), None, "lost bytes");
    let parts = ("a0 wrong fd=s1 by=readv_most", "");
    assert_eq!(classified(&[fork, kill, close, parts], reset, "= 0"), Some("end-for-reset"));
    assert_eq!(classified(&[fork, close, parts], reset, "= 0"), None, "it lives");
}

#[test]
fn a_write_is_refused_only_behind_a_shutdown_of_both_halves() {
    let fork = ("a0 fork actor=a1", "= %<0>");
    let both = ("a0 shutdown fd=s2 how=both", "= 0");
    let half = ("a0 shutdown fd=s2 how=write", "= 0");
    let send = ("a1 send fd=s1 len=4 by=sendmsg flags=nosignal name=- bad=no", "");
    let of = |lines: &[_]| classified(lines, "= 4", "= -1 EPIPE");
    assert_eq!(of(&[fork, SEND, both, send]), Some("shut-down-over-bytes"));
    assert_eq!(of(&[fork, SEND, half, send]), None, "one half");
    assert_eq!(of(&[fork, both, send]), None, "nobody has written");
    let sendfile = ("a1 sendfile fd=s1 from=s10 len=4", "");
    let died = classified(&[fork, SEND, both, sendfile], "= 4 offset=4", "died");
    assert_eq!(died, Some("shut-down-over-bytes"));
    let poll = ("a1 poll by=poll set=s1:in timeout=0", "");
    let told = |library| classified(&[fork, SEND, both, poll], "= 1 s1:IN", library);
    assert_eq!(told("= 1 s1:IN|ERR|HUP"), Some("shut-down-over-bytes"));
    assert_eq!(told("= 0"), None, "an event that is lost");
    let shut = ("a1 shutdown fd=s1 how=write", "");
    let later = |lines: &[_]| classified(lines, "= 0", "= -1 ENOTCONN");
    assert_eq!(later(&[fork, SEND, both, shut]), Some("shut-down-over-bytes"));
    assert_eq!(later(&[fork, both, shut]), None, "nobody has written");
}

#[test]
fn a_read_that_blocks_is_reset_by_a_step_that_hung_later() {
    let fork = ("a0 fork actor=a1", "= %<0>");
    let recv = ("a0 recv fd=s1 len=4 by=read flags=- bad=no", "");
    let dup = ("a0 dup fd=s4 to=s5", "= 5");
    let lines = [fork, recv, SEND, dup];
    let text: Vec<&str> = lines.iter().map(|(line, _)| *line).collect();
    let program = Program::parse(&format!("tieline-differential 1\n{}\n", text.join("\n"))).unwrap();
    let outcomes = |read: &str| ["= %<0>", read, "= 4", "= 5"].map(str::to_owned).to_vec();
    let of = |hung| {
        let (plain, library) = (outcomes("blocks"), outcomes("blocks, after step 4: = -1 ECONNRESET"));
        of(&program, &Finding { plain, library, hung }).map(|known| known.name)
    };
    assert_eq!(of(Some(3)), Some("waits-for-a-writer"));
    assert_eq!(of(None), None, "nothing was waited for");
}

#[test]
fn a_read_that_is_restarted_is_known_on_a_number_that_was_closed() {
    let restarts = "a0 handle signal=usr1 with=restart";
    let (spawn, read) = ("a0 spawn actor=a1", "a1 recv fd=s2 len=4 by=read flags=- bad=no");
    let restarted = |first: &str, close: &str| {
        let lines = [first, spawn, read, close];
        let program = Program::parse(&format!("tieline-differential 1\n{}\n", lines.join("\n"))).unwrap();
        let outcomes = |read: &str| ["= 0", "= 0", read, "= 0"].map(str::to_owned).to_vec();
        let (plain, library) = (outcomes("blocks, after step 4: = 4 data=4:6f0b70fd:ea"), outcomes("blocks"));
        of(&program, &Finding { plain, library, hung: None }).map(|known| known.name)
    };
    assert_eq!(restarted(restarts, "a0 close fd=s2"), Some("waits-since-before"));
    assert_eq!(restarted(restarts, "a0 close fd=s3"), None, "another number");
    assert_eq!(
        restarted("a0 handle signal=usr1 with=handler", "a0 close fd=s2"),
        None,
        "nothing is restarted"
    );
}

#[test]
fn an_error_is_not_there_where_a_program_that_was_started_may_have_it() {
    let vfork = ("a0 vfork_exit close=- fd=s0 onto=s0 status=1", "= 1");
    let close = ("a0 close fd=s2", "= 0");
    let error = ("a0 getsockopt fd=s1 option=error", "");
    assert_eq!(classified(&[vfork, close, error], "= 0 EPIPE", "= 0 4:0"), Some("end-for-reset"));
    assert_eq!(classified(&[vfork, error], "= 0 EPIPE", "= 0 4:0"), None, "nothing was closed");
    assert_eq!(classified(&[vfork, close, error], "= 0 4:0", "= 0 EPIPE"), None, "an error of the library's");
    let fork = ("a0 fork actor=a1", "= %<0>");
    let exec = ("a1 exec environment=kept", "= 0");
    assert_eq!(classified(&[fork, exec, error], "= 0 EPIPE", "= 0 4:0"), Some("end-for-reset"));
    assert_eq!(classified(&[fork, error], "= 0 EPIPE", "= 0 4:0"), None);
}

#[test]
fn a_write_of_nothing_may_succeed_where_a_program_that_was_started_may_have_the_end() {
    let vfork = ("a0 vfork_exit close=- fd=s0 onto=s0 status=1", "= 1");
    let close = ("a0 close fd=s2", "= 0");
    let nothing = ("a0 send fd=s1 len=0 by=sendmsg flags=- name=- bad=no", "");
    assert_eq!(classified(&[vfork, close, nothing], "died", "= 0"), Some("end-for-reset"));
    assert_eq!(classified(&[vfork, nothing], "died", "= 0"), None, "nothing was closed");
    let some = ("a0 send fd=s1 len=4 by=sendmsg flags=- name=- bad=no", "");
    assert_eq!(classified(&[vfork, close, some], "died", "= 0"), None, "not all that was to be written");
}

#[test]
fn what_is_waited_for_once_is_told_of_later_only_behind_a_vfork() {
    let fork = ("a0 fork actor=a1", "= %<0>");
    let vfork = ("a0 vfork actor=a2 close=s3 fd=s1 onto=s4", "= %<1> child 0,8,-");
    let add = ("a0 epoll_ctl fd=s6 op=add member=s1 events=in+oneshot", "= 0");
    let wait = ("a0 epoll_wait fd=s6 by=pwait max=8 timeout=0", "");
    let of = |lines: &[_], plain| classified(lines, plain, "= 0");
    assert_eq!(of(&[fork, SEND, vfork, add, wait], "= 1 s1:IN"), Some("waits-for-a-writer"));
    assert_eq!(of(&[fork, SEND, add, wait], "= 1 s1:IN"), None, "no other program");
    assert_eq!(of(&[fork, vfork, add, wait], "= 1 s1:IN"), None, "nobody has written");
    assert_eq!(of(&[fork, SEND, vfork, add, wait], "= 1 s1:OUT"), None, "nothing of a ring");
}

#[test]
fn an_io_uring_call_that_has_waited_in_vain_finds_the_reset() {
    let fork = ("a0 fork actor=a1", "= %<0>");
    let ring = |op| (op, "");
    let poll = ring("a0 ring fd=s1 op=poll len=197 to=s0");
    let of = |lines: &[_], library| classified(lines, "ring = 6 enter = 1 = IN", library);
    let reset = "ring = 6 enter = 1 = ERR|HUP";
    assert_eq!(of(&[fork, SEND, poll], reset), Some("waits-for-a-writer"));
    assert_eq!(of(&[fork, poll], reset), None, "nobody has written");
    assert_eq!(of(&[fork, SEND, poll], "ring = 6 enter = 1 = OUT"), None, "no reset");
    // The one that waited is the child of a `fork`; its parent polls, and has itself written.
    let vfork = ("a1 vfork actor=a2 close=s5 fd=- onto=-", "= %<1> child 0,-,-");
    let own = ("a0 send fd=s2 len=4 by=write flags=- name=- bad=no", "= 4");
    assert_eq!(of(&[fork, own, vfork, poll], reset), Some("waits-for-a-writer"));
    assert_eq!(of(&[own, poll], reset), None, "nobody has waited");
    let recv = ring("a0 ring fd=s1 op=recv len=449 to=s0");
    let (read, reset) =
        ("ring = 8 enter = 1 = 4 data=4:4eb9eedd", "ring = 8 enter = 1 = ECONNRESET data=0:811c9dc5:");
    assert_eq!(classified(&[fork, SEND, recv], read, reset), Some("waits-for-a-writer"));
}

#[test]
fn a_read_behind_another_program_finds_the_reset_without_a_wait() {
    let fork = ("a0 fork actor=a1", "= %<0>");
    let copies = ("a0 vfork_exit close=- fd=s1 onto=s0 status=3", "= %<1> child -,3,- exit:3");
    let recv = ("a1 recv fd=s2 len=86 by=recvmsg flags=- bad=no", "");
    let plain = "blocks, after step 9: = -1 ECONNRESET";
    let of = |lines: &[_]| classified(lines, plain, "= -1 ECONNRESET");
    assert_eq!(of(&[fork, SEND, copies, recv]), Some("waits-for-a-writer"));
    assert_eq!(of(&[fork, SEND, recv]), None, "nothing was waited for");
    assert_eq!(of(&[fork, copies, recv]), None, "nobody has written");
}

#[test]
fn a_copy_of_what_was_shut_down_reads_the_end() {
    let fork = ("a0 fork actor=a1", "= %<0>");
    let shuts = |how| (how, "= 0");
    let both = shuts("a0 shutdown fd=s1 how=both");
    let copies = ("a0 dup2 fd=s1 onto=s7", "= 1");
    let recv = ("a0 recv fd=s7 len=4 by=read flags=- bad=no", "");
    let of = |lines: &[_]| classified(lines, "= 4 data=4:f597dc8f:f2623882", "= 0 data=0:811c9dc5:");
    assert_eq!(of(&[fork, SEND, both, copies, recv]), Some("waits-for-a-writer"));
    assert_eq!(of(&[fork, SEND, copies, recv]), None, "nothing was shut down");
    assert_eq!(of(&[fork, SEND, shuts("a0 shutdown fd=s1 how=write"), copies, recv]), None, "the other half");
    assert_eq!(of(&[fork, SEND, both, recv]), None, "no copy");
    assert_eq!(of(&[fork, both, copies, recv]), None, "nobody has written");
}

#[test]
fn a_part_of_a_write_behind_an_end_that_may_be_shared_is_known() {
    let vfork = ("a0 vfork actor=a1 close=s1 fd=s2 onto=s6", "= %<2> child 0,9,-");
    let closes = ("a0 dup3 fd=s0 onto=s5 with=-", "= 8");
    let send = ("a0 send fd=s6 len=275838 by=sendmsg flags=- name=- bad=no", "");
    let of = |lines: &[_], library| classified(lines, "= 275838", library);
    assert_eq!(of(&[vfork, closes, send], "= 262144"), Some("reset-for-end"));
    assert_eq!(of(&[vfork, send], "= 262144"), None, "nothing was closed");
    assert_eq!(of(&[closes, send], "= 262144"), None, "no other process");
    assert_eq!(of(&[vfork, closes, send], "= -1 EAGAIN"), None);
}

#[test]
fn a_write_behind_the_reset_of_an_end_that_a_killed_process_had_is_known() {
    let fork = ("a0 fork actor=a1", "= %<1>");
    let closes = ("a0 close fd=s1", "= 0");
    let kill = ("a0 kill actor=a1 signal=kill by=process", "= 0");
    let send = ("a0 send fd=s2 len=4 by=write flags=- name=- bad=no", "");
    let of = |lines: &[_]| classified(lines, "died", "= 4");
    assert_eq!(of(&[fork, closes, kill, send]), Some("end-for-reset"));
    assert_eq!(of(&[fork, closes, send]), None, "nobody was killed");
    assert_eq!(of(&[closes, kill, send]), None, "nobody else had it");
    let first = classified(&[fork, closes, kill, send], "= -1 ECONNRESET", "= 4");
    assert_eq!(first, Some("killed-over-bytes"), "the reset answers the first write");
}

#[test]
fn a_read_that_began_before_a_ring_leaves_its_bytes_to_another_thread() {
    let spawn = ("a1 spawn actor=a3", "= 0");
    let lines = [
        "a1 spawn actor=a3",
        "a1 recv fd=s2 len=4 by=read flags=- bad=no",
        "a3 recv fd=s2 len=4 by=recv flags=waitall bad=no",
        "a0 send fd=s3 len=4 by=write flags=- name=- bad=no",
    ];
    let found = |lines: &[&str]| {
        let program = Program::parse(&format!("tieline-differential 1\n{}", lines.join("\n"))).unwrap();
        let (waits, came) = ("blocks".to_owned(), "blocks, after step 4: = 4 data=4:6f0b70fd:ea".to_owned());
        let outcomes = |first: &String, second: &String| {
            vec![spawn.1.to_owned(), first.clone(), second.clone(), "= 4".to_owned()]
        };
        let (plain, library) = (outcomes(&came, &waits), outcomes(&waits, &came));
        of(&program, &Finding { plain, library, hung: None }).map(|known| known.name)
    };
    assert_eq!(found(&lines), Some("waits-since-before"));
    assert_eq!(found(&["a1 fork actor=a3", lines[1], lines[2], lines[3]]), None, "another process");
    let elsewhere = "a3 recv fd=s4 len=4 by=recv flags=waitall bad=no";
    assert_eq!(found(&[lines[0], lines[1], elsewhere, lines[3]]), None, "another connection");
}
