//! Synchronous ids: an endpoint that listens here, and one in a thread that asks it. Each waits for the
//! other in its calls.

use core::ffi::{CStr, c_int};
use core::mem;
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::Duration;

use e810_rdmacm::abi::{AddrInfo, CmId, port_space};
use e810_verbs::abi::constants::qp_type;
use e810_verbs::abi::make::{QpCap, QpInitAttr};
use libc::{ECONNREFUSED, EINVAL};

use super::api::{Api, Sym};
use super::engine::{CmEngine, none};
use super::world::{own, storage_of};
use crate::run::{errno, rdma};

/// How long the asking side may take.
const PATIENCE: Duration = Duration::from_secs(40);
const PASSIVE: c_int = 1;

/// What is to become of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    Accepted,
    Refused,
    Dropped,
}

/// What is known of both sides.
#[derive(Clone, Copy, Debug)]
struct Plan {
    fate: Fate,
    /// The listener's function, and the port.
    device: usize,
    port: u16,
    /// The endpoint that asks has an own address.
    source: Option<usize>,
    /// Who ends it first.
    ends: bool,
}

fn queue_pair() -> QpInitAttr {
    QpInitAttr {
        qp_context: none(),
        send_cq: none(),
        recv_cq: none(),
        srq: none(),
        cap: QpCap {
            max_send_wr: 2,
            max_recv_wr: 2,
            max_send_sge: 1,
            max_recv_sge: 1,
            max_inline_data: 0,
        },
        qp_type: qp_type::RC,
        sq_sig_all: 1,
    }
}

fn number(answer: c_int) -> c_int {
    match answer {
        -1 => errno(),
        other => other,
    }
}

/// The side that asks: each call's name with its answer.
fn asks(api: &Api, plan: Plan) -> Vec<(Sym, c_int)> {
    let mut said = Vec::new();
    let (mut to, to_len) = storage_of((own(plan.device, false), plan.port).into());
    let source = plan.source.map(|device| (own(device, false), 0).into());
    let (mut from, from_len) = source.map_or(([0; 16], 0), storage_of);
    // SAFETY: numbers and null pointers.
    let mut hints: AddrInfo = unsafe { mem::zeroed() };
    hints.port_space = port_space::TCP;
    (hints.dst_addr, hints.dst_len) = (to.as_mut_ptr().cast(), to_len);
    if plan.source.is_some() {
        (hints.src_addr, hints.src_len) = (from.as_mut_ptr().cast(), from_len);
    }
    let (mut found, mut id): (*mut AddrInfo, *mut CmId) = (none(), none());
    let mut attr = queue_pair();
    // SAFETY: what was found, and an id that was made.
    unsafe {
        let answer = (api.getaddrinfo)(none(), none(), &raw const hints, &raw mut found);
        said.push((Sym::getaddrinfo, number(answer)));
        let answer = (api.create_ep)(&raw mut id, found, none(), &raw mut attr);
        said.push((Sym::create_ep, number(answer)));
        (api.freeaddrinfo)(found);
        if answer != 0 {
            return said;
        }
        let answer = (api.connect)(id, none());
        said.push((Sym::connect, number(answer)));
        if answer == 0 && plan.ends {
            said.push((Sym::disconnect, number((api.disconnect)(id))));
        }
        (api.destroy_ep)(id);
    }
    said
}

/// Both.
pub(super) fn any(engine: &mut CmEngine) {
    let draw = &mut engine.run.draw;
    let plan = Plan {
        fate: draw
            .one_of(&[Fate::Accepted, Fate::Accepted, Fate::Refused, Fate::Dropped])
            .expect("one"),
        device: draw.below(2),
        port: 0,
        source: draw.one_of(&[None, Some(0), Some(1)]).flatten(),
        ends: draw.once_in(2),
    };
    engine.run.about(|| format!("{plan:?}"));
    let listener = listens(engine, plan.device);
    wrong(engine, listener);
    let port = u16::from_be(rdma!(engine.run, get_src_port(listener)));
    let (give, take) = sync_channel(1);
    let (api, plan) = (engine.run.cm, Plan { port, ..plan });
    let asking = thread::spawn(move || give.send(asks(&api, plan)));
    answers(engine, listener, plan);
    let Ok(said) = take.recv_timeout(PATIENCE) else {
        engine.run.fail("an endpoint that asks comes to no end");
    };
    let _ = asking.join();
    for (symbol, answer) in said {
        let wanted = match (symbol, plan.fate) {
            (Sym::connect, Fate::Refused | Fate::Dropped) => ECONNREFUSED,
            _ => 0,
        };
        engine.run.enter(symbol);
        engine.run.leave();
        engine.run.judge(symbol, answer, &[wanted]);
    }
    rdma!(engine.run, destroy_ep(listener));
    engine.run.good(Sym::destroy_ep);
}

