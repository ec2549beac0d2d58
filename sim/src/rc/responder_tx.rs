//! Responder, transmit side: read responses, acknowledges and NAKs, in PSN order.

use super::engine::Stop;
use super::host::{Fault, Host};
use super::state::{Ack, QpRcState, Refusal};
use super::{inbound_reads, psn, segment};
use crate::wire::{Aeth, Headers, Nak, Opcode, Syndrome};
use crate::wqe::AeSource;

/// The NAK that reports a failed access to this memory to the peer.
pub(super) fn nak_for(fault: Fault) -> Nak {
    match fault {
        Fault::Stag(_) => Nak::RemoteAccess,
        Fault::Host(_) => Nak::RemoteOperation,
    }
}

/// Sends read responses, then acknowledges and NAKs, in PSN order. `true` if only the budget
/// stopped it.
///
/// # Errors
/// The reason to stop, after the NAK that tells the peer.
pub(super) fn poll<H: Host + ?Sized>(
    state: &mut QpRcState,
    host: &mut H,
    budget: &mut u32,
) -> Result<bool, Stop> {
    let acknowledged = Syndrome::Ack(state.config.credits);
    while let Some(psn) = inbound_reads::next_response(state, host)? {
        let earlier = |ack: &mut Ack| psn::before(ack.psn, psn);
        if let Some(ack) = state.responder.ack.take_if(earlier) {
            answer(state, ack, acknowledged, host)?;
        }
        if *budget == 0 {
            return Ok(true);
        }
        if let Err(inbound_reads::Failed { at, fault }) =
            inbound_reads::respond(state, host, budget)?
        {
            answer(state, at, Syndrome::Nak(nak_for(fault)), host)?;
            return Err(Stop::fault(fault, AeSource::OutboundReadResponse, 0));
        }
    }
    let expected = Ack {
        psn: state.responder.epsn,
        msn: state.responder.msn,
    };
    let ack = state.responder.ack.take();
    match state.responder.refusal {
        Refusal::Sequence { sent: false } => {
            state.responder.refusal = Refusal::Sequence { sent: true };
            answer(state, expected, Syndrome::Nak(Nak::Sequence), host)?;
        }
        Refusal::NotReady { sent: false } => {
            state.responder.refusal = Refusal::NotReady { sent: true };
            let wait = Syndrome::RnrNak(state.config.rnr_timer);
            answer(state, expected, wait, host)?;
        }
        Refusal::Fatal { psn, nak, event } => {
            answer(state, Ack { psn, ..expected }, Syndrome::Nak(nak), host)?;
            return Err(Stop(event));
        }
        // A NAK acknowledges everything before it; otherwise the acknowledge is still to be sent.
        Refusal::None | Refusal::Sequence { sent: true } | Refusal::NotReady { sent: true } => {
            if let Some(ack) = ack {
                answer(state, ack, acknowledged, host)?;
            }
        }
    }
    Ok(false)
}

fn answer<H: Host + ?Sized>(
    state: &QpRcState,
    Ack { psn, msn }: Ack,
    syndrome: Syndrome,
    host: &mut H,
) -> Result<(), Stop> {
    let config = &state.config;
    let mut headers = Headers::new(segment::bth(config, Opcode::ACKNOWLEDGE, psn));
    headers.aeth = Some(Aeth { syndrome, msn });
    let frame = segment::frame(&config.path, &headers, 0, host)?;
    host.transmit(frame.seal());
    Ok(())
}
