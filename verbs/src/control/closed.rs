//! The control path of what is closed: a context, or a function that is gone and that no context is
//! left of. It lets the function's own go.

use std::sync::Arc;

use super::{Answer, Command, ControlPlane, Refused};
use crate::events::EventSink;
use crate::rings::DataPathOps;

/// Nothing can be asked, and what is to be destroyed is gone already.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Closed(pub(crate) &'static DataPathOps);

impl ControlPlane for Closed {
    fn call(&self, command: Command) -> Result<Answer, Refused> {
        match command {
            Command::DeallocPd(_) | Command::DeregMr(_) | Command::DestroyAh(_) => Ok(Answer::Done),
            _ => Err(Refused::Gone("the function is gone".to_owned())),
        }
    }

    fn listen(&self, _: &Arc<dyn EventSink>) {}

    fn data_path(&self) -> &'static DataPathOps {
        self.0
    }
}
