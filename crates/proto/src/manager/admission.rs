//! Decides which program gets a place.
//!
//! A connection that has not sent a hello is a *stranger*: strangers have few places of their own and a short
//! time, and when these are taken, one of the process that holds most of them has to go. Of the places for
//! programs, one process gets half, one other user than the manager's a quarter, and all other users three
//! quarters, so that no user locks all others out. The manager's own user and root have no limit as users:
//! they could end the manager as well.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::objects::limit;
use super::programs::{Program, allowed};
use super::{Credentials, LogLevel, Manager, Output, ProgramConn, Timer};
use crate::wire::program::{Refusal, ToProgram};

/// A program that sends no hello for so long is refused. Programs send it right after connecting.
pub(super) const STRANGER_LIMIT: Duration = Duration::from_secs(10);
/// Strangers at a time: a quarter of the places for programs, but enough for programs that start together,
/// each of which is a stranger for a moment.
const FEWEST_STRANGERS: u64 = 8;
const MOST_STRANGERS: u64 = 256;

/// How many places each user and process holds.
#[derive(Debug, Default)]
pub(super) struct Shares {
    strangers: BTreeSet<ProgramConn>,
    attached: u64,
    by_pid: BTreeMap<u32, u64>,
    /// Other users than the manager's own, and root.
    by_uid: BTreeMap<u32, u64>,
    of_others: u64,
}

/// A part of the places: at least one.
pub(super) fn part(of: u64, percent: u64) -> u64 {
    (of.saturating_mul(percent) / 100).max(1)
}

pub(super) fn count<K: Ord>(map: &BTreeMap<K, u64>, key: K) -> u64 {
    map.get(&key).copied().unwrap_or(0)
}

pub(super) fn give_back<K: Ord>(map: &mut BTreeMap<K, u64>, key: K) {
    if let Some(number) = map.get_mut(&key) {
        *number -= 1;
        if *number == 0 {
            map.remove(&key);
        }
    }
}

impl Manager {
    pub(super) fn program_connected(&mut self, program: ProgramConn, credentials: Credentials) {
        if self.stopped {
            return self.out.push_back(Output::CloseProgram { program });
        }
        let most = self.config.limits.programs;
        // Said at once: nothing that it could say would change it, and what is not read costs nothing.
        if let Err(refusal) = self.check_user(&credentials) {
            return self.refuse_unheard(program, &credentials, refusal);
        }
        if self.shares.attached >= most {
            return self.refuse_unheard(program, &credentials, limit("programs of this node", most));
        }
        self.timers.set(Timer::ProgramHello(program), self.now + STRANGER_LIMIT);
        self.programs.insert(program, Program::new(credentials));
        self.shares.strangers.insert(program);
        let most = part(most, 25).clamp(FEWEST_STRANGERS, MOST_STRANGERS);
        if self.shares.strangers.len() as u64 > most
            && let Some(one) = self.stranger_to_go()
        {
            self.reject(one, limit("connections of this node that have not sent a hello", most));
        }
    }

    /// Whether this user may attach.
    fn check_user(&self, credentials: &Credentials) -> Result<(), Refusal> {
        let own_uid = self.config.uid;
        if allowed(&self.config.attach, own_uid, credentials.uid, &credentials.gids) {
            return Ok(());
        }
        let what = format!("attach to node {} (its manager runs as user {own_uid})", self.own);
        Err(Refusal::Denied { what, uid: credentials.uid })
    }

    fn refuse_unheard(&mut self, program: ProgramConn, credentials: &Credentials, refusal: Refusal) {
        self.log(LogLevel::Warn, format!("pid {} may not attach: {refusal}", credentials.pid));
        let message = ToProgram::Rejected(refusal);
        self.out.push_back(Output::ToProgram { program, message, descriptors: Vec::new() });
        self.out.push_back(Output::CloseProgram { program });
    }

