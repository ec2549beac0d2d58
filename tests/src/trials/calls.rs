//! One call, drawn.

use std::net::IpAddr;

use e810::{
    AccessFlags, Cq, LanInit, MacAddr, MrChange, Mtu, Op, Path, QpAttr, QpCaps, QpInit, QpState,
    QpType, RecvWr, Result, SendFlags, SendWr, v4,
};
use e810_sim::SimPlatform;
use e810_sim::pe::{Breakage, Subject};

use super::pick;
use super::world::{World, memory};

const CAPS: QpCaps = QpCaps {
    max_send_wr: 16,
    max_recv_wr: 16,
    max_send_sge: 1,
    max_recv_sge: 1,
    max_inline: 32,
};

/// Makes one; says which, and what came of it.
pub(super) fn any(world: &mut World) -> String {
    let call = world.below(CHANCES.iter().map(|(chances, ..)| chances).sum());
    let mut first = 0;
    let drawn = CHANCES.iter().find(|(chances, ..)| {
        first += chances;
        call < first
    });
    let (_, name, call) = drawn.expect("the last one reaches the sum");
    match call(world) {
        Some(came) => format!("{name}: {came}"),
        None => format!("{name}: nothing there"),
    }
}

/// `None` where there is nothing that it could be called for.
type Call = fn(&mut World) -> Option<String>;

/// Calls, and how often each comes.
const CHANCES: [(usize, &str, Call); 19] = [
    (2, "create_cq", create_cq),
    (3, "create_qp", create_qp),
    (5, "modify_qp", modify_qp),
    (2, "reset_qp", reset_qp),
    (2, "destroy_qp", destroy_qp),
    (1, "destroy_cq", destroy_cq),
    (1, "resize_cq", resize_cq),
    (1, "reg_mr", reg_mr),
    (1, "rereg_mr or dereg_mr", change_mr),
    (1, "alloc_fast_mr", alloc_fast_mr),
    (1, "free_fast_mr", free_fast_mr),
    (1, "create_ah", create_ah),
    (1, "destroy_ah", destroy_ah),
    (2, "attach_mcast or detach_mcast", mcast),
    (1, "a completion vector", vector),
    (3, "event", event),
    (5, "post", post),
    (2, "LAN port", lan_port),
    (1, "pause", pause),
];

fn said<T>(done: Result<T>) -> String {
    done.map_or_else(|error| error.to_string(), |_| "done".to_owned())
}

fn take<T>(all: &mut Vec<T>, place: u64) -> Option<T> {
    let place = place as usize % all.len().max(1);
    (!all.is_empty()).then(|| all.swap_remove(place))
}

fn create_cq(world: &mut World) -> Option<String> {
    let vector = world.below(2) as u16;
    Some(match world.control.create_cq(16, vector) {
        Ok(cq) => {
            world.cqs.push(cq);
            "done".to_owned()
        }
        Err(error) => world.not_made(&error),
    })
}

fn create_qp(world: &mut World) -> Option<String> {
    let draw = world.rng.next_u64();
    let count = world.cqs.len().max(1);
    let place = |bits: u64| bits as usize % count;
    let send = world.cqs.get(place(draw >> 8))?;
    let recv = world.cqs.get(place(draw >> 16))?;
    let init = match draw & 1 {
        0 => QpInit::ud(send, recv, CAPS),
        _ => QpInit::rc(send, recv, CAPS),
    };
    let counters = draw & 6 == 0;
    let made = world
        .control
        .create_qp(&world.pd, &QpInit { counters, ..init });
    Some(match made {
        Ok(qp) => {
            let number = qp.number().get();
            world.books.open(number);
            world.qps.push(qp);
            format!("{number}")
        }
        // It goes by itself when the answer comes.
        Err(error) => error.to_string(),
    })
}

fn path(world: &mut World) -> Path {
    let [own, peer, mac] = [7, 4, 3].map(|bound| world.below(bound) as u8);
    Path::new(own, v4(10, 0, 1, peer), MacAddr([2, 0, 0, 0, 0, mac]))
}

