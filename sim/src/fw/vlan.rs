//! Single and double VLAN mode (0x020C, 0x020D; control-path 9.10).

use super::descriptor::{Answer, Command};
use super::layout::{put, u8_at};
use super::{AqCode, Cx};

const LEN: usize = 100;
/// Priority tagging by the outer tag: double VLAN mode.
const OUTER: u8 = 2;

/// What was set last.
#[derive(Debug, Default)]
pub(super) struct VlanMode {
    tagging: u8,
}

impl VlanMode {
    /// Double VLAN mode.
    pub(super) fn is_double(&self) -> bool {
        self.tagging == OUTER
    }
}

impl Cx<'_, '_> {
    /// 0x020C: only during the package download, by the function that downloads
    /// (`ice/ice_vlan_mode.c`) `[inf]`.
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
        self.card.vlan.tagging = tagging;
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
