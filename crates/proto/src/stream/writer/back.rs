//! Taking unread bytes out of the ring: recalling them, and giving them back to the kernel.

use super::{At, Occasion, Writer};
use crate::stream::{Do, Outcome, Saw, Woken, Word, path, span};

impl Writer {
    // Taking unread bytes back without being asked.

    pub(super) fn recall(&mut self) -> Do {
        self.recall = 1;
        self.go(At::Recalling, Do::Store(Word::Recall, 1))
    }

    fn excuse(&mut self) -> Do {
        self.recall = 0;
        self.go(At::Excusing, Do::Store(Word::Recall, 0))
    }

    pub(super) fn recalling(&mut self, saw: Saw) -> Do {
        match (self.at, saw) {
            (At::Recalling, _) => self.go(At::RecallFence, Do::Fence),
            (At::RecallFence, _) => self.go(At::SeesReadLock, Do::Load(Word::ReadLock)),
            (At::SeesReadLock, Saw::Value(0)) => self.hand_back(),
            // It looked before it was asked, and will be through at once; it takes no more after that.
            (At::SeesReadLock, Saw::Value(_)) => self.go(At::Pausing, Do::Pause),
            (At::Pausing, Saw::Woken(Woken::Look)) => self.go(At::SeesReadLock, Do::Load(Word::ReadLock)),
            (At::Pausing, _) => self.excuse(),
            // A reader that looked meanwhile has left the ring alone, and may have gone to sleep over it.
            (At::Excusing, _) => self.go(At::ExcusedFence, Do::Fence),
            (At::ExcusedFence, _) => self.go(At::ExcusedSeesAsleep, Do::Load(Word::Asleep)),
            (At::ExcusedSeesAsleep, Saw::Value(0)) | (At::ExcusedRings, _) => self.excused(),
            (At::ExcusedSeesAsleep, Saw::Value(_)) => self.go(At::ExcusedRings, Do::RingBell),
            _ => self.end(Outcome::Corrupt),
        }
    }

    /// A reader was stopped at work, or what is in the ring cannot go back. It is seen before what goes through the kernel from
    /// here on.
    fn excused(&mut self) -> Do {
        match self.occasion {
            _ if self.is_foreign => self.leave(),
            Occasion::Write if !self.is_hung_up => {
                self.is_overdue = false;
                self.go(At::SeesConsent, Do::Load(Word::Consent))
            }
            Occasion::Visit | Occasion::Overdue => self.end(Outcome::Moved(0)),
            _ => self.leave(),
        }
    }

    // Giving unread bytes back to the kernel. No reader takes any now.

    pub(super) fn hand_back(&mut self) -> Do {
        self.go(At::BackAsksWritten, Do::AskWritten)
    }

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
            (At::BackCuts, _) => self.go(At::BackTurns, Do::Store(Word::Path, path::BACK)),
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
            // The connection is dead, and the kernel will say how.
            (At::BackSends, _) => self.leave(),
            (At::Leaving, _) => self.go(At::LeftFence, Do::Fence),
            (At::LeftFence, _) => self.go(At::LeftSeesRoomWanted, Do::Load(Word::RoomWanted)),
            (At::LeftSeesRoomWanted, Saw::Value(0)) | (At::LeftRingsOwn, _) => {
                self.go(At::LeftSeesAsleep, Do::Load(Word::Asleep))
            }
            (At::LeftSeesRoomWanted, Saw::Value(_)) => self.go(At::LeftRingsOwn, Do::RingOwnBell),
            (At::LeftSeesAsleep, Saw::Value(0)) | (At::LeftRings, _) => self.send(),
            (At::LeftSeesAsleep, Saw::Value(_)) => self.go(At::LeftRings, Do::RingBell),
            // The caller answered what was not asked: end, and leave nothing locked.
            _ => self.end(Outcome::Corrupt),
        }
    }

    /// The ring's bytes cannot go back; what is written from here on goes behind them.
    fn stay(&mut self) -> Do {
        self.is_foreign = true;
        if self.recall == 0 { self.leave() } else { self.excuse() }
    }

    fn void(&mut self) -> Do {
        self.base = self.tail;
        self.go(At::BackVoids, Do::Store(Word::Base, self.tail))
    }

    pub(super) fn leave(&mut self) -> Do {
        self.path = if self.occasion == Occasion::ShutDown { path::SHUT } else { path::TCP };
        self.go(At::Leaving, Do::Store(Word::Path, self.path))
    }
}
