//! The texts of rping.

use anyhow::{Result, ensure};
use e810::SharedBytes;

/// The text of a ping: its number, then letters, from another one on for each ping.
pub(crate) fn of(ping: u32, size: usize) -> Vec<u8> {
    let mut text = format!("rdma-ping-{ping}: ").into_bytes();
    let letters = (b'A'..=b'z').cycle().skip(ping as usize % 58);
    text.extend(letters.take(size.saturating_sub(text.len())));
    text.truncate(size.saturating_sub(1));
    text.push(0);
    text
}

/// Compares a text with what is there.
pub(crate) fn expect(memory: &SharedBytes, offset: usize, text: &[u8]) -> Result<()> {
    let mut there = vec![0; text.len()];
    memory.read(offset, &mut there)?;
    let said = |bytes| String::from_utf8_lossy(bytes).into_owned();
    ensure!(
        there == text,
        "{:?} differs from {:?}",
        said(&there),
        said(text)
    );
    Ok(())
}
