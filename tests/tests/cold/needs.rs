//! What a configuration is said to need is what it takes.

use e810::hmc::Capacity;
use e810::{AccessFlags, QpCaps, QpInit, bring_up_cold};
use e810::{ColdStart, Config, HOST_ALLOCATIONS, LinkPolicy, Package, PackageSource};
use e810_hal::Ns;
use e810_host::buffer::Payload;
use e810_sim::{SimPlatform, test_package};

use crate::world::{assert_as_found, card};

/// What is known of segments: as many words as the engine can have at most.
const SEGMENTS: u64 = 4_096 * 8;

#[test]
fn host_memory_is_as_much_as_was_said() {
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
    for (capacity, cqp_entries) in [(small, 8), (Capacity::DEFAULT, 64), (large, 512)] {
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
        let file = test_package();
        let start = ColdStart {
            package: PackageSource::File(Package::parse(&file).unwrap()),
            link: LinkPolicy::Wait(Ns::from_ms(10_000)),
        };
        let device = bring_up_cold(nic.clone(), &config, &start, &mut |_| {}).unwrap();
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
