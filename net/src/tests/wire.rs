//! Two ports that are connected to each other.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::prelude::v1::*;
use std::rc::Rc;

use crate::{Full, Port};

type Queue = Rc<RefCell<VecDeque<Vec<u8>>>>;

/// One end of a wire.
pub(crate) struct End {
    from: Queue,
    to: Queue,
    room: usize,
    /// Of 16 frames sent so many are lost, by chance.
    loss: u32,
    chance: u32,
}

/// Both ends of a wire that holds so many frames each way.
pub(crate) fn pair(room: usize) -> (End, End) {
    let (there, back) = (Queue::default(), Queue::default());
    let end = |from: &Queue, to: &Queue| End {
        from: from.clone(),
        to: to.clone(),
        room,
        loss: 0,
        chance: 1,
    };
    (end(&back, &there), end(&there, &back))
}

impl End {
    /// How many frames find room.
    pub(crate) fn set_room(&mut self, room: usize) {
        self.room = room;
    }

    /// How many of 16 frames are lost.
    pub(crate) fn set_loss(&mut self, loss: u32) {
        self.loss = loss;
    }
}

impl Port for End {
    fn receive(&mut self, into: &mut [u8]) -> Option<usize> {
        let frame = self.from.borrow_mut().pop_front()?;
        let length = frame.len().min(into.len());
        into[..length].copy_from_slice(&frame[..length]);
        Some(frame.len())
    }

    fn transmit(&mut self, frame: &[u8]) -> Result<(), Full> {
        let mut to = self.to.borrow_mut();
        if to.len() >= self.room {
            return Err(Full);
        }
        self.chance = self
            .chance
            .wrapping_mul(1_664_525)
            .wrapping_add(1_013_904_223);
        if self.chance >> 28 >= self.loss {
            to.push_back(frame.to_vec());
        }
        Ok(())
    }
}
