//! The decisions by a clock of the test, and a search through all that can happen to late bytes.

use std::collections::{HashSet, VecDeque};

use super::super::choice::{self, may_take};
use super::*;

const LIMITS: Limits = Limits { silence_ms: 100, pause_ms: 50, longest_pause_ms: 150 };

fn chunk(block: u64, nth: u32) -> Chunk {
    Chunk { block, nth }
}

#[test]
fn a_rail_that_fails_is_closed_first_and_what_it_had_is_sent_again_then() {
    let mut link = Recovery::new(2, LIMITS, 0);
    for nth in [0, 2, 3] {
        link.begun(1, chunk(1, nth), 5);
    }
    link.begun(0, chunk(1, 1), 5);
    assert!(link.confirmed(1, 0, chunk(1, 0), 6));
    let asked = vec![Action::AskToClose { rail: 1, generation: 0, over: 0 }];
    assert_eq!(link.failed(1, 0, "reset", 7), asked);
    assert_eq!((link.reduced(1), link.generation_if_up(1)), (Some((7, "reset")), None));
    // Once more, and what it confirms too late.
    assert!(link.failed(1, 0, "reset", 8).is_empty() && !link.confirmed(1, 0, chunk(1, 2), 8));
    assert!(link.has_earlier(1, 2), "nothing of a later block may pass it");
    // Another end point, another rail.
    assert!(link.closed(1, 1, 9).is_empty() && link.closed(0, 0, 9).is_empty());
    // What was confirmed is not sent again.
    assert_eq!(link.closed(1, 0, 9), [chunk(1, 2), chunk(1, 3)].map(Action::SendAgain));
    assert!(link.closed(1, 0, 10).is_empty(), "twice");
}

#[test]
fn a_rail_comes_back_by_itself_after_ever_longer_pauses() {
    let mut link = Recovery::new(2, LIMITS, 0);
    let mut now_ms = 0;
    for (round, pause_ms) in [50, 100, 150, 150].into_iter().enumerate() {
        let generation = round as u32;
        link.failed(1, generation, "reset", now_ms);
        link.closed(1, generation, now_ms);
        assert!(link.tick(now_ms + pause_ms - 1).is_empty(), "round {round}");
        now_ms += pause_ms;
        assert_eq!(link.tick(now_ms), [Action::Open { rail: 1, generation: generation + 1 }]);
        assert!(link.reduced(1).is_some());
        link.opened(1, generation + 1, now_ms);
        assert_eq!((link.reduced(1), link.generation_if_up(1)), (None, Some(generation + 1)));
    }
    // What it confirms makes the next pause short again.
    link.begun(1, chunk(9, 0), now_ms);
    assert!(link.confirmed(1, 4, chunk(9, 0), now_ms));
    link.failed(1, 4, "reset", now_ms);
    link.closed(1, 4, now_ms);
    assert_eq!(link.tick(now_ms + 50), [Action::Open { rail: 1, generation: 5 }]);
    // So does an answer, of this end point.
    link.opened(1, 5, now_ms + 50);
    link.failed(1, 5, "reset", now_ms + 50);
    link.closed(1, 5, now_ms + 50);
    link.responded(1, 5);
    assert_eq!(link.tick(now_ms + 150), [Action::Open { rail: 1, generation: 6 }], "after a longer pause");
    link.opened(1, 6, now_ms + 150);
    link.responded(1, 5);
    link.responded(1, 6);
    link.failed(1, 6, "reset", now_ms + 150);
    link.closed(1, 6, now_ms + 150);
    now_ms += 150;
    assert_eq!(link.tick(now_ms + 50), [Action::Open { rail: 1, generation: 7 }]);
    // An end point that does not come is asked for again, under another number.
    assert!(link.tick(now_ms + 150).is_empty());
    assert_eq!(link.tick(now_ms + 250), [Action::Open { rail: 1, generation: 8 }]);
    link.opened(1, 7, now_ms + 251);
    assert_eq!(link.generation_if_up(1), None);
}

