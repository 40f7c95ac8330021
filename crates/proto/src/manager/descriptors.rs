//! Descriptor tokens: each is owned once and returned once, and received descriptors match the
//! announced ones.

use std::collections::BTreeSet;

use super::{Descriptor, DescriptorKind, FdToken, Manager, Output};
use crate::wire::program::Refusal;

/// The tokens that this manager has and has not yet given back.
#[derive(Debug, Default)]
pub(super) struct Ledger(BTreeSet<FdToken>);

impl Ledger {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &FdToken> {
        self.0.iter()
    }
}

impl Manager {
    /// Takes what came with a message.
    pub(super) fn adopt(&mut self, descriptors: &[Descriptor]) {
        self.tokens.0.extend(descriptors.iter().map(|descriptor| descriptor.token));
    }

    /// Gives a descriptor back; a second time does nothing.
    pub(super) fn close_token(&mut self, token: FdToken) {
        if self.tokens.0.remove(&token) {
            self.out.push_back(Output::CloseDescriptor { token });
        }
    }

    pub(super) fn close_tokens(&mut self, descriptors: &[Descriptor]) {
        for descriptor in descriptors {
            self.close_token(descriptor.token);
        }
    }

    /// Everything that is left (at the end).
    pub(super) fn close_all_tokens(&mut self) {
        for token in std::mem::take(&mut self.tokens.0) {
            self.out.push_back(Output::CloseDescriptor { token });
        }
    }
}

/// Whether another process could take its pages away from those that have mapped it.
pub(super) fn is_huge(descriptor: &Descriptor) -> bool {
    matches!(descriptor.kind, DescriptorKind::HugeMemory { .. })
}

/// A memory whose size no process can change, of at least `size_bytes`.
pub(super) fn sealed_memory(
    descriptor: &Descriptor,
    what: &str,
    wanted_bytes: u64,
    read_only: bool,
) -> Result<FdToken, Refusal> {
    let (size_bytes, size_sealed, write_sealed) = match descriptor.kind {
        DescriptorKind::Memory { size_bytes, size_sealed, write_sealed } => {
            (size_bytes, size_sealed, write_sealed)
        }
        DescriptorKind::HugeMemory { size_bytes, size_sealed } if !read_only => {
            (size_bytes, size_sealed, false)
        }
        DescriptorKind::Unseen => return Err(Refusal::NoDescriptors { limit: None }),
        _ => {
            return Err(Refusal::Invalid(format!(
                "the descriptor of {what} is not a memfd: create it with memfd_create"
            )));
        }
    };
    if !size_sealed {
        return Err(Refusal::Invalid(format!(
            "the memory of {what} can still be resized: seal it with F_SEAL_SHRINK and F_SEAL_GROW"
        )));
    }
    if size_bytes < wanted_bytes {
        return Err(Refusal::Invalid(format!(
            "the memory of {what} has {size_bytes} bytes, {wanted_bytes} were announced"
        )));
    }
    if read_only && !write_sealed {
        return Err(Refusal::Invalid(format!(
            "the memory of {what} can still be mapped for writing: seal it with F_SEAL_FUTURE_WRITE"
        )));
    }
    Ok(descriptor.token)
}

/// The two regions of an interrupt, and its sending side if it is pollable.
pub(super) fn interrupt_parts(
    descriptors: &[Descriptor],
    what: &str,
    pollable: bool,
) -> Result<(FdToken, FdToken, Option<FdToken>), Refusal> {
    if descriptors.iter().any(is_huge) {
        return Err(Refusal::Invalid(format!("the regions of {what} must not consist of huge pages")));
    }
    let (trigger, waiter, event) = match (descriptors, pollable) {
        ([trigger, waiter], false) => (trigger, waiter, None),
        ([trigger, waiter, event], true) => (trigger, waiter, Some(event)),
        _ => return Err(missing(what, if pollable { 3 } else { 2 }, descriptors.len())),
    };
    let trigger = sealed_memory(trigger, &format!("the trigger region of {what}"), 1, false)?;
    let waiter = sealed_memory(waiter, &format!("the waiter region of {what}"), 1, true)?;
    let event = event.map(|event| interrupt_socket(event, what)).transpose()?;
    Ok((trigger, waiter, event))
}

/// One side of a pollable interrupt.
pub(super) fn interrupt_socket(socket: &Descriptor, what: &str) -> Result<FdToken, Refusal> {
    match socket.kind {
        DescriptorKind::Event => Ok(socket.token),
        DescriptorKind::Unseen => Err(Refusal::NoDescriptors { limit: None }),
        _ => Err(Refusal::Invalid(format!(
            "the socket of {what} is not there: see the log of its node's manager"
        ))),
    }
}

/// Fewer descriptors than the message promises.
pub(super) fn missing(what: &str, wanted: usize, came: usize) -> Refusal {
    Refusal::Invalid(format!(
        "{what} needs {wanted} descriptor(s) and {came} arrived: either they were not sent, or the receiver's limit of open \
         files is reached (see `ulimit -n`)"
    ))
}
