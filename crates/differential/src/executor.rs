//! The executor: a server that starts each program, and the actors that make its calls.
//!
//! It is this same binary in another role, so that `exec` has something to turn into. The server is started
//! once, with the library preloaded or without, and forks for each program; that is what makes thousands of
//! programs a minute possible.

mod actor;
mod context;
mod descriptors;
mod odd;
mod perform;
mod races;
mod readiness;
mod say;
mod traffic;

use shm::sync::Ordering;

use crate::program::{Actor, Program};
use crate::shared::{Front, Shared};
use crate::sys::process::{self, Action};

/// The hidden first argument that makes the binary an executor.
pub const ROLE: &str = "execute";
/// A process that is left alone ends itself after so many seconds: later than any run is given up as one that
/// hangs, which would else look as if the program had died.
pub(crate) const LIFETIME: u32 = 60;

/// What the executor does with its arguments, behind [`ROLE`]: `serve PATH`, `resume PATH ACTOR` after an
/// exec, or `join PATH ACTOR` as a new process.
pub fn main(arguments: &[String]) -> ! {
    match arguments {
        [verb, path] if verb == "serve" => serve(path),
        [verb, path, actor] if verb == "resume" || verb == "join" => {
            match (Shared::open(path), actor.parse()) {
                (Ok(shared), Ok(actor)) => actor::resume(shared, path, Actor(actor), verb == "resume"),
                _ => process::exit(98),
            }
        }
        _ => process::exit(99),
    }
}

/// Starts a program whenever it is told, and buries what is left of it.
fn serve(path: &str) -> ! {
    process::serve_parent();
    // A signal from the terminal is for the controller, which ends this process in its own time.
    process::lead_group();
    // Not the controller's one processor; the kernel leaves out what this machine lacks.
    process::run_on_all(&(0..1024).collect::<Vec<_>>());
    let Ok(shared) = Shared::open(path) else { process::exit(98) };
    let _ = process::sigaction(libc::SIGPIPE, Action::Default);
    let own = process::own_network();
    if own {
        // More ports than a server's programs use; refused in a user namespace of some kernels, where the
        // default does.
        let _ = std::fs::write("/proc/sys/net/ipv4/ip_local_port_range", "10000 64999");
    }
    shared.front(Front::OwnNetwork).store(u32::from(own), Ordering::SeqCst);
    shared.front(Front::ServerPid).store(process::ids().0, Ordering::SeqCst);
    shared.from_server().post();
    loop {
        wait_for_order(shared);
        let child = process::fork();
        if child.ret == 0 {
            first_process(shared, path);
        }
        shared.front(Front::FirstPid).store(child.fd().cast_unsigned(), Ordering::SeqCst);
        shared.from_server().post();
        wait_for_order(shared);
        bury(shared);
        shared.from_server().post();
    }
}

/// The controller's end is this process's end, so there is no other way out.
fn wait_for_order(shared: Shared) {
    while !shared.to_server().wait(60_000_000_000) {}
}

/// Waits for every process of the program: they have been killed, or have lost their parent to this one.
fn bury(shared: Shared) {
    loop {
        let (outcome, status) = process::waitpid(-1, 0);
        if outcome.is_ok() {
            shared.note_end(outcome.fd().cast_unsigned(), status);
        } else if outcome.errno != Some(libc::EINTR) {
            return;
        }
    }
}

fn first_process(shared: Shared, path: &str) -> ! {
    process::end_with_parent();
    process::lead_group();
    process::end_after(LIFETIME);
    let Ok(program) = Program::parse(&shared.program()) else { process::exit(97) };
    if !program.setting.spread {
        process::run_on(shared.front(Front::Cpu).load(Ordering::SeqCst) as usize);
    }
    if program.setting.bare {
        for fd in 0..3 {
            let _ = crate::sys::files::close(fd);
        }
    }
    actor::live(&context::Context::first(shared, program, path))
}
