//! The slow path of an entry: errors, extensions, datagrams, the end of the
//! ring, and whatever does not fit.

use e810_hal::{Barrier, Bus, DmaWord, DmaWords};
use e810_types::{FlushCode, WorkQueue};

use super::entry::{Cqe, VALID, Verdict, immediate, payload_bytes, sender, vendor_error};
use super::flush::{Flush, PendingFlush};
use super::request::Request;
use super::success::completion;
use super::{CompletionQueue, NEVER, SHADOW_HEAD, received_opcode, sent_opcode};
use crate::slot::{Node, QueueLine, SlotMemory, list};
use crate::status::{WcOpcode, WcStatus};
use crate::wc::{Wc, WcFlags};

/// What became of the entry at the head.
enum Polled {
    /// There is none.
    Empty,
    /// Its extension is still to come.
    Incomplete,
    /// `Wc` is filled.
    Completion,
    /// Consumed, counted.
    Skipped,
    /// Consumed; it flushes the queue in `pending_flush`.
    Flush,
}

/// Why an entry is no completion.
#[derive(Clone, Copy)]
enum Rejected {
    Stale,
    Malformed,
    /// Of a request that software has completed.
    Late,
}

impl<P: Bus + Barrier, W: DmaWords, M: SlotMemory> CompletionQueue<P, W, M> {
    /// Goes on with a poll that has given out `done` completions.
    #[inline(never)]
    pub(super) fn poll_slow<C: From<Wc>>(&mut self, out: &mut [C], done: usize) -> usize {
        if !self.lives() {
            // What the device has written is its queue pairs', which are gone as well.
            self.fast_path_epoch = NEVER;
            return done;
        }
        let done = self.poll_slow_entries(out, done);
        let idle = self.pending_flush.is_none() && self.flush_list == Node::END;
        self.fast_path_epoch = if idle && !self.resizes.is_pending() {
            self.confirmed_epoch
        } else {
            NEVER
        };
        done
    }