#[test]
fn where_no_rail_responds_one_that_is_closed_is_opened_sooner_and_not_at_once() {
    let limits = Limits { longest_pause_ms: 100_000, pause_ms: 1000, ..LIMITS };
    let mut link = Recovery::new(2, limits, 0);
    let mut now_ms = 0;
    for generation in 0..7 {
        link.failed(1, generation, "reset", now_ms);
        link.closed(1, generation, now_ms);
        now_ms += 1000 << generation;
        assert_eq!(link.tick(now_ms), [Action::Open { rail: 1, generation: generation + 1 }]);
        link.opened(1, generation + 1, now_ms);
    }
    link.failed(1, 7, "reset", now_ms);
    link.closed(1, 7, now_ms);
    // Each look says so again, and that puts nothing off.
    for later_ms in 0..HURRY * 1000 {
        link.hurry(now_ms + later_ms);
        assert!(link.tick(now_ms + later_ms).is_empty());
    }
    assert_eq!(link.tick(now_ms + HURRY * 1000), [Action::Open { rail: 1, generation: 8 }]);
}

#[test]
fn a_rail_that_did_not_respond_at_the_start_is_tried_as_one_that_has_failed() {
    let mut link = Recovery::new(2, LIMITS, 0);
    link.left_out(1, "no response", 0);
    assert_eq!((link.reduced(1), link.generation_if_up(1)), (Some((0, "no response")), None));
    assert!(link.tick(49).is_empty() && link.closed(1, 0, 49).is_empty());
    assert_eq!(link.tick(50), [Action::Open { rail: 1, generation: 1 }]);
    link.not_opened(1, 1, 60);
    assert!(link.tick(159).is_empty(), "the pause has doubled");
    assert_eq!(link.tick(160), [Action::Open { rail: 1, generation: 2 }]);
    link.opened(1, 2, 161);
    assert_eq!((link.reduced(1), link.generation_if_up(1)), (None, Some(2)));
}

#[test]
fn silence_with_work_is_a_failure_and_without_work_it_is_none() {
    let mut link = Recovery::new(3, LIMITS, 0);
    assert!(link.tick(10_000).is_empty());
    link.begun(2, chunk(1, 0), 10_000);
    assert!(link.tick(10_099).is_empty());
    assert_eq!(link.tick(10_100), [Action::AskToClose { rail: 2, generation: 0, over: 0 }]);
    assert_eq!(link.reduced(2), Some((10_100, "it confirmed nothing")));
    // The rail of the question is silent, too: both are to be closed over the third.
    let asked = link.tick(10_200);
    let ask = |rail| Action::AskToClose { rail, generation: 0, over: 1 };
    assert_eq!(asked, [ask(0), ask(2)]);
    assert_eq!(link.reduced(0), Some((10_200, "it did not respond")));
    // And then none is left. The managers were asked, too.
    let asked = link.tick(10_300);
    let ask = |rail| Action::AskToClose { rail, generation: 0, over: rail };
    assert_eq!(asked, [ask(0), ask(1), ask(2)]);
    assert!(!link.is_peer_failed());
    assert_eq!(link.tick(10_301), [Action::PeerFailed]);
    assert!(link.is_peer_failed() && link.closed(2, 0, 10_302).is_empty() && link.tick(99_999).is_empty());
}

#[test]
fn a_rail_over_which_bytes_travel_is_not_silent() {
    let mut link = Recovery::new(2, LIMITS, 0);
    link.begun(1, chunk(1, 0), 0);
    for now_ms in (0..1000).step_by(90) {
        assert!(link.tick(now_ms).is_empty());
        link.moves(1, 0, now_ms);
    }
    // Of another end point, or of another rail, it says nothing.
    link.moves(1, 1, 1080);
    link.moves(0, 0, 1080);
    assert!(link.tick(1089).is_empty());
    assert_eq!(link.tick(1090), [Action::AskToClose { rail: 1, generation: 0, over: 0 }]);
    // A question waits behind what its rail carries.
    for now_ms in (1090..2000).step_by(90) {
        link.moves(0, 0, now_ms);
        assert!(link.tick(now_ms).is_empty());
    }
    assert!(link.tick(2089).is_empty());
    let ask = |rail| Action::AskToClose { rail, generation: 0, over: rail };
    assert_eq!(link.tick(2090), [ask(0), ask(1)]);
}

