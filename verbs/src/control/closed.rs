//! The control path of a closed context, or of a function that is gone and has no context left. It
//! replaces the function's own control path, which is dropped.

use std::sync::Arc;

use super::{Answer, Command, ControlPlane, Refused};
use crate::control::EventSink;
use crate::rings::{DataPathOps, RingMaker};

/// Refuses every question; what is to be destroyed is gone already.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Closed(pub(crate) &'static DataPathOps);

fn gone() -> Refused {
    Refused::gone("the function is gone")
}

impl ControlPlane for Closed {
    fn call(&self, command: Command) -> Result<Answer, Refused> {
        match command {
            Command::DeallocPd(_) => Ok(Answer::DeallocPd(())),
            Command::DeregMr(_) => Ok(Answer::DeregMr(())),
            Command::DestroyAh(_) => Ok(Answer::DestroyAh(())),
            _ => Err(gone()),
        }
    }

    fn listen(&self, _: &Arc<dyn EventSink>) {}

    fn rings(&self) -> Result<Arc<dyn RingMaker>, Refused> {
        Err(gone())
    }

    fn data_path(&self) -> &'static DataPathOps {
        self.0
    }
}
