//! Ethernet addresses in the notation of options.

use super::Mac;

/// Why a string is not an Ethernet address.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`{0}` is not the Ethernet address of an interface, like 02:e8:10:00:00:01")]
pub struct ParseMacError(pub String);

/// Reads the Ethernet address of one interface: no group, and not zero.
///
/// # Errors
/// [`ParseMacError`].
pub fn parse_mac(text: &str) -> Result<Mac, ParseMacError> {
    let wrong = || ParseMacError(text.to_owned());
    let mut mac = [0; 6];
    let mut parts = text.split(':');
    for byte in &mut mac {
        let part = parts.next().filter(|part| part.len() == 2);
        let digits = part.filter(|part| part.chars().all(|c| c.is_ascii_hexdigit()));
        *byte = digits
            .and_then(|part| u8::from_str_radix(part, 16).ok())
            .ok_or_else(wrong)?;
    }
    let is_one = parts.next().is_none() && mac != [0; 6] && mac[0] & 1 == 0;
    is_one.then_some(mac).ok_or_else(wrong)
}

/// An Ethernet address as [`parse_mac`] reads it.
#[must_use]
pub fn mac_option([a, b, c, d, e, f]: Mac) -> String {
    format!("{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_one_interface() {
        let mac = [0x02, 0xe8, 0x1f, 0, 0xab, 7];
        assert_eq!(parse_mac("02:e8:1f:00:ab:07"), Ok(mac));
        assert_eq!(parse_mac("02:E8:1F:00:AB:07"), Ok(mac));
        assert_eq!(mac_option(mac), "02:e8:1f:00:ab:07");
        for text in [
            "",
            "02:e8:1f:00:ab",
            "02:e8:1f:00:ab:07:00",
            "2:e8:1f:00:ab:07",
            "+2:e8:1f:00:ab:07",
            "03:e8:1f:00:ab:07",
            "00:00:00:00:00:00",
        ] {
            assert_eq!(parse_mac(text), Err(ParseMacError(text.to_owned())));
        }
    }
}
