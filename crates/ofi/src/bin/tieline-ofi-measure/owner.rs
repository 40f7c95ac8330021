//! What the owner of a link over rails needs so that the other end goes on without one of them.

use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use ofi::{Bell, Endpoint, EndpointCard, Exported, Fence, Opened, OwnerRails, Peer, Task};
use shm::region::Region;

use crate::Fallible;

/// What the owner has of a rail.
struct Rail {
    end_point: Endpoint,
    peer: Peer,
    exported: Exported,
    bell: Bell,
}

type Control = Arc<OnceLock<OwnerRails>>;

/// See the module.
pub(crate) struct Owner {
    /// They are asked about the rails, each at its end point.
    pub(crate) bells: Vec<Bell>,
    control: Control,
}

impl Owner {
    /// Before anything is known of the other end.
    pub(crate) fn new(end_points: &[Endpoint]) -> Fallible<Self> {
        let control = Control::default();
        let bells = end_points.iter().map(|end_point| bell_at(end_point, &control));
        Ok(Self { bells: bells.collect::<Fallible<_>>()?, control })
    }

    /// From now on rails after the `first` are closed and opened as the other end asks. `open` makes an end
    /// point of a rail.
    pub(crate) fn serve(
        &mut self,
        first: Fence,
        rails: Vec<(Endpoint, Peer, Exported)>,
        region: &Arc<Region>,
        open: impl Fn(usize) -> Fallible<Endpoint> + Send + 'static,
    ) {
        let others = rails.iter().map(|(_, peer, _)| peer.fence());
        let fences = std::iter::once(first).chain(others).collect();
        let (begin, tasks) = channel();
        let _ = self.control.set(OwnerRails::new(fences, move |task| drop(begin.send(task))));
        // The first one is neither closed nor opened again.
        let others = rails.into_iter().zip(self.bells.split_off(1));
        let others =
            others.map(|((end_point, peer, exported), bell)| Rail { end_point, peer, exported, bell });
        let rails = std::iter::once(None).chain(others.map(Some)).collect();
        let (control, region) = (Arc::clone(&self.control), Arc::clone(region));
        std::thread::spawn(move || carry_out(&tasks, &Mutex::new(rails), &control, &region, open));
    }
}

fn carry_out(
    tasks: &Receiver<Task>,
    rails: &Mutex<Vec<Option<Rail>>>,
    control: &Control,
    region: &Arc<Region>,
    open: impl Fn(usize) -> Fallible<Endpoint>,
) {
    for task in tasks {
        let mut rails = rails.lock().unwrap_or_else(PoisonError::into_inner);
        match task {
            Task::Close { rail } => drop(rails.get_mut(rail).and_then(Option::take)),
            Task::Open { rail, generation, session, end_point } => {
                let opened = rail_of((rail, session, &end_point), region, control, &open).ok();
                let said = opened.as_ref().and_then(|rail| {
                    Some(Opened {
                        end_point: rail.end_point.card().ok()?,
                        memory: Some(rail.exported.card().clone()),
                        fence: rail.peer.fence(),
                        bell: rail.bell.id(),
                    })
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

/// A doorbell that answers questions about the rails.
fn bell_at(end_point: &Endpoint, control: &Control) -> Fallible<Bell> {
    let asked = Arc::clone(control);
    let answer =
        move |question: &[u8]| asked.get().map(|control| control.answer(question)).unwrap_or_default();
    Ok(end_point.bell_answering(answer)?)
}

fn rail_of(
    (rail, session, importer): (usize, u64, &EndpointCard),
    region: &Arc<Region>,
    control: &Control,
    open: impl Fn(usize) -> Fallible<Endpoint>,
) -> Fallible<Rail> {
    let end_point = open(rail)?;
    let exported = end_point.export(region)?;
    let peer = end_point.connect("the importer", importer, session)?;
    let bell = bell_at(&end_point, control)?;
    Ok(Rail { end_point, peer, exported, bell })
}
