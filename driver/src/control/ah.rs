//! Creating and destroying address handles.

use e810_cqp::hmc::Object as HmcObject;
use e810_cqp::op::{AddressHandle, CreateAh, DestroyAh};
use e810_hal::Platform;

use super::{Control, run, run_again};
use crate::addr::Path;
use crate::ah::Ah;
use crate::error::{Error, Object, Result};
use crate::pd::Pd;

impl<P: Platform> Control<P> {
    /// Makes an address handle in a protection domain: queue pairs of the same domain can send
    /// datagrams to it.
    ///
    /// # Errors
    /// Inconsistent path attributes, no GID of that index, no handle or ARP entry left, or the
    /// device's refusal. Nothing is left behind, unless the device did not answer.
    #[doc(alias = "ibv_create_ah")]
    pub fn create_ah(&mut self, pd: &Pd, path: &Path) -> Result<Ah> {
        self.own(pd.owner, Object::Pd, pd.id)?;
        let (route, target) = self.take_route(path)?;
        let Some(index) = self.ahs.take() else {
            // The first error says more than one that undoing may add.
            let _ = self.give_route(route);
            return Err(Error::Exhausted {
                object: Object::Ah,
                limit: self.ahs.capacity(),
            });
        };
        let handle = AddressHandle {
            index,
            pd: pd.id,
            source_mac: self.lan.mac,
            addresses: target.addresses,
            arp_index: route.arp,
            hop_limit: target.hop_limit,
            traffic_class: path.traffic_class,
            flow_label: path.flow_label,
            vlan: target.vlan,
            loopback: target.loopback,
        };
        if let Err(error) = self.ensure(HmcObject::FsiAv, index) {
            // Whether that worked or not: no command has named the index.
            self.ahs.give(index);
            let _ = self.give_route(route);
            return Err(error);
        }
        // The return value is not looked at, as drivers that wait do not
        // (control-path 4.14).
        if let Err(error) = run(&mut self.cqp, &CreateAh(handle)) {
            self.ahs.give_unless_open(index, &error);
            if !error.leaves_command_open() {
                let _ = self.give_route(route);
            }
            return Err(error);
        }
        self.pd_users.inc(pd.id);
        Ok(Ah {
            owner: self.tag(),
            path: *path,
            made: handle,
            route,
        })
    }

    /// Destroys an address handle. Sends that name it must be completed: if a send names a handle
    /// that no longer exists, the device reports an error of the queue pair.
    ///
    /// # Errors
    /// [`Error::Foreign`], or the device's refusal; the handle is returned.
    #[doc(alias = "ibv_destroy_ah")]
    pub fn destroy_ah(&mut self, ah: Ah) -> Result<(), (Ah, Error)> {
        if let Err(error) = self.own(ah.owner, Object::Ah, ah.number()) {
            return Err((ah, error));
        }
        let number = ah.number().into();
        if let Err(error) = run_again(&mut self.cqp, &DestroyAh(ah.made), number) {
            return Err((ah, error));
        }
        self.ahs.give(ah.number());
        self.pd_users.dec(ah.made.pd);
        if let Err(error) = self.give_route(ah.route) {
            e810_hal::log_warn!(
                "address handle {} left an ARP entry behind: {}",
                ah.number(),
                error
            );
        }
        Ok(())
    }
}
