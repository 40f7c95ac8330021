//! Node managers on hosts that are really apart: no file, no memory and no UNIX socket is shared between
//! them.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, clippy::print_stderr)]

mod hostile;
mod lab;

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use lab::{Lab, eventually};

/// The first host makes the cluster, the others join one after the other.
fn cluster(nodes: &[u32]) -> Option<Lab> {
    let mut lab = Lab::new(nodes)?;
    let [first, others @ ..] = lab.hosts.as_mut_slice() else { panic!("no hosts") };
    first.ask(&["init", &first.node.to_string(), &first.address]).unwrap();
    first.start();
    for host in others {
        let token = first.ask(&["token", "600"]).unwrap();
        let joined = host.ask(&["join", &first.address, &token, &host.node.to_string()]).unwrap();
        assert_eq!(joined, format!("{} {}:7411", host.node, host.address));
        host.start();
    }
    Some(lab)
}

fn all_see_each_other(lab: &Lab) {
    let nodes: Vec<u32> = lab.hosts.iter().map(|host| host.node).collect();
    for host in &lab.hosts {
        let others: Vec<u32> = nodes.iter().copied().filter(|node| *node != host.node).collect();
        eventually(&format!("node {} sees {others:?}: {:?}", host.node, host.links()), || host.sees(&others));
    }
}

/// The higher id dials: node 12 learns the address of node 8, which joins after it, from node 4.
#[test]
fn three_hosts_join_see_each_other_and_survive_a_death_and_a_cut_cable() {
    let Some(mut lab) = cluster(&[4, 12, 8]) else { return };
    all_see_each_other(&lab);

    // Data does not pass through managers: programs open end points of their own, at the manager's address.
    let rails = format!("on another host than [{}]", lab.hosts[0].address);
    assert_eq!(lab.hosts[0].connect(8, 7), Ok(rails));

    lab.hosts[1].kill();
    for at in [0, 2] {
        eventually("the death is noticed", || lab.hosts[at].link(12).starts_with("Lost"));
    }
    assert!(lab.hosts[0].sees(&[8]), "others are not concerned");
    lab.hosts[1].start();
    all_see_each_other(&lab);

    lab.cable(2, "down");
    eventually("the cut is noticed", || lab.hosts[0].link(8).starts_with("Lost"));
    eventually("at the other side too", || lab.hosts[2].link(12).starts_with("Lost"));
    assert!(lab.hosts[0].sees(&[12]), "others are not concerned");
    lab.cable(2, "up");
    all_see_each_other(&lab);
}

#[test]
fn strangers_on_the_port_get_nothing_and_delay_nobody() {
    let Some(mut lab) = cluster(&[4, 8, 12]) else { return };
    all_see_each_other(&lab);
    let address = format!("{}:7411", lab.hosts[0].address);
    let mut disturber = lab.hosts[2].command(&["disturb", &address]);
    let mut disturber = disturber.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    let mut said = BufReader::new(disturber.stdout.take().unwrap());
    said.read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");

    // While they are there: sessions stay, a node comes back, and one that was never there joins.
    assert!(lab.hosts[0].sees(&[8, 12]));
    lab.hosts[1].kill();
    eventually("the death is noticed", || lab.hosts[0].link(8).starts_with("Lost"));
    lab.hosts[1].start();
    eventually("it comes back", || lab.hosts[0].sees(&[8]));
    let token = lab.hosts[0].ask(&["token", "600"]).unwrap();
    let host = lab.hosts[0].address.clone();
    assert!(lab.hosts[1].ask(&["join", &host, &token, "16"]).unwrap().starts_with("16 "));
    assert!(lab.hosts[0].sees(&[12]), "{:?}", lab.hosts[0].links());

    // A token is used once, and in time.
    let refused = lab.hosts[1].ask(&["join", &host, &token, "20"]).unwrap_err();
    assert!(refused.contains("the token is not valid (used already"), "{refused}");
    let late = lab.hosts[0].ask(&["token", "0"]).unwrap();
    let refused = lab.hosts[1].ask(&["join", &host, &late, "20"]).unwrap_err();
    assert!(refused.contains("the token has expired"), "{refused}");

    drop(disturber.stdin.take());
    disturber.wait().unwrap();
}

#[test]
fn a_node_of_another_cluster_is_told_so_and_gets_nothing() {
    let Some(mut lab) = cluster(&[4, 8]) else { return };
    all_see_each_other(&lab);
    // The second host makes a cluster of the same name, and knows the address of the first.
    let address = lab.hosts[0].address.clone();
    lab.hosts[1].kill();
    std::fs::remove_dir_all(lab.hosts[1].config()).unwrap();
    let own = lab.hosts[1].address.clone();
    lab.hosts[1].ask(&["init", "8", &own]).unwrap();
    std::fs::write(lab.hosts[1].config().join("hosts"), format!("4 {address}:7411\n")).unwrap();
    lab.hosts[1].start();
    eventually("it is told why", || lab.hosts[1].link(4).contains("is not of this cluster's authority"));
    assert!(!lab.hosts[0].link(8).starts_with("Valid"));
}

