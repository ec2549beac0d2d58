//! A ping-pong between two functions: connect, exchange, verify every byte.
//!
//! Generic over the platform, so that every backend runs the same exchange.
//! One thread drives both sides: it posts, then polls both completion queues
//! and both event queues until the message has arrived.

use anyhow::{Context, Result, bail, ensure};
use e810::{
    AccessFlags, Control, Cq, Data, EventSet, Mr, Pd, Platform, Qp, QpAttr, QpCaps, QpInit, Qpn,
    RecvWr, Remote, SendFlags, SendWr, Sge, Wc, WcOpcode, WcStatus,
};
use e810_hal::{Ns, SharedBytes};

use crate::buffer::{Buffer, Payload};
use crate::cli::Op;
use crate::latency::Latencies;
use crate::payload::{self, Direction};
use crate::progress::Progress;

/// What to exchange.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Plan {
    /// The operation.
    pub op: Op,
    /// Bytes of payload in a message.
    pub size: u32,
    /// Messages (for `send` and `write`: exchanges of one message each way).
    pub iterations: u64,
    /// Seed of the payload.
    pub seed: u64,
}

/// What was exchanged.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Iterations whose every byte was as expected, both ways.
    pub verified: u64,
    /// Iterations with a difference or a failed completion.
    pub errors: u64,
    /// One sample an iteration: half the round trip for `send`, post to
    /// completion for `write` and `read`.
    pub latencies: Latencies,
    /// Messages that crossed the wire carrying payload.
    pub messages: u64,
    /// Time of the exchange alone.
    pub elapsed: Ns,
}

/// How long one message may take before the run is given up. Far above any
/// retry time of the transport; a real failure arrives as an event first.
const MESSAGE_LIMIT: Ns = Ns::from_ms(10_000);

/// Receives kept posted on each side.
const RECEIVES: u64 = 4;

/// One side of the exchange.
#[derive(Debug)]
pub struct Side<P: Platform> {
    platform: P,
    control: Control<P>,
    events: EventSet<P>,
    pd: Pd,
    cq: Cq<P>,
    qp: Qp<P>,
    mr: Mr<P>,
    buffer: Buffer,
    size: u32,
    receives: u64,
}

/// What one side tells the other before they connect.
#[derive(Clone, Copy, Debug)]
pub struct Endpoint {
    /// Queue pair number.
    pub qpn: Qpn,
    /// First packet sequence number this side sends.
    pub psn: u32,
    /// Address of the buffer the peer may read and write.
    pub address: u64,
    /// Its remote key.
    pub rkey: u32,
}

impl<P: Platform> Side<P> {
    /// Makes PD, CQ, QP and registered memory on a ready device.
    ///
    /// # Errors
    /// What the device refused, and which object.
    pub fn new(platform: P, mut control: Control<P>, events: EventSet<P>, size: u32) -> Result<Self>
    where
        P: Payload,
    {
        // First half: what is sent; second half: where it arrives.
        let buffer = platform.payload(size as usize * 2)?;
        let pd = control.alloc_pd()?;
        let cq = control.create_cq(64, 0)?;
        let access =
            AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_WRITE | AccessFlags::REMOTE_READ;
        let mr = control.reg_mr(&pd, buffer.bytes(), access)?;
        let init = QpInit {
            send_cq: &cq,
            recv_cq: &cq,
            caps: QpCaps {
                max_send_wr: 16,
                max_recv_wr: 16,
                max_send_sge: 1,
                max_recv_sge: 1,
                max_inline: 0,
            },
        };
        let qp = control.create_qp(&pd, &init)?;
        Ok(Self {
            platform,
            control,
            events,
            pd,
            cq,
            qp,
            mr,
            buffer,
            size,
            receives: 0,
        })
    }

    /// What the peer needs to know.
    #[must_use]
    pub fn endpoint(&self) -> Endpoint {
        Endpoint {
            qpn: self.qp.number(),
            psn: 0x10_0000 | self.qp.number().get(),
            address: self.mr.address(),
            rkey: self.mr.rkey(),
        }
    }

    /// Takes the QP to RTS, towards the peer.
    ///
    /// # Errors
    /// The transition that failed.
    pub fn connect(&mut self, peer: &Endpoint, path: e810::Path, mtu: e810::Mtu) -> Result<()> {
        let psn = self.endpoint().psn;
        let access = AccessFlags::REMOTE_WRITE | AccessFlags::REMOTE_READ;
        for attr in [
            QpAttr::to_init(access),
            QpAttr::to_rtr(path, mtu, peer.qpn, peer.psn),
            QpAttr::to_rts(psn),
        ] {
            self.control.modify_qp(&mut self.qp, &attr)?;
        }
        Ok(())
    }

