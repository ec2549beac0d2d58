//! The interface as a whole: against smoltcp, against floods and noise, and in virtual time.

mod judge;
mod wire;
