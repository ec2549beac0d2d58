//! What a configuration is said to need is what it takes.

use e810::hmc::{Backing, Capacity, FpmQuery, Object, ObjectLimits};
use e810::{AccessFlags, Device, GidEntry, QpCaps, QpInit, Ready, StageError, bring_up_cold, v4};
use e810::{ColdStart, Config, HOST_ALLOCATIONS, LinkPolicy, Package, PackageSource};
use e810_backends::buffer::Payload;
use e810_hal::Ns;
use e810_host::commands::up::limits::as_source;
use e810_sim::{Profile, SimPlatform, test_package};

use crate::cold::world::{assert_as_found, builder, card};

/// What is known of segments: as many words as the engine can have at most.
const SEGMENTS: u64 = 4_096 * 8;

fn up_with(
    nic: SimPlatform,
    config: &Config,
) -> Result<Device<SimPlatform, Ready<SimPlatform>>, StageError> {
    let file = test_package();
    let start = ColdStart {
        package: PackageSource::File(Package::parse(&file).unwrap()),
        link: LinkPolicy::Wait(Ns::from_ms(10_000)),
    };
    bring_up_cold(nic, config, &start, &mut |_| {})
}

/// As `e810 up --card` prints it.
const SMALL_CARD: FpmQuery = include!("small_card.rs");

/// What an embedder writes down.
const POOL: u64 = Config::cold(1500).dma_bytes(&SMALL_CARD);

#[test]
fn a_card_is_a_constant() {
    let sim = builder(1).build();
    let device = up_with(sim.function(0), &Config::cold(1500)).unwrap();
    let (control, events) = device.split();
    assert_eq!(
        as_source(&control.hmc().query),
        include_str!("small_card.rs")
    );
    assert_eq!(control.hmc().query, SMALL_CARD);
    assert!(sim.memory(0).dma_bytes <= POOL);
    control
        .shutdown(events)
        .map_err(|failed| failed.error)
        .unwrap();
}

/// A small capacity, the default one, and a large one, with entries of the CQP.
fn capacities() -> [(Capacity, u32); 3] {
    let small = Capacity {
        qps: 5,
        cqs: 6,
        mrs: 7,
        ahs: 4,
        arps: 8,
        mcast_groups: 1,
        pbles: 512,
    };
    let large = Capacity {
        qps: 600,
        cqs: 1_000,
        mrs: 5_000,
        ahs: 1_000,
        arps: 200,
        mcast_groups: 100,
        pbles: 1 << 19,
    };
    [(small, 8), (Capacity::DEFAULT, 64), (large, 512)]
}

#[test]
fn dma_memory_is_as_much_as_was_said() {
    for profile in [Profile::card(), Profile::small()] {
        for (capacity, cqp_entries) in capacities() {
            for backing in [Backing::Full, Backing::OnDemand] {
                let config = Config {
                    capacity,
                    cqp_entries,
                    backing,
                    ceqs: 3,
                    ..Config::cold(9000)
                };
                let sim = builder(1).profile(profile).build();
                let before = sim.memory(0);
                let up = up_with(sim.function(0), &config);
                let Ok(device) = up else {
                    assert_eq!(
                        (profile, cqp_entries),
                        (Profile::small(), 512),
                        "too large for it only"
                    );
                    continue;
                };
                let (control, events) = device.split();
                let query = control.hmc().query;
                let (said, now) = (config.dma_bytes(&query), sim.memory(0));
                let (bytes, pieces) = (
                    now.dma_bytes - before.dma_bytes,
                    now.dma_blocks - before.dma_blocks,
                );
                assert!(bytes <= said, "{backing:?} {capacity:?}: {bytes} of {said}");
                // Whole pages, the buffer of questions, and what is in `Plan::max_backing_bytes`.
                let unused = said - bytes;
                let paged = pieces + 1 + control.hmc().plan.segments(&query);
                let ahead = if backing == Backing::Full {
                    0
                } else {
                    (64 << 10) + said / 8
                };
                let most = paged * 4096 + ahead;
                assert!(unused <= most, "{unused} of {said} are unused");
                control
                    .shutdown(events)
                    .map_err(|failed| failed.error)
                    .unwrap();
            }
        }
    }
}