    fn outgoing(&self) -> Result<SharedBytes> {
        Ok(self.buffer.bytes().window(0, self.size as usize)?)
    }

    fn incoming(&self) -> Result<SharedBytes> {
        let size = self.size as usize;
        Ok(self.buffer.bytes().window(size, size)?)
    }

    fn sge(&self, memory: SharedBytes) -> Sge {
        Sge {
            addr: memory.address(),
            length: self.size,
            lkey: self.mr.lkey(),
        }
    }

    fn post_receives(&mut self) -> Result<()> {
        let sge = self.sge(self.incoming()?);
        while self.receives < RECEIVES {
            let sges = [sge];
            self.qp.post_recv(&[RecvWr {
                wr_id: self.receives,
                sges: &sges,
            }])?;
            self.receives += 1;
        }
        Ok(())
    }

    fn post(&mut self, op: Op, number: u64, peer: &Endpoint) -> Result<()> {
        let outgoing = [self.sge(self.outgoing()?)];
        let incoming = [self.sge(self.incoming()?)];
        let data = Data::Sges(&outgoing);
        let op = match op {
            Op::Send => e810::Op::Send { data, imm: None },
            Op::Write => e810::Op::Write {
                data,
                // Into the peer's incoming half.
                remote: Remote {
                    addr: peer.address + u64::from(self.size),
                    rkey: peer.rkey,
                },
                imm: None,
            },
            Op::Read => e810::Op::Read {
                into: &incoming,
                // From the peer's outgoing half.
                remote: Remote {
                    addr: peer.address,
                    rkey: peer.rkey,
                },
            },
        };
        self.qp.post_send(&[SendWr {
            wr_id: number,
            op,
            flags: SendFlags::SIGNALED,
        }])?;
        Ok(())
    }

    /// One look at the completion queue, the events and the deferred work.
    fn turn(&mut self, wcs: &mut [Wc]) -> Result<usize> {
        let polled = self.cq.poll(wcs);
        if polled > 0 {
            return Ok(polled);
        }
        let mut failure = None;
        for events in &mut self.events {
            events.poll(&mut |event| {
                if let e810::Event::Async(event) = event {
                    failure = Some(event);
                }
            });
        }
        self.control.service()?;
        if let Some(event) = failure {
            bail!("{event}");
        }
        Ok(0)
    }

    /// Destroys everything in order and shuts the device down.
    ///
    /// # Errors
    /// The first step that failed; what the device may still write is leaked.
    pub fn close(mut self) -> Result<()> {
        let control = &mut self.control;
        control.destroy_qp(self.qp).map_err(|(_, error)| error)?;
        control.destroy_cq(self.cq).map_err(|(_, error)| error)?;
        control.dereg_mr(self.mr).map_err(|(_, error)| error)?;
        control.dealloc_pd(self.pd).map_err(|(_, error)| error)?;
        let end = self.control.shutdown(self.events);
        end.map_err(|failed| failed.error)
            .context("shutting down")?;
        Ok(())
    }
}

