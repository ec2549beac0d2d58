//! A simulated function with the library on it.

use std::cell::RefCell;
use std::net::Ipv4Addr;
use std::rc::Rc;

use e810_hal::regs::{DB_CQ_ARM, DB_WQE_ALLOC};
use e810_sim::SimPlatform;

use super::Simulated;
use crate::library::{Library, NotRun};
use crate::opened::{Domain, Opened};

/// The library open on a function, and the harness that carries its doorbells
/// to the device.
pub struct Node {
    /// The function.
    pub nic: SimPlatform,
    pub kernel: Rc<RefCell<Simulated>>,
    /// The library on it.
    pub opened: Opened,
    pub pd: Domain,
}

impl Node {
    /// Brings the function up and opens it.
    ///
    /// # Errors
    /// Whatever failed.
    pub fn new(library: &Library, nic: SimPlatform, ip: Ipv4Addr) -> Result<Self, NotRun> {
        let kernel = Simulated::new(nic.clone(), ip)
            .map_err(|error| NotRun::NotLoaded(error.to_string()))?;
        let kernel = Rc::new(RefCell::new(kernel));
        let opened = library.open(kernel.clone())?;
        let pd = opened
            .alloc_pd()
            .map_err(|error| NotRun::NotLoaded(error.to_string()))?;
        Ok(Self {
            nic,
            kernel,
            opened,
            pd,
        })
    }

    /// Carries what the library rang to the device's doorbell page: the library's
    /// own page is plain memory. Says whether anything was rung.
    pub fn carry(&self) -> bool {
        let doorbells = self.opened.doorbells();
        let send = doorbells.take_send();
        if let Some(qp) = send {
            DB_WQE_ALLOC.set(&self.nic, qp);
        }
        let arm = doorbells.take_arm();
        if let Some(cq) = arm {
            DB_CQ_ARM.set(&self.nic, cq);
        }
        send.is_some() || arm.is_some()
    }
}
