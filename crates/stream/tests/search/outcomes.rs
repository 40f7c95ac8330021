//! What a call ended with: is it true, and what does the process do next?

use stream::Outcome;

use crate::choices::has_hung_up;
use crate::steps::{Broken, end_of_writers, finish_op};
use crate::world::{Case, Op, World};

/// A reader is told the end: has everything been read, but for the last `unsure` bytes?
pub(crate) fn at_end(world: &World, unsure: u32) -> Result<(), Broken> {
    if world.kernel.reset || world.at_risk || world.delivered + unsure >= world.committed {
        return Ok(());
    }
    Err(format!("the end after {} of {} bytes", world.delivered, world.committed))
}

pub(crate) fn wrote(case: &Case, world: &mut World, who: usize, outcome: Outcome) -> Result<(), Broken> {
    let is_of_op = world.processes[who].is_of_op;
    world.processes[who].is_of_op = false;
    world.processes[who].is_hurried = false;
    match (outcome, world.op(case, who)) {
        (Outcome::Corrupt, _) => Err("a writer called the words corrupt".into()),
        _ if !is_of_op => Ok(()),
        // Somebody else has shut the writing half down.
        (Outcome::Kernel, Some(_)) if world.kernel.finished || world.kernel.reset => {
            finish_op(world, who);
            Ok(())
        }
        (Outcome::Unreturned, Some(_)) if world.kernel.finished || world.kernel.reset => {
            finish_op(world, who);
            Ok(())
        }
        (Outcome::Kernel | Outcome::Unreturned, _) if !world.end_is_gone(case, false) => {
            Err("a write failed".into())
        }
        (_, Some(op @ (Op::Close | Op::ShutDown))) => {
            world.flush(who);
            world.kernel.finished |= op == Op::ShutDown;
            world.processes[who].has_closed = true;
            finish_op(world, who);
            end_of_writers(case, world, false);
            Ok(())
        }
        // It looks whether that was all.
        (_, Some(Op::BeforeSleep)) | (Outcome::WouldBlock, Some(Op::TryAll(_))) => Ok(()),
        (Outcome::Moved(count), Some(Op::Write(want) | Op::WriteHungUp(want) | Op::TryAll(want))) => {
            world.processes[who].moved += count as u32;
            if world.processes[who].moved == want {
                finish_op(world, who);
            }
            Ok(())
        }
        _ => {
            finish_op(world, who);
            Ok(())
        }
    }
}

pub(crate) fn read(case: &Case, world: &mut World, who: usize, outcome: Outcome) -> Result<(), Broken> {
    let op = world.op(case, who);
    match outcome {
        // It reads on in the library.
        Outcome::Unreturned | Outcome::Returning if op == Some(Op::Seen) => finish_op(world, who),
        Outcome::Corrupt if !world.kernel.reset => return Err("a reader called the words corrupt".into()),
        Outcome::Unreturned if !case.may_abort && !world.has_killed && !world.kernel.reset => {
            return Err("a withdrawal failed".into());
        }
        Outcome::Corrupt | Outcome::Unreturned => world.aborted = true,
        Outcome::Kernel => {
            // Readers in the library find also what was published in a call that did not end.
            at_end(world, 0)?;
            if op == Some(Op::ReadWritten) && world.kernel.is_whole && world.delivered < world.committed {
                return Err("a reset, of which no byte was lost, told before all were read".into());
            }
            finish_op(world, who);
        }
        // So many bytes of the stream are written and were not read.
        Outcome::Moved(count) if matches!(op, Some(Op::Look | Op::Poll)) => {
            let before = if case.readers.len() > 1 { world.processes[who].moved } else { world.delivered };
            finish_op(world, who);
            if u64::from(world.committed - before) < count {
                return Err(format!("{count} bytes to read, and that many are not there"));
            }
        }
        Outcome::Moved(_) | Outcome::WouldBlock if op == Some(Op::ReadWritten) => {}
        Outcome::Moved(_) if matches!(op, Some(Op::Peek(_))) => finish_op(world, who),
        Outcome::Moved(count) => {
            world.processes[who].moved += count as u32;
            if matches!(op, Some(Op::ReadToEnd(_))) {
                world.processes[who].moved = 0;
            } else if !matches!(op, Some(Op::Read(want) | Op::ReadParked(want) | Op::ReadAsleep(want) | Op::ReadAndStay(want)) if world.processes[who].moved < want)
            {
                finish_op(world, who);
            }
        }
        Outcome::WouldBlock | Outcome::Withdrawn => finish_op(world, who),
        // Who has ended hands nothing back any more.
        Outcome::Returning if has_hung_up(case, world, who) && case.may_abort => world.aborted = true,
        Outcome::Returning => {
            // Nobody dies, and nobody hurries since.
            world.at_risk |= !case.hurries;
            finish_op(world, who);
        }
    }
    Ok(())
}
