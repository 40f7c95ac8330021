//! Interprets the instructions after a store in the same handler, so that a loop that fills a page
//! costs one signal.
//!
//! Only instructions whose every effect is known here are interpreted; the thread itself continues
//! with the first one that is not, or after a number of instructions without a store. So only speed
//! depends on this module, not correctness.

use iced_x86::{ConditionCode, Instruction, Mnemonic, OpKind};

use super::context::{Context, VECTOR_BYTES};
use super::emulate::{self, Code, Outcome};
use super::flags::{self, Operation};
use super::{fallible, store, string};
use crate::group::copies::Reading;

/// The thread's signals wait for at most this number of instructions.
const STEPS: usize = 8192;
/// After this number of instructions without a store to a group the loop counts as over.
const WITHOUT_STORE: usize = 24;
/// Instructions of a loop that are decoded once. On a handler's stack, which is small.
const DECODED: usize = 16;

/// The kind of an instruction.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    /// A store to a group.
    Stored,
    Other,
    /// Nothing was done.
    Unknown,
}

/// Continues at the thread's position. The thread is between two instructions afterwards.
pub(super) fn go_on(context: &mut Context, reading: &Reading) {
    let mut decoded = Decoded { all: [const { None }; DECODED], filled: 0, next: 0 };
    let mut without_store = 0;
    for _ in 0..STEPS {
        let Some(code) = decoded.code(context.instruction()) else { return };
        match step(context, reading, code) {
            Step::Stored => without_store = 0,
            Step::Other if without_store < WITHOUT_STORE => without_store += 1,
            Step::Other | Step::Unknown => return,
        }
    }
}

/// Recently decoded instructions; the oldest is replaced first.
struct Decoded {
    all: [Option<Code>; DECODED],
    filled: usize,
    /// Most likely the next one.
    next: usize,
}

impl Decoded {
    fn code(&mut self, address: usize) -> Option<&Code> {
        let is_it = |code: &Option<Code>| code.as_ref().is_some_and(|code| code.address == address);
        let mut place = self.next % DECODED;
        if !self.all.get(place).is_some_and(is_it) {
            place = match self.all.iter().position(is_it) {
                Some(place) => place,
                None => {
                    let place = self.filled % DECODED;
                    *self.all.get_mut(place)? = Some(Code::read(address));
                    self.filled += 1;
                    place
                }
            };
        }
        self.next = place + 1;
        self.all.get(place)?.as_ref()
    }
}

fn step(context: &mut Context, reading: &Reading, code: &Code) -> Step {
    let instruction = &code.instruction;
    if instruction.is_invalid() || instruction.has_lock_prefix() {
        return Step::Unknown;
    }
    let done = match instruction.op0_kind() {
        OpKind::Memory if !matches!(instruction.mnemonic(), Mnemonic::Cmp | Mnemonic::Test) => {
            return stored(context, reading, code);
        }
        OpKind::MemoryESRDI => {
            return repeated(context, reading, code);
        }
        OpKind::NearBranch64 => return jumped(context, code),
        _ => changed(context, instruction),
    };
    if done.is_none() {
        return Step::Unknown;
    }
    context.go_on_at(code.end());
    Step::Other
}

/// A store of a register, a constant or a vector: to a group, or to any other memory, as to the
/// stack.
fn stored(context: &mut Context, reading: &Reading, code: &Code) -> Step {
    let instruction = &code.instruction;
    if is_hint(instruction.mnemonic()) {
        context.go_on_at(code.end());
        return Step::Other;
    }
    let mut bytes = [0; VECTOR_BYTES];
    let Some(address) = emulate::address_of(context, instruction, 0) else { return Step::Unknown };
    let Some(value) = store::value(context, instruction, &mut bytes) else { return Step::Unknown };
    // An instruction that needs an aligned address and has none faults by itself.
    if wants_boundary(instruction.mnemonic()) && !address.is_multiple_of(value.width) {
        return Step::Unknown;
    }
    if let Some(view) = reading.find(address) {
        return match emulate::finish(context, view, code, address, &bytes, &value) {
            Outcome::Done => Step::Stored,
            _ => Step::Unknown,
        };
    }
    let word = bytes.first_chunk().copied().map_or(0, u64::from_le_bytes);
    if !value.is_whole()
        || reading.find(address + value.width - 1).is_some()
        || !fallible::store(address, word, value.width)
    {
        return Step::Unknown;
    }
    context.go_on_at(code.end());
    Step::Other
}

fn repeated(context: &mut Context, reading: &Reading, code: &Code) -> Step {
    let address = emulate::address_of(context, &code.instruction, 0);
    let Some(view) = address.and_then(|address| reading.find(address)) else { return Step::Unknown };
    match string::carry_out(context, view, code) {
        Some(Outcome::Done) => Step::Stored,
        _ => Step::Unknown,
    }
}

fn jumped(context: &mut Context, code: &Code) -> Step {
    let instruction = &code.instruction;
    let taken = match instruction.condition_code() {
        _ if instruction.is_jmp_short_or_near() => true,
        ConditionCode::None => return Step::Unknown,
        condition if instruction.is_jcc_short_or_near() => flags::holds(context.flags(), condition),
        _ => return Step::Unknown,
    };
    let target = usize::try_from(instruction.near_branch64()).unwrap_or(0);
    context.go_on_at(if taken { target } else { code.end() });
    Step::Other
}

