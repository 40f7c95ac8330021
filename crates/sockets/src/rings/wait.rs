//! `poll` and `select`: check the rings of the given connections, then wait in the kernel.

use libc::{c_int, c_short, fd_set, nfds_t, pollfd};

use super::blocked::{self, Asks, Blocked, Goes, Limit};
use super::conn::{self, CONNECTIONS, Conn, Use};
use super::epoll;
use super::io::{self, offers};
use super::spin::{self, Spin};
use crate::interposer::set_errno;
use crate::raw;
use crate::sync::Ordering;

/// Places of connections, one bit each.
struct Places([u64; CONNECTIONS / 64]);

impl Places {
    fn add(&mut self, conn: &Conn) -> bool {
        let at = conn::place(conn);
        let Some(word) = self.0.get_mut(at / 64) else { return false };
        let is_new = *word & 1 << (at % 64) == 0;
        *word |= 1 << (at % 64);
        is_new
    }

    fn for_each(&self, mut each: impl FnMut(&'static Conn)) {
        for (at, bits) in self.0.iter().enumerate() {
            let mut bits = *bits;
            while bits != 0 {
                if let Some(conn) = conn::at(at * 64 + bits.trailing_zeros() as usize) {
                    each(conn);
                }
                bits &= bits - 1;
            }
        }
    }
}

/// What a call waits for, whichever it is.
pub(crate) trait Wanted {
    /// Calls `each` with the descriptors that are waited for to be read; what it returns is noted as ready.
    fn ready(&mut self, each: impl FnMut(c_int) -> bool, notes: bool) -> usize;

    /// Whether nothing is waited for but bytes of connections with rings.
    fn is_only_rings(&self) -> bool;
}

/// Of `poll`.
pub(crate) struct Polled {
    pub(crate) fds: *mut pollfd,
    pub(crate) count: nfds_t,
}

const READABLE: c_short = libc::POLLIN | libc::POLLRDNORM;

impl Wanted for Polled {
    fn ready(&mut self, mut each: impl FnMut(c_int) -> bool, notes: bool) -> usize {
        let mut count = 0;
        for at in 0..self.count as usize {
            // SAFETY: the program's own array, which its own call reads and writes.
            let entry = unsafe { &mut *self.fds.add(at) };
            let wanted = entry.events & READABLE;
            if wanted == 0 || entry.fd < 0 || !each(entry.fd) {
                continue;
            }
            if notes {
                count += usize::from(entry.revents == 0);
                entry.revents |= wanted;
            } else {
                count += 1;
            }
        }
        count
    }

    fn is_only_rings(&self) -> bool {
        (0..self.count as usize).all(|at| {
            // SAFETY: as above.
            let entry = unsafe { &*self.fds.add(at) };
            entry.fd < 0 || entry.events & !READABLE == 0 && conn::ready(entry.fd).is_some()
        })
    }
}

/// Of `select`: the set of those to be read, as it was before the call.
pub(crate) struct Selected<'a> {
    pub(crate) count: c_int,
    pub(crate) before: Option<&'a [u64; 16]>,
    pub(crate) input: *mut fd_set,
    /// There are other sets.
    pub(crate) has_others: bool,
}

impl Wanted for Selected<'_> {
    fn ready(&mut self, mut each: impl FnMut(c_int) -> bool, notes: bool) -> usize {
        let Some(before) = self.before else { return 0 };
        let mut count = 0;
        for fd in 0..self.count.clamp(0, 1024) as usize {
            let is_wanted = before.get(fd / 64).is_some_and(|word| word & 1 << (fd % 64) != 0);
            if !is_wanted || !each(fd as c_int) {
                continue;
            }
            let place = self.input.cast::<u64>().wrapping_add(fd / 64);
            // SAFETY: the program's own set, which the kernel has written.
            let is_noted = unsafe { *place } & 1 << (fd % 64) != 0;
            if notes && !is_noted {
                // SAFETY: as above.
                unsafe { *place |= 1 << (fd % 64) };
            }
            count += usize::from(!notes || !is_noted);
        }
        count
    }

    fn is_only_rings(&self) -> bool {
        let Some(before) = self.before.filter(|_| !self.has_others) else { return false };
        (0..self.count.clamp(0, 1024) as usize).all(|fd| {
            let is_wanted = before.get(fd / 64).is_some_and(|word| word & 1 << (fd % 64) != 0);
            !is_wanted || conn::ready(fd as c_int).is_some()
        })
    }
}