fn modify_qp(world: &mut World) -> Option<String> {
    let (path, draw) = (path(world), world.rng.next_u64());
    let place = draw as usize % world.qps.len().max(1);
    let qp = world.qps.get_mut(place)?;
    let number = qp.number();
    let is_datagram = qp.qp_type() == QpType::Ud;
    let attr = match (qp.state(), (draw >> 32) % 6) {
        (_, 0) => QpAttr::to_error(),
        (QpState::Reset, _) if is_datagram => QpAttr::ud_to_init(1),
        (QpState::Reset, _) => QpAttr::to_init(AccessFlags::empty()),
        (QpState::Init, _) if is_datagram => QpAttr::ud_to_rtr(),
        (QpState::Init, _) => QpAttr::to_rtr(path, Mtu::Mtu1024, number, 5),
        (QpState::Rtr, _) if is_datagram => QpAttr::ud_to_rts(1),
        (QpState::Rtr, _) => QpAttr::to_rts(1),
        (QpState::Rts, _) => QpAttr::to_sqd(false),
        (QpState::Sqd, 1..=2) if !is_datagram => QpAttr {
            path: Some(path),
            ..QpAttr::default()
        },
        (QpState::Sqd, _) => QpAttr {
            state: Some(QpState::Rts),
            ..QpAttr::default()
        },
        _ => QpAttr::to_error(),
    };
    let done = world.control.modify_qp(qp, &attr);
    let state = qp.state();
    Some(format!(
        "{} to {:?}: {}, {state:?}",
        number.get(),
        attr.state,
        said(done)
    ))
}

fn reset_qp(world: &mut World) -> Option<String> {
    let place = world.rng.next_u64() as usize % world.qps.len().max(1);
    let qp = world.qps.get_mut(place)?;
    let number = qp.number().get();
    let mut all: Vec<&mut Cq<SimPlatform>> = world.cqs.iter_mut().collect();
    let done = world.control.reset_qp(qp, &mut all);
    match &done {
        Ok(dropped) => {
            world.books.dropped(number, *dropped);
            world.books.open(number);
        }
        Err(_) => world.books.close(number),
    }
    Some(format!("{number} {}", said(done)))
}

fn destroy_qp(world: &mut World) -> Option<String> {
    let qp = take(&mut world.qps, world.rng.next_u64())?;
    let number = qp.number().get();
    Some(match world.control.destroy_qp(qp) {
        Ok(dropped) => {
            world.books.dropped(number, dropped);
            format!("{number}")
        }
        Err((qp, error)) => {
            world.books.close(number);
            world.qps.push(qp);
            format!("{number} {error}")
        }
    })
}

/// What could not be ended is kept.
fn ended<T, E: ToString>(kept: &mut Vec<T>, done: Result<(), (T, E)>) -> String {
    match done {
        Ok(()) => "done".to_owned(),
        Err((one, error)) => {
            kept.push(one);
            error.to_string()
        }
    }
}

fn destroy_cq(world: &mut World) -> Option<String> {
    let cq = take(&mut world.cqs, world.rng.next_u64())?;
    let done = world.control.destroy_cq(cq);
    Some(ended(&mut world.cqs, done))
}

fn resize_cq(world: &mut World) -> Option<String> {
    let draw = world.rng.next_u64();
    let place = draw as usize % world.cqs.len().max(1);
    let cq = world.cqs.get_mut(place)?;
    let entries = 8 + (draw >> 32) as u32 % 60;
    let done = world.control.resize_cq(cq, entries);
    Some(match done {
        Ok(()) => "done".to_owned(),
        Err(error) => {
            // It may go on in either ring.
            world.is_broken |= error.needs_reset();
            world.not_made(&error)
        }
    })
}

fn reg_mr(world: &mut World) -> Option<String> {
    let rights = AccessFlags::LOCAL_WRITE;
    Some(match world.control.reg_mr(&world.pd, memory(), rights) {
        Ok(mr) => {
            world.mrs.push(mr);
            "done".to_owned()
        }
        Err(error) => world.not_made(&error),
    })
}

fn change_mr(world: &mut World) -> Option<String> {
    let draw = world.rng.next_u64();
    let mr = take(&mut world.mrs, draw >> 8)?;
    if draw & 1 == 0 {
        let done = world.control.dereg_mr(mr);
        return Some(ended(&mut world.mrs, done));
    }
    let change = MrChange {
        new_key: draw & 2 == 0,
        memory: (draw & 4 == 0).then(|| memory().into()),
        ..MrChange::default()
    };
    Some(match world.control.rereg_mr(mr, &change) {
        Ok(mr) => {
            world.mrs.push(mr);
            "done".to_owned()
        }
        Err(failed) => {
            world.mrs.extend(failed.mr);
            world.not_made(&failed.error)
        }
    })
}

fn alloc_fast_mr(world: &mut World) -> Option<String> {
    let pages = 1 + world.below(9) as u32;
    Some(match world.control.alloc_fast_mr(&world.pd, pages) {
        Ok(mr) => {
            world.fasts.push(mr);
            "done".to_owned()
        }
        Err(error) => world.not_made(&error),
    })
}