/// Prefetches, and instructions that do nothing.
fn is_hint(mnemonic: Mnemonic) -> bool {
    use Mnemonic as M;
    matches!(
        mnemonic,
        M::Nop | M::Endbr64 | M::Prefetcht0 | M::Prefetcht1 | M::Prefetcht2 | M::Prefetchnta | M::Prefetchw
    )
}

/// Moves of vectors that fault where they are not aligned.
fn wants_boundary(mnemonic: Mnemonic) -> bool {
    use Mnemonic as M;
    matches!(
        mnemonic,
        M::Movaps
            | M::Movapd
            | M::Movdqa
            | M::Movntdq
            | M::Movntps
            | M::Movntpd
            | M::Vmovaps
            | M::Vmovapd
            | M::Vmovdqa
            | M::Vmovdqa32
            | M::Vmovdqa64
            | M::Vmovntdq
            | M::Vmovntps
            | M::Vmovntpd
    )
}

/// An instruction that changes registers alone. Nothing: it is not known, and nothing was changed.
fn changed(context: &mut Context, instruction: &Instruction) -> Option<()> {
    use Mnemonic as M;
    match instruction.mnemonic() {
        M::Nop | M::Endbr64 => return Some(()),
        M::Lea => {
            let address = emulate::address_of(context, instruction, 1)?;
            context.set_register(instruction.op0_register(), address as u64);
            return Some(());
        }
        M::Mov | M::Movzx => {
            let value = operand(context, instruction, 1)?;
            context.register(instruction.op0_register())?;
            context.set_register(instruction.op0_register(), value);
            return Some(());
        }
        M::Movsx | M::Movsxd => {
            let value = operand(context, instruction, 1)?;
            let unused = 64 - bits_of(instruction, 1)?;
            context.set_register(
                instruction.op0_register(),
                (value << unused).cast_signed().wrapping_shr(unused).cast_unsigned(),
            );
            return Some(());
        }
        _ => {}
    }
    if let Some(operation) = operation_of(instruction.mnemonic()) {
        return computed(context, instruction, operation);
    }
    loaded(context, instruction)
}

fn operation_of(mnemonic: Mnemonic) -> Option<Operation> {
    match mnemonic {
        Mnemonic::Add => Some(Operation::Add),
        Mnemonic::Sub | Mnemonic::Cmp => Some(Operation::Subtract),
        Mnemonic::Inc => Some(Operation::Increment),
        Mnemonic::Dec => Some(Operation::Decrement),
        Mnemonic::And | Mnemonic::Test => Some(Operation::And),
        Mnemonic::Or => Some(Operation::Or),
        Mnemonic::Xor => Some(Operation::ExclusiveOr),
        _ => None,
    }
}

fn computed(context: &mut Context, instruction: &Instruction, operation: Operation) -> Option<()> {
    let bits = bits_of(instruction, 0)?;
    let first = operand(context, instruction, 0)?;
    let second = if instruction.op_count() > 1 { operand(context, instruction, 1)? } else { 1 };
    let (result, flags) = flags::compute(operation, first, second, bits, context.flags());
    if !matches!(instruction.mnemonic(), Mnemonic::Cmp | Mnemonic::Test) {
        context.set_register(instruction.op0_register(), result);
    }
    context.set_flags(flags);
    Some(())
}

/// Bits of a general register, or of the memory operand.
fn bits_of(instruction: &Instruction, operand: u32) -> Option<u32> {
    let bytes = match instruction.op_kind(operand) {
        OpKind::Register => instruction.op_register(operand).size(),
        OpKind::Memory => instruction.memory_size().size(),
        _ => return None,
    };
    (1..=8).contains(&bytes).then_some(8 * u32::try_from(bytes).ok()?)
}

/// A general register, a constant, or a word of memory.
fn operand(context: &Context, instruction: &Instruction, operand: u32) -> Option<u64> {
    match instruction.op_kind(operand) {
        OpKind::Register => context.register(instruction.op_register(operand)),
        OpKind::Memory => {
            let address = emulate::address_of(context, instruction, operand)?;
            fallible::load(address, instruction.memory_size().size())
        }
        _ => instruction.try_immediate(operand).ok(),
    }
}

/// A load of a whole vector register.
fn loaded(context: &mut Context, instruction: &Instruction) -> Option<()> {
    use Mnemonic as M;
    let mnemonic = instruction.mnemonic();
    let keeps_above = match mnemonic {
        M::Movups | M::Movupd | M::Movdqu | M::Movaps | M::Movapd | M::Movdqa => true,
        M::Vmovups | M::Vmovupd | M::Vmovdqu | M::Vmovaps | M::Vmovapd | M::Vmovdqa => false,
        M::Vmovdqu8 | M::Vmovdqu16 | M::Vmovdqu32 | M::Vmovdqu64 | M::Vmovdqa32 | M::Vmovdqa64 => false,
        _ => return None,
    };
    if instruction.op_mask() != iced_x86::Register::None || instruction.op1_kind() != OpKind::Memory {
        return None;
    }
    let (number, width) = (store::number_of(instruction.op0_register())?, instruction.memory_size().size());
    let address = emulate::address_of(context, instruction, 1)?;
    if wants_boundary(mnemonic) && !address.is_multiple_of(width) {
        return None;
    }
    let mut bytes = [0; VECTOR_BYTES];
    if keeps_above {
        context.vector(number, &mut bytes);
    }
    for at in (0..width).step_by(8) {
        let word = fallible::load(address + at, 8)?;
        bytes.get_mut(at..at + 8)?.copy_from_slice(&word.to_le_bytes());
    }
    context.set_vector(number, &bytes).then_some(())
}
