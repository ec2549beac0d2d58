//! The answers to messages.
//!
//! There are two steps, so that nothing is read or allocated on a user's word: [`body_len`] checks
//! a header and returns the number of bytes that follow it, at most [`LONGEST`]; [`answer`] checks
//! the whole message and has the function carry it out.

use std::fs::File;

use vfio_bindings::bindings::vfio::{
    VFIO_DEVICE_FLAGS_PCI, VFIO_DEVICE_FLAGS_RESET, VFIO_IRQ_INFO_EVENTFD, VFIO_IRQ_SET_DATA_BOOL,
    VFIO_PCI_BAR0_REGION_INDEX, VFIO_PCI_BAR3_REGION_INDEX, VFIO_PCI_CONFIG_REGION_INDEX,
    VFIO_PCI_MSIX_IRQ_INDEX, VFIO_PCI_NUM_IRQS, VFIO_PCI_NUM_REGIONS, VFIO_REGION_INFO_FLAG_READ,
    VFIO_REGION_INFO_FLAG_WRITE,
};
use zerocopy::{FromBytes, IntoBytes};

use crate::config_space;
use crate::messages::{
    DEVICE_GET_INFO, DEVICE_GET_IRQ_INFO, DEVICE_GET_REGION_INFO, DEVICE_RESET, DEVICE_SET_IRQS,
    DMA_MAP, DMA_UNMAP, DeviceInfo, DmaMap, DmaUnmap, ERROR, HEADER, Header, IrqInfo, KIND,
    MAP_READ, MAP_WRITE, MOST_DATA, NO_REPLY, REGION_READ, REGION_WRITE, REPLY, RegionAccess,
    RegionInfo, SetIrqs, UNMAP_ALL, VERSION, Version,
};

/// Descriptors that users are offered to send with one message. More are accepted
/// ([`crate::messages::MOST_FDS`]); virtual machines were only tried with one.
const ANNOUNCED_FDS: u32 = 1;
/// The most bytes of the text of VERSION.
const TEXT: usize = 4096;
/// The most bytes of any other body. Bytes after a structure are skipped, because a user of a later
/// version may send more.
const SHORT: usize = 4096;
/// The most bytes after a header: data, and the structure before it.
pub const LONGEST: usize = size_of::<RegionAccess>() + MOST_DATA as usize;

/// The target of messages.
pub trait Function {
    /// The number of MSI-X vectors.
    fn vectors(&self) -> u32;
    /// Reads from a region, within its [`region_len`].
    fn read(&mut self, region: u32, offset: u64, into: &mut [u8]);
    /// Writes to a region, within its [`region_len`].
    fn write(&mut self, region: u32, offset: u64, from: &[u8]);
    /// The user waits until its last write is done.
    fn settle(&mut self) {}
    /// Shows memory to the function. What it cannot accept it counts: some users wait for ever if
    /// this is refused.
    fn map(&mut self, map: &DmaMap, file: Option<File>);
    /// Takes `size` bytes of memory away, from `address` on.
    fn unmap(&mut self, address: u64, size: u64);
    /// Connects, disconnects or triggers interrupts.
    fn set_irqs(&mut self, set: &SetIrqs, fds: Vec<File>);
    fn reset(&mut self);
}

/// A header after which the stream of messages makes no sense any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BadHeader {
    /// The size is less than a header, or more than this command may have.
    #[error("a message of command {command} with {size} bytes")]
    Size {
        command: u16,
        /// The size in the header, in bytes.
        size: u32,
    },
    /// A reply, although nothing was asked.
    #[error("a reply to nothing, flags {0:#x}")]
    Kind(u32),
}

/// A message that is answered with an error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refused(pub i32);

const INVALID: Refused = Refused(libc::EINVAL);
const UNSUPPORTED: Refused = Refused(libc::EOPNOTSUPP);

/// Bytes of a region; 0 if it does not exist.
#[must_use]
pub const fn region_len(region: u32) -> u64 {
    match region {
        VFIO_PCI_BAR0_REGION_INDEX => config_space::BAR0_LEN,
        VFIO_PCI_BAR3_REGION_INDEX => config_space::BAR3_LEN,
        VFIO_PCI_CONFIG_REGION_INDEX => config_space::LEN as u64,
        _ => 0,
    }
}

