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
/// The same while there is no other place: whoever claims places and fills none keeps others out so long.
const CLAIMED_MAX_IF_FULL: Duration = Duration::from_millis(500);

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
    /// What stands at the beginning of the memory.
    name: Name,
    /// Requests were left where they are, for which there was no room.
    has_left: bool,
    /// Which places were claimed and not filled at the last look, by which ticket, and since when.
    claimed: [Option<(u64, Instant)>; PLACES],
}

impl Mailbox {
    pub(super) fn new(memory: Arc<Region>, name: Name) -> Self {
        Self { memory, seen: 0, name, has_left: false, claimed: [None; PLACES] }
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

    /// Whether requests were left where they are at the last look.
    pub(super) fn has_left(&self) -> bool {
        self.has_left
    }

    /// Shows what was left here, and frees the places of those that were taken: `take` says whether it was.
    pub(super) fn take(&mut self, now: Instant, mut take: impl FnMut(Hello) -> bool) {
        (self.seen, self.has_left) = (self.count(), false);
        let memory = Arc::clone(&self.memory);
        let window = memory.window();
        // Whoever leaves requests here can write over it as well.
        let _ = write_address(&window, &self.name);
        let is_claimed = |nth| window.load_u64(place(nth)).is_ok_and(|ticket| ticket != 0);
        let is_full = (0..PLACES).all(is_claimed);
        let claimed_max = if is_full { CLAIMED_MAX_IF_FULL } else { CLAIMED_MAX };
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
            let is_kept = match hello {
                Some(hello) => !take(hello),
                None => now.saturating_duration_since(since) < claimed_max,
            };
            if is_kept {
                self.has_left |= hello.is_some();
                *claimed = Some((ticket, since));
                continue;
            }
            *claimed = None;
            let _ = window.fill(place(nth) + HELLO_AT, HELLO_BYTES, 0);
            // Release: pairs with the Acquire of the operation by which the next one claims it, which link
            // `ofi` carries out: that one finds it empty.
            claim.store(0, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proto::ids::{NodeId, SegmentId};
    use shm::region::RegionOptions;

    fn mailbox() -> Mailbox {
        let memory = Arc::new(Region::create(&RegionOptions::new("port", PORT_BYTES)).unwrap());
        Mailbox::new(memory, Name::new().unwrap())
    }

    fn hello(key: u64) -> Hello {
        let (from, to) = (Name::new().unwrap(), Name::new().unwrap());
        Hello { from, to, node: NodeId::new(4).unwrap(), segment: SegmentId(1), key }
    }

    fn take(mailbox: &mut Mailbox, now: Instant) -> Vec<Hello> {
        let mut all = Vec::new();
        mailbox.take(now, |hello| {
            all.push(hello);
            true
        });
        all
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
        assert_eq!((take(&mut mailbox, now), mailbox.has_new()), (sent.to_vec(), false));
        assert!(take(&mut mailbox, now).is_empty());
        let late = hello(3);
        mailbox.memory.window().put(place(2) + HELLO_AT, &late.bytes()).unwrap();
        ring(&mailbox);
        assert_eq!(take(&mut mailbox, now), [late]);
    }

    #[test]
    fn a_place_that_is_not_filled_is_free_again() {
        let (mut mailbox, now) = (mailbox(), Instant::now());
        let ticket =
            |mailbox: &Mailbox| mailbox.memory.window().atomic_u64(place(7)).unwrap().load(Ordering::Relaxed);
        claim(&mailbox, 7, 9);
        assert!(take(&mut mailbox, now).is_empty() && ticket(&mailbox) == 9);
        assert!(take(&mut mailbox, now + CLAIMED_MAX / 2).is_empty() && ticket(&mailbox) == 9);
        // Another one has it by then: its time begins anew.
        claim(&mailbox, 7, 10);
        assert!(take(&mut mailbox, now + CLAIMED_MAX).is_empty() && ticket(&mailbox) == 10);
        assert!(take(&mut mailbox, now + 2 * CLAIMED_MAX).is_empty() && ticket(&mailbox) == 0);
    }

    #[test]
    fn requests_without_room_stay_and_are_shown_again() {
        let (mut mailbox, now) = (mailbox(), Instant::now());
        for nth in 0..4 {
            claim(&mailbox, nth, 5);
            mailbox.memory.window().put(place(nth) + HELLO_AT, &hello(nth as u64).bytes()).unwrap();
        }
        ring(&mailbox);
        let mut taken = Vec::new();
        for _ in 0..2 {
            let mut room = 2;
            mailbox.take(now, |hello| {
                let has_room = room > 0;
                room -= i32::from(has_room);
                taken.extend(has_room.then_some(hello.key));
                has_room
            });
            assert_eq!(mailbox.has_left(), taken.len() < 4);
        }
        assert_eq!(taken, [0, 1, 2, 3]);
    }

    /// Places that are claimed and never filled keep others out for a short time, and the name that others
    /// look for is put right.
    #[test]
    fn who_claims_all_places_and_writes_over_the_name_is_soon_rid_of() {
        let (mut mailbox, now) = (mailbox(), Instant::now());
        let free = |mailbox: &Mailbox| {
            let window = mailbox.memory.window();
            (0..PLACES).filter(|nth| window.load_u64(place(*nth)).unwrap() == 0).count()
        };
        for nth in 0..PLACES {
            claim(&mailbox, nth, 1 + nth as u64);
        }
        mailbox.memory.window().put(0, &Name::new().unwrap().bytes()).unwrap();
        assert!(take(&mut mailbox, now).is_empty() && free(&mailbox) == 0);
        let mut there = [0; NAME_BYTES];
        mailbox.memory.window().get(0, &mut there).unwrap();
        assert_eq!(there, mailbox.name.bytes());
        assert!(take(&mut mailbox, now + CLAIMED_MAX_IF_FULL).is_empty());
        assert_eq!(free(&mailbox), PLACES);
    }
}
