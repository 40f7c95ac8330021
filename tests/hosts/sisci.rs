//! C programs of the SISCI API on two hosts: copies, DMA, interrupts and sequences without a map, and what is
//! refused or fails.

use tieline_tests::{Peer, Watchdog};

use crate::c;
use crate::lab::{Host, see_each_other, two_hosts, until, without_libfabric};

fn two_hosts_program() -> String {
    let source = c::top().join("tests/hosts/c/two_hosts.c");
    let shared = c::top().join("tests/sisci/c");
    c::compile_as("hosts-two_hosts", &source, &["-I", shared.to_str().unwrap()])
}

/// Starts a C program on a host.
fn start(host: &Host, program: &str, arguments: &[&str], variables: &[(&str, &str)]) -> Peer {
    let mut command = host.command(program);
    command.args(arguments).envs(variables.iter().copied());
    Peer::of(command).unwrap()
}

fn role(host: &Host, role: &str, other: &Host) -> Peer {
    start(host, &two_hosts_program(), &[role, &other.node.to_string()], &[])
}

/// An order of the owner, which ends with 1 if it finds anything wrong.
fn must(owner: &mut Peer, order: &str) {
    owner.say(order).unwrap();
    owner.expect("done").unwrap();
}

fn finish(peer: Peer) {
    let status = peer.finish().unwrap();
    assert!(status.success(), "the program ended with {status}; its reason stands above");
}

/// All that a user does, up to the end of the segment.
fn use_all(owner: &mut Peer, user: &mut Peer) {
    user.expect("copied 1").unwrap();
    must(owner, "check 1");
    must(owner, "fill 2");
    user.say("go on").unwrap();
    user.expect("copied 3").unwrap();
    must(owner, "check 3");
    user.say("go on").unwrap();
    user.expect("connected").unwrap();
    must(owner, "signalled 4");
    must(owner, "signal");
    user.expect("signalled").unwrap();
    must(owner, "message 11");
    user.say("go on").unwrap();
    user.expect("copied 5").unwrap();
    must(owner, "check 5");
    must(owner, "fill 6");
    user.say("go on").unwrap();
    user.expect("copied 7").unwrap();
    must(owner, "check 7");
    user.say("go on").unwrap();
}

#[test]
fn c_programs_copy_and_signal_between_hosts_without_a_map() {
    let _watchdog = Watchdog::usual("C programs on two hosts");
    if !c::is_there("cc") {
        return;
    }
    let Some((first, second)) = two_hosts() else { return };
    let mut owner = role(&second, "own", &first);
    owner.expect("ready").unwrap();
    let mut user = role(&first, "use", &second);
    use_all(&mut owner, &mut user);
    must(&mut owner, "withdraw");
    user.expect("ended").unwrap();
    finish(user);
    finish(owner);

    let mut owner = role(&second, "own", &first);
    owner.expect("ready").unwrap();
    let mut user = role(&first, "use-until-death", &second);
    use_all(&mut owner, &mut user);
    owner.kill().unwrap();
    user.expect("ended").unwrap();
    finish(user);
}

#[test]
fn unchanged_c_programs_that_only_copy_run_between_hosts() {
    let _watchdog = Watchdog::usual("unchanged C programs on two hosts");
    if !c::is_there("cc") {
        return;
    }
    let Some((first, second)) = two_hosts() else { return };
    let mut owner = role(&second, "own", &first);
    owner.expect("ready").unwrap();
    let copy_only = [("TIELINE_SISCI_COPY_ONLY", "1")];
    let mut user = start(&first, &two_hosts_program(), &["unchanged", "8"], &copy_only);
    user.expect("copied 8").unwrap();
    must(&mut owner, "check 8");
    user.say("go on").unwrap();
    finish(user);
    // A store through the pointer reaches no memory.
    let mut command = first.command(&two_hosts_program());
    // Where a provider's handler may leave a file about it.
    command.args(["store", "8"]).current_dir(c::made());
    let mut user = Peer::of(command).unwrap();
    user.expect("storing").unwrap();
    let after = user.line();
    assert!(after.is_err(), "it went on: {after:?}");
    // By SIGSEGV, or by the handler of a provider's library, which prints the place and exits.
    assert!(!user.finish().unwrap().success());
    finish(owner);
    // The examples that need no map.
    let example = |name: &str| {
        let source = c::top().join(format!("examples/sisci/{name}.c"));
        c::compile_as(&format!("hosts-example-{name}"), &source, &[])
    };
    let mut receiver = start(&first, &example("dma_vector"), &["receive"], &[]);
    let mut sender = start(&second, &example("dma_vector"), &["send", "4"], &[]);
    sender.expect("sent a matrix of 256 cells").unwrap();
    receiver.expect("received a matrix of 256 cells").unwrap();
    finish(sender);
    finish(receiver);
}

