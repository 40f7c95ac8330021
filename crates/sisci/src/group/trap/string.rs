//! Emulates movs and stos, single and repeated, and maskmovdqu.

use iced_x86::{Mnemonic, OpKind, Register};

use super::context::{Context, RAX, RCX, RDI, RSI, VECTOR_BYTES};
use super::emulate::{Code, Outcome};
use super::{fallible, store};
use crate::group::copies::Published;

/// The number of bytes of one step: a handler's stack is small.
const PIECE_BYTES: usize = 256;
/// Strings grow down.
const DIRECTION_FLAG: u64 = 1 << 10;

/// Carries the instruction out, if it is one of these.
pub(super) fn carry_out(context: &mut Context, view: &Published, code: &Code) -> Option<Outcome> {
    let instruction = &code.instruction;
    match (instruction.mnemonic(), instruction.op0_kind()) {
        (Mnemonic::Movsb | Mnemonic::Movsw | Mnemonic::Movsd | Mnemonic::Movsq, OpKind::MemoryESRDI) => {
            // Of the source's segments, only those that begin at 0.
            let is_plain = instruction.op1_kind() == OpKind::MemorySegRSI
                && !matches!(instruction.memory_segment(), Register::FS | Register::GS);
            is_plain.then(|| repeat(context, view, code, true))
        }
        (Mnemonic::Stosb | Mnemonic::Stosw | Mnemonic::Stosd | Mnemonic::Stosq, OpKind::MemoryESRDI) => {
            Some(repeat(context, view, code, false))
        }
        (Mnemonic::Maskmovdqu | Mnemonic::Vmaskmovdqu, OpKind::MemorySegRDI) => {
            maskmovdqu(context, view, code)
        }
        _ => None,
    }
}

fn repeat(context: &mut Context, view: &Published, code: &Code, is_copy: bool) -> Outcome {
    let instruction = &code.instruction;
    let width = instruction.memory_size().size();
    let is_repeated = instruction.has_rep_prefix() || instruction.has_repne_prefix();
    let mut piece = [0; PIECE_BYTES];
    if !is_copy {
        let value = context.general(RAX).to_le_bytes();
        piece
            .chunks_exact_mut(width)
            .for_each(|chunk| chunk.copy_from_slice(value.get(..width).unwrap_or_default()));
    }
    let mut left = if is_repeated { count(context, RCX) } else { 1 };
    while left > 0 {
        let (to, from) = (count(context, RDI), count(context, RSI));
        let wanted = together(context, left, width, is_copy, to, from);
        let room = view.offset_of(to, width).map(|offset| ((view.bytes - offset) / width).min(wanted));
        // Memory beyond the view is not the library's: the instruction faults there by itself.
        let Some(elements) = room else { return Outcome::Foreign(to.max(view.start + view.bytes)) };
        let bytes = piece.get_mut(..elements * width).unwrap_or_default();
        let read = if is_copy { fallible::read(from, bytes) } else { bytes.len() };
        let done = read / width;
        view.store(to - view.start, bytes.get(..done * width).unwrap_or_default());
        step(context, done * width, is_copy);
        left -= done;
        if is_repeated {
            context.set_general(RCX, left as u64);
        }
        if done < elements {
            return Outcome::Foreign(from + read);
        }
    }
    context.go_on_at(code.end());
    Outcome::Done
}

fn count(context: &Context, register: usize) -> usize {
    usize::try_from(context.general(register)).unwrap_or(usize::MAX)
}

/// The number of elements that can be read before the first of them is written.
fn together(context: &Context, left: usize, width: usize, is_copy: bool, to: usize, from: usize) -> usize {
    let most = left.min(PIECE_BYTES / width);
    let goes_down = context.flags() & DIRECTION_FLAG != 0;
    // Bytes that were just written are read again, so one element is copied after the other.
    let overlaps = is_copy && to.wrapping_sub(from) < most * width;
    if goes_down || overlaps { 1 } else { most }
}

fn step(context: &mut Context, bytes: usize, is_copy: bool) {
    let goes_down = context.flags() & DIRECTION_FLAG != 0;
    for register in [Some(RDI), is_copy.then_some(RSI)].into_iter().flatten() {
        let at = context.general(register);
        let next = if goes_down { at.wrapping_sub(bytes as u64) } else { at.wrapping_add(bytes as u64) };
        context.set_general(register, next);
    }
}

fn maskmovdqu(context: &mut Context, view: &Published, code: &Code) -> Option<Outcome> {
    const WIDTH: usize = 16;
    let address = count(context, RDI);
    let mut bytes = [0; VECTOR_BYTES];
    context.vector(store::number_of(code.instruction.op2_register())?, &mut bytes);
    let mask = store::signs(&bytes, 1, WIDTH);
    context.vector(store::number_of(code.instruction.op1_register())?, &mut bytes);
    let value = store::masked(WIDTH, store::spread(mask, 1, WIDTH));
    Some(super::emulate::finish(context, view, code, address, &bytes, &value))
}
