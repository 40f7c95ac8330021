//! The status report of the node.

use serde::Serialize;

use super::objects::Body;
use super::sharing::is_attachment;
use super::{Manager, Peer};
use crate::ids::{AdapterNo, NodeId};
use crate::time::Instant;
use crate::wire::status::{
    LinkKind, LinkStatus, MAX_LISTED, NodeStatus, ProgramStatus, SegmentStatus, SessionState,
};

/// What the lists may take of a datagram of [`crate::wire::MAX_DATAGRAM_BYTES`]; the facts and the rest have
/// what is left.
pub(super) const LINKS_BYTES: usize = 36 * 1024;
pub(super) const PROGRAMS_BYTES: usize = 12 * 1024;
pub(super) const SEGMENTS_BYTES: usize = 8 * 1024;
/// How long reasons may be: the first bound that lets all links fit. The first one has room for a cause and
/// its next step.
pub(super) const REASON_BYTES: [usize; 4] = [480, 160, 40, 0];
/// What stands for the rest of a text.
const REST: char = '…';

impl Manager {
    /// The state of this node at `now`.
    pub fn status(&self, now: Instant) -> NodeStatus {
        let seen = self.peers.values().filter(|peer| peer.seen).count();
        NodeStatus {
            info: self.config.info.clone(),
            uptime_ns: nanos(now.since(self.started)),
            links: self.links(now),
            links_total: seen as u64,
            programs: self.program_list(),
            programs_total: self.programs.values().filter(|program| program.attached()).count() as u64,
            segments: self.segment_list(),
            segments_total: self.segments,
            interrupts_total: self.interrupts,
            reduced: self.reduced(now),
            relayed: self.relayed_pairs(now),
            descriptors: self.tokens.len() as u64,
            counters: self.counters,
        }
    }

    /// All links with their reasons; with shorter ones, or without, if there are too many.
    fn links(&self, now: Instant) -> Vec<LinkStatus> {
        let mut links: Vec<LinkStatus> = self
            .peers
            .iter()
            .filter(|(_, peer)| peer.seen)
            .map(|(&node, peer)| self.link(now, node, peer))
            .collect();
        for most in REASON_BYTES {
            for link in &mut links {
                link.reason = link.reason.take().map(|text| cut(text, most)).filter(|text| !text.is_empty());
            }
            if fitting(&links, LINKS_BYTES) == links.len() {
                return links;
            }
        }
        // What is left out is what does not work: nodes that others have made up, or that are gone.
        links.sort_by_key(|link| link.session != SessionState::Valid);
        links.truncate(fitting(&links, LINKS_BYTES));
        links.sort_by_key(|link| link.peer);
        links
    }

    fn link(&self, now: Instant, node: NodeId, peer: &Peer) -> LinkStatus {
        let session = &peer.session;
        let (heartbeats_received, heartbeats_missed) = session.heartbeats();
        let mut reason = session.reason().map(str::to_owned);
        if reason.is_none() && session.state() == SessionState::Connecting && !session.dials() {
            reason = Some("waiting for its manager to connect (the higher id dials)".to_owned());
        }
        let offset = session.clock_offset(now);
        let changed = peer.admin.changed_at().map(|at| now.since(at));
        let since = changed.map_or(session.since(now), |changed| changed.min(session.since(now)));
        LinkStatus {
            adapter: self.config.info.adapters.first().map_or(AdapterNo(0), |adapter| adapter.number),
            peer: node,
            peer_host: session.host().to_owned(),
            other_host: peer.elsewhere,
            kind: if peer.elsewhere { LinkKind::Ofi } else { LinkKind::Shm },
            session: session.state(),
            reason,
            generation: session.generation() + peer.admin.changes,
            since_ns: nanos(since),
            downtime_ns: nanos(session.downtime(now) + peer.admin.downtime(now)),
            taken_down: !peer.admin.carries(),
            partner: peer.admin.leads_to.unwrap_or(node),
            faults: peer.admin.faults,
            heartbeats_received,
            heartbeats_missed,
            round_trip_ns: session.round_trip().map(|trip| nanos(trip.latest)),
            least_round_trip_ns: session.round_trip().map(|trip| nanos(trip.least)),
            clock_offset_ns: offset.map(|offset| offset.offset_ns),
            clock_error_ns: offset.map(|offset| offset.error_ns),
            address: session.open_conn().and_then(|conn| self.sockets.get(&conn)?.address),
            via: self.via_status(now, node),
        }
    }

