//! Peers that are not there, or that no route leads to, and those that are there beside them.

use std::env;
use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::process::{self, Command, Stdio};
use std::thread;

use e810_verbs::device::DEVICES;

use crate::harness::objects::{RC, address};
use crate::harness::{Ctx, folder, gid};

/// Set in the process that has devices of its own for this.
const PART: &str = "E810_NEIGHBOURS";
/// Addresses that are asked for at a time.
const SILENT: u8 = 100;

#[test]
fn silent_and_unrouted_peers_keep_no_place() {
    if env::var_os(PART).is_none() {
        let wire = process::id();
        // An hour: what is said at once does not wait for it.
        let devices = format!(
            "sim:wire=n{wire},mac=02:00:00:00:05:01@10.8.5.1/24,wait=1 \
             sim:wire=n{wire},mac=02:00:00:00:05:02@10.8.5.2/24 \
             sim:wire=n{wire},mac=02:00:00:00:05:03@10.8.5.3/24,wait=3600 \
             sim:wire=n{wire},mac=02:00:00:00:05:04@10.8.5.4/24,gateway=10.8.5.2"
        );
        let locks = folder().join("neighbours");
        fs::create_dir_all(&locks).unwrap();
        let this = "neighbours::silent_and_unrouted_peers_keep_no_place";
        let child = Command::new(env::current_exe().unwrap())
            .args(["--exact", this, "--nocapture"])
            .env(PART, "1")
            .env(DEVICES, devices)
            .env("E810_LOCKS", locks)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&child.stdout);
        let errors = String::from_utf8_lossy(&child.stderr);
        let is_good = child.status.success() && text.contains("1 passed");
        assert!(is_good, "{text}{errors}");
        return;
    }
    let v4 = |a, b, c, d| gid(Ipv4Addr::new(a, b, c, d));
    let [one, two, patient, routed] = [0, 1, 2, 3].map(Ctx::open);
    let there = two.gid(1);

    // No route: at once, for an address handle and a queue pair.
    let (pd, cq) = (patient.pd(), patient.cq(8, 0, None));
    let far = v4(203, 0, 113, 1);
    let other_family = gid("2001:db8::1".parse::<IpAddr>().unwrap());
    for dgid in [far, other_family] {
        assert_eq!(pd.try_ah(address(dgid, 1)), Err(libc::ENETUNREACH));
    }
    let qp = pd.qp(RC, cq, cq);
    qp.init();
    assert_eq!(qp.to_rtr(5, far, 1), libc::ENETUNREACH);
    assert_eq!(qp.to_rtr(5, there, 1), 0);
    // Behind a gateway it is there.
    let behind = routed.pd().try_ah(address(far, 1)).unwrap();
    assert_eq!(behind.destroy(), 0);

    // Silence: what Linux says, and no place is left in use, nor handle.
    let pd = one.pd();
    let asked = (0..SILENT).map(|n| {
        let dgid = v4(10, 8, 5, 100 + n);
        thread::spawn(move || pd.try_ah(address(dgid, 1)).map(drop))
    });
    for asked in asked.collect::<Vec<_>>() {
        assert_eq!(asked.join().unwrap(), Err(libc::ETIMEDOUT));
    }
    // Paths come and go without end beside that.
    for round in 0..3000 {
        let ah = pd.try_ah(address(there, 1));
        assert_eq!(
            ah.unwrap_or_else(|error| panic!("{round}: {error}"))
                .destroy(),
            0
        );
    }
}
