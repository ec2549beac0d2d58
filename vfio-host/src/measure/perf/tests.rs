use e810::{LinkPolicy, Mtu, Path, v4};
use e810_backends::spec::SimSpec;
use e810_hal::Ns;
use e810_sim::{Mode, SimPlatform};

use super::*;
use crate::cli::StartArgs;
use crate::measure::endpoint::Endpoint;
use crate::pci_functions::simulated::sim_start;
use e810_node::simulated::simulator;

fn plan(op: Op, test: Test, check: bool) -> Plan {
    Plan {
        op,
        test,
        sizes: vec![100],
        qps: 1,
        depth: 4,
        inline: 0,
        post_list: 1,
        iterations: 10,
        duration: None,
        seed: 1,
        check,
        wait_mode: WaitMode::BusyPoll,
        tuning: Tuning::LINUX,
    }
}

/// Two connected sides.
fn ends(plan: &Plan) -> [PerfEndpoint<Endpoint<SimPlatform>>; 2] {
    let sim = simulator(&SimSpec::default(), 2, Mode::Virtual, 1, true).build();
    let args = StartArgs {
        warm: true,
        ..StartArgs::default()
    };
    let mut ends = [0, 1].map(|n| {
        let platform = sim.function(n);
        let start = sim_start(&platform, &args).unwrap();
        let link = LinkPolicy::GoOn;
        let device = start.bring_up(platform.clone(), Default::default(), link, &mut |_| {});
        let (control, events) = device.unwrap().split();
        PerfEndpoint::new(platform, control, events, plan, None).unwrap()
    });
    let macs = [0, 1].map(|n: usize| ends[n].queues.control().lan().mac);
    let ip = |n: usize| v4(10, 0, 0, n as u8 + 1);
    let gids = [0, 1].map(|n: usize| {
        let entry = e810::GidEntry::untagged(ip(n));
        ends[n].queues.control().add_gid(entry).unwrap()
    });
    let [first, second] = [0, 1].map(|n: usize| ends[n].queues.describe(gids[n]).unwrap());
    for ((n, end), there) in (0..).zip(&mut ends).zip([second, first]) {
        let path = Path::new(gids[n], ip(1 - n), macs[1 - n]);
        end.queues.connect(there, path, Mtu::Mtu1024).unwrap();
    }
    ends
}

/// Runs until both are done; `meddle` is called once, in the middle.
fn run(
    plan: &Plan,
    meddle: impl FnOnce(&mut [PerfEndpoint<Endpoint<SimPlatform>>; 2]),
) -> [Run; 2] {
    let mut ends = ends(plan);
    let mut server = Server::prepare(&mut ends[1], plan, 100).unwrap();
    let mut client = Client::prepare(&mut ends[0], plan, 100).unwrap();
    let mut turns = 0;
    while !client.is_done() || !server.is_done() {
        client.turn(&mut ends[0]).unwrap();
        server.turn(&mut ends[1]).unwrap();
        ends[0].queues.relax();
        turns += 1;
        assert!(turns < 1_000_000, "it does not end");
    }
    meddle(&mut ends);
    let runs = [
        client.finish(&mut ends[0]).unwrap(),
        server.finish(&mut ends[1]).unwrap(),
    ];
    for end in ends {
        end.close().unwrap();
    }
    runs
}

#[test]
fn payload_that_is_not_there_is_an_error() {
    for op in [Op::Send, Op::Write] {
        let plan = plan(op, Test::Bandwidth, false);
        let [_, good] = run(&plan, |_| {});
        assert_eq!((good.verified, good.errors), (1, 0));
        let [_, bad] = run(&plan, |ends| ends[1].wipe(0, 100).unwrap());
        assert_eq!((bad.verified, bad.errors), (0, 1));
    }
    let reads = plan(Op::Read, Test::Latency, false);
    let [bad, _] = run(&reads, |ends| ends[0].wipe(0, 100).unwrap());
    assert_eq!((bad.verified, bad.errors), (0, 1));
    // Two of the last four writes.
    let writes = plan(Op::Write, Test::Bandwidth, true);
    let [_, bad] = run(&writes, |ends| {
        ends[1].wipe(1, 100).unwrap();
        ends[1].fill(&writes, 0, 100, 0).unwrap();
        ends[1].wipe(2, 99).unwrap();
    });
    assert_eq!((bad.verified, bad.errors), (2, 2));
}

#[test]
fn places_and_contents_differ_where_each_message_is_verified() {
    let each = Plan {
        qps: 3,
        ..plan(Op::Send, Test::Bandwidth, true)
    };
    assert_eq!(each.places(), 12);
    assert_eq!((each.place(2, 7), each.place(0, 8)), (11, 0));
    assert_ne!(each.content(0, 5), each.content(1, 5));
    let one = plan(Op::Send, Test::Bandwidth, false);
    assert_eq!(
        (one.places(), one.place(0, 7), one.content(0, 7)),
        (1, 0, 0)
    );
}

#[test]
fn bandwidth_counts_payload() {
    let run = Run {
        elapsed: Ns(2_000_000_000),
        messages: 4096,
        best_part: Some((256, Ns(62_500_000))),
        ..Run::default()
    };
    let bandwidth = run.bandwidth(1 << 20).unwrap();
    assert_eq!(bandwidth.average_mib_s, 2048.0);
    assert_eq!(bandwidth.peak_mib_s, 4096.0);
    assert_eq!(bandwidth.mpps, 0.002048);
    // 2^31 bytes a second.
    assert_eq!(bandwidth.average_gbit_s, 17.179869184);
    assert_eq!(bandwidth.peak_gbit_s, 34.359738368);
    assert_eq!(Run::default().bandwidth(1), None);
}