#[test]
fn while_no_rail_is_left_the_managers_carry_the_questions_until_one_is_open_again() {
    let mut link = Recovery::new(2, LIMITS, 0);
    link.begun(0, chunk(1, 0), 0);
    assert_eq!(link.failed(1, 0, "reset", 0), [Action::AskToClose { rail: 1, generation: 0, over: 0 }]);
    let ask = |rail| Action::AskToClose { rail, generation: 0, over: rail };
    assert_eq!(link.failed(0, 0, "reset", 10), [ask(0), ask(1)]);
    assert!(link.closed(1, 0, 20).is_empty());
    assert_eq!(link.tick(70), [Action::Open { rail: 1, generation: 1 }]);
    link.opened(1, 1, 80);
    assert_eq!((link.generation_if_up(0), link.generation_if_up(1)), (None, Some(1)));
    // The link has a rail: the time until it ends begins anew with each loss of the last one.
    assert!(link.tick(179).is_empty());
    assert_eq!(link.closed(0, 0, 179), [Action::SendAgain(chunk(1, 0))]);
    assert_eq!(link.failed(1, 1, "reset", 180), [Action::AskToClose { rail: 1, generation: 1, over: 1 }]);
    assert!(!link.tick(279).contains(&Action::PeerFailed));
    assert_eq!(link.tick(280), [Action::PeerFailed]);
}

/// A message about an end point.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Said {
    Close { rail: usize, generation: u32, over: usize },
    IsClosed { rail: usize, generation: u32 },
    Open { rail: usize, generation: u32 },
    IsOpen { rail: usize, generation: u32 },
    NotOpened { rail: usize, generation: u32 },
}

/// How the two ends keep to the rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Conduct {
    Right,
    /// The sender does not wait for the answer.
    SendsAtOnce,
    /// The receiver takes back the key only: what it has begun to receive still lands.
    RevokesOnly,
    /// A later block is begun behind what may have to be sent again.
    BeginsBehind,
    /// Another rail takes over from one on which a word is under way, and repeats it.
    RepeatsWords,
    /// The program goes on before the receiver has closed the rail on which a word is in doubt.
    ResumesAtOnce,
}

/// Both ends and what is between them. Each block writes the same cells; one may be a word, which goes over
/// the rail for all but long blocks, and must not land twice: the receiver sees it. If that rail fails
/// meanwhile, nothing is begun until the program resumes the link; then it puts the word anew (its `nth`
/// says how often it was put), and the earlier one must not land any more.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct World {
    sender: Recovery,
    now_ms: u64,
    lead: usize,
    /// The block that is a word.
    word: Option<u64>,
    is_word_open: bool,
    has_word_landed: bool,
    /// How often the program has put the word anew.
    attempt: u32,
    is_suspended: bool,
    /// What the receiver has not said to be closed since then.
    to_close: Vec<(usize, u32)>,
    /// The last chunk that was begun for the first time.
    newest: Chunk,
    to_send: Vec<Chunk>,
    /// By rail: end point and chunk, in their order.
    under_way: Vec<VecDeque<(u32, Chunk)>>,
    confirming: Vec<VecDeque<(u32, Chunk)>>,
    said: Vec<Said>,
    /// The receiver's end point of each rail.
    open: Vec<Option<u32>>,
    cells: Vec<u64>,
    /// The latest block of which something has landed: the receiver knows that those before are whole.
    latest: u64,
    /// What the sender knows to have landed.
    done: Vec<Chunk>,
    has_ended: bool,
    /// There was a moment without any rail.
    was_without: bool,
    errors_left: u32,
    pauses_left: u32,
}

