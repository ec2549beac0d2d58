use e810::{LinkPolicy, Mtu, Path, Tuning, v4};
use e810_backends::spec::SimSpec;
use e810_sim::{Mode, SimPlatform};

use super::*;
use crate::cli::StartArgs;
use crate::measure::wait_mode::WaitMode;
use crate::pci_functions::simulated::sim_start;
use e810_node::simulated::simulator;

/// Two connected sides whose messages invalidate keys; the second one has said its key or not.
fn sides(says_key: bool) -> [PingpongEndpoint<SimPlatform>; 2] {
    let mut sides = sides_on(&SimSpec::default(), true, says_key);
    for side in &mut sides {
        side.post_receives().unwrap();
        side.register_first_key().unwrap();
    }
    sides
}

fn sides_on(
    spec: &SimSpec,
    invalidate: bool,
    says_key: bool,
) -> [PingpongEndpoint<SimPlatform>; 2] {
    let sim = simulator(spec, 2, Mode::Virtual, 1, true).build();
    let args = StartArgs {
        warm: true,
        ..StartArgs::default()
    };
    let plan = PingpongEndpointPlan {
        qp_type: e810::QpType::Rc,
        size: 64,
        invalidate,
        counters: false,
        wait_mode: WaitMode::BusyPoll,
        tuning: Tuning::LINUX,
    };
    let mut sides = [0, 1].map(|n| {
        let platform = sim.function(n);
        let start = sim_start(&platform, &args).unwrap();
        let link = LinkPolicy::GoOn;
        let device = start.bring_up(platform.clone(), Default::default(), link, &mut |_| {});
        let (control, events) = device.unwrap().split();
        PingpongEndpoint::new(platform, control, events, plan, None).unwrap()
    });
    let macs = [0, 1].map(|n: usize| sides[n].endpoint.control().lan().mac);
    let ip = |n: usize| v4(10, 0, 0, n as u8 + 1);
    let gids = [0, 1].map(|n: usize| {
        let entry = e810::GidEntry::untagged(ip(n));
        sides[n].endpoint.control().add_gid(entry).unwrap()
    });
    let [first, second] = [0, 1].map(|n: usize| sides[n].endpoint.describe(gids[n]).unwrap());
    assert_eq!(first[0].invalidate.is_some(), invalidate);
    assert!(first[0].invalidate != Some(first[0].rkey));
    let mut second = second;
    second[0].invalidate = second[0].invalidate.filter(|_| says_key);
    for ((n, side), there) in (0..).zip(&mut sides).zip([second, first]) {
        let path = Path::new(gids[n], ip(1 - n), macs[1 - n]);
        side.connect(there, path, Mtu::Mtu1024).unwrap();
    }
    sides
}

/// A message of each side, and what its receiver says of it.
fn one_way([from, to]: [&mut PingpongEndpoint<SimPlatform>; 2], op: PingpongOp) -> Result<bool> {
    from.put_key()?;
    from.post(op, 0)?;
    let want = Want {
        answer_received: 1,
        ..Want::ASK_SENT
    };
    exchange_all([from, to], &|| Ok(()), want)?;
    to.post_receives()?;
    to.take_key()
}

#[test]
fn a_key_that_was_not_invalidated_is_an_error_and_not_registered_again() {
    let [mut a, mut b] = sides(true);
    assert!(one_way([&mut a, &mut b], PingpongOp::SendInv).unwrap());
    assert!(b.renew_key().unwrap());
    exchange_all([&mut a, &mut b], &|| Ok(()), Want::ANSWER_SENT).unwrap();
    assert!(one_way([&mut b, &mut a], PingpongOp::SendInv).unwrap());
    assert!(a.renew_key().unwrap());
    exchange_all([&mut a, &mut b], &|| Ok(()), Want::ASK_SENT).unwrap();
    // A plain SEND leaves the key as it is, which its completion shows, and then the device.
    assert!(!one_way([&mut a, &mut b], PingpongOp::Send).unwrap());
    b.renew_key().unwrap();
    let end = exchange_all([&mut a, &mut b], &|| Ok(()), Want::ANSWER_SENT);
    let error = format!("{:#}", end.unwrap_err());
    assert!(error.contains("AMP_FASTREG_VALID_STAG"), "{error}");
}

