//! Runs instructions that are not emulated (read-modify-write, locked, rare) on the alias of the
//! first copy, and copies the result to the others. Each instruction runs from a place of its own
//! that ends with a breakpoint, where its results are copied and the thread continues.
//!
//! Of the instruction only the displacement is changed, by the distance from the view to its alias;
//! so its registers and flags are what they would have been. While it is there, the thread takes no
//! signals but faults of its own.

use iced_x86::{Instruction, Mnemonic, OpKind, Register};
use rustix::mm::{MapFlags, ProtFlags, mmap};
use shm::origin::Origin;
use shm::region::{Region, RegionOptions};
use shm::sync::plain::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use super::context::{Context, VECTOR_BYTES};
use super::emulate::{Code, Outcome};
use super::fallible;
use crate::code::Result;
use crate::group::copies::Reading;
use crate::own::Own;

const PLACE_BYTES: usize = 64;
/// int3.
const BREAKPOINT: u8 = 0xcc;
const ZERO_FLAG: u64 = 1 << 6;

/// An instruction that runs elsewhere. Only the thread that took the place uses it.
#[derive(Debug)]
struct Place {
    /// The process whose thread has it; 0: free.
    taken: AtomicU32,
    /// The address of the instruction, and that of the next one.
    address: AtomicUsize,
    end: AtomicUsize,
    /// An address in the view.
    target: AtomicUsize,
    width: AtomicUsize,
    /// Whether it stores only if it set the zero flag.
    if_zero: AtomicU32,
    blocked: AtomicU64,
    reading: AtomicUsize,
}

/// One at a time: of two threads that add to the same word, the second must not take its sum to the
/// copies first.
static PLACE: Place = Place {
    taken: AtomicU32::new(0),
    address: AtomicUsize::new(0),
    end: AtomicUsize::new(0),
    target: AtomicUsize::new(0),
    width: AtomicUsize::new(0),
    if_zero: AtomicU32::new(0),
    blocked: AtomicU64::new(0),
    reading: AtomicUsize::new(0),
};

/// Memory for the instructions, mapped twice: nothing can be both written and run at one address.
#[derive(Debug)]
struct Ground {
    written: Region,
    run: usize,
}

/// A forked child would write to its parent's.
static GROUND: Own<Ground> = Own::new();

/// Makes the memory. Before the first signal of a process; a second call does nothing.
pub(super) fn prepare() -> Result<()> {
    if GROUND.get().is_some() {
        return Ok(());
    }
    let bytes = PLACE_BYTES;
    let written = Region::create(&RegionOptions::new("tieline-displaced", bytes))?;
    // SAFETY: the kernel chooses the address, so nothing that exists is replaced.
    let run = unsafe {
        mmap(
            core::ptr::null_mut(),
            bytes,
            ProtFlags::READ | ProtFlags::EXEC,
            MapFlags::SHARED,
            written.fd(),
            0,
        )
    };
    let run = run.map_err(|errno| {
        let detail = format!("memory for instructions, which groups of several members need: {errno}");
        crate::code::Code::SYSTEM.because(detail)
    })?;
    GROUND.get_or_make(|| Ground { written, run: run.expose_provenance() });
    Ok(())
}

/// Whether an address of code lies there.
fn is_there(instruction: usize) -> bool {
    GROUND
        .get()
        .is_some_and(|ground| instruction.checked_sub(ground.run).is_some_and(|offset| offset < PLACE_BYTES))
}

/// Waits for its turn. The thread that has the turn runs one instruction, takes no signals, waits
/// for nothing, and leaves.
fn take() -> &'static Place {
    loop {
        if let Some(place) = try_take() {
            return place;
        }
        rustix::thread::sched_yield();
    }
}

/// None while another thread has the turn.
fn try_take() -> Option<&'static Place> {
    let own = Origin::here().pid();
    loop {
        // Acquire: pairs with the Release in `leave`.
        match PLACE.taken.compare_exchange(0, own, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => return Some(&PLACE),
            Err(holder) if holder == own => return None,
            // A thread of the parent at the time of the fork, which this process does not have.
            Err(holder) => {
                let _ = PLACE.taken.compare_exchange(holder, 0, Ordering::Relaxed, Ordering::Relaxed);
            }
        }
    }
}

