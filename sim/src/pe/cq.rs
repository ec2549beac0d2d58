//! Completion queues: context, writing of entries (control-path 4.4, data-path 4.1), overflow
//! detection by the consumer index in the shadow area. Arming and events are in `cq_events`.

use super::aeq::{Event, Named};
use super::contexts::{Context, Reader, Writer};
use super::device::{Device, Unreachable};
use super::env::{Env, PeReg};
use super::fpm::Kind;
use super::ring::Memory;
use super::word::{bit, bits, bits8, bits16, bits32, flag, put};
use crate::findings::kind;
use crate::variation::CqFull;
use crate::wqe::CqeEntries;

/// Bytes of a CQE on GEN_2.
const CQE_BYTES: u64 = 32;
/// Byte offset of the arm word in the shadow area.
pub(super) const ARM_WORD: u64 = 32;

/// The events that the consumer requested.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Arm {
    /// Nothing.
    Off,
    /// The next solicited completion, or the next with an error (ARM_NEXT_SE).
    Solicited,
    /// The next completion (ARM_NEXT).
    Next,
}

/// The context of a CQ.
#[derive(Clone, Debug)]
pub(crate) struct Cq {
    pub(crate) memory: Memory,
    /// IOVA of the 64-byte shadow area.
    pub(crate) shadow: u64,
    /// CQCTX, 63 bits.
    pub(crate) context: u64,
    /// Entries.
    pub(crate) size: u32,
    /// SHADOW_READ_THRESHOLD.
    pub(crate) threshold: u32,
    pub(crate) ceq: Option<u16>,
    /// CHKOVERFLOW.
    pub(crate) check_overflow: bool,
    /// ENCEQEMASK: no second CEQE until the first is acknowledged.
    pub(crate) mask_events: bool,
    /// Next entry to write.
    pub(crate) producer: u32,
    pub(crate) polarity: bool,
    /// The consumer's index as last read.
    pub(crate) consumer: u32,
    /// Entries written that are not known to be consumed.
    pub(crate) used: u32,
    /// Number of resizes so far, 14 bits: compared with SW_CQ_SELECT.
    pub(crate) resizes: u16,
    /// ARM_SEQ_NUM of the last accepted request.
    pub(crate) arm_seq: u8,
    pub(crate) arm: Arm,
    /// A completion that was solicited or had an error was written since the last event.
    pub(crate) solicited: bool,
    /// An event is due and waits for CQACK or for the CEQ.
    pub(crate) due: bool,
    /// CEQEs written and not acknowledged.
    pub(crate) unacknowledged: u32,
    /// Overflowed: no more entries are written.
    pub(crate) stopped: bool,
    /// QPs that name this CQ, once for each direction.
    pub(crate) users: u32,
}

impl Cq {
    /// The ring state after CREATE_CQ and after a resize: empty, first lap.
    pub(crate) fn restart(&mut self, memory: Memory, size: u32) {
        self.memory = memory;
        self.size = size;
        self.producer = 0;
        self.polarity = true;
        self.consumer = 0;
        self.used = 0;
    }

    /// Moves past `slots` written entries.
    fn advance(&mut self, slots: u32) {
        self.used = self.used.saturating_add(slots);
        self.producer += slots;
        if self.producer >= self.size {
            self.producer -= self.size;
            self.polarity = !self.polarity;
        }
    }

    /// The IOVA for a completion that only has to be written: it takes one entry, there is room for
    /// it, and it causes no event.
    fn place_for(&self, completion: &Completion<'_>, full: CqFull) -> Option<u64> {
        let Memory::Contiguous(base) = self.memory else {
            return None;
        };
        let has_room = !self.check_overflow || self.free(full) > self.threshold;
        let wanted = match self.arm {
            Arm::Off => false,
            Arm::Solicited => completion.solicited,
            Arm::Next => true,
        };
        let simple = completion.slots == 1 && has_room && !wanted && !self.due && !self.stopped;
        simple.then(|| base.wrapping_add(u64::from(self.producer) * CQE_BYTES))
    }

    /// The request is served: an event is due.
    pub(super) fn owe_event(&mut self) {
        self.arm = Arm::Off;
        self.solicited = false;
        self.due = true;
    }

    /// Free entries, as far as is known. One entry stays free: the indexes alone do not tell a full
    /// ring from an empty one \[inf cq_full\].
    fn free(&self, full: CqFull) -> u32 {
        let kept = u32::from(full == CqFull::OneFree);
        self.size.saturating_sub(self.used.saturating_add(kept))
    }
}

