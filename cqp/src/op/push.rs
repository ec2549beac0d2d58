//! MANAGE_PUSH_PAGES (control-path 4.16).

use tock_registers::register_bitfields;

use super::{Command, HEADER, Wqe, header};
use crate::error::Result;
use crate::field::{at_most, fit};
use crate::limits::MAX_PUSH_PAGES;
use crate::opcode::Opcode;

register_bitfields![u64,
    Q16 [ QS_HANDLE OFFSET(0) NUMBITS(10) [] ],
    Q24 [
        PPIDX OFFSET(0) NUMBITS(32) [],
        PPTYPE OFFSET(60) NUMBITS(2) [],
        FREE_PAGE OFFSET(62) NUMBITS(1) []
    ]
];

/// MANAGE_PUSH_PAGES.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ManagePushPages {
    /// Queue-set handle.
    pub qs_handle: u16,
    /// PPTYPE, 2 bits; its values are not in the sources, existing drivers use 0.
    pub page_type: u8,
    /// The page to free, below 256; `None` allocates one, whose index is the
    /// completion's return value.
    pub free: Option<u32>,
}

impl Command for ManagePushPages {
    fn encode(&self) -> Result<Wqe> {
        let mut wqe = Wqe::default();
        let [_, _, q16, ..] = &mut wqe;
        *q16 = fit("queue-set handle", Q16::QS_HANDLE, self.qs_handle)?.value;
        let mut fields = fit("push page type", Q24::PPTYPE, self.page_type)?;
        if let Some(page) = self.free {
            let last = u64::from(MAX_PUSH_PAGES).saturating_sub(1);
            fields +=
                Q24::FREE_PAGE::SET + Q24::PPIDX.val(at_most("push page", u64::from(page), last)?);
        }
        wqe[HEADER] = header(Opcode::ManagePushPages, fields.value);
        Ok(wqe)
    }
}