/// A member may name as many hosts as it likes.
#[test]
fn addresses_that_lead_nowhere_are_dialled_few_at_a_time_and_delay_no_known_node() {
    let Some(mut lab) = cluster(&[4, 4000]) else { return };
    all_see_each_other(&lab);
    lab.hosts[1].kill();
    // In its own network, so that nothing refuses them.
    let list = lab.hosts[1].config().join("hosts");
    let nowhere = (1..=200).map(|nth| format!("{} 10.77.1.{}:7411\n", 400 + 4 * nth, 20 + nth));
    std::fs::write(&list, std::fs::read_to_string(&list).unwrap() + &nowhere.collect::<String>()).unwrap();
    lab.hosts[1].start();
    let few = |lab: &Lab| {
        // The kernel's table is read in pieces: one that ended and the next one may both be in it.
        let unanswered = (0..5).map(|_| lab.hosts[1].unanswered()).min().unwrap_or_default();
        assert!(unanswered <= 32, "{unanswered} hosts are dialled at once");
        unanswered
    };
    eventually("as many as may be are dialled", || few(&lab) == 32);
    eventually("the other node is there", || few(&lab) <= 32 && lab.hosts[1].sees(&[4]));
    lab.hosts[0].kill();
    eventually("its death is noticed", || few(&lab) <= 32 && lab.hosts[1].link(4).starts_with("Lost"));
    lab.hosts[0].start();
    eventually("it is back", || few(&lab) <= 32 && lab.hosts[1].sees(&[4]));
}

/// Half of it would be taken for the whole by the next `init`.
#[test]
fn a_host_without_room_for_an_authority_keeps_nothing_of_it() {
    let Some(mut lab) = Lab::new(&[4]) else { return };
    let address = lab.hosts[0].address.clone();
    let refused = lab.hosts[0].ask_without_room(&["init", "4", &address]).unwrap_err();
    assert!(refused.starts_with("cannot write "), "{refused}");
    let place = lab.hosts[0].config().parent().unwrap().to_owned();
    assert_eq!(std::fs::read_dir(&place).unwrap().count(), 0, "something was left behind");
    lab.hosts[0].ask(&["init", "4", &address]).unwrap();
    lab.hosts[0].start();
}

/// A directory in the place of a file refuses the write as a full disk does, for the superuser, too.
#[test]
fn a_list_that_the_disk_has_refused_is_stored_when_there_is_room() {
    let Some(mut lab) = Lab::new(&[4, 8, 12]) else { return };
    let first = lab.hosts[0].address.clone();
    lab.hosts[0].ask(&["init", "4", &first]).unwrap();
    lab.hosts[0].start();
    let joins = |host: &mut lab::Host, token: &str, node: &str| {
        host.ask(&["join", &first, token, node]).unwrap();
        host.start();
    };
    let [one, other] = [0, 1].map(|_| lab.hosts[0].ask(&["token", "600"]).unwrap());
    joins(&mut lab.hosts[1], &one, "8");
    eventually("a session", || lab.hosts[1].sees(&[4]));
    let list = lab.hosts[1].config().join("hosts");
    std::fs::remove_file(&list).unwrap();
    std::fs::create_dir_all(list.join("full")).unwrap();
    joins(&mut lab.hosts[2], &other, "12");
    eventually("the other session", || lab.hosts[1].sees(&[4, 12]));
    // The news is stored within a second, if it can be.
    std::thread::sleep(std::time::Duration::from_secs(2));
    std::fs::remove_dir_all(&list).unwrap();
    eventually("it is stored", || std::fs::read_to_string(&list).is_ok_and(|text| text.contains("12 ")));
}

/// A token lets one host in once.
#[test]
fn a_host_without_room_for_its_keys_keeps_its_token() {
    let Some(mut lab) = Lab::new(&[4, 8]) else { return };
    let first = lab.hosts[0].address.clone();
    lab.hosts[0].ask(&["init", "4", &first]).unwrap();
    lab.hosts[0].start();
    let token = lab.hosts[0].ask(&["token", "600"]).unwrap();
    let refused = lab.hosts[1].ask_without_room(&["join", &first, &token, "8"]).unwrap_err();
    let place = lab.hosts[1].config().parent().unwrap().to_owned();
    let begin = format!("there is no room for the keys in {}: ", place.display());
    assert!(refused.starts_with(&begin) && refused.ends_with("the token was not used"), "{refused}");
    assert_eq!(std::fs::read_dir(&place).unwrap().count(), 0, "something was left behind");
    let joined = lab.hosts[1].ask(&["join", &first, &token, "8"]).unwrap();
    assert_eq!(joined, format!("8 {}:7411", lab.hosts[1].address));
}

