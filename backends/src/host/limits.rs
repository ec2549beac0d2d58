//! How much memory this process may pin, its descriptors, and the machine's huge pages.

use super::Host;

/// CAP_IPC_LOCK: a process that has it may pin without limit.
const CAP_IPC_LOCK: u32 = 14;

/// The most descriptors that this process may have open: their numbers are below this. The question
/// needs no descriptor, because there may be none left.
#[must_use]
pub fn open_files() -> u64 {
    let mut limit = libc::rlimit {
        rlim_cur: libc::RLIM_INFINITY,
        rlim_max: libc::RLIM_INFINITY,
    };
    // SAFETY: the kernel writes the limits there, or, if it refuses, nothing.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    limit.rlim_cur
}

/// Raises that limit to the most that this process may set, for a function with hundreds of vectors: an
/// event each.
pub fn raise_open_files() {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the kernel writes the limits there, or, if it refuses, nothing.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } == 0 {
        limit.rlim_cur = limit.rlim_max;
        // SAFETY: the limits are read. If it refuses, they stay as they are.
        unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) };
    }
}

/// How many descriptors this process can still open; `None` if the kernel does not say.
#[must_use]
pub fn free_files() -> Option<u64> {
    match std::fs::read_dir("/proc/self/fd") {
        // The folder itself is one of them.
        Ok(open) => Some(open_files().saturating_sub((open.count() as u64).saturating_sub(1))),
        Err(error) if error.raw_os_error() == Some(libc::EMFILE) => Some(0),
        Err(_) => None,
    }
}

fn soft_limit(host: &Host, name: &str) -> Option<String> {
    let limits = host.text("/proc/self/limits")?;
    let line = limits.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_ascii_whitespace().next().map(str::to_owned)
}

/// How much this process may pin for a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Memlock {
    /// No limit.
    Unlimited,
    /// This many bytes.
    Bytes(u64),
}

/// The limit of this process; `None` if the kernel does not say.
#[must_use]
pub fn memlock(host: &Host) -> Option<Memlock> {
    let status = host.text("/proc/self/status").unwrap_or_default();
    let effective = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    if effective.is_some_and(|mask| mask >> CAP_IPC_LOCK & 1 != 0) {
        return Some(Memlock::Unlimited);
    }
    let soft = soft_limit(host, "Max locked memory")?;
    if soft == "unlimited" {
        return Some(Memlock::Unlimited);
    }
    soft.parse().ok().map(Memlock::Bytes)
}

/// Bytes that already count against that limit: what this process has locked, and what VFIO's type1
/// has pinned for it. `None` if the kernel does not say.
#[must_use]
pub fn locked(host: &Host) -> Option<u64> {
    let status = host.text("/proc/self/status")?;
    let locked = status
        .lines()
        .find_map(|line| line.strip_prefix("VmLck:"))?;
    let kib: u64 = locked.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// Huge pages of the default size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HugePages {
    /// In the pool.
    pub total: u64,
    /// Not in use.
    pub free: u64,
    /// Bytes of one.
    pub bytes: u64,
}

/// The machine's huge pages; `None` if the kernel has none.
#[must_use]
pub fn huge_pages(host: &Host) -> Option<HugePages> {
    let info = host.text("/proc/meminfo")?;
    let value = |name: &str| {
        let line = info.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_ascii_whitespace().next()?.parse::<u64>().ok()
    };
    Some(HugePages {
        total: value("HugePages_Total:")?,
        free: value("HugePages_Free:")?,
        bytes: value("Hugepagesize:")?.checked_mul(1024)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::fake::Tree;

    const LIMITS: &str = "Limit                     Soft Limit           Hard Limit           Units\n\
                          Max locked memory         8388608              8388608              bytes\n";

    #[test]
    fn the_limit_and_the_capability_that_lifts_it() {
        let tree = Tree::with_card();
        tree.file("/proc/self/limits", LIMITS);
        tree.file(
            "/proc/self/status",
            "Name:\te810\nCapEff:\t0000000000003000\n",
        );
        assert_eq!(memlock(tree.host()), Some(Memlock::Bytes(8 << 20)));
        tree.file("/proc/self/status", "CapEff:\t0000000000004000\n");
        assert_eq!(memlock(tree.host()), Some(Memlock::Unlimited));
        tree.remove("/proc/self/status");
        tree.file(
            "/proc/self/limits",
            "Max locked memory         unlimited            unlimited            bytes\n",
        );
        assert_eq!(memlock(tree.host()), Some(Memlock::Unlimited));
        tree.remove("/proc/self/limits");
        assert_eq!(memlock(tree.host()), None);
    }

    #[test]
    fn what_is_locked_is_in_the_status() {
        let tree = Tree::with_card();
        let status = "VmPeak:\t   9000 kB\nVmLck:\t    6144 kB\nVmPin:\t       3 kB\n";
        tree.file("/proc/self/status", status);
        assert_eq!(locked(tree.host()), Some(6 << 20));
        tree.file("/proc/self/status", "VmLck:\tsome kB\n");
        assert_eq!(locked(tree.host()), None);
        tree.remove("/proc/self/status");
        assert_eq!(locked(tree.host()), None);
    }

    #[test]
    fn huge_pages_of_the_default_size() {
        let tree = Tree::with_card();
        let expected = HugePages {
            total: 16,
            free: 12,
            bytes: 2 << 20,
        };
        assert_eq!(huge_pages(tree.host()), Some(expected));
        tree.file("/proc/meminfo", "MemTotal: 1 kB\n");
        assert_eq!(huge_pages(tree.host()), None);
    }
}
