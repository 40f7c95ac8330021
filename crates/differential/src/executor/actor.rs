//! An actor: waits for its turn, makes the call, records the result.

use shm::sync::Ordering;

use super::context::Context;
use super::{descriptors, perform, say};
use crate::program::{Actor, Program, STEPS};
use crate::shared::{LOOK, Mail, Shared};
use crate::sys::process;

/// So long an actor waits for its turn before it takes the controller for dead.
const TURN_TIMEOUT_NS: u64 = 30_000_000_000;

/// Lives until it is killed.
pub(super) fn live(context: &Context) -> ! {
    be_born(context);
    obey(context)
}

/// Lives in a new image: on after an exec, which was the step that it has to report, or as somebody new.
pub(super) fn resume(shared: Shared, path: &str, me: Actor, after_exec: bool) -> ! {
    let Ok(program) = Program::parse(&shared.program()) else { process::exit(97) };
    let founder = Actor(shared.mail(me, Mail::Founder).load(Ordering::SeqCst) as u8);
    let context = Context { founder, me, ..Context::first(shared, program, path) };
    // An exec keeps its clock; a new process has none.
    process::end_after(super::LIFETIME);
    be_born(&context);
    if after_exec {
        let order = shared.mail(me, Mail::Order).load(Ordering::SeqCst);
        report(&context, order, "= 0 in a new image".to_owned());
    }
    obey(&context)
}

fn be_born(context: &Context) {
    let (shared, me) = (context.shared, context.me);
    let (pid, tid) = process::ids();
    let (memory, offset) = shared.counters(me);
    process::count_signals_at(memory, offset);
    shared.mail(me, Mail::Pid).store(pid, Ordering::SeqCst);
    shared.mail(me, Mail::Tid).store(tid, Ordering::SeqCst);
    shared.mail(me, Mail::Founder).store(u32::from(context.founder.0), Ordering::SeqCst);
    shared.mail(me, Mail::Alive).store(1, Ordering::SeqCst);
}

fn obey(context: &Context) -> ! {
    let (shared, me) = (context.shared, context.me);
    loop {
        if !shared.to_actor(me).wait(TURN_TIMEOUT_NS) {
            process::exit(96);
        }
        let order = shared.mail(me, Mail::Order).load(Ordering::SeqCst);
        if order == LOOK {
            shared.set_record(STEPS + context.founder.index(), &descriptors::table());
            shared.mail(me, Mail::Done).store(order, Ordering::SeqCst);
            shared.to_controller().post();
        } else if let Some(step) = context.program.steps.get(order as usize - 1) {
            let result = perform::perform(context, order as usize - 1, step);
            report(context, order, result);
        }
    }
}

fn report(context: &Context, order: u32, mut result: String) {
    let (shared, me) = (context.shared, context.me);
    for signal in 1..32 {
        let count = shared.signals(me, signal).swap(0, Ordering::SeqCst);
        if count > 0 {
            result.push_str(&format!(" {}x{count}", say::signal(signal as i32)));
        }
    }
    shared.set_record(order as usize - 1, &result);
    shared.mail(me, Mail::Done).store(order, Ordering::SeqCst);
    shared.to_controller().post();
}
