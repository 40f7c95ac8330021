//! `vfork`: the child runs in its parent's memory, on its stack, with descriptors of its own.
//!
//! A Rust function cannot return twice, so the child calls a function that never returns, out of the few
//! instructions that see both returns.

use std::ffi::CString;

use super::Outcome;
use super::memory::c_string;

/// What the child does, in this order.
#[derive(Debug)]
pub struct Plan {
    close: i32,
    dup: (i32, i32),
    /// Program and arguments, or nothing: then it exits.
    image: Option<(CString, Vec<CString>)>,
    pointers: Vec<*const libc::c_char>,
    status: i32,
    /// What its calls came to.
    told: [i64; 3],
}

impl Plan {
    /// Closes one number and puts another's file onto a third; -1 is left out. Then it becomes this program,
    /// or exits.
    #[must_use]
    pub fn new(close: i32, dup: (i32, i32), image: Option<(&str, &[String])>, status: i32) -> Self {
        let image = image.map(|(path, arguments)| {
            (c_string(path), arguments.iter().map(|text| c_string(text)).collect::<Vec<_>>())
        });
        let mut pointers: Vec<*const libc::c_char> =
            image.iter().flat_map(|(_, arguments)| arguments).map(|text| text.as_ptr()).collect();
        pointers.push(std::ptr::null());
        Self { close, dup, image, pointers, status, told: [-7; 3] }
    }

    /// What the child's `close`, `dup2` and, where that failed, `execv` came to: a value, or a negative error
    /// number; -7 was not called.
    #[must_use]
    pub fn told(&self) -> [i64; 3] {
        self.told
    }
}

/// A value, or a negative error number.
fn result(outcome: Outcome) -> i64 {
    match outcome.errno {
        Some(error) if outcome.ret < 0 => -i64::from(error),
        _ => outcome.ret,
    }
}

/// The child. It calls nothing that allocates, and only what programs call there.
unsafe extern "C" fn child(plan: *mut Plan) -> ! {
    // SAFETY: the parent waits until this process has another image or is gone; the plan is its own until
    // then.
    let plan = unsafe { &mut *plan };
    if plan.close != -1 {
        plan.told[0] = result(super::files::close(plan.close));
    }
    if plan.dup != (-1, -1) {
        plan.told[1] = result(super::files::dup2(plan.dup.0, plan.dup.1));
    }
    if let Some((path, _)) = &plan.image {
        // SAFETY: the pointers are to live C strings and end with null.
        let failed = super::observed(|| unsafe { libc::execv(path.as_ptr(), plan.pointers.as_ptr()) });
        plan.told[2] = result(failed);
    }
    super::process::exit(plan.status)
}

#[cfg(target_arch = "x86_64")]
unsafe extern "C" {
    // libc's declaration warns of Rust callers, which would return twice; here no Rust code does.
    fn vfork() -> i32;
}

/// Makes the child; the number of its process.
#[cfg(target_arch = "x86_64")]
#[must_use]
pub fn make(plan: &mut Plan) -> Outcome {
    let plan: *mut Plan = plan;
    super::observed(|| {
        let pid: i64;
        // SAFETY: the parent's return of vfork finds stack and saved registers as they were: the child writes
        // below the stack pointer only, never returns, and leaves saved registers to the kernel's copy.
        // Everything else is declared as changed.
        unsafe {
            std::arch::asm!(
                "call [rip + {vfork}@GOTPCREL]",
                "test eax, eax",
                "jnz 2f",
                "mov rdi, r12",
                "call {child}",
                "ud2",
                "2:",
                "movsxd rax, eax",
                vfork = sym vfork,
                child = sym child,
                in("r12") plan,
                lateout("rax") pid,
                clobber_abi("C"),
            );
        }
        pid
    })
}

/// Not on this machine.
#[cfg(not(target_arch = "x86_64"))]
#[must_use]
pub fn make(_: &mut Plan) -> Outcome {
    Outcome { ret: -1, errno: Some(libc::ENOSYS) }
}
