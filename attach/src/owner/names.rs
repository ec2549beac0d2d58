//! What events call completion queues and queue pairs.

use std::collections::HashMap;

use e810::CqKey;

use super::ProgramId;
use crate::messages::Token;

/// By the number of each.
#[derive(Debug, Default)]
pub(super) struct Names {
    pub(super) cqs: HashMap<u32, CqName>,
    pub(super) qps: HashMap<u32, QpName>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct CqName {
    pub(super) program: ProgramId,
    pub(super) token: Token,
    /// If the program polls it with slots of its own.
    pub(super) elsewhere: Option<CqKey>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct QpName {
    pub(super) program: ProgramId,
    pub(super) token: Token,
}

impl Names {
    /// A program is gone.
    pub(super) fn forget(&mut self, program: ProgramId) {
        self.cqs.retain(|_, name| name.program != program);
        self.qps.retain(|_, name| name.program != program);
    }
}