/// A C program whose maps of segments of other hosts are shadows.
fn with_shadow(host: &Host, program: &str, arguments: &[&str]) -> Peer {
    start(host, program, arguments, &[("TIELINE_SISCI_SHADOW", "1")])
}

fn shadow(host: &Host, role: &str, other: &Host) -> Peer {
    let source = c::top().join("tests/hosts/c/shadow.c");
    let shared = c::top().join("tests/sisci/c");
    let program = c::compile_as("hosts-shadow", &source, &["-O2", "-I", shared.to_str().unwrap()]);
    with_shadow(host, &program, &[role, &other.node.to_string()])
}

#[test]
fn c_programs_load_and_store_through_shadows_of_segments_of_another_host() {
    let _watchdog = Watchdog::usual("loads and stores between hosts");
    if !c::is_there("cc") || !cfg!(target_arch = "x86_64") {
        return;
    }
    let Some((first, second)) = two_hosts() else { return };
    let mut owner = shadow(&second, "own", &first);
    owner.expect("ready").unwrap();
    let mut user = shadow(&first, "use", &second);
    let mut next = |said: &str, orders: &[&str]| {
        user.expect(said).unwrap();
        orders.iter().for_each(|order| must(&mut owner, order));
        user.say("go on").unwrap();
    };
    next("stored", &["stored 3"]);
    next("stored", &["stored 9"]);
    next("in order", &["order 400"]);
    next("again", &["again 77"]);
    next("again", &["again 77"]);
    next("mixed", &["odd 22", "even 21"]);
    next("added", &["sum 1000"]);
    user.expect("looking").unwrap();
    must(&mut owner, "feed 300");
    user.expect("looked").unwrap();
    user.say("go on").unwrap();
    finish(user);
    // An owner that dies while the user stores: its sequence says so, and nothing hangs.
    let mut user = shadow(&first, "use-until-death", &second);
    user.expect("storing").unwrap();
    owner.kill().unwrap();
    user.expect("ended").unwrap();
    finish(user);
}

#[test]
fn a_store_through_a_shadow_that_is_read_only_faults() {
    let _watchdog = Watchdog::usual("read-only shadows");
    if !c::is_there("cc") || !cfg!(target_arch = "x86_64") {
        return;
    }
    let Some((first, second)) = two_hosts() else { return };
    let mut owner = shadow(&second, "own", &first);
    owner.expect("ready").unwrap();
    let mut user = shadow(&first, "read", &second);
    user.expect("looking").unwrap();
    must(&mut owner, "feed 1");
    user.expect("looked").unwrap();
    must(&mut owner, "number 100");
    user.say("go on").unwrap();
    finish(user);
    finish(owner);
}

#[test]
fn a_child_of_fork_has_nothing_of_the_shadows_of_its_parent() {
    let _watchdog = Watchdog::usual("children of a program with shadows");
    if !c::is_there("cc") || !cfg!(target_arch = "x86_64") {
        return;
    }
    let Some((first, second)) = two_hosts() else { return };
    let mut owner = shadow(&second, "own", &first);
    owner.expect("ready").unwrap();
    let mut parent = shadow(&first, "fork", &second);
    parent.expect("stored").unwrap();
    must(&mut owner, "stored 3");
    parent.say("go on").unwrap();
    parent.expect("added").unwrap();
    must(&mut owner, "sum 3000");
    must(&mut owner, "seen 3000");
    parent.say("go on").unwrap();
    finish(parent);
    finish(owner);
}

#[test]
fn stores_to_a_group_reach_members_on_all_hosts() {
    let _watchdog = Watchdog::usual("stores to a group on two hosts");
    if !c::is_there("cc") || !cfg!(target_arch = "x86_64") {
        return;
    }
    let Some((first, second)) = two_hosts() else { return };
    let member = |host: &Host, other: &Host| {
        let mut member = shadow(host, "member", other);
        member.expect("ready").unwrap();
        member
    };
    // Members on the other host alone; then one here, too.
    let mut far = member(&second, &first);
    let mut writer = shadow(&first, "write", &second);
    writer.expect("stored").unwrap();
    must(&mut far, "stored 3");
    let mut near = member(&first, &second);
    writer.say("go on").unwrap();
    writer.expect("storing").unwrap();
    must(&mut far, "await 9");
    must(&mut near, "await 9");
    writer.say("go on").unwrap();
    writer.expect("in order").unwrap();
    must(&mut far, "order 400");
    must(&mut near, "order 400");
    writer.say("go on").unwrap();
    writer.expect("copied").unwrap();
    must(&mut far, "copied 41");
    must(&mut near, "copied 41");
    // A member that dies is lost, and another one is reached.
    far.kill().unwrap();
    must(&mut near, "copied 41");
    let mut far = member(&second, &first);
    writer.say("go on").unwrap();
    writer.expect("storing").unwrap();
    must(&mut near, "await 5");
    must(&mut far, "await 5");
    writer.say("go on").unwrap();
    finish(writer);
    finish(near);
    finish(far);
}

