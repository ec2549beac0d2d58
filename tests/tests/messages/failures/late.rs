//! Commands that are not answered in time and carried out all the same.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use e810::hmc::Capacity;
use e810::{AccessFlags, MacAddr, Path, QpAttr, QpInit, QpState, WcStatus};
use e810_cqp::limits::LATE_ANSWERS;
use e810_hal::Ns;
use e810_hal::regs::PFPE_CQPDB;
use e810_sim::pe::CqpErrors;
use e810_sim::{Sim, SimPlatform};
use e810_tests::traffic::{Kind, Pair, Setup, Side, Transfer, Watched, scenarios};

use crate::failures::requests::{A, B, is_open, sim};

const CREATE_QP: u8 = 0x00;

/// Longer than the driver waits.
const LATE: u64 = 6_000_000_000;

/// The `nth` command of the first function from now on takes that long.
fn delay(sim: &Sim, platform: &Watched<SimPlatform>, nth: u32) {
    let (world, mut posted) = (sim.clone(), 0);
    platform.before(PFPE_CQPDB.off(), move || {
        posted += 1;
        if posted == nth {
            world.configure_engine(0, |config| config.cqp_delay = (LATE, LATE));
        }
    });
}

/// The late command is carried out, and all are quick again.
fn catch_up(sim: &Sim, platform: &Watched<SimPlatform>) {
    platform.before_nothing();
    sim.configure_engine(0, |config| config.cqp_delay = (500, 5_000));
    sim.run(Ns::from_ms(3_000));
}

#[test]
fn a_path_that_is_taken_late_is_there() {
    let sim = sim(20);
    let mut pair = Pair::simulated(&sim, Setup::default());
    for end in [A, B] {
        pair.renew(end);
    }
    pair.connect(B);
    let [to_init, to_rtr, _] = pair.steps(A);
    let side = &mut pair.sides[0];
    side.control.modify_qp(&mut side.qps[0], &to_init).unwrap();
    let sge = side.sge(side.incoming(), 64);
    side.post_recv(0, 7, &[sge]).unwrap();
    let commands = side.control.commands();
    // The entry of the ARP table is the first.
    delay(&sim, &side.platform, 2);
    let error = side.control.modify_qp(&mut side.qps[0], &to_rtr);
    assert!(is_open(&error.unwrap_err()));
    assert_eq!(side.qps[0].state(), QpState::Init);
    assert_eq!(side.control.commands() - commands, 2, "nothing is undone");
    catch_up(&sim, &pair.sides[0].platform);
    // It can answer its peer.
    scenarios::send(&mut pair, B, 8, 0, 64, true);
    for side in 0..2 {
        assert_eq!(pair.completions(side, 1)[0].status, WcStatus::Success);
    }
    // All of it ends with the queue pair.
    for end in [A, B] {
        pair.renew(end);
    }
    for end in [A, B] {
        pair.connect(end);
    }
    pair.transfer(A, &Transfer::new(Kind::Read, 3000));
    pair.finish(&sim);
}

/// The device reads the context of a late command when it carries the command out: after the program
/// has already asked for ERR.
#[test]
fn a_late_change_finds_its_context() {
    let sim = sim(23);
    let mut pair = Pair::simulated(&sim, Setup::default());
    for end in [A, B] {
        pair.renew(end);
    }
    let [to_init, to_rtr, _] = pair.steps(A);
    let side = &mut pair.sides[0];
    side.control.modify_qp(&mut side.qps[0], &to_init).unwrap();
    delay(&sim, &side.platform, 2);
    let error = side.control.modify_qp(&mut side.qps[0], &to_rtr);
    assert!(is_open(&error.unwrap_err()));
    side.platform.before_nothing();
    sim.configure_engine(0, |config| config.cqp_delay = (500, 5_000));
    side.control
        .modify_qp(&mut side.qps[0], &QpAttr::to_error())
        .unwrap();
    assert_eq!(sim.findings(), []);
    for end in [A, B] {
        pair.renew(end);
    }
    for end in [A, B] {
        pair.connect(end);
    }
    pair.transfer(A, &Transfer::new(Kind::Write, 3000));
    pair.finish(&sim);
}

