//! What stands in the memory of a port: the queue's name, and places where queues of other hosts leave their
//! requests.
//!
//! A place is claimed by an atomic operation, filled by a put, and announced by a count that is raised after
//! that. A queue that looks at the count finds all requests that are whole. A place that was claimed and not
//! filled, because its queue has ended, is free again after a time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use message_queue::Name;
use message_queue::name::NAME_BYTES;
use shm::region::Region;
use shm::sync::Ordering;
use shm::window::Window;

use super::forms::{HELLO_BYTES, Hello, MAGIC};
use crate::error::Result;
use crate::remote::RemoteSegment;

/// Length of the memory of a port: one page.
pub(crate) const PORT_BYTES: usize = PLACES_AT + PLACES * PLACE_BYTES;

const MAGIC_AT: usize = NAME_BYTES;
const COUNT_AT: usize = 64;
const PLACES_AT: usize = 128;
const PLACES: usize = 31;
const PLACE_BYTES: usize = 128;
/// In a place: behind the word that claims it.
const HELLO_AT: usize = 8;
/// A request is written within a few round trips, or its queue has ended or is very slow: then it is
/// repeated.
const CLAIMED_MAX: Duration = Duration::from_secs(20);

const _: () = assert!(HELLO_AT + HELLO_BYTES <= PLACE_BYTES && MAGIC_AT + 8 <= COUNT_AT);

/// Writes what others read of it.
pub(crate) fn write_address(memory: &Window<'_>, name: &Name) -> shm::Result<()> {
    memory.put(0, &name.bytes())?;
    memory.store_u64(MAGIC_AT, MAGIC)
}

/// The name in a port of another host; `None` if it is of another version, or of another order of bytes.
pub(super) fn read_address(port: &RemoteSegment) -> Result<Option<Name>> {
    let mut bytes = [0; NAME_BYTES + 8];
    port.get(0, &mut bytes)?;
    let (name, magic) = bytes.split_first_chunk().unwrap_or((&[0; NAME_BYTES], &[]));
    Ok(Name::of_any_machine(name).filter(|_| magic == MAGIC.to_ne_bytes()))
}

fn place(nth: usize) -> usize {
    PLACES_AT + nth * PLACE_BYTES
}

/// Leaves a request at a port of another host: whether there was room. `ticket` is not 0, and tells this
/// queue's places from those of others.
pub(super) fn leave(port: &RemoteSegment, hello: &Hello, ticket: u64) -> Result<bool> {
    let mut has_room = false;
    for nth in 0..PLACES {
        let at = place((ticket as usize).wrapping_add(nth) % PLACES);
        if port.compare_swap_u64(at, 0, ticket)? == 0 {
            port.put(at + HELLO_AT, &hello.bytes())?;
            has_room = true;
            break;
        }
    }
    // An atomic operation is carried out after what this thread has put. Without room it makes the queue look
    // for places that can be free again.
    port.fetch_add_u32(COUNT_AT, 1)?;
    Ok(has_room)
}

/// The owner's end.
#[derive(Debug)]
pub(super) struct Mailbox {
    memory: Arc<Region>,
    seen: u32,
    /// Which places were claimed and not filled at the last look, by which ticket, and since when.
    claimed: [Option<(u64, Instant)>; PLACES],
}

impl Mailbox {
    pub(super) fn new(memory: Arc<Region>) -> Self {
        Self { memory, seen: 0, claimed: [None; PLACES] }
    }

    fn count(&self) -> u32 {
        // Acquire: pairs with the operation that link `ofi` carries out for who has left something.
        self.memory.window().atomic_u32(COUNT_AT).map_or(self.seen, |count| count.load(Ordering::Acquire))
    }

    /// Whether something was left here since the last look: asked at each turn.
    #[inline]
    pub(super) fn has_new(&self) -> bool {
        self.count() != self.seen
    }

