//! The E810's package (DDP) in the machine's firmware folders.
//!
//! The places and their order are those of the kernel's firmware loader
//! (`drivers/base/firmware_loader/main.c`, `_request_firmware`), and the two names are those of its
//! ice driver: first the name with the serial number of the card, for this card only, then the
//! common one. Distributions compress firmware with Zstandard or XZ; both are unpacked here. For
//! each name all folders are searched for the plain file, then all for the Zstandard file, then all
//! for the XZ file. A file that cannot be read or unpacked is skipped. The driver checks the whole
//! contents of the file.

use std::fs::OpenOptions;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::{Host, plain};

/// Folder and names below a firmware folder.
const FOLDER: &str = "intel/ice/ddp";
const COMMON: &str = "ice.pkg";

/// The largest size of a package, packed or not; today's have 1 to 2 MiB.
const MOST: u64 = 32 << 20;

/// A package file that was read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PackageFile {
    /// Where it was.
    pub path: PathBuf,
    /// Its contents, unpacked.
    pub bytes: Vec<u8>,
}

/// Why there is no package.
#[derive(Debug, thiserror::Error)]
pub enum NoPackage {
    /// It is in none of the places.
    #[error(
        "no package (DDP) for the E810 in {places}: install your distribution's Intel firmware, or name a file with --ddp"
    )]
    Nowhere {
        /// Folders that were searched, separated by commas.
        places: String,
    },
    /// It exists but is not readable; and there is no other.
    #[error("{}: {error}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The reason.
        error: io::Error,
    },
}

/// The package for a card with this PCI Express serial number, highest byte first; all zeroes if it
/// has none.
///
/// # Errors
/// There is no package, or none of those found can be read: then the error is that of the first.
pub fn find(host: &Host, serial: [u8; 8]) -> Result<PackageFile, NoPackage> {
    let folders = folders(host);
    let mut unreadable = None;
    for name in names(serial) {
        for suffix in ["", ".zst", ".xz"] {
            for folder in &folders {
                let path = host.path(&format!("{folder}/{FOLDER}/{name}{suffix}"));
                if !path.is_file() {
                    continue;
                }
                match read(&path) {
                    Ok(file) => return Ok(file),
                    Err(error) => {
                        log::warn!("{error}: trying the next one");
                        unreadable.get_or_insert(error);
                    }
                }
            }
        }
    }
    if let Some(error) = unreadable {
        return Err(error);
    }
    let places: Vec<String> = folders.iter().map(|at| format!("{at}/{FOLDER}")).collect();
    Err(NoPackage::Nowhere {
        places: places.join(", "),
    })
}

/// The package in the file `path`, unpacked if its name has the ending of a packed file.
///
/// # Errors
/// It cannot be read or unpacked, or is larger than any package.
pub fn read(path: &Path) -> Result<PackageFile, NoPackage> {
    let bytes = unpacked(path).map_err(|error| NoPackage::Unreadable {
        path: path.to_owned(),
        error,
    })?;
    Ok(PackageFile {
        path: path.to_owned(),
        bytes,
    })
}

fn unpacked(path: &Path) -> io::Result<Vec<u8>> {
    let file = plain::open(path, OpenOptions::new().read(true))?;
    let packed = all(file)?;
    match path.extension().and_then(|end| end.to_str()) {
        Some("zst") => {
            let decoder = ruzstd::decoding::StreamingDecoder::new(packed.as_slice());
            all(decoder.map_err(io::Error::other)?)
        }
        Some("xz") => {
            let mut out = Limited(Vec::new());
            let done = lzma_rs::xz_decompress(&mut packed.as_slice(), &mut out);
            done.map_err(io::Error::other)?;
            Ok(out.0)
        }
        _ => Ok(packed),
    }
}