/// Returns the number of bytes that follow a header, at most [`LONGEST`].
///
/// # Errors
/// [`BadHeader`]: it is unknown where the next message begins, or it is too far away.
pub fn body_len(header: &Header) -> Result<usize, BadHeader> {
    if header.flags & KIND != 0 {
        return Err(BadHeader::Kind(header.flags));
    }
    let most = match header.command {
        VERSION => size_of::<Version>() + TEXT,
        REGION_WRITE => LONGEST,
        _ => SHORT,
    };
    let body = (header.size as usize).checked_sub(HEADER);
    body.filter(|body| *body <= most).ok_or(BadHeader::Size {
        command: header.command,
        size: header.size,
    })
}

/// The error reply to a message, whose command may be unknown.
#[must_use]
pub fn refusal(header: &Header, refused: Refused) -> Header {
    Header {
        size: HEADER as u32,
        flags: REPLY | ERROR,
        error: refused.0.unsigned_abs(),
        ..*header
    }
}

/// Carries out a message. The reply is left in `reply`, which is empty if none is wanted.
pub fn answer(
    function: &mut impl Function,
    header: &Header,
    body: &[u8],
    fds: Vec<File>,
    reply: &mut Vec<u8>,
) {
    reply.clear();
    // The header is filled in when the length is known.
    reply.extend([0; HEADER]);
    let done = obey(function, header, body, fds, reply);
    // A user that wants no reply cannot receive one, not even an error. A question that wants no
    // reply is the user's mistake; it gets an error reply, because the user waits.
    if header.flags & NO_REPLY != 0 && !asks(header.command) {
        reply.clear();
        return;
    }
    let first = match done {
        Ok(()) => Header {
            size: reply.len() as u32,
            flags: REPLY,
            error: 0,
            ..*header
        },
        Err(refused) => {
            reply.truncate(HEADER);
            refusal(header, refused)
        }
    };
    if let Some(place) = reply.get_mut(..HEADER) {
        place.copy_from_slice(first.as_bytes());
    }
}

fn obey(
    function: &mut impl Function,
    header: &Header,
    body: &[u8],
    fds: Vec<File>,
    reply: &mut Vec<u8>,
) -> Result<(), Refused> {
    if asks(header.command) && header.flags & NO_REPLY != 0 {
        return Err(INVALID);
    }
    match header.command {
        VERSION => version(body, reply),
        DMA_MAP => {
            let (map, _) = parse::<DmaMap>(body)?;
            let mut fds = fds;
            if fds.len() > 1 || map.flags & !(MAP_READ | MAP_WRITE) != 0 {
                return Err(INVALID);
            }
            function.map(&map, fds.pop());
            Ok(())
        }
        DMA_UNMAP => {
            let (unmap, _) = parse::<DmaUnmap>(body)?;
            // Success would tell the user that the device no longer uses the memory.
            if unmap.flags & !UNMAP_ALL != 0 {
                return Err(INVALID);
            }
            match (unmap.flags, unmap.size) {
                (0, 0) => return Err(INVALID),
                (0, size) => function.unmap(unmap.address, size),
                _ => function.unmap(0, u64::MAX),
            }
            reply.extend(unmap.as_bytes());
            Ok(())
        }
        DEVICE_GET_INFO => {
            parse::<DeviceInfo>(body)?;
            let info = DeviceInfo {
                argsz: size_of::<DeviceInfo>() as u32,
                flags: VFIO_DEVICE_FLAGS_PCI | VFIO_DEVICE_FLAGS_RESET,
                regions: VFIO_PCI_NUM_REGIONS,
                irqs: VFIO_PCI_NUM_IRQS,
            };
            reply.extend(info.as_bytes());
            Ok(())
        }
        DEVICE_GET_REGION_INFO => {
            let (asked, _) = parse::<RegionInfo>(body)?;
            reply.extend(region(asked.index)?.as_bytes());
            Ok(())
        }
        DEVICE_GET_IRQ_INFO => {
            let (asked, _) = parse::<IrqInfo>(body)?;
            reply.extend(irqs(asked.index, function.vectors())?.as_bytes());
            Ok(())
        }
        DEVICE_SET_IRQS => {
            let (set, _) = parse::<SetIrqs>(body)?;
            if set.index >= VFIO_PCI_NUM_IRQS {
                return Err(INVALID);
            }
            if set.flags & VFIO_IRQ_SET_DATA_BOOL != 0 {
                return Err(UNSUPPORTED);
            }
            function.set_irqs(&set, fds);
            Ok(())
        }
        REGION_READ => {
            let (access, _) = parse::<RegionAccess>(body)?;
            let bytes = within_region(&access)?;
            reply.extend(access.as_bytes());
            let start = reply.len();
            reply.resize(start + bytes, 0);
            let data = reply.get_mut(start..).unwrap_or_default();
            function.read(access.region, access.offset, data);
            Ok(())
        }
        REGION_WRITE => {
            let (access, data) = parse::<RegionAccess>(body)?;
            let bytes = within_region(&access)?;
            let data = data.get(..bytes).ok_or(INVALID)?;
            function.write(access.region, access.offset, data);
            if header.flags & NO_REPLY == 0 {
                function.settle();
            }
            reply.extend(access.as_bytes());
            Ok(())
        }
        DEVICE_RESET => {
            function.reset();
            Ok(())
        }
        _ => Err(UNSUPPORTED),
    }
}

