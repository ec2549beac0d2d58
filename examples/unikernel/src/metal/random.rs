//! Numbers that nobody can guess: the processor's own (RDRAND).

use core::arch::asm;

/// Times that it is asked at most; it has a number nearly each time.
const PATIENCE: u32 = 1000;

/// A random number; `None` from a processor that has none left, as of one that is broken.
#[must_use]
pub fn number() -> Option<u64> {
    (0..PATIENCE).find_map(|_| {
        let (number, there): (u64, u8);
        // SAFETY: the processor has the instruction (README), which changes nothing but these two
        // and the flags.
        unsafe {
            asm!("rdrand {}", "setc {}", out(reg) number, out(reg_byte) there, options(nomem, nostack));
        }
        (there != 0).then_some(number)
    })
}

/// As many bytes as a key has.
#[must_use]
pub fn key() -> Option<[u8; 16]> {
    let number = u128::from(number()?) << 64 | u128::from(number()?);
    Some(number.to_le_bytes())
}

#[cfg(test)]
mod tests {
    #[test]
    fn keys_differ() {
        assert_ne!(super::key(), super::key());
    }
}
