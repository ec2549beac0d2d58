//! A served function as the crate's own client sees it: the server checked by
//! independent code, with the messages that a virtual machine sends.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use e810_backends::memory::SharedMemory;
use e810_hal::regs::{
    DYN_CTL_ENABLE, GLINT_DYN_CTL, GLPE_CPUSTATUS0, PFPE_CCQPHIGH, PFPE_CCQPLOW, PFPE_CQPTAIL,
};
use e810_hal::{RegOffset, Vector};
use vfio_user::Client;
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

use super::processes::{Served, until};
use super::proxy::Proxied;

pub(super) const CONFIG: u32 = 7;
const MSIX: u32 = 2;
const EVENTS: u32 = 0x24;
const NONE: u32 = 0x21;
const PAGE: u64 = 4096;

/// The crate's client with what these tests do all the time.
struct User(Client);

/// How users of these tests reach the function: what they find there is the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    Direct,
    Proxied,
}

/// Runs a test in both ways, each on a function of its own.
fn both(test: impl Fn(&Served, Reach)) {
    for way in [Way::Direct, Way::Proxied] {
        let served = Served::start();
        let proxy = (way == Way::Proxied)
            .then(|| Proxied::of(served.folder.as_path(), "proxy", &served.paths[0]));
        let path = proxy
            .as_ref()
            .map_or(&served.paths[0], |proxy| &proxy.socket);
        test(&served, Reach { way, path });
    }
}

/// Where a user of the first function connects.
#[derive(Clone, Copy)]
struct Reach<'a> {
    way: Way,
    path: &'a Path,
}

impl Reach<'_> {
    /// A user that has found the function as after power-up.
    fn user(self) -> User {
        User(Client::new(self.path).unwrap())
    }

    /// A user that has enabled memory and bus mastering.
    fn enabled(self) -> User {
        let mut user = self.user();
        user.enable();
        user
    }

    /// Resets before a user's first access.
    fn resets_before(self) -> u64 {
        u64::from(self.way == Way::Proxied)
    }

    /// Resets of so many users: when they leave, and before.
    fn resets_of(self, users: u64) -> u64 {
        users + users * self.resets_before()
    }
}

impl User {
    /// A user that has found the function as after power-up.
    fn new(served: &Served) -> Self {
        Self(Client::new(&served.paths[0]).unwrap())
    }

    /// A user that has enabled memory and bus mastering.
    fn enabled(served: &Served) -> Self {
        let mut this = Self::new(served);
        this.enable();
        this
    }

    fn enable(&mut self) {
        self.write(CONFIG, 4, 6);
    }

    fn read(&mut self, region: u32, offset: u64) -> u32 {
        let mut bytes = [0; 4];
        self.0.region_read(region, offset, &mut bytes).unwrap();
        u32::from_le_bytes(bytes)
    }

    fn write(&mut self, region: u32, offset: u64, value: u32) {
        let bytes = value.to_le_bytes();
        self.0.region_write(region, offset, &bytes).unwrap();
    }

    fn get(&mut self, off: RegOffset) -> u32 {
        self.read(0, off.get().into())
    }

    fn set(&mut self, off: RegOffset, value: u32) {
        self.write(0, off.get().into(), value);
    }

    fn map(&mut self, file: &SharedMemory, offset: u64, iova: u64, bytes: u64) {
        let fd = file.file().as_raw_fd();
        self.0.dma_map(offset, iova, bytes, fd).unwrap();
    }

    /// Makes a vector fire by hand.
    fn trigger(&mut self, vector: u16) {
        let dyn_ctl = GLINT_DYN_CTL.at(Vector::new(vector).unwrap()).off();
        self.set(dyn_ctl, DYN_CTL_ENABLE | 1 << 2);
    }

    fn connect(&mut self, vector: u32, event: Option<&EventFd>) {
        let fds: Vec<_> = event.iter().map(|event| event.as_raw_fd()).collect();
        self.0.set_irqs(MSIX, EVENTS, vector, 1, &fds).unwrap();
    }
}

fn event() -> EventFd {
    EventFd::new(EFD_NONBLOCK).unwrap()
}