impl Context for Cq {
    const KIND: Kind = Kind::Cq;
    const WORDS: usize = 9;

    fn save(&self, words: &mut Writer<'_>) {
        let [mapped, memory] = self.memory.save();
        let arm = match self.arm {
            Arm::Off => 0,
            Arm::Solicited => 1,
            Arm::Next => 2,
        };
        words.put(memory);
        words.put(self.shadow);
        words.put(self.context);
        words.put(put(self.size.into(), 31, 0) | put(self.threshold.into(), 63, 32));
        words.put(put(self.producer.into(), 31, 0) | put(self.consumer.into(), 63, 32));
        words.put(put(self.used.into(), 31, 0) | put(self.unacknowledged.into(), 63, 32));
        words.put(put(self.ceq.unwrap_or(0).into(), 15, 0) | put(self.resizes.into(), 31, 16));
        words.put(
            put(mapped, 0, 0)
                | flag(self.ceq.is_some(), 1)
                | flag(self.check_overflow, 2)
                | flag(self.mask_events, 3)
                | flag(self.polarity, 4)
                | flag(self.due, 5)
                | flag(self.stopped, 6)
                | flag(self.solicited, 7)
                | put(arm, 9, 8)
                | put(self.arm_seq.into(), 11, 10),
        );
        words.put(self.users.into());
    }

    fn load(words: &mut Reader<'_>) -> Self {
        let memory = words.take();
        let shadow = words.take();
        let context = words.take();
        let sizes = words.take();
        let indexes = words.take();
        let counts = words.take();
        let ids = words.take();
        let flags = words.take();
        Self {
            memory: Memory::load([bits(flags, 0, 0), memory]),
            shadow,
            context,
            size: bits32(sizes, 31, 0).max(1),
            threshold: bits32(sizes, 63, 32),
            ceq: bit(flags, 1).then_some(bits16(ids, 15, 0)),
            check_overflow: bit(flags, 2),
            mask_events: bit(flags, 3),
            producer: bits32(indexes, 31, 0),
            polarity: bit(flags, 4),
            consumer: bits32(indexes, 63, 32),
            used: bits32(counts, 31, 0),
            resizes: bits16(ids, 31, 16),
            arm_seq: bits8(flags, 11, 10),
            arm: match bits(flags, 9, 8) {
                0 => Arm::Off,
                1 => Arm::Solicited,
                _ => Arm::Next,
            },
            solicited: bit(flags, 7),
            due: bit(flags, 5),
            unacknowledged: bits32(counts, 63, 32),
            stopped: bit(flags, 6),
            users: words.take() as u32,
        }
    }
}

/// A completion for a CQ.
pub(crate) struct Completion<'a> {
    /// Ring entries it takes: 1 or 2.
    pub(crate) slots: u32,
    /// Encodes the entries for the polarity of the first and of the second.
    pub(crate) encode: &'a dyn Fn(bool, bool) -> CqeEntries,
    /// Solicited, or an error: also raises the event of a CQ armed for solicited events only.
    pub(crate) solicited: bool,
}

impl Device {
    /// The context of a CQ that a QP or command names.
    pub(crate) fn cq(&mut self, id: u32, env: &mut dyn Env) -> Result<Option<Cq>, Unreachable> {
        let found = self.cqs.get(id.into(), &mut self.hmc, env);
        self.reached(found, env)
    }

    /// Stores the context of a CQ that exists.
    pub(crate) fn put_cq(&mut self, id: u32, cq: Cq, env: &mut dyn Env) -> Result<(), Unreachable> {
        let stored = self.cqs.put(id.into(), cq, &mut self.hmc, env);
        self.reached(stored, env)
    }

    /// Writes a completion and raises the event that is due.
    pub(crate) fn complete(
        &mut self,
        id: u32,
        completion: &Completion<'_>,
        env: &mut dyn Env,
    ) -> Result<(), Unreachable> {
        if self.config.shortcuts
            && let Some(cq) = self.cqs.on_chip(id.into())
            && let Some(iova) = cq.place_for(completion, self.config.variation.cq_full)
        {
            let next_wraps = cq.producer + 1 >= cq.size;
            let entries = (completion.encode)(cq.polarity, cq.polarity != next_wraps);
            env.write_entry(iova, &entries.main, 3)?;
            cq.advance(1);
            cq.solicited |= completion.solicited;
            return Ok(());
        }
        self.complete_checked(id, completion, env)
    }

