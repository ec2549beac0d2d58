//! Sizes and time limits of the AdminQ and of what is done through it.
//!
//! Times are those of control-path 10. Sizes marked "ours" are not prescribed
//! by the device.

use e810_hal::Ns;

/// Bytes of a descriptor (control-path 9.1).
pub const DESCRIPTOR_BYTES: usize = 32;
/// Bytes of one buffer, and the most a command can carry (control-path 9.1).
pub const BUFFER_BYTES: usize = 4096;
/// Buffers longer than this carry the LB flag (control-path 9.1).
pub const LARGE_BUFFER: u16 = 512;
/// Descriptors of the command queue. Ours: commands are synchronous, so two
/// would do; a few more make a late reply stand out from the next one's.
pub const ATQ_ENTRIES: u16 = 8;
/// Descriptors of the event queue, each with a buffer; one less can wait. Ours:
/// link and LLDP events are rare, and existing drivers' 192 would cost 768 KiB.
pub const ARQ_ENTRIES: u16 = 16;
/// Most descriptors a queue can have: LEN has ten bits (control-path 9.1).
pub const MAX_ENTRIES: u16 = 1023;

/// Before the first look for a reply.
pub const FIRST_POLL_DELAY: Ns = Ns::from_us(5);
/// Between two looks for a reply.
pub const POLL_INTERVAL: Ns = Ns::from_us(20);
/// A command. Existing drivers wait a second (control-path 10); firmware that is simulated must get
/// a processor first.
pub const COMMAND_LIMIT: Ns = Ns::from_ms(5_000);
/// The first command, which is tried [`START_ATTEMPTS`] times.
pub const START_LIMIT: Ns = Ns::from_ms(1_000);
/// Attempts to start the queue, the first included.
pub const START_ATTEMPTS: u32 = 11;
/// Between two attempts to start the queue.
pub const START_PAUSE: Ns = Ns::from_ms(100);
/// Tries of a command that answers EBUSY, the first included.
pub const BUSY_TRIES: u32 = 3;
/// Between two of them.
pub const BUSY_PAUSE: Ns = Ns::from_ms(10);
/// How long commands are sent again while the firmware refuses all of them:
/// another function may have the global configuration lock so long.
pub const BUSY_LIMIT: Ns = Ns::from_ms(GLOBAL_LOCK_MS as u64);

/// PF reset: 5000 ms that another function may hold the global lock, and 300.
pub const PF_RESET_LIMIT: Ns = Ns::from_ms(5_300);
/// Between two polls of a PF reset.
pub const PF_RESET_PAUSE: Ns = Ns::from_ms(1);
/// Between two polls of the state of a global reset.
pub const GLOBAL_RESET_PAUSE: Ns = Ns::from_ms(100);
/// Polls of a global reset beyond those that GRSTDEL asks for.
pub const GLOBAL_RESET_EXTRA: u64 = 10;
/// All units have loaded after a reset: what existing drivers wait on an E810
/// since 3 s were found too short after a firmware reset (field-evidence 3.10;
/// E830 takes up to 20 s).
pub const UNITS_LIMIT: Ns = Ns::from_ms(5_000);
/// Between two polls of them, and of the firmware.
pub const UNITS_PAUSE: Ns = Ns::from_ms(10);
/// The firmware has loaded.
pub const FIRMWARE_LIMIT: Ns = Ns::from_ms(30_000);

/// Time asked for, and waited for, with the global configuration lock.
pub const GLOBAL_LOCK_MS: u32 = 5_000;
/// Between two requests for a lock that another function holds.
pub const LOCK_PAUSE: Ns = Ns::from_ms(10);
/// Tries of a package buffer that answers ENOSEC or EBADSIG, the first included.
pub const HUNK_TRIES: u32 = 5;
/// Between two of them.
pub const HUNK_PAUSE: Ns = Ns::from_ms(20);

/// A link that is coming up is not disturbed so long. Ours: ports need up to
/// three seconds to train.
pub const LINK_SETTLES: Ns = Ns::from_ms(3_000);
/// Between two polls of a link that is coming up. Ours: a link takes seconds.
pub const LINK_PAUSE: Ns = Ns::from_ms(100);
