//! What a test does with programs.

use proto::manager::{Credentials, DescriptorKind};
use proto::wire;
use proto::wire::program::{Event, Importer, Refusal, Reply, Request, RequestId};

use crate::actor::{Actor, Letter};
use crate::kernel::{Parcel, Place};
use crate::world::{OWN_UID, World};

impl World {
    pub fn spawn(&mut self, node: usize, credentials: Credentials, name: &str) -> usize {
        let mut actor = Actor::new(node, credentials, name);
        actor.apart = self.apart;
        self.actors.push(actor);
        self.actors.len() - 1
    }

    /// An actor as an owner is told of it.
    pub fn importer(&self, actor: usize) -> Importer {
        let credentials = &self.actors[actor].credentials;
        Importer { uid: credentials.uid, pid: credentials.pid }
    }

    /// A program of the usual user, attached.
    pub fn attach(&mut self, node: usize) -> usize {
        let pid = 1000 + u32::try_from(self.actors.len()).expect("few programs");
        let credentials = Credentials { uid: OWN_UID, gids: vec![100], pid };
        let actor = self.spawn(node, credentials, &format!("program{pid}"));
        self.try_attach(actor);
        self.run_until("attached", |world| world.actors[actor].attached);
        actor
    }

    /// Connects to the manager and says hello; later, if there is none.
    pub fn try_attach(&mut self, actor: usize) {
        if self.actors[actor].dead || self.actors[actor].channel.is_some() {
            return;
        }
        let node = self.actors[actor].node;
        if self.nodes[node].manager.is_none() {
            let delay = self.delay((20_000, 150_000));
            return self.post(delay, Place::Actor(actor), Parcel::Attach);
        }
        let channel = self.connect(actor);
        let letter = self.actors[actor].hello();
        self.send_letter(actor, channel, letter);
    }

    /// Connects and says nothing.
    pub fn connect(&mut self, actor: usize) -> u64 {
        let node = self.actors[actor].node;
        let life = self.nodes[node].life;
        let channel = self.open([Place::Actor(actor), Place::Manager { node, life }]);
        self.actors[actor].channel = Some(channel);
        let credentials = self.actors[actor].credentials.clone();
        let delay = self.delay(self.net.program_us);
        self.arrive(channel, 1, delay, Parcel::Opened { channel, dialled: None, credentials });
        channel
    }

    pub fn send_letter(&mut self, actor: usize, channel: u64, (message, beside): Letter) {
        let bytes = wire::encode(&message).expect("a program's message can be encoded");
        self.send_from(channel, Place::Actor(actor), bytes, beside);
    }

    /// Sends bytes that need not be a message.
    pub fn send_raw(&mut self, actor: usize, bytes: Vec<u8>, beside: Vec<DescriptorKind>) {
        let channel = self.actors[actor].channel.expect("connected");
        self.send_from(channel, Place::Actor(actor), bytes, beside);
    }

    pub fn deliver_to_actor(&mut self, actor: usize, parcel: Parcel) {
        if self.actors[actor].dead {
            return;
        }
        let now = self.now;
        match parcel {
            Parcel::Attach => self.try_attach(actor),
            Parcel::Closed { channel } if self.actors[actor].channel == Some(channel) => {
                self.close_quietly(channel, Place::Actor(actor));
                self.actors[actor].closed();
                if self.actors[actor].returns {
                    self.try_attach(actor);
                }
            }
            Parcel::Data { channel, bytes, beside } if self.actors[actor].channel == Some(channel) => {
                let message = match wire::decode(&bytes) {
                    Ok(message) => message,
                    Err(wire::CodecError::OtherVersion { .. }) => return,
                    Err(other) => panic!("a program cannot read what its manager sent: {other}"),
                };
                let letters = self.actors[actor].deliver(now, message, beside);
                for letter in letters {
                    self.send_letter(actor, channel, letter);
                }
            }
            _ => {}
        }
    }

    /// Sends a request and does not wait.
    pub fn request(&mut self, actor: usize, body: Request, beside: Vec<DescriptorKind>) -> RequestId {
        let channel = self.actors[actor].channel.expect("attached");
        let (id, letter) = self.actors[actor].ask(self.now, body, beside);
        self.send_letter(actor, channel, letter);
        id
    }

    pub fn answer(&mut self, actor: usize, id: RequestId) -> Result<(Reply, Vec<DescriptorKind>), Refusal> {
        self.run_until("an answer", |world| world.actors[actor].replies.contains_key(&id));
        let (result, beside) = self.actors[actor].replies.remove(&id).expect("it is there");
        result.map(|reply| (reply, beside))
    }

    /// Asks and waits for the answer.
    pub fn ask_with(
        &mut self,
        actor: usize,
        body: Request,
        beside: Vec<DescriptorKind>,
    ) -> Result<(Reply, Vec<DescriptorKind>), Refusal> {
        let id = self.request(actor, body, beside);
        self.answer(actor, id)
    }

    pub fn ask(&mut self, actor: usize, body: Request) -> Result<Reply, Refusal> {
        self.ask_with(actor, body, Vec::new()).map(|(reply, _)| reply)
    }

    /// kill -9 of a program.
    pub fn kill_program(&mut self, actor: usize) {
        self.actors[actor].dead = true;
        if let Some(channel) = self.actors[actor].channel.take() {
            self.close(channel, Place::Actor(actor));
        }
    }

    /// What a program was told since the last look.
    pub fn events(&mut self, actor: usize) -> Vec<Event> {
        std::mem::take(&mut self.actors[actor].events).into_iter().map(|(event, _)| event).collect()
    }
}
