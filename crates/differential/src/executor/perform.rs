//! Maps each call of a program to a function and to what is recorded of it. Larger groups have
//! files of their own.

use std::time::Instant;

use shm::sync::Ordering;

use super::context::Context;
use super::{actor, descriptors, odd, races, readiness, say, traffic};
use crate::program::call::{Call, Disposition, Environment, KillBy, Kind, MaskHow, Scenario};
use crate::program::{ACTORS, Actor, Slot, Step};
use crate::shared::Mail;
use crate::sys::process::{self, Action};
use crate::sys::vfork;

/// Makes the call of a step; what is returned is noted.
pub(super) fn perform(context: &Context, at: usize, step: &Step) -> String {
    let start = Instant::now();
    let mut said = dispatch(context, at, &step.call);
    if step.wait {
        said.push_str(judge_time(&step.call, &said, start));
    }
    said
}

/// A wait that ran out must have lasted as long as it was told, and not much longer. How long exactly is not
/// compared.
fn judge_time(call: &Call, said: &str, start: Instant) -> &'static str {
    /// What a busy machine may add, in milliseconds.
    const SLACK: u128 = 2500;
    /// What clocks of different grain may differ by.
    const GRAIN: u128 = 2;
    /// A socket's own times are counted in ticks, of which the first has partly gone by.
    const TICK: u128 = 10;
    let expected = match call {
        Call::Poll { timeout, .. } | Call::EpollWait { timeout, .. } if said.starts_with("= 0") => *timeout,
        Call::Recv { .. } | Call::Accept { .. } | Call::Send { .. } if said.contains("EAGAIN") => {
            SOCKET_TIMEOUT
        }
        _ => return "",
    };
    let grain = if matches!(call, Call::Poll { .. } | Call::EpollWait { .. }) { GRAIN } else { TICK };
    let expected = u128::from(expected.unsigned_abs());
    match start.elapsed().as_millis() {
        lasted if lasted + grain < expected => " too early",
        lasted if lasted > expected + SLACK => " too late",
        _ => "",
    }
}

/// What programs set `SO_RCVTIMEO` and `SO_SNDTIMEO` to, in milliseconds.
pub(super) const SOCKET_TIMEOUT: i32 = 12;

fn dispatch(context: &Context, at: usize, call: &Call) -> String {
    match call {
        Call::Socket { .. }
        | Call::Pair { .. }
        | Call::Pipe { .. }
        | Call::Eventfd { .. }
        | Call::EpollCreate { .. }
        | Call::Memfd { .. } => descriptors::create(context, call),
        Call::Close { .. }
        | Call::CloseRange { .. }
        | Call::Closefrom { .. }
        | Call::Dup { .. }
        | Call::Dup2 { .. }
        | Call::Dup3 { .. }
        | Call::DupFd { .. }
        | Call::Flags { .. }
        | Call::SetNonblock { .. }
        | Call::SetCloexec { .. }
        | Call::Queued { .. }
        | Call::Table {} => descriptors::change(context, call),
        Call::Poll { .. } | Call::EpollCtl { .. } | Call::EpollWait { .. } => {
            readiness::perform(context, call)
        }
        Call::Handle { .. }
        | Call::Mask { .. }
        | Call::Kill { .. }
        | Call::Fork { .. }
        | Call::PosixSpawn { .. }
        | Call::Vfork { .. }
        | Call::Limit { .. }
        | Call::Spawn { .. }
        | Call::Exec { .. }
        | Call::Exit { .. }
        | Call::Wait { .. } => lives(context, call),
        Call::Ring { .. }
        | Call::Aio { .. }
        | Call::Cancel { .. }
        | Call::VforkExit { .. }
        | Call::Number { .. }
        | Call::Scarcity { .. }
        | Call::Crowd { .. }
        | Call::Wrong { .. } => odd::perform(context, at, call),
        Call::Race { scenario, kind, seed } => race(context, *scenario, *kind, *seed),
        _ => traffic::perform(context, at, call),
    }
}

/// How often a race's signals came is chance.
fn race(context: &Context, scenario: Scenario, kind: Kind, seed: u32) -> String {
    let said = races::race(scenario, kind, seed);
    for signal in 1..32 {
        context.shared.signals(context.me, signal).store(0, Ordering::SeqCst);
    }
    said
}

