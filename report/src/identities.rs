//! Ethernet addresses and serial numbers, taken out of what is shown to others.

/// `text` with each Ethernet address replaced by `xx:xx:xx:xx:xx:xx`, of six pairs of
/// hexadecimal digits with `:` or `-` between them.
#[must_use]
pub fn without_addresses(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = String::with_capacity(text.len());
    let mut rest = 0;
    let mut at = 0;
    while at < bytes.len() {
        match bytes.get(at..).and_then(address) {
            // Not in the middle of a longer row of pairs.
            Some(length) if !touches_digit(bytes, at, length) => {
                out.push_str(text.get(rest..at).unwrap_or_default());
                out.push_str("xx:xx:xx:xx:xx:xx");
                at += length;
                rest = at;
            }
            _ => at += 1,
        }
    }
    out.push_str(text.get(rest..).unwrap_or_default());
    out
}

/// The length of the address that `bytes` begin with.
fn address(bytes: &[u8]) -> Option<usize> {
    const LENGTH: usize = 17;
    let candidate = bytes.get(..LENGTH)?;
    let separator = *candidate.get(2)?;
    let fits = candidate.iter().enumerate().all(|(n, byte)| match n % 3 {
        2 => *byte == separator && b":-".contains(byte),
        _ => byte.is_ascii_hexdigit(),
    });
    fits.then_some(LENGTH)
}

fn touches_digit(bytes: &[u8], at: usize, length: usize) -> bool {
    let is_digit = |place: Option<&u8>| place.is_some_and(u8::is_ascii_hexdigit);
    let before = at.checked_sub(1).and_then(|place| bytes.get(place));
    is_digit(before) || is_digit(bytes.get(at + length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_taken_out() {
        for (text, expected) in [
            ("ice: MAC 3c:fd:fe:01:02:03.", "ice: MAC xx:xx:xx:xx:xx:xx."),
            ("3C-FD-FE-01-02-03", "xx:xx:xx:xx:xx:xx"),
            (
                "a 3c:fd:fe:01:02:03 b 00:00:00:00:00:01",
                "a xx:xx:xx:xx:xx:xx b xx:xx:xx:xx:xx:xx",
            ),
            // A PCI address, a time, a GUID that is longer, and text that is no ASCII.
            ("0000:3b:00.0 12:30:59", "0000:3b:00.0 12:30:59"),
            ("x3c:fd:fe:01:02:033", "x3c:fd:fe:01:02:033"),
            ("grün 3c:fd:fe:01:02:0g", "grün 3c:fd:fe:01:02:0g"),
        ] {
            assert_eq!(without_addresses(text), expected);
        }
    }
}