    /// The oldest stranger of the process, of the user, that has most of them.
    fn stranger_to_go(&self) -> Option<ProgramConn> {
        let who = |program: &ProgramConn| {
            let credentials = &self.programs.get(program)?.credentials;
            Some((credentials.uid, credentials.pid))
        };
        let mut by_uid: BTreeMap<u32, u64> = BTreeMap::new();
        let mut by_process: BTreeMap<(u32, u32), u64> = BTreeMap::new();
        for (uid, pid) in self.shares.strangers.iter().filter_map(who) {
            *by_uid.entry(uid).or_default() += 1;
            *by_process.entry((uid, pid)).or_default() += 1;
        }
        let (&uid, _) = by_uid.iter().max_by_key(|(_, number)| **number)?;
        let of_uid = by_process.iter().filter(|((of, _), _)| *of == uid);
        let (&process, _) = of_uid.max_by_key(|(_, number)| **number)?;
        self.shares.strangers.iter().find(|program| who(program) == Some(process)).copied()
    }

    pub(super) fn is_privileged(&self, uid: u32) -> bool {
        uid == 0 || uid == self.config.uid
    }

    /// A stranger becomes a program, if there is a place for it.
    pub(super) fn take_share(&mut self, program: ProgramConn) -> Result<(), Refusal> {
        let Some(entry) = self.programs.get(&program) else { return Ok(()) };
        let (uid, pid) = (entry.credentials.uid, entry.credentials.pid);
        let privileged = self.is_privileged(uid);
        let (most, shares) = (self.config.limits.programs, &mut self.shares);
        if shares.attached >= most {
            return Err(limit("programs of this node", most));
        }
        // Who is in a pid namespace that cannot be seen from here has the number 0, with all others there.
        if pid != 0 && count(&shares.by_pid, pid) >= part(most, 50) {
            return Err(limit(&format!("attachments of process {pid} to this node"), part(most, 50)));
        }
        if !privileged {
            if count(&shares.by_uid, uid) >= part(most, 25) {
                return Err(limit(&format!("programs of user {uid} at this node"), part(most, 25)));
            }
            if shares.of_others >= part(most, 75) {
                return Err(limit("programs of other users at this node", part(most, 75)));
            }
            *shares.by_uid.entry(uid).or_default() += 1;
            shares.of_others += 1;
        }
        shares.strangers.remove(&program);
        shares.attached += 1;
        *shares.by_pid.entry(pid).or_default() += 1;
        Ok(())
    }

    /// A program's place is free again.
    pub(super) fn leave_share(&mut self, program: ProgramConn, was_attached: bool) {
        let Some(entry) = self.programs.get(&program) else { return };
        let (uid, pid) = (entry.credentials.uid, entry.credentials.pid);
        let privileged = self.is_privileged(uid);
        let shares = &mut self.shares;
        shares.strangers.remove(&program);
        if !was_attached {
            return;
        }
        shares.attached -= 1;
        give_back(&mut shares.by_pid, pid);
        if !privileged {
            give_back(&mut shares.by_uid, uid);
            shares.of_others -= 1;
        }
    }

    /// Whether the shares are those of the programs that are there.
    pub(super) fn audit_shares(&self) -> Result<(), String> {
        let strangers = self.programs.iter().filter(|(_, entry)| !entry.attached()).map(|(&id, _)| id);
        let attached = self.programs.values().filter(|entry| entry.attached());
        let (mut by_pid, mut by_uid, mut number) = (BTreeMap::new(), BTreeMap::new(), 0);
        for entry in attached {
            number += 1;
            *by_pid.entry(entry.credentials.pid).or_default() += 1;
            if !self.is_privileged(entry.credentials.uid) {
                *by_uid.entry(entry.credentials.uid).or_default() += 1;
            }
        }
        let shares = &self.shares;
        let same = shares.strangers == strangers.collect()
            && shares.attached == number
            && shares.by_pid == by_pid
            && shares.of_others == by_uid.values().sum::<u64>()
            && shares.by_uid == by_uid;
        if same { Ok(()) } else { Err(format!("{shares:?} are not the shares of the programs")) }
    }
}
