//! Programs that take more than their share of what all have together: the connection manager, its
//! numbers and questions, and memory of the server.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use e810::{AccessFlags, Platform, QpAttr};
use e810_attach::messages::{CallBytes, Connecting, Refused, Resource};
use e810_attach::owner::{AskedLimits, Owner};
use e810_attach::reception::Reception;
use e810_backends::HostDevice;
use e810_cm::ip::PortSpace;
use e810_cm::machine::{Connect, ConnectionId, Listen};
use e810_connect::{Answer, Call, News, Refused as NotNow};

use crate::connections::meets;
use crate::hostile::Raw;
use crate::program::{Client, Completions, Queue};
use crate::{Scenario, with_function};

pub(crate) const OWN: [u8; 4] = [10, 8, 1, 1];
pub(crate) const PORT: u16 = 7471;
pub(crate) const USER: u32 = 54_321;
pub(crate) const OTHER: u32 = 54_322;

pub(crate) fn reception<D: HostDevice>(owner: &Arc<Owner<D>>, function: &D) -> Arc<Reception<D>> {
    Arc::new(Reception::new(owner.clone(), function.clone()))
}

pub(crate) fn ask<P: Platform + Send + Sync + 'static>(
    client: &Client<P>,
    call: Call<'_>,
) -> Result<Result<Answer, NotNow>, Refused> {
    let call = CallBytes::of(&call);
    let answered = client.ask(Connecting { call })?;
    Ok(answered.map(|answer| *answer))
}

pub(crate) fn listen<P: Platform + Send + Sync + 'static>(client: &Client<P>, backlog: u32) {
    ask(client, Call::Listen(listener(backlog)))
        .unwrap()
        .unwrap();
}

const fn listener(backlog: u32) -> Listen {
    Listen {
        space: PortSpace::Tcp,
        port: PORT,
        address: IpAddr::V4(std::net::Ipv4Addr::new(OWN[0], OWN[1], OWN[2], OWN[3])),
        only_family: false,
        backlog,
        context: 1,
    }
}

pub(crate) fn connect<P: Platform + Send + Sync + 'static>(
    client: &Client<P>,
    qpn: u32,
    source: IpAddr,
    to: IpAddr,
) -> Result<Result<ConnectionId, NotNow>, Refused> {
    let connect = Connect {
        qpn,
        context: 2,
        ..Connect::new(source, SocketAddr::from((to, PORT)))
    };
    Ok(
        ask(client, Call::Connect(connect))?.map(|answer| match answer {
            Answer::Connection(id) => id,
            other => panic!("{other:?}"),
        }),
    )
}

pub(crate) fn with_qp<P: Platform + Send + Sync + 'static>(
    client: &Client<P>,
) -> (u32, Completions<P>, Queue<P>) {
    let pd = client.pd();
    let cq = client.cq(16);
    let qp = client.qp(pd, &cq);
    client
        .modify(qp.number, QpAttr::to_init(AccessFlags::REMOTE_WRITE))
        .unwrap();
    (pd, cq, qp)
}

/// A program that may have two connections asks for others where nobody answers, and gives each of
/// them up at once.
#[derive(Clone, Copy)]
struct GivesUp;

impl Scenario for GivesUp {
    fn run<D: HostDevice>(self, owner: &Arc<Owner<D>>, function: &D) {
        let reception = reception(owner, function);
        owner.limit(&AskedLimits {
            program: vec![(Resource::Connections, 2)],
            user: vec![(Resource::Connections, 2)],
            programs: None,
        });
        let victim = Client::received(&reception, OTHER).unwrap();
        let (_pd, _cq, qp) = with_qp(&victim);
        listen(&victim, 8);
        let attacker = Client::received(&reception, USER).unwrap();
        let nobody: IpAddr = [10, 8, 1, 77].into();
        let foreign = connect(&attacker, 0, nobody, OWN.into()).unwrap();
        assert!(foreign.is_err(), "from an address of another host");
        for _ in 0..20_000 {
            match connect(&attacker, 0, OWN.into(), nobody).unwrap() {
                Ok(id) => drop(ask(&attacker, Call::Release(id)).unwrap()),
                Err(_) => break,
            }
        }
        // It has none now.
        let theirs = connect(&victim, qp.number.get(), OWN.into(), OWN.into()).unwrap();
        assert!(
            theirs.is_ok(),
            "a program that may have 2 connections, and has given up all of them, has taken those of all others: {theirs:?}"
        );
    }
}