fn free_fast_mr(world: &mut World) -> Option<String> {
    let mut mr = take(&mut world.fasts, world.rng.next_u64())?;
    let rights = AccessFlags::LOCAL_WRITE;
    // Perhaps more pages than it has room for.
    let _ = world.control.map_fast_mr(&mut mr, memory(), rights);
    let done = world.control.free_fast_mr(mr);
    Some(ended(&mut world.fasts, done))
}

fn create_ah(world: &mut World) -> Option<String> {
    let path = path(world);
    Some(match world.control.create_ah(&world.pd, &path) {
        Ok(ah) => {
            world.ahs.push(ah);
            "done".to_owned()
        }
        Err(error) => world.not_made(&error),
    })
}

fn destroy_ah(world: &mut World) -> Option<String> {
    let ah = take(&mut world.ahs, world.rng.next_u64())?;
    let done = world.control.destroy_ah(ah);
    Some(ended(&mut world.ahs, done))
}

fn mcast(world: &mut World) -> Option<String> {
    // Of two that share a MAC address, and others.
    let [net, last] = [2, 3].map(|bound| world.below(bound) as u8);
    let group = IpAddr::from([224, net * 128 + 1, 0, last]);
    let draw = world.rng.next_u64();
    let place = (draw >> 1) as usize % world.qps.len().max(1);
    let qp = world.qps.get(place)?;
    let done = match draw & 1 {
        0 => world.control.attach_mcast(qp, 1, group),
        _ => world.control.detach_mcast(qp, 1, group),
    };
    Some(said(done))
}

fn vector(world: &mut World) -> Option<String> {
    if world.below(2) == 0 {
        return Some(match world.control.add_completion_vector() {
            Ok(part) => {
                world.events.push(part).map_err(drop).expect("room");
                "added".to_owned()
            }
            Err(error) => world.not_made(&error),
        });
    }
    let part = world.events.pop()?;
    Some(match world.control.remove_completion_vector(part) {
        Ok(()) => "removed".to_owned(),
        Err((part, error)) => {
            world.events.push(part).map_err(drop).expect("room");
            error.to_string()
        }
    })
}

/// Of any code, from any source, about an object that is there or not.
fn event(world: &mut World) -> Option<String> {
    let code = pick(
        &mut world.rng,
        &[0x0700, 0x050A, 0x0900, 0x0132, 0x0103, 0x0203],
    );
    let subject = match code {
        0x0203 => Subject::Cq(3 + world.below(9) as u32),
        _ => Subject::Qp(3 + world.below(13) as u32),
    };
    let source = world.below(16) as u8;
    let wqe_index = 0;
    world.sim.break_down(
        0,
        Breakage::Event {
            code,
            source,
            subject,
            wqe_index,
        },
    );
    Some(format!("{code:#x} from {source} of {subject:?}"))
}

fn post(world: &mut World) -> Option<String> {
    let draw = world.rng.next_u64();
    let place = (draw >> 1) as usize % world.qps.len().max(1);
    let qp = world.qps.get_mut(place)?;
    let number = qp.number().get();
    let taken = match draw & 1 {
        0 => qp.post_recv(&[RecvWr {
            wr_id: 1,
            sges: &[],
        }]),
        _ => qp.post_send(&[SendWr {
            wr_id: 2,
            op: Op::Nop,
            flags: SendFlags::SIGNALED,
        }]),
    };
    let is_send = (draw & 1) as i64;
    if taken.is_ok() {
        world.books.posted(number, is_send, 1 - is_send);
    }
    Some(format!("{number} {}", taken.is_ok()))
}

fn lan_port(world: &mut World) -> Option<String> {
    if !world.is_cold {
        return None;
    }
    let mac = MacAddr([1, 0, 0x5E, 1, 0, world.below(3) as u8]);
    let draw = world.below(4);
    let Some(port) = world.port.take() else {
        return Some(match world.control.open_lan(&LanInit::new(1500)) {
            Ok(port) => {
                world.port = Some(port);
                "opened".to_owned()
            }
            Err(error) => error.to_string(),
        });
    };
    let came = match draw {
        0 => match world.control.close_lan(port) {
            Ok(()) => return Some("closed".to_owned()),
            Err((port, error)) => {
                world.port = port;
                return Some(error.to_string());
            }
        },
        1 => said(world.control.leave_lan_group(&port, mac)),
        _ => said(world.control.join_lan_group(&port, mac)),
    };
    world.port = Some(port);
    Some(came)
}

fn pause(world: &mut World) -> Option<String> {
    let time = pick(&mut world.rng, &[1, 25, 8_000]);
    world.pause(e810::Ns::from_ms(time));
    Some(format!("{time} ms"))
}
