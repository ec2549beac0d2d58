//! Events and interrupts, from a completion to the program that waits for it.

mod destruction;
mod wakeups;