#[test]
fn connections_that_are_given_up_take_no_place_of_others() {
    with_function(GivesUp);
}

/// A program of a user that may have one more is asked for a connection, which is refused.
#[derive(Clone, Copy)]
struct Counts;

impl Scenario for Counts {
    fn run<D: HostDevice>(self, owner: &Arc<Owner<D>>, function: &D) {
        let reception = reception(owner, function);
        owner.limit(&AskedLimits {
            program: vec![(Resource::Connections, 1)],
            user: vec![(Resource::Connections, 2)],
            programs: None,
        });
        let passive = Client::received(&reception, USER).unwrap();
        listen(&passive, 8);
        let roots = [0; 2].map(|uid| Client::received(&reception, uid).unwrap());
        let [first, second] = roots.each_ref().map(with_qp);
        connect(&roots[0], first.2.number.get(), OWN.into(), OWN.into())
            .unwrap()
            .unwrap();
        assert!(matches!(passive.is_told().news, News::Requested(_)));
        connect(&roots[1], second.2.number.get(), OWN.into(), OWN.into())
            .unwrap()
            .unwrap();
        assert!(matches!(roots[1].is_told().news, News::Rejected { .. }));
        let has = meets(owner, 0);
        // Another program of the user may have the second one.
        let other = Client::received(&reception, USER).unwrap();
        let theirs = with_qp(&other);
        let asked = connect(&other, theirs.2.number.get(), OWN.into(), OWN.into());
        assert!(
            asked.is_ok(),
            "a request that was refused still counts: it has {has:?}, and another program of its user gets {}",
            asked.unwrap_err()
        );
        assert_eq!(has, (1, 1));
    }
}

#[test]
fn a_request_that_was_refused_does_not_count() {
    with_function(Counts);
}

/// A program asks for connections of queue pairs that nobody has yet.
#[derive(Clone, Copy)]
struct Squats;

impl Scenario for Squats {
    fn run<D: HostDevice>(self, owner: &Arc<Owner<D>>, function: &D) {
        let reception = reception(owner, function);
        owner.limit(&AskedLimits::default());
        let passive = Client::received(&reception, USER).unwrap();
        listen(&passive, 1000);
        let attacker = Client::received(&reception, OTHER).unwrap();
        // It need not have one.
        let (_pd, _cq, own) = with_qp(&attacker);
        let next = own.number.get() + 1;
        // Some programs connect without a queue pair, and name what they like.
        for qpn in next..next + 64 {
            connect(&attacker, qpn, OWN.into(), OWN.into())
                .unwrap()
                .unwrap();
            assert!(matches!(passive.is_told().news, News::Requested(_)));
        }
        let victim = Client::received(&reception, 54_323).unwrap();
        let (_pd, _cq, qp) = with_qp(&victim);
        let number = qp.number.get();
        assert!(matches!(passive.is_told().news, News::Rejected { .. }));
        connect(&victim, number, OWN.into(), OWN.into())
            .unwrap()
            .unwrap();
        assert!(matches!(passive.is_told().news, News::Requested(_)));
        assert!(victim.is_told_nothing());
    }
}

#[test]
fn a_number_that_nobody_has_yet_is_nobodys_to_connect() {
    with_function(Squats);
}

/// Two programs have all completion queues, each its share: so the connection manager cannot be
/// opened.
#[derive(Clone, Copy)]
struct CannotOpen;

