//! One function, many programs: its owner brings it up and carries out commands; programs have
//! queues, and ask the owner for everything else.
//!
//! * [`messages`], what passes between the two: plain data, and its bytes;
//! * [`owner`], the function: its control path, its events, and the objects of each program;
//! * [`reception`], who comes to the owner's [`socket`];
//! * [`session`], the owner's end of a program that is attached over a [`link`], such as that
//!   socket;
//! * [`places`], where the owner's socket is, and how a program gets there;
//! * [`asker`], who asks about the programs and is none;
//! * [`program`], the program's end, and its [`platform`].
//!
//! A Rust program attaches with a [`client`].
//! A program in the owner's own process needs no link: it calls [`owner::Owner`] itself.

use std::sync::{Mutex, MutexGuard, PoisonError};

pub mod activation;
pub mod asker;
pub mod client;
mod conversation;
mod doorbells;
pub mod errno;
mod fair;
mod lent;
pub mod link;
pub mod listener;
pub mod messages;
mod not_served;
pub mod owner;
pub mod places;
pub mod platform;
pub mod program;
pub mod reception;
mod regions;
pub mod session;
mod silence;
pub mod socket;
pub mod threads;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // The state is consistent between calls, and a panic in one is reported.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
