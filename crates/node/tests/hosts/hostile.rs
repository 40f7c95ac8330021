//! A member of the cluster that has a certificate, and lies about addresses.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Stdio};
use std::time::Instant;

use super::lab::{Host, Lab, eventually};

/// A process of a host that obeys, and says what it has done.
struct Obedient {
    process: Child,
    said: BufReader<ChildStdout>,
}

impl Obedient {
    fn start(host: &Host, words: &[&str]) -> Self {
        let mut command = host.command(words);
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let said = BufReader::new(process.stdout.take().unwrap());
        Self { process, said }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.said.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    fn obey(&mut self, line: &str) {
        writeln!(self.process.stdin.as_mut().unwrap(), "{line}").unwrap();
        assert_eq!(self.line(), line);
    }

    /// The rest of what it says, until it has been killed.
    fn rest(mut self) -> Vec<String> {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        self.said.lines().map_while(Result::ok).collect()
    }
}

/// The first host has the authority, the second one a manager, and the third a certificate.
fn lab(nodes: [u32; 3]) -> Option<Lab> {
    let mut lab = Lab::new(&nodes)?;
    let first = lab.hosts[0].address.clone();
    lab.hosts[0].ask(&["init", &nodes[0].to_string(), &first]).unwrap();
    lab.hosts[0].start();
    for at in [1, 2] {
        let token = lab.hosts[0].ask(&["token", "600"]).unwrap();
        lab.hosts[at].ask(&["join", &first, &token, &nodes[at].to_string()]).unwrap();
    }
    lab.hosts[1].start();
    eventually("the honest ones", || lab.hosts[1].sees(&[nodes[0]]) && lab.hosts[0].sees(&[nodes[1]]));
    Some(lab)
}

fn hostile(lab: &Lab) -> Obedient {
    let [_, victim, hostile] = lab.hosts.as_slice() else { panic!("three hosts") };
    let words = [hostile.node.to_string(), victim.node.to_string(), format!("{}:7411", victim.address)];
    Obedient::start(hostile, &["hostile", &words[0], &words[1], &words[2]])
}

/// Else a manager dials what a member made up, and shows it, for as long as it runs.
#[test]
fn what_a_revoked_member_has_made_up_is_neither_shown_nor_dialled_any_more() {
    let Some(lab) = lab([4, 4000, 4004]) else { return };
    let mut member = hostile(&lab);
    member.obey("hello");
    eventually("its session", || lab.hosts[1].sees(&[4, 4004]));
    // In the network of the victim, so that nothing refuses them.
    member.obey("tell 400 10.77.1.20:7411 404 10.77.1.21:7411 408 10.77.1.22:7411");
    let made_up = [400, 404, 408];
    let shown = |at: usize| made_up.iter().filter(|node| !lab.hosts[at].link(**node).is_empty()).count();
    eventually("what it made up", || shown(1) == 3 && lab.hosts[1].unanswered() > 0);
    lab.hosts[0].ask(&["revoke", "4004", &lab.hosts[0].runtime()]).unwrap();
    eventually("the revocation", || lab.hosts[1].link(4004).starts_with("Revoked true"));
    eventually("it has gone with it", || shown(1) == 0 && lab.hosts[1].unanswered() == 0);
    assert_eq!(shown(0), 0, "it was not passed on");
    assert!(lab.hosts[1].sees(&[4]) && lab.hosts[0].sees(&[4000]), "others are not concerned");
    member.rest();
}

/// The victim dials the member, which has no session, at each address that it says it has.
#[test]
fn a_member_that_changes_its_address_all_the_time_has_few_of_them_dialled() {
    let Some(lab) = lab([4, 4000, 8]) else { return };
    let host = &lab.hosts[2];
    // 4,096 addresses.
    host.run(&["ip", "route", "add", "local", "10.77.16.0/20", "dev", "lo"]);
    lab.route("10.77.16.0/20", &host.address);
    let mut answering = Obedient::start(host, &["answer", "0.0.0.0:9000"]);
    assert_eq!(answering.line(), "ready");
    let (mut member, start) = (hostile(&lab), Instant::now());
    let changes = 3000;
    member.obey(&format!("own 10.77.16.1:9000 {changes}"));
    let dialled: BTreeSet<String> = std::iter::once(answering.line()).chain(answering.rest()).collect();
    // The test's clock says for how long the victim had time: it is told once a second, and tries six times
    // within that.
    let most = 10 * (start.elapsed().as_secs() as usize + 2);
    assert!(dialled.len() <= most, "{} of {changes} addresses were dialled, {most} may be", dialled.len());
    assert!(lab.hosts[1].sees(&[4]), "others are not concerned");
    member.rest();
}
