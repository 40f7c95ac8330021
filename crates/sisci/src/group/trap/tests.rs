//! Each class of instruction, run on plain memory and through the trap: memory, registers and flags
//! must come out alike.
#![allow(clippy::unwrap_used)]

use core::arch::asm;
use std::sync::Arc;

use shm::region::{MapAccess, Region, RegionOptions};

use crate::group::copies::Copy;
use crate::group::view::View;

mod classes;
mod faults;
mod loops;
mod many;

pub(super) const BYTES: usize = 3 * 4096;

/// A view with copies of its own.
pub(super) struct Rig {
    pub(super) view: View,
    pub(super) copies: Vec<Arc<Region>>,
}

pub(super) fn region(bytes: usize) -> Arc<Region> {
    let owner = Region::create(&RegionOptions::new("group-test", bytes)).unwrap();
    // As a writer has it: mapped from a descriptor.
    Arc::new(Region::open(owner.fd().try_clone_to_owned().unwrap(), MapAccess::ReadWrite).unwrap())
}

pub(super) fn copy_of(region: &Arc<Region>) -> Copy {
    Copy { start: region.as_ptr().expose_provenance(), _kept: Arc::<Region>::clone(region) }
}

impl Rig {
    pub(super) fn with(copies: usize) -> Self {
        let copies: Vec<_> = (0..copies).map(|_| region(BYTES)).collect();
        let view = View::new(BYTES, true).unwrap();
        view.follow(copies.iter().map(copy_of).collect(), None).unwrap();
        Self { view, copies }
    }

    pub(super) fn bytes(&self, copy: usize) -> Vec<u8> {
        let mut bytes = vec![0; BYTES];
        self.copies[copy].window().get(0, &mut bytes).unwrap();
        bytes
    }
}

/// What an instruction may use and change. rdi is the address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Registers {
    pub(super) rax: u64,
    pub(super) rcx: u64,
    pub(super) rdx: u64,
    pub(super) rsi: u64,
    pub(super) rdi: u64,
    pub(super) r8: u64,
    pub(super) flags: u64,
}

/// Eight vector registers of 64 bytes, for instructions that read or change them.
pub(super) type Vectors = [[u8; 64]; 8];

pub(super) type Run = unsafe fn(&mut Registers);

/// The function that runs these lines with the registers given, and gives back what they are then.
macro_rules! run {
    ($($line:literal),+) => {{
        unsafe fn run(registers: &mut super::Registers) {
            // SAFETY: the caller chose registers with which the lines store into memory of the test
            // alone. What they change is named; the flags are put back to what Rust expects (the
            // direction).
            unsafe {
                core::arch::asm!(
                    "push r9", "popfq",
                    $($line,)+
                    "pushfq", "pop r9", "cld",
                    inout("rax") registers.rax, inout("rcx") registers.rcx, inout("rdx") registers.rdx,
                    inout("rsi") registers.rsi, inout("rdi") registers.rdi, inout("r8") registers.r8,
                    inout("r9") registers.flags, out("r10") _, out("r11") _,
                    out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm15") _,
                    out("k1") _, out("mm0") _, out("st(0)") _,
                )
            }
        }
        run as super::Run
    }};
}
pub(super) use run;

/// Sum, carry, zero, sign, overflow, parity, auxiliary, direction.
const FLAGS: u64 = 0x0cd5;

/// Runs the same on plain memory with two contents, and through a view whose copies have these
/// contents.
pub(super) fn check(name: &str, run: Run, registers: Registers, contents: [&[u8]; 2]) {
    let rig = Rig::with(2);
    let base = rig.view.start() as u64;
    let (mut expected, mut plain_registers) = (Vec::new(), Registers::default());
    for (index, content) in contents.iter().enumerate() {
        rig.copies[index].window().put(0, content).unwrap();
        let plain = region(BYTES);
        plain.window().put(0, content).unwrap();
        let start = plain.as_ptr().expose_provenance() as u64;
        let after = run_at(run, registers, start);
        if index == 0 {
            plain_registers = after;
        }
        let mut bytes = vec![0; BYTES];
        plain.window().get(0, &mut bytes).unwrap();
        expected.push(bytes);
    }
    let after = run_at(run, registers, base);
    assert_eq!(after, plain_registers, "{name}: registers");
    for (copy, expected) in expected.iter().enumerate() {
        let bytes = rig.bytes(copy);
        let differs = bytes.iter().zip(expected).position(|(a, b)| a != b);
        assert_eq!(differs, None, "{name}: first byte of copy {copy} that differs from plain memory");
    }
}

/// Registers come back relative to the memory, so that they can be compared.
fn run_at(run: Run, mut registers: Registers, start: u64) -> Registers {
    registers.rdi = registers.rdi.wrapping_add(start);
    // SAFETY: see `run!`: the tests choose addresses inside of the memory at `start`.
    unsafe { run(&mut registers) };
    registers.rdi = registers.rdi.wrapping_sub(start);
    registers.flags &= FLAGS;
    registers
}

/// Whether this processor has what the instruction needs; without, it is left out.
pub(super) fn has_avx512() -> bool {
    std::arch::is_x86_feature_detected!("avx512f") && std::arch::is_x86_feature_detected!("avx512bw")
}

#[test]
fn the_saved_vector_registers_are_those_of_the_program() {
    if !has_avx512() {
        return;
    }
    let rig = Rig::with(2);
    let source: Vectors = core::array::from_fn(|row| core::array::from_fn(|at| (row * 64 + at) as u8));
    // SAFETY: the stores go to the view, which is three pages long; the loads come from `source`.
    unsafe {
        asm!(
            "vmovdqu64 zmm0, [{from}]", "vmovdqu64 zmm7, [{from} + 64]",
            "vmovdqu64 zmm16, [{from} + 128]", "vmovdqu64 zmm31, [{from} + 192]",
            "vmovdqu64 [{to}], zmm0", "vmovdqu64 [{to} + 64], zmm7",
            "vmovdqu64 [{to} + 128], zmm16", "vmovntdq [{to} + 192], zmm31",
            "vzeroall",
            "vmovdqu [{to} + 256], ymm3",
            from = in(reg) source.as_ptr(), to = in(reg) rig.view.start(),
            out("zmm0") _, out("zmm7") _, out("zmm16") _, out("zmm31") _, out("zmm3") _,
        );
    }
    for copy in 0..2 {
        let bytes = rig.bytes(copy);
        assert_eq!(bytes[..256], source.concat()[..256]);
        assert!(bytes[256..].iter().all(|&byte| byte == 0));
    }
}

#[test]
#[ignore = "prints what a store costs; nothing to fail"]
#[allow(clippy::print_stderr)]
fn cost() {
    for copies in [1, 2, 4] {
        let rig = Rig::with(copies);
        let at = std::ptr::with_exposed_provenance_mut::<u32>(rig.view.start());
        let rounds = 100_000;
        let begun = std::time::Instant::now();
        for round in 0..rounds {
            // SAFETY: the view is mapped while `rig` lives.
            unsafe { at.add((round & 1023) as usize).write_volatile(round) };
        }
        let stored = begun.elapsed().as_nanos() / u128::from(rounds);
        let begun = std::time::Instant::now();
        for _ in 0..rounds {
            // SAFETY: as above.
            unsafe { asm!("lock inc dword ptr [{}]", in(reg) at) };
        }
        let added = begun.elapsed().as_nanos() / u128::from(rounds);
        eprintln!("{copies} copies: a store {stored} ns, a locked increment {added} ns");
    }
}