#[test]
fn a_queue_pair_that_is_made_late_keeps_its_queue_set() {
    let setup = Setup {
        queue_pairs: 0,
        ..Setup::default()
    };
    let made = |late: Option<u32>| {
        let sim = sim(21);
        let mut pair = Pair::simulated(&sim, setup);
        let side = &mut pair.sides[0];
        let posted = Arc::new(AtomicU32::new(0));
        match late {
            Some(nth) => delay(&sim, &side.platform, nth),
            None => {
                let posted = Arc::clone(&posted);
                let count = move || {
                    posted.fetch_add(1, Ordering::Relaxed);
                };
                side.platform.before(PFPE_CQPDB.off(), count);
            }
        }
        let before = side.control.commands();
        let cq = side.cqs.first().unwrap();
        let init = QpInit::rc(cq, cq, setup.caps);
        let made = side.control.create_qp(&side.pd, &init);
        let commands = side.control.commands() - before;
        catch_up(&sim, &side.platform);
        assert_eq!(sim.findings(), []);
        match made {
            Ok(qp) => {
                side.control.destroy_qp(qp).map_err(|(_, e)| e).unwrap();
            }
            Err(error) => assert!(late.is_some() && is_open(&error)),
        }
        // The device has none that nobody would take away.
        pair.finish(&sim);
        (posted.load(Ordering::Relaxed), commands)
    };
    let (last, commands) = made(None);
    assert_eq!(made(Some(last)).1, commands, "nothing is undone");
}

/// A neighbour that no other path goes to.
fn path(side: &Side<Watched<SimPlatform>>) -> Path {
    let gid = side.control.query_gid(1).unwrap().gid;
    Path::new(1, gid.ip(), MacAddr([2, 0, 0, 0, 0, 9]))
}

/// An object whose destruction is answered late is there for a second try, and gone with it: the
/// device is told once, and nothing is left.
#[test]
fn a_destruction_that_is_answered_late_ends_with_the_second_try() {
    type Control = e810::Control<Watched<SimPlatform>>;
    /// Makes an object and gives what destroys it: twice, the first time in vain.
    type Object = fn(&mut Simulated) -> Twice;
    type Twice = Box<dyn FnMut(&mut Control) -> Result<(), e810::Error>>;
    type Simulated = Side<Watched<SimPlatform>>;

    type Destroyed<T> = Result<(), (T, e810::Error)>;

    fn twice<T: 'static>(object: T, destroy: fn(&mut Control, T) -> Destroyed<T>) -> Twice {
        let mut kept = Some(object);
        Box::new(move |control| {
            let object = kept.take().expect("not destroyed yet");
            destroy(control, object).map_err(|(object, error)| {
                kept = Some(object);
                error
            })
        })
    }

    let objects: [(&str, Object); 6] = [
        ("completion queue", |side| {
            let cq = side.control.create_cq(16, 0).unwrap();
            twice(cq, |control, cq| control.destroy_cq(cq))
        }),
        ("queue pair", |side| {
            side.add_qp();
            let qp = side.qps.pop().unwrap();
            twice(qp, |control, qp| control.destroy_qp(qp).map(drop))
        }),
        ("region", |side| {
            let memory = side.buffer.bytes();
            let rights = AccessFlags::LOCAL_WRITE;
            let mr = side.control.reg_mr(&side.pd, memory, rights).unwrap();
            twice(mr, |control, mr| control.dereg_mr(mr))
        }),
        ("fast region", |side| {
            let mr = side.control.alloc_fast_mr(&side.pd, 4).unwrap();
            twice(mr, |control, mr| control.free_fast_mr(mr))
        }),
        ("address handle", |side| {
            let path = path(side);
            let ah = side.control.create_ah(&side.pd, &path).unwrap();
            twice(ah, |control, ah| control.destroy_ah(ah))
        }),
        ("completion vector", |side| {
            let part = side.control.add_completion_vector().unwrap();
            twice(part, |control, part| control.remove_completion_vector(part))
        }),
    ];
    for (name, object) in objects {
        let sim = sim(23);
        let mut pair = Pair::simulated(&sim, Setup::default());
        let side = &mut pair.sides[0];
        let mut destroy = object(side);
        let before = side.control.commands();
        delay(&sim, &side.platform, 1);
        let late = destroy(&mut side.control);
        assert!(late.is_err_and(|error| is_open(&error)), "{name}");
        side.platform.before_nothing();
        sim.configure_engine(0, |config| config.cqp_delay = (500, 5_000));
        destroy(&mut side.control).unwrap_or_else(|error| panic!("{name}: {error}"));
        let commands = side.control.commands() - before;
        // The last path to a neighbour takes its entry along.
        assert_eq!(commands, 1 + u64::from(name == "address handle"), "{name}");
        pair.finish(&sim);
    }
}

