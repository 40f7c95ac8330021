//! Connects the two processes of a benchmark.

use std::{sync::Arc, time::Duration};

use tieline::{Node, NodeId, RemoteMap, RemoteSegment, Segment, SegmentId, SegmentOptions};

use super::{
    ServeOptions, Tool,
    mailbox::{Head, Mailbox, Order, Service},
};
use crate::{
    error::{BenchError, Result},
    patterns::{
        attach::{self, CONNECT_TIMEOUT, Where},
        provider::WithLoops,
        server::{self, Server},
    },
    poll,
    progress::Progress,
};

/// The owner of the segment.
#[derive(Debug, Clone, Copy)]
enum Role {
    Server = 0,
    Client = 1,
}

/// Segments are numbered apart from each other and from what programs choose, by the other's node.
fn mailbox_of(tool: Tool, role: Role, other: NodeId) -> SegmentId {
    SegmentId(0x5e00_0000 | (tool as u32) << 20 | (role as u32) << 19 | (other.get() & 0x7_ffff))
}

fn open(node: &Node, tool: Tool, role: Role, other: NodeId, extra: u64) -> Result<Segment> {
    let mine =
        node.create_segment_with(&SegmentOptions::new(tool.bytes()).id(mailbox_of(tool, role, other)))?;
    Mailbox::new(mine.window(), tool)?.sign(&Head::of(tool, extra))?;
    mine.make_available()?;
    Ok(mine)
}

/// The words of a client: in the server's segment, or between hosts.
fn mailbox<'a>(
    tool: Tool,
    mine: &'a Segment,
    theirs: &'a RemoteSegment,
    map: Option<&'a RemoteMap>,
) -> Result<Mailbox<'a>> {
    match map {
        Some(map) => Mailbox::new(map.window()?, tool),
        None => Mailbox::between_hosts(mine.window(), theirs, tool),
    }
}

/// The end that measures.
#[derive(Debug)]
pub struct Client {
    /// Attached to its node.
    pub node: Node,
    /// The server's node.
    pub server: NodeId,
    tool: Tool,
    /// Lives as long as the client does: the server watches it.
    mine: Segment,
    other: Server,
    /// Whether the server was given up: it gets no further orders.
    given_up: bool,
    /// None of a segment of another host.
    map: Option<RemoteMap>,
    head: Head,
    sent: u64,
}

impl Client {
    /// Finds the server of `tool` on node `place.far`, and checks that it is one. `extra` is for
    /// the server to read.
    pub fn meet(
        place: &Where,
        tool: Tool,
        progress: &mut dyn Progress,
        extra: impl FnOnce(&Node) -> Result<u64>,
    ) -> Result<Self> {
        let node = place.attach(place.near, tool.name())?;
        let server = place.far.ok_or_else(|| {
            BenchError::Usage(format!("{}: --rn is missing: give the node ID of the server", tool.name()))
        })?;
        let mine = open(&node, tool, Role::Client, server, extra(&node)?)?;
        let absent = |error| match error {
            BenchError::Api(error) => BenchError::Absent {
                what: tool.name(),
                reason: format!(
                    "no server for node {here} responded on node {server} within {s} s: start one there with `tieline bench {name} \
                     --server --rn {here}` ({error})",
                    name = tool.name(),
                    here = node.id(),
                    s = CONNECT_TIMEOUT.as_secs(),
                ),
            },
            error => error,
        };
        let theirs = mailbox_of(tool, Role::Server, node.id());
        let other = Server::meet(tool.name(), &node, server, theirs, progress).map_err(absent)?;
        let map = attach::map_of(&other.segment)?;
        let head = mailbox(tool, &mine, &other.segment, map.as_ref())?.head()?;
        head.check(tool)?;
        Ok(Self { node, server, tool, mine, other, given_up: false, map, head, sent: 0 })
    }