#[test]
fn a_node_renews_its_certificate_at_the_authority_and_nowhere_else() {
    let Some(mut lab) = cluster(&[4, 8, 12]) else { return };
    all_see_each_other(&lab);
    let [first, second] = [0, 1].map(|at| lab.hosts[at].address.clone());
    let file = lab.hosts[1].config().join("node-8.crt");
    let before = std::fs::read(&file).unwrap();
    let refused = lab.hosts[1].ask(&["renew", "8"]).unwrap_err();
    assert!(refused.contains("this host does not have the authority's key"), "{refused}");
    let refused = lab.hosts[2].ask(&["renew", "12", &second]).unwrap_err();
    assert!(refused.contains("this host has no authority: give the host where"), "{refused}");
    let refused = lab.hosts[1].ask(&["renew", "16", &first]).unwrap_err();
    assert!(refused.contains("node 16 has no certificate"), "{refused}");
    assert_eq!(std::fs::read(&file).unwrap(), before);

    assert_eq!(lab.hosts[1].ask(&["renew", "8", &first]), Ok("8".to_owned()));
    assert_ne!(std::fs::read(&file).unwrap(), before);
    assert_eq!(lab.hosts[0].ask(&["renew", "4"]), Ok("4".to_owned()));
    for at in [0, 1] {
        lab.hosts[at].kill();
        lab.hosts[at].start();
    }
    all_see_each_other(&lab);
}

/// Of what the authority revokes, everybody learns, also who was not there.
#[test]
fn a_revoked_node_is_refused_by_every_host_and_joins_again_with_a_new_token() {
    let Some(mut lab) = cluster(&[4, 8, 12, 16]) else { return };
    all_see_each_other(&lab);
    let old = lab.hosts[1].certificate_and_key();
    // One manager does not hear of it, and starts afterwards.
    lab.hosts[3].kill();
    let refused = lab.hosts[1].ask(&["revoke", "12", &lab.hosts[1].runtime()]).unwrap_err();
    assert!(refused.contains("has no key of an authority"), "{refused}");
    for (node, why) in [
        ("4", "node 4 cannot leave or be revoked: this host has the authority's key"),
        ("400", "nothing to revoke"),
    ] {
        let refused = lab.hosts[0].ask(&["revoke", node, &lab.hosts[0].runtime()]).unwrap_err();
        assert!(refused.contains(why), "{refused}");
    }
    let revoke = |lab: &Lab| lab.hosts[0].ask(&["revoke", "8", &lab.hosts[0].runtime()]);
    assert_eq!(revoke(&lab), Ok("already false passed on true".to_owned()));
    assert_eq!(revoke(&lab), Ok("already true passed on true".to_owned()));
    let is_revoked = |lab: &Lab, at: usize| lab.hosts[at].link(8).starts_with("Revoked true");
    for at in [0, 2] {
        eventually("the session ends", || is_revoked(&lab, at));
        assert!(lab.hosts[at].link(8).contains("its certificate was revoked"));
    }
    for other in [4, 12] {
        eventually("it knows why", || {
            lab.hosts[1].link(other).contains("this node's certificate was revoked")
        });
    }
    lab.hosts[3].start();
    eventually("who was not there learns of it", || is_revoked(&lab, 3));
    assert!(lab.hosts[0].sees(&[12, 16]) && lab.hosts[2].sees(&[4, 16]), "others are not concerned");

    // It cannot come back by being started again, not even if it forgets what it was told.
    lab.hosts[1].kill();
    std::fs::remove_file(lab.hosts[1].config().join("revoked")).unwrap();
    lab.hosts[1].start();
    eventually("it is refused", || lab.hosts[1].link(4).contains("because it was revoked"));
    assert!(is_revoked(&lab, 0) && is_revoked(&lab, 2) && is_revoked(&lab, 3));
    let first = lab.hosts[0].address.clone();
    let refused = lab.hosts[1].ask(&["renew", "8", &first]).unwrap_err();
    assert!(refused.contains("because it was revoked: join again with a token"), "{refused}");
    // The others remember it when they are started again.
    lab.hosts[2].kill();
    lab.hosts[2].start();
    eventually("it is known at once", || is_revoked(&lab, 2));

    let token = lab.hosts[0].ask(&["token", "600", "8"]).unwrap();
    assert!(lab.hosts[1].ask(&["join", &first, &token, "8"]).unwrap().starts_with("8 "));
    lab.hosts[1].kill();
    lab.hosts[1].start();
    all_see_each_other(&lab);
    // What was revoked stays so.
    lab.hosts[1].kill();
    lab.hosts[1].put_back(&old);
    lab.hosts[1].start();
    eventually("the old one is refused", || lab.hosts[1].link(4).contains("was revoked"));
    assert!(!lab.hosts[0].link(8).starts_with("Valid"));
}

