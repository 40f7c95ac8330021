//! One instruction at a time.

use super::{BYTES, Registers, Run, check, has_avx512, run};

fn contents() -> [Vec<u8>; 2] {
    let fill = |factor: usize| (0..BYTES).map(|at| (at * factor + 17) as u8).collect();
    [fill(7), fill(13)]
}

const REGISTERS: Registers = Registers {
    rax: 0x8182_8384_8586_8788,
    rcx: 5,
    rdx: 0x1112_1314_1516_1718,
    rsi: 0,
    rdi: 4096,
    r8: 3,
    flags: 0x203,
};

/// Instructions that only store: what they leave depends on nothing in memory.
fn stores(list: &[(&str, Run)]) {
    let [first, second] = contents();
    for (name, run) in list {
        for offset in [0, 1, 2, 4, 7, 61, 4090] {
            let registers = Registers { rdi: REGISTERS.rdi + offset, ..REGISTERS };
            check(name, *run, registers, [&first, &second]);
        }
    }
}

/// Instructions that need an operand on a boundary.
fn aligned_stores(list: &[(&str, Run)]) {
    let [first, second] = contents();
    for (name, run) in list {
        for offset in [0, 64, 4032] {
            let registers = Registers { rdi: REGISTERS.rdi + offset, ..REGISTERS };
            check(name, *run, registers, [&first, &second]);
        }
    }
}

/// Instructions that also read: all copies begin alike.
fn changes(list: &[(&str, Run)]) {
    let [first, _] = contents();
    for (name, run) in list {
        for offset in [0, 8, 64] {
            let registers = Registers { rdi: REGISTERS.rdi + offset, ..REGISTERS };
            check(name, *run, registers, [&first, &first]);
        }
    }
}

macro_rules! list {
    ($($($line:literal)&+;)*) => { &[$(($(concat!($line, "; "),)+).into_name(run!($($line),+))),*] };
}

