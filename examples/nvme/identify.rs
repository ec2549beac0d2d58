//! Pages of Identify: what the command asks for, and where the pages have what both sides use.

/// Bytes of a page.
pub const PAGE: u32 = 4096;

/// What the command asks for (CNS).
pub const NAMESPACE: u8 = 0x00;
pub const CONTROLLER: u8 = 0x01;
/// The namespaces above one.
pub const NAMESPACES: u8 = 0x02;
/// Identifiers of a namespace.
pub const IDENTIFIERS: u8 = 0x03;

/// The page of a controller.
pub mod controller {
    /// Serial number, of 20 bytes, and model, of 40, with spaces behind them.
    pub const SERIAL: usize = 4;
    pub const MODEL: usize = 24;
    /// log2 of the pages that a command moves at most; 0 is no limit.
    pub const MDTS: usize = 77;
    /// The controller's id: that of the response to Connect.
    pub const CNTLID: usize = 78;
    /// Commands of a queue at a time.
    pub const MAXCMD: usize = 514;
    /// The greatest number of a namespace.
    pub const NN: usize = 516;
    /// Which SGLs it takes: any (bits 1:0), keyed ones (2), data in capsules (20).
    pub const SGLS: usize = 536;
    pub const SGLS_ANY: u32 = 3;
    pub const SGLS_KEYED: u32 = 1 << 2;
    pub const SGLS_CAPSULE: u32 = 1 << 20;
    /// Capsules of commands, in units of 16 bytes.
    pub const IOCCSZ: usize = 1792;
}

/// The page of a namespace.
pub mod namespace {
    /// Its size in blocks.
    pub const NSZE: usize = 0;
    /// Which of its formats it has: bits 3:0, and above them 6:5.
    pub const FLBAS: usize = 26;
    /// The formats, of 4 bytes each: bytes of metadata, then log2 of a block's bytes.
    pub const FORMATS: usize = 128;
    pub const LBADS: usize = 2;
}
