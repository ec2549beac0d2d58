//! Ring positions and fetch of queue entries.

use super::config::QpConfig;
use super::host::{Host, HostFault, Ring};
use crate::wqe::{
    MAX_QUANTA, QUANTUM, QUANTUM_WORDS, ReceiveWqe, SendWqe, Service, WqeError, is_valid,
    send_quanta,
};

/// Why an entry cannot be fetched.
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
    if size.is_power_of_two() {
        // The common case, without a division.
        return (pos & (size - 1), pos & size == 0);
    }
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
    let slot = send_slot(config, pos);
    match first_send_quantum(slot, host)? {
        Some(first) => decode_send(slot, first, host).map(Some),
        None => Ok(None),
    }
}

/// The first quantum of the send queue entry in a slot, if software has made it valid.
pub(super) fn first_send_quantum<H: Host + ?Sized>(
    (index, polarity): (u16, bool),
    host: &mut H,
) -> Result<Option<[u64; QUANTUM_WORDS]>, HostFault> {
    let words = host.load_quantum(Ring::Send, u32::from(index) * QUANTUM as u32)?;
    let [.., header] = words;
    Ok(is_valid(header, polarity).then_some(words))
}

/// The send queue entry in a slot whose first quantum has been read.
pub(super) fn decode_send<H: Host + ?Sized>(
    (index, polarity): (u16, bool),
    first: [u64; QUANTUM_WORDS],
    host: &mut H,
) -> Result<SendWqe, FetchError> {
    let offset = u32::from(index) * QUANTUM as u32;
    let [.., header] = first;
    let quanta = send_quanta(header)?;
    if usize::from(index) % MAX_QUANTA + usize::from(quanta) > MAX_QUANTA {
        return Err(WqeError::CrossesChunk { index, quanta }.into());
    }
    let decode = |words: &[u64]| SendWqe::decode(words, polarity, Service::Connected);
    if quanta == 1 {
        return Ok(decode(&first)?);
    }
    let mut words = [0; MAX_QUANTA * QUANTUM_WORDS];
    let words = rest(Ring::Send, offset, first, quanta, &mut words, host)?;
    Ok(decode(words)?)
}

/// The words of an entry of several quanta whose first quantum has been read.
fn rest<'a, H: Host + ?Sized>(
    ring: Ring,
    offset: u32,
    first: [u64; QUANTUM_WORDS],
    quanta: u8,
    words: &'a mut [u64; MAX_QUANTA * QUANTUM_WORDS],
    host: &mut H,
) -> Result<&'a [u64], HostFault> {
    let words = words
        .get_mut(..usize::from(quanta) * QUANTUM_WORDS)
        .unwrap_or_default();
    if let Some((head, others)) = words.split_first_chunk_mut() {
        *head = first;
        host.read_ring(ring, offset + QUANTUM as u32, others)?;
    }
    Ok(words)
}

/// The receive in slot `pos`, or `None` if software has not made it valid.
pub(super) fn fetch_receive<H: Host + ?Sized>(
    config: &QpConfig,
    pos: u64,
    host: &mut H,
) -> Result<Option<ReceiveWqe>, FetchError> {
    let (index, polarity) = receive_slot(config, pos);
    let offset = u32::from(index) * QUANTUM as u32;
    let first = host.load_quantum(Ring::Receive, offset)?;
    let [.., header] = first;
    if !is_valid(header, polarity) {
        return Ok(None);
    }
    if config.rq_slot_quanta == 1 {
        return Ok(Some(ReceiveWqe::decode(&first, polarity)?));
    }
    let mut words = [0; MAX_QUANTA * QUANTUM_WORDS];
    let quanta = config.rq_slot_quanta;
    let words = rest(Ring::Receive, offset, first, quanta, &mut words, host)?;
    Ok(Some(ReceiveWqe::decode(words, polarity)?))
}
