//! 0x0C40 Download Package and 0x0C43 Get Package Info List (control-path
//! 9.10).

use heapless::Vec;

use super::{Command, Data};
use crate::answer::Answer;
use crate::bytes::{byte, le32, put};
use crate::error::Result;
use crate::opcode::Opcode;
use crate::package::Version;

/// Parameters of 0x0C40 for one buffer of a package; `last` ends a download.
#[must_use]
pub fn download(last: bool) -> [u8; 16] {
    let mut params = [0; 16];
    put(&mut params, 0, [u8::from(last)]);
    params
}

/// Where the firmware found something wrong in a buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct DownloadFailure {
    /// Offset in the buffer.
    pub offset: u32,
    /// The firmware's detail.
    pub detail: u32,
}

impl DownloadFailure {
    /// From the buffer of a refusal; zeros when it carries nothing.
    #[must_use]
    pub fn decode(answer: &Answer<'_>) -> Self {
        let mut bytes = [0; 8];
        answer.copy(0, &mut bytes);
        Self {
            offset: le32(&bytes, 0),
            detail: le32(&bytes, 4),
        }
    }
}

/// Packages listed at most (`ICE_PKG_CNT`).
const PACKAGES: usize = 4;
/// Bytes of a package in the list.
const ENTRY_BYTES: usize = 40;

/// Asks which packages the card has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GetPackageInfo;

/// A package of the card.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct PackageInfo {
    /// Its version.
    pub version: Version,
    /// It lies in the NVM.
    pub in_nvm: bool,
    /// The card works with it.
    pub active: bool,
}

impl Command for GetPackageInfo {
    type Reply = Vec<PackageInfo, PACKAGES>;

    fn opcode(&self) -> Opcode {
        Opcode::PACKAGE_INFO
    }

    fn data(&self) -> Data<'_> {
        Data::Receive((4 + PACKAGES * ENTRY_BYTES) as u16)
    }

    fn decode(&self, answer: &Answer<'_>) -> Result<Self::Reply> {
        let mut count = [0; 4];
        answer.fill(0, "list of packages", &mut count)?;
        let count = u32::from_le_bytes(count);
        if count as usize > PACKAGES {
            return Err(answer.bad("number of packages", count.into()));
        }
        let mut list = Vec::new();
        for number in 0..count as usize {
            let at = number.saturating_mul(ENTRY_BYTES).saturating_add(4);
            let mut entry = [0; ENTRY_BYTES];
            answer.fill(at, "list of packages", &mut entry)?;
            // At most as many as the list holds: checked above.
            let _ = list.push(PackageInfo {
                version: Version::decode(&entry, 0),
                in_nvm: byte(&entry, 36) != 0,
                active: byte(&entry, 37) != 0,
            });
        }
        Ok(list)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::testing::decode;

    #[test]
    fn packages_are_listed() {
        let mut reply = [0; 84];
        reply[0] = 2;
        reply[4..8].copy_from_slice(&[1, 0, 2, 3]);
        reply[40] = 1;
        reply[44..48].copy_from_slice(&[1, 3, 30, 0]);
        reply[81] = 1;
        let list = decode(&GetPackageInfo, [0; 16], &reply).unwrap();
        assert_eq!(list.len(), 2);
        assert!(list[0].in_nvm && !list[0].active);
        assert!(!list[1].in_nvm && list[1].active);
        assert_eq!((list[1].version.minor, list[1].version.update), (3, 30));
        reply[0] = 3;
        assert!(decode(&GetPackageInfo, [0; 16], &reply).is_err());
        assert!(decode(&GetPackageInfo, [0; 16], &[5, 0, 0, 0]).is_err());
    }

    #[test]
    fn only_the_last_buffer_is_marked() {
        assert_eq!(download(false), [0; 16]);
        assert_eq!(download(true)[..2], [1, 0]);
    }
}
