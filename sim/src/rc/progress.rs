//! Requester: completes acknowledged entries and goes back after a loss.

use super::config::QpConfig;
use super::engine::Stop;
use super::host::{Host, Invalidator, SendCompletion, Sent};
use super::psn;
use super::requester::{blame, message_len, packets};
use super::ring::{fetch_send, send_slot};
use super::state::{QpRcState, Requester, Timer};
use super::timing::{RNR_RETRY_FOREVER, rnr_ns};
use crate::wqe::{AeCode, AeSource, Operation, SendWqe};

/// Takes everything before `target` as acknowledged and completes what that finishes.
///
/// `false` if a read before `target` has not been answered in full: its response is lost.
pub(super) fn acknowledge<H: Host + ?Sized>(
    config: &QpConfig,
    requester: &mut Requester,
    target: u32,
    host: &mut H,
) -> Result<bool, Stop> {
    let mut answered = true;
    let start = requester.una_psn;
    loop {
        let at = requester.una;
        let wanted = psn::before(requester.una_psn, target);
        if at.pos >= requester.max_pos && !wanted {
            break;
        }
        if at.pos < requester.max_pos
            && let Some(sent) = host.recall(at.pos)
        {
            if !acknowledge_sent(config, requester, &sent, target, host)? {
                break;
            }
            continue;
        }
        let (index, _) = send_slot(config, at.pos);
        let wqe = fetch_send(config, at.pos, host)
            .map_err(|error| Stop::fetch(error, AeSource::SendQueue, index))?
            // Software withdrew an entry before its completion.
            .ok_or_else(|| blame(config, AeCode::LOCAL_QP_CATASTROPHIC, at.pos))?;
        let count = packets(config, &wqe);
        let end = psn::add(at.first_psn, count);
        let is_read = matches!(wqe.operation, Operation::Read { .. });
        if is_read && requester.una_psn != end {
            answered = !wanted;
            break;
        }
        if wanted {
            requester.una_psn = if psn::before(target, end) {
                target
            } else {
                end
            };
        }
        if requester.una_psn != end || at.pos >= requester.max_pos {
            break;
        }
        complete(&wqe, index, end, host)?;
        requester.una = at.behind(&wqe, end);
    }
    if requester.una_psn != start {
        requester.progress(config, host.now_ns());
    }
    // Responses to an earlier transmission may arrive while sending again.
    if requester.next.pos < requester.una.pos || psn::before(requester.next_psn, requester.una_psn)
    {
        requester.next = requester.una;
        requester.next_psn = requester.una_psn;
    }
    Ok(answered)
}

/// Takes what `target` acknowledges of a kept send or write; `true` if that is all of it.
fn acknowledge_sent<H: Host + ?Sized>(
    config: &QpConfig,
    requester: &mut Requester,
    sent: &Sent,
    target: u32,
    host: &mut H,
) -> Result<bool, Stop> {
    let at = requester.una;
    let end = psn::add(at.first_psn, sent.packets);
    if psn::before(requester.una_psn, target) {
        requester.una_psn = if psn::before(target, end) {
            target
        } else {
            end
        };
    }
    if requester.una_psn != end {
        return Ok(false);
    }
    if sent.signaled {
        let (wqe_index, _) = send_slot(config, at.pos);
        host.complete_send(&SendCompletion {
            wqe_index,
            op: sent.opcode,
            psn: psn::add(end, u32::MAX),
        })?;
    }
    requester.una = at.behind_sent(sent, end);
    Ok(true)
}

fn complete<H: Host + ?Sized>(
    wqe: &SendWqe,
    wqe_index: u16,
    end: u32,
    host: &mut H,
) -> Result<(), Stop> {
    if let Operation::Read {
        sink,
        invalidate_sink: true,
        ..
    } = &wqe.operation
        && let Some(first) = sink.as_slice().first()
    {
        host.invalidate(first.stag, Invalidator::Local)
            .map_err(|fault| Stop::fault(fault, AeSource::SendQueue, wqe_index))?;
    }
    if wqe.signaled {
        let psn = if message_len(wqe).is_some() {
            psn::add(end, u32::MAX)
        } else {
            end
        };
        host.complete_send(&SendCompletion {
            wqe_index,
            op: wqe.opcode,
            psn,
        })?;
    }
    Ok(())
}

/// A sign of loss: goes back to the oldest unacknowledged packet, once per loss.
pub(super) fn go_back<H: Host + ?Sized>(
    config: &QpConfig,
    requester: &mut Requester,
    host: &mut H,
) -> Result<(), Stop> {
    if requester.recovering {
        return Ok(());
    }
    retry(config, requester, host)
}

fn retry<H: Host + ?Sized>(
    config: &QpConfig,
    requester: &mut Requester,
    host: &mut H,
) -> Result<(), Stop> {
    if requester.retries >= config.retry {
        return Err(blame(
            config,
            AeCode::LLP_TOO_MANY_RETRIES,
            requester.una.pos,
        ));
    }
    requester.retries += 1;
    requester.rewind();
    requester.recovering = true;
    requester.timer = Timer::Retransmit(host.now_ns().saturating_add(config.retransmit_ns));
    Ok(())
}

/// The responder has no receive for the packet at `una_psn`: waits for the time it requests.
pub(super) fn not_ready<H: Host + ?Sized>(
    config: &QpConfig,
    requester: &mut Requester,
    timer_code: u8,
    host: &mut H,
) -> Result<(), Stop> {
    if config.rnr_retry != RNR_RETRY_FOREVER {
        if requester.rnr_retries >= config.rnr_retry {
            return Err(blame(config, AeCode::LLP_TOO_MANY_RNRS, requester.una.pos));
        }
        requester.rnr_retries += 1;
    }
    requester.rewind();
    requester.timer = Timer::NotReady(host.now_ns().saturating_add(rnr_ns(timer_code)));
    Ok(())
}

/// The timer has expired.
pub(super) fn time_out<H: Host + ?Sized>(state: &mut QpRcState, host: &mut H) -> Result<(), Stop> {
    let QpRcState {
        config, requester, ..
    } = state;
    match requester.timer {
        Timer::NotReady(_) => {
            requester.timer = Timer::Retransmit(host.now_ns().saturating_add(config.retransmit_ns));
            Ok(())
        }
        Timer::Retransmit(_) => retry(config, requester, host),
        Timer::Off => Ok(()),
    }
}
