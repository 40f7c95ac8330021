//! Arithmetic with its flags: Intel SDM volume 1, 3.4.3.

use iced_x86::ConditionCode;

use super::context::ones;

const CARRY: u64 = 1;
const PARITY: u64 = 1 << 2;
const AUXILIARY: u64 = 1 << 4;
const ZERO: u64 = 1 << 6;
const SIGN: u64 = 1 << 7;
const OVERFLOW: u64 = 1 << 11;
const ALL: u64 = CARRY | PARITY | AUXILIARY | ZERO | SIGN | OVERFLOW;

/// The operation on two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Add,
    Subtract,
    /// Adds 1 and keeps the carry.
    Increment,
    Decrement,
    And,
    Or,
    ExclusiveOr,
}

/// The result, and the flags after it.
pub(super) fn compute(operation: Operation, first: u64, second: u64, bits: u32, before: u64) -> (u64, u64) {
    let (first, second) = (first & ones(bits), second & ones(bits));
    let wide = match operation {
        Operation::Add | Operation::Increment => first.wrapping_add(second),
        Operation::Subtract | Operation::Decrement => first.wrapping_sub(second),
        Operation::And => first & second,
        Operation::Or => first | second,
        Operation::ExclusiveOr => first ^ second,
    };
    let result = wide & ones(bits);
    let sign = |value: u64| value >> (bits - 1) & 1 != 0;
    let (carry, overflow, auxiliary) = match operation {
        Operation::Add | Operation::Increment => (
            result < first,
            sign(!(first ^ second) & (first ^ result)),
            (first ^ second ^ result) & 0x10 != 0,
        ),
        Operation::Subtract | Operation::Decrement => {
            (first < second, sign((first ^ second) & (first ^ result)), (first ^ second ^ result) & 0x10 != 0)
        }
        Operation::And | Operation::Or | Operation::ExclusiveOr => (false, false, false),
    };
    let keeps_carry = matches!(operation, Operation::Increment | Operation::Decrement);
    let carry = if keeps_carry { before & CARRY != 0 } else { carry };
    let flag = |is_set: bool, flag: u64| if is_set { flag } else { 0 };
    let flags = before & !ALL
        | flag(carry, CARRY)
        | flag((result & 0xff).count_ones().is_multiple_of(2), PARITY)
        | flag(auxiliary, AUXILIARY)
        | flag(result == 0, ZERO)
        | flag(sign(result), SIGN)
        | flag(overflow, OVERFLOW);
    (result, flags)
}

/// Whether a condition holds.
pub(super) fn holds(flags: u64, condition: ConditionCode) -> bool {
    let is = |flag: u64| flags & flag != 0;
    let less = is(SIGN) != is(OVERFLOW);
    match condition {
        ConditionCode::None => true,
        ConditionCode::o => is(OVERFLOW),
        ConditionCode::no => !is(OVERFLOW),
        ConditionCode::b => is(CARRY),
        ConditionCode::ae => !is(CARRY),
        ConditionCode::e => is(ZERO),
        ConditionCode::ne => !is(ZERO),
        ConditionCode::be => is(CARRY) || is(ZERO),
        ConditionCode::a => !(is(CARRY) || is(ZERO)),
        ConditionCode::s => is(SIGN),
        ConditionCode::ns => !is(SIGN),
        ConditionCode::p => is(PARITY),
        ConditionCode::np => !is(PARITY),
        ConditionCode::l => less,
        ConditionCode::ge => !less,
        ConditionCode::le => less || is(ZERO),
        ConditionCode::g => !(less || is(ZERO)),
    }
}