/// How many mappings of files of one size there are, of the size of which there are most.
fn mappings() -> usize {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let mut counts = std::collections::HashMap::<u64, usize>::new();
    for line in maps.lines().filter(|line| line.contains("memfd:")) {
        let (start, rest) = line.split_once('-').unwrap();
        let (end, _) = rest.split_once(' ').unwrap();
        let [start, end] = [start, end].map(|text| u64::from_str_radix(text, 16).unwrap());
        *counts.entry(end - start).or_default() += 1;
    }
    counts.into_values().max().unwrap_or_default()
}

impl Scenario for CannotOpen {
    fn run<D: HostDevice>(self, owner: &Arc<Owner<D>>, function: &D) {
        const CALLS: usize = 400;
        let reception = reception(owner, function);
        owner.limit(&AskedLimits::default());
        // Nobody has used it so far.
        let _takers = [0; 2].map(|_| {
            let mut raw = Raw::new(owner, function);
            let (rings, memory) = raw.lend(1 << 20);
            while raw.cq(rings, 64, rings + 4096).is_ok() {}
            (raw, memory)
        });
        let client = Client::received(&reception, USER).unwrap();
        let call = || ask(&client, Call::Listen(listener(1))).unwrap_err();
        let before = mappings();
        for _ in 0..CALLS {
            call();
        }
        let after = mappings();
        assert!(
            after < before + CALLS / 2,
            "mappings of one size before and after {CALLS} calls that were refused: {before}, {after}"
        );
    }
}

#[test]
fn a_connection_manager_that_cannot_be_opened_leaves_nothing() {
    with_function(CannotOpen);
}

/// A program gives a queue pair the Q_Key of management datagrams.
#[derive(Clone, Copy)]
struct Forges;

impl Scenario for Forges {
    fn run<D: HostDevice>(self, owner: &Arc<Owner<D>>, function: &D) {
        let reception = reception(owner, function);
        owner.limit(&AskedLimits::default());
        let client = Client::received(&reception, USER).unwrap();
        let pd = client.pd();
        let cq = client.cq(16);
        let qp = client.datagrams(pd, &cq);
        for qkey in [e810::GSI_QKEY, 1 << 31, u32::MAX] {
            let refused = client.modify(qp.number, QpAttr::ud_to_init(qkey));
            assert_eq!(refused.unwrap_err().errno, libc::EPERM, "{qkey:#x}");
        }
        let states = [
            QpAttr::ud_to_init(0x7FFF_FFFF),
            QpAttr::ud_to_rtr(),
            QpAttr::ud_to_rts(7),
        ];
        for attr in states {
            client.modify(qp.number, attr).unwrap();
        }
        let later = QpAttr {
            qkey: Some(e810::GSI_QKEY),
            ..QpAttr::default()
        };
        let refused = client.modify(qp.number, later);
        assert_eq!(refused.unwrap_err().errno, libc::EPERM);
    }
}

#[test]
fn a_program_sends_no_management_datagrams() {
    with_function(Forges);
}

/// A program makes rings until its share of bytes is used up, and makes rings when its server is
/// gone.
#[derive(Clone, Copy)]
struct MakesRings;

impl Scenario for MakesRings {
    fn run<D: HostDevice>(self, owner: &Arc<Owner<D>>, function: &D) {
        let reception = reception(owner, function);
        owner.limit(&AskedLimits {
            program: vec![(Resource::Bytes, 1 << 20)],
            ..AskedLimits::default()
        });
        let client = Client::received(&reception, USER).unwrap();
        let rings = client.program.rings();
        let why = client.program.why_no_memory();
        let mut all = Vec::new();
        let refused = loop {
            match rings.cq_memory(2000) {
                Ok(memory) => all.push(memory),
                Err(error) => break why(error),
            }
        };
        let is_said = refused.why.contains("e810 serve --program-limits");
        client.die();
        std::thread::sleep(Duration::from_millis(200));
        let gone = loop {
            match rings.cq_memory(2000) {
                Ok(memory) => all.push(memory),
                Err(error) => break why(error),
            }
        };
        assert!(
            is_said && gone.errno == libc::EIO,
            "beyond its share: {refused}; of a server that is gone, errno {}: {gone}",
            gone.errno
        );
    }
}