#[test]
fn regions_interrupts_and_identity_are_those_of_the_card() {
    let served = Served::start();
    let mut user = User::new(&served);
    let sizes: Vec<u64> = (0..9).map(|i| user.0.region(i).unwrap().size).collect();
    assert_eq!(sizes, [32 << 20, 0, 0, 64 << 10, 0, 0, 0, 4096, 0]);
    assert!(user.0.region(9).is_none());
    let counts: Vec<u32> = (0..5)
        .map(|i| user.0.get_irq_info(i).unwrap().count)
        .collect();
    assert_eq!(counts, [0, 0, 64, 0, 0]);
    assert_eq!(user.read(CONFIG, 0), 0x1592_8086);
    assert_eq!(user.read(CONFIG, 8) >> 8, 0x02_0000);
    user.write(CONFIG, 0x10, u32::MAX);
    assert_eq!(user.read(CONFIG, 0x10), 0xfe00_000c);
    user.write(CONFIG, 4, 6);
    assert_eq!(user.read(CONFIG, 4) & 0xffff, 6);
    // The MSI-X table is memory, all vectors masked at first; nothing pends.
    assert_eq!((user.read(3, 12), user.read(3, 0x8000)), (1, 0));
    user.write(3, 16, 0xfee0_0000);
    assert_eq!(user.read(3, 16), 0xfee0_0000);
    // Registers are 32 bits wide: any other width is a finding.
    assert_eq!(served.report().findings, []);
    user.0.region_read(0, 0, &mut [0; 8]).unwrap();
    assert_eq!(served.report().findings[0].kind, "register-width");
}

#[test]
fn both_resets_reset_the_function() {
    both(|served, reach| {
        let mut user = reach.user();
        let tail = PFPE_CQPTAIL.off();
        for by_message in [false, true] {
            user.write(CONFIG, 4, 6);
            user.set(tail, 5);
            assert_eq!(user.get(tail), 5);
            if by_message {
                user.0.reset().unwrap();
            } else {
                let control = user.read(CONFIG, 0xa8);
                user.write(CONFIG, 0xa8, control | 0x8000);
                assert_eq!(user.read(CONFIG, 0xa8) & 0x8000, 0);
            }
            assert_eq!(user.read(CONFIG, 4) & 4, 0, "no longer a master");
            user.enable();
            assert_eq!(user.get(tail), 0);
            assert_eq!(user.get(GLPE_CPUSTATUS0.off()), 0x80);
        }
        let report = served.report();
        assert_eq!(
            (report.functions[0].function_resets, report.findings),
            (2 + reach.resets_before(), vec![])
        );
    });
}

/// What a virtual machine sends: one file, a message for each page, and more
/// taken back than was given.
#[test]
fn thousands_of_pages_of_one_file_and_more_taken_back() {
    let served = Served::start();
    let nic = served.sim.function(0);
    let mut user = User::new(&served);
    let memory = SharedMemory::new(16 << 20, false).unwrap();
    for page in 0..4096 {
        // In another order than in the file.
        user.map(
            &memory,
            page * PAGE,
            0x1_0000_0000 + (page ^ 1) * PAGE,
            PAGE,
        );
    }
    assert_eq!(served.report().functions[0].most_dma_maps, 4096);
    assert_eq!(mappings_of(&memory), 2, "theirs and ours, in one process");

    // An HMC page or a CQP context may lie across two of them.
    for (address, size) in [
        // Nothing there; one page; past the end of the space; all that is left.
        (0x7000_0000, 0x10_0000),
        (0x1_0000_0000, PAGE),
        (0x1_0000_1000, u64::MAX),
        (0xffff_ffff_ffff_f000, 0x2000),
        (0, u64::MAX),
    ] {
        user.0.dma_unmap(address, size).unwrap();
    }
    assert_eq!(nic.attached_memory(), 0);
    until("the file to be let go", || {
        (mappings_of(&memory) == 1).then_some(())
    });
    // One mapping over what was there, and one that is there already.
    user.map(&memory, 0, 0x1_0000_0000, 16 << 20);
    assert_eq!(served.report().findings, []);
    user.map(&memory, 0, 0x1_0000_1000, PAGE);
    user.map(&memory, 16 << 20, 0x2_0000_0000, PAGE);
    let report = served.report();
    assert_eq!(report.findings[0].kind, "dma-overlap");
    assert_eq!(
        (report.functions[0].refused_dma_maps, nic.attached_memory()),
        (2, 1)
    );
}