/// A neighbour's entry that is deleted late is not shared by a path that is made meanwhile, and one
/// whose deletion is refused is there for the next.
#[test]
fn an_entry_of_the_arp_table_that_goes_late_is_made_again() {
    for is_late in [true, false] {
        let sim = sim(22);
        let mut pair = Pair::simulated(&sim, Setup::default());
        let side = &mut pair.sides[0];
        let path = path(side);
        let ah = side.control.create_ah(&side.pd, &path).unwrap();
        // DESTROY_ADDR_HANDLE, and then MANAGE_ARP.
        match is_late {
            true => delay(&sim, &side.platform, 2),
            false => sim.configure_engine(0, |config| {
                config.cqp_errors = CqpErrors::Answer {
                    opcode: 0x0f,
                    major: 0xFFFF,
                    minor: 0x80FF,
                };
            }),
        }
        side.control.destroy_ah(ah).map_err(|(_, e)| e).unwrap();
        sim.configure_engine(0, |config| config.cqp_errors = CqpErrors::None);
        catch_up(&sim, &side.platform);
        for _ in 0..2 {
            let commands = side.control.commands();
            let ah = side.control.create_ah(&side.pd, &path).unwrap();
            side.control.destroy_ah(ah).map_err(|(_, e)| e).unwrap();
            let made = side.control.commands() - commands;
            assert!((3..=4).contains(&made), "{made}");
        }
        pair.finish(&sim);
    }
}

/// The device may go on in a ring that nobody polls: the completion queue takes nothing any more,
/// and its destruction names the ring that the device has.
#[test]
fn a_resize_that_is_not_answered_ends_the_use_of_its_queue() {
    let setup = Setup {
        queue_pairs: 0,
        ..Setup::default()
    };
    for is_carried_out in [true, false] {
        let sim = sim(23);
        let mut pair = Pair::simulated(&sim, setup);
        let side = &mut pair.sides[0];
        let mut cq = side.control.create_cq(10, 0).unwrap();
        delay(&sim, &side.platform, 1);
        assert!(is_open(&side.control.resize_cq(&mut cq, 100).unwrap_err()));
        let again = side.control.resize_cq(&mut cq, 50).unwrap_err();
        let made = side
            .control
            .create_qp(&side.pd, &QpInit::rc(&cq, &cq, setup.caps));
        for error in [again, made.unwrap_err()] {
            assert!(error.to_string().contains("destroy it"), "{error}");
        }
        if is_carried_out {
            catch_up(&sim, &side.platform);
        } else {
            // The next commands are quick; this one is on its way.
            side.platform.before_nothing();
            sim.configure_engine(0, |config| config.cqp_delay = (500, 5_000));
        }
        side.control.destroy_cq(cq).map_err(|(_, e)| e).unwrap();
        catch_up(&sim, &side.platform);
        pair.finish(&sim);
    }
}

/// Memory that a command was given stays with the device, which writes there when it is late.
#[test]
fn memory_of_a_command_that_is_not_answered_is_not_given_back() {
    type Given = fn(&mut Side<Watched<SimPlatform>>) -> Result<(), e810::Error>;
    // With the blocks of memory that each is given.
    let commands: [(Given, u64); 3] = [
        (|side| side.control.gather_stats().map(drop), 1),
        (|side| side.control.resize_cq(&mut side.cqs[0], 1000), 1),
        (|side| side.control.create_cq(100, 0).map(drop), 2),
    ];
    for (command, given) in commands {
        let sim = sim(24);
        let mut pair = Pair::simulated(&sim, Setup::default());
        let side = &mut pair.sides[0];
        let before = sim.memory(0).dma_blocks;
        delay(&sim, &side.platform, 1);
        assert!(command(side).is_err_and(|error| is_open(&error)));
        catch_up(&sim, &side.platform);
        assert_eq!(sim.memory(0).dma_blocks, before + given);
        assert_eq!(sim.findings(), []);
    }
}

