//! Requester, transmit side: starts entries, sends their packets, retransmits and completes them.

use super::config::QpConfig;
use super::engine::Stop;
use super::host::{Fault, Host, Invalidator, Ring, Sent};
use super::plain;
use super::progress::acknowledge;
use super::psn;
use super::read_ahead::read_ahead;
use super::ring::{decode_send, first_send_quantum, send_slot};
use super::segment::{self, Segment};
use super::state::{Cursor, Mode, QpRcState, Requester, Timer};
use super::timing::{MAX_OUTSTANDING, READ_CHUNK_PACKETS, ack_every, cost};
use crate::wire::{Headers, Opcode};
use crate::wqe::{AeCode, AeSource, Operation, SendWqe};

/// Longest message in bytes (data-path 5.1).
pub(super) const MAX_MESSAGE: u64 = 0x7FFF_FFFF;

/// The reason why the next packet cannot be sent.
enum Step {
    Done,
    Blocked,
}

/// Packets of an entry; 0 for one that does not use the wire.
pub(super) fn packets(config: &QpConfig, wqe: &SendWqe) -> u32 {
    message_len(wqe).map_or(0, |len| psn::packets(len, config.mtu.bytes()))
}

/// Bytes that an entry transfers; `None` for one that does not use the wire.
pub(super) fn message_len(wqe: &SendWqe) -> Option<u64> {
    match &wqe.operation {
        Operation::Send { payload, .. } | Operation::Write { payload, .. } => Some(payload.total()),
        Operation::Read { sink, .. } => Some(sink.total()),
        _ => None,
    }
}

impl Cursor {
    /// The position behind an entry whose packets end before `first_psn`.
    pub(super) fn behind(self, wqe: &SendWqe, first_psn: u32) -> Self {
        self.behind_quanta(wqe.quanta, message_len(wqe).is_some(), first_psn)
    }

    /// The position behind a kept entry.
    pub(super) fn behind_sent(self, sent: &Sent, first_psn: u32) -> Self {
        self.behind_quanta(sent.quanta, sent.message, first_psn)
    }

    pub(super) fn behind_quanta(self, quanta: u8, message: bool, first_psn: u32) -> Self {
        Self {
            pos: self.pos + u64::from(quanta),
            first_psn,
            messages: psn::add(self.messages, message.into()),
        }
    }
}

/// Packet index behind the read request that covers packet `index` of a read of `count` packets.
pub(super) fn read_chunk_end(index: u32, count: u32) -> u32 {
    (index / READ_CHUNK_PACKETS + 1)
        .saturating_mul(READ_CHUNK_PACKETS)
        .min(count)
}

/// Blames the send queue at a position.
pub(super) fn blame(config: &QpConfig, code: AeCode, pos: u64) -> Stop {
    Stop::new(code, AeSource::SendQueue, send_slot(config, pos).0)
}

/// Sends as much as window, fences and budget permit. `true` if only the budget stopped it.
pub(super) fn poll<H: Host + ?Sized>(
    state: &mut QpRcState,
    host: &mut H,
    budget: &mut u32,
) -> Result<bool, Stop> {
    let mut ahead = host.reads_ahead().then_some(state.requester.next.pos);
    loop {
        if ahead.is_some_and(|seen| seen <= state.requester.next.pos) {
            ahead = Some(read_ahead(state, host, *budget)?);
        }
        let QpRcState {
            config,
            requester,
            mode,
            ..
        } = state;
        if matches!(requester.timer, Timer::NotReady(_)) {
            return Ok(false);
        }
        let at = requester.next;
        let begun = requester.next_psn != at.first_psn || at.pos < requester.max_pos;
        if *mode == Mode::Sqd && !begun {
            return Ok(false);
        }
        let slot = send_slot(config, at.pos);
        let (index, _) = slot;
        let Some(first) = first_send_quantum(slot, host)? else {
            return Ok(false);
        };
        if host.takes_shortcuts()
            && *budget != 0
            && let Some(len) = plain::send(config, requester, &first, slot, host)?
        {
            *budget = budget.saturating_sub(cost(len));
            continue;
        }
        let wqe = decode_send(slot, first, host)
            .map_err(|error| Stop::fetch(error, AeSource::SendQueue, index))?;
        if message_len(&wqe).is_some_and(|len| len > MAX_MESSAGE) {
            return Err(blame(config, AeCode::WQE_INVALID_PARAMETER, at.pos));
        }
        if requester.next_psn == at.first_psn && requester.fenced(&wqe) {
            return Ok(false);
        }
        if *budget == 0 {
            return Ok(true);
        }
        if !begun && !wqe.lints.is_empty() {
            host.lint(Ring::Send, index, wqe.lints);
        }
        let step = match &wqe.operation {
            Operation::Send { .. } | Operation::Write { .. } => {
                send_message(config, requester, &wqe, index, host, budget)?
            }
            Operation::Read { .. } => send_read(config, requester, &wqe, host, budget)?,
            _ => {
                *budget -= 1;
                execute(config, requester, &wqe, index, host)?;
                Step::Done
            }
        };
        if matches!(step, Step::Blocked) {
            return Ok(false);
        }
    }
}

