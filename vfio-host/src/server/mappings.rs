//! Memory that a user gave by file: each file is mapped once, however many
//! pieces of it the device is shown.
//!
//! A virtual machine's memory is one file, and each page that its kernel maps
//! for the device is a message of its own: thousands of mappings of one file
//! are offsets into one mapping of ours, not thousands of ours.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::ptr::NonNull;

use e810_hal::SharedBytes;
use memmap2::{MmapOptions, MmapRaw};

/// What the kernel knows a file by, and how much of it was mapped in which
/// way: a file that has grown since is mapped anew, the old mapping is in use.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Key {
    device: u64,
    inode: u64,
    len: u64,
    write: bool,
}

/// A file in this process.
#[derive(Debug)]
struct Mapped {
    map: MmapRaw,
    start: NonNull<u8>,
    /// Pieces of it that are shown to the device.
    uses: usize,
}

// SAFETY: the mapping is plain shared memory; it is only accessed through
// `SharedBytes`, and may be removed by any thread.
unsafe impl Send for Mapped {}

/// The files behind the pieces that a device is shown.
#[derive(Debug, Default)]
pub struct Mappings {
    files: HashMap<Key, Mapped>,
    /// By IOVA: length of the piece, and its file.
    pieces: BTreeMap<u64, (u64, Key)>,
}

impl Mappings {
    /// The `bytes` bytes of `file` from `offset` on, to be shown at `iova`:
    /// readable, and writable when `write`.
    ///
    /// # Errors
    /// The file is shorter, or cannot be mapped that way; or something else is
    /// entered at that address. Whether the piece meets another one is for the
    /// device to say: see [`Mappings::forget`].
    ///
    /// # Safety
    /// Of the window no byte is used after a [`Mappings::release`] that holds
    /// it, none after [`Mappings::forget`] of `iova`, and none after the end of
    /// `self`.
    pub unsafe fn window(
        &mut self,
        iova: u64,
        file: &File,
        offset: u64,
        bytes: u64,
        write: bool,
    ) -> io::Result<SharedBytes> {
        let short = || io::Error::new(io::ErrorKind::UnexpectedEof, "the file is shorter");
        if self.pieces.contains_key(&iova) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let about = file.metadata()?;
        let end = offset.checked_add(bytes).filter(|end| *end <= about.len());
        end.filter(|_| bytes > 0).ok_or_else(short)?;
        let key = Key {
            device: about.dev(),
            inode: about.ino(),
            len: about.len(),
            write,
        };
        let mapped = match self.files.entry(key) {
            std::collections::hash_map::Entry::Occupied(known) => known.into_mut(),
            std::collections::hash_map::Entry::Vacant(new) => {
                let mut options = MmapOptions::new();
                options.len(usize::try_from(about.len()).map_err(|_| short())?);
                let map = if write {
                    options.map_raw(file)?
                } else {
                    options.map_raw_read_only(file)?
                };
                let start = NonNull::new(map.as_mut_ptr()).ok_or_else(short)?;
                new.insert(Mapped {
                    map,
                    start,
                    uses: 0,
                })
            }
        };
        // SAFETY: no reference is made to the mapping; how long it is used is
        // the caller's promise. A file that is cut meanwhile ends this
        // process: its owner is trusted with that much.
        let all = unsafe { SharedBytes::new(mapped.start, mapped.map.len()) };
        let window = all.window(offset as usize, bytes as usize);
        let window = window.map_err(|_| short())?;
        mapped.uses += 1;
        self.pieces.insert(iova, (bytes, key));
        Ok(window)
    }

    /// Undoes the [`Mappings::window`] that was entered at `iova`, which the
    /// device did not take. Every other piece stays, also one that it met.
    pub fn forget(&mut self, iova: u64) {
        if let Some((_, key)) = self.pieces.remove(&iova) {
            self.let_go(key);
        }
    }