#[test]
fn why_there_is_no_memory_for_rings_is_said() {
    with_function(MakesRings);
}

/// Connected queue pairs whose peer is queue pair 1.
#[derive(Clone, Copy)]
struct SendsToManagement;

impl Scenario for SendsToManagement {
    fn run<D: HostDevice>(self, owner: &Arc<Owner<D>>, function: &D) {
        let reception = reception(owner, function);
        owner.limit(&AskedLimits::default());
        let victim = Client::received(&reception, OTHER).unwrap();
        listen(&victim, 100);
        let attacker = Client::received(&reception, USER).unwrap();
        let pd = attacker.pd();
        let mut cq = attacker.cq(16);
        let region = attacker.region(pd);
        for _ in 0..4 {
            let mut qp = attacker.qp(pd, &cq);
            attacker.connect(qp.number, e810::Qpn::new(1).unwrap());
            qp.send(8, region.sge(0, 64));
            assert_ne!(cq.wait(1)[0].status, e810::WcStatus::Success);
            attacker.destroy_qp(qp);
            let _ = cq.ring.poll(&mut [e810::Wc::default()]);
        }
        let other = Client::received(&reception, 54_323).unwrap();
        let (_pd, _cq, qp) = with_qp(&other);
        connect(&other, qp.number.get(), OWN.into(), OWN.into())
            .unwrap()
            .unwrap();
        assert!(matches!(victim.is_told().news, News::Requested(_)));
    }
}

#[test]
fn packets_to_queue_pair_1_do_it_no_harm() {
    with_function(SendsToManagement);
}

/// More than the numbers of queue pairs.
const NUMBERS: usize = 1100;

/// A program destroys a queue pair whose connection it keeps; another one gets its number.
#[derive(Clone, Copy)]
struct LeavesNumber;

impl Scenario for LeavesNumber {
    fn run<D: HostDevice>(self, owner: &Arc<Owner<D>>, function: &D) {
        let reception = reception(owner, function);
        owner.limit(&AskedLimits::default());
        let passive = Client::received(&reception, USER).unwrap();
        listen(&passive, 1000);
        let first = Client::received(&reception, OTHER).unwrap();
        let (pd, mut cq, qp) = with_qp(&first);
        let number = qp.number.get();
        connect(&first, number, OWN.into(), OWN.into())
            .unwrap()
            .unwrap();
        assert!(matches!(passive.is_told().news, News::Requested(_)));
        first.destroy_qp(qp);
        assert_eq!(cq.ring.poll(&mut [e810::Wc::default()]), 0);
        // It forgets the number, and takes no other.
        std::thread::sleep(Duration::from_millis(200));
        let _ = pd;
        let second = Client::received(&reception, 54_323).unwrap();
        let pd = second.pd();
        let mut cq = second.cq(16);
        // Numbers go round.
        let mut same = || {
            (0..NUMBERS).find_map(|_| {
                let qp = second.qp(pd, &cq);
                if qp.number.get() == number {
                    return Some(qp);
                }
                second.destroy_qp(qp);
                let _ = cq.ring.poll(&mut [e810::Wc::default()]);
                None
            })
        };
        let qp = same().expect("the same number");
        assert!(matches!(passive.is_told().news, News::Rejected { .. }));
        second
            .modify(qp.number, QpAttr::to_init(AccessFlags::REMOTE_WRITE))
            .unwrap();
        connect(&second, number, OWN.into(), OWN.into())
            .unwrap()
            .unwrap();
        let limit = Instant::now() + Duration::from_secs(10);
        while second.is_told_nothing() && passive.is_told_nothing() {
            assert!(Instant::now() < limit);
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(
            second.is_told_nothing(),
            "queue pair {number} cannot be connected, because of the connection of one that is destroyed: {:?}",
            match second.is_told().news {
                News::Rejected { reason, .. } => reason,
                other => panic!("{other:?}"),
            }
        );
    }
}

#[test]
fn the_number_of_a_destroyed_queue_pair_can_be_connected_by_its_next_program() {
    with_function(LeavesNumber);
}