/// One more than are kept is refused, without a command, until the device answers.
#[test]
fn queue_pairs_that_are_not_answered_have_a_bound() {
    let sim = sim(25);
    let mut pair = Pair::simulated(&sim, Setup::default());
    let side = &mut pair.sides[0];
    sim.configure_engine(0, |config| {
        config.cqp_delay = (60_000_000_000, 60_000_000_000);
    });
    let create = |side: &mut Side<Watched<SimPlatform>>| {
        let cq = side.cqs.first().unwrap();
        let init = QpInit::rc(cq, cq, Setup::default().caps);
        side.control.create_qp(&side.pd, &init)
    };
    for _ in 0..8 {
        assert!(create(side).is_err_and(|error| is_open(&error)));
    }
    let commands = side.control.commands();
    let refused = create(side).unwrap_err();
    assert!(matches!(refused, e810::Error::Invalid { .. }), "{refused}");
    assert_eq!(side.control.commands(), commands);
    catch_up(&sim, &side.platform);
    sim.run(Ns::from_ms(600_000));
    let qp = create(side).unwrap();
    side.control.destroy_qp(qp).map_err(|(_, e)| e).unwrap();
    pair.finish(&sim);
}

/// However many other commands are not answered: whether a queue pair was made is known in the
/// end, so that it is destroyed or not, and what it uses is free.
#[test]
fn a_queue_pair_whose_creation_is_late_is_not_forgotten() {
    for (made, is_refused) in [(1, false), (8, false), (1, true), (8, true)] {
        let sim = sim(26);
        let mut pair = Pair::simulated(&sim, Setup::default());
        let side = &mut pair.sides[0];
        let (memory, rights) = (side.buffer.bytes(), AccessFlags::LOCAL_WRITE);
        let register = |_| side.control.reg_mr(&side.pd, memory, rights).unwrap();
        let regions: Vec<_> = (made..LATE_ANSWERS).map(register).collect();
        sim.configure_engine(0, |config| {
            config.cqp_delay = (10 * LATE, 10 * LATE);
            if is_refused {
                config.cqp_errors = CqpErrors::Opcode(CREATE_QP);
            }
        });
        let caps = Setup::default().caps;
        for _ in 0..made {
            let init = QpInit::rc(&side.cqs[0], &side.cqs[0], caps);
            let error = side.control.create_qp(&side.pd, &init).unwrap_err();
            assert!(is_open(&error), "{error}");
        }
        let mut left = Vec::new();
        for region in regions {
            let (region, error) = side.control.dereg_mr(region).unwrap_err();
            assert!(is_open(&error), "{error}");
            left.push(region);
        }
        sim.configure_engine(0, |config| config.cqp_delay = (500, 5_000));
        sim.run(Ns::from_ms(600_000));
        sim.configure_engine(0, |config| config.cqp_errors = CqpErrors::None);
        for region in left {
            let ended = side.control.dereg_mr(region);
            ended.map_err(|(_, error)| error).unwrap();
        }
        if made == 8 {
            // Needs one of the places.
            side.add_qp();
        }
        pair.finish(&sim);
    }
}

/// Memory of the host memory cache that comes late takes no place in the table of what was to lie
/// there: no command has named it.
#[test]
fn what_was_not_made_for_want_of_segments_takes_no_place() {
    let setup = Setup {
        fast_register: true,
        capacity: Some(Capacity {
            mrs: 8,
            pbles: 700_000,
            ..Capacity::DEFAULT
        }),
        ..Setup::default()
    };
    let used = |late: Option<usize>| {
        let sim = sim(26);
        let mut pair = Pair::simulated(&sim, setup);
        let side = &mut pair.sides[0];
        let most = side.control.query_device().max_fast_reg_pages;
        let mut made = Vec::new();
        let mut commands = 1;
        // The first that needs more than the device has.
        while commands == 1 && late != Some(made.len()) {
            let before = side.control.commands();
            made.push(side.control.alloc_fast_mr(&side.pd, most).unwrap());
            commands = side.control.commands() - before;
        }
        // More often than there are places.
        for _ in late.iter().flat_map(|_| 0..10) {
            delay(&sim, &side.platform, 1);
            sim.configure_engine(0, |config| config.cqp_errors = CqpErrors::Opcode(0x1f));
            let error = side.control.alloc_fast_mr(&side.pd, most).unwrap_err();
            assert!(
                is_open(&error) && error.to_string().contains("SDS"),
                "{error}"
            );
            catch_up(&sim, &side.platform);
        }
        sim.configure_engine(0, |config| config.cqp_errors = CqpErrors::None);
        made.push(side.control.alloc_fast_mr(&side.pd, most).unwrap());
        let lists = made.len();
        for fast in made {
            side.control.free_fast_mr(fast).map_err(|(_, e)| e).unwrap();
        }
        pair.finish(&sim);
        lists
    };
    let lists = used(None);
    used(Some(lists - 2));
}