fn leave(place: &Place) {
    // Release: pairs with the Acquire in `take`: what this thread read from the place, and stored
    // to the copies, comes before the next thread's turn.
    place.taken.store(0, Ordering::Release);
}

/// Calls `change` while no instruction runs on an alias, unless one does so now. All signals but
/// faults are blocked, as in a handler.
pub(super) fn excluded<R>(change: impl FnOnce() -> R) -> Option<R> {
    let place = try_take()?;
    let result = change();
    leave(place);
    Some(result)
}

/// Lets the instruction run on the alias. `address` is that of its memory operand, `fault` where it
/// faulted.
pub(super) fn start(
    context: &mut Context,
    reading: Reading,
    code: &Code,
    address: usize,
    fault: usize,
) -> Outcome {
    let instruction = &code.instruction;
    let Some(view) = reading.find(fault) else { return Outcome::Done };
    let width = instruction.memory_size().size();
    let Some(address) = element_of(context, instruction, address, width) else { return Outcome::Unknown };
    // Otherwise the fault is not at an operand, but at a stack within a group.
    let is_operand = fault.checked_sub(address).is_some_and(|at| at < width);
    if !is_operand || !is_known(instruction, width) {
        return Outcome::Unknown;
    }
    if view.offset_of(address, width).is_none() {
        return Outcome::Foreign(view.start + view.bytes);
    }
    let (Some((bytes, len)), Some(ground)) = (moved(code, view.alias.wrapping_sub(view.start)), GROUND.get())
    else {
        return Outcome::Unknown;
    };
    let place = take();
    // The thread arrives here by a return from a signal, which is an IRET and makes the processor
    // fetch the new instructions.
    if ground.written.window().put(0, bytes.get(..len).unwrap_or_default()).is_err() {
        leave(place);
        return Outcome::Unknown;
    }
    let if_zero =
        matches!(instruction.mnemonic(), Mnemonic::Cmpxchg | Mnemonic::Cmpxchg8b | Mnemonic::Cmpxchg16b);
    place.address.store(code.address, Ordering::Relaxed);
    place.end.store(code.end(), Ordering::Relaxed);
    place.target.store(address, Ordering::Relaxed);
    place.width.store(width, Ordering::Relaxed);
    place.if_zero.store(u32::from(if_zero), Ordering::Relaxed);
    place.blocked.store(context.blocked(), Ordering::Relaxed);
    place.reading.store(reading.put_aside(), Ordering::Relaxed);
    context.set_blocked(super::handler::put_off());
    context.go_on_at(ground.run);
    Outcome::Displaced
}

/// Handles the breakpoint after the instruction. False: it is not the library's breakpoint.
pub(super) fn end(context: &mut Context) -> bool {
    if !context.instruction().checked_sub(1).is_some_and(is_there) {
        return false;
    }
    let place = &PLACE;
    let (target, width) = (place.target.load(Ordering::Relaxed), place.width.load(Ordering::Relaxed));
    let stores = place.if_zero.load(Ordering::Relaxed) == 0 || context.flags() & ZERO_FLAG != 0;
    context.go_on_at(place.end.load(Ordering::Relaxed));
    context.set_blocked(place.blocked.load(Ordering::Relaxed));
    let reading = Reading::take_up(place.reading.load(Ordering::Relaxed));
    if let Some(view) = reading.find(target)
        && stores
    {
        let mut bytes = [0; VECTOR_BYTES];
        let bytes = bytes.get_mut(..width).unwrap_or_default();
        let offset = target - view.start;
        if fallible::read(view.alias + offset, bytes) == width {
            view.store_to_others(offset, bytes);
        }
    }
    leave(place);
    true
}

/// An instruction faulted while it ran elsewhere: the fault is the program's, at the place where it
/// belongs.
pub(super) fn undo(context: &mut Context) {
    if is_there(context.instruction()) {
        context.go_on_at(PLACE.address.load(Ordering::Relaxed));
        context.set_blocked(PLACE.blocked.load(Ordering::Relaxed));
        drop(Reading::take_up(PLACE.reading.load(Ordering::Relaxed)));
        leave(&PLACE);
    }
}

