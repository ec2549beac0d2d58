//! Choices about packets.

/// The credit code in the AETH of acknowledges and read responses.
///
/// The context has a field for it by its name (ACKCREDITS, five bits, control-path 5.2); existing
/// drivers have 0x1E there, and one has 2 when the port has no flow control (field-evidence 6).
/// That the field is what goes out is `[inf ack_credits]`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum AckCredits {
    /// ACKCREDITS of the context.
    OfContext,
    /// "Not limited", whatever the context says.
    Unlimited,
}

/// What a requester does with the credits in the acknowledges of its peer. The context has a number
/// of the last message allowed (LSN, control-path 5.2), which existing drivers set to 0xFFFF with
/// the first PSN: that the card counts by it is `[inf send_credits]`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SendCredits {
    /// Sends, and writes with immediate data, beyond the last one allowed go out one packet at a
    /// time.
    Obeyed,
    /// Everything goes out at once.
    Ignored,
}
