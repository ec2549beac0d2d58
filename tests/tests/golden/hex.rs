//! Bytes of the vectors: hexadecimal text, 64-bit words, masked comparison.

/// The bytes that lower-case hexadecimal text stands for, in memory order.
pub fn bytes(text: &str) -> Vec<u8> {
    assert!(text.len().is_multiple_of(2), "half a byte: {text}");
    text.as_bytes()
        .chunks_exact(2)
        .map(|pair| {
            let pair = std::str::from_utf8(pair).unwrap();
            u8::from_str_radix(pair, 16).unwrap_or_else(|_| panic!("not hexadecimal: {pair}"))
        })
        .collect()
}

/// The 64-bit little-endian words in `text`.
pub fn words(text: &str) -> Vec<u64> {
    let bytes = bytes(text);
    assert!(
        bytes.len().is_multiple_of(8),
        "not whole words: {} bytes",
        bytes.len()
    );
    bytes
        .chunks_exact(8)
        .map(|word| u64::from_le_bytes(word.try_into().unwrap()))
        .collect()
}

/// Where `got` first differs from `expected` in a byte that `mask` has as
/// 0xff; no mask judges every byte.
pub fn difference(got: &[u8], expected: &[u8], mask: Option<&[u8]>) -> Option<String> {
    if got.len() != expected.len() {
        return Some(format!(
            "{} bytes expected, got {}",
            expected.len(),
            got.len()
        ));
    }
    let judged = |at: usize| mask.is_none_or(|mask| mask.get(at) == Some(&0xff));
    let at = (0..got.len()).find(|&at| judged(at) && got[at] != expected[at])?;
    let word = at / 8 * 8;
    let show = |bytes: &[u8]| {
        bytes
            .iter()
            .skip(word)
            .take(8)
            .rev()
            .map(|byte| format!("{byte:02x}"))
            .collect::<String>()
    };
    Some(format!(
        "byte {at}: word at {word} expected 0x{}, got 0x{}",
        show(expected),
        show(got)
    ))
}
