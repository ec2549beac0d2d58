//! What each queue pair owes: requests that were posted and neither completed nor dropped.

use std::collections::HashMap;

use e810::{DroppedWrs, Wc, WcOpcode};

/// Sends and receives owed, by the queue pair's number.
#[derive(Debug, Default)]
pub(super) struct Books {
    owed: HashMap<u32, [i64; 2]>,
    pub(super) wrong: Vec<String>,
}

impl Books {
    pub(super) fn open(&mut self, qp: u32) {
        self.owed.insert(qp, [0, 0]);
    }

    /// What became of its requests is not known.
    pub(super) fn close(&mut self, qp: u32) {
        self.owed.remove(&qp);
    }

    pub(super) fn posted(&mut self, qp: u32, sends: i64, receives: i64) {
        if let Some([all_sends, all_receives]) = self.owed.get_mut(&qp) {
            *all_sends += sends;
            *all_receives += receives;
        }
    }

    pub(super) fn completed(&mut self, wc: &Wc) {
        let is_receive = wc.opcode == WcOpcode::Recv;
        self.posted(wc.qp_num, -i64::from(!is_receive), -i64::from(is_receive));
        let owed = self.owed.get(&wc.qp_num).copied().unwrap_or_default();
        if owed.iter().any(|count| *count < 0) {
            self.wrong
                .push(format!("too many completions of {}", wc.qp_num));
        }
    }

    /// All that it owed was dropped.
    pub(super) fn dropped(&mut self, qp: u32, dropped: DroppedWrs) {
        let counted: [i64; 2] = [dropped.sends.into(), dropped.receives.into()];
        if let Some(owed) = self.owed.remove(&qp).filter(|owed| *owed != counted) {
            self.wrong
                .push(format!("{qp} owed {owed:?} and dropped {dropped:?}"));
        }
    }

    /// It has had time to complete all.
    pub(super) fn settled(&mut self, qp: u32) {
        if let Some(owed) = self.owed.get(&qp).filter(|owed| **owed != [0, 0]) {
            self.wrong.push(format!("{qp} is in ERR and owes {owed:?}"));
        }
    }
}
