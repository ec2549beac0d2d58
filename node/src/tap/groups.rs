//! The multicast groups that the host's stack has joined on the interface.
//!
//! The kernel does not report them: rtnetlink has messages of groups only since Linux 6.13. They
//! are in `/proc/net/dev_mcast`, a line for each interface and group; groups of VLANs are listed
//! with the interface below.

use std::collections::BTreeSet;
use std::fs;
use std::io;

use e810::MacAddr;

/// The file.
const FILE: &str = "/proc/net/dev_mcast";

/// The groups of an interface now.
///
/// # Errors
/// The file cannot be read.
pub(super) fn of_interface(index: u32) -> io::Result<BTreeSet<[u8; 6]>> {
    Ok(parse(&fs::read_to_string(FILE)?, index))
}

/// Each line is `INDEX NAME USERS GLOBAL ADDRESS`.
fn parse(text: &str, index: u32) -> BTreeSet<[u8; 6]> {
    let of_line = |line: &str| {
        let mut words = line.split_whitespace();
        let of: u32 = words.next()?.parse().ok()?;
        let address = words.nth(3).filter(|_| of == index)?;
        group(address)
    };
    text.lines().filter_map(of_line).collect()
}

fn group(text: &str) -> Option<[u8; 6]> {
    let digits = u64::from_str_radix(text, 16).ok();
    let [_, _, mac @ ..] = digits.filter(|_| text.len() == 12)?.to_be_bytes();
    (mac[0] & 1 == 1 && MacAddr(mac) != MacAddr([0xFF; 6])).then_some(mac)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_of_one_interface_are_read() {
        let text = "1    lo              1     0     333300000001\n\
                    12   lab0            1     0     01005e000001\n\
                    12   lab0            2     0     3333ff000001\n\
                    12   lab0            1     0     021122334455\n\
                    12   lab0            1     0     33330000\n\
                    12   lab0\n\
                    120  lab00           1     0     01005e000002\n";
        let groups: Vec<_> = parse(text, 12).into_iter().collect();
        assert_eq!(groups, [[1, 0, 0x5E, 0, 0, 1], [0x33, 0x33, 0xFF, 0, 0, 1]]);
        assert!(parse("", 12).is_empty());
    }
}