#[test]
fn host_memory_is_as_much_as_was_said() {
    for (capacity, cqp_entries) in capacities() {
        let caps = QpCaps {
            max_send_wr: 16,
            max_recv_wr: 16,
            max_send_sge: 1,
            max_recv_sge: 1,
            max_inline: 0,
        };
        let config = Config {
            capacity,
            cqp_entries,
            ..Config::cold(9000)
        };
        let said = config.host_bytes::<SimPlatform>() as u64;
        let (sim, nic) = card(|_| {});
        let before = sim.memory(0);
        let device = up_with(nic.clone(), &config).unwrap();
        let (mut control, events) = device.split();
        let up = sim.memory(0);
        let requests = up.host_requests - before.host_requests;
        assert!(requests <= HOST_ALLOCATIONS as u64, "{requests}");
        assert!(up.host_bytes <= said, "{} of {said}", up.host_bytes);
        // A capacity may be rounded, and there are fewer segments.
        let unused = said - up.host_bytes;
        assert!(unused <= SEGMENTS + 256, "{unused} of {said} are unused");

        // Objects take none.
        let pd = control.alloc_pd().unwrap();
        let memory = nic.payload(8192).unwrap();
        let mr = control
            .reg_mr(&pd, memory.bytes(), AccessFlags::LOCAL_WRITE)
            .unwrap();
        let cq = control.create_cq(16, 0).unwrap();
        let qp = control.create_qp(&pd, &QpInit::rc(&cq, &cq, caps)).unwrap();
        assert_eq!(sim.memory(0).host_bytes, up.host_bytes);
        control.destroy_qp(qp).map_err(|(_, error)| error).unwrap();

        // But for the first multicast group, as docs/embedding.md says.
        // Group 0 is reserved.
        let groups = u64::from(control.hmc().count(Object::FsiMc));
        let groups = if groups > 1 { groups } else { 0 };
        let datagrams = control.create_qp(&pd, &QpInit::ud(&cq, &cq, caps));
        let qp = datagrams.unwrap();
        let own = GidEntry::untagged(v4(10, 0, 0, 1));
        let gid = control.add_gid(own).unwrap();
        let (host, dma) = (sim.memory(0).host_bytes, sim.memory(0).dma_bytes);
        if groups > 0 {
            control.attach_mcast(&qp, gid, v4(224, 1, 1, 1)).unwrap();
        }
        // With a word of the allocation's own.
        let taken = sim.memory(0).host_bytes - host;
        assert!((88 * groups..=88 * groups + 8).contains(&taken), "{taken}");
        assert_eq!(sim.memory(0).dma_bytes - dma, 4096 * groups);
        control.remove_gid(gid).unwrap();
        control.destroy_qp(qp).map_err(|(_, error)| error).unwrap();
        control.destroy_cq(cq).map_err(|(_, error)| error).unwrap();
        control.dereg_mr(mr).map_err(|(_, error)| error).unwrap();
        control.dealloc_pd(pd).map_err(|(_, error)| error).unwrap();
        control
            .shutdown(events)
            .map_err(|failed| failed.error)
            .unwrap();
        assert_as_found(&sim);
    }
}

/// What is moved by value adds up. A thread whose stack is too small ends the process.
#[test]
fn a_bring_up_and_its_end_fit_a_small_stack() {
    // With the simulator on it; `tests/examples/stack.rs` says how much it is.
    const STACK: usize = 128 << 10;
    let sim = builder(1).build();
    let nic = sim.function(0);
    let run = move || {
        let device = up_with(nic, &Config::cold(9000)).unwrap();
        device.shutdown().unwrap();
    };
    let thread = std::thread::Builder::new().stack_size(STACK).spawn(run);
    thread.unwrap().join().unwrap();
    assert_eq!(sim.findings(), []);
}
