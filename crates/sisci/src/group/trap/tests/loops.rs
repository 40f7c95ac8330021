//! What follows a store is interpreted: it must come out as if it had run.

use proptest::prelude::*;

use super::{BYTES, Registers, Run, check, has_avx512, run};

fn content() -> Vec<u8> {
    (0..BYTES).map(|at| (at * 11 + 3) as u8).collect()
}

fn all(list: &[Run], registers: Registers) {
    let content = content();
    for (index, run) in list.iter().enumerate() {
        check(&format!("loop {index}"), *run, registers, [&content, &content]);
    }
}

#[test]
fn loops_over_words() {
    let list = [
        run!("2:", "mov [rdi + rcx*4 - 4], eax", "add eax, 3", "dec rcx", "jnz 2b"),
        run!("2:", "mov [rdi], al", "inc rdi", "sub rcx, 1", "jne 2b"),
        run!(
            "mov r10, rdi",
            "2:",
            "mov qword ptr [r10], 7",
            "add r10, 8",
            "lea r11, [rdi + rcx*8]",
            "cmp r10, r11",
            "jb 2b"
        ),
        run!("2:", "mov edx, [rdi + rcx*4]", "mov [rdi + rcx*4 + 2000], edx", "add rcx, -1", "jns 2b"),
        run!(
            "2:",
            "mov r10, rcx",
            "and r10d, 7",
            "mov [rdi + rcx*8], r10",
            "test r10d, r10d",
            "je 3f",
            "or eax, 1",
            "3:",
            "xor edx, ecx",
            "dec ecx",
            "jg 2b"
        ),
        run!(
            "2:",
            "movzx r10d, byte ptr [rdi + rcx]",
            "movsx r11, r10b",
            "mov [rdi + rcx*8], r11",
            "movsxd r10, ecx",
            "mov ah, dl",
            "dec cl",
            "ja 2b"
        ),
    ];
    all(&list, Registers { rax: 5, rcx: 90, rdx: 7, rdi: 4096, r8: 0x91, rsi: 0, flags: 0x202 });
}

#[test]
fn a_loop_with_its_variable_on_the_stack() {
    let list = [run!(
        "push rcx",
        "2:",
        "mov r10, [rsp]",
        "mov [rdi + r10*4], eax",
        "sub qword ptr [rsp], 0",
        "mov r10, [rsp]",
        "dec r10",
        "mov [rsp], r10",
        "cmp qword ptr [rsp], 0",
        "jne 2b",
        "pop rcx"
    )];
    all(&list, Registers { rax: 5, rcx: 90, rdi: 4096, flags: 0x202, ..Registers::default() });
}

#[test]
fn loops_over_vectors_keep_what_lies_above() {
    let list = [
        run!("2:", "movdqu xmm0, [rdi + rcx]", "movups [rdi + rcx + 1500], xmm0", "sub rcx, 16", "jae 2b"),
        run!("2:", "vmovdqu ymm1, [rdi + rcx]", "vmovdqu [rdi + rcx + 1500], ymm1", "sub rcx, 32", "jae 2b"),
        run!(
            "vpcmpeqb ymm2, ymm2, ymm2",
            "mov [rdi], eax",
            "movdqu xmm2, [rdi + 64]",
            "vmovdqu [rdi + 128], ymm2",
            "vmovdqu xmm2, [rdi + 64]",
            "vmovdqu [rdi + 256], ymm2"
        ),
    ];
    all(&list, Registers { rax: 5, rcx: 320, rdi: 4096, flags: 0x202, ..Registers::default() });
    if has_avx512() {
        let list = [
            run!(
                "2:",
                "vmovdqu64 zmm16, [rdi + rcx]",
                "vmovdqu64 [rdi + rcx + 1500], zmm16",
                "sub rcx, 64",
                "jae 2b"
            ),
            run!(
                "vpternlogd zmm2, zmm2, zmm2, 255",
                "mov [rdi], eax",
                "movups xmm2, [rdi + 64]",
                "vmovdqu64 [rdi + 128], zmm2",
                "vmovups ymm2, [rdi + 64]",
                "vmovdqu64 [rdi + 256], zmm2"
            ),
        ];
        all(&list, Registers { rax: 5, rcx: 320, rdi: 4096, flags: 0x202, ..Registers::default() });
    }
}