/// Runs `plan` between two connected sides.
///
/// # Errors
/// A completion that failed, an asynchronous error, or a message that did not
/// arrive; differences in payload are counted, not returned.
pub fn run<P: Platform>(
    ask: &mut Side<P>,
    answer: &mut Side<P>,
    plan: &Plan,
    progress: &mut Progress,
) -> Result<Outcome> {
    let size = plan.size as usize;
    let (mut expected, mut got) = (vec![0u8; size], vec![0u8; size]);
    let (ask_end, answer_end) = (ask.endpoint(), answer.endpoint());
    let mut outcome = Outcome::default();
    if plan.op == Op::Send {
        ask.post_receives()?;
        answer.post_receives()?;
    }
    let start = ask.platform.now();
    for number in 0..plan.iterations {
        let mut check = |memory, direction| {
            payload::first_difference(
                memory,
                &mut expected,
                &mut got,
                plan.seed,
                number,
                direction,
            )
            .is_none()
        };
        let mut scratch = vec![0u8; size];
        payload::fill(&mut scratch, plan.seed, number, Direction::Ask);
        let good;
        match plan.op {
            Op::Send => {
                ask.outgoing()?.write(0, &scratch)?;
                payload::fill(&mut scratch, plan.seed, number, Direction::Answer);
                answer.outgoing()?.write(0, &scratch)?;
                let posted = ask.platform.now();
                ask.post(plan.op, number, &answer_end)?;
                exchange(
                    ask,
                    answer,
                    Want {
                        ask_sent: 1,
                        answer_received: 1,
                        ..Want::default()
                    },
                )?;
                let there = check(answer.incoming()?, Direction::Ask);
                answer.post_receives()?;
                answer.post(plan.op, number, &ask_end)?;
                exchange(
                    ask,
                    answer,
                    Want {
                        answer_sent: 1,
                        ask_received: 1,
                        ..Want::default()
                    },
                )?;
                let round_trip = ask.platform.now() - posted;
                outcome.latencies.add(round_trip.0 / 2);
                good = check(ask.incoming()?, Direction::Answer) && there;
                ask.post_receives()?;
                outcome.messages += 2;
            }
            Op::Write => {
                ask.outgoing()?.write(0, &scratch)?;
                let posted = ask.platform.now();
                ask.post(plan.op, number, &answer_end)?;
                exchange(
                    ask,
                    answer,
                    Want {
                        ask_sent: 1,
                        ..Want::default()
                    },
                )?;
                outcome.latencies.add((ask.platform.now() - posted).0);
                let there = check(answer.incoming()?, Direction::Ask);
                payload::fill(&mut scratch, plan.seed, number, Direction::Answer);
                answer.outgoing()?.write(0, &scratch)?;
                answer.post(plan.op, number, &ask_end)?;
                exchange(
                    ask,
                    answer,
                    Want {
                        answer_sent: 1,
                        ..Want::default()
                    },
                )?;
                good = check(ask.incoming()?, Direction::Answer) && there;
                outcome.messages += 2;
            }
            Op::Read => {
                answer.outgoing()?.write(0, &scratch)?;
                let posted = ask.platform.now();
                ask.post(plan.op, number, &answer_end)?;
                exchange(
                    ask,
                    answer,
                    Want {
                        ask_sent: 1,
                        ..Want::default()
                    },
                )?;
                outcome.latencies.add((ask.platform.now() - posted).0);
                good = check(ask.incoming()?, Direction::Ask);
                outcome.messages += 1;
            }
        }
        if good {
            outcome.verified += 1;
        } else {
            outcome.errors += 1;
        }
        progress.at(number + 1);
    }
    outcome.elapsed = ask.platform.now() - start;
    Ok(outcome)
}

/// Completions still wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Want {
    ask_sent: u32,
    ask_received: u32,
    answer_sent: u32,
    answer_received: u32,
}

/// Polls both sides until the wanted completions are there.
fn exchange<P: Platform>(ask: &mut Side<P>, answer: &mut Side<P>, mut want: Want) -> Result<()> {
    let start = ask.platform.now();
    let mut wcs = [Wc::default(); 8];
    while want != Want::default() {
        let polled = ask.turn(&mut wcs)?;
        for wc in wcs.iter().take(polled) {
            ask.take(wc, &mut want.ask_sent, &mut want.ask_received)
                .context("on the asking side")?;
        }
        let polled_there = answer.turn(&mut wcs)?;
        for wc in wcs.iter().take(polled_there) {
            answer
                .take(wc, &mut want.answer_sent, &mut want.answer_received)
                .context("on the answering side")?;
        }
        if polled + polled_there == 0 {
            let waited = ask.platform.now() - start;
            ensure!(
                waited < MESSAGE_LIMIT,
                "no completion after {MESSAGE_LIMIT}: check that the peer's queue pair is in RTS and that packets reach it"
            );
            ask.platform.relax();
            answer.platform.relax();
        }
    }
    Ok(())
}

impl<P: Platform> Side<P> {
    fn take(&mut self, wc: &Wc, sent: &mut u32, received: &mut u32) -> Result<()> {
        ensure!(
            wc.status == WcStatus::Success,
            "request {} of queue pair {} completed with {}",
            wc.wr_id,
            wc.qp_num,
            wc.status
        );
        if is_receive(wc.opcode) {
            self.receives -= 1;
            ensure!(
                wc.byte_len == self.size,
                "{} bytes arrived where {} were sent",
                wc.byte_len,
                self.size
            );
            *received = received.saturating_sub(1);
        } else {
            *sent = sent.saturating_sub(1);
        }
        Ok(())
    }
}

const fn is_receive(opcode: WcOpcode) -> bool {
    matches!(opcode, WcOpcode::Recv | WcOpcode::RecvRdmaWithImm)
}
