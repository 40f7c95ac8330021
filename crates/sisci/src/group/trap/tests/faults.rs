//! Faults that are none of the group's go where they went before.

use std::process::{Command, Output};
use std::ptr::{null_mut, with_exposed_provenance_mut};

use libc::{c_int, c_void, siginfo_t};
use shm::sync::plain::{AtomicUsize, Ordering};

use super::{BYTES, Rig};

/// Runs `body` in a forked child; which signal ended it.
fn killed_by(body: impl FnOnce()) -> Option<i32> {
    // SAFETY: the child only runs `body`, which takes no locks, and ends without unwinding.
    let child = unsafe { libc::fork() };
    if child == 0 {
        body();
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(0) };
    }
    let mut status = 0;
    // SAFETY: waits for the child made above; the status lives on this stack.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    libc::WIFSIGNALED(status).then(|| libc::WTERMSIG(status))
}

fn store(address: usize) {
    // SAFETY: the tests store where it is allowed, or in a child that is to die of it.
    unsafe { with_exposed_provenance_mut::<u8>(address).write_volatile(1) };
}

#[test]
fn a_wild_store_ends_the_program_as_ever() {
    let rig = Rig::with(2);
    for address in [8, rig.view.start() + BYTES] {
        assert_eq!(killed_by(|| store(address)), Some(libc::SIGSEGV), "{address:#x}");
    }
    store(rig.view.start());
    assert_eq!((rig.bytes(0)[0], rig.bytes(1)[0]), (1, 1));
}

#[test]
fn a_breakpoint_of_the_program_ends_it_as_ever() {
    let _rig = Rig::with(2);
    // SAFETY: the child is to die of it.
    assert_eq!(killed_by(|| unsafe { core::arch::asm!("int3") }), Some(libc::SIGTRAP));
}

#[test]
fn a_forked_child_does_not_store_into_the_group_of_its_parent() {
    let rig = Rig::with(2);
    assert_eq!(killed_by(|| store(rig.view.start())), Some(libc::SIGSEGV));
    assert_eq!((rig.bytes(0)[0], rig.bytes(1)[0]), (0, 0));
}

/// Where the fault must be, and the copies, for the handler below.
static EXPECTED: AtomicUsize = AtomicUsize::new(0);
static COPIES: [AtomicUsize; 2] = [AtomicUsize::new(0), AtomicUsize::new(0)];
const RIGHT: c_int = 42;

/// The program's own handler: it must see the fault of the program's own instruction, after what
/// could be stored was.
extern "C" fn programs_handler(_signal: c_int, info: *mut siginfo_t, _context: *mut c_void) {
    // SAFETY: the kernel's arguments; the copies are mapped; the process ends here.
    unsafe {
        let is_there = (*info).si_addr().addr() == EXPECTED.load(Ordering::Relaxed);
        let has_stored = COPIES.iter().all(|copy| {
            let bytes = with_exposed_provenance_mut::<u8>(copy.load(Ordering::Relaxed));
            (0..12).all(|at| bytes.add(49 + at).read() == if (1..11).contains(&at) { 7 } else { 0 })
        });
        libc::_exit(if is_there && has_stored { RIGHT } else { 43 });
    }
}

/// With the handler above, a rig, and the address of a page that cannot be read, behind 4096 bytes
/// of 7.
fn with_own_handler() -> (Rig, usize) {
    // SAFETY: a handler of the right type, set before the group's; then new mappings, of which one
    // is the thread's alternate stack, and of the other one the second page is taken away.
    let source = unsafe {
        let mut action: libc::sigaction = core::mem::zeroed();
        action.sa_sigaction = (programs_handler as *const ()).expose_provenance();
        action.sa_flags = libc::SA_SIGINFO;
        libc::sigaction(libc::SIGSEGV, &raw const action, null_mut());
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // Two frames of the kernel's and the interpreter's between them: where the processor has
        // little state to save, the language's own alternate stack of 8 KiB is too short for those
        // of a build that is not optimised.
        let size = 256 << 10;
        let room = libc::mmap(null_mut(), size, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
        let stack = libc::stack_t { ss_sp: room, ss_flags: 0, ss_size: size };
        assert_eq!(libc::sigaltstack(&raw const stack, null_mut()), 0);
        let start = libc::mmap(null_mut(), 8192, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
        start.cast::<u8>().write_bytes(7, 4096);
        libc::mprotect(start.byte_add(4096), 4096, libc::PROT_NONE);
        start.expose_provenance()
    };
    let rig = Rig::with(2);
    EXPECTED.store(source + 4096, Ordering::Relaxed);
    for (place, copy) in COPIES.iter().zip(&rig.copies) {
        place.store(copy.as_ptr().expose_provenance(), Ordering::Relaxed);
    }
    (rig, source + 4096)
}

#[test]
#[ignore = "ends the process: run by a test below"]
fn copies_from_nowhere() {
    let (rig, nowhere) = with_own_handler();
    // SAFETY: the process ends in the handler above.
    unsafe {
        core::arch::asm!("rep movsb", inout("rcx") 100_usize => _, inout("rsi") nowhere - 10 => _,
            inout("rdi") rig.view.start() + 50 => _);
    }
}

#[test]
#[ignore = "ends the process: run by a test below"]
fn loads_from_nowhere() {
    let (rig, nowhere) = with_own_handler();
    // SAFETY: the process ends in the handler above.
    unsafe {
        core::arch::asm!("mov [rdi + 50], rax", "mov [rdi + 58], ax", "mov rax, [rsi]",
            inout("rax") 0x0707_0707_0707_0707_u64 => _, in("rsi") nowhere, in("rdi") rig.view.start());
    }
}

fn run_alone(name: &str) -> Output {
    let name = format!("group::trap::tests::faults::{name}");
    Command::new(std::env::current_exe().unwrap()).args(["--exact", &name, "--ignored"]).output().unwrap()
}

#[test]
fn a_fault_of_a_source_is_the_programs_and_comes_after_what_could_be_stored() {
    for name in ["copies_from_nowhere", "loads_from_nowhere"] {
        let output = run_alone(name);
        assert_eq!(output.status.code(), Some(RIGHT), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
#[ignore = "ends the process: run by the test below"]
fn more_than_can_be_carried_out() {
    let rig = Rig::with(2);
    // SAFETY: the view is longer than the 512 bytes; the process ends here.
    unsafe { core::arch::asm!("fxsave [{}]", in(reg) rig.view.start()) };
}

#[test]
fn an_instruction_that_cannot_be_carried_out_on_all_copies_ends_the_program_with_words() {
    use std::os::unix::process::ExitStatusExt;

    let output = run_alone("more_than_can_be_carried_out");
    assert_eq!(output.status.signal(), Some(libc::SIGSEGV));
    assert!(String::from_utf8_lossy(&output.stderr).contains("use SCIMemCpy"));
}