/// The first line names the test.
trait IntoName {
    fn into_name(self, run: Run) -> (&'static str, Run);
}
macro_rules! into_name {
    ($($type:ty: $last:tt),*) => {$(
        impl IntoName for $type {
            fn into_name(self, run: Run) -> (&'static str, Run) { (self.$last, run) }
        }
    )*};
}
into_name!((&'static str,): 0, (&'static str, &'static str): 1, (&'static str, &'static str, &'static str): 2,
    (&'static str, &'static str, &'static str, &'static str): 3);

#[test]
fn general_registers_and_constants() {
    stores(list! {
        "mov [rdi], al"; "mov [rdi], ah"; "mov [rdi], sil"; "mov [rdi], r8b"; "mov [rdi], ax"; "mov [rdi], r8w";
        "mov [rdi], eax"; "mov [rdi], rax"; "mov [rdi], r8d"; "mov byte ptr [rdi], 0x91"; "mov word ptr [rdi], 0x9192";
        "mov dword ptr [rdi], 0x91929394"; "mov qword ptr [rdi], -5"; "mov [rdi + 100], rdx"; "mov [rdi + r8*8 - 2000], edx";
        "mov [rcx + rdi], dl"; "movnti [rdi], eax"; "movnti [rdi], rax"; "movbe [rdi], eax"; "mov [rdi], rdi" & "mov [rdi], rdx";
    });
}

#[test]
fn vector_registers() {
    stores(list! {
        "movq xmm0, rax" & "punpcklqdq xmm0, xmm0" & "movdqu [rdi], xmm0"; "movq xmm1, rdx" & "movups [rdi], xmm1";
        "movq xmm1, rdx" & "movupd [rdi], xmm1"; "movq xmm15, rdx" & "movss [rdi], xmm15"; "movq xmm2, rax" & "movsd [rdi], xmm2";
        "movq xmm2, rax" & "movd [rdi], xmm2"; "movq xmm2, rax" & "movq [rdi], xmm2"; "movq xmm2, rax" & "movlps [rdi], xmm2";
        "movq xmm2, rax" & "pshufd xmm2, xmm2, 0x4e" & "movhps [rdi], xmm2"; "movq xmm2, rax" & "pshufd xmm2, xmm2, 0x4e" & "movhpd [rdi], xmm2";
        "movq xmm2, rax" & "pextrd dword ptr [rdi], xmm2, 1"; "movq xmm2, rax" & "pextrb byte ptr [rdi], xmm2, 1";
        "movq xmm2, rax" & "vpbroadcastq ymm0, xmm2" & "vmovdqu [rdi], ymm0"; "vmovq xmm2, rax" & "vpbroadcastb ymm15, xmm2" & "vmovups [rdi], ymm15";
        "movq xmm2, rax" & "vpbroadcastq ymm0, xmm2" & "vextracti128 [rdi], ymm0, 1";
        "movq xmm2, rax" & "vpbroadcastq ymm0, xmm2" & "vmaskmovps [rdi], ymm0, ymm0";
        "movq xmm2, rax" & "vpmovsxbw xmm1, xmm2" & "vpmaskmovd [rdi], xmm1, xmm2"; "movq xmm2, rdx" & "vpmaskmovq [rdi], xmm2, xmm2";
        "movq mm0, rax" & "movq [rdi], mm0" & "emms"; "fld1" & "fstp qword ptr [rdi]"; "fld1" & "fstp tbyte ptr [rdi]";
        "movq xmm2, rax" & "movdqa xmm1, xmm2" & "maskmovdqu xmm1, xmm2";
    });
    aligned_stores(list! {
        "movq xmm0, rax" & "movdqa [rdi], xmm0"; "movq xmm0, rax" & "movaps [rdi], xmm0"; "movq xmm0, rax" & "movntdq [rdi], xmm0";
        "movq xmm0, rax" & "movntps [rdi], xmm0"; "movq xmm2, rax" & "vpbroadcastq ymm0, xmm2" & "vmovntdq [rdi], ymm0";
        "movq xmm2, rax" & "vpbroadcastq ymm0, xmm2" & "vmovdqa [rdi], ymm0";
    });
}

#[test]
fn wide_vector_registers_and_masks() {
    if !has_avx512() {
        return;
    }
    stores(list! {
        "vpbroadcastq zmm0, rax" & "vmovdqu64 [rdi], zmm0"; "vpbroadcastq zmm15, rax" & "vmovdqu32 [rdi + 64], zmm15";
        "kmovq k1, rax" & "vpbroadcastb zmm0, edx" & "vmovdqu8 [rdi] {{k1}}, zmm0"; "kmovq k1, rdx" & "vpbroadcastw zmm0, edx" & "vmovdqu16 [rdi] {{k1}}, zmm0";
        "kmovq k1, rax" & "vpbroadcastd zmm0, edx" & "vmovups [rdi] {{k1}}, zmm0"; "kmovq k1, rax" & "vpbroadcastd ymm0, edx" & "vmovdqu32 [rdi] {{k1}}, ymm0";
        "kmovq k1, rax" & "vpbroadcastq zmm0, rdx" & "vmovdqu64 [rdi] {{k1}}, zmm0"; "vpbroadcastd zmm0, edx" & "vextracti32x8 [rdi], zmm0, 1";
        "vpbroadcastd zmm0, edx" & "vpmovdb [rdi + 16], zmm0";
    });
}

#[test]
fn strings() {
    let source: [u8; 600] = core::array::from_fn(|at| (at * 3) as u8);
    let [first, second] = contents();
    let list: &[(&str, Run)] = list! {
        "movsb"; "movsw"; "movsd"; "movsq"; "rep movsb"; "rep movsw"; "rep movsd"; "rep movsq"; "stosb"; "stosd"; "stosq";
        "rep stosb"; "rep stosw"; "rep stosd"; "rep stosq";
    };
    for (name, run) in list {
        for rcx in [0, 1, 5, 60, 70] {
            for flags in [0x203, 0x603] {
                // In the middle, so that there is room both ways.
                let rsi = source.as_ptr().expose_provenance() as u64 + 300;
                let rdi = 4096 + if flags == 0x203 { 3 } else { 1001 };
                let rcx = if name.ends_with("q; ") { rcx / 2 } else { rcx };
                check(name, *run, Registers { rcx, rsi, rdi, flags, ..REGISTERS }, [&first, &second]);
            }
        }
    }
}

#[test]
fn strings_that_overlap_themselves() {
    let [first, _] = contents();
    // The source lies just before the target: each byte is what was stored a moment ago.
    let list: &[(&str, Run)] = list! {
        "lea rsi, [rdi - 1]" & "rep movsb" & "xor esi, esi"; "lea rsi, [rdi - 3]" & "rep movsw" & "xor esi, esi";
        "lea rsi, [rdi + 1]" & "rep movsb" & "xor esi, esi"; "lea rsi, [rdi - 8]" & "rep movsq" & "xor esi, esi";
    };
    for (name, run) in list {
        check(name, *run, Registers { rcx: 100, ..REGISTERS }, [&first, &first]);
    }
}

#[test]
fn instructions_that_read_what_they_change() {
    changes(list! {
        "add [rdi], al"; "add [rdi], eax"; "add qword ptr [rdi + 8], -3"; "adc dword ptr [rdi + r8*8 + 0x1000], 7"; "sub [rdi], rdx";
        "sbb [rdi], ax"; "and [rdi], eax"; "or byte ptr [rdi], 0x80"; "xor [rdi], rax"; "inc dword ptr [rdi]"; "dec word ptr [rdi]";
        "neg qword ptr [rdi]"; "not byte ptr [rdi]"; "shl dword ptr [rdi], 3"; "sar qword ptr [rdi], cl"; "rol word ptr [rdi], 1";
        "shld [rdi], eax, 5"; "xchg [rdi], eax"; "xchg [rdi], rdx"; "lock xadd [rdi], eax"; "lock add [rdi], rdx"; "lock inc dword ptr [rdi]";
        "setc byte ptr [rdi]"; "setz byte ptr [rdi + 200]"; "lock bts qword ptr [rdi], 7"; "bts [rdi], rcx";
        "mov eax, -70" & "btc dword ptr [rdi], eax"; "mov rax, -1000" & "bts qword ptr [rdi], rax"; "mov eax, [rdi]" & "lock cmpxchg [rdi], edx";
        "lock cmpxchg [rdi], rdx"; "mov al, [rdi]" & "cmpxchg [rdi], dl"; "fild dword ptr [rdi]" & "fistp dword ptr [rdi + 4]";
        "push qword ptr [rdi]" & "pop qword ptr [rdi + 24]"; "lock or dword ptr [rdi + 1], 1";
    });
}

#[test]
fn wide_compare_and_exchange() {
    let [first, _] = contents();
    let list: &[(&str, Run)] = list! {
        "xchg rbx, r8; lock cmpxchg8b [rdi]; xchg rbx, r8"; "xchg rbx, r8; lock cmpxchg16b [rdi]; xchg rbx, r8";
        "mov eax, [rdi]; mov edx, [rdi + 4]; xchg rbx, r8; lock cmpxchg8b [rdi]; xchg rbx, r8";
        "mov rax, [rdi]; mov rdx, [rdi + 8]; xchg rbx, r8; lock cmpxchg16b [rdi]; xchg rbx, r8";
    };
    for (name, run) in list {
        check(name, *run, REGISTERS, [&first, &first]);
    }
}
