//! Generates calls on a connection other than sending and receiving: options, names, shutdowns,
//! failing connections.

use super::model::{Model, What};
use super::openings;
use crate::program::call::{
    At, Direction, Kind, Opt, PollBy, PollEvent, Polled, RecvBy, RecvFlag, SendBy, SendFlag, SetBy, Whose,
};
use crate::program::{Call, Name, Set};

/// Ends one direction or both.
pub(super) fn half_close(model: &mut Model) {
    let Some((actor, fd, id)) = model.find(|object| object.kind().is_some()) else { return };
    let how = model.random.pick(&[Direction::Write, Direction::Write, Direction::Read, Direction::Both]);
    let how = how.unwrap_or(Direction::Write);
    model.step(actor, Call::Shutdown { fd, how });
    let object = &mut model.objects[id];
    if how != Direction::Write {
        object.ended = true;
    }
    let own_reader = how != Direction::Write;
    if how != Direction::Read {
        object.shut = true;
        if let Some(peer) = object.peer {
            model.objects[peer].ended = true;
            model.wake(peer);
        }
    }
    if own_reader {
        model.wake(id);
    }
}

/// How many bytes wait.
pub(super) fn queued(model: &mut Model) {
    if let Some((actor, fd, _)) = model.find(|object| object.kind().is_some()) {
        model.step(actor, Call::Queued { fd });
    }
}

/// Sets or reads an option.
pub(super) fn options(model: &mut Model) {
    let Some((actor, fd, id)) = model.find(|object| object.kind().is_some()) else { return };
    let option: Opt = model.random.choice();
    let object = &model.objects[id];
    let value = match option {
        Opt::Linger => {
            if model.random.percent(50) {
                0
            } else {
                -1
            }
        }
        Opt::RcvLowat | Opt::Tos | Opt::Ttl | Opt::KeepIdle | Opt::KeepCount => {
            model.random.within(1, 40).cast_signed()
        }
        Opt::UserTimeout => model.random.within(10_000, 90_000).cast_signed(),
        _ => i32::from(model.random.percent(70)),
    };
    // Not set: what changes when bytes are delivered, or which of several sockets gets them.
    let only_read = matches!(
        option,
        Opt::Cork
            | Opt::NoDelay
            | Opt::ReusePort
            | Opt::Error
            | Opt::Type
            | Opt::Domain
            | Opt::Protocol
            | Opt::Accepting
            | Opt::PeerCred
            | Opt::SndBuf
            | Opt::DeferAccept
            | Opt::FastOpen
            | Opt::FastOpenConnect
    ) || option == Opt::RcvLowat && model.random.percent(70);
    let timeout = matches!(option, Opt::RcvTimeo | Opt::SndTimeo);
    if only_read || model.random.percent(45) || timeout {
        model.step(actor, Call::GetOption { fd, option });
    } else if !object.times_out {
        model.step(actor, Call::SetOption { fd, option, value });
    }
}

/// Whose address it has.
pub(super) fn addresses(model: &mut Model) {
    if let Some((actor, fd, _)) = model.find(|object| object.kind().is_some()) {
        let of: Whose = model.random.choice();
        model.step(actor, Call::Address { fd, of });
    }
}

/// Another client, and perhaps its acceptance.
pub(super) fn connect_more(model: &mut Model) {
    let Some((actor, fd, id)) =
        model.find(|object| matches!(object.what, What::Listener(..)) && !object.shut && !object.ended)
    else {
        return;
    };
    if model.objects[id].is_readable() || model.objects[id].nonblock && model.random.percent(30) {
        return openings::accept(model, actor, (fd, id));
    }
    let clients = model.idle();
    let Some(client) = model.random.pick(&clients) else { return };
    if openings::connect(model, client, id).is_some() && model.random.percent(70) {
        openings::accept(model, actor, (fd, id));
    }
}

/// `connect` where it means something else: on a connected socket, to nobody, or to another.
pub(super) fn reconnect(model: &mut Model) {
    let Some((actor, fd, id)) = model.find(|object| object.kind().is_some()) else { return };
    let kind = model.objects[id].kind();
    let names: Vec<Name> = model
        .objects
        .iter()
        .filter_map(|other| match &other.what {
            What::Listener(of, name, waiting) if Some(*of) == kind && waiting.len() < 3 => Some(*name),
            What::Dgram(of, Some(name)) if Some(*of) == kind => Some(*name),
            _ => None,
        })
        .collect();
    let Some(name) = model.random.pick(&names) else { return };
    if matches!(model.objects[id].what, What::Fresh(_)) {
        return;
    }
    model.step(actor, Call::Connect { fd, name });
    if let What::Dgram(..) = model.objects[id].what {
        let peer = model
            .objects
            .iter()
            .position(|other| matches!(other.what, What::Dgram(_, Some(of)) if of == name));
        model.objects[id].peer = peer;
    }
}

/// A connection to where nobody listens: who asks first hears of it, once.
pub(super) fn refused(model: &mut Model) {
    let Some(actor) = model.anyone() else { return };
    let kind = model
        .random
        .pick(&[Kind::Tcp4, Kind::Tcp4, Kind::Tcp6, Kind::Udp4, Kind::Udp6])
        .unwrap_or(Kind::Tcp4);
    let udp = matches!(kind, Kind::Udp4 | Kind::Udp6);
    let name = model.new_name();
    let (gone, _) = openings::socket(model, actor, kind);
    model.step(actor, Call::Bind { fd: gone, at: At::Loopback, name });
    model.step(actor, Call::Close { fd: gone });
    model.put(actor, gone, None);
    let (fd, id) = openings::socket(model, actor, kind);
    // Without a wait the error stays in the socket.
    if !udp && model.random.percent(70) && !model.objects[id].nonblock {
        model.step(actor, Call::SetNonblock { fd, on: true, by: SetBy::Fcntl });
        model.objects[id].nonblock = true;
    }
    model.step(actor, Call::Connect { fd, name });
    if udp {
        let send = Call::Send { fd, len: 9, by: SendBy::Send, flags: Set::none(), name: None, bad: false };
        model.step(actor, send);
    }
    for _ in 0..model.random.within(1, 3) {
        let call = match model.random.below(6) {
            0 | 1 => Call::GetOption { fd, option: Opt::Error },
            2 => Call::Recv {
                fd,
                len: 10,
                by: RecvBy::Recv,
                flags: Set::of(&[RecvFlag::Dontwait]),
                bad: false,
            },
            3 => Call::Connect { fd, name },
            4 => Call::Send {
                fd,
                len: 9,
                by: SendBy::Send,
                flags: Set::of(&[SendFlag::Nosignal]),
                name: None,
                bad: false,
            },
            _ => {
                let events = Set::of(&[PollEvent::In, PollEvent::Out, PollEvent::Rdhup]);
                Call::Poll { by: PollBy::Poll, set: vec![Polled { fd, events }], timeout: 0 }
            }
        };
        model.step(actor, call);
    }
}

/// A second socket at an address that has one.
pub(super) fn kept_name(model: &mut Model) {
    let Some((actor, _, id)) =
        model.find(|object| matches!(object.what, What::Listener(..) | What::Dgram(_, Some(_))))
    else {
        return;
    };
    let (What::Listener(kind, name, _) | What::Dgram(kind, Some(name))) = model.objects[id].what.clone()
    else {
        return;
    };
    let (slot, _) = openings::socket(model, actor, kind);
    model.step(actor, Call::Bind { fd: slot, at: At::Kept, name });
    if model.random.percent(50) {
        model.step(actor, Call::Address { fd: slot, of: Whose::Own });
    }
}
