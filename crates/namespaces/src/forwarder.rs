//! The frames of a rail on their way between the hosts, each of which arrives when it is due: a process in
//! place of the rail's bridge.
//!
//! It knows by the hardware address of a frame which host is meant, as [`ip`] gives these out. A frame is
//! read whole, with what the kernel leaves undone of it, so long blocks are neither cut nor summed here.

use std::collections::VecDeque;
use std::ffi::{CString, OsString};
use std::io::Write;
use std::num::NonZeroU64;
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send, sockopt};
use rustix::thread::set_current_timer_slack;
use seeded_random::SplitMix64;
use shm::packet::{self, HEADER_BYTES};

use crate::delay::Delay;
use crate::error::{NamespacesError, Result};
use crate::loss::Loss;
use crate::words::Said;
use crate::{FORWARDER, ip, line, plan, words};

/// The longest frame: a block of 64 KiB that the kernel cuts into packets later, with its headers.
const FRAME_BYTES_MAX: usize = HEADER_BYTES + 65_536 + 256;
/// As much is under way to each host; what comes then is dropped, as a router drops it.
const WAITING_BYTES_MAX: usize = 16 << 20;
/// The kernel keeps as much of what arrives while this process does not run.
const ARRIVED_BYTES_MAX: usize = 8 << 20;
/// So many frames of one host are read before the others have their turn, and what is due is sent.
const TURN_FRAMES: usize = 32;

/// What such a process is started with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Arguments {
    pub(crate) rail: usize,
    /// How many hosts there are.
    pub(crate) count: usize,
    pub(crate) delay: Option<Delay>,
    pub(crate) loss: Option<Loss>,
}

impl Arguments {
    fn words(self) -> [OsString; 5] {
        let delay = self.delay.map(|delay| delay.to_string()).unwrap_or_default();
        let loss = self.loss.map(|loss| loss.to_string()).unwrap_or_default();
        let numbers = [self.rail, self.count].map(|number| number.to_string());
        let [rail, count] = numbers;
        [FORWARDER.into(), rail.into(), count.into(), delay.into(), loss.into()]
    }

    fn of(words: &[OsString]) -> Option<Self> {
        let [rail, count, delay, loss] = words else { return None };
        Some(Self {
            rail: rail.to_str()?.parse().ok()?,
            count: count.to_str()?.parse().ok()?,
            delay: words::optional(delay)?,
            loss: words::optional(loss)?,
        })
    }
}

/// Starts the process of a rail whose interfaces are there, in this thread's network. It ends with the hub.
pub(crate) fn start(arguments: Arguments) -> Result<Child> {
    let program = std::env::current_exe().map_err(NamespacesError::io("read", "/proc/self/exe"))?;
    let mut command = Command::new(&program);
    command.args(arguments.words()).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.spawn().map_err(NamespacesError::io("run", program))?;
    let said = child.stdout.take().and_then(|said| line::next(&said)).map(|line| line.parse());
    let why = match said {
        Some(Ok(Said::Done)) => return Ok(child),
        Some(Ok(Said::Failed(why)) | Err(why)) => why,
        Some(Ok(other)) => format!("it says `{other}`"),
        None => "it ended while it was started".to_owned(),
    };
    Err(NamespacesError::Said(format!("what forwards the frames of rail {}: {why}", arguments.rail + 1)))
}

/// This process is that of a rail: its exit status, if it cannot be.
pub(crate) fn run(words: &[OsString]) -> u8 {
    let Some(arguments) = Arguments::of(words) else { return 2 };
    let said = match open(arguments) {
        Ok(ends) => {
            let _ = writeln!(std::io::stdout(), "{}", Said::Done);
            forward(&ends, arguments)
        }
        Err(error) => error,
    };
    // The log has it, if the hub does not read any more.
    let _ = writeln!(std::io::stdout(), "{}", Said::Failed(said.to_string()));
    let _ = writeln!(std::io::stderr(), "rail {}: {said}", arguments.rail + 1);
    1
}

/// One for each host.
fn open(arguments: Arguments) -> Result<Vec<OwnedFd>> {
    // Usually the kernel ends a wait up to 50 µs late, to save energy.
    let failed = |source: Errno| NamespacesError::Namespace { what: "the forwarding of frames", source };
    set_current_timer_slack(NonZeroU64::new(1)).map_err(failed)?;
    let end = |index| {
        let name = ip::on_rail(&plan::name(index), arguments.rail);
        let socket = packet::open(&CString::new(name).unwrap_or_default()).map_err(failed)?;
        sockopt::set_socket_recv_buffer_size_force(&socket, ARRIVED_BYTES_MAX).map_err(failed)?;
        sockopt::set_socket_send_buffer_size(&socket, ARRIVED_BYTES_MAX).map_err(failed)?;
        Ok(socket)
    };
    (0..arguments.count).map(end).collect()
}

