//! Ring positions and the fetch of entries.

use super::config::QpConfig;
use super::host::{Host, HostFault, Ring};
use crate::wqe::{
    MAX_QUANTA, QUANTUM, QUANTUM_WORDS, ReceiveWqe, SendWqe, Service, WqeError, is_valid,
    send_quanta,
};

/// Byte offset of the header word in an entry.
const HEADER: u32 = 24;

/// Why an entry cannot be had.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum FetchError {
    Wqe(WqeError),
    Host,
}

impl From<HostFault> for FetchError {
    fn from(_: HostFault) -> Self {
        Self::Host
    }
}

impl From<WqeError> for FetchError {
    fn from(error: WqeError) -> Self {
        Self::Wqe(error)
    }
}

/// Index in a ring of `size` entries, and the valid bit of the lap: 1 in the first lap.
fn place(pos: u64, size: u32) -> (u64, bool) {
    let size = u64::from(size.max(1));
    (pos % size, (pos / size).is_multiple_of(2))
}

/// Quantum index and polarity of a send queue position.
pub(super) fn send_slot(config: &QpConfig, pos: u64) -> (u16, bool) {
    let (index, polarity) = place(pos, config.sq_quanta);
    // A ring has at most 32768 quanta.
    (index as u16, polarity)
}

/// Quantum index and polarity of a receive slot.
pub(super) fn receive_slot(config: &QpConfig, pos: u64) -> (u16, bool) {
    let quanta = u32::from(config.rq_slot_quanta.max(1));
    let (index, polarity) = place(pos, config.rq_quanta / quanta);
    // A ring has at most 32768 quanta.
    (index as u16 * u16::from(config.rq_slot_quanta), polarity)
}

/// The send queue entry at `pos`, or `None` if software has not made it valid.
pub(super) fn fetch_send<H: Host + ?Sized>(
    config: &QpConfig,
    pos: u64,
    host: &mut H,
) -> Result<Option<SendWqe>, FetchError> {
    let (index, polarity) = send_slot(config, pos);
    let offset = u32::from(index) * QUANTUM as u32;
    // The header first: what is read after it is at least as new.
    let header = host.load_ring(Ring::Send, offset + HEADER)?;
    if !is_valid(header, polarity) {
        return Ok(None);
    }
    let quanta = send_quanta(header)?;
    if usize::from(index) % MAX_QUANTA + usize::from(quanta) > MAX_QUANTA {
        return Err(WqeError::CrossesChunk { index, quanta }.into());
    }
    let mut words = [0; MAX_QUANTA * QUANTUM_WORDS];
    let words = words
        .get_mut(..usize::from(quanta) * QUANTUM_WORDS)
        .unwrap_or_default();
    host.read_ring(Ring::Send, offset, words)?;
    // Software does not touch a valid header, but it is not trusted: decode what was tested.
    if let Some(word) = words.get_mut(3) {
        *word = header;
    }
    Ok(Some(SendWqe::decode(words, polarity, Service::Connected)?))
}

/// The receive in slot `pos`, or `None` if software has not made it valid.
pub(super) fn fetch_receive<H: Host + ?Sized>(
    config: &QpConfig,
    pos: u64,
    host: &mut H,
) -> Result<Option<ReceiveWqe>, FetchError> {
    let (index, polarity) = receive_slot(config, pos);
    let offset = u32::from(index) * QUANTUM as u32;
    let header = host.load_ring(Ring::Receive, offset + HEADER)?;
    if !is_valid(header, polarity) {
        return Ok(None);
    }
    let mut words = [0; MAX_QUANTA * QUANTUM_WORDS];
    let words = words
        .get_mut(..usize::from(config.rq_slot_quanta) * QUANTUM_WORDS)
        .unwrap_or_default();
    host.read_ring(Ring::Receive, offset, words)?;
    if let Some(word) = words.get_mut(3) {
        *word = header;
    }
    Ok(Some(ReceiveWqe::decode(words, polarity)?))
}
