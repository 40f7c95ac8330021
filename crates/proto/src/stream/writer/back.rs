//! Taking unread bytes out of the ring: recalling them, and giving them back to the kernel.

use super::{At, Occasion, Writer};
use crate::stream::{Do, Outcome, Saw, Woken, Word, path, span};

impl Writer {
    // Taking unread bytes back without being asked.

    #[inline]
    pub(super) fn recall(&mut self) -> Do {
        self.recall = 1;
        self.go(At::Recalling, Do::Store(Word::Recall, 1))
    }

    #[inline]
    fn excuse(&mut self) -> Do {
        self.recall = 0;
        self.go(At::Excusing, Do::Store(Word::Recall, 0))
    }

    #[inline]
    pub(super) fn recalling(&mut self, saw: Saw) -> Do {
        match (self.at, saw) {
            (At::Recalling, _) => self.go(At::RecallFence, Do::Fence),
            (At::RecallFence, _) => self.go(At::SeesReadLock, Do::Load(Word::ReadLock)),
            (At::SeesReadLock, Saw::Value(0)) => self.hand_back(),
            // It looked before it was asked, and will be through at once; it takes no more after that.
            (At::SeesReadLock, Saw::Value(_)) => self.go(At::Pausing, Do::Pause),
            (At::Pausing, Saw::Woken(Woken::Look)) => self.go(At::SeesReadLock, Do::Load(Word::ReadLock)),
            (At::Pausing, _) => self.excuse(),
            (At::Excusing, _) => self.excused(),
            _ => self.end(Outcome::Corrupt),
        }
    }

    /// A reader was stopped at work, or what is in the ring cannot go back: nothing that is written may overtake it, but an end may.
    #[inline]
    fn excused(&mut self) -> Do {
        match self.occasion {
            _ if self.is_foreign => self.leave(),
            Occasion::Finish | Occasion::ShutDown => self.leave(),
            _ if self.is_published => self.end(Outcome::Moved(self.moved)),
            Occasion::Write => self.go(At::Resting, Do::Unlock(Word::WriteLock)),
            Occasion::WriteNow => self.end(Outcome::WouldBlock),
            Occasion::Visit | Occasion::Overdue => self.end(Outcome::Moved(0)),
        }
    }

    // Giving unread bytes back to the kernel. No reader takes any now.

    #[inline]
    pub(super) fn hand_back(&mut self) -> Do {
        self.go(At::BackAsksWritten, Do::AskWritten)
    }

    #[inline]
    pub(super) fn handing_back(&mut self, saw: Saw) -> Do {
        match (self.at, saw) {
            (At::BackAsksWritten, Saw::Value(written)) => {
                self.written = written;
                self.go(At::BackOwnCut, Do::Load(Word::Cut))
            }
            (At::BackAsksWritten, _) => self.stay(),
            // Somebody wrote past the library, and the ring's bytes belong before that: they have to stay.
            (At::BackOwnCut, Saw::Value(cut)) if self.written > cut => self.stay(),
            (At::BackOwnCut, Saw::Value(_)) => self.go(At::BackSeesHead, Do::Load(Word::Head)),
            (At::BackSeesHead, Saw::Value(head)) => {
                let Some(unread) = span(head, self.base, self.tail, self.capacity) else {
                    return self.end(Outcome::Corrupt);
                };
                self.cut = self.written.saturating_add(unread.to - unread.from);
                self.go(At::BackCuts, Do::Store(Word::Cut, self.cut))
            }
            // Once it is to be shut down, nobody else makes it a ring again before that is done.
            (At::BackCuts, _) => {
                self.path = if self.occasion == Occasion::ShutDown { path::LAST } else { path::BACK };
                self.go(At::BackTurns, Do::Store(Word::Path, self.path))
            }
            (At::Lasts, _) => self.go(At::OwnCut, Do::Load(Word::Cut)),
            (At::OwnCut, Saw::Value(cut)) => {
                self.cut = cut;
                self.void()
            }
            (At::BackTurns, _) => self.void(),
            (At::BackVoids, _) if self.recall != 0 => {
                self.recall = 0;
                self.go(At::BackReleases, Do::Store(Word::Recall, 0))
            }
            (At::BackVoids | At::BackReleases, _) => self.go(At::BackAsksRest, Do::AskWritten),
            (At::BackAsksRest, Saw::Value(written)) => {
                let rest = self.cut.saturating_sub(written);
                match self.tail.checked_sub(rest) {
                    Some(at) if rest > 0 && rest <= self.capacity => {
                        self.go(At::BackSends, Do::SendRing { at, len: rest })
                    }
                    Some(_) if rest == 0 => self.leave(),
                    _ => self.end(Outcome::Corrupt),
                }
            }
            (At::BackSends, Saw::Moved(_)) => self.go(At::BackAsksRest, Do::AskWritten),
            (At::BackSends, Saw::WouldBlock) => self.wait_for_kernel(),
            (At::BackAsksRest, Saw::Unknown) => self.wait_for_kernel(),
            (At::BackAsksRest | At::BackSends, _) => self.refused(),
            (At::Leaving, _) => self.send(),
            // The caller answered what was not asked: end, and leave nothing locked.
            _ => self.end(Outcome::Corrupt),
        }
    }

    /// The ring's bytes cannot go back; what is written from here on goes behind them.
    #[inline]
    fn stay(&mut self) -> Do {
        self.is_foreign = true;
        if self.recall == 0 { self.leave() } else { self.excuse() }
    }

    /// The connection is dead, or its writing half was shut down. The way stays as it is: it says that not all is in the kernel.
    #[inline]
    fn refused(&mut self) -> Do {
        self.end(if self.is_published { Outcome::Moved(self.moved) } else { Outcome::Unreturned })
    }

    #[inline]
    fn void(&mut self) -> Do {
        self.base = self.tail;
        self.go(At::BackVoids, Do::Store(Word::Base, self.tail))
    }

    #[inline]
    pub(super) fn leave(&mut self) -> Do {
        let is_last = self.occasion == Occasion::ShutDown || self.path == path::LAST;
        self.path = if is_last { path::SHUT } else { path::TCP };
        self.go(At::Leaving, Do::Store(Word::Path, self.path))
    }
}
