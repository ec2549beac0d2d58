//! The long way of an entry: errors, extensions, datagrams, the end of the
//! ring, and whatever does not fit.

use e810_hal::{Barrier, Bus, Cell, Words};
use e810_types::{FlushCode, WorkQueue};

use super::entry::{Cqe, VALID, Verdict, immediate, payload_bytes, sender, vendor_error};
use super::flush::{Flush, Parked};
use super::request::Request;
use super::{CompletionQueue, NEVER, SHADOW_HEAD, received_opcode, sent_opcode};
use crate::slot::{Node, QueueLine, SlotMemory, list};
use crate::status::{WcOpcode, WcStatus};
use crate::wc::{Wc, WcFlags};

/// What became of the entry at the head.
enum Taken {
    /// There is none.
    Nothing,
    /// Its extension is still to come.
    Half,
    /// `Wc` is filled.
    Completion,
    /// Consumed, counted.
    Skipped,
    /// Consumed; it flushes the queue in `parked`.
    Flush,
}

/// Why an entry is no completion.
#[derive(Clone, Copy)]
enum Stray {
    Stale,
    Malformed,
    /// Of a request that software has completed.
    Late,
}

impl<P: Bus + Barrier, W: Words, M: SlotMemory> CompletionQueue<P, W, M> {
    /// Goes on with a poll that has given out `done` completions.
    #[inline(never)]
    pub(super) fn poll_long(&mut self, out: &mut [Wc], done: usize) -> usize {
        let done = self.poll_each(out, done);
        let idle = self.parked.is_none() && self.flushing == Node::END;
        self.settled = if idle && !self.resizes.is_pending() {
            self.passed
        } else {
            NEVER
        };
        done
    }

    fn poll_each(&mut self, out: &mut [Wc], mut done: usize) -> usize {
        // Before the ring is looked at: see `confirm`.
        let epoch = self.cq_slot().epoch();
        if self.parked.is_some() {
            let rest = out.get_mut(done..).unwrap_or_default();
            done = done.wrapping_add(self.drain_parked(rest));
        }
        let first = self.consumed();
        while let Some(wc) = out.get_mut(done) {
            match self.take(wc) {
                Taken::Completion => done = done.wrapping_add(1),
                Taken::Nothing if self.resizes.is_pending() && self.next_ring() => {}
                Taken::Nothing => return self.when_empty(epoch, out, done),
                Taken::Half => break,
                Taken::Flush => {
                    let rest = out.get_mut(done..).unwrap_or_default();
                    done = done.wrapping_add(self.drain_parked(rest));
                }
                // A device that writes rubbish for ever does not keep us here.
                Taken::Skipped => {
                    self.sender = None;
                    if self.consumed().wrapping_sub(first) > self.entries {
                        break;
                    }
                }
            }
        }
        if epoch != self.passed {
            self.when_busy(epoch);
        }
        done
    }

    /// Entries consumed since the queue was created.
    pub(super) fn consumed(&self) -> u64 {
        self.laps
            .wrapping_mul(self.entries)
            .wrapping_add(self.index)
            .wrapping_add(self.resizes.consumed)
    }

    /// Index and valid bit of the entry after the head.
    fn next(&self) -> (u64, u64) {
        let next = self.index.wrapping_add(1);
        if next >= self.entries {
            (0, self.valid ^ VALID)
        } else {
            (next, self.valid)
        }
    }

    /// Moves past the entry at the head, whose words were read before.
    fn advance(&mut self) {
        (self.index, self.valid) = self.next();
        if self.index == 0 {
            self.laps = self.laps.wrapping_add(1);
        }
        if let Some(head) = self.shadow.cells().get(SHADOW_HEAD) {
            head.publish(self.index);
        }
    }

    fn entry(&self, index: u64) -> Option<&[W::Cell; 4]> {
        let (entries, _) = self.ring.cells().as_chunks();
        entries.get(index as usize)
    }

    /// Takes the entry at the head.
    fn take(&mut self, wc: &mut Wc) -> Taken {
        let Some(words) = self.entry(self.index) else {
            return Taken::Nothing;
        };
        let [_, _, _, header] = words;
        let q3 = header.observe();
        if (q3 ^ self.valid) & VALID != 0 {
            return Taken::Nothing;
        }
        self.platform.from_device();
        let cqe = Cqe::read(words, q3);
        if !cqe.has_extension() {
            self.sender = None;
            self.advance();
            return self.finish(&cqe, None, wc);
        }
        // The extension is the next entry; in entry 0 it has the valid bit of
        // the next lap (data-path 4.2).
        let (next, valid) = self.next();
        let Some(words) = self.entry(next) else {
            return Taken::Half;
        };
        let [_, _, _, header] = words;
        let q3 = header.observe();
        if (q3 ^ valid) & VALID != 0 {
            return Taken::Half;
        }
        self.platform.from_device();
        let (imm, sender) = (immediate(words, q3), sender(words, q3));
        self.sender = sender;
        self.advance();
        self.advance();
        self.finish(&cqe, imm, wc)
    }

    /// Any entry, after it was consumed.
    fn finish(&mut self, cqe: &Cqe, imm: Option<u32>, wc: &mut Wc) -> Taken {
        let passed_over = match self.resolve(cqe, imm, wc) {
            Ok(Resolved::Completion { passed_over }) => passed_over,
            Ok(Resolved::Flush { parked, flushing }) => {
                self.parked = Some(parked);
                self.flushing = flushing;
                return Taken::Flush;
            }
            Err(stray) => {
                let counter = match stray {
                    Stray::Stale => &mut self.counters.stale,
                    Stray::Malformed => &mut self.counters.malformed,
                    Stray::Late => &mut self.counters.late,
                };
                *counter = counter.wrapping_add(1);
                return Taken::Skipped;
            }
        };
        let counter = &mut self.counters.receives_passed_over;
        *counter = counter.wrapping_add(passed_over);
        Taken::Completion
    }

