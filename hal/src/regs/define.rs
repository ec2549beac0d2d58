//! One description of each register, from which everything else is made.
//!
//! For each entry, `registers!` makes the `tock-registers` module with its fields, the typed
//! constant of the same name, and its row of [`ALL`](super::ALL), whose numbers are read back
//! from the first two.

/// Defines the registers of one family.
///
/// ```text
/// registers! {
///     in Bar0;                                // Bar0 | MsixBar | VfBar0
///
///     /// What it is.
///     NAME = Access 0x16_0000 [Vector; 4; 2047], Corer, "control-path 2.2" {
///         //         offset   index type; stride; greatest index (0 to 2 times), reset, source
///         /// What it is.
///         FLAG [0],
///         FIELD [4:3] = [ValueName = 1, Other = 2],
///     }
/// }
/// ```
macro_rules! registers {
    (
        in $space:ident;
        $(
            $(#[$doc:meta])*
            $name:ident = $access:ident $offset:literal
                $([$index:ty; $stride:literal; $max:literal])*,
                $reset:ident, $source:literal
            {
                $(
                    $(#[$field_doc:meta])*
                    $field:ident [$hi:literal $(: $lo:literal)?] $(= [$($values:tt)+])?
                ),+ $(,)?
            }
        )+
    ) => {
        $(
            ::tock_registers::register_bitfields! { u32,
                #[expect(missing_docs, reason = "the generated items say what they are by name")]
                #[doc = concat!("Fields of ", stringify!($name), " (", $source, ").")]
                pub $name [
                    $(
                        $(#[$field_doc])*
                        $field
                            OFFSET(registers!(@lo $hi $($lo)?))
                            NUMBITS($hi - registers!(@lo $hi $($lo)?) + 1)
                            [$($($values)+)?]
                    ),+
                ]
            }

            registers! { @constant $space
                $(#[$doc])*
                #[doc = ""]
                #[doc = concat!(
                    "Offset ", stringify!($offset),
                    $(" + ", stringify!($stride), " × 0..=", stringify!($max),)*
                    "; cleared by ", stringify!($reset), "; ", $source, "."
                )]
                $name = $access $offset $([$index; $stride; $max])*
            }
        )+

        /// The registers of this file.
        pub(super) const TABLE: &[$crate::regs::info::RegInfo] = &[$(
            $crate::regs::info::RegInfo {
                name: stringify!($name),
                space: $crate::regs::info::Space::$space,
                offset: $name.start(),
                index: &$name.dims(),
                reset: $crate::regs::info::Reset::$reset,
                access: <$crate::reg::$access as $crate::reg::Access>::KIND,
                fields: &[$(
                    $crate::regs::info::FieldInfo::of(stringify!($field), $name::$field)
                ),+],
                source: $source,
            }
        ),+];
    };

    (@lo $hi:literal) => { $hi };
    (@lo $hi:literal $lo:literal) => { $lo };

    (@constant Bar0 $(#[$doc:meta])* $name:ident = $access:ident $offset:literal) => {
        $(#[$doc])*
        pub const $name: $crate::reg::Reg<$name::Register, $crate::reg::$access> =
            $crate::reg::Reg::new($offset);
    };
    (@constant Bar0 $(#[$doc:meta])* $name:ident = $access:ident $offset:literal
        [$i:ty; $stride:literal; $max:literal]
    ) => {
        $(#[$doc])*
        pub const $name: $crate::reg::RegArray<$name::Register, $crate::reg::$access, $i> =
            $crate::reg::RegArray::new($offset, $stride, $max);
    };
    (@constant Bar0 $(#[$doc:meta])* $name:ident = $access:ident $offset:literal
        [$i:ty; $stride_i:literal; $max_i:literal]
        [$j:ty; $stride_j:literal; $max_j:literal]
    ) => {
        $(#[$doc])*
        pub const $name: $crate::reg::RegArray2<$name::Register, $crate::reg::$access, $i, $j> =
            $crate::reg::RegArray2::new($offset, $stride_i, $max_i, $stride_j, $max_j);
    };
    // In another BAR the access class is a fact for the table only.
    (@constant $space:ident $(#[$doc:meta])* $name:ident = $access:ident $offset:literal) => {
        $(#[$doc])*
        pub const $name: $crate::regs::foreign::ForeignReg<
            $crate::regs::foreign::$space,
            $name::Register,
        > = $crate::regs::foreign::ForeignReg::new($offset);
    };
    (@constant $space:ident $(#[$doc:meta])* $name:ident = $access:ident $offset:literal
        [$i:ty; $stride:literal; $max:literal]
    ) => {
        $(#[$doc])*
        pub const $name: $crate::regs::foreign::ForeignArray<
            $crate::regs::foreign::$space,
            $name::Register,
            $i,
        > = $crate::regs::foreign::ForeignArray::new($offset, $stride, $max);
    };
}