/// Everything that `from` returns, unless it is too much.
fn all(from: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(MOST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MOST {
        return Err(too_large());
    }
    Ok(bytes)
}

fn too_large() -> io::Error {
    io::Error::other(format!("larger than {MOST} bytes: no package"))
}

/// A vector that accepts no more than a package can have.
struct Limited(Vec<u8>);

impl io::Write for Limited {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if (self.0.len() + bytes.len()) as u64 > MOST {
            return Err(too_large());
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Names of the package, that for this card first.
fn names(serial: [u8; 8]) -> Vec<String> {
    let own = (serial != [0; 8]).then(|| format!("ice-{:016x}.pkg", u64::from_be_bytes(serial)));
    own.into_iter().chain([COMMON.to_owned()]).collect()
}

/// Firmware folders in the kernel's order: the configured one, then updates (for this kernel, then
/// for all), then the usual ones.
fn folders(host: &Host) -> Vec<String> {
    let configured = host.text("/sys/module/firmware_class/parameters/path");
    let configured = configured.filter(|path| !path.is_empty());
    let usual = match host.text("/proc/sys/kernel/osrelease") {
        Some(release) => vec![
            format!("/lib/firmware/updates/{release}"),
            "/lib/firmware/updates".to_owned(),
            format!("/lib/firmware/{release}"),
            "/lib/firmware".to_owned(),
        ],
        None => vec![
            "/lib/firmware/updates".to_owned(),
            "/lib/firmware".to_owned(),
        ],
    };
    configured.into_iter().chain(usual).collect()
}

#[cfg(test)]
mod tests {
    use super::super::fake::Tree;
    use super::*;

    const SERIAL: [u8; 8] = [0xb4, 0x96, 0x91, 0xff, 0xff, 0xa0, 0x01, 0x02];
    const USUAL: &str = "/lib/firmware/intel/ice/ddp/ice.pkg";

    fn found(tree: &Tree) -> String {
        String::from_utf8(find(tree.host(), SERIAL).unwrap().bytes).unwrap()
    }

    fn put(tree: &Tree, path: &str, bytes: &[u8]) {
        tree.file(path, "");
        std::fs::write(tree.host().path(path), bytes).unwrap();
    }

    #[test]
    fn the_order_is_the_kernels() {
        let tree = Tree::bare();
        tree.file("/proc/sys/kernel/osrelease", "6.12.1\n");
        let least_first = [
            USUAL,
            "/lib/firmware/6.12.1/intel/ice/ddp/ice.pkg",
            "/lib/firmware/updates/intel/ice/ddp/ice.pkg",
            "/lib/firmware/updates/6.12.1/intel/ice/ddp/ice.pkg",
            "/opt/fw/intel/ice/ddp/ice.pkg",
            "/lib/firmware/intel/ice/ddp/ice-b49691ffffa00102.pkg",
        ];
        tree.file("/sys/module/firmware_class/parameters/path", "/opt/fw\n");
        for path in least_first {
            tree.file(path, path);
            assert_eq!(found(&tree), path);
        }
    }

    #[test]
    fn packed_files_are_unpacked() {
        // `printf package | zstd`, `printf package | xz --check=crc32`.
        let zst = b"\x28\xb5\x2f\xfd\x04\x58\x39\x00\x00package\xa8\x70\xcd\x70";
        let xz = b"\xfd7zXZ\0\0\x01\x69\x22\xde\x36\x02\0\x21\x01\x16\0\0\0\x74\x2f\xe5\xa3\
            \x01\0\x06package\0\0\x95\x67\x68\xde\0\x01\x1b\x07\x12\xeb\xd4\x17\x90\x42\x99\x0d\
            \x01\0\0\0\0\x01YZ";
        for (suffix, packed) in [("zst", zst.as_slice()), ("xz", xz.as_slice())] {
            let tree = Tree::bare();
            put(&tree, &format!("{USUAL}.{suffix}"), packed);
            let result = find(tree.host(), [0; 8]);
            assert_eq!(result.unwrap().bytes, b"package", "{suffix}");
        }
    }

    /// The kernel tries all folders for the plain file, then all for `.zst`, then all for `.xz`
    /// (drivers/base/firmware_loader/main.c, `_request_firmware`).
    #[test]
    fn a_file_that_is_not_packed_comes_first_wherever_it_is() {
        let tree = Tree::bare();
        let zst = b"\x28\xb5\x2f\xfd\x04\x58\x39\x00\x00package\xa8\x70\xcd\x70";
        put(
            &tree,
            "/lib/firmware/updates/intel/ice/ddp/ice.pkg.zst",
            zst,
        );
        tree.file(USUAL, "plain");
        assert_eq!(found(&tree), "plain");
    }

    /// An unreadable file does not end the search: the kernel continues with the next folder.
    #[test]
    fn what_cannot_be_unpacked_is_passed_over() {
        let tree = Tree::bare();
        put(
            &tree,
            "/lib/firmware/updates/intel/ice/ddp/ice.pkg.zst",
            b"cut",
        );
        let zst = b"\x28\xb5\x2f\xfd\x04\x58\x39\x00\x00package\xa8\x70\xcd\x70";
        put(&tree, &format!("{USUAL}.zst"), zst);
        assert_eq!(found(&tree), "package");
        // If there is no other, the error names the first.
        std::fs::remove_file(tree.host().path(&format!("{USUAL}.zst"))).unwrap();
        put(&tree, &format!("{USUAL}.xz"), b"cut too");
        let error = find(tree.host(), SERIAL).unwrap_err().to_string();
        assert!(
            error.contains("updates/intel/ice/ddp/ice.pkg.zst"),
            "{error}"
        );
    }

    #[test]
    fn what_is_wrong_with_a_file_is_said() {
        let tree = Tree::bare();
        let error = find(tree.host(), SERIAL).unwrap_err().to_string();
        assert!(error.contains("/lib/firmware/intel/ice/ddp"), "{error}");
        assert!(error.contains("--ddp"), "{error}");
        for suffix in ["zst", "xz"] {
            let path = format!("{USUAL}.{suffix}");
            put(&tree, &path, b"nothing that was packed");
            let error = read(&tree.host().path(&path)).unwrap_err();
            assert!(matches!(error, NoPackage::Unreadable { .. }), "{error}");
        }
        let huge = tree.host().path("/huge.pkg");
        put(&tree, "/huge.pkg", b"");
        std::fs::File::options()
            .write(true)
            .open(&huge)
            .unwrap()
            .set_len(MOST + 1)
            .unwrap();
        let error = read(&huge).unwrap_err().to_string();
        assert!(error.contains("larger than"), "{error}");
    }
}
