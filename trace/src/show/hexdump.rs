//! Bytes in rows of 16, as the kernel's `print_hex_dump` prints them with an offset.

/// Groups of one byte, as ice does.
pub(super) fn by_byte(label: &str, bytes: &[u8]) -> Vec<String> {
    let row = |(at, row): (usize, &[u8])| {
        let digits: Vec<String> = row.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{label}{:08x}: {}", at * 16, digits.join(" "))
    };
    bytes.chunks(16).enumerate().map(row).collect()
}

/// Groups of eight bytes, each a number, as irdma does.
pub(super) fn by_word(label: &str, words: &[u64]) -> Vec<String> {
    let row = |(at, row): (usize, &[u64])| {
        let digits: Vec<String> = row.iter().map(|word| format!("{word:016x}")).collect();
        format!("{label}{:08x}: {}", at * 16, digits.join(" "))
    };
    words.chunks(2).enumerate().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_those_of_the_kernel() {
        let bytes: Vec<u8> = (0..18).collect();
        assert_eq!(
            by_byte("ice 0x00000000 0x00000000 ", &bytes),
            [
                "ice 0x00000000 0x00000000 00000000: 00 01 02 03 04 05 06 07 08 09 0a 0b 0c 0d 0e 0f",
                "ice 0x00000000 0x00000000 00000010: 10 11",
            ]
        );
        assert_eq!(
            by_word("WQE: CQ_CREATE WQE", &[0x400, 1, 2]),
            [
                "WQE: CQ_CREATE WQE00000000: 0000000000000400 0000000000000001",
                "WQE: CQ_CREATE WQE00000010: 0000000000000002",
            ]
        );
    }
}
