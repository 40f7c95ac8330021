//! Subnet administration (SA): answers what programs ask about the fabric and its paths (InfiniBand
//! Architecture Specification, volume 1, chapter 15).

use std::time::Duration;

use mad::header::{CLASS_PORT_INFO, ClassPortInfo};
use mad::sa::{self, DATA_AT, attribute};
use mad::sm::SmInfo;
use mad::values::{Method, Status};
use mad::{Layout, Lid, Mad, Received};
use topology::routing::Tables;

use crate::model::Model;
use registry::Registry;

pub(crate) mod groups;
mod matching;
mod paths;
mod records;
pub(crate) mod registry;
mod services;
pub(crate) mod subscriptions;
pub(crate) mod transfers;

/// Class-specific statuses (15.2.4, table "SA class-specific status encodings").
pub(crate) mod status {
    use mad::values::Status;

    /// The answer would take more than there is.
    pub(crate) const NO_RESOURCES: Status = Status(0x0100);
    /// A field is asked for that is not compared here.
    pub(crate) const INVALID: Status = Status(0x0200);
    /// Nothing fits.
    pub(crate) const NO_RECORDS: Status = Status(0x0300);
    /// One was asked for, and several fit.
    pub(crate) const TOO_MANY: Status = Status(0x0400);
    /// A GID is none of this subnet.
    pub(crate) const INVALID_GID: Status = Status(0x0500);
    /// Fields are missing that a request of this kind needs.
    pub(crate) const INSUFFICIENT: Status = Status(0x0600);
    /// Busy: ask again later.
    pub(crate) const BUSY: Status = Status(1);
}

/// Of the capability mask (15.2.5.2): multicast groups.
const IS_MULTICAST: u16 = 1 << 9;
/// Bytes of the largest table that is answered.
const MOST_BYTES: usize = 16 << 20;

/// What is known, and asked about.
pub(crate) struct View<'a> {
    pub(crate) model: &'a Model,
    /// What the switches hold.
    pub(crate) tables: &'a Tables,
    /// This manager and others, with the LIDs of their ports.
    pub(crate) managers: &'a [(Lid, SmInfo)],
    /// By which those who ask are trusted.
    pub(crate) key: u64,
    /// By the transport's clock.
    pub(crate) now: Duration,
}

impl View<'_> {
    /// Has who asks the key of the manager (SM_Key)?
    pub(crate) fn trusts(&self, request: &Mad) -> bool {
        self.key == 0 || sa::header(request).key() == self.key
    }
}

/// Records of one kind, side by side, each in whole units of eight bytes.
#[derive(Debug, Default)]
pub(crate) struct Records {
    pub(crate) bytes: Vec<u8>,
    /// Of one record, in units of eight bytes.
    pub(crate) size: u16,
    pub(crate) count: usize,
}

impl Records {
    fn add<T: Layout>(&mut self, record: &T) -> Result<(), Status> {
        let len = T::LEN.next_multiple_of(8);
        if self.bytes.len() + len > MOST_BYTES {
            return Err(status::NO_RESOURCES);
        }
        self.size = (len / 8) as u16;
        self.count += 1;
        self.bytes.extend_from_slice(record.as_bytes());
        self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
        Ok(())
    }
}

/// The answer to a request.
#[derive(Debug)]
pub(crate) enum Answer {
    /// One datagram.
    One(Box<Mad>),
    /// A table, whose segments have this header.
    Table(Box<Mad>, Vec<u8>),
}

/// The method of the response to a request.
pub(crate) fn responding(method: Method) -> Method {
    if method == Method::SET { Method::GET_RESPONSE } else { Method(method.0 | 0x80) }
}

/// Answers a request: Get of one record, GetTable, and Set or Delete of what ports register.
pub(crate) fn answer(view: &View<'_>, registry: &mut Registry, received: &Received) -> Answer {
    // Whichever of its LIDs a port sends from: what it registers is the port's.
    let base = view.model.lids.port(received.from.lid.0).and_then(|port| view.model.lids.base(port));
    let lid = base.map_or(received.from.lid, Lid);
    let received = &Received { from: mad::Address { lid, ..received.from }, ..*received };
    let request = &received.mad;
    let header = request.header();
    let is_table = header.method() == Method::GET_TABLE;
    let mut response = *request;
    response.header_mut().set_method(responding(header.method()));
    response.0[DATA_AT..].fill(0);
    let refused = |status: Status| {
        let mut response = response;
        response.header_mut().set_status(status);
        Answer::One(Box::new(response))
    };
    if header.class_version() != 2 || header.base_version() != 1 {
        return refused(Status::BAD_VERSION);
    }
    if header.attribute() == CLASS_PORT_INFO && header.method() == Method::GET {
        let mut info = ClassPortInfo::default();
        info.set_base_version(1).set_class_version(2).set_response_time(18);
        info.set_capability_mask(IS_MULTICAST);
        *response.at_mut::<DATA_AT, _>() = info;
        return Answer::One(Box::new(response));
    }
    if matches!(header.method(), Method::SET | Method::DELETE) {
        return match registry.change(view, received) {
            Ok(record) => {
                response.0[DATA_AT..DATA_AT + record.len()].copy_from_slice(&record);
                Answer::One(Box::new(response))
            }
            Err(status) => refused(status),
        };
    }
    if !matches!(header.method(), Method::GET | Method::GET_TABLE) {
        return refused(Status::ATTRIBUTE_NOT_SUPPORTED);
    }
    let records = match header.attribute() {
        attribute::NODE => records::nodes(view, request),
        attribute::PORT_INFO => records::ports(view, request),
        attribute::SWITCH_INFO => records::switches(view, request),
        attribute::LINEAR_TABLE => records::tables(view, request),
        attribute::LINK => records::links(view, request),
        attribute::SM_INFO => records::managers(view, request),
        attribute::PATH => paths::paths(view, request),
        attribute::MULTICAST_TABLE => records::multicast_tables(view, registry, request),
        attribute::GROUP_MEMBER => registry.groups.records(request, view.trusts(request)),
        attribute::SERVICE => registry.services.records(request, view.trusts(request), view.now),
        attribute::INFORM_INFO_RECORD => registry.subscriptions.records(received, view.trusts(request)),
        _ => Err(Status::ATTRIBUTE_NOT_SUPPORTED),
    };
    let records = match records {
        Ok(records) => records,
        Err(status) => return refused(status),
    };
    if is_table {
        sa::header_mut(&mut response).set_record_size(records.size);
        return Answer::Table(Box::new(response), records.bytes);
    }
    match records.count {
        0 => refused(status::NO_RECORDS),
        1 => {
            sa::header_mut(&mut response).set_record_size(records.size);
            response.0[DATA_AT..DATA_AT + records.bytes.len()].copy_from_slice(&records.bytes);
            Answer::One(Box::new(response))
        }
        _ => refused(status::TOO_MANY),
    }
}
