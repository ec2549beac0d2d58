//! The allowed accesses of a register, as types.
//!
//! The classes say what **this driver** may do. The sources name no access classes, so each
//! register has the narrowest class that allows what existing drivers do with it
//! `[inf access_classes]`; the device may allow more.

/// Access class of a register, as a type.
pub trait Access: sealed::Sealed {
    /// The class as a value.
    const KIND: AccessKind;
}

/// Access class of a register, as a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum AccessKind {
    /// [`ReadOnly`].
    ReadOnly,
    /// [`WriteOnly`].
    WriteOnly,
    /// [`ReadWrite`].
    ReadWrite,
    /// [`Trigger`].
    Trigger,
    /// [`ReadClears`].
    ReadClears,
}

/// Classes whose register can be read without changing the device.
#[diagnostic::on_unimplemented(
    message = "this register has no pure read",
    note = "a `WriteOnly` register cannot be read; a `ReadClears` one is read by `read_clear`"
)]
pub trait PureRead: Access {}

/// Classes whose register is changed by a read.
#[diagnostic::on_unimplemented(message = "reading this register has no side effect: use `read`")]
pub trait ReadEffect: Access {}

/// Classes whose register can be written.
#[diagnostic::on_unimplemented(message = "this register is not written by the driver")]
pub trait Writable: Access {}

/// Classes where writing back what was read changes nothing.
#[diagnostic::on_unimplemented(
    message = "read-modify-write is not meaningful on this register: use `write`"
)]
pub trait Modifiable: PureRead + Writable {}

mod sealed {
    /// The classes below are all there are.
    pub trait Sealed {}
}

macro_rules! access_classes {
    ($($(#[$doc:meta])* $name:ident: $($capability:ident),+;)+) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub enum $name {}
        impl sealed::Sealed for $name {}
        impl Access for $name {
            const KIND: AccessKind = AccessKind::$name;
        }
        $(impl $capability for $name {})+
    )+ };
}

access_classes! {
    /// Read without side effect; not written.
    ReadOnly: PureRead;
    /// Written; the result of a read is not known.
    WriteOnly: Writable;
    /// A read returns what was written, apart from bits that the device owns.
    ReadWrite: PureRead, Writable, Modifiable;
    /// Bits act when written as 1 (start, clear, set) and a read returns the device's state:
    /// writing back a value that was read would start something.
    Trigger: PureRead, Writable;
    /// A read returns the bits and clears them; writing a 1 sets the bit.
    ReadClears: ReadEffect, Writable;
}
