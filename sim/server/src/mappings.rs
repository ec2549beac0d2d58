//! Memory that a user gave by file. Each file is mapped once, however many pieces of it the device
//! sees.
//!
//! A virtual machine's memory is one file, and its kernel sends a message for each page that it
//! maps for the device: thousands of mappings of one file are offsets into one mapping of ours, not
//! thousands of ours.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::ptr::NonNull;
use std::sync::Arc;

use e810_hal::SharedBytes;
use memmap2::{MmapOptions, MmapRaw};

use crate::bus_error::Watch;

/// The most pieces that the device sees at once: as many as the kernel's VFIO allows.
pub const MOST_PIECES: usize = 65_535;
/// The most files that are mapped at once. The kernel allows a process some 65,000 mappings, which
/// eight functions share with everything else.
pub const MOST_FILES: usize = 4096;

/// The kernel's identity of a file, how much of it was mapped, and in which way: a file that has
/// grown since is mapped again, while the old mapping stays in use.
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
    /// Dropped before the mapping, which it watches.
    watch: Watch,
    map: MmapRaw,
    start: NonNull<u8>,
    /// Pieces of it that the device sees.
    uses: usize,
}

// SAFETY: the mapping is plain shared memory; it is accessed only through `SharedBytes`, and any
// thread may remove it.
unsafe impl Send for Mapped {}

/// The files behind the pieces that a device sees.
#[derive(Debug, Default)]
pub struct Mappings {
    files: HashMap<Key, Mapped>,
    /// By IOVA: length of the piece, and its file.
    pieces: BTreeMap<u64, (u64, Key)>,
    /// The user who gave them. Dropped after the files, whose watches have its descriptor.
    user: Option<Arc<UnixStream>>,
}

impl Mappings {
    /// Empty, for a user whose connection is shut down if it cuts a file.
    #[must_use]
    pub fn of(user: Arc<UnixStream>) -> Self {
        Self {
            user: Some(user),
            ..Self::default()
        }
    }

    /// The `bytes` bytes of `file` from `offset` on, for the device to see at `iova`: readable, and
    /// writable if `write`.
    ///
    /// # Errors
    /// The file is shorter, or cannot be mapped that way; the piece wraps around the end of the
    /// address space, or its offset in its page of 4 KiB differs from that in the file; there are
    /// [`MOST_PIECES`] or [`MOST_FILES`]; or something else is entered at that address. The device
    /// decides whether the piece overlaps another one: see [`Mappings::forget`].
    ///
    /// # Safety
    /// No byte of the window is used after a [`Mappings::release`] that covers it, after
    /// [`Mappings::forget`] of `iova`, or after the end of `self`.
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
        let wrong = |why| Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        if iova.checked_add(bytes).is_none() {
            return wrong("the addresses wrap");
        }
        if iova % 4096 != offset % 4096 {
            return wrong("address and offset lie differently in their pages");
        }
        if self.pieces.len() >= MOST_PIECES {
            return Err(io::Error::other(format!("there are {MOST_PIECES} pieces")));
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
        let full = self.files.len() >= MOST_FILES;
        let user = self.user.as_ref().map_or(-1, |user| user.as_raw_fd());
        let mapped = match self.files.entry(key) {
            std::collections::hash_map::Entry::Occupied(known) => known.into_mut(),
            std::collections::hash_map::Entry::Vacant(_) if full => {
                return Err(io::Error::other(format!("there are {MOST_FILES} files")));
            }
            std::collections::hash_map::Entry::Vacant(new) => {
                let mut options = MmapOptions::new();
                options.len(usize::try_from(about.len()).map_err(|_| short())?);
                let map = if write {
                    options.map_raw(file)?
                } else {
                    options.map_raw_read_only(file)?
                };
                let start = NonNull::new(map.as_mut_ptr()).ok_or_else(short)?;
                // SAFETY: the mapping and the watch are dropped together, the watch first, and the
                // user's socket after both. Pages of zeros are as valid as anything that a user may
                // write there. The caller promises that nobody uses windows after the last
                // `release`.
                let watch = unsafe { Watch::new(start.as_ptr(), map.len(), user) };
                new.insert(Mapped {
                    watch,
                    map,
                    start,
                    uses: 0,
                })
            }
        };
        // SAFETY: no reference to the mapping is made; the caller promises how long it is used. A
        // file that is cut meanwhile reads as zeros (`watch`).
        let all = unsafe { SharedBytes::new(mapped.start, mapped.map.len()) };
        let window = all.window(offset as usize, bytes as usize);
        let window = window.map_err(|_| short())?;
        mapped.uses += 1;
        self.pieces.insert(iova, (bytes, key));
        Ok(window)
    }

