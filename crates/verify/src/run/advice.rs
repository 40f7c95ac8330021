//! The next steps, by the suspects and what is known of them.

use proto::wire::status::LinkStatus;
use tieline::NodeId;

use super::{Start, Step, Verdict, others};
use crate::agent::Elsewhere;
use crate::status::ClusterReport;
use crate::suspect::{Suspect, Suspected};

/// What advice depends on, beside the suspects.
pub(super) struct Known<'a> {
    pub(super) steps: &'a [Step],
    /// All links, each with the end that says it.
    pub(super) links: Vec<(NodeId, &'a LinkStatus)>,
    /// Why speed could not be judged.
    pub(super) busy: Option<&'a str>,
    /// Why there is not all of it.
    pub(super) partial: Option<&'a str>,
    /// The nodes of other hosts.
    pub(super) others: &'a [Elsewhere],
    /// What starts a cluster like the one that was tested, if that was the test's own: then it is gone.
    pub(super) own: Option<String>,
    /// The command line.
    pub(super) argv: &'a [String],
}

/// What to do next, the most telling first.
pub(super) fn advice(suspects: &[Suspected], known: &Known<'_>) -> Vec<String> {
    let Known { steps, busy, partial, .. } = known;
    let mut advice = about_suspects(suspects, known);
    let in_doubt =
        |step: &&Step| step.verdict == Verdict::Inconclusive && !step.detail.starts_with(super::SKIPPED);
    let (spoilt, unsure): (Vec<&Step>, Vec<&Step>) =
        steps.iter().filter(in_doubt).partition(|step| busy.is_some() && super::busy::is_spoilt(step));
    let names = |steps: &[&Step]| steps.iter().map(|step| step.name).collect::<Vec<_>>();
    let (spoilt, unsure) = (names(&spoilt), names(&unsure));
    if let Some(why) = busy.filter(|_| !spoilt.is_empty()) {
        let what = spoilt.join(", ");
        advice.push(format!("{what}: {why}; run it again when that work has ended, or end it"));
    }
    let unsure: Vec<&str> = unsure.into_iter().filter(|name| *name != "hosts").collect();
    // Each pair has its own reason; to measure for longer does not help.
    let unmeasured = steps.iter().find(|step| in_doubt(step) && step.name == "hosts");
    if let Some(step) = unmeasured.filter(|_| partial.is_none()) {
        advice.push(format!("hosts: not every pair of hosts could be measured: {}", step.detail));
    }
    if !unsure.is_empty() && partial.is_none() {
        let what = unsure.join(", ");
        advice.push(format!(
            "{what}: too close to the limit to judge; measure longer with `tieline verify --thorough`"
        ));
    }
    // Each step says the same.
    let skipped = steps.iter().filter(|step| step.verdict == Verdict::Inconclusive);
    let mut skipped = skipped.filter_map(|step| step.detail.strip_prefix(super::SKIPPED)).collect::<Vec<_>>();
    skipped.dedup();
    advice.extend(skipped.into_iter().map(|why| format!("not everything could be tested: {why}")));
    if let Some(why) = partial {
        let command = as_started(known.argv);
        advice.push(format!("this is a part of the whole ({why}): run `{command}` to its end"));
    }
    advice
}

/// What was done on purpose is undone first; of a cluster that is gone nothing can be examined any more.
fn about_suspects(suspects: &[Suspected], known: &Known<'_>) -> Vec<String> {
    if let (Some(up), [first, ..]) = (&known.own, suspects) {
        let who = match suspects.len() {
            1 => first.suspect.to_string(),
            count => format!("{} and {} more", first.suspect, count - 1),
        };
        return vec![format!(
            "{who}: the tested cluster was temporary and is stopped: start a lasting one with `{up}`, and test \
             it with `tieline verify --running`"
        )];
    }
    let about = |suspected: &Suspected| {
        let undo = on_purpose(suspected, &known.links);
        // A node may be to blame for more than what was done to its links.
        let far = others::next_step(known.others, suspected);
        let is_all = undo.is_some() && matches!(suspected.suspect, Suspect::Link(_));
        undo.into_iter().chain((!is_all).then(|| far.unwrap_or_else(|| suspected.next_step())))
    };
    suspects.iter().flat_map(about).collect()
}