#[test]
fn a_loop_that_leaves_the_group_goes_on_outside() {
    // More than is interpreted at a time, and a long stretch without a store to the group.
    let list = [run!("mov [rdi], eax", "mov r10d, 100000", "2:", "dec r10d", "jnz 2b", "mov [rdi + 8], eax")];
    all(&list, Registers { rax: 5, rdi: 4096, flags: 0x202, ..Registers::default() });
}

/// Each operation, at once after a store, so that it is interpreted.
fn operations() -> Vec<Run> {
    vec![
        run!("mov [rdi], al", "add rax, rdx"),
        run!("mov [rdi], al", "add eax, edx"),
        run!("mov [rdi], al", "add ax, dx"),
        run!("mov [rdi], al", "add al, dl"),
        run!("mov [rdi], al", "sub rax, rdx"),
        run!("mov [rdi], al", "sub eax, edx"),
        run!("mov [rdi], al", "sub ah, dl"),
        run!("mov [rdi], al", "cmp ax, dx"),
        run!("mov [rdi], al", "cmp rax, rdx"),
        run!("mov [rdi], al", "and rax, rdx"),
        run!("mov [rdi], al", "test al, dl"),
        run!("mov [rdi], al", "or ax, dx"),
        run!("mov [rdi], al", "xor eax, edx"),
        run!("mov [rdi], al", "inc ax"),
        run!("mov [rdi], al", "inc rax"),
        run!("mov [rdi], al", "dec al"),
        run!("mov [rdi], al", "dec eax"),
        run!("mov [rdi], al", "add rax, -128"),
        run!("mov [rdi], al", "cmp dword ptr [rdi], edx"),
        run!("mov [rdi], al", "cmp rdx, [rdi]"),
        run!("mov [rdi], al", "add eax, [rdi]"),
        run!(
            "mov [rdi], al",
            "cmp rax, rdx",
            "jl 2f",
            "xor r8d, 1",
            "2: jbe 3f",
            "xor r8d, 2",
            "3: jo 4f",
            "xor r8d, 4",
            "4: jp 5f",
            "xor r8d, 8",
            "5:"
        ),
        run!(
            "mov [rdi], al",
            "cmp eax, edx",
            "jge 2f",
            "xor r8d, 1",
            "2: jae 3f",
            "xor r8d, 2",
            "3: jno 4f",
            "xor r8d, 4",
            "4: jnp 5f",
            "xor r8d, 8",
            "5:"
        ),
        run!(
            "mov [rdi], al",
            "cmp ax, dx",
            "jle 2f",
            "xor r8d, 1",
            "2: ja 3f",
            "xor r8d, 2",
            "3: js 4f",
            "xor r8d, 4",
            "4: jns 5f",
            "xor r8d, 8",
            "5: je 6f",
            "inc r8",
            "6:"
        ),
    ]
}

fn number() -> impl Strategy<Value = u64> {
    prop_oneof![
        any::<u64>(),
        (0_u32..64).prop_map(|bit| 1 << bit),
        (0_u32..64).prop_map(|bit| (1_u64 << bit) - 1),
        Just(0),
        Just(u64::MAX)
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn arithmetic_leaves_the_processors_results_and_flags(rax in number(), rdx in number(), flags in prop_oneof![Just(0x202_u64), Just(0xad7)]) {
        let registers = Registers { rax, rdx, rdi: 4096, flags, ..Registers::default() };
        all(&operations(), registers);
    }
}