impl World {
    fn new(rails: usize, blocks: u64, chunks: u32, errors: u32, word: Option<u64>) -> Self {
        let of_block = |block| {
            let chunks = if word == Some(block) { 1 } else { chunks };
            (0..chunks).map(move |nth| chunk(block, nth))
        };
        Self {
            sender: Recovery::new(rails, LIMITS, 0),
            now_ms: 0,
            lead: 0,
            word,
            is_word_open: false,
            has_word_landed: false,
            attempt: 0,
            is_suspended: false,
            to_close: Vec::new(),
            newest: chunk(0, 0),
            to_send: (1..=blocks).flat_map(of_block).collect(),
            under_way: vec![VecDeque::new(); rails],
            confirming: vec![VecDeque::new(); rails],
            said: Vec::new(),
            open: vec![Some(0); rails],
            cells: vec![0; chunks as usize],
            latest: 0,
            done: Vec::new(),
            has_ended: false,
            was_without: false,
            errors_left: errors,
            pauses_left: 2,
        }
    }

    fn carry_out(&mut self, actions: Vec<Action>, conduct: Conduct) {
        for action in actions {
            match action {
                Action::PeerFailed => self.has_ended = true,
                Action::AskToClose { rail, generation, over } => {
                    if rail == self.lead {
                        self.lead = over;
                        match std::mem::take(&mut self.is_word_open) {
                            true if conduct == Conduct::RepeatsWords => self.put_word(),
                            // Nobody knows whether the word has landed.
                            true => {
                                self.is_suspended = true;
                                self.to_close.push((rail, generation));
                            }
                            false => {}
                        }
                    }
                    self.said.push(Said::Close { rail, generation, over });
                    if conduct == Conduct::SendsAtOnce {
                        let actions = self.sender.closed(rail, generation, self.now_ms);
                        self.carry_out(actions, conduct);
                    }
                }
                Action::SendAgain(chunk) => {
                    self.to_send.push(chunk);
                    self.to_send.sort();
                }
                Action::Open { rail, generation } => {
                    self.said.push(Said::Open { rail, generation });
                    // The sender may find out before or after the other end has opened it, or not at all.
                    self.said.push(Said::NotOpened { rail, generation });
                }
            }
        }
    }

    fn put_word(&mut self) {
        self.to_send.extend(self.word.map(|block| chunk(block, self.attempt)));
        self.to_send.sort();
    }

    /// Whether the program may go on after a word was in doubt.
    fn may_resume(&self, conduct: Conduct) -> bool {
        let has_any = |rail| self.sender.has_earlier(rail, u64::MAX);
        let has_again = self.to_send.first().is_some_and(|chunk| *chunk <= self.newest);
        let is_settled = self.to_close.is_empty() && !has_again && !(0..self.open.len()).any(has_any);
        let is_up = self.sender.generation_if_up(self.lead).is_some();
        self.is_suspended && is_up && (is_settled || conduct == Conduct::ResumesAtOnce)
    }

    fn resume(&mut self) {
        self.is_suspended = false;
        self.has_word_landed = false;
        self.attempt += 1;
        self.put_word();
    }

    /// The receiver and the sender deal with a message.
    fn hear(&mut self, said: Said, conduct: Conduct) {
        match said {
            Said::Close { rail, generation, .. } => {
                if self.open[rail] == Some(generation) && conduct != Conduct::RevokesOnly {
                    self.open[rail] = None;
                }
                self.said.push(Said::IsClosed { rail, generation });
            }
            Said::IsClosed { rail, generation } => {
                self.to_close.retain(|one| *one != (rail, generation));
                let actions = self.sender.closed(rail, generation, self.now_ms);
                self.carry_out(actions, conduct);
            }
            Said::Open { rail, generation } => {
                if self.open[rail].is_none_or(|there| there < generation) {
                    self.open[rail] = Some(generation);
                    self.said.push(Said::IsOpen { rail, generation });
                }
            }
            Said::NotOpened { rail, generation } => self.sender.not_opened(rail, generation, self.now_ms),
            Said::IsOpen { rail, generation } => {
                self.sender.opened(rail, generation, self.now_ms);
                if self.sender.generation_if_up(self.lead).is_none() {
                    self.lead = rail;
                }
            }
        }
    }