    fn poll_slow_entries<C: From<Wc>>(&mut self, out: &mut [C], mut done: usize) -> usize {
        // Before the ring is looked at: see `confirm`.
        let epoch = self.cq_slot().epoch();
        if self.pending_flush.is_some() {
            let rest = out.get_mut(done..).unwrap_or_default();
            done = done.wrapping_add(self.drain_pending_flush(rest));
        }
        // Beyond what was there when this began, in any of the rings.
        let entries = self.entries.wrapping_add(self.resizes.entries());
        let limit = self.consumed().wrapping_add(entries);
        while let Some(place) = out.get_mut(done) {
            let mut wc = Wc::default();
            match self.take(&mut wc) {
                Polled::Completion => {
                    *place = wc.into();
                    done = done.wrapping_add(1);
                }
                Polled::Empty if self.resizes.is_pending() && self.next_ring() => {}
                Polled::Empty => return self.ring_is_empty(epoch, out, done),
                Polled::Incomplete => break,
                Polled::Flush => {
                    let rest = out.get_mut(done..).unwrap_or_default();
                    done = done.wrapping_add(self.drain_pending_flush(rest));
                }
                // A device that writes rubbish for ever does not keep us here.
                Polled::Skipped => {
                    self.sender = None;
                    if self.consumed() > limit {
                        break;
                    }
                }
            }
        }
        if epoch != self.confirmed_epoch {
            self.ring_is_busy(epoch);
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
    pub(super) fn advance(&mut self) {
        (self.index, self.valid) = self.next();
        if self.index == 0 {
            self.laps = self.laps.wrapping_add(1);
        }
        if let Some(head) = self.shadow.words().get(SHADOW_HEAD) {
            head.publish(self.index);
        }
    }

    pub(super) fn entry(&self, index: u64) -> Option<&[W::Word; 4]> {
        let (entries, _) = self.ring.words().as_chunks();
        entries.get(index as usize)
    }

    /// Takes the entry at the head.
    fn take(&mut self, wc: &mut Wc) -> Polled {
        let Some(words) = self.entry(self.index) else {
            return Polled::Empty;
        };
        let [_, _, _, header] = words;
        let q3 = header.observe();
        if (q3 ^ self.valid) & VALID != 0 {
            return Polled::Empty;
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
            return Polled::Incomplete;
        };
        let [_, _, _, header] = words;
        let q3 = header.observe();
        if (q3 ^ valid) & VALID != 0 {
            return Polled::Incomplete;
        }
        self.platform.from_device();
        let (imm, sender) = (immediate(words, q3), sender(words, q3));
        self.sender = sender;
        self.advance();
        self.advance();
        self.finish(&cqe, imm, wc)
    }

    /// Any entry, after it was consumed.
    fn finish(&mut self, cqe: &Cqe, imm: Option<u32>, wc: &mut Wc) -> Polled {
        let passed_over = match self.resolve(cqe, imm, wc) {
            Ok(Resolved::Completion { passed_over }) => passed_over,
            Ok(Resolved::Flush {
                pending_flush,
                flush_list,
            }) => {
                self.pending_flush = Some(pending_flush);
                self.enlisted(flush_list);
                return Polled::Flush;
            }
            Err(stray) => {
                let counter = match stray {
                    Rejected::Stale => &mut self.counters.stale,
                    Rejected::Malformed => &mut self.counters.malformed,
                    Rejected::Late => &mut self.counters.late,
                };
                *counter = counter.wrapping_add(1);
                return Polled::Skipped;
            }
        };
        let counter = &mut self.counters.receives_passed_over;
        *counter = counter.wrapping_add(passed_over);
        Polled::Completion
    }

    fn resolve(&self, cqe: &Cqe, imm: Option<u32>, wc: &mut Wc) -> Result<Resolved, Rejected> {
        let (id, queue) = (cqe.qp_id(), cqe.queue());
        let slot = self.view.qp(id).ok_or(Rejected::Stale)?;
        let line = slot.queue(queue);
        let guard = line.guard();
        if !guard.admits_any(cqe.q1, id, self.cq_id) {
            // A QP that lives, on another CQ: no working device does that.
            return Err(if slot.has_context(cqe.q1) {
                Rejected::Malformed
            } else {
                Rejected::Stale
            });
        }
        let datagram = guard.is_datagram();
        // What was flushed by software is not outstanding any more.
        let stray = |stray| match stray {
            Rejected::Malformed if line.is_flushed() => Rejected::Late,
            other => other,
        };
        match cqe.verdict(datagram) {
            Verdict::Success => {
                let passed_over = self
                    .complete_success(line, cqe, datagram, imm, wc)
                    .map_err(stray)?;
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
                *wc = with_extras(cqe, datagram, wr_id, WcStatus::GeneralErr, (opcode, 0));
                wc.vendor_err = vendor_error(major, minor);
                Ok(Resolved::Completion { passed_over: 0 })
            }
            Verdict::Flush { major, code } => {
                let code = if line.begin_flush() {
                    code
                } else {
                    FlushCode::GENERAL
                };
                let mut flush_list = self.flush_list;
                if line.enlist() {
                    list::set(line.link(), flush_list);
                    flush_list = Node::queue(id, queue);
                }
                let pending_flush = PendingFlush {
                    id,
                    context: cqe.q1,
                    queue,
                    flush: Flush { major, code },
                    used: false,
                };
                Ok(Resolved::Flush {
                    pending_flush,
                    flush_list,
                })
            }
        }
    }

    /// Gives the receives that the device passed over.
    fn complete_success(
        &self,
        line: QueueLine<'_, M::Atom>,
        cqe: &Cqe,
        datagram: bool,
        imm: Option<u32>,
        wc: &mut Wc,
    ) -> Result<u64, Rejected> {
        let request = Request::named(&self.view, line, cqe.q3)
            .filter(|request| request.tracker.tag().is_expected())
            .ok_or(Rejected::Malformed)?;
        // Before the tracker is the producer's again.
        let tag = request.tracker.tag();
        let wr_id = request.retire(line);
        let passed_over = match cqe.queue() {
            WorkQueue::Send => {
                let (status, opcode) = sent_opcode(cqe.op(), tag);
                *wc = with_extras(cqe, datagram, wr_id, status, (opcode, tag.bytes()));
                0
            }
            WorkQueue::Recv => {
                let opcode = received_opcode(cqe.op());
                let what = (opcode, payload_bytes(cqe.q0));
                *wc = with_extras(cqe, datagram, wr_id, WcStatus::Success, what);
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
    ) -> Result<(u64, WcOpcode), Rejected> {
        let request = Request::named(&self.view, line, cqe.q3)
            .filter(|request| request.is_before(head) && !request.tracker.tag().is_pad())
            .ok_or(Rejected::Malformed)?;
        let (_, opcode) = sent_opcode(cqe.op(), request.tracker.tag());
        Ok((request.retire(line), opcode))
    }

    /// A receive fails at the oldest one: the entry's index is not to be
    /// trusted (data-path 4.3, 10 item 9).
    fn oldest_receive(&self, line: QueueLine<'_, M::Atom>, head: u64) -> Result<u64, Rejected> {
        let tail = line.own_tail();
        let tracker = self.view.tracker(line, tail & line.mask());
        let tracker = tracker.ok_or(Rejected::Malformed)?;
        let (wr_id, end) = (tracker.wr_id(), tracker.end());
        if tail >= head || end != tail.wrapping_add(tracker.tag().quanta()) {
            return Err(Rejected::Malformed);
        }
        line.set_tail(end);
        Ok(wr_id)
    }
}

/// What an entry was good for.
enum Resolved {
    Completion {
        passed_over: u64,
    },
    Flush {
        pending_flush: PendingFlush,
        flush_list: Node,
    },
}

/// A completion with what its kind adds, except immediate data.
fn with_extras(
    cqe: &Cqe,
    datagram: bool,
    wr_id: u64,
    status: WcStatus,
    what: (WcOpcode, u32),
) -> Wc {
    let (flags, src_qp, imm) = cqe.extras(datagram);
    Wc {
        src_qp,
        imm,
        flags,
        ..completion(wr_id, cqe.qp_id(), status, what)
    }
}