/// Whether the instruction writes all `width` bytes of its operand, and nothing else.
fn is_known(instruction: &Instruction, width: usize) -> bool {
    let is_whole = instruction.op_mask() == Register::None && (1..=VECTOR_BYTES).contains(&width);
    let is_partial = matches!(
        instruction.mnemonic(),
        Mnemonic::Vmaskmovps | Mnemonic::Vmaskmovpd | Mnemonic::Vpmaskmovd | Mnemonic::Vpmaskmovq
    );
    is_whole && !is_partial && instruction.op0_kind() == OpKind::Memory
}

/// A bit that is numbered by a register may lie in another word than the operand names.
fn element_of(context: &Context, instruction: &Instruction, address: usize, width: usize) -> Option<usize> {
    if !matches!(instruction.mnemonic(), Mnemonic::Bts | Mnemonic::Btr | Mnemonic::Btc) {
        return Some(address);
    }
    if instruction.op1_kind() != OpKind::Register {
        return Some(address);
    }
    let bits = u32::try_from(width * 8).ok()?;
    let number = context.register(instruction.op1_register())? << (64 - bits);
    let signed = number.cast_signed() >> (64 - bits);
    let words = isize::try_from(signed.div_euclid(i64::from(bits))).ok()?;
    address.checked_add_signed(words * isize::try_from(width).ok()?)
}

/// The instruction with its displacement changed, and a breakpoint behind it. Nothing if it has no
/// such operand.
fn moved(code: &Code, distance: usize) -> Option<([u8; 24], usize)> {
    let bytes = code.bytes.get(..code.instruction.len())?;
    let at = place_of_operand(bytes)?;
    let operand = *bytes.get(at)?;
    let (mode, register) = (operand >> 6, operand & 7);
    let has_index = register == 4;
    let after_index = at + 1 + usize::from(has_index);
    let has_no_base = mode == 0 && has_index && bytes.get(at + 1)? & 7 == 5;
    let old_bytes = match mode {
        0 if register == 5 => return None,
        0 if has_no_base => 4,
        0 => 0,
        1 => 1,
        2 => 4,
        _ => return None,
    };
    let distance = i64::try_from(distance.cast_signed()).ok()?;
    let displacement = code.instruction.memory_displacement64().cast_signed().wrapping_add(distance);
    let displacement = i32::try_from(displacement).ok()?.to_le_bytes();
    // Mode 2: a base register and a displacement of 4 bytes.
    let operand = if has_no_base { operand } else { operand & 0x3f | 0x80 };
    let parts = [
        bytes.get(..at)?,
        &[operand],
        bytes.get(at + 1..after_index)?,
        &displacement,
        bytes.get(after_index + old_bytes..)?,
        &[BREAKPOINT],
    ];
    let mut moved = [0; 24];
    let mut len = 0;
    for part in parts {
        moved.get_mut(len..len + part.len())?.copy_from_slice(part);
        len += part.len();
    }
    Some((moved, len))
}

/// The position of the byte (ModRM) that encodes the operand: Intel SDM volume 2, 2.1 and 2.3.
fn place_of_operand(bytes: &[u8]) -> Option<usize> {
    const PREFIXES: [u8; 10] = [0x66, 0xf0, 0xf2, 0xf3, 0x2e, 0x36, 0x3e, 0x26, 0x64, 0x65];
    let mut at = bytes.iter().position(|byte| !PREFIXES.contains(byte))?;
    if bytes.get(at)? >> 4 == 4 {
        at += 1;
    }
    match (*bytes.get(at)?, bytes.get(at + 1).copied().unwrap_or(0)) {
        // An address of 32 bits cannot reach the alias.
        (0x67, _) => None,
        // VEX and EVEX; then the opcode.
        (0xc5, _) => Some(at + 3),
        (0xc4, _) => Some(at + 4),
        (0x62, _) => Some(at + 5),
        // XOP, but not POP.
        (0x8f, second) if second & 0x1f >= 8 => None,
        (0x0f, 0x38 | 0x3a) => Some(at + 3),
        (0x0f, _) => Some(at + 2),
        _ => Some(at + 1),
    }
}
