//! A DMA buffer for one query command and its reply.

use core::sync::atomic::AtomicU64;

use e810_hal::{DmaBuf, DmaLayout, DmaWord, DmaWords, Iova, Platform, log_error};

use crate::cqp::Cqp;
use crate::error::Result;
use crate::op::Command;

/// DMA memory that lives for one command.
pub(super) struct Exchange<P: Platform> {
    memory: DmaBuf<P>,
}

impl<P: Platform> Exchange<P> {
    /// Zeroed memory for the command.
    pub(super) fn new(cqp: &Cqp<P>, bytes: usize, align: usize) -> Result<Self> {
        let layout = DmaLayout::new(bytes, align);
        let memory = DmaBuf::new(cqp.platform().clone(), layout)?;
        Ok(Self { memory })
    }

    pub(super) fn iova(&self) -> Iova {
        self.memory.iova()
    }

    /// Fills in the question.
    pub(super) fn write(&self, words: &[u64]) {
        for (cell, word) in self.memory.words().iter().zip(words) {
            cell.set(*word);
        }
    }

    /// Runs the command and reads the answer. The memory is given back, unless
    /// the device may still write to it.
    pub(super) fn run<T>(
        self,
        cqp: &mut Cqp<P>,
        command: &dyn Command,
        read: impl FnOnce(&[AtomicU64]) -> Result<T>,
    ) -> Result<T> {
        let answered = self.ask(cqp, command)?;
        let answer = read(answered.words());
        answered.release();
        answer
    }

    /// Runs the command; returns the memory with the answer.
    #[inline(never)]
    fn ask(self, cqp: &mut Cqp<P>, command: &dyn Command) -> Result<DmaBuf<P>> {
        let done = cqp.execute(command);
        // The end of the command before the data that it wrote.
        cqp.platform().from_device();
        match done {
            Ok(_) => Ok(self.memory),
            Err(error) => {
                if error.leaves_command_open() {
                    log_error!("a buffer the device may still write is leaked: {}", error);
                } else {
                    self.memory.release();
                }
                Err(error)
            }
        }
    }
}

/// The first `N` words of an answer; words that are not there read as 0.
pub(super) fn words<const N: usize>(cells: &[AtomicU64]) -> [u64; N] {
    let mut words = [0; N];
    for (word, cell) in words.iter_mut().zip(cells) {
        *word = cell.get();
    }
    words
}
