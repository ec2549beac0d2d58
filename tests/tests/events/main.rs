//! Events and interrupts, from a completion to the program that waits for it.

mod wakeups;
