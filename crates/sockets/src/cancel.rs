//! Threads that are cancelled (`pthread_cancel`), for calls that go through memory instead of the C
//! library. The C library ends such a thread on its way into a call that may wait, whatever that
//! call then does. What goes through memory makes no such call.

use crate::interposer::{Name, Slot};
use crate::near::NEAR;
use crate::sync::Ordering;
use crate::table;

/// The program is about to cancel a thread.
pub(crate) fn begins() {
    // Who is to know that this thread was cancelled before a call of its own knows this as well.
    NEAR.cancels.store(1, Ordering::Relaxed);
    // From here on calls look for it.
    table::empties_all();
}

/// Whether the program has ever cancelled a thread: then such calls have something to look at.
#[inline(always)]
pub(crate) fn is_any() -> bool {
    NEAR.cancels.load(Ordering::Relaxed) != 0
}

/// Before a call of the program in which the C library looks whether its thread was cancelled. It may not
/// come back: nothing may be held here.
#[inline(always)]
pub(crate) fn point() {
    if is_any() {
        looks();
    }
}

#[cold]
#[inline(never)]
fn looks() {
    static TEST: Slot<unsafe extern "C-unwind" fn()> = Slot::new();
    const NAME: Name = Name::new(c"pthread_testcancel");
    if let Some(test) = TEST.of_the_c_library(NAME) {
        // SAFETY: takes nothing. It unwinds as the program's own call does, from a place where nothing has
        // been done yet.
        unsafe { test() };
    }
}