    fn resolve(&self, cqe: &Cqe, imm: Option<u32>, wc: &mut Wc) -> Result<Resolved, Stray> {
        let (id, queue) = (cqe.qp_id(), cqe.queue());
        let slot = self.view.qp(id).ok_or(Stray::Stale)?;
        let line = slot.queue(queue);
        let guard = line.guard();
        if !guard.admits_any(cqe.q1, id, self.cq_id) {
            // A QP that lives, on another CQ: no working device does that.
            return Err(if slot.has_context(cqe.q1) {
                Stray::Malformed
            } else {
                Stray::Stale
            });
        }
        let datagram = guard.is_datagram();
        // What was flushed by software is not outstanding any more.
        let stray = |stray| match stray {
            Stray::Malformed if line.is_flushed() => Stray::Late,
            other => other,
        };
        match cqe.verdict(datagram) {
            Verdict::Success => {
                let passed_over = self.succeed(line, cqe, datagram, imm, wc).map_err(stray)?;
                Ok(Resolved::Completion { passed_over })
            }
            Verdict::Failed { major, minor } => {
                let (wr_id, opcode) = match queue {
                    WorkQueue::Send => self.failed_send(line, slot.head(queue), cqe),
                    WorkQueue::Recv => self
                        .oldest_receive(line, slot.head(queue))
                        .map(|wr_id| (wr_id, WcOpcode::Recv)),
                }
                .map_err(stray)?;
                *wc = base(cqe, datagram, wr_id, WcStatus::GeneralErr, opcode);
                wc.vendor_err = vendor_error(major, minor);
                Ok(Resolved::Completion { passed_over: 0 })
            }
            Verdict::Flush { major, code } => {
                let code = if line.begin_flush() {
                    code
                } else {
                    FlushCode::GENERAL
                };
                let mut flushing = self.flushing;
                if line.enlist() {
                    list::set(line.link(), flushing);
                    flushing = Node::queue(id, queue);
                }
                let parked = Parked {
                    id,
                    context: cqe.q1,
                    queue,
                    flush: Flush { major, code },
                    used: false,
                };
                Ok(Resolved::Flush { parked, flushing })
            }
        }
    }

    /// Gives the receives that the device passed over.
    fn succeed(
        &self,
        line: QueueLine<'_, M::Atom>,
        cqe: &Cqe,
        datagram: bool,
        imm: Option<u32>,
        wc: &mut Wc,
    ) -> Result<u64, Stray> {
        let request = Request::named(&self.view, line, cqe.q3)
            .filter(|request| request.tracker.tag().is_expected())
            .ok_or(Stray::Malformed)?;
        // Before the tracker is the poster's again.
        let tag = request.tracker.tag();
        let wr_id = request.retire(line);
        let passed_over = match cqe.queue() {
            WorkQueue::Send => {
                let (status, opcode) = sent_opcode(cqe.op(), tag);
                *wc = base(cqe, datagram, wr_id, status, opcode);
                wc.byte_len = tag.bytes();
                0
            }
            WorkQueue::Recv => {
                let opcode = received_opcode(cqe.op());
                *wc = base(cqe, datagram, wr_id, WcStatus::Success, opcode);
                wc.byte_len = payload_bytes(cqe.q0);
                let slots = request.ahead().checked_div(tag.quanta());
                slots.unwrap_or(1).wrapping_sub(1)
            }
        };
        if let Some(imm) = imm {
            wc.imm = imm;
            wc.flags |= WcFlags::WITH_IMM;
        }
        Ok(passed_over)
    }

    /// A send fails at the request that the entry names, signaled or not.
    fn failed_send(
        &self,
        line: QueueLine<'_, M::Atom>,
        head: u64,
        cqe: &Cqe,
    ) -> Result<(u64, WcOpcode), Stray> {
        let request = Request::named(&self.view, line, cqe.q3)
            .filter(|request| request.is_before(head) && !request.tracker.tag().is_pad())
            .ok_or(Stray::Malformed)?;
        let (_, opcode) = sent_opcode(cqe.op(), request.tracker.tag());
        Ok((request.retire(line), opcode))
    }

    /// A receive fails at the oldest one: the entry's index is not to be
    /// trusted (data-path 4.3, 10 item 9).
    fn oldest_receive(&self, line: QueueLine<'_, M::Atom>, head: u64) -> Result<u64, Stray> {
        let tail = line.own_tail();
        let tracker = self.view.tracker(line, tail & line.mask());
        let tracker = tracker.ok_or(Stray::Malformed)?;
        let (wr_id, end) = (tracker.wr_id(), tracker.end());
        if tail >= head || end != tail.wrapping_add(tracker.tag().quanta()) {
            return Err(Stray::Malformed);
        }
        line.set_tail(end);
        Ok(wr_id)
    }
}

/// What an entry was good for.
enum Resolved {
    Completion { passed_over: u64 },
    Flush { parked: Parked, flushing: Node },
}

/// A completion without what its kind adds.
fn base(cqe: &Cqe, datagram: bool, wr_id: u64, status: WcStatus, opcode: WcOpcode) -> Wc {
    let (flags, src_qp, imm) = cqe.extras(datagram);
    Wc {
        wr_id,
        byte_len: 0,
        qp_num: cqe.qp_id(),
        src_qp,
        imm,
        vendor_err: 0,
        flags,
        status,
        opcode,
    }
}
