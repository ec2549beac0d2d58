//! Register and configuration accesses over the socket.

use std::sync::Arc;

use e810_hal::{Bus, RegOffset};
use vfio_bindings::bindings::vfio::VFIO_PCI_BAR0_REGION_INDEX;
use zerocopy::IntoBytes;

use super::connection::Connection;
use super::protocol::{Command, RegionAccess};
use super::short;
use crate::error::BackendError;

/// BAR0 over the socket. A read is a round trip; writes are posted, as on PCI Express: a later
/// read, or any other question, comes after them.
#[derive(Clone, Debug)]
pub struct SocketRegisters(pub(super) Arc<Connection>);

impl Connection {
    pub(super) fn access(
        &self,
        region: u32,
        offset: u64,
        into: &mut [u8],
    ) -> Result<(), BackendError> {
        /// Longest access: configuration space is read in words.
        const MOST: usize = 8;
        let head = RegionAccess {
            offset,
            region,
            count: into.len() as u32,
        };
        const HEAD: usize = size_of::<RegionAccess>();
        let mut answer = [0; HEAD + MOST];
        let want = HEAD + into.len().min(MOST);
        let answer = answer.get_mut(..want).unwrap_or_default();
        let length = self.request(Command::RegionRead, head.as_bytes(), &[], answer)?;
        if length != HEAD + into.len() {
            return Err(short(self, Command::RegionRead, length));
        }
        for (to, from) in into.iter_mut().zip(answer.get(HEAD..).unwrap_or_default()) {
            *to = *from;
        }
        Ok(())
    }

    pub(super) fn write_body(region: u32, offset: u64, from: &[u8]) -> ([u8; 24], usize) {
        const HEAD: usize = size_of::<RegionAccess>();
        let head = RegionAccess {
            offset,
            region,
            count: from.len() as u32,
        };
        let mut body = [0; HEAD + 8];
        let all = head.as_bytes().iter().chain(from);
        let mut length = 0;
        for (to, from) in body.iter_mut().zip(all) {
            *to = *from;
            length += 1;
        }
        (body, length)
    }
}

impl Bus for SocketRegisters {
    fn read32(&self, off: RegOffset) -> u32 {
        let mut bytes = [0; 4];
        let done = self
            .0
            .access(VFIO_PCI_BAR0_REGION_INDEX, off.get().into(), &mut bytes);
        match done {
            Ok(()) => u32::from_le_bytes(bytes),
            Err(error) => {
                self.0.fail(error);
                u32::MAX
            }
        }
    }

    fn write32(&self, off: RegOffset, value: u32) {
        let (body, length) = Connection::write_body(
            VFIO_PCI_BAR0_REGION_INDEX,
            off.get().into(),
            &value.to_le_bytes(),
        );
        let body = body.get(..length).unwrap_or_default();
        if let Err(error) = self.0.post(Command::RegionWrite, body) {
            self.0.fail(error);
        }
    }
}