/// What ends a fault that was made on purpose, if the suspect has one.
fn on_purpose(suspected: &Suspected, links: &[(NodeId, &LinkStatus)]) -> Option<String> {
    let of_suspect = |(node, link): &(NodeId, &LinkStatus)| {
        let ends = Suspect::Link([*node.min(&link.peer), *node.max(&link.peer)]);
        suspected.suspect.explains(&ends).then(|| made_on_purpose(&ends, link)).flatten()
    };
    let mut made: Vec<String> = links.iter().filter_map(of_suspect).collect();
    // Both ends say the same of a link that was taken down.
    made.sort_unstable();
    made.dedup();
    let (first, rest) = made.split_first()?;
    let whose = if matches!(suspected.suspect, Suspect::Link(_)) {
        String::new()
    } else {
        format!("{}: its ", suspected.suspect)
    };
    let more = if rest.is_empty() {
        String::new()
    } else {
        format!(" ({} more: see `tieline link list`)", rest.len())
    };
    Some(format!("{whose}{first}{more}; then run `tieline verify --running` again"))
}

fn made_on_purpose(ends: &Suspect, link: &LinkStatus) -> Option<String> {
    let Suspect::Link([a, b]) = ends else { return None };
    if link.taken_down {
        return Some(format!("{ends} was taken down: `tieline link up {a} {b}` brings it up"));
    }
    let faults = &link.faults;
    (!faults.is_none()).then(|| {
        format!("{ends} is made worse on purpose ({faults}): `tieline link clear {a} {b}` ends that")
    })
}

/// All links, each with the end that says it.
pub(super) fn links_of(status: &ClusterReport) -> Vec<(NodeId, &LinkStatus)> {
    status
        .nodes
        .iter()
        .flat_map(|report| {
            let node = report.node;
            report.status.iter().flat_map(|status| &status.links).map(move |link| (node, link))
        })
        .collect()
}

/// What starts a cluster like the test's own.
pub(super) fn up_command(start: &Start) -> Option<String> {
    let Start::Own(own) = start else { return None };
    let config = own.config.as_ref();
    let config =
        config.map(|path| format!(" --config {}", for_shell(&path.to_string_lossy()))).unwrap_or_default();
    Some(format!("tieline up --nodes {}{config}", own.nodes))
}

/// The command `tieline verify` as it was started, whatever the path of its program, for a shell.
pub fn as_started(argv: &[String]) -> String {
    let words: Vec<String> = argv.iter().skip(1).map(|word| for_shell(word)).collect();
    format!("tieline {}", if words.is_empty() { "verify".to_owned() } else { words.join(" ") })
}