/// Signals, processes and threads.
fn lives(context: &Context, call: &Call) -> String {
    match call {
        Call::Handle { signal, with } => {
            let action = match with {
                Disposition::Default => Action::Default,
                Disposition::Ignore => Action::Ignore,
                Disposition::Handler => Action::Count { restart: false },
                Disposition::Restart => Action::Count { restart: true },
            };
            say::outcome(process::sigaction(signal.number(), action))
        }
        Call::Mask { signal, how } => say::outcome(process::mask(signal.number(), *how == MaskHow::Block)),
        Call::Kill { actor, signal, by } => {
            let Some((pid, tid)) = whereabouts(context, *actor) else { return "nobody".to_owned() };
            say::outcome(match by {
                KillBy::Process => process::kill(pid, signal.number()),
                KillBy::Thread => process::kill_thread(pid, tid, signal.number()),
            })
        }
        Call::Fork { actor } => fork(context, *actor),
        Call::Spawn { actor } => spawn(context, *actor),
        Call::PosixSpawn { actor, fd, onto } => {
            let dup = fd.zip(*onto).map(|(fd, onto)| (context.fd(fd), context.fd(onto)));
            posix_spawn(context, *actor, dup)
        }
        Call::Vfork { actor, close, fd, onto } => vfork(context, *actor, (*close, *fd, *onto)),
        Call::Limit { descriptors } => say::outcome(process::limit_descriptors(u64::from(*descriptors))),
        Call::Exec { environment } => {
            let arguments = ["differential", super::ROLE, "resume", &context.path, &context.me.0.to_string()];
            let keep = *environment == Environment::Kept;
            say::outcome(process::exec("/proc/self/exe", &arguments.map(str::to_owned), keep))
        }
        Call::Exit { status } => process::exit(i32::from(*status)),
        Call::Wait { actor } => {
            let Some((pid, _)) = whereabouts(context, *actor) else { return "nobody".to_owned() };
            let (outcome, status) = process::waitpid(pid, 0);
            if !outcome.is_ok() {
                return say::outcome(outcome);
            }
            forget(context, pid);
            format!("= %{} {}", outcome.ret, say::status(status))
        }
        _ => "not a call of this kind".to_owned(),
    }
}

/// Process and thread of an actor that has lived.
fn whereabouts(context: &Context, actor: Actor) -> Option<(i32, i32)> {
    let word = |word| context.shared.mail(actor, word).load(Ordering::SeqCst).cast_signed();
    (word(Mail::Pid) > 0).then(|| (word(Mail::Pid), word(Mail::Tid)))
}

/// The number may be given to a stranger now, who must not get this program's signals.
fn forget(context: &Context, pid: i32) {
    for actor in (0..ACTORS as u8).map(Actor) {
        let word = context.shared.mail(actor, Mail::Pid);
        if word.load(Ordering::SeqCst).cast_signed() == pid {
            word.store(0, Ordering::SeqCst);
        }
    }
}

fn fork(context: &Context, actor: Actor) -> String {
    if whereabouts(context, actor).is_some() {
        return "there is one already".to_owned();
    }
    context.shared.inherit_slots(context.founder, actor);
    let child = process::fork();
    if child.ret == 0 {
        process::end_after(super::LIFETIME);
        actor::live(&context.other(actor, true));
    }
    if child.is_ok() { format!("= %{}", child.ret) } else { say::outcome(child) }
}

fn posix_spawn(context: &Context, actor: Actor, dup: Option<(i32, i32)>) -> String {
    if whereabouts(context, actor).is_some() {
        return "there is one already".to_owned();
    }
    context.shared.inherit_slots(context.founder, actor);
    context.shared.mail(actor, Mail::Founder).store(u32::from(actor.0), Ordering::SeqCst);
    let arguments = ["differential", super::ROLE, "join", &context.path, &actor.0.to_string()];
    match process::spawn("/proc/self/exe", &arguments.map(str::to_owned), dup) {
        (0, pid) => format!("= %{pid}"),
        (error, _) => format!("= {}", say::errno(error)),
    }
}

fn vfork(
    context: &Context,
    actor: Actor,
    (close, fd, onto): (Option<Slot>, Option<Slot>, Option<Slot>),
) -> String {
    if whereabouts(context, actor).is_some() {
        return "there is one already".to_owned();
    }
    context.shared.inherit_slots(context.founder, actor);
    context.shared.mail(actor, Mail::Founder).store(u32::from(actor.0), Ordering::SeqCst);
    let arguments =
        ["differential", super::ROLE, "join", &context.path, &actor.0.to_string()].map(str::to_owned);
    let mut plan = odd::child_plan(context, (close, fd, onto), Some(("/proc/self/exe", &arguments)), 95);
    let child = vfork::make(&mut plan);
    if child.is_ok() { format!("= %{} child {}", child.ret, odd::told(&plan)) } else { say::outcome(child) }
}

fn spawn(context: &Context, actor: Actor) -> String {
    if whereabouts(context, actor).is_some() {
        return "there is one already".to_owned();
    }
    let other = context.other(actor, false);
    let thread = std::thread::Builder::new().stack_size(256 * 1024).spawn(move || actor::live(&other));
    if thread.is_ok() { "= 0".to_owned() } else { "= -1 no thread".to_owned() }
}