/// How often this process has the file mapped.
fn mappings_of(memory: &SharedMemory) -> usize {
    use std::os::unix::fs::MetadataExt;
    let file = File::from(memory.file().try_clone_to_owned().unwrap());
    let inode = format!(" {} ", file.metadata().unwrap().ino());
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    maps.lines()
        .filter(|line| line.contains("memfd:e810") && line.contains(&inode))
        .count()
}

/// The engine reaches what was mapped, and nothing else.
#[test]
fn dma_goes_where_it_was_mapped() {
    both(|served, reach| {
        let mut user = reach.enabled();
        let memory = SharedMemory::new(1 << 20, false).unwrap();
        user.map(&memory, 0, 0x10_0000, 1 << 20);
        // A CQP context of zeros is read, and found wanting: a CQP of no size.
        let create = |user: &mut User, low: u32| {
            user.set(PFPE_CCQPHIGH.off(), 0);
            user.set(PFPE_CCQPLOW.off(), low);
            user.get(PFPE_CQPTAIL.off());
        };
        create(&mut user, 0x10_0000);
        let faults = |served: &Served| served.report().functions[0].dma_faults;
        until("the context to be read", || {
            (served.sim.stats(0).dma_reads > 0).then_some(())
        });
        assert_eq!(faults(served), 0);
        user.0.reset().unwrap();
        user.enable();
        user.0.dma_unmap(0x10_0000, 1 << 20).unwrap();
        create(&mut user, 0x10_0000);
        until("the fault", || (faults(served) > 0).then_some(()));
        let findings = served.report().findings;
        let kinds: Vec<&str> = findings.iter().map(|f| f.kind.as_str()).collect();
        assert!(kinds.contains(&"dma-freed"), "{kinds:?}");
        // The words of the file were not touched.
        // SAFETY: used while `memory` lives; atomic.
        let word = unsafe { memory.start().cast::<AtomicU64>().as_ref() };
        assert_eq!(word.load(Ordering::Relaxed), 0);
    });
}

#[test]
fn vectors_are_connected_again_and_again() {
    both(|served, reach| {
        let mut user = reach.enabled();
        let (first, second, other) = (event(), event(), event());
        let fired = |event: &EventFd| until("an interrupt", || event.read().ok());
        user.connect(3, Some(&first));
        user.connect(7, Some(&other));
        user.trigger(3);
        assert_eq!(fired(&first), 1);
        user.connect(3, Some(&second));
        user.trigger(3);
        assert_eq!(fired(&second), 1);
        assert!(first.read().is_err());
        // Disconnected, the message waits for the next event.
        user.connect(3, None);
        user.trigger(3);
        user.trigger(7);
        assert_eq!(fired(&other), 1);
        user.connect(3, Some(&first));
        assert_eq!(fired(&first), 1);
        user.0.set_irqs(MSIX, NONE, 0, 0, &[]).unwrap();
        user.trigger(7);
        // Reads push the write; nothing fired, and nothing will.
        user.get(GLPE_CPUSTATUS0.off());
        assert!(other.read().is_err());
        user.connect(7, Some(&other));
        user.trigger(7);
        // The function behind a proxy may send the first message when the vector is connected again.
        let most = if reach.way == Way::Direct { 1 } else { 2 };
        assert!((1..=most).contains(&fired(&other)));
        // Out of range, for another kind of interrupt, or of no known form.
        user.0.set_irqs(MSIX, EVENTS, 64, 1, &[]).unwrap();
        user.0.set_irqs(0, EVENTS, 0, 1, &[]).unwrap();
        user.0.set_irqs(MSIX, 0x0c, 0, 1, &[]).unwrap();
        // A proxy refuses them itself.
        let refused = if reach.way == Way::Direct { 2 } else { 0 };
        let report = served.report();
        assert_eq!(
            (report.functions[0].refused_irqs, report.findings),
            (refused, vec![])
        );
    });
}