fn has_bytes(fd: c_int) -> bool {
    match conn::ready(fd) {
        Some(conn) => conn.headers().is_some_and(|(own, peer)| offers(own, peer)),
        None => epoll::is_watched(fd) && epoll::has_some(fd),
    }
}

/// As [`has_bytes`], about to be told.
fn promises(fd: c_int) -> bool {
    let has = has_bytes(fd);
    if has && let Some(conn) = conn::ready(fd) {
        conn.told.promised.store(1, Ordering::Relaxed);
    }
    has
}

/// Looks at rings between two looks at the kernel.
const LOOKS: u32 = 60;

/// The hits and misses of those who wait in this process.
static HISTORY: spin::SpinHistory = spin::SpinHistory::new();

/// What came of one round.
enum Round {
    /// This is the answer.
    Ends(c_int),
    /// What there was is gone: somebody else has taken it, or it goes back to the kernel.
    Again,
}

/// Waits. `native` is the program's own call.
pub(crate) fn wait(wanted: &mut impl Wanted, limit: Limit, mut native: impl FnMut(Asks) -> c_int) -> c_int {
    let mut blocked = Blocked::new();
    loop {
        if let Round::Ends(result) = round(wanted, limit, &mut native) {
            return result;
        }
        if blocked.waits(limit, 0) == Goes::Over {
            return native(Asks::AtOnce);
        }
    }
}

/// Waits for something to read from one descriptor, as the program would by `poll`: any handler that runs
/// ends it.
pub(super) fn one_to_read(fd: c_int, limit: Limit) -> c_int {
    let mut entry = pollfd { fd, events: libc::POLLIN, revents: 0 };
    let fds = &raw mut entry;
    wait(&mut Polled { fds, count: 1 }, limit, |asks| {
        let wait_ms = if asks.waits() { limit.whole_milliseconds() } else { 0 };
        // SAFETY: one entry, of which there is no reference during the call.
        let result = unsafe { raw::call(libc::SYS_poll, [fds as usize, 1, wait_ms as usize, 0, 0, 0]) };
        if result < 0 {
            set_errno(-result as c_int);
            return -1;
        }
        result as c_int
    })
}

fn round(wanted: &mut impl Wanted, limit: Limit, native: &mut impl FnMut(Asks) -> c_int) -> Round {
    let may_wait = limit.may_wait();
    let (mut is_any, mut has_any, mut may_open) = (false, false, false);
    wanted.ready(
        |fd| {
            if conn::ready(fd).is_some() {
                is_any = true;
                has_any |= has_bytes(fd);
            } else if meeting(fd).is_some() {
                may_open = true;
            } else if epoll::is_watched(fd) {
                is_any = true;
                has_any |= epoll::is_waited_for(fd);
            } else {
                epoll::may_be_waited_for(fd);
            }
            false
        },
        false,
    );
    if !is_any {
        if !may_wait {
            return Round::Ends(native(Asks::AtOnce));
        }
        // What this process has written gets through before it sleeps, whatever it sleeps for.
        let mut sleeps = || blocked::sleep(limit, native, part);
        let slept = if may_open { unless_opened(wanted, sleeps) } else { Some(sleeps()) };
        return slept.map_or(Round::Again, Round::Ends);
    }
    let mut spin = None;
    let found = if !has_any && may_wait { finds(wanted, limit, &mut spin, native) } else { Finds::Ring };
    if let Finds::Nothing = found {
        let mut places = Places([0; CONNECTIONS / 64]);
        let forks = arm(wanted, &mut places);
        let is_empty = wanted.ready(has_bytes, false) == 0;
        let mut sleeps = || blocked::sleep(limit, native, part);
        let slept = match (is_empty, may_open) {
            (false, _) => None,
            (true, false) => Some(sleeps()),
            (true, true) => unless_opened(wanted, sleeps),
        };
        awake(&places, forks);
        if let Some(result) = slept {
            if let Some(spin) = spin.filter(|_| result > 0) {
                spin.slept();
            }
            return Round::Ends(result);
        }
    }
    // What a ring has comes before a signal that the call lets in.
    let asks = if has_any || may_wait { Asks::Quietly } else { Asks::AtOnce };
    let result = if let Finds::Kernels(result) = found { result } else { native(asks) };
    if result < 0 {
        return Round::Ends(result);
    }
    match result + wanted.ready(promises, true) as c_int {
        0 if may_wait || wanted.ready(io::comes_still, false) > 0 => Round::Again,
        // It was gone by then.
        0 if asks == Asks::Quietly => Round::Ends(native(Asks::AtOnce)),
        result => Round::Ends(result),
    }
}

