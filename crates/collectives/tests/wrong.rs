//! Wrong use of groups: each ends with an error that names it, on all members.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test")]

use std::time::Duration;

use collectives::{CollectiveSettings, Error, Exchange, Group, operation};
use message_queue::endpoint::{SendRequest, Space};
use message_queue::{MessageQueue, Name, Settings};

/// Beyond all doubt, and a failure if it is reached.
const LIMIT: Option<Duration> = Some(Duration::from_secs(60));

fn queues(count: usize) -> (Vec<MessageQueue>, Vec<Name>) {
    let queues: Vec<_> = (0..count).map(|_| MessageQueue::new(Settings::default()).unwrap()).collect();
    let names = queues.iter().map(MessageQueue::name).collect();
    (queues, names)
}

/// What each of some members gets, and what it gets after it.
fn run(
    count: usize,
    settings: impl Fn(usize) -> CollectiveSettings + Sync,
    call: impl Fn(usize, &mut Group, &mut MessageQueue) -> Result<(), Error> + Sync,
) -> Vec<Result<(), Error>> {
    let (queues, names) = queues(count);
    std::thread::scope(|scope| {
        let start = |(rank, mut queue): (usize, MessageQueue)| {
            let (names, settings, call) = (&names, &settings, &call);
            scope.spawn(move || {
                let mut group = Group::new(&mut queue, names, 5, settings(rank)).unwrap();
                let ended = call(rank, &mut group, &mut queue);
                let after = group.barrier(&mut queue, Some(Duration::ZERO));
                assert_eq!(after.is_err_and(|error| error == Error::Broken), ended.is_err());
                // Not gone while others may wait: it must be the word of others that ends their waits.
                queue.serve_for(Duration::from_millis(300));
                ended
            })
        };
        let threads: Vec<_> = queues.into_iter().enumerate().map(start).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// All have failed, and at least one of them because of the difference.
const EXCHANGE: CollectiveSettings =
    CollectiveSettings { allreduce_exchange: Exchange::ALWAYS, ..CollectiveSettings::SHORT };

fn assert_noticed(ended: &[Result<(), Error>]) {
    let is_mismatch = |ended: &&Result<(), Error>| matches!(ended, Err(Error::Mismatch { .. }));
    assert!(ended.iter().any(|ended| is_mismatch(&ended)), "{ended:?}");
    for ended in ended {
        assert!(matches!(ended, Err(Error::Mismatch { .. } | Error::GivenUp { .. })), "{ended:?}");
    }
}

#[test]
fn another_length_is_noticed_whatever_the_algorithm() {
    for settings in [CollectiveSettings::SHORT, CollectiveSettings::LONG, EXCHANGE] {
        let ended = run(
            4,
            |_| settings,
            |rank, group, queue| {
                group.allreduce(queue, &mut vec![1_u64; 5 + usize::from(rank == 2)], operation::sum, LIMIT)
            },
        );
        assert_noticed(&ended);
        let ended = run(
            3,
            |_| settings,
            |rank, group, queue| {
                let len = 40 - usize::from(rank == 1);
                group.allgather(queue, &vec![1; len], &mut vec![0; 3 * len], LIMIT)
            },
        );
        assert_noticed(&ended);
    }
}

#[test]
fn another_operation_or_algorithm_is_noticed() {
    let ended = run(
        3,
        |_| CollectiveSettings::default(),
        |rank, group, queue| match rank {
            1 => group.alltoall(queue, &[1; 3], &mut [0; 3], LIMIT),
            _ => group.barrier(queue, LIMIT),
        },
    );
    assert_noticed(&ended);
    for other in [CollectiveSettings::LONG, EXCHANGE] {
        let settings = [CollectiveSettings::SHORT, other];
        let ended = run(
            2,
            |rank| settings[rank],
            |_, group, queue| group.allreduce(queue, &mut [1_u32; 9], operation::max, LIMIT),
        );
        assert_noticed(&ended);
    }
    // One call too few of a member, which then makes another.
    let ended = run(
        2,
        |_| CollectiveSettings::SHORT,
        |rank, group, queue| {
            if rank == 0 {
                group.broadcast(queue, 0, &mut [1; 8], LIMIT)?;
            }
            group.allgather(queue, &[1; 4], &mut [0; 8], LIMIT)
        },
    );
    assert_noticed(&ended);
}

#[test]
fn a_member_that_cannot_take_part_says_so_to_the_others() {
    let ended = run(
        3,
        |_| CollectiveSettings::default(),
        |rank, group, queue| match rank {
            0 => group.broadcast(queue, 3, &mut [0; 8], LIMIT),
            _ => group.barrier(queue, LIMIT),
        },
    );
    assert_eq!(ended[0], Err(Error::NoRoot { root: 3, members: 3 }));
    assert!(ended[1..].iter().all(|ended| matches!(ended, Err(Error::GivenUp { .. }))), "{ended:?}");
    let ended = run(
        2,
        |_| CollectiveSettings::default(),
        |rank, group, queue| group.allgather(queue, &[1; 4], &mut vec![0; 8 - rank], LIMIT),
    );
    assert_eq!(
        ended,
        [Err(Error::GivenUp { rank: 1 }), Err(Error::Length { got_bytes: 7, needed_bytes: 8 })]
    );
}

#[test]
fn a_limit_that_passes_ends_the_call_on_all_members() {
    let ended = run(
        3,
        |_| CollectiveSettings::default(),
        |rank, group, queue| match rank {
            0 => {
                queue.serve_for(Duration::from_millis(200));
                // The others have called the first one: this member may have all that it needs.
                group.barrier(queue, LIMIT)?;
                group.barrier(queue, LIMIT)
            }
            1 => group.barrier(queue, Some(Duration::from_millis(30))),
            _ => group.barrier(queue, LIMIT),
        },
    );
    assert!(matches!(ended[1], Err(Error::TimedOut { .. })), "{ended:?}");
    assert!(matches!(ended[0], Err(Error::GivenUp { .. })), "{ended:?}");
    assert!(matches!(ended[2], Err(Error::GivenUp { .. })), "{ended:?}");
}

#[test]
fn a_message_of_the_program_with_a_tag_of_the_group_is_noticed() {
    let ended = run(
        2,
        |_| CollectiveSettings::default(),
        |rank, group, queue| {
            if rank == 0 {
                // Context 5.
                let to = queue.peer(queue.endpoint().name_of(1 + queue.endpoint().own_number()).unwrap());
                let request = SendRequest { space: Space::Group, ..SendRequest::tagged(to, 5 << 31) };
                queue.send_as(&request, Vec::new()).unwrap();
            }
            group.barrier(queue, LIMIT)
        },
    );
    // The other got its message before.
    assert_eq!(ended, [Ok(()), Err(Error::Foreign { rank: 0 })]);
}

#[test]
fn lists_and_queues_that_are_wrong_are_refused() {
    let (mut queues, names) = queues(3);
    let settings = CollectiveSettings::default();
    let mut new = |members: &[Name]| Group::new(&mut queues[0], members, 1, settings).map(|_| ());
    assert_eq!(new(&names[1..]), Err(Error::NotMember));
    assert_eq!(new(&[]), Err(Error::NotMember));
    assert_eq!(new(&[names[0], names[1], names[0]]), Err(Error::Twice { first: 0, second: 2 }));
    let many = vec![names[0]; collectives::MEMBERS_MAX + 1];
    assert_eq!(new(&many), Err(Error::TooMany { members: many.len() }));
    let mut group = Group::new(&mut queues[0], &names[..1], 1, settings).unwrap();
    assert_eq!(group.barrier(&mut queues[1], LIMIT), Err(Error::WrongQueue));
    // Nothing has happened by that.
    assert_eq!(group.barrier(&mut queues[0], LIMIT), Ok(()));
}
