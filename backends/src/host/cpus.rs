//! CPUs: those that this thread may use, and the one that takes a function's interrupts.

use std::fs;
use std::io;
use std::num::NonZero;
use std::thread;

use super::Host;
use crate::spec::Bdf;

/// Number of CPUs that are online, at least 1.
#[must_use]
pub fn online(host: &Host) -> u16 {
    let list = host.text("/sys/devices/system/cpu/online");
    let count = list.as_deref().and_then(count).filter(|count| *count > 0);
    let usable = || thread::available_parallelism().map_or(1, NonZero::get);
    u16::try_from(count.unwrap_or_else(usable)).unwrap_or(u16::MAX)
}

/// CPUs in a list of the kernel's, for example `0-3,8`.
fn count(list: &str) -> Option<usize> {
    let mut all = 0usize;
    for range in list.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        all = all.checked_add(last.checked_sub(first)?.checked_add(1)?)?;
    }
    Some(all)
}

/// CPUs, one bit each, in the kernel's format.
type CpuMask = [u64; 16];

/// Numbers of the CPUs that this thread may use, in order; `None` if the kernel does not say, or
/// has more than 1024.
#[must_use]
pub fn allowed() -> Option<Vec<usize>> {
    let mut mask: CpuMask = [0; 16];
    // SAFETY: the kernel writes at most the given size, into memory that lives for the call; a
    // cpu_set_t is such a mask.
    let code = unsafe { libc::sched_getaffinity(0, size_of::<CpuMask>(), (&raw mut mask).cast()) };
    if code != 0 {
        return None;
    }
    let is_allowed = |cpu: &usize| {
        mask.get(cpu / 64)
            .is_some_and(|word| word >> (cpu % 64) & 1 == 1)
    };
    Some((0..64 * mask.len()).filter(is_allowed).collect())
}

/// Keeps this thread on CPU `cpu`; false if it may not run there.
#[must_use]
pub fn stay_on(cpu: usize) -> bool {
    let mut mask: CpuMask = [0; 16];
    if let Some(word) = mask.get_mut(cpu / 64) {
        *word = 1 << (cpu % 64);
    }
    // SAFETY: the kernel reads the given size from memory that lives for the call; a cpu_set_t is
    // such a mask.
    let code =
        unsafe { libc::sched_setaffinity(0, size_of::<CpuMask>(), (&raw const mask).cast()) };
    code == 0
}

/// Directs the interrupts of an MSI-X vector that vfio-pci has connected to CPU `cpu`.
///
/// # Errors
/// The kernel lists no such interrupt, or does not let this user direct it.
pub fn send_vector_to(host: &Host, bdf: Bdf, vector: u16, cpu: u32) -> io::Result<()> {
    let list = fs::read_to_string(host.path("/proc/interrupts"))?;
    let irq = irq_of(&list, bdf, vector).ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::NotFound,
            format!("/proc/interrupts does not list vector {vector} of {bdf}"),
        )
    })?;
    let path = host.path(&format!("/proc/irq/{irq}/smp_affinity_list"));
    fs::write(path, cpu.to_string())
}

/// The number of the interrupt that vfio-pci has named after the vector.
fn irq_of(interrupts: &str, bdf: Bdf, vector: u16) -> Option<u32> {
    let name = format!("vfio-msix[{vector}]({bdf})");
    let is_its = |line: &&str| line.split_ascii_whitespace().next_back() == Some(&name);
    let line = interrupts.lines().find(is_its)?;
    line.split(':').next()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::fake::Tree;

    const INTERRUPTS: &str = "           CPU0       CPU1
   1:          9          0  IR-IO-APIC    1-edge      i8042
  45:          0         12  IR-PCI-MSIX-0000:3b:00.0    1-edge      vfio-msix[1](0000:3b:00.0)
  46:          0          0  IR-PCI-MSIX-0000:3b:00.1    0-edge      vfio-msix[1](0000:3b:00.1)
 112:          0          0  IR-PCI-MSIX-0000:3b:00.0   11-edge      vfio-msix[11](0000:3b:00.0)
 NMI:          0          0   Non-maskable interrupts
";

    #[test]
    fn lists_of_cpus_are_counted() {
        let counted = |list| count(list);
        assert_eq!(counted("0"), Some(1));
        assert_eq!(counted("0-3,8"), Some(5));
        assert_eq!(counted("0-63,128-191"), Some(128));
        for wrong in ["", "a", "3-1", "1,", "0-18446744073709551615"] {
            assert_eq!(counted(wrong), None, "{wrong}");
        }
        let tree = Tree::with_card();
        assert!(online(tree.host()) >= 1, "counted otherwise");
        tree.file("/sys/devices/system/cpu/online", "0-6\n");
        assert_eq!(online(tree.host()), 7);
    }

    #[test]
    fn an_interrupt_is_found_by_its_name() {
        let bdf: Bdf = "3b:00.0".parse().unwrap();
        let of = |bdf, vector| irq_of(INTERRUPTS, bdf, vector);
        assert_eq!(of(bdf, 1), Some(45));
        assert_eq!(of(bdf, 11), Some(112));
        assert_eq!(of("3b:00.1".parse().unwrap(), 1), Some(46));
        assert_eq!(of(bdf, 0), None);
        assert_eq!(of("3c:00.0".parse().unwrap(), 1), None);
    }

    #[test]
    fn a_vector_is_sent_to_a_cpu_or_the_reason_is_reported() {
        let tree = Tree::with_card();
        let bdf: Bdf = "3b:00.0".parse().unwrap();
        let send = |vector| send_vector_to(tree.host(), bdf, vector, 6);
        assert!(send(11).is_err(), "there is no list");
        tree.file("/proc/interrupts", INTERRUPTS);
        let error = send(0).unwrap_err().to_string();
        assert!(error.contains("vector 0 of 0000:3b:00.0"), "{error}");
        tree.file("/proc/irq/112/smp_affinity_list", "0-63\n");
        send(11).unwrap();
        let path = tree.host().path("/proc/irq/112/smp_affinity_list");
        assert_eq!(fs::read_to_string(path).unwrap(), "6");
    }
}