/// Of a wait for what goes back to the kernel.
fn part() -> isize {
    super::run::sleep(500_000)
}

/// The connection of a number whose ends look for each other.
fn meeting(fd: c_int) -> Option<&'static Conn> {
    conn::of(fd).filter(|conn| conn.is(conn::state::MEETING))
}

/// Sleeps over connections that may get a ring meanwhile, which then know of it. None: one of them has got it
/// already.
fn unless_opened(wanted: &mut impl Wanted, sleeps: impl FnOnce() -> c_int) -> Option<c_int> {
    let mut places = Places([0; CONNECTIONS / 64]);
    let mut is_open = false;
    wanted.ready(
        |fd| {
            if let Some(conn) = meeting(fd)
                && places.add(conn)
            {
                is_open |= !conn.waits_unready();
            }
            false
        },
        false,
    );
    let slept = if is_open { None } else { Some(sleeps()) };
    places.for_each(Conn::has_waited);
    slept
}

/// From here on the kernel wakes who waits for these. Gives what [`awake`] takes.
fn arm(wanted: &mut impl Wanted, places: &mut Places) -> u32 {
    let forks = conn::forks();
    wanted.ready(
        |fd| {
            if let Some(known) = conn::known(fd).filter(|conn| conn.is(conn::state::READY))
                && let Some((own, _)) = known.headers()
                && let Ok(user) = known.enter()
            {
                if places.add(known.conn) {
                    own.reader.0.asleep.fetch_add(1, Ordering::SeqCst);
                } else {
                    user.leave();
                }
            }
            false
        },
        false,
    );
    forks
}

fn awake(places: &Places, forks: u32) {
    places.for_each(|conn| {
        if let Some((own, _)) = conn.headers() {
            own.reader.0.asleep.fetch_sub(1, Ordering::SeqCst);
        }
        Use::since(conn, forks).leave();
    });
}

/// What a look at rings ends with.
enum Finds {
    Nothing,
    /// A ring has something.
    Ring,
    /// The kernel has; its answer is written.
    Kernels(c_int),
}

/// Looks at rings for as long as it pays, and at the kernel where it may have something.
fn finds(
    wanted: &mut impl Wanted,
    limit: Limit,
    spin: &mut Option<Spin<'static>>,
    native: &mut impl FnMut(Asks) -> c_int,
) -> Finds {
    let is_only_rings = wanted.is_only_rings();
    if !is_only_rings {
        let result = native(Asks::AtOnce);
        if result != 0 {
            return Finds::Kernels(result);
        }
    }
    let (start, here) = spin::clock();
    let mut is_elsewhere = false;
    wanted.ready(
        |fd| {
            if let Some((own, peer)) = conn::ready(fd).and_then(Conn::headers) {
                is_elsewhere |= spin::is_elsewhere(own, peer, here);
            }
            false
        },
        false,
    );
    let spin = spin.insert(Spin::begin(&HISTORY, start, is_elsewhere, limit));
    if spin.is_none() {
        return Finds::Nothing;
    }
    let mut looks = 0_u32;
    loop {
        if wanted.ready(has_bytes, false) > 0 {
            spin.hit();
            return Finds::Ring;
        }
        looks += 1;
        if looks.is_multiple_of(LOOKS) {
            if !spin.goes_on() {
                return Finds::Nothing;
            }
            if !is_only_rings || has_kernels(wanted) {
                let result = native(Asks::AtOnce);
                if result != 0 {
                    return Finds::Kernels(result);
                }
            }
        }
        spin::relax();
    }
}

/// Whether the kernel has bytes of a connection that has a ring.
fn has_kernels(wanted: &mut impl Wanted) -> bool {
    let mut has = false;
    wanted.ready(
        |fd| {
            has |= conn::ready(fd).is_some() && super::kernel::unread(fd) != Some(0);
            false
        },
        false,
    );
    has
}
