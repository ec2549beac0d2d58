//! Objects on rings that no control path has made, for benches of the functions that a program
//! calls for each message; and the process's simulators, for tests of what they found.

use std::sync::{Mutex, PoisonError};

use e810::{CqRing, Platform, QpRecv, QpSend};
use e810_sim::Sim;

use crate::abi::objects::{Cq, Qp};
use crate::cq::CqObject;
use crate::qp::QpObject;
use crate::rings::{DataPathOps, PlatformCqRings, PlatformQpRings};

static SIMULATORS: Mutex<Vec<Sim>> = Mutex::new(Vec::new());

pub(crate) fn enter_simulator(simulator: &Sim) {
    let mut all = SIMULATORS.lock().unwrap_or_else(PoisonError::into_inner);
    all.push(simulator.clone());
}

/// The simulators of the process's functions, in the order in which they were opened.
#[must_use]
pub fn simulators() -> Vec<Sim> {
    let all = SIMULATORS.lock().unwrap_or_else(PoisonError::into_inner);
    all.clone()
}

/// The functions for objects on a platform.
#[must_use]
pub const fn data_path<P: Platform>() -> &'static DataPathOps {
    DataPathOps::of::<P>()
}

/// A queue pair on these queues; it is never destroyed, and has no context.
pub fn qp_on<P>(send: QpSend<P>, recv: QpRecv<P>) -> *mut Qp
where
    P: Platform + Send + Sync + 'static,
    PlatformQpRings<P>: Send + Sync,
    QpSend<P>: Send,
    QpRecv<P>: Send,
{
    QpObject::on(Box::new(PlatformQpRings::new(send, recv, false)))
}

pub fn cq_on<P>(ring: CqRing<P>) -> *mut Cq
where
    P: Platform + Send + Sync + 'static,
    CqRing<P>: Send,
{
    CqObject::on(Box::new(PlatformCqRings::new(ring, false)))
}