impl Requester {
    /// True if a fence of the entry at `next` holds it back. Either fence waits for completions,
    /// not just answers.
    fn fenced(&self, wqe: &SendWqe) -> bool {
        wqe.local_fence && self.una.pos != self.next.pos || wqe.read_fence && self.reads != 0
    }

    /// Moves `next` behind an entry.
    fn pass(&mut self, wqe: &SendWqe) {
        self.next = self.next.behind(wqe, self.next_psn);
        self.max_pos = self.max_pos.max(self.next.pos);
    }

    /// True if the entry at `next` uses a receive and the peer has not announced one for it.
    pub(super) fn is_out_of_credit(&self, config: &QpConfig) -> bool {
        let number = psn::add(self.next.messages, 1);
        config.obeys_credits && self.limit.is_some_and(|limit| psn::before(limit, number))
    }

    /// Uses `count` PSNs, and starts the timer if it is stopped.
    pub(super) fn use_psns(&mut self, config: &QpConfig, count: u32, now: u64) {
        self.next_psn = psn::add(self.next_psn, count);
        if psn::before(self.max_psn, self.next_psn) {
            self.max_psn = self.next_psn;
        }
        if self.timer == Timer::Off {
            self.timer = Timer::Retransmit(now.saturating_add(config.retransmit_ns));
        }
    }

    /// PSNs used and not acknowledged, counted up to the next one to send.
    pub(super) fn in_flight(&self) -> u32 {
        psn::distance(self.next_psn, self.una_psn)
    }

    /// The peer has responded: restarts the retry counters and the timer.
    pub(super) fn progress(&mut self, config: &QpConfig, now: u64) {
        self.retries = 0;
        self.rnr_retries = 0;
        self.recovering = false;
        self.timer = if self.una_psn == self.max_psn {
            Timer::Off
        } else {
            Timer::Retransmit(now.saturating_add(config.retransmit_ns))
        };
    }

    /// Restarts sending at the oldest unacknowledged packet.
    pub(super) fn rewind(&mut self) {
        self.next = self.una;
        self.next_psn = self.una_psn;
        self.reads = 0;
    }
}

/// Whether a message uses a receive of the peer.
fn takes_receive(wqe: &SendWqe) -> bool {
    match &wqe.operation {
        Operation::Send { .. } => true,
        Operation::Write { immediate, .. } => immediate.is_some(),
        _ => false,
    }
}

