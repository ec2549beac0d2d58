//! What processes of one machine share: [memory] in files that keep their size, [sockets](seqpacket)
//! that pass such files on, and a [queue](ring) in such memory.

pub mod memory;
pub mod ring;
pub mod seqpacket;
