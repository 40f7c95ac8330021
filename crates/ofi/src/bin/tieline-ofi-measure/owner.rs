//! What the owner of a link over rails needs so that the other end goes on without one of them.

use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use ofi::{Bell, Endpoint, EndpointCard, Exported, OwnerRails, Peer, Task};
use shm::region::Region;

use crate::Fallible;

/// What the owner has of a rail.
type Rail = Option<(Endpoint, Peer, Exported)>;

/// See the module.
pub(crate) struct Owner {
    /// It is asked about the rails.
    pub(crate) bell: Bell,
    control: Arc<OnceLock<OwnerRails>>,
}

impl Owner {
    /// Before anything is known of the other end.
    pub(crate) fn new(first: &Endpoint) -> Fallible<Self> {
        let control: Arc<OnceLock<OwnerRails>> = Arc::default();
        let asked = Arc::clone(&control);
        let answer =
            move |question: &[u8]| asked.get().map(|control| control.answer(question)).unwrap_or_default();
        Ok(Self { bell: first.bell_answering(answer)?, control })
    }

    /// From now on rails after the first are closed and opened as the other end asks. `open` makes an end point of a rail.
    pub(crate) fn serve(
        &self,
        rails: Vec<(Endpoint, Peer, Exported)>,
        region: &Arc<Region>,
        open: impl Fn(usize) -> Fallible<Endpoint> + Send + 'static,
    ) {
        let fences = rails.iter().map(|(_, peer, _)| peer.fence()).collect();
        let (begin, tasks) = channel();
        let _ = self.control.set(OwnerRails::new(fences, move |task| drop(begin.send(task))));
        // The first one is neither closed nor opened again.
        let rails: Vec<Rail> = std::iter::once(None).chain(rails.into_iter().map(Some)).collect();
        let (control, region) = (Arc::clone(&self.control), Arc::clone(region));
        std::thread::spawn(move || carry_out(&tasks, &Mutex::new(rails), &control, &region, open));
    }
}

fn carry_out(
    tasks: &Receiver<Task>,
    rails: &Mutex<Vec<Rail>>,
    control: &OnceLock<OwnerRails>,
    region: &Arc<Region>,
    open: impl Fn(usize) -> Fallible<Endpoint>,
) {
    for task in tasks {
        let mut rails = rails.lock().unwrap_or_else(PoisonError::into_inner);
        match task {
            Task::Close { rail } => drop(rails.get_mut(rail).and_then(Option::take)),
            Task::Open { rail, generation, session, end_point } => {
                let opened = rail_of(rail, session, &end_point, region, &open).ok();
                let said = opened.as_ref().and_then(|(end_point, peer, exported)| {
                    Some((end_point.card().ok()?, exported.card().clone(), peer.fence()))
                });
                if let Some(place) = rails.get_mut(rail) {
                    *place = opened;
                }
                if let Some(control) = control.get() {
                    control.opened(rail, generation, said);
                }
            }
        }
    }
}

fn rail_of(
    rail: usize,
    session: u64,
    importer: &EndpointCard,
    region: &Arc<Region>,
    open: impl Fn(usize) -> Fallible<Endpoint>,
) -> Fallible<(Endpoint, Peer, Exported)> {
    let end_point = open(rail)?;
    let exported = end_point.export(region)?;
    let peer = end_point.connect("the importer", importer, session)?;
    Ok((end_point, peer, exported))
}
