//! The examples run as their first comments say, also over a link that fails and with a worker that dies.

use tieline_tests::{Cluster, Peer, Watchdog};

use crate::{c, finish, id};

fn example(name: &str) -> String {
    let source = c::top().join(format!("examples/sisci/{name}.c"));
    c::compile_as(&format!("example-{name}"), &source, &[])
}

/// Starts the example `name` on a node.
fn start(cluster: &Cluster, name: &str, node: usize, arguments: &[&str]) -> Peer {
    Peer::start(cluster, &example(name), node, arguments).unwrap()
}

#[test]
fn ping_pong() {
    let _watchdog = Watchdog::usual("ping-pong");
    let cluster = Cluster::up(2).unwrap();
    let mut one = start(&cluster, "ping_pong", 0, &["8", "1000"]);
    let mut two = start(&cluster, "ping_pong", 1, &["4", "1000"]);
    one.expect("1000 round trips with node 8").unwrap();
    two.expect("1000 round trips with node 4").unwrap();
    finish(one);
    finish(two);
}

#[test]
fn stream() {
    let _watchdog = Watchdog::usual("stream");
    // With faults, what is stored while the link is down does not arrive.
    let cluster = Cluster::up_with(2, &["--faults"]).unwrap();
    let mut receiver = start(&cluster, "stream", 0, &["receive", "20000"]);
    let mut sender = start(&cluster, "stream", 1, &["send", &id(&cluster, 0), "20000"]);
    sender.expect("streaming to node 4").unwrap();
    for _ in 0..3 {
        for change in ["down", "up"] {
            let (status, _, errors) = cluster.run(&["link", change, "4", "8"]).unwrap();
            assert_eq!(status, 0, "{errors}");
        }
    }
    receiver.expect("received 20000 blocks").unwrap();
    let line = sender.line().unwrap();
    assert!(line.starts_with("sent 20000 blocks, "), "{line}");
    finish(sender);
    finish(receiver);
}

#[test]
fn dma_vector() {
    let _watchdog = Watchdog::usual("DMA vector");
    let cluster = Cluster::up(2).unwrap();
    let mut receiver = start(&cluster, "dma_vector", 0, &["receive"]);
    let mut sender = start(&cluster, "dma_vector", 1, &["send", "4"]);
    sender.expect("sent a matrix of 256 cells").unwrap();
    receiver.expect("received a matrix of 256 cells").unwrap();
    finish(sender);
    finish(receiver);
}

#[test]
fn interrupts() {
    let _watchdog = Watchdog::usual("interrupts");
    let cluster = Cluster::up(2).unwrap();
    let mut asks = start(&cluster, "interrupts", 0, &["wait", "8", "500"]);
    let mut answers = start(&cluster, "interrupts", 1, &["answer", "4"]);
    asks.expect("500 questions answered").unwrap();
    answers.expect("done").unwrap();
    finish(asks);
    finish(answers);
}

#[test]
fn data_interrupts_with_three_senders() {
    let _watchdog = Watchdog::usual("data interrupts");
    let cluster = Cluster::up(4).unwrap();
    let mut receiver = start(&cluster, "data_interrupts", 0, &["receive", "3", "300"]);
    let senders: Vec<Peer> =
        (1..4).map(|node| start(&cluster, "data_interrupts", node, &["send", "4", "300"])).collect();
    for mut sender in senders {
        sender.expect("sent 300 messages").unwrap();
        finish(sender);
    }
    receiver.expect("900 messages of 3 senders").unwrap();
    finish(receiver);
}

#[test]
fn a_work_queue_survives_a_dead_worker() {
    let _watchdog = Watchdog::usual("work queue");
    let cluster = Cluster::up(3).unwrap();
    let mut master = start(&cluster, "work_queue", 0, &["master", "200"]);
    let mut dies = start(&cluster, "work_queue", 1, &["worker", "4", "5"]);
    assert!(dies.line().is_err(), "it ends without a word");
    let mut works = start(&cluster, "work_queue", 2, &["worker", "4"]);
    master.expect("200 jobs done, 1 given out again").unwrap();
    works.expect("did 196 jobs").unwrap();
    finish(works);
    finish(master);
}