/// The table follows the connections: it is unmasked where there is one, also
/// after a reset, and keeps the message of a vector that has none.
#[test]
fn the_msix_table_follows_the_connections() {
    let served = Served::start();
    let mut user = User::enabled(&served);
    let (first, late) = (event(), event());
    user.connect(3, Some(&first));
    let mask = |user: &mut User, vector: u64| user.read(3, 16 * vector + 12);
    assert_eq!((mask(&mut user, 3), mask(&mut user, 7)), (0, 1));
    user.trigger(7);
    assert_eq!(user.read(3, 0x8000), 1 << 7);
    user.connect(7, Some(&late));
    assert_eq!((user.read(3, 0x8000), mask(&mut user, 7)), (0, 0));
    until("the message that was kept", || {
        late.read().ok().map(|count| assert_eq!(count, 1))
    });
    // By the message, and through configuration space.
    user.0.reset().unwrap();
    assert_eq!((mask(&mut user, 3), mask(&mut user, 5)), (0, 1));
    user.write(CONFIG, 0xa8, 0xa810);
    user.enable();
    assert_eq!((mask(&mut user, 3), mask(&mut user, 5)), (0, 1));
    user.trigger(3);
    until("an interrupt after the reset", || first.read().ok());
    user.0.set_irqs(MSIX, NONE, 0, 0, &[]).unwrap();
    assert_eq!(mask(&mut user, 3), 1);
    assert_eq!(served.report().findings, []);
}

/// Memory Space Enable and Bus Master Enable do what they do on a bus.
#[test]
fn the_command_register_is_obeyed() {
    both(|served, reach| {
        let mut user = reach.user();
        let (memory, event) = (SharedMemory::new(1 << 20, false).unwrap(), event());
        user.map(&memory, 0, 0x10_0000, 1 << 20);
        user.connect(1, Some(&event));
        // Neither: the BARs are not there.
        for (region, at) in [(0, PFPE_CQPTAIL.off().get().into()), (3, 12)] {
            user.write(region, at, 0);
            assert_eq!(user.read(region, at), u32::MAX);
        }
        user.0.region_read(0, 2, &mut [0; 2]).unwrap();
        user.trigger(1);
        assert_eq!(served.sim.stats(0).register_writes, 0);
        // Memory alone: registers answer, and the function cannot act.
        user.write(CONFIG, 4, 2);
        assert_eq!((user.get(PFPE_CQPTAIL.off()), user.read(3, 12)), (0, 1));
        assert_eq!(served.report().findings, []);
        user.trigger(1);
        user.set(PFPE_CCQPHIGH.off(), 0);
        user.set(PFPE_CCQPLOW.off(), 0x10_0000);
        let kinds = until("both findings", || {
            let findings = served.report().findings;
            let kinds: Vec<String> = findings.into_iter().map(|f| f.kind).collect();
            let dma = kinds.iter().any(|kind| kind == "dma-no-bus-master");
            dma.then_some(kinds)
        });
        assert_eq!(kinds[0], "msix-no-bus-master");
        assert_eq!(served.sim.stats(0).dma_reads, 0);
        assert!(event.read().is_err());
        // Both.
        user.0.reset().unwrap();
        user.enable();
        user.trigger(1);
        until("an interrupt", || event.read().ok());
        user.set(PFPE_CCQPLOW.off(), 0x10_0000);
        until("the context to be read", || {
            (served.sim.stats(0).dma_reads > 0).then_some(())
        });
    });
}

/// The next user finds a function without memory, interrupts or state.
#[test]
fn users_come_in_turn() {
    both(|served, reach| {
        let memory = SharedMemory::new(1 << 20, false).unwrap();
        let stale = event();
        for turn in 0..4 {
            let mut user = reach.user();
            assert_eq!(user.read(CONFIG, 4) & 6, 0);
            user.enable();
            assert_eq!(user.get(PFPE_CQPTAIL.off()), 0, "turn {turn}");
            assert_eq!(served.sim.function(0).attached_memory(), 0);
            user.trigger(1);
            user.get(GLPE_CPUSTATUS0.off());
            assert!(stale.read().is_err(), "turn {turn}");
            user.connect(1, Some(&stale));
            user.trigger(1);
            until("an interrupt", || stale.read().ok());
            user.map(&memory, 0, 0x10_0000, 1 << 20);
            user.set(PFPE_CQPTAIL.off(), 7);
            user.0.shutdown().unwrap();
        }
        let resets = reach.resets_of(4);
        let report = until("the last one to leave", || {
            let report = served.report();
            (report.functions[0].function_resets == resets).then_some(report)
        });
        assert_eq!(report.findings, vec![]);
    });
}
