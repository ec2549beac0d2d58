//! DDP package files: arbitrary bytes, and a valid file with changes.
//!
//! A file is refused or accepted; nothing panics. What was accepted is walked as
//! a download would, and every buffer has its size.

#![no_main]

use e810_adminq::package::{Package, PackageError, Step};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((mode, rest)) = data.split_first() else {
        return;
    };
    if mode & 1 == 0 {
        judge(rest);
        return;
    }
    let mut file = valid_file(mode & 2 != 0);
    // Three bytes of place, one of value; the place favours headers.
    for change in rest.chunks_exact(4) {
        let place = u32::from_le_bytes([change[0], change[1], change[2], 0]) as usize;
        let range = if change[2] & 0x80 == 0 {
            512
        } else {
            file.len()
        };
        let at = place % range.min(file.len());
        file[at] = change[3];
    }
    let cut = rest.len() % 4;
    if cut == 3 {
        file.truncate(rest.len() * 16);
    }
    judge(&file);
});

fn judge(file: &[u8]) {
    let Ok(package) = Package::parse(file) else {
        return;
    };
    assert!(package.version().is_supported());
    let mut buffers = 0usize;
    let walked = package.walk(|step| {
        if let Step::Buffer(buffer) = step {
            assert_eq!(buffer.len(), 4096);
            buffers += 1;
        }
        Ok::<(), PackageError>(())
    });
    walked.expect("a file that was accepted can be walked");
    // Signatures may name the same buffers again and again, but not without end.
    assert!(buffers <= file.len());
}

/// A description, the E810's configuration of two buffers, and, signed, a
/// signature of one buffer.
fn valid_file(signed: bool) -> Vec<u8> {
    let description = [[1, 3, 30, 0].as_slice(), &[0; 36]].concat();
    let configuration = [[0; 8].as_slice(), &table(&[80, 12])].concat();
    let mut signature = Vec::new();
    for field in [0x10u32, 1, 1, 0, 2, 0x8000_0001] {
        signature.extend(field.to_le_bytes());
    }
    signature.resize(64, 0);
    signature.extend(table(&[2]));
    let mut segments = vec![(1u32, description), (0x10, configuration)];
    if signed {
        segments.push((0x1001, signature));
    }
    let mut offset = 8 + 4 * segments.len();
    let mut file = vec![1, 0, 0, 0];
    file.extend((segments.len() as u32).to_le_bytes());
    for (_, body) in &segments {
        file.extend((offset as u32).to_le_bytes());
        offset += 44 + body.len();
    }
    for (kind, body) in segments {
        file.extend(kind.to_le_bytes());
        file.extend([1, 0, 1, 0]);
        file.extend((44 + body.len() as u32).to_le_bytes());
        file.extend([0; 32]);
        file.extend(body);
    }
    file
}

/// Buffers with one section each, of these types.
fn table(kinds: &[u32]) -> Vec<u8> {
    let mut bytes = (kinds.len() as u32).to_le_bytes().to_vec();
    for kind in kinds {
        let mut buffer = vec![0; 4096];
        buffer[..4].copy_from_slice(&[1, 0, 0, 16]);
        buffer[4..8].copy_from_slice(&kind.to_le_bytes());
        buffer[8..12].copy_from_slice(&[12, 0, 4, 0]);
        bytes.extend(buffer);
    }
    bytes
}