/// Whether a command needs a reply.
const fn asks(command: u16) -> bool {
    matches!(
        command,
        VERSION | DEVICE_GET_INFO | DEVICE_GET_REGION_INFO | DEVICE_GET_IRQ_INFO | REGION_READ
    )
}

/// The structure at the start of a body, and what follows it.
fn parse<M: FromBytes>(body: &[u8]) -> Result<(M, &[u8]), Refused> {
    M::read_from_prefix(body).map_err(|_| INVALID)
}

/// Agrees on a version. The text is only checked, because nothing in it changes what this side
/// does.
fn version(body: &[u8], reply: &mut Vec<u8>) -> Result<(), Refused> {
    let (theirs, text) = parse::<Version>(body)?;
    if theirs.major != 0 {
        return Err(UNSUPPORTED);
    }
    if let Some((last, text)) = text.split_last() {
        let is_json = serde_json::from_slice::<serde::de::IgnoredAny>(text).is_ok();
        if *last != 0 || !is_json {
            return Err(INVALID);
        }
    }
    let ours = Version {
        major: 0,
        // The version of this server, or the user's if that is older.
        minor: theirs.minor.min(1),
    };
    let text = serde_json::json!({
        "capabilities": {
            "max_msg_fds": ANNOUNCED_FDS,
            "max_data_xfer_size": MOST_DATA,
            "migration": { "pgsize": 4096 },
        }
    });
    reply.extend(ours.as_bytes());
    reply.extend(text.to_string().as_bytes());
    reply.push(0);
    Ok(())
}

fn region(index: u32) -> Result<RegionInfo, Refused> {
    if index >= VFIO_PCI_NUM_REGIONS {
        return Err(INVALID);
    }
    let size = region_len(index);
    let both = VFIO_REGION_INFO_FLAG_READ | VFIO_REGION_INFO_FLAG_WRITE;
    Ok(RegionInfo {
        argsz: size_of::<RegionInfo>() as u32,
        flags: if size == 0 { 0 } else { both },
        index,
        cap_offset: 0,
        size,
        offset: 0,
    })
}

/// The kinds of interrupt of a PCI function, of which only MSI-X exists here.
fn irqs(index: u32, vectors: u32) -> Result<IrqInfo, Refused> {
    if index >= VFIO_PCI_NUM_IRQS {
        return Err(INVALID);
    }
    let is_msix = index == VFIO_PCI_MSIX_IRQ_INDEX;
    Ok(IrqInfo {
        argsz: size_of::<IrqInfo>() as u32,
        flags: if is_msix { VFIO_IRQ_INFO_EVENTFD } else { 0 },
        index,
        count: if is_msix { vectors } else { 0 },
    })
}

/// The size of an access in bytes, if all of it is in the region and one message may have that
/// many.
fn within_region(access: &RegionAccess) -> Result<usize, Refused> {
    let end = access.offset.checked_add(access.count.into());
    let within = end.is_some_and(|end| end <= region_len(access.region));
    if within && access.count <= MOST_DATA {
        Ok(access.count as usize)
    } else {
        Err(INVALID)
    }
}

#[cfg(test)]
mod tests;