    /// The device sees nothing of `bytes` bytes from `iova` on any more: a piece
    /// that reaches out of the range is cut, and files of which nothing is left
    /// are unmapped.
    pub fn release(&mut self, iova: u64, bytes: u64) {
        let end = iova.saturating_add(bytes);
        // Pieces that the device took do not meet.
        let concerned: Vec<(u64, u64, Key)> = self
            .pieces
            .range(..end)
            .rev()
            .map(|(start, (len, key))| (*start, start.saturating_add(*len), *key))
            .take_while(|(_, after, _)| *after > iova)
            .collect();
        for (start, after, key) in concerned {
            self.pieces.remove(&start);
            for (first, last) in [(start, iova), (end, after)] {
                if first < last {
                    self.pieces.insert(first, (last - first, key));
                    self.files.entry(key).and_modify(|file| file.uses += 1);
                }
            }
            self.let_go(key);
        }
    }

    /// A piece of the file is gone.
    fn let_go(&mut self, key: Key) {
        if let Some(mapped) = self.files.get_mut(&key) {
            mapped.uses -= 1;
            if mapped.uses == 0 {
                self.files.remove(&key);
            }
        }
    }

    /// Pieces that are shown; what a cut leaves on its two sides counts twice.
    #[must_use]
    pub fn pieces(&self) -> usize {
        self.pieces.len()
    }

    /// Files that are mapped.
    #[must_use]
    pub fn files(&self) -> usize {
        self.files.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::memory::SharedMemory;

    #[test]
    fn a_file_is_mapped_once_and_never_past_its_end() {
        let memory = SharedMemory::new(4 << 20, false).unwrap();
        let copy = || File::from(memory.file().try_clone_to_owned().unwrap());
        let mut mappings = Mappings::default();
        let window = |mappings: &mut Mappings, iova, offset, bytes, write| {
            // SAFETY: used while `mappings` and `memory` live.
            unsafe { mappings.window(iova, &copy(), offset, bytes, write) }
        };
        for page in 0..1000 {
            let at = page * 4096;
            let bytes = window(&mut mappings, at, at, 4096, true).unwrap();
            bytes.write(0, &[page as u8]).unwrap();
        }
        assert_eq!(mappings.files(), 1);
        // SAFETY: used while `memory` lives.
        let all = unsafe { memory.bytes() };
        let mut byte = [0];
        all.read(999 * 4096, &mut byte).unwrap();
        assert_eq!(byte, [999_u32 as u8]);
        let free = 1 << 40;
        for (iova, offset, bytes) in [
            (free, 4 << 20, 1),
            (free, u64::MAX, 4096),
            (free, 0, 0),
            (0, 0, 4096),
        ] {
            assert!(window(&mut mappings, iova, offset, bytes, true).is_err());
        }
        let read_only = window(&mut mappings, free, 0, 4096, false).unwrap();
        read_only.read(0, &mut byte).unwrap();
        assert_eq!(mappings.files(), 2);
        mappings.release(1, u64::MAX);
        assert_eq!(mappings.files(), 1, "a byte of the first page is left");
        mappings.release(1, 4095);
        assert_eq!(mappings.files(), 1);
        mappings.release(0, 1);
        assert_eq!((mappings.files(), mappings.pieces()), (0, 0));
    }

    #[test]
    fn what_is_given_back_in_parts_goes_with_the_last_one() {
        let memory = SharedMemory::new(4 * 4096, false).unwrap();
        let file = File::from(memory.file().try_clone_to_owned().unwrap());
        let mut mappings = Mappings::default();
        // SAFETY: the windows are not used.
        let enter = |mappings: &mut Mappings, iova| unsafe {
            mappings.window(iova, &file, 0, 4 * 4096, true).is_ok()
        };
        assert!(enter(&mut mappings, 0x10_0000));
        // Out of the middle: two pieces, neither of which is the old one.
        mappings.release(0x10_1000, 4096);
        assert_eq!((mappings.pieces(), mappings.files()), (2, 1));
        mappings.release(0x10_1000, 0);
        mappings.release(0x10_1800, 0x10);
        assert_eq!(mappings.pieces(), 2, "nothing was there");
        mappings.release(0x10_0000, 4096);
        assert!(enter(&mut mappings, 0x10_0000), "its place is free");
        mappings.forget(0x10_0000);
        assert_eq!((mappings.pieces(), mappings.files()), (1, 1));
        mappings.forget(0x10_0000);
        mappings.release(0x10_2000, 0x2000);
        assert_eq!((mappings.pieces(), mappings.files()), (0, 0));
    }
}
