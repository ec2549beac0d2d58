//! Single and double VLAN mode (0x020C, 0x020D; control-path 9.10).

use super::descriptor::{Answer, Command};
use super::layout::{put, u8_at};
use super::{AqCode, Cx};
use crate::findings::kind;

const LEN: usize = 100;
/// Priority tagging by the outer tag: double VLAN mode.
const OUTER: u8 = 2;

/// Values that belong to a tagging: rdma_packet and mng_vlan_prot_id.
const WITH: [(u8, [u8; 2]); 2] = [(OUTER, [0x1a, 0x10]), (4, [0x10, 0x11])];

/// The mode set last.
#[derive(Debug, Default)]
pub(super) struct VlanMode {
    tagging: u8,
    /// The mode was set, and the ports' mode has not been compared since.
    is_new: bool,
    /// The double-VLAN flag of 0x0203.
    ports: Option<bool>,
}

impl VlanMode {
    /// Double VLAN mode.
    pub(super) fn is_double(&self) -> bool {
        self.tagging == OUTER
    }

    /// 0x0203 was sent.
    pub(super) fn set_ports(&mut self, is_double: bool) {
        self.ports = Some(is_double);
    }

    /// The download is over: whether 0x020C and 0x0203 set different modes.
    pub(super) fn disagrees(&mut self) -> bool {
        std::mem::take(&mut self.is_new) && self.ports != Some(self.is_double())
    }
}

impl Cx<'_, '_> {
    /// 0x020C: only during the package download, by the downloading function
    /// (`ice/ice_vlan_mode.c`) `[inf vlan_mode_lock]`.
    pub(super) fn set_vlan_mode(&mut self, command: &Command) -> Answer {
        let data = command.input(LEN)?.to_vec();
        let (pf, now) = (self.pf(), self.now());
        if !self.card.locks.is_held(super::locks::GLOBAL, pf, now) {
            return Err(AqCode::EPERM);
        }
        let tagging = u8_at(&data, 1) & 7;
        if tagging > 4 {
            return Err(AqCode::EINVAL);
        }
        let parts = [u8_at(&data, 66), u8_at(&data, 69)];
        let mut with = WITH.iter();
        if with.any(|(of, right)| *of == tagging && *right != parts) {
            let text = format!(
                "VLAN mode: tagging {tagging} with rdma_packet and mng_vlan_prot_id {parts:#x?}"
            );
            self.env.found(kind::ADMINQ_BITS, text);
        }
        (self.card.vlan.tagging, self.card.vlan.is_new) = (tagging, true);
        command.answer(data)
    }

    /// 0x020D.
    pub(super) fn get_vlan_mode(&mut self, command: &Command) -> Answer {
        let tagging = self.card.vlan.tagging;
        let mut data = vec![0; LEN];
        put(&mut data, 0, &[u8::from(tagging == OUTER), tagging]);
        command.answer(data)
    }
}