/// A word that a shell takes for what it is.
fn for_shell(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use proto::fault::LinkFaults;
    use proto::ids::AdapterNo;
    use proto::wire::status::SessionState;

    use super::*;

    fn id(number: u32) -> NodeId {
        NodeId::new(number).unwrap()
    }

    fn link(a: u32, b: u32) -> Suspected {
        Suspected { suspect: Suspect::Link([id(a), id(b)]), evidence: vec!["lost".into()] }
    }

    /// The link of node 4 to node 8, as node 4 sees it.
    fn changed(change: impl Fn(&mut LinkStatus)) -> LinkStatus {
        let mut link = LinkStatus {
            adapter: AdapterNo(0),
            peer: id(8),
            peer_host: "here".into(),
            other_host: false,
            kind: Default::default(),
            session: SessionState::Valid,
            reason: None,
            generation: 1,
            since_ns: 1,
            downtime_ns: 0,
            taken_down: false,
            partner: id(8),
            faults: LinkFaults::default(),
            heartbeats_received: 1,
            heartbeats_missed: 0,
            round_trip_ns: None,
            least_round_trip_ns: None,
            clock_offset_ns: None,
            clock_error_ns: None,
            address: None,
            via: None,
        };
        change(&mut link);
        link
    }

    fn known<'a>(steps: &'a [Step], link: &'a LinkStatus) -> Known<'a> {
        Known {
            steps,
            links: vec![(id(4), link)],
            busy: None,
            partial: None,
            others: &[],
            own: None,
            argv: &[],
        }
    }

    #[test]
    fn what_was_done_on_purpose_is_undone_by_the_command_that_is_named() {
        let of = |suspected: Suspected, link: &LinkStatus| advice(&[suspected], &known(&[], link)).remove(0);
        assert!(of(link(4, 8), &changed(|_| {})).contains("compare `tieline link list`"));
        let down = changed(|link| link.taken_down = true);
        assert!(of(link(4, 8), &down).contains("`tieline link up 4 8`"), "{}", of(link(4, 8), &down));
        assert!(of(link(4, 12), &down).contains("compare"), "another link");
        let worse = changed(|link| link.faults = LinkFaults { lose_ppm: 10_000, ..LinkFaults::default() });
        let node = Suspected { suspect: Suspect::Node(id(8)), evidence: Vec::new() };
        for suspected in [link(4, 8), node] {
            let said = of(suspected.clone(), &worse);
            assert!(said.starts_with(&suspected.suspect.to_string()), "{said}");
            assert!(said.contains("loss") && said.contains("`tieline link clear 4 8`"), "{said}");
            let pieces = advice(std::slice::from_ref(&suspected), &known(&[], &worse)).len();
            let is_node = matches!(suspected.suspect, Suspect::Node(_));
            assert_eq!(pieces, 1 + usize::from(is_node), "a node may have other troubles, too");
        }
    }

    #[test]
    fn of_a_cluster_that_is_gone_nothing_can_be_looked_at() {
        let link_status = changed(|_| {});
        let own = Some("tieline up --nodes 3".to_owned());
        let said = advice(&[link(4, 8), link(4, 12)], &Known { own, ..known(&[], &link_status) });
        assert_eq!(said.len(), 1);
        assert!(
            said[0].starts_with("link 4-8 and 1 more: ") && said[0].contains("`tieline up --nodes 3`"),
            "{said:?}"
        );
    }

    #[test]
    fn what_is_partial_names_the_command_as_it_was_started() {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let argv = words(&["/opt/tieline", "verify", "--report", "Bob's page.html"]);
        assert_eq!(as_started(&argv), r"tieline verify --report 'Bob'\''s page.html'");
        let (argv, link_status) =
            (words(&["/opt/tieline", "verify", "--running", "--quick"]), changed(|_| {}));
        let partial = Some("ended early by a signal");
        let said = advice(
            &[Suspected::swapped([id(8), id(12)])],
            &Known { partial, argv: &argv, ..known(&[], &link_status) },
        );
        assert!(said[0].contains("nodes 8 and 12"), "{said:?}");
        assert!(said[1].contains("`tieline verify --running --quick` to its end"), "{said:?}");
    }

    #[test]
    fn who_is_in_doubt_because_of_other_work_is_not_told_to_measure_longer() {
        let step = |name, others_percent| Step {
            name,
            verdict: Verdict::Inconclusive,
            detail: String::new(),
            duration_s: 1.0,
            load: bench::noise::others::Load {
                processors: 2,
                others_percent: Some(others_percent),
                waited_percent: None,
            },
        };
        let (steps, link_status) = ([step("pairs", 80.0), step("scipp", 1.0)], changed(|_| {}));
        let busy = super::super::busy::reason(&steps);
        let both = advice(&[], &Known { busy: busy.as_deref(), ..known(&steps, &link_status) });
        assert!(both[0].starts_with("pairs: the machine was busy: other work used 80 %"), "{both:?}");
        assert!(!both[0].contains("longer") && both[1].starts_with("scipp: too close"), "{both:?}");
        assert!(advice(&[], &known(&[step("scipp", 1.0)], &link_status))[0].contains("measure longer"));
    }
}
