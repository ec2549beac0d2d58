//! Packet captures for network analysers: the classic pcap format with times in nanoseconds.
//!
//! ```
//! use e810_hal::Ns;
//! use e810_sim::pcap::Writer;
//!
//! let mut file = Writer::new(Vec::new())?;
//! file.frame(Ns(1_500_000_007), &[0; 60])?;
//! // The file's header, the frame's, and the frame.
//! assert_eq!(file.into_inner().len(), 24 + 16 + 60);
//! # Ok::<(), std::io::Error>(())
//! ```

use std::io::{self, Write};

use e810_hal::Ns;

/// Magic number: it encodes the byte order of this host, and that fractions of a second are
/// nanoseconds.
const NANOSECONDS: u32 = 0xa1b2_3c4d;
/// Version of the format: 2.4, the only one in use.
const VERSION: [u16; 2] = [2, 4];
/// Frames begin with an Ethernet header.
const LINKTYPE_ETHERNET: u32 = 1;
/// Longest frame that is kept whole: longer than any frame of this wire.
const SNAP_LENGTH: u32 = 65_535;

/// Writes a capture. Use a buffered output: it is written in small pieces.
#[derive(Debug)]
pub struct Writer<W> {
    out: W,
}

impl<W: Write> Writer<W> {
    /// Begins a capture: writes the header of the file.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn new(mut out: W) -> io::Result<Self> {
        out.write_all(&NANOSECONDS.to_le_bytes())?;
        for number in VERSION {
            out.write_all(&number.to_le_bytes())?;
        }
        // Time zone and accuracy of the times: 0 by convention.
        for number in [0, 0, SNAP_LENGTH, LINKTYPE_ETHERNET] {
            out.write_all(&number.to_le_bytes())?;
        }
        Ok(Self { out })
    }

    /// Appends a frame, from its destination address on and without FCS. Of a frame longer than
    /// 65535 bytes the first 65535 are kept. `time` is written as seconds and nanoseconds since
    /// 1970.
    ///
    /// # Errors
    /// Those of the output; part of the frame may have been written.
    pub fn frame(&mut self, time: Ns, bytes: &[u8]) -> io::Result<()> {
        /// Nanoseconds of a second.
        const SECOND: u64 = 1_000_000_000;
        let kept = bytes.get(..SNAP_LENGTH as usize).unwrap_or(bytes);
        let (seconds, rest) = (time.0 / SECOND, time.0 % SECOND);
        let lengths = [kept.len(), bytes.len()].map(|len| u32::try_from(len).unwrap_or(u32::MAX));
        for number in [seconds as u32, rest as u32].into_iter().chain(lengths) {
            self.out.write_all(&number.to_le_bytes())?;
        }
        self.out.write_all(kept)
    }

    /// Flushes the output.
    ///
    /// # Errors
    /// Those of the output.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// Returns the output, which is not flushed.
    pub fn into_inner(self) -> W {
        self.out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compared with the format's description, byte by byte.
    #[test]
    fn a_capture_of_two_frames() {
        let mut file = Writer::new(Vec::new()).unwrap();
        file.frame(Ns(3_000_000_258), &[1, 2, 3]).unwrap();
        file.frame(Ns(u64::from(u32::MAX) * 1_000_000_000 + 999_999_999), &[])
            .unwrap();
        #[rustfmt::skip]
        let expected = [
            0x4d, 0x3c, 0xb2, 0xa1,  2, 0, 4, 0,  0, 0, 0, 0,  0, 0, 0, 0,  0xff, 0xff, 0, 0,  1, 0, 0, 0,
            3, 0, 0, 0,  2, 1, 0, 0,  3, 0, 0, 0,  3, 0, 0, 0,  1, 2, 3,
            0xff, 0xff, 0xff, 0xff,  0xff, 0xc9, 0x9a, 0x3b,  0, 0, 0, 0,  0, 0, 0, 0,
        ];
        assert_eq!(file.into_inner(), expected);
    }

    #[test]
    fn a_frame_that_is_too_long_is_cut_and_says_so() {
        let mut file = Writer::new(Vec::new()).unwrap();
        file.frame(Ns(0), &[7; 70_000]).unwrap();
        let bytes = file.into_inner();
        assert_eq!(bytes.len(), 24 + 16 + 65_535);
        assert_eq!(bytes[32..40], [0xff, 0xff, 0, 0, 0x70, 0x11, 1, 0]);
    }

    struct Full;

    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn errors_of_the_output_are_returned() {
        let error = Writer::new(Full).map(drop).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    }
}
