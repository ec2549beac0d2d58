//! Creating and destroying the CQP (control-path 3.1 steps 7 to 9, 3.4).

use e810_hal::clock::live;
use e810_hal::regs::PFPE_CCQPSTATUS;
use e810_hal::{
    DmaBuf, DmaLayout, DmaWord, DmaWords, HostBox, HostBuf, Iova, Platform, log_error, log_info,
    poll_until,
};

use super::late::Late;
use super::layout::{Places, offset};
use super::status::error_codes;
use super::{Config, Cqp};
use crate::error::{Error, Result};
use crate::host_context::{HostContext, clear_registers, write_address};
use crate::limits::{NO_PROGRESS_LIMIT, POLL_PAUSE, SQ_ALIGN};
use crate::ring::SendRing;
use crate::slots::SLOT_WORDS;
use crate::ticket::Counters;

impl<P: Platform> Cqp<P> {
    /// 64-bit words of host memory that a CQP of `entries` takes.
    #[must_use]
    pub const fn host_words(entries: u32) -> usize {
        (entries as usize).saturating_mul(SLOT_WORDS)
    }

    /// The same for the record of commands that were given up, which is an allocation of its own.
    #[must_use]
    pub const fn late_words() -> usize {
        Late::WORDS
    }

    /// Creates the CQP of a function that has none.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a bad size; [`Error::Dma`], [`Error::HostMemory`];
    /// [`Error::CqpRefused`]; [`Error::Wait`] when the device does not answer within 5 s or is
    /// gone. All memory is freed, unless the device may still use it.
    pub fn create(platform: P, config: Config) -> Result<Self> {
        let ring = SendRing::new(config.entries)?;
        let slots = HostBuf::new(platform.clone(), Self::host_words(config.entries))?;
        let late = HostBox::new(platform.clone(), Late::default())?;
        let places = Places::new(config.entries);
        let layout = DmaLayout::new(places.bytes(), SQ_ALIGN);
        let memory = DmaBuf::new(platform.clone(), layout)?;
        let cookie = match write_context(&memory, places, config) {
            Ok(cookie) => cookie,
            Err(error) => {
                memory.release();
                return Err(error);
            }
        };
        let context = offset(memory.iova(), places.context());
        if let Err(error) = context.and_then(|context| start(&platform, context)) {
            give_back_if_stopped(&platform, memory);
            return Err(error);
        }
        log_info!("CQP created with {} entries", config.entries);
        Ok(Self {
            platform,
            function: config.function,
            ring,
            memory,
            slots,
            cookie,
            completed: 0,
            register_wait: None,
            ccq: None,
            parted: None,
            inherited: None,
            counters: Counters::default(),
            late,
        })
    }

    /// Destroys the CQP and gives its memory back. Commands in flight are lost.
    ///
    /// A CCQ that is still attached was not destroyed in the device; its memory
    /// is leaked, so call [`Cqp::detach_ccq`] first, or [`Cqp::part_from_ccq`]
    /// where the device refuses that.
    ///
    /// # Errors
    /// [`Error::Wait`] when the device does not release it within 5 s or is gone; the memory is
    /// then leaked.
    pub fn destroy(self) -> Result<()> {
        stop(&self.platform).inspect_err(|error| {
            log_error!("CQP not destroyed, its memory is leaked: {}", error);
        })?;
        if self.ccq.is_some() {
            log_error!("the CCQ was not destroyed before the CQP: its memory is leaked");
        }
        if let Some(parted) = self.parted {
            parted.release();
        }
        self.memory.release();
        log_info!("CQP destroyed");
        Ok(())
    }

    /// Frees all memory without a command to the device, which must have been reset: a reset ends
    /// the CQP and everything behind it.
    pub fn release_after_reset(self) {
        if let Some(ccq) = self.ccq {
            ccq.memory.release();
        }
        if let Some(parted) = self.parted {
            parted.release();
        }
        self.memory.release();
    }
}

/// Fills in the host context; returns the cookie.
fn write_context<P: Platform>(memory: &DmaBuf<P>, places: Places, config: Config) -> Result<u64> {
    // Any number will do, except the one that empty memory reads as. The queue's address tells
    // this CQP from others.
    let cookie = !memory.iova().0;
    let context = HostContext {
        congestion: config.congestion,
        ..HostContext::roce(config.entries, memory.iova(), cookie)
    };
    let words = context.encode()?;
    let first = (places.context() / 8) as usize;
    let cells = memory.words().get(first..).unwrap_or_default();
    for (cell, word) in cells.iter().zip(words) {
        cell.set(word);
    }
    Ok(cookie)
}

fn start<P: Platform>(platform: &P, context: Iova) -> Result<()> {
    clear_registers(platform);
    // The context in memory before its address in the register.
    platform.to_device();
    write_address(platform, context);
    let label = "CQP creation";
    poll_until(platform, label, NO_PROGRESS_LIMIT, POLL_PAUSE, || {
        let status = PFPE_CCQPSTATUS.read(platform);
        if live(label, status.get())? == 0 {
            return Ok(None);
        }
        if status.is_set(PFPE_CCQPSTATUS::CCQP_ERR) {
            let (major, minor) = error_codes(platform)?;
            return Err(Error::CqpRefused { major, minor });
        }
        Ok(Some(()))
    })
}

fn stop<P: Platform>(platform: &P) -> Result<()> {
    write_address(platform, Iova(0));
    let label = "CQP destruction";
    poll_until(platform, label, NO_PROGRESS_LIMIT, POLL_PAUSE, || {
        let status = PFPE_CCQPSTATUS.read(platform);
        live(label, status.get())?;
        let done = status.is_set(PFPE_CCQPSTATUS::CCQP_DONE);
        Ok((!done).then_some(()))
    })
}

/// After a failed creation: frees the memory once the device has released it.
fn give_back_if_stopped<P: Platform>(platform: &P, memory: DmaBuf<P>) {
    match stop(platform) {
        Ok(()) => memory.release(),
        Err(error) => log_error!("the memory of a failed CQP is leaked: {}", error),
    }
}