    /// The oldest chunk of a rail lands, or meets a closed door; false: the receiver, or the sender, knew it
    /// to be there.
    fn land(&mut self, rail: usize, conduct: Conduct) -> bool {
        let Some((generation, chunk)) = self.under_way[rail].pop_front() else { return true };
        if self.open[rail] != Some(generation) && conduct != Conduct::RevokesOnly {
            return true;
        }
        let is_word = self.word == Some(chunk.block);
        self.cells[if is_word { 0 } else { chunk.nth as usize }] = chunk.block;
        let is_late = is_word && chunk.nth < self.attempt;
        let is_seen = is_word && std::mem::replace(&mut self.has_word_landed, true);
        let is_known = is_late || is_seen || self.latest > chunk.block || self.done.contains(&chunk);
        self.latest = self.latest.max(chunk.block);
        self.confirming[rail].push_back((generation, chunk));
        !is_known
    }

    /// Where the next chunk may be begun.
    fn may_begin(&self, rail: usize, conduct: Conduct) -> Option<(u32, Chunk)> {
        let (generation, chunk) = (self.sender.generation_if_up(rail)?, *self.to_send.first()?);
        if self.is_suspended && chunk > self.newest {
            return None;
        }
        let has_earlier = |nth| self.sender.has_earlier(nth, chunk.block);
        if self.word == Some(chunk.block) {
            let may_begin = rail == self.lead && !(0..self.open.len()).any(has_earlier);
            return may_begin.then_some((generation, chunk));
        }
        let state = |nth: usize| choice::Rail {
            has_earlier: has_earlier(nth) || nth == self.lead && self.is_word_open,
            is_ordered: conduct == Conduct::BeginsBehind,
            is_up: self.sender.generation_if_up(nth).is_some(),
            bytes: 0,
            rate: None,
            has_room: true,
        };
        let rails: Vec<_> = (0..self.open.len()).map(state).collect();
        may_take(&rails, rail).then_some((generation, chunk))
    }

    /// All that can happen next; `None`: something has landed that was known to be there.
    fn next(&self, conduct: Conduct) -> Option<Vec<Self>> {
        let mut all = Vec::new();
        if self.has_ended {
            return Some(all);
        }
        for rail in 0..self.open.len() {
            if let Some((generation, chunk)) = self.may_begin(rail, conduct) {
                let mut after = self.clone();
                after.to_send.remove(0);
                after.newest = after.newest.max(chunk);
                if self.word == Some(chunk.block) {
                    after.is_word_open = true;
                } else {
                    after.sender.begun(rail, chunk, self.now_ms);
                }
                after.under_way[rail].push_back((generation, chunk));
                all.push(after);
            }
            if !self.under_way[rail].is_empty() {
                let mut after = self.clone();
                if !after.land(rail, conduct) {
                    return None;
                }
                all.push(after);
            }
            if !self.confirming[rail].is_empty() {
                let mut after = self.clone();
                if let Some((generation, chunk)) = after.confirming[rail].pop_front() {
                    if self.word == Some(chunk.block) {
                        after.is_word_open &= chunk.nth < self.attempt;
                    } else if after.sender.confirmed(rail, generation, chunk, self.now_ms) {
                        after.done.push(chunk);
                        after.done.sort();
                    }
                }
                all.push(after);
            }
            if let Some(generation) = self.sender.generation_if_up(rail).filter(|_| self.errors_left > 0) {
                let mut after = self.clone();
                after.errors_left -= 1;
                // Questions that it was to carry may be lost, or may not.
                for is_lost in [false, true] {
                    let mut after = after.clone();
                    if is_lost {
                        after.said.retain(|said| !matches!(said, Said::Close { over, .. } if *over == rail));
                    }
                    let actions = after.sender.failed(rail, generation, "an error", self.now_ms);
                    after.was_without |=
                        !(0..self.open.len()).any(|rail| after.sender.generation_if_up(rail).is_some());
                    after.carry_out(actions, conduct);
                    all.push(after);
                }
            }
        }
        if self.may_resume(conduct) {
            let mut after = self.clone();
            after.resume();
            all.push(after);
        }
        for at in 0..self.said.len() {
            let mut after = self.clone();
            let said = after.said.remove(at);
            after.hear(said, conduct);
            all.push(after);
        }
        // Time passes while nothing else can happen, too: without any rail until the link ends.
        let has_none = !(0..self.open.len()).any(|rail| self.sender.generation_if_up(rail).is_some());
        if self.pauses_left > 0 || has_none && all.is_empty() {
            let mut after = self.clone();
            after.pauses_left = after.pauses_left.saturating_sub(1);
            after.now_ms += 60;
            let actions = after.sender.tick(after.now_ms);
            after.carry_out(actions, conduct);
            all.push(after);
        }
        Some(all)
    }

