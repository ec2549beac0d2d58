//! The address of a function before anybody opens it.

use std::io::Read;

use super::folder::Folder;
use super::{Host, kernel};
use crate::accept::Accept;
use crate::error::BackendError;
use crate::function::{mac_of_serial, serial_number};
use crate::spec::Bdf;

/// The Ethernet address of a function that is not brought up, if its configuration space has it.
///
/// The address is in the serial number, which all functions of a card share and which is made from
/// function 0's `[inf serial_is_mac]`. A hypervisor may give another function that number, so there
/// is no answer in its guests. sysfs shows the serial number only with CAP_SYS_ADMIN. The address
/// of any other function comes from the firmware, which takes a bring-up.
#[must_use]
pub fn mac(host: &Host, bdf: Bdf) -> Option<[u8; 6]> {
    if bdf.function != 0 || kernel::is_virtual(host) {
        return None;
    }
    mac_of_serial(serial(host, bdf)?)
}

/// The serial number of the function, highest byte first, if sysfs shows one.
fn serial(host: &Host, bdf: Bdf) -> Option<[u8; 8]> {
    let device = bdf.to_string();
    let folder = Folder::open(host, &device, bdf).ok()?;
    folder.check(&device, Accept::E810).ok()?;
    let mut space = Vec::new();
    folder.file("config").ok()?.read_to_end(&mut space).ok()?;
    let word = |at: u16| {
        let bytes = space.get(usize::from(at)..).and_then(<[u8]>::first_chunk);
        let bytes = bytes.ok_or_else(|| BackendError::Refused {
            device: device.clone(),
            during: "reading its configuration space",
            cause: format!("sysfs shows {} bytes", space.len()),
        });
        bytes.map(|bytes| u32::from_le_bytes(*bytes))
    };
    let serial = serial_number(word).ok()?;
    Some(serial.to_be_bytes())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::host::fake::{Tree, bdf};
    use crate::host::pci;

    /// Configuration space with a serial number at 0x150, behind AER and ARI.
    fn space(serial: u64) -> Vec<u8> {
        let mut space = vec![0; 4096];
        let words = [
            (0, 0x1592_8086),
            (0x100, 0x1482_0001),
            (0x148, 0x1501_000e),
            (0x150, 0x1a01_0003),
            (0x154, serial as u32),
            (0x158, (serial >> 32) as u32),
        ];
        for (at, word) in words {
            space[at..at + 4].copy_from_slice(&u32::to_le_bytes(word));
        }
        space
    }

    #[test]
    fn function_0_has_its_address_in_the_serial_number() {
        let tree = Tree::with_card();
        let [first, second] = ["3b:00.0", "3b:00.1"].map(bdf);
        assert_eq!(mac(tree.host(), first), None, "no file");
        let write = |bdf: Bdf, space: &[u8]| {
            fs::write(pci::folder(tree.host(), bdf).join("config"), space).unwrap();
        };
        let whole = space(0x02e8_10ff_ff00_0007);
        write(first, &whole);
        write(second, &whole);
        assert_eq!(mac(tree.host(), first), Some([2, 0xe8, 0x10, 0, 0, 7]));
        assert_eq!(mac(tree.host(), second), None, "it has another address");
        // The bytes that an unprivileged user reads.
        write(first, &whole[..64]);
        assert_eq!(mac(tree.host(), first), None);
        write(first, &space(0x1234_5678_9abc_def0));
        assert_eq!(mac(tree.host(), first), None, "made of no address");
        let mut other = whole.clone();
        other[2] = 0x89;
        other[3] = 0x18;
        write(first, &other);
        assert_eq!(mac(tree.host(), first), None, "a virtual function");
        write(first, &whole);
        tree.file("/proc/cpuinfo", "flags\t\t: fpu hypervisor lahf_lm\n");
        assert_eq!(mac(tree.host(), first), None, "function 0 of a guest");
    }
}
