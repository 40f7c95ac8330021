//! Decodes and carries out one instruction that stores into a view.

use iced_x86::{Decoder, DecoderOptions, Instruction, OpKind, Register};

use super::context::{Context, VECTOR_BYTES};
use super::{displaced, fallible, interpret, store, string};
use crate::group::copies::{Published, Reading};

/// The longest instruction.
const INSTRUCTION_BYTES: usize = 15;

/// The result for a store that faulted.
#[derive(Debug)]
pub(super) enum Outcome {
    /// It was carried out, at least in part: the thread continues where its registers point.
    Done,
    /// The instruction runs elsewhere, and traps when it has.
    Displaced,
    /// A fault that the program would have had anyway, at this address.
    Foreign(usize),
    /// The instruction is not known.
    Unknown,
}

/// An instruction, and its bytes.
#[derive(Debug)]
pub(super) struct Code {
    pub(super) instruction: Instruction,
    pub(super) bytes: [u8; INSTRUCTION_BYTES],
    pub(super) address: usize,
}

impl Code {
    /// The instruction at an address; invalid if there is none.
    pub(super) fn read(address: usize) -> Self {
        let mut bytes = [0; INSTRUCTION_BYTES];
        let readable = fallible::read(address, &mut bytes);
        let code = bytes.get(..readable).unwrap_or_default();
        let instruction = Decoder::with_ip(64, code, address as u64, DecoderOptions::NONE).decode();
        Self { instruction, bytes, address }
    }

    /// The address of the next instruction.
    pub(super) fn end(&self) -> usize {
        self.address + self.instruction.len()
    }
}

/// The address of a memory operand; `None` for segments that do not begin at 0, and for several
/// addresses at once.
pub(super) fn address_of(context: &Context, instruction: &Instruction, operand: u32) -> Option<usize> {
    if instruction.is_vsib() {
        return None;
    }
    let address = instruction.virtual_address(operand, 0, |register, _, _| match register {
        Register::ES | Register::CS | Register::SS | Register::DS => Some(0),
        other => context.register(other),
    })?;
    usize::try_from(address).ok()
}

/// Carries out the store that faulted at `fault`, an address of `view`.
pub(super) fn carry_out(context: &mut Context, reading: Reading, fault: usize) -> Outcome {
    let code = Code::read(context.instruction());
    let Some(view) = reading.find(fault) else { return Outcome::Done };
    if code.instruction.is_invalid() {
        return Outcome::Unknown;
    }
    let Some(outcome) = emulated(context, view, &code) else {
        let Some(address) = address_of(context, &code.instruction, 0) else { return Outcome::Unknown };
        return displaced::start(context, reading, &code, address, fault);
    };
    if matches!(outcome, Outcome::Done) {
        interpret::go_on(context, &reading);
    }
    outcome
}

/// Emulates it, if it is one of those that only store.
fn emulated(context: &mut Context, view: &Published, code: &Code) -> Option<Outcome> {
    if let Some(outcome) = string::carry_out(context, view, code) {
        return Some(outcome);
    }
    if code.instruction.op0_kind() != OpKind::Memory {
        return None;
    }
    let mut bytes = [0; VECTOR_BYTES];
    let value = store::value(context, &code.instruction, &mut bytes)?;
    let address = address_of(context, &code.instruction, 0)?;
    Some(finish(context, view, code, address, &bytes, &value))
}

/// Stores the instruction's value, and continues after it.
pub(super) fn finish(
    context: &mut Context,
    view: &Published,
    code: &Code,
    address: usize,
    bytes: &[u8; VECTOR_BYTES],
    value: &store::Value,
) -> Outcome {
    match put(view, address, bytes, value) {
        Ok(()) => {
            context.go_on_at(code.end());
            Outcome::Done
        }
        Err(outcome) => outcome,
    }
}

fn put(
    view: &Published,
    address: usize,
    bytes: &[u8; VECTOR_BYTES],
    value: &store::Value,
) -> Result<(), Outcome> {
    let width = value.width;
    if value.is_whole() {
        let offset = view.offset_of(address, width).ok_or(Outcome::Foreign(view.start + view.bytes))?;
        view.store(offset, bytes.get(..width).unwrap_or_default());
        return Ok(());
    }
    // Bytes that are masked out are not touched, and need not even be there. In runs, so that words
    // stay whole.
    let mut at = 0;
    while at < width {
        let run = value.run(at);
        if value.has(at) {
            let offset =
                view.offset_of(address + at, run).ok_or(Outcome::Foreign(view.start + view.bytes))?;
            view.store(offset, bytes.get(at..at + run).unwrap_or_default());
        }
        at += run;
    }
    Ok(())
}