/// An endpoint that listens at any port.
fn listens(engine: &mut CmEngine, device: usize) -> *mut CmId {
    let node: &CStr = [c"10.8.1.1", c"10.8.1.2"][device];
    // SAFETY: numbers and null pointers.
    let mut hints: AddrInfo = unsafe { mem::zeroed() };
    (hints.flags, hints.port_space) = (PASSIVE, port_space::TCP);
    let (mut found, mut id): (*mut AddrInfo, *mut CmId) = (none(), none());
    let mut attr = queue_pair();
    let answer = rdma!(
        engine.run,
        getaddrinfo(
            node.as_ptr(),
            c"0".as_ptr(),
            &raw const hints,
            &raw mut found
        )
    );
    engine.run.minus(Sym::getaddrinfo, answer, &[0]);
    let pd = match engine.run.draw.once_in(2) {
        true => engine.world.pds[device],
        false => none(),
    };
    let answer = rdma!(engine.run, create_ep(&raw mut id, found, pd, &raw mut attr));
    engine.run.minus(Sym::create_ep, answer, &[0]);
    rdma!(engine.run, freeaddrinfo(found));
    let backlog = engine.run.draw.number(&[0, 1, 8]);
    let answer = rdma!(engine.run, listen(id, backlog));
    engine.run.minus(Sym::listen, answer, &[0]);
    id
}

/// What is refused: requests of who has a channel, and endpoints that are none.
fn wrong(engine: &mut CmEngine, listener: *mut CmId) {
    let mut id: *mut CmId = none();
    if let Some(at) = engine.world.ids.pick(&mut engine.run.draw, |_| true) {
        let other = engine.world.ids.get(at).ptr;
        let answer = rdma!(engine.run, get_request(other, &raw mut id));
        engine.run.minus(Sym::get_request, answer, &[EINVAL]);
    }
    let answer = rdma!(engine.run, migrate_id(listener, none()));
    engine.run.minus(Sym::migrate_id, answer, &[EINVAL]);
    // SAFETY: numbers and null pointers.
    let mut info: AddrInfo = unsafe { mem::zeroed() };
    info.port_space = engine.run.draw.number(&[0, 77, port_space::TCP]);
    info.flags = engine.run.draw.number(&[0, PASSIVE]);
    let answer = rdma!(
        engine.run,
        create_ep(&raw mut id, &raw mut info, none(), none())
    );
    engine.run.minus(Sym::create_ep, answer, &[EINVAL]);
}

/// The side that is asked.
fn answers(engine: &mut CmEngine, listener: *mut CmId, plan: Plan) {
    let mut id: *mut CmId = none();
    let answer = rdma!(engine.run, get_request(listener, &raw mut id));
    engine.run.minus(Sym::get_request, answer, &[0]);
    // SAFETY: both are live.
    let shown = unsafe { id.read() };
    if shown.qp.is_null() || shown.event.is_null() || shown.channel.is_null() {
        engine
            .run
            .fail(&format!("the id of a request is {shown:?}"));
    }
    match plan.fate {
        Fate::Accepted => {
            let answer = rdma!(engine.run, accept(id, none()));
            engine.run.minus(Sym::accept, answer, &[0]);
            // The other ends it too, or is destroyed: either tells this side.
            let answer = rdma!(engine.run, disconnect(id));
            engine.run.minus(Sym::disconnect, answer, &[0]);
        }
        Fate::Refused => {
            let answer = rdma!(engine.run, reject(id, c"no".as_ptr().cast(), 2));
            engine.run.minus(Sym::reject, answer, &[0]);
        }
        Fate::Dropped => {}
    }
    rdma!(engine.run, destroy_ep(id));
    engine.run.good(Sym::destroy_ep);
}