#[test]
fn a_key_of_before_is_refused() {
    let [mut a, mut b] = sides(true);
    assert!(one_way([&mut a, &mut b], PingpongOp::SendInv).unwrap());
    b.renew_key().unwrap();
    exchange_all([&mut a, &mut b], &|| Ok(()), Want::ANSWER_SENT).unwrap();
    // Nobody has told `a` the new one.
    let end = one_way([&mut a, &mut b], PingpongOp::SendInv);
    let error = format!("{:#}", end.unwrap_err());
    assert!(error.contains("IB_REMOTE_ACCESS_ERROR"), "{error}");
}

/// A message takes its way once: nobody waits for the acknowledgement of one before the next.
#[test]
fn half_a_round_trip_is_the_way_of_one_message() {
    const WAY: Ns = Ns::from_ms(20);
    for op in [PingpongOp::Send, PingpongOp::SendInv] {
        let spec = SimSpec {
            latency: Some(WAY),
            ..SimSpec::default()
        };
        let [mut a, mut b] = sides_on(&spec, op == PingpongOp::SendInv, true);
        let plan = Plan {
            op,
            size: 64,
            iterations: 5,
            duration: None,
            seed: 1,
        };
        let mut outcome = Outcome::default();
        let ended = run(
            [&mut a, &mut b],
            &plan,
            &mut Progress::new(),
            &|| Ok(()),
            (&Stop::default(), &mut outcome),
        );
        ended.unwrap();
        assert_eq!((outcome.iterations, outcome.errors), (5, 0));
        // Two ways a message and back, and the last acknowledgement.
        assert!(outcome.elapsed.0 < 12 * WAY.0, "{:?}", outcome.elapsed);
    }
}

#[test]
fn a_peer_without_keys_gets_plain_sends() {
    let [mut a, mut b] = sides(false);
    assert_eq!((a.key_bytes(), b.key_bytes()), (0, 4));
    let is_invalidated = one_way([&mut a, &mut b], PingpongOp::SendInv).unwrap();
    assert!(!is_invalidated, "its key is still there");
    assert!(one_way([&mut b, &mut a], PingpongOp::SendInv).unwrap());
    assert_eq!(a.key_bytes(), 0, "what came is no key");
}

/// Whatever is refused, what was made before is given back: the function comes up again.
#[test]
fn an_endpoint_whose_objects_are_refused_leaves_nothing() {
    use crate::measure::endpoint::{Endpoint, EndpointPlan};

    let sim = simulator(&SimSpec::default(), 1, Mode::Virtual, 1, true).build();
    let platform = sim.function(0);
    let args = StartArgs {
        warm: true,
        ..StartArgs::default()
    };
    let start = sim_start(&platform, &args).unwrap();
    let good = EndpointPlan {
        bytes: 4096,
        access: e810::AccessFlags::LOCAL_WRITE,
        cqes: 16,
        qps: 2,
        qp_type: e810::QpType::Rc,
        caps: e810::QpCaps::default(),
        fast_register: false,
        counters: false,
        tuning: Tuning::LINUX,
        qkey: 0,
        wait_mode: WaitMode::BusyPoll,
        options: None,
    };
    // The completion queue, the first queue pair, and one after many.
    let mut large = good.caps;
    large.max_send_wr = u32::MAX;
    let plans = [
        (
            EndpointPlan {
                cqes: u32::MAX,
                ..good
            },
            false,
        ),
        (
            EndpointPlan {
                caps: large,
                ..good
            },
            false,
        ),
        (
            EndpointPlan {
                qps: 1 << 20,
                ..good
            },
            false,
        ),
        (good, true),
    ];
    for (plan, is_made) in plans {
        let link = LinkPolicy::GoOn;
        let device = start.bring_up(platform.clone(), Default::default(), link, &mut |_| {});
        let (control, events) = device.unwrap().split();
        let made = Endpoint::new(platform.clone(), control, events, &plan, None);
        assert_eq!(made.is_ok(), is_made, "{plan:?}");
        let Err(error) = made else { continue };
        let text = format!("{error:#}");
        assert!(!text.contains("shutting down"), "{text}");
        assert_eq!(sim.findings(), []);
    }
}
