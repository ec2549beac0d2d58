//! Log macros: `log`, `defmt`, both or nothing, chosen at the definition.
//!
//! Levels: error = action is required, warn = degraded, info = a state changed,
//! debug = a command, trace = a register. Arguments are type-checked even when
//! logging is off. A crate that logs has features
//! `log = ["dep:log", "e810-hal/log"]` and
//! `defmt = ["dep:defmt", "e810-hal/defmt"]`; with both on, both receive.

/// Logs through whichever of `log` and `defmt` is on. Not called directly.
#[doc(hidden)]
#[macro_export]
#[cfg(all(feature = "log", not(feature = "defmt")))]
macro_rules! __emit {
    ($level:ident, $($arg:tt)*) => { $crate::__log::$level!($($arg)*) };
}

/// Logs through whichever of `log` and `defmt` is on. Not called directly.
#[doc(hidden)]
#[macro_export]
#[cfg(all(feature = "defmt", not(feature = "log")))]
macro_rules! __emit {
    ($level:ident, $($arg:tt)*) => { ::defmt::$level!($($arg)*) };
}

/// Logs through whichever of `log` and `defmt` is on. Not called directly.
#[doc(hidden)]
#[macro_export]
#[cfg(all(feature = "defmt", feature = "log"))]
macro_rules! __emit {
    ($level:ident, $($arg:tt)*) => {{
        $crate::__log::$level!($($arg)*);
        ::defmt::$level!($($arg)*);
    }};
}

/// Logs through whichever of `log` and `defmt` is on. Not called directly.
#[doc(hidden)]
#[macro_export]
#[cfg(not(any(feature = "defmt", feature = "log")))]
macro_rules! __emit {
    ($level:ident, $fmt:literal $(, $arg:expr)* $(,)?) => {{ $(let _ = &$arg;)* }};
}

/// Action is required.
#[macro_export]
macro_rules! log_error { ($($arg:tt)*) => { $crate::__emit!(error, $($arg)*) }; }
/// Something is degraded.
#[macro_export]
macro_rules! log_warn { ($($arg:tt)*) => { $crate::__emit!(warn, $($arg)*) }; }
/// A state changed.
#[macro_export]
macro_rules! log_info { ($($arg:tt)*) => { $crate::__emit!(info, $($arg)*) }; }
/// A command was issued or finished.
#[macro_export]
macro_rules! log_debug { ($($arg:tt)*) => { $crate::__emit!(debug, $($arg)*) }; }
/// A register was accessed.
#[macro_export]
macro_rules! log_trace { ($($arg:tt)*) => { $crate::__emit!(trace, $($arg)*) }; }
