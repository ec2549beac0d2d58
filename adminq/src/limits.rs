//! Sizes and time limits of the AdminQ and of the operations that use it.
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
/// Descriptors of the command queue. Ours: commands are synchronous, so two would do; a few more
/// make it possible to tell a late reply from the next one.
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
/// Limit of a command. Existing drivers wait a second (control-path 10); simulated firmware must
/// get a processor first.
pub const COMMAND_LIMIT: Ns = Ns::from_ms(5_000);
/// Limit of the first command, which is tried [`START_ATTEMPTS`] times.
pub const START_LIMIT: Ns = Ns::from_ms(1_000);
/// Attempts to start the queue, the first included.
pub const START_ATTEMPTS: u32 = 11;
/// Between two attempts to start the queue.
pub const START_PAUSE: Ns = Ns::from_ms(100);
/// Tries of a command that answers EBUSY, the first included.
pub const BUSY_TRIES: u32 = 3;
/// Pause between two of these tries.
pub const BUSY_PAUSE: Ns = Ns::from_ms(10);
/// How long commands are sent again while the firmware refuses all of them: another function may
/// have the global configuration lock that long.
pub const BUSY_LIMIT: Ns = Ns::from_ms(GLOBAL_LOCK_MS as u64);

/// Limit of a PF reset: 5000 ms for which another function may hold the global lock, and 300.
pub const PF_RESET_LIMIT: Ns = Ns::from_ms(5_300);
/// Between two polls of a PF reset.
pub const PF_RESET_PAUSE: Ns = Ns::from_ms(1);
/// Between two polls of the state of a global reset.
pub const GLOBAL_RESET_PAUSE: Ns = Ns::from_ms(100);
/// Polls of a global reset beyond those that GRSTDEL asks for.
pub const GLOBAL_RESET_EXTRA: u64 = 10;
/// Limit until all units have loaded after a reset. Existing drivers wait this long on an E810
/// since 3 s were found too short after a firmware reset (field-evidence 3.10; E830 takes up to
/// 20 s).
pub const UNITS_LIMIT: Ns = Ns::from_ms(5_000);
/// Pause between two polls of the units, and of the firmware.
pub const UNITS_PAUSE: Ns = Ns::from_ms(10);
/// Limit until the firmware has loaded.
pub const FIRMWARE_LIMIT: Ns = Ns::from_ms(30_000);

/// Time for which the global configuration lock is requested, and limit of the wait for it.
pub const GLOBAL_LOCK_MS: u32 = 5_000;
/// Between two requests for a lock that another function holds.
pub const LOCK_PAUSE: Ns = Ns::from_ms(10);
/// Tries of a package buffer that answers ENOSEC or EBADSIG, the first included.
pub const HUNK_TRIES: u32 = 5;
/// Pause between two of these tries.
pub const HUNK_PAUSE: Ns = Ns::from_ms(20);

/// A link that is coming up is left alone this long. Ours: ports need up to three seconds to
/// train.
pub const LINK_SETTLES: Ns = Ns::from_ms(3_000);
/// Between two polls of a link that is coming up. Ours: a link takes seconds.
pub const LINK_PAUSE: Ns = Ns::from_ms(100);