    /// The words between the two.
    pub(crate) fn mailbox(&self) -> Result<Mailbox<'_>> {
        mailbox(self.tool, &self.mine, &self.other.segment, self.map.as_ref())
    }

    /// The tool.
    pub(crate) const fn tool(&self) -> Tool {
        self.tool
    }

    /// Whether the server is on another host.
    pub const fn is_between_hosts(&self) -> bool {
        self.map.is_none()
    }

    /// The name of the link to the server.
    pub fn path(&self) -> String {
        if self.map.is_none() {
            return self.other.segment.link().to_owned();
        }
        attach::path_of(&self.node)
    }

    /// Ends the waits of the measuring thread once the server is gone.
    pub(crate) fn watch(&self) -> poll::Watched {
        self.other.watch()
    }

    /// The number that the server has laid out.
    pub fn extra(&self) -> u64 {
        self.head.extra
    }

    /// Sends an order, runs `near`, and waits for the reply. If the far side reports an error, that
    /// is the cause of a failure.
    pub fn order(&mut self, order: Order, near: &mut dyn FnMut() -> Result<()>) -> Result<u64> {
        self.order_with(order, &mut |_, _| near())
    }

    /// The same for `near` that uses the segments of the rendezvous: the own one and the server's.
    pub(crate) fn order_with(
        &mut self,
        order: Order,
        near: &mut dyn FnMut(&Segment, &RemoteSegment) -> Result<()>,
    ) -> Result<u64> {
        self.sent += 1;
        let mailbox = self.mailbox()?;
        mailbox.send(self.sent, &order)?;
        let (sent, other) = (self.sent, &self.other);
        let answer = |before| mailbox.answer(sent, &|waited| other.check(before + waited));
        let outcome = server::both(near(&self.mine, &other.segment), answer);
        self.given_up |= outcome.as_ref().is_err_and(server::given_up);
        outcome
    }

    /// Sends the server the order to end.
    pub fn stop(mut self) -> Result<()> {
        if self.given_up {
            // The server may find the order later; this process does not wait for it.
            return self.mailbox()?.send(self.sent + 1, &Order::new(Order::STOP, [0; 3]));
        }
        self.order(Order::new(Order::STOP, [0; 3]), &mut || Ok(())).map(drop)
    }
}

/// Serves one client: `begin` is given the attached node and what the client laid out, and makes
/// the service; `lay_out` gives the number for the client to read.
pub fn serve<S: Service + Send>(
    options: &ServeOptions,
    tool: Tool,
    lay_out: impl FnOnce(&Node) -> Result<u64>,
    begin: impl FnOnce(&Node, u64) -> Result<S>,
) -> Result<()> {
    let cpu = super::cpu_of(options.cpu, false)?;
    let node = options.place.attach(options.place.near, tool.name())?;
    let extra = lay_out(&node)?;
    let mine = open(&node, tool, Role::Server, options.client, extra)?;
    let theirs = Arc::new(
        node.connect_segment(options.client, mailbox_of(tool, Role::Client, node.id()), options.wait)
            .map_err(|error| {
                BenchError::Usage(format!(
                    "{}: no client connected from node {} within {} s ({error})",
                    tool.name(),
                    options.client,
                    options.wait.as_secs()
                ))
            })?,
    );
    let map = attach::map_of(&theirs)?;
    let head = match &map {
        Some(map) => Mailbox::new(map.window()?, tool)?.head()?,
        None => Mailbox::between_hosts(mine.window(), &theirs, tool)?.head()?,
    };
    head.check(tool)?;
    let mut service = begin(&node, head.extra)?;
    let mailbox = match &map {
        Some(_) => Mailbox::new(mine.window(), tool)?,
        None => Mailbox::between_hosts(mine.window(), &theirs, tool)?,
    };
    crate::pinned_pair::pinned(cpu, || {
        let client = Arc::clone(&theirs);
        // Also while an order is followed that spins.
        let _watched = poll::watched(move |_| Ok(client.check()?));
        let still_there = || poll::still_there(Duration::ZERO);
        if map.is_some() {
            return mailbox.serve(&mut service, &still_there);
        }
        let mut service = WithLoops::new(&mut service, &node, mailbox, mine.window(), &theirs);
        mailbox.serve(&mut service, &still_there)
    })
}