    fn program_list(&self) -> Vec<ProgramStatus> {
        let is_segment = |what: &&_| matches!(what, crate::wire::program::Imported::Segment(_));
        let attached = self.programs.values().filter(|program| program.attached());
        let mut list: Vec<ProgramStatus> = attached
            .take(MAX_LISTED)
            .map(|program| {
                let segments = program.objects.iter().filter(is_segment).count();
                ProgramStatus {
                    name: program.name.clone(),
                    pid: program.credentials.pid,
                    uid: program.credentials.uid,
                    segments: count(segments),
                    interrupts: count(program.objects.len() - segments),
                    imports: count(program.imports.len()),
                }
            })
            .collect();
        list.truncate(fitting(&list, PROGRAMS_BYTES));
        list
    }

    fn segment_list(&self) -> Vec<SegmentStatus> {
        let segments = self.objects.iter().filter_map(|(what, object)| match object.body {
            Body::Segment { size_bytes, available, shared, .. } => {
                let owner = self.programs.get(&object.owner);
                let attached = object.exports.iter().filter(|export| is_attachment(*what, **export));
                Some(SegmentStatus {
                    what: what.to_string(),
                    size_bytes,
                    available,
                    connections: count(object.exports.len()),
                    owner_pid: owner.map_or(0, |owner| owner.credentials.pid),
                    shared,
                    attached: count(attached.count()),
                })
            }
            Body::Interrupt { .. } => None,
        });
        let mut list: Vec<SegmentStatus> = segments.take(MAX_LISTED).collect();
        list.truncate(fitting(&list, SEGMENTS_BYTES));
        list
    }
}

/// How many entries from the start fit into so many encoded bytes.
pub(super) fn fitting<T: Serialize>(list: &[T], most_bytes: usize) -> usize {
    let mut left = most_bytes;
    for (index, entry) in list.iter().enumerate() {
        let size = postcard::serialize_with_flavor(entry, postcard::ser_flavors::Size::default());
        match left.checked_sub(size.unwrap_or(usize::MAX)) {
            Some(rest) => left = rest,
            None => return index,
        }
    }
    list.len()
}

/// A text of so many bytes at most. One that is longer ends after a word, with a mark that shows it.
pub(super) fn cut(mut text: String, most_bytes: usize) -> String {
    if text.len() <= most_bytes {
        return text;
    }
    let Some(room) = most_bytes.checked_sub(REST.len_utf8()) else { return String::new() };
    let end = (0..=room).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
    // A word that fills half of the text is no word.
    let space = text[..end].rfind(' ').filter(|at| *at > room / 2);
    text.truncate(space.unwrap_or(end));
    text.push(REST);
    text
}

pub(super) fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

pub(super) fn nanos(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_is_too_long_ends_after_a_word_with_a_mark() {
        let of = |text: &str, most| cut(text.to_owned(), most);
        assert_eq!(of("install the same tieline", 24), "install the same tieline");
        assert_eq!(of("install the same tieline", 23), "install the same…");
        assert_eq!(of("aaaaaaaaaaaaaaaaaaaa", 10), "aaaaaaa…");
        assert_eq!(of("µµµµµµ", 8), "µµ…");
        assert_eq!((of("abc", 2), of("abc", 0)), (String::new(), String::new()));
    }
}
