//! A client's view of its server in another process: waiting for it, and giving up.

use std::{
    sync::{
        Arc,
        mpsc::{self, RecvTimeoutError},
    },
    time::{Duration, Instant},
};

use shm::sync::{AtomicBool, Ordering};
use tieline::{Node, NodeId, RemoteSegment, SegmentId};

use super::attach::CONNECT_TIMEOUT;
use crate::{
    error::{BenchError, Result},
    poll::{self, ANSWER_TIMEOUT},
    progress::{Progress, Waiter},
};

/// A wait of this length is reported: no measurement pauses so long by itself.
const WORTH_A_WORD: Duration = Duration::from_secs(3);
/// A client that is to end still takes its result if the server replies within this time.
const END_TIMEOUT: Duration = Duration::from_millis(200);
/// The time limit of a wait after another wait for the same server has timed out.
const REST: Duration = Duration::from_secs(1);
/// The pause between two checks whether to end, while the server has not started.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The server of a client.
#[derive(Clone)]
pub(crate) struct Server {
    what: &'static str,
    node: NodeId,
    here: NodeId,
    /// Its segment: known to be lost as soon as the server's process has ended.
    pub(crate) segment: Arc<RemoteSegment>,
    waiter: Arc<dyn Waiter>,
    /// Whether the wait was reported.
    told: Arc<AtomicBool>,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("what", &self.what).field("node", &self.node).finish_non_exhaustive()
    }
}

impl Server {
    /// Waits until the server's segment is there. `None`: the caller is to end.
    pub(crate) fn meet(
        what: &'static str,
        here: &Node,
        node: NodeId,
        segment: SegmentId,
        progress: &mut dyn Progress,
    ) -> Result<Self> {
        let (tell, told) = mpsc::channel();
        let attached = here.clone();
        // On a thread of its own, which is left to itself: connecting cannot be called off.
        let connect = move || drop(tell.send(attached.connect_segment(node, segment, CONNECT_TIMEOUT)));
        std::thread::Builder::new()
            .name("bench-meet".into())
            .spawn(connect)
            .map_err(BenchError::io("starting a thread"))?;
        let since = Instant::now();
        let mut quiet = true;
        let found = loop {
            match told.recv_timeout(LOOK_EVERY) {
                Ok(found) => break found?,
                Err(RecvTimeoutError::Disconnected) => {
                    let reason = "the thread that connected to it panicked".to_owned();
                    return Err(BenchError::OtherEnd { what, reason });
                }
                Err(RecvTimeoutError::Timeout) if progress.stop() => {
                    return Err(BenchError::Interrupted { what, node });
                }
                Err(RecvTimeoutError::Timeout) if quiet && since.elapsed() > WORTH_A_WORD => {
                    quiet = false;
                    progress.tell(&format!("waiting for the server on node {node} to start"), 0.0);
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        };
        let (segment, waiter, told) = (Arc::new(found), progress.waiter(), Arc::default());
        Ok(Self { what, node, here: here.id(), segment, waiter, told })
    }

    /// Returns an error when the wait is to end: the server is gone, it has not responded for too
    /// long, or the caller is to end. Before that it reports what it waits for.
    pub(crate) fn check(&self, waited: Duration) -> Result<()> {
        self.segment.check()?;
        let (what, node, here) = (self.what, self.node, self.here);
        if waited >= ANSWER_TIMEOUT {
            return Err(BenchError::Silent { what, node, here, seconds: ANSWER_TIMEOUT.as_secs() });
        }
        if waited >= END_TIMEOUT && self.waiter.stop() {
            return Err(BenchError::Interrupted { what, node });
        }
        // Relaxed: nothing is published with it.
        if waited >= WORTH_A_WORD && !self.told.swap(true, Ordering::Relaxed) {
            self.waiter.tell(&format!(
                "waiting for the server on node {node}, which has not responded for {} s",
                WORTH_A_WORD.as_secs()
            ));
        }
        Ok(())
    }

    /// Ends the waits of the measuring thread when the server is gone.
    pub(crate) fn watch(&self) -> poll::Watched {
        let server = self.clone();
        poll::watched(move |waited| server.check(waited))
    }
}

/// Whether the wait for the server has lasted long enough that its further replies are not waited
/// for.
pub(crate) const fn given_up(error: &BenchError) -> bool {
    matches!(error, BenchError::Silent { .. } | BenchError::Interrupted { .. })
}

/// Returns the results of both ends for one order. `answer` waits for the server's reply; its
/// argument is the time waited so far. If the server reports an error, that is the cause of a
/// failure.
pub(crate) fn both<T>(near: Result<()>, answer: impl FnOnce(Duration) -> Result<T>) -> Result<T> {
    let near = match near {
        Ok(()) => return answer(Duration::ZERO),
        Err(error) if given_up(&error) => return Err(error),
        Err(error) => error,
    };
    match answer(ANSWER_TIMEOUT.saturating_sub(REST)) {
        Ok(_) | Err(BenchError::NoAnswer { .. }) => Err(near),
        Err(far)
            if given_up(&far) && !matches!(near, BenchError::NoAnswer { .. } | BenchError::Io { .. }) =>
        {
            Err(near)
        }
        Err(far) => Err(far),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn silent() -> BenchError {
        let [node, here] = [0, 1].map(|at| NodeId::nth(at).unwrap());
        BenchError::Silent { what: "test", node, here, seconds: 10 }
    }

    fn said(near: Result<()>, answer: impl FnOnce(Duration) -> Result<()>) -> String {
        both(near, answer).unwrap_err().to_string()
    }

    #[test]
    fn a_server_that_was_given_up_is_not_waited_for_again() {
        let again = |_| -> Result<()> { panic!("waited again") };
        assert!(said(Err(silent()), again).contains("node 4"));
        // The rest of the timeout only, where the near side has used it up elsewhere.
        let answer = |waited: Duration| {
            assert!(waited + REST == ANSWER_TIMEOUT);
            Err(silent())
        };
        assert!(said(Err(poll::no_answer("near")), answer).contains("node 4"));
        assert_eq!(said(Err(BenchError::Usage("near".into())), answer), "near");
    }

    #[test]
    fn the_word_of_the_server_is_the_cause() {
        let far = |_| Err(BenchError::Usage("far".into()));
        assert_eq!(said(Ok(()), far), "far");
        assert_eq!(said(Err(BenchError::Usage("near".into())), far), "far");
        assert_eq!(said(Err(BenchError::Usage("near".into())), |_| Ok(())), "near");
        both(Ok(()), |waited| if waited.is_zero() { Ok(()) } else { Err(silent()) }).unwrap();
    }

    #[test]
    fn silence_names_the_node_and_what_to_do() {
        let text = silent().to_string();
        assert!(text.contains("server on node 4") && text.contains("10 s"), "{text}");
        assert!(text.contains("tieline bench test --server --node 4 --rn 8"), "{text}");
    }
}
