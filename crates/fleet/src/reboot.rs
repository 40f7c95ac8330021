//! Reboots hosts, and waits until each is back with another boot.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::copy::in_words;
use crate::reasons::{Failure, Kind};
use crate::remote::{Answer, OnMany};
use crate::ssh::Ssh;

/// The kernel gives each boot a random number (proc(5), `/proc/sys/kernel/random/boot_id`).
const BOOT_ID: &str = "cat /proc/sys/kernel/random/boot_id";
/// Prints it, and has the host reboot a second later, when the connection has ended in an orderly way.
const REBOOT: &str = "fail() { printf '%s\\n' \"$1\" >&2; exit 1; }
if [ \"$(id -u)\" = 0 ]; then as=; elif sudo -n true >/dev/null 2>&1; then as='sudo -n'; else
    fail \"$(id -un) is not root there, and sudo asks for a password or is not there: log in as root (root@HOST), or let sudo ask for none\"
fi
cat /proc/sys/kernel/random/boot_id || fail 'it has no /proc/sys/kernel/random/boot_id, by which a new boot is known: reboot it by hand'
setsid sh -c \"sleep 1; $as systemctl reboot || $as shutdown -r now || $as reboot\" </dev/null >/dev/null 2>&1 &";
/// A host that is starting is asked again after so long.
const PAUSE: Duration = Duration::from_secs(1);
/// How long it may take to answer; a host that is down often does not even refuse.
const ASK: Duration = Duration::from_secs(10);
/// So much of what a host prints can be a boot.
const ID_BYTES: u64 = 100;

/// A host that was told to reboot.
struct Waiting {
    boot: Vec<u8>,
    /// What it said last.
    last: Answer,
}

impl OnMany<'_> {
    /// Reboots all hosts at once. `each` gets the answer of a host when it is back, or when `within` is over;
    /// the time of an answer is that from the beginning.
    pub fn reboot(
        &self,
        hosts: &[String],
        within: Duration,
        mut each: impl FnMut(usize, Answer),
        mut idle: impl FnMut(),
    ) {
        let began = Instant::now();
        let mut waiting: BTreeMap<usize, Waiting> = BTreeMap::new();
        self.run(
            hosts,
            REBOOT,
            |number, answer| {
                let mut answer = in_words(answer);
                match (&answer.failure, answer.out.first(ID_BYTES)) {
                    (None, Ok(boot)) if !boot.is_empty() => {
                        waiting.insert(number, Waiting { boot, last: answer });
                    }
                    _ => each(number, answer),
                }
            },
            &mut idle,
        );
        // Connections that are kept end with the host.
        let ssh = Ssh { kept: None, ..self.ssh.clone() };
        let asking = OnMany { ssh: &ssh, at_once: self.at_once, limit: Some(ASK) };
        while !waiting.is_empty() && began.elapsed() < within && !(self.ssh.stop)() {
            std::thread::sleep(PAUSE);
            let numbers: Vec<usize> = waiting.keys().copied().collect();
            let names: Vec<String> =
                numbers.iter().filter_map(|number| hosts.get(*number)).cloned().collect();
            let heard = |at: usize, mut answer: Answer| {
                let Some(number) = numbers.get(at) else { return };
                let id = answer.out.first(ID_BYTES).unwrap_or_default();
                let Some(before) = waiting.get_mut(number) else { return };
                if answer.failure.is_none() && !id.is_empty() && id != before.boot {
                    waiting.remove(number);
                    each(*number, Answer { took: began.elapsed(), ..answer });
                } else {
                    before.last = answer;
                }
            };
            asking.run(&names, BOOT_ID, heard, &mut idle);
        }
        for (number, Waiting { last, .. }) in waiting {
            let failure = Some(self.not_back(within, &last));
            each(number, Answer { failure, took: began.elapsed(), ..last });
        }
    }

    fn not_back(&self, within: Duration, last: &Answer) -> Failure {
        let within_s = within.as_secs();
        match &last.failure {
            _ if (self.ssh.stop)() => Failure::new(
                Kind::Interrupted,
                "it was told to reboot, and the run was interrupted before it was back: `tieline fleet ping` says when it is",
            ),
            None => Failure::new(
                Kind::TimedOut,
                format!(
                    "it still runs the old boot after {within_s} s: see there why `systemctl reboot` does nothing"
                ),
            ),
            Some(failure) => Failure::new(
                Kind::TimedOut,
                format!("it was not back within {within_s} s ({}): look at its console", failure.why),
            ),
        }
    }
}