    /// Like [`Device::complete`], for a queue in any state.
    fn complete_checked(
        &mut self,
        id: u32,
        completion: &Completion<'_>,
        env: &mut dyn Env,
    ) -> Result<(), Unreachable> {
        let Some(mut cq) = self.cq(id, env)? else {
            env.finding(
                kind::CQ_MISSING,
                format!("completion for CQ {id}, which does not exist"),
            );
            return Err(Unreachable);
        };
        if cq.stopped {
            self.count_drop(PeReg::CqDropCount, env);
            return Err(Unreachable);
        }
        if cq.check_overflow {
            // The shadow is read only when few entries are free [inf shadow_threshold: from the
            // name SHADOW_READ_THRESHOLD].
            let full = self.config.variation.cq_full;
            if cq.free(full) < completion.slots || cq.free(full) <= cq.threshold {
                self.read_consumer(id, &mut cq, env)?;
            }
            if cq.free(full) < completion.slots {
                return self.overflow(id, cq, env);
            }
        }
        self.write_entries(&mut cq, completion, env)?;
        cq.solicited |= completion.solicited;
        let wanted = match cq.arm {
            Arm::Off => false,
            Arm::Solicited => completion.solicited,
            Arm::Next => true,
        };
        if wanted {
            cq.owe_event();
        }
        self.fire(id, &mut cq, env)?;
        self.put_cq(id, cq, env)
    }

    fn write_entries(
        &mut self,
        cq: &mut Cq,
        completion: &Completion<'_>,
        env: &mut dyn Env,
    ) -> Result<(), Unreachable> {
        let next_wraps = cq.producer + 1 >= cq.size;
        let entries = (completion.encode)(cq.polarity, cq.polarity != next_wraps);
        let next = if next_wraps { 0 } else { cq.producer + 1 };
        let main = self.entry_iova(cq.memory, u64::from(cq.producer) * CQE_BYTES, env)?;
        let extension = match entries.extension {
            Some(words) => Some((
                self.entry_iova(cq.memory, u64::from(next) * CQE_BYTES, env)?,
                words,
            )),
            None => None,
        };
        // Which of the two comes first is not in the sources; software is written for both
        // (data-path 4.2).
        let main_first = extension.is_some() && env.random() & 1 != 0;
        if main_first {
            env.write_entry(main, &entries.main, 3)?;
        }
        if let Some((iova, words)) = extension {
            env.write_entry(iova, &words, 3)?;
        }
        if !main_first {
            env.write_entry(main, &entries.main, 3)?;
        }
        cq.advance(completion.slots);
        Ok(())
    }

    fn entry_iova(
        &mut self,
        memory: Memory,
        offset: u64,
        env: &mut dyn Env,
    ) -> Result<u64, Unreachable> {
        let at = memory.at(offset, &mut self.hmc, env);
        self.reached(at, env)
    }

    /// Reads the consumer's index from the shadow area.
    pub(super) fn read_consumer(
        &mut self,
        id: u32,
        cq: &mut Cq,
        env: &mut dyn Env,
    ) -> Result<(), Unreachable> {
        let select = bits16(env.load(cq.shadow + ARM_WORD)?, 13, 0);
        if select != cq.resizes & 0x3FFF {
            // The index still belongs to a buffer from before a resize: nothing of the new one is
            // consumed [inf index_before_resize].
            return Ok(());
        }
        // CQEIDX has 20 bits by name. Existing drivers write the whole index, and their largest
        // rings need one more bit [inf cq_index_bit].
        let index = bits32(env.load(cq.shadow)?, 20, 0);
        let consumed = (index + cq.size)
            .checked_sub(cq.consumer)
            .map(|ahead| ahead % cq.size);
        match consumed {
            Some(consumed) if index < cq.size && consumed <= cq.used => {
                cq.used -= consumed;
                cq.consumer = index;
            }
            _ => env.finding(
                kind::CQ_SHADOW,
                format!(
                    "CQ {id}: CQEIDX {index} of {} entries; {} are outstanding from {} on",
                    cq.size, cq.used, cq.consumer
                ),
            ),
        }
        Ok(())
    }

    /// CQ_OPERATION_ERROR (0x0203): the CQ accepts no more entries (control-path 7.4, 7.5).
    fn overflow(&mut self, id: u32, mut cq: Cq, env: &mut dyn Env) -> Result<(), Unreachable> {
        self.count_drop(PeReg::CqDropCount, env);
        cq.stopped = true;
        let event = Event {
            code: 0x0203,
            source: 0x2,
            id,
            context: Named::Cq(cq.context),
            ..Event::default()
        };
        self.put_cq(id, cq, env)?;
        self.async_event(event, env);
        Err(Unreachable)
    }
}