#[test]
fn the_examples_that_load_and_store_run_between_hosts_with_shadows() {
    let _watchdog = Watchdog::usual("the C examples on two hosts");
    if !c::is_there("cc") || !cfg!(target_arch = "x86_64") {
        return;
    }
    let Some((first, second)) = two_hosts() else { return };
    let example = |name: &str| {
        let source = c::top().join(format!("examples/sisci/{name}.c"));
        c::compile_as(&format!("hosts-example-{name}"), &source, &[])
    };
    let (node, other) = (first.node.to_string(), second.node.to_string());
    let mut one = with_shadow(&first, &example("ping_pong"), &[&other, "200"]);
    let mut two = with_shadow(&second, &example("ping_pong"), &[&node, "200"]);
    one.expect(&format!("200 round trips with node {other}")).unwrap();
    two.expect(&format!("200 round trips with node {node}")).unwrap();
    finish(one);
    finish(two);
    let mut receiver = with_shadow(&first, &example("stream"), &["receive", "20"]);
    let mut sender = with_shadow(&second, &example("stream"), &["send", &node, "20"]);
    sender.expect(&format!("streaming to node {node}")).unwrap();
    sender.expect("sent 20 blocks, 0 again").unwrap();
    receiver.expect("received 20 blocks").unwrap();
    finish(sender);
    finish(receiver);
    let mut master = with_shadow(&first, &example("work_queue"), &["master", "50"]);
    let mut worker = with_shadow(&second, &example("work_queue"), &["worker", &node]);
    worker.expect("did 50 jobs").unwrap();
    master.expect("50 jobs done, 0 given out again").unwrap();
    finish(worker);
    finish(master);
}

#[test]
fn c_programs_are_told_what_is_missing_between_hosts() {
    let _watchdog = Watchdog::usual("C programs without what they need");
    if !c::is_there("cc") {
        return;
    }
    let Some((first, second)) = two_hosts() else { return };
    let mut owner = role(&second, "own", &first);
    owner.expect("ready").unwrap();
    let folder = without_libfabric();
    let variables = [("LD_LIBRARY_PATH", folder.to_str().unwrap())];
    finish(start(&first, &two_hosts_program(), &["without-libfabric", "8"], &variables));
    finish(owner);
}

#[test]
fn a_c_program_waits_for_a_link_that_is_taken_down() {
    let _watchdog = Watchdog::usual("a C program whose link is taken down");
    if !c::is_there("cc") {
        return;
    }
    let Some((first, second)) = two_hosts() else { return };
    let mut owner = role(&second, "own", &first);
    owner.expect("ready").unwrap();
    let mut user = role(&first, "link-down", &second);
    user.expect("connected").unwrap();
    // A node that nobody knows changes nothing.
    let (is_well, _, said) = first.run(&["link", "down", "4", "12"]);
    assert!(!is_well && said.contains("node 12"), "{said}");
    assert!(!first.tieline(&["link", "list"]).contains("taken down"));
    first.tieline(&["link", "down", "4", "8"]);
    until("the state at the other end", || second.tieline(&["link", "list"]).contains("taken down"));
    user.expect("told").unwrap();
    first.tieline(&["link", "up", "4", "8"]);
    user.expect("copied 10").unwrap();
    must(&mut owner, "check 10");
    user.say("go on").unwrap();
    finish(user);
    finish(owner);
}

#[test]
fn a_c_program_whose_cable_is_cut_is_told_and_connects_again() {
    let _watchdog = Watchdog::usual("a C program whose cable is cut");
    if !c::is_there("cc") {
        return;
    }
    let Some((first, second)) = two_hosts() else { return };
    let mut owner = role(&second, "own", &first);
    owner.expect("ready").unwrap();
    let mut user = role(&first, "cut", &second);
    user.expect("connected").unwrap();
    second.cable("down");
    user.say("cut").unwrap();
    user.expect("failed").unwrap();
    until("the loss of the session", || first.session(8) != "valid");
    second.cable("up");
    see_each_other(&first, &second);
    user.say("again").unwrap();
    user.expect("copied 9").unwrap();
    must(&mut owner, "check 9");
    user.say("go on").unwrap();
    finish(user);
    finish(owner);
}
