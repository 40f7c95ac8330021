//! The value that a plain store instruction stores: a register, a constant, a vector, or part of
//! one.

use iced_x86::{Instruction, Mnemonic, OpKind, Register};

use super::context::{Context, VECTOR_BYTES, ones};

/// The number of bytes, and a mask of them.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Value {
    pub(super) width: usize,
    /// A bit for each byte.
    mask: u64,
}

impl Value {
    fn whole(width: usize) -> Self {
        Self { width, mask: u64::MAX }
    }

    pub(super) fn is_whole(&self) -> bool {
        self.mask == u64::MAX
    }

    /// Whether this byte is stored.
    pub(super) fn has(&self, byte: usize) -> bool {
        self.mask >> byte & 1 != 0
    }

    /// The number of bytes from there on that are all stored or all left out.
    pub(super) fn run(&self, from: usize) -> usize {
        let rest = self.mask >> from;
        let alike = if self.has(from) { rest.trailing_ones() } else { rest.trailing_zeros() };
        (alike as usize).min(self.width - from)
    }
}

/// The value that `instruction`, whose first operand is memory, stores; `None` if it is not a store
/// that is known here.
pub(super) fn value(
    context: &Context,
    instruction: &Instruction,
    bytes: &mut [u8; VECTOR_BYTES],
) -> Option<Value> {
    let width = instruction.memory_size().size();
    if width == 0 || width > VECTOR_BYTES {
        return None;
    }
    match instruction.mnemonic() {
        Mnemonic::Mov | Mnemonic::Movnti => general(context, instruction, width, bytes),
        Mnemonic::Movhps | Mnemonic::Movhpd | Mnemonic::Vmovhps | Mnemonic::Vmovhpd => {
            vector(context, instruction.op1_register(), bytes)?;
            bytes.copy_within(8..16, 0);
            Some(Value::whole(width))
        }
        Mnemonic::Movd | Mnemonic::Movq | Mnemonic::Vmovd | Mnemonic::Vmovq => {
            vector(context, instruction.op1_register(), bytes)?;
            Some(Value::whole(width))
        }
        Mnemonic::Vmaskmovps | Mnemonic::Vpmaskmovd => {
            masked_by_vector(context, instruction, 4, width, bytes)
        }
        Mnemonic::Vmaskmovpd | Mnemonic::Vpmaskmovq => {
            masked_by_vector(context, instruction, 8, width, bytes)
        }
        mnemonic => {
            let element_bytes = element_of_move(mnemonic)?;
            vector(context, instruction.op1_register(), bytes)?;
            match instruction.op_mask() {
                Register::None => Some(Value::whole(width)),
                register => {
                    let mask = context.mask(register as usize - Register::K0 as usize);
                    Some(Value { width, mask: spread(mask, element_bytes, width) })
                }
            }
        }
    }
}

/// Moves of whole vectors, and of their lowest elements: the number of bytes for one bit of a mask.
fn element_of_move(mnemonic: Mnemonic) -> Option<usize> {
    use Mnemonic as M;
    match mnemonic {
        M::Vmovdqu8 => Some(1),
        M::Vmovdqu16 => Some(2),
        M::Movups | M::Movaps | M::Movntps | M::Movss | M::Vmovups | M::Vmovaps | M::Vmovntps | M::Vmovss => {
            Some(4)
        }
        M::Vmovdqu32 | M::Vmovdqa32 => Some(4),
        M::Movupd | M::Movapd | M::Movntpd | M::Movsd | M::Vmovupd | M::Vmovapd | M::Vmovntpd | M::Vmovsd => {
            Some(8)
        }
        M::Movdqu | M::Movdqa | M::Movntdq | M::Vmovdqu | M::Vmovdqa | M::Vmovntdq => Some(8),
        M::Vmovdqu64 | M::Vmovdqa64 | M::Movlps | M::Movlpd | M::Vmovlps | M::Vmovlpd => Some(8),
        _ => None,
    }
}

fn general(
    context: &Context,
    instruction: &Instruction,
    width: usize,
    bytes: &mut [u8; VECTOR_BYTES],
) -> Option<Value> {
    let value = match instruction.op1_kind() {
        OpKind::Register => context.register(instruction.op1_register())?,
        OpKind::Immediate8
        | OpKind::Immediate16
        | OpKind::Immediate32
        | OpKind::Immediate64
        | OpKind::Immediate8to16
        | OpKind::Immediate8to32
        | OpKind::Immediate8to64
        | OpKind::Immediate32to64 => instruction.immediate(1),
        _ => return None,
    };
    bytes.get_mut(..8)?.copy_from_slice(&value.to_le_bytes());
    Some(Value::whole(width))
}

/// The number of a vector register.
pub(super) fn number_of(register: Register) -> Option<usize> {
    let at = register as usize;
    [Register::XMM0, Register::YMM0, Register::ZMM0]
        .into_iter()
        .find_map(|first| at.checked_sub(first as usize).filter(|&number| number < 32))
}

fn vector(context: &Context, register: Register, bytes: &mut [u8; VECTOR_BYTES]) -> Option<()> {
    context.vector(number_of(register)?, bytes);
    Some(())
}

/// The second operand's sign bits choose elements of the third.
fn masked_by_vector(
    context: &Context,
    instruction: &Instruction,
    element_bytes: usize,
    width: usize,
    bytes: &mut [u8; VECTOR_BYTES],
) -> Option<Value> {
    vector(context, instruction.op1_register(), bytes)?;
    let mask = signs(bytes, element_bytes, width);
    vector(context, instruction.op2_register(), bytes)?;
    Some(Value { width, mask: spread(mask, element_bytes, width) })
}

/// The highest bit of each element.
pub(super) fn signs(bytes: &[u8; VECTOR_BYTES], element_bytes: usize, width: usize) -> u64 {
    let elements = bytes.get(..width).unwrap_or_default().chunks_exact(element_bytes);
    elements.enumerate().fold(0, |mask, (index, element)| {
        mask | u64::from(element.last().is_some_and(|&byte| byte & 0x80 != 0)) << index
    })
}

/// A bit for each byte from a bit for each element.
pub(super) fn spread(mask: u64, element_bytes: usize, width: usize) -> u64 {
    let element = ones(u32::try_from(element_bytes * 8).unwrap_or(64) / 8);
    let chosen = (0..width / element_bytes).filter(|&index| mask >> index & 1 != 0);
    let spread = chosen.fold(0, |bytes, index| bytes | element << (index * element_bytes));
    // All of them: nothing is masked.
    if spread == ones(u32::try_from(width).unwrap_or(64)) { u64::MAX } else { spread }
}

/// For stores whose mask is in another operand.
pub(super) fn masked(width: usize, mask: u64) -> Value {
    Value { width, mask }
}