/// Until something is wrong that waiting does not mend.
fn forward(ends: &[OwnedFd], arguments: Arguments) -> NamespacesError {
    let mut under_way = UnderWay::new(ends.len());
    let mut buffer = vec![0; FRAME_BYTES_MAX];
    let delay = arguments.delay.map_or(Duration::ZERO, Delay::duration);
    // The same frames of the same traffic are lost each time.
    let mut random = SplitMix64::new(arguments.rail as u64);
    let mut is_lost = || arguments.loss.is_some_and(|loss| loss.hits(&mut random));
    loop {
        while let Some(frame) = under_way.next_due(Instant::now()) {
            // What the interface does not take now is lost, as on any network.
            let _ = send(&ends[frame.to], &frame.bytes, SendFlags::DONTWAIT);
        }
        let left = under_way.first_due().map(|due| due.saturating_duration_since(Instant::now()));
        let left = left.and_then(|left| Timespec::try_from(left).ok());
        let mut fds: Vec<_> = ends.iter().map(|end| PollFd::new(end, PollFlags::IN)).collect();
        match poll(&mut fds, left.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(source) => return NamespacesError::Namespace { what: "a wait for frames", source },
        }
        let arrived = fds.iter().map(|fd| !fd.revents().is_empty());
        let arrived: Vec<usize> = arrived.enumerate().filter_map(|(from, has)| has.then_some(from)).collect();
        for from in arrived {
            for _ in 0..TURN_FRAMES {
                // Nothing more, or an interface that is down: it may come up again.
                let Ok((_, len)) = recv(&ends[from], buffer.as_mut_slice(), RecvFlags::TRUNC) else { break };
                if let Some(bytes) = buffer.get(..len) {
                    under_way.take(bytes, from, arguments.rail, Instant::now() + delay, &mut is_lost);
                }
            }
        }
    }
}

/// A frame that is not due yet.
#[derive(Debug)]
struct Frame {
    due: Instant,
    to: usize,
    bytes: Arc<[u8]>,
}

/// All of them, the first one first: all take the same time.
#[derive(Debug)]
struct UnderWay {
    frames: VecDeque<Frame>,
    /// To each host.
    bytes: Vec<usize>,
}

impl UnderWay {
    fn new(hosts: usize) -> Self {
        Self { frames: VecDeque::new(), bytes: vec![0; hosts] }
    }

    fn take(
        &mut self,
        frame: &[u8],
        from: usize,
        rail: usize,
        due: Instant,
        mut is_lost: impl FnMut() -> bool,
    ) {
        let Some(to) = frame.get(HEADER_BYTES..).and_then(|frame| frame.first_chunk::<6>()) else { return };
        let bytes: Arc<[u8]> = frame.into();
        // The lowest bit of the first byte: for several.
        let is_for_all = to[0] & 1 != 0;
        for host in (0..self.bytes.len()).filter(|host| *host != from) {
            let is_meant = is_for_all || *to == ip::hardware_bytes(host, rail);
            if is_meant && self.bytes[host] + bytes.len() <= WAITING_BYTES_MAX && !is_lost() {
                self.bytes[host] += bytes.len();
                self.frames.push_back(Frame { due, to: host, bytes: Arc::clone(&bytes) });
            }
        }
    }

    fn first_due(&self) -> Option<Instant> {
        self.frames.front().map(|frame| frame.due)
    }

    fn next_due(&mut self, now: Instant) -> Option<Frame> {
        let is_due = self.first_due().is_some_and(|due| due <= now);
        let frame = if is_due { self.frames.pop_front() } else { None }?;
        self.bytes[frame.to] -= frame.bytes.len();
        Some(frame)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn frame(to: [u8; 6], len: usize) -> Vec<u8> {
        let mut frame = vec![0; HEADER_BYTES];
        frame.extend(to);
        frame.resize(HEADER_BYTES + len, 7);
        frame
    }

    #[test]
    fn it_is_started_with_what_it_is_told() {
        for (delay, loss) in [("50us", "0.1%"), ("", "1%"), ("2ms", "")] {
            let arguments =
                Arguments { rail: 1, count: 3, delay: delay.parse().ok(), loss: loss.parse().ok() };
            assert_eq!(Arguments::of(&arguments.words()[1..]), Some(arguments));
        }
        assert_eq!(Arguments::of(&["1".into(), "x".into(), "50us".into(), "".into()]), None);
    }

    #[test]
    fn a_frame_goes_to_its_host_when_it_is_due_and_one_for_all_to_all_others() {
        let start = Instant::now();
        let at = |us| start + Duration::from_micros(us);
        let mut under_way = UnderWay::new(3);
        under_way.take(&frame(ip::hardware_bytes(1, 2), 60), 0, 2, at(50), || false);
        under_way.take(&frame([0xff; 6], 60), 1, 2, at(60), || false);
        // Of another rail, of nobody, to itself, too short.
        under_way.take(&frame(ip::hardware_bytes(1, 1), 60), 0, 2, at(70), || false);
        under_way.take(&frame([2, 9, 9, 9, 9, 9], 60), 0, 2, at(70), || false);
        under_way.take(&frame(ip::hardware_bytes(0, 2), 60), 0, 2, at(70), || false);
        under_way.take(&[0; 12], 0, 2, at(70), || false);
        assert_eq!(under_way.first_due(), Some(at(50)));
        assert!(under_way.next_due(at(49)).is_none());
        assert_eq!(under_way.next_due(at(55)).unwrap().to, 1);
        assert!(under_way.next_due(at(59)).is_none());
        under_way.take(&frame(ip::hardware_bytes(1, 2), 60), 0, 2, at(80), || true);
        let to: Vec<usize> =
            std::iter::from_fn(|| under_way.next_due(at(100))).map(|frame| frame.to).collect();
        assert_eq!((to, under_way.bytes), (vec![0, 2], vec![0, 0, 0]));
    }

    #[test]
    fn what_does_not_fit_is_dropped_and_there_is_room_again_later() {
        let mut under_way = UnderWay::new(2);
        let long = frame(ip::hardware_bytes(1, 0), 60_000);
        for _ in 0..WAITING_BYTES_MAX / 60_000 + 10 {
            under_way.take(&long, 0, 0, Instant::now(), || false);
        }
        let fits = WAITING_BYTES_MAX / long.len();
        assert_eq!((under_way.frames.len(), under_way.bytes[1]), (fits, fits * long.len()));
        assert!(under_way.next_due(Instant::now()).is_some());
        under_way.take(&long, 0, 0, Instant::now(), || false);
        assert_eq!(under_way.frames.len(), fits);
    }
}
