//! What holds of this tree itself: its sources, documents, dependencies and machine code.

mod arrows;
mod asm;
mod citations;
mod findings;
mod style;
