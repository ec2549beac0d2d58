//! `/proc/self/maps`: the addresses that a process has, and its rights to them.

use std::ops::Range;

use e810_hal::Access;

/// Whether the mappings of `maps` cover `range`, each with the right to read and, for
/// [`Access::ReadWrite`], to write.
pub(super) fn cover(maps: &str, range: Range<u64>, access: Access) -> bool {
    let mut at = range.start;
    // In address order.
    for (mapping, rights) in maps.lines().filter_map(mapping) {
        if mapping.end <= at {
            continue;
        }
        let fits = match access {
            Access::Read => rights.starts_with('r'),
            Access::ReadWrite => rights.starts_with("rw"),
        };
        if mapping.start > at || !fits {
            return false;
        }
        at = mapping.end;
        if at >= range.end {
            return true;
        }
    }
    false
}

/// `7f0000-7f1000 rw-p …`: addresses and rights of a line.
fn mapping(line: &str) -> Option<(Range<u64>, &str)> {
    let mut words = line.split_ascii_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let number = |text| u64::from_str_radix(text, 16).ok();
    Some((number(start)?..number(end)?, words.next()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_covered_by_neighbours_with_the_right() {
        let maps = "\
55d0c0a00000-55d0c0a21000 rw-p 00000000 00:00 0                          [heap]
7f1000000000-7f1000001000 r--p 00000000 fe:01 1234                       /a file
7f1000001000-7f1000002000 rw-p 00001000 fe:01 1234                       /a file
7f1000002000-7f1000003000 ---p 00000000 00:00 0 
7f1000004000-7f1000005000 rw-s 00000000 00:01 5                          /memfd:x (deleted)
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]
";
        let is = |from: u64, to: u64, access| {
            let base = 0x7f10_0000_0000;
            cover(maps, base + from..base + to, access)
        };
        assert!(is(0, 1, Access::Read));
        assert!(!is(0, 1, Access::ReadWrite));
        assert!(is(0x1000, 0x2000, Access::ReadWrite));
        assert!(is(0, 0x2000, Access::Read), "two mappings");
        assert!(!is(0x800, 0x1800, Access::ReadWrite), "half of it");
        assert!(!is(0x1fff, 0x2001, Access::Read), "no right");
        assert!(!is(0x3fff, 0x4001, Access::Read), "a hole in front");
        assert!(is(0x4000, 0x5000, Access::ReadWrite));
        assert!(!is(0x4fff, 0x5001, Access::Read), "past the last");
        assert!(!cover(maps, 0..1, Access::Read), "before the first");
        assert!(!cover("", 0..1, Access::Read));
        let top = u64::MAX - 1..u64::MAX;
        assert!(!cover(maps, top, Access::Read));
    }
}
