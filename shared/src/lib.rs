//! What processes of one machine share: [memory] in files that keep their size, and
//! [sockets](seqpacket) that pass such files on.

pub mod memory;
pub mod seqpacket;
