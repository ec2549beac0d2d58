//! QUERY_RDMA_FEATURES (control-path 4.15).

use e810_hal::Iova;

use super::{Command, HEADER, Wqe, header};
use crate::error::Result;
use crate::field::aligned;
use crate::opcode::Opcode;

/// QUERY_RDMA_FEATURES: the device writes its feature list
/// ([`Features`](crate::hmc::Features)).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueryFeatures {
    /// Buffer, 16-aligned.
    pub buffer: Iova,
    /// Its length in bytes.
    pub bytes: u32,
}

impl Command for QueryFeatures {
    fn encode(&self) -> Result<Wqe> {
        let mut wqe = Wqe::default();
        let [_, _, _, _, q32, ..] = &mut wqe;
        *q32 = aligned("feature buffer", self.buffer, 16)?;
        wqe[HEADER] = header(Opcode::QueryRdmaFeatures, u64::from(self.bytes));
        Ok(wqe)
    }
}