    /// Takes what was left here.
    pub(super) fn take(&mut self, now: Instant) -> Vec<Hello> {
        self.seen = self.count();
        let memory = Arc::clone(&self.memory);
        let window = memory.window();
        let mut all = Vec::new();
        for (nth, claimed) in self.claimed.iter_mut().enumerate() {
            let Ok(claim) = window.atomic_u64(place(nth)) else { continue };
            // Acquire: as above.
            let ticket = claim.load(Ordering::Acquire);
            if ticket == 0 {
                *claimed = None;
                continue;
            }
            let hello = Hello::read(&window, place(nth) + HELLO_AT);
            let since = claimed.filter(|(of, _)| *of == ticket).map_or(now, |(_, since)| since);
            if hello.is_none() && now.saturating_duration_since(since) < CLAIMED_MAX {
                *claimed = Some((ticket, since));
                continue;
            }
            all.extend(hello);
            *claimed = None;
            let _ = window.fill(place(nth) + HELLO_AT, HELLO_BYTES, 0);
            // Release: pairs with the Acquire of the operation by which the next one claims it, which link
            // `ofi` carries out: that one finds it empty.
            claim.store(0, Ordering::Release);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proto::ids::{NodeId, SegmentId};
    use shm::region::RegionOptions;

    fn mailbox() -> Mailbox {
        Mailbox::new(Arc::new(Region::create(&RegionOptions::new("port", PORT_BYTES)).unwrap()))
    }

    fn hello(key: u64) -> Hello {
        let (from, to) = (Name::new().unwrap(), Name::new().unwrap());
        Hello { from, to, node: NodeId::new(4).unwrap(), segment: SegmentId(1), key }
    }

    fn ring(mailbox: &Mailbox) {
        mailbox.memory.window().atomic_u32(COUNT_AT).unwrap().fetch_add(1, Ordering::Relaxed);
    }

    fn claim(mailbox: &Mailbox, nth: usize, ticket: u64) {
        mailbox.memory.window().atomic_u64(place(nth)).unwrap().store(ticket, Ordering::Relaxed);
    }

    #[test]
    fn requests_are_taken_once_and_half_a_request_is_waited_for() {
        let (mut mailbox, now) = (mailbox(), Instant::now());
        assert!(!mailbox.has_new());
        let sent = [hello(1), hello(2)];
        for (nth, hello) in sent.iter().enumerate() {
            claim(&mailbox, nth, 5);
            mailbox.memory.window().put(place(nth) + HELLO_AT, &hello.bytes()).unwrap();
        }
        claim(&mailbox, 2, 6);
        mailbox.memory.window().put(place(2) + HELLO_AT, &hello(3).bytes()[..40]).unwrap();
        ring(&mailbox);
        assert!(mailbox.has_new());
        assert_eq!((mailbox.take(now), mailbox.has_new()), (sent.to_vec(), false));
        assert!(mailbox.take(now).is_empty());
        let late = hello(3);
        mailbox.memory.window().put(place(2) + HELLO_AT, &late.bytes()).unwrap();
        ring(&mailbox);
        assert_eq!(mailbox.take(now), [late]);
    }

    #[test]
    fn a_place_that_is_not_filled_is_free_again() {
        let (mut mailbox, now) = (mailbox(), Instant::now());
        let ticket =
            |mailbox: &Mailbox| mailbox.memory.window().atomic_u64(place(7)).unwrap().load(Ordering::Relaxed);
        claim(&mailbox, 7, 9);
        assert!(mailbox.take(now).is_empty() && ticket(&mailbox) == 9);
        assert!(mailbox.take(now + CLAIMED_MAX / 2).is_empty() && ticket(&mailbox) == 9);
        // Another one has it by then: its time begins anew.
        claim(&mailbox, 7, 10);
        assert!(mailbox.take(now + CLAIMED_MAX).is_empty() && ticket(&mailbox) == 10);
        assert!(mailbox.take(now + 2 * CLAIMED_MAX).is_empty() && ticket(&mailbox) == 0);
    }
}