    /// Undoes the [`Mappings::window`] at `iova`, which the device did not accept. Every other
    /// piece stays, also one that overlaps it.
    pub fn forget(&mut self, iova: u64) {
        if let Some((_, key)) = self.pieces.remove(&iova) {
            self.forget_qp(key);
        }
    }

    /// Hides `bytes` bytes from `iova` on from the device. A piece that reaches out of the range is
    /// cut, and files of which nothing is left are unmapped.
    pub fn release(&mut self, iova: u64, bytes: u64) {
        let end = iova.saturating_add(bytes);
        // Pieces that the device accepted do not overlap.
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
            self.forget_qp(key);
        }
    }

    /// A piece of the file was removed.
    fn forget_qp(&mut self, key: Key) {
        if let Some(mapped) = self.files.get_mut(&key) {
            mapped.uses -= 1;
            if mapped.uses == 0 {
                self.files.remove(&key);
            }
        }
    }

    /// The range; or, if there are too many pieces to cut one, the range extended to all of the
    /// pieces that it overlaps.
    #[must_use]
    pub fn range(&self, iova: u64, bytes: u64) -> (u64, u64) {
        if self.pieces.len() < MOST_PIECES {
            return (iova, bytes);
        }
        let end = iova.saturating_add(bytes);
        let meets = |at: u64| {
            let below = self.pieces.range(..at).next_back();
            let below = below.map(|(start, (len, _))| (*start, start.saturating_add(*len)));
            below.filter(|(_, after)| *after > at)
        };
        let first = meets(iova).map_or(iova, |(start, _)| start);
        let last = meets(end).map_or(end, |(_, after)| after);
        (first, last - first)
    }

    /// Whether a mapped file was cut: it has zeros now.
    #[must_use]
    pub fn has_cut_file(&self) -> bool {
        self.files.values().any(|file| file.watch.is_cut())
    }

    /// Pieces that the device sees; the two remains of a cut piece count twice.
    #[must_use]
    pub fn pieces(&self) -> usize {
        self.pieces.len()
    }

    #[must_use]
    pub fn files(&self) -> usize {
        self.files.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory_file::memory_file;
    use std::io::Read;
    use std::os::unix::fs::FileExt;

    #[test]
    fn a_file_is_mapped_once_and_never_past_its_end() {
        let memory = memory_file(4 << 20);
        let copy = || memory.try_clone().unwrap();
        let mut mappings = Mappings::default();
        let window = |mappings: &mut Mappings, iova, offset, bytes, write| {
            // SAFETY: used while `mappings` has it.
            unsafe { mappings.window(iova, &copy(), offset, bytes, write) }
        };
        for page in 0..1000 {
            let at = page * 4096;
            let bytes = window(&mut mappings, at, at, 4096, true).unwrap();
            bytes.write(0, &[page as u8]).unwrap();
        }
        assert_eq!(mappings.files(), 1);
        let mut byte = [0];
        memory.read_exact_at(&mut byte, 999 * 4096).unwrap();
        assert_eq!(byte, [999_u32 as u8]);
        let free = 1 << 40;
        for (iova, offset, bytes) in [
            (free, 4 << 20, 1),
            (free, u64::MAX - 4095, 4096),
            (free, 0, 0),
            (0, 0, 4096),
            // Around the end of the addresses, and across pages.
            (u64::MAX - 4095, 0, 4096),
            (u64::MAX - 4095, 0, 8192),
            (free, 8, 4088),
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
        let file = memory_file(4 * 4096);
        let mut mappings = Mappings::default();
        // SAFETY: the windows are not used.
        let enter = |mappings: &mut Mappings, iova| unsafe {
            mappings.window(iova, &file, 0, 4 * 4096, true).is_ok()
        };
        assert!(enter(&mut mappings, 0x10_0000));
        // From the middle: this leaves two pieces, neither of which is the old one.
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

    /// A file that its owner cuts reads as zeros, and its owner is disconnected.
    #[test]
    fn a_file_that_is_cut_ends_its_user_and_nothing_else() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let mut mappings = Mappings::of(Arc::new(ours));
        let [cut, whole] = [memory_file(3 * 4096), memory_file(4096)];
        for file in [&cut, &whole] {
            file.write_all_at(&[7; 4096], 0).unwrap();
        }
        // SAFETY: used while `mappings` has them.
        let [first, second] = [(&cut, 0x10_0000), (&whole, 0x20_0000)]
            .map(|(file, iova)| unsafe { mappings.window(iova, file, 0, 4096, true).unwrap() });
        let mut byte = [0];
        first.read(0, &mut byte).unwrap();
        assert_eq!((byte, mappings.has_cut_file()), ([7], false));
        cut.set_len(0).unwrap();
        first.read(0, &mut byte).unwrap();
        assert_eq!((byte, mappings.has_cut_file()), ([0], true));
        first.write(8, &[9]).unwrap();
        first.read(8, &mut byte).unwrap();
        assert_eq!(byte, [9], "nobody else sees it");
        assert_eq!(
            theirs.read(&mut byte).unwrap(),
            0,
            "the end of the connection"
        );
        second.read(4095, &mut byte).unwrap();
        assert_eq!(byte, [7]);
        mappings.release(0, u64::MAX);
        assert_eq!((mappings.files(), mappings.has_cut_file()), (0, false));
    }

    /// More mappings than the first block of watches has slots.
    #[test]
    fn a_file_among_hundreds_is_cut() {
        let mut mappings = Mappings::default();
        let mut shown = Vec::new();
        for number in 0..300 {
            let file = memory_file(4096);
            // SAFETY: used while `mappings` has it.
            let bytes = unsafe { mappings.window(number << 12, &file, 0, 4096, false) };
            shown.push((file, bytes.unwrap()));
        }
        let (file, bytes) = shown.last().unwrap();
        file.set_len(0).unwrap();
        let mut word = [1; 4];
        bytes.read(0, &mut word).unwrap();
        assert_eq!((word, mappings.has_cut_file()), ([0; 4], true));
    }

    #[test]
    fn pieces_and_files_are_bounded() {
        let mut mappings = Mappings::default();
        let file = memory_file(MOST_PIECES as u64 * 4096);
        let enter = |mappings: &mut Mappings, file: &File, iova, offset, bytes| {
            // SAFETY: the window is not used.
            unsafe { mappings.window(iova, file, offset, bytes, true).is_ok() }
        };
        let all = MOST_PIECES as u64;
        // Holes in one piece make many pieces; the last hole takes all pieces that it overlaps.
        assert!(enter(&mut mappings, &file, 0, 0, all * 4096));
        for hole in 0.. {
            let (iova, bytes) = mappings.range(hole * 16, 8);
            mappings.release(iova, bytes);
            if (iova, bytes) != (hole * 16, 8) {
                break;
            }
        }
        assert!(mappings.pieces() <= MOST_PIECES);
        mappings.release(0, u64::MAX);
        for page in 0..all {
            assert!(enter(&mut mappings, &file, page * 8192, page * 4096, 4096));
        }
        assert!(!enter(&mut mappings, &file, all * 8192, 0, 4096));
        mappings.release(0, u64::MAX);
        for number in 0..=MOST_FILES as u64 {
            let done = enter(&mut mappings, &memory_file(4096), number * 4096, 0, 4096);
            assert_eq!(done, number < MOST_FILES as u64, "{number}");
        }
    }
}
