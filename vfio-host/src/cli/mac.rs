//! Ethernet addresses on the command line.

/// An Ethernet address of one interface.
pub(crate) fn parse_mac(text: &str) -> Result<[u8; 6], String> {
    let wrong =
        || format!("`{text}` is not the Ethernet address of an interface, like 02:e8:10:00:00:01");
    let mut mac = [0; 6];
    let mut parts = text.split(':');
    for byte in &mut mac {
        let part = parts.next().filter(|part| part.len() == 2);
        let digits = part.filter(|part| part.chars().all(|c| c.is_ascii_hexdigit()));
        *byte = digits
            .and_then(|part| u8::from_str_radix(part, 16).ok())
            .ok_or_else(wrong)?;
    }
    let is_one = parts.next().is_none() && mac != [0; 6] && mac.first().is_some_and(|b| b & 1 == 0);
    is_one.then_some(mac).ok_or_else(wrong)
}