    fn is_done(&self, blocks: u64) -> bool {
        let has_none = |rail| !self.sender.has_earlier(rail, blocks + 1);
        let are_confirmed = self.to_send.is_empty() && (0..self.open.len()).all(has_none);
        are_confirmed
            && !self.is_word_open
            && !self.is_suspended
            && self.cells.iter().all(|cell| *cell == blocks)
    }
}

/// How many states there are; `None`: something has landed that was known to be there.
fn search(
    (rails, blocks, chunks, errors): (usize, u64, u32, u32),
    word: Option<u64>,
    conduct: Conduct,
) -> Option<usize> {
    let start = World::new(rails, blocks, chunks, errors, word);
    let mut seen = HashSet::from([start.clone()]);
    let mut open = vec![start];
    let (mut has_recovered, mut has_resumed, mut has_returned) = (false, false, false);
    while let Some(world) = open.pop() {
        let next = world.next(conduct)?;
        if next.is_empty() && !world.has_ended && conduct == Conduct::Right {
            assert!(world.is_done(blocks), "it is stuck, or something is lost: {world:?}");
        }
        has_recovered |= world.is_done(blocks) && world.errors_left < errors;
        has_resumed |= world.is_done(blocks) && world.attempt > 0;
        has_returned |= world.is_done(blocks) && world.was_without;
        open.extend(next.into_iter().filter(|next| seen.insert(next.clone())));
    }
    assert!(has_recovered || conduct != Conduct::Right, "nothing ever gets through");
    let may_be_without = errors as usize >= rails && conduct == Conduct::Right;
    assert!(has_returned || !may_be_without, "no link that was without any rail goes on");
    assert!(has_resumed || word.is_none() || conduct != Conduct::Right, "nothing is ever resumed");
    Some(seen.len())
}

#[test]
fn nothing_lands_that_is_known_to_be_there_however_errors_questions_and_answers_interleave() {
    for (size, word) in [
        ((2, 2, 1, 2), None),
        ((2, 2, 2, 1), None),
        ((3, 2, 1, 1), None),
        ((2, 3, 1, 1), None),
        ((2, 3, 1, 1), Some(2)),
        ((2, 3, 2, 1), Some(2)),
        ((3, 2, 1, 1), Some(1)),
        ((2, 2, 1, 2), Some(1)),
    ] {
        let states = search(size, word, Conduct::Right);
        let (rails, blocks, chunks, errors) = size;
        let states = states.unwrap_or_else(|| panic!("{rails} rails, {blocks} blocks of {chunks} chunks"));
        println!(
            "{rails} rails, {blocks} blocks of {chunks} chunks, {errors} errors, {word:?}: {states} states"
        );
        assert!(states > 1000, "the search looks at {states} states only");
    }
}

/// All are found by the same search, so the search would notice.
#[test]
fn without_the_answer_the_closing_or_the_wait_for_what_is_earlier_something_lands_late() {
    for conduct in [Conduct::SendsAtOnce, Conduct::RevokesOnly, Conduct::BeginsBehind] {
        assert_eq!(search((2, 2, 1, 1), None, conduct), None, "{conduct:?}");
    }
    for conduct in [Conduct::RepeatsWords, Conduct::ResumesAtOnce, Conduct::RevokesOnly] {
        assert_eq!(search((2, 2, 1, 1), Some(1), conduct), None, "{conduct:?}");
    }
}
