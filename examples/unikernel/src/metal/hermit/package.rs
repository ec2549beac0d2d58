//! The package, through QEMU's configuration device (`-fw_cfg`).
//!
//! The loader brings one file along, which is the program itself. On a machine
//! without such a device a program would have the package built in
//! (`include_bytes!`), or read it from a file system.

use crate::ports;

/// Name that `-fw_cfg name=...` gives it.
const NAME: &[u8] = b"opt/e810/package";

const SELECT: u16 = 0x510;
const DATA: u16 = 0x511;
/// Items: the signature, and the list of files.
const SIGNATURE: u16 = 0;
const FILES: u16 = 0x19;
/// Bytes of a package at most.
const LIMIT: u32 = 16 << 20;

/// The file's bytes; `None` without the device or the file.
pub(super) fn read() -> Option<&'static [u8]> {
    select(SIGNATURE);
    if next() != *b"QEMU" {
        return None;
    }
    select(FILES);
    let files = u32::from_be_bytes(next());
    for _ in 0..files {
        // Size, selector, two bytes reserved, name; big-endian.
        let (size, item) = (u32::from_be_bytes(next()), u16::from_be_bytes(next()));
        let [_, _] = next();
        let name: [u8; 56] = next();
        let right = name.split(|byte| *byte == 0).next() == Some(NAME);
        if right && (1..=LIMIT).contains(&size) {
            select(item);
            let file: Vec<u8> = (0..size).map(|_| next::<1>()[0]).collect();
            return Some(file.leak());
        }
    }
    None
}

fn select(item: u16) {
    // SAFETY: the device's; the kernel does not use it.
    unsafe { ports::write16(SELECT, item) };
}

/// The next bytes of the item. Where there is no device they are ones.
fn next<const BYTES: usize>() -> [u8; BYTES] {
    // SAFETY: as in `select`.
    core::array::from_fn(|_| unsafe { ports::read8(DATA) })
}