/// Sends the packets of a send or write from `next_psn` on.
fn send_message<H: Host + ?Sized>(
    config: &QpConfig,
    requester: &mut Requester,
    wqe: &SendWqe,
    wqe_index: u16,
    host: &mut H,
    budget: &mut u32,
) -> Result<Step, Stop> {
    let mtu = config.mtu.bytes();
    let len = message_len(wqe).unwrap_or_default();
    let count = psn::packets(len, mtu);
    let every = ack_every(config.window);
    // Without credit one packet at a time is tried, and must be answered.
    let tries = takes_receive(wqe) && requester.is_out_of_credit(config);
    loop {
        if *budget == 0 {
            // The caller checks the budget before it sends more.
            return Ok(Step::Done);
        }
        if requester.in_flight() >= if tries { 1 } else { config.window } {
            return Ok(Step::Blocked);
        }
        let index = psn::distance(requester.next_psn, requester.next.first_psn);
        let offset = u64::from(index) * u64::from(mtu);
        let mut segment = Segment {
            index,
            count,
            psn: requester.next_psn,
            offset,
            // At most one MTU.
            len: (len.saturating_sub(offset)).min(u64::from(mtu)) as u32,
            ack_request: requester.next_psn % every == every - 1,
        };
        segment.ack_request |= segment.ends() || tries;
        segment::transmit(config, wqe, wqe_index, segment, host)?;
        *budget = budget.saturating_sub(cost(segment.len));
        requester.use_psns(config, 1, host.now_ns());
        if segment.ends() {
            host.remember(Sent {
                pos: requester.next.pos,
                quanta: wqe.quanta,
                opcode: wqe.opcode,
                signaled: wqe.signaled,
                message: true,
                packets: count,
            });
            requester.pass(wqe);
            return Ok(Step::Done);
        }
    }
}

/// Sends one read request for the missing part of a read (all of it, the first time).
fn send_read<H: Host + ?Sized>(
    config: &QpConfig,
    requester: &mut Requester,
    wqe: &SendWqe,
    host: &mut H,
    budget: &mut u32,
) -> Result<Step, Stop> {
    let Operation::Read { sink, remote, .. } = &wqe.operation else {
        return Ok(Step::Done);
    };
    if config.ord == 0 {
        return Err(blame(
            config,
            AeCode::RDMA_READ_WHILE_ORD_ZERO,
            requester.next.pos,
        ));
    }
    let mtu = u64::from(config.mtu.bytes());
    let total = sink.total();
    let count = psn::packets(total, config.mtu.bytes());
    let index = psn::distance(requester.next_psn, requester.next.first_psn);
    let end = read_chunk_end(index, count);
    let answers = end.saturating_sub(index);
    if requester.reads >= u16::from(config.ord) || requester.in_flight() + answers > MAX_OUTSTANDING
    {
        return Ok(Step::Blocked);
    }
    let offset = u64::from(index) * mtu;
    // A read is shorter than 2^31.
    let len = (u64::from(end) * mtu).min(total).saturating_sub(offset) as u32;
    let mut headers = Headers::new(segment::bth(
        config,
        Opcode::READ_REQUEST,
        requester.next_psn,
    ));
    headers.bth.ack_request = true;
    headers.reth = Some(segment::reth(remote, offset, len));
    let frame = segment::frame(&config.path, &headers, 0, host)?;
    host.transmit(frame.seal());
    *budget -= 1;
    requester.reads += 1;
    requester.use_psns(config, answers, host.now_ns());
    if end >= count {
        requester.pass(wqe);
    }
    Ok(Step::Done)
}

/// Executes an entry that does not use the wire, unless that was done before going back.
fn execute<H: Host + ?Sized>(
    config: &QpConfig,
    requester: &mut Requester,
    wqe: &SendWqe,
    wqe_index: u16,
    host: &mut H,
) -> Result<(), Stop> {
    if requester.next.pos >= requester.max_pos {
        let result: Result<(), Fault> = match &wqe.operation {
            Operation::LocalInvalidate { stag } => host.invalidate(*stag, Invalidator::Local),
            operation @ (Operation::BindWindow { .. } | Operation::FastRegister { .. }) => {
                host.local_operation(operation)
            }
            Operation::GenerateRtsAe => Err(Fault::Stag(AeCode::WQE_UNEXPECTED_OPCODE)),
            _ => Ok(()),
        };
        result.map_err(|fault| Stop::fault(fault, AeSource::SendQueue, wqe_index))?;
    }
    requester.pass(wqe);
    let target = requester.una_psn;
    acknowledge(config, requester, target, host).map(|_| ())
}
