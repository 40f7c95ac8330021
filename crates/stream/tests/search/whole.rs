//! Small messages go into the ring whole, as several writers of one connection rely on.

use proptest::prelude::*;
use stream::write::{Occasion, WHOLE, Write};
use stream::{Word, consent, path};

use crate::replay::{Call, Do, Running, Saw};

/// What a write does first with a ring of which so much is unread: puts so many bytes there, or something
/// else.
fn put(occasion: Occasion, capacity: u64, unread: u64, want: u64) -> Option<u64> {
    let mut running = Running::new(Call::Writing(Write::new(occasion, capacity, want, true, 0)), 0);
    let mut next = running.begin();
    for _ in 0..50 {
        next = running.step(match next {
            Do::Put { len, .. } => return Some(len),
            Do::Load(Word::Path) => Saw::Value(path::RING),
            Do::Load(Word::Consent) => Saw::Value(consent::OPEN),
            Do::Load(Word::Tail) => Saw::Value(unread),
            Do::Load(_) => Saw::Value(0),
            // It waits for room, or takes back what is unread.
            Do::Sleep(_) | Do::Store(Word::Revoke, 1) | Do::Done(_) => return None,
            _ => Saw::Nothing,
        });
    }
    None
}

proptest! {
    #[test]
    fn small_messages_are_put_whole_or_not_at_all(
        capacity in prop_oneof![1..20_u64, Just(1 << 18)],
        free in 0..10_000_u64,
        want in prop_oneof![1..30_u64, 1..3 * WHOLE],
        may_wait: bool,
    ) {
        let unread = capacity.saturating_sub(free);
        let occasion = if may_wait { Occasion::Write } else { Occasion::WriteNow };
        let room = capacity - unread;
        let wanted = match want.min(capacity) {
            all if all <= room => Some(all),
            // What no ring takes whole is put there in parts, and so is what is large.
            _ if want > WHOLE && room > 0 => Some(room),
            _ => None,
        };
        prop_assert_eq!(put(occasion, capacity, unread, want), wanted);
    }
}