#[test]
fn a_manager_that_cannot_read_the_list_of_revoked_certificates_does_not_start() {
    let Some(mut lab) = cluster(&[4, 8]) else { return };
    all_see_each_other(&lab);
    lab.hosts[0].ask(&["revoke", "8", &lab.hosts[0].runtime()]).unwrap();
    eventually("the session ends", || lab.hosts[0].link(8).starts_with("Revoked true"));
    lab.hosts[0].kill();
    let file = lab.hosts[0].config().join("revoked");
    let list = std::fs::read(&file).unwrap();
    std::fs::write(&file, &list[..list.len() / 2]).unwrap();
    let runtime = lab.hosts[0].runtime();
    let refused = lab.hosts[0].ask(&["run", "4", &runtime]).unwrap_err();
    assert!(refused.contains("the list of revoked certificates is damaged"), "{refused}");
    std::fs::write(&file, &list).unwrap();
    lab.hosts[0].start();
    eventually("it is known at once", || lab.hosts[0].link(8).starts_with("Revoked true"));
}

#[test]
fn a_node_that_leaves_is_forgotten_by_all_and_by_its_own_host() {
    let Some(mut lab) = cluster(&[4, 8, 12]) else { return };
    all_see_each_other(&lab);
    let old = lab.hosts[1].certificate_and_key();
    let hosts = lab.hosts[1].config().join("hosts");
    let (first, third) = (lab.hosts[0].address.clone(), lab.hosts[2].address.clone());
    let leave = |lab: &Lab, host: &str| lab.hosts[1].ask(&["leave", "8", &lab.hosts[1].runtime(), host]);
    assert!(leave(&lab, &first).unwrap_err().contains("node 8 runs: stop it first"));
    lab.hosts[1].kill();
    let refused = leave(&lab, &third).unwrap_err();
    assert!(refused.contains("this host has no authority"), "{refused}");
    assert!(hosts.exists(), "nothing is removed before the authority has answered");
    let list = std::fs::read(&hosts).unwrap();
    assert_eq!(leave(&lab, &first), Ok("8".to_owned()));
    assert!(!lab.hosts[1].config().exists());
    for at in [0, 2] {
        eventually("it is not listed", || lab.hosts[at].link(8).is_empty());
        let known = lab.hosts[at].config().join("hosts");
        eventually("its address is gone", || !std::fs::read_to_string(&known).unwrap().contains("8 10.77"));
    }
    assert!(lab.hosts[0].sees(&[12]), "others are not concerned");
    // Who kept its key is refused, and its address does not come back by who still knows it.
    std::fs::create_dir_all(lab.hosts[1].config()).unwrap();
    lab.hosts[1].restore(&lab.hosts[2], &old, &list);
    lab.hosts[1].start();
    eventually("it is refused", || lab.hosts[1].link(4).contains("because it was revoked"));
    lab.hosts[2].kill();
    std::fs::write(lab.hosts[2].config().join("hosts"), &list).unwrap();
    lab.hosts[2].start();
    eventually("the others are there", || lab.hosts[2].sees(&[4]));
    assert_eq!((lab.hosts[0].link(8), lab.hosts[2].link(8)), (String::new(), String::new()));
}

/// The higher ID dials, and the others do not hear of the new address from anybody else: of the first node
/// nobody can, as nobody reaches it.
#[test]
fn a_node_whose_address_has_changed_is_found_by_those_who_dial_it() {
    let Some(mut lab) = cluster(&[4, 8, 12]) else { return };
    all_see_each_other(&lab);
    for moved in [1, 0] {
        let node = lab.hosts[moved].node;
        lab.hosts[moved].kill();
        let others: Vec<usize> = (0..3).filter(|at| *at != moved).collect();
        for at in others {
            eventually("the death is noticed", || lab.hosts[at].link(node).starts_with("Lost"));
        }
        let address = format!("{}:7500", lab.hosts[moved].address);
        std::fs::write(lab.hosts[moved].config().join(format!("node-{node}.address")), address).unwrap();
        lab.hosts[moved].start();
        all_see_each_other(&lab);
    }
}
