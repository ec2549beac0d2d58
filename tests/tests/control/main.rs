//! The control path: bring-up and cold start, cards, registers, a hostile driver, and the
//! choices of the simulator.

mod bring_up;
mod cards;
mod cold;
mod hostile;
mod registers;
mod variations;
