//! Names of segments, and the multicast group that each stands for.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::str::FromStr;

/// Characters of a name at most.
const LONGEST: usize = 64;
/// The lowest port of a group. This one and the 4095 above are none that Linux gives to programs
/// that ask for any (32768 to 60999).
const FIRST_PORT: u16 = 61_000;

/// The name of a segment: 1 to 64 letters, digits, `-`, `_` and `.`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct WireName(String);

/// Why a string is not the name of a segment.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`{0}` is not a wire name: use 1 to 64 letters, digits, -, _ and .")]
pub struct NoWireName(pub String);

impl WireName {
    /// The group and the port of the segment.
    ///
    /// With `h` for the 64-bit FNV-1a hash of the name's bytes, and `f` for the low half of it XOR
    /// the high half, the group is 239.x.y.z, where x is bits 22:16 of `f`, y bits 15:8 and z bits
    /// 7:0; the port is 61000 + `h` mod 4096. These are the same in every version.
    #[must_use]
    pub fn group(&self) -> SocketAddrV4 {
        let hash = fnv_1a(self.0.as_bytes());
        let [_, x, y, z] = ((hash >> 32) as u32 ^ hash as u32).to_be_bytes();
        let port = FIRST_PORT + (hash & 0xfff) as u16;
        SocketAddrV4::new(Ipv4Addr::new(239, x & 0x7f, y, z), port)
    }
}

/// The 64-bit FNV-1a hash.
fn fnv_1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

impl FromStr for WireName {
    type Err = NoWireName;

    fn from_str(text: &str) -> Result<Self, NoWireName> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        let is_name = (1..=LONGEST).contains(&text.len()) && text.bytes().all(plain);
        match is_name {
            true => Ok(Self(text.to_owned())),
            false => Err(NoWireName(text.to_owned())),
        }
    }
}

impl fmt::Display for WireName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn name(text: &str) -> WireName {
        text.parse().unwrap()
    }

    #[test]
    fn the_hash_is_fnv_1a() {
        // Of the authors' test vectors.
        assert_eq!(fnv_1a(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv_1a(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(fnv_1a(b"foobar"), 0x8594_4171_f739_67e8);
    }

    /// Other programs, such as a QEMU's command line, have these numbers written down.
    #[test]
    fn the_group_of_a_name_stays_the_same() {
        for (text, group) in [
            ("a", "239.98.48.192:64212"),
            ("lab", "239.36.125.173:63996"),
            ("rack-7.left", "239.55.78.56:62057"),
        ] {
            assert_eq!(name(text).group().to_string(), group, "{text}");
        }
    }

    #[test]
    fn groups_are_in_the_range_and_differ() {
        let groups: BTreeSet<_> = (0..5000)
            .map(|number| name(&format!("wire{number}")).group())
            .collect();
        assert!(groups.len() > 4990, "{}", groups.len());
        for group in groups {
            let [first, second, ..] = group.ip().octets();
            assert!(first == 239 && second < 128, "{group}");
            assert!((61_000..=65_095).contains(&group.port()), "{group}");
        }
    }

    #[test]
    fn what_is_no_name_is_refused() {
        let longest = "x".repeat(64);
        assert_eq!(name(&longest).to_string(), longest);
        for text in ["", "a b", "a,b", "a=b", "ä", "a/b", &"x".repeat(65)] {
            assert_eq!(text.parse::<WireName>(), Err(NoWireName(text.to_owned())));
        }
    }
}
