//! ALLOC_STAG, REG_MR, DEALLOC_STAG (control-path 4.10).

use super::command::{Command, DONE, Outcome, Refusal};
use super::set;
use crate::findings::kind;
use crate::pe::device::{Device, Unreachable};
use crate::pe::env::Env;
use crate::pe::fpm::Kind;
use crate::pe::mr::{Mr, REMOTE_READ, REMOTE_WRITE, Window, direct_pbles, page_bytes};
use crate::pe::word::{bits, bits8, bits32};
use crate::variation::Windows;

/// Largest region (`IRDMA_MAX_MR_SIZE`, data-path 5.1).
const MAX_BYTES: u64 = 1 << 45;
/// PDs of a function (data-path 5.1).
const MAX_PDS: u32 = 1 << 18;

fn pd_id(c: &Command) -> u32 {
    bits32(c.q(8), 63, 46) | bits32(c.q(16), 59, 54) << 18
}

impl Device {
    /// Index part of the STag of a command, driver bits removed, and the PD.
    fn stag_of(&self, c: &Command, env: &mut dyn Env) -> Result<(u64, u32), Refusal> {
        let index = self.stag_index(bits32(c.q(16), 31, 8));
        self.in_range(Kind::Mr, index, env)?;
        let pd = pd_id(c);
        if pd >= MAX_PDS {
            return Err(Refusal::parameter(
                env,
                format!("STag index {index}: PD {pd}"),
            ));
        }
        Ok((index, pd))
    }

    fn stag_context(&mut self, index: u64, env: &mut dyn Env) -> Result<Option<Mr>, Refusal> {
        let found = self.mrs.get(index, &mut self.hmc, env);
        Ok(self.reached(found, env)?)
    }

    fn new_stag(&mut self, index: u64, mr: Mr, env: &mut dyn Env) -> Outcome {
        if self.stag_context(index, env)?.is_some() {
            return Err(Refusal::state(env, format!("STag index {index} is in use")));
        }
        let created = self.mrs.create(index, mr, &mut self.hmc, env);
        self.reached(created, env)?;
        DONE
    }

    /// HMCFNIDX, USEHMCFNIDX and USEPFRID: 0 in every Linux use.
    fn lint_function(&self, c: &Command, index: u64, env: &mut dyn Env) {
        if bits(c.q(40), 15, 0) != 0 || set(c, 60) || set(c, 61) {
            let text = format!("STag index {index}: HMCFNIDX, USEHMCFNIDX or USEPFRID is set");
            env.finding(kind::STAG_FUNCTION, text);
        }
    }

    /// ALLOC_STAG 0x09: a region for fast registration, or a window for binding.
    pub(super) fn alloc_stag(&mut self, c: &Command, env: &mut dyn Env) -> Outcome {
        let (index, pd) = self.stag_of(c, env)?;
        let (level, page_size) = levels(c, index, env)?;
        self.lint_function(c, index, env);
        if !set(c, 43) && self.config.variation.windows == Windows::Refused {
            return Err(Refusal::state_race());
        }
        let window = (!set(c, 43)).then(|| Window {
            type1: set(c, 42),
            any_key: set(c, 58),
            ..Window::default()
        });
        let mr = Mr {
            window,
            valid: false,
            key: 0,
            pd,
            start: 0,
            len: 0,
            most: bits(c.q(8), 45, 0),
            va_based: false,
            rights: bits8(c.header(), 52, 48),
            remote: set(c, 53),
            level,
            page_size,
            pages: bits(c.q(48), 27, 0),
            bound: 0,
        };
        self.new_stag(index, mr, env)
    }

    /// REG_MR 0x0a.
    pub(super) fn register_mr(&mut self, c: &Command, env: &mut dyn Env) -> Outcome {
        let (index, pd) = self.stag_of(c, env)?;
        if !set(c, 43) {
            return Err(Refusal::parameter(
                env,
                format!("REG_MR of STag index {index}: MR is not set"),
            ));
        }
        let (level, page_size) = levels(c, index, env)?;
        self.lint_function(c, index, env);
        let (start, len, first) = (c.q(0), bits(c.q(8), 45, 0), bits(c.q(48), 27, 0));
        if len > MAX_BYTES {
            let text = format!("STag index {index}: {len:#x} bytes; regions end at {MAX_BYTES:#x}");
            env.finding(kind::STAG_BYTES, text);
        }
        if level == 0 {
            if !c.q(32).is_multiple_of(4096) {
                let text = format!(
                    "STag index {index}: page address {:#x} is not 4096-aligned",
                    c.q(32)
                );
                env.finding(kind::STAG_PAGE, text);
            }
        } else {
            let size = page_bytes(page_size);
            let pages = ((start & (size - 1)) + len).div_ceil(size);
            self.pbles(first, direct_pbles(level, pages), env)?;
        }
        let unused = if level == 0 { first } else { c.q(32) };
        if unused != 0 {
            let text = format!(
                "STag index {index}: address {unused:#x} that LPBLSIZE {level} does not use"
            );
            env.finding(kind::STAG_PAGE, text);
        }
        let rights = bits8(c.header(), 52, 48);
        let remote = set(c, 53);
        if remote != (rights & (REMOTE_READ | REMOTE_WRITE) != 0) {
            let text =
                format!("STag index {index}: rights {rights:#x} with REMACCENABLED {remote}");
            env.finding(kind::STAG_RIGHTS, text);
        }
        let mr = Mr {
            window: None,
            valid: true,
            key: bits8(c.q(16), 7, 0),
            pd,
            start,
            len,
            most: len,
            va_based: set(c, 59),
            rights,
            remote,
            level,
            page_size,
            pages: if level == 0 { c.q(32) } else { first },
            bound: 0,
        };
        self.new_stag(index, mr, env)
    }

    /// DEALLOC_STAG 0x0d.
    pub(super) fn dealloc_stag(&mut self, c: &Command, env: &mut dyn Env) -> Outcome {
        let (index, pd) = self.stag_of(c, env)?;
        let Some(mr) = self.stag_context(index, env)? else {
            return Err(Refusal::stag(
                env,
                format!("DEALLOC_STAG: STag index {index} is not allocated"),
            ));
        };
        if set(c, 43) != mr.window.is_none() {
            return Err(Refusal::parameter(
                env,
                format!("DEALLOC_STAG {index}: MR differs from its allocation"),
            ));
        }
        if pd != mr.pd {
            env.finding(
                kind::STAG_PD,
                format!("DEALLOC_STAG {index}: PD {pd}, it is in PD {}", mr.pd),
            );
        }
        if mr.bound > 0 {
            return Err(Refusal::state(
                env,
                format!("DEALLOC_STAG {index}: {} windows are bound to it", mr.bound),
            ));
        }
        if let Some(window) = mr.window.filter(|_| mr.valid) {
            self.unbind(window.parent.into(), env)
                .map_err(|_| Unreachable)?;
        }
        let destroyed = self.mrs.destroy(index, &mut self.hmc, env);
        self.reached(destroyed, env)?;
        DONE
    }
}

/// LPBLSIZE and HPAGESIZE, if the table has these codes.
fn levels(c: &Command, index: u64, env: &mut dyn Env) -> Result<(u8, u8), Refusal> {
    let (level, page_size) = (bits8(c.header(), 45, 44), bits8(c.header(), 47, 46));
    if level == 2 || page_size == 3 {
        let text = format!("STag index {index}: LPBLSIZE {level}, HPAGESIZE {page_size}");
        return Err(Refusal::parameter(env, text));
    }
    Ok((level, page_size))
}
