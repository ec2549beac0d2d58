//! The calls, on the platform of `core_probe`. `tests/size` counts the bytes of what is called.

use core::hint::black_box;

use e810::{Control, Path, Qp};
use e810_cm::Mad;
use e810_cm::machine::{Connect, ConnectionId, Machine};
use e810_connect::{
    Answer, Attributes, Call, Connection, Grant, Gsi, GsiError, Happened, Local, Manager,
    Neighbours, NotConnected, Phase, Refused, Service, Told,
};
use e810_hal::{Ns, SharedBytes};

use crate::core_probe::Metal;

/// Queue pair 1 with a manager, and its end.
#[unsafe(no_mangle)]
pub fn probe_connect_manager(
    control: &mut Control<Metal>,
    machine: Machine<'static>,
    receives: u16,
    memory: SharedBytes,
) -> Result<u32, GsiError> {
    if memory.len() < Gsi::<Metal>::bytes(receives) {
        return Ok(0);
    }
    let mut manager = Manager::new(machine, Gsi::open(control, memory, 0)?);
    black_box(&mut manager);
    let (machine, closed) = manager.close(control);
    closed?;
    Ok(machine.free_slots() as u32)
}

/// Datagrams on queue pair 1.
#[unsafe(no_mangle)]
pub fn probe_connect_gsi(
    gsi: &mut Gsi<Metal>,
    control: &mut Control<Metal>,
    path: &Path,
    mad: &mut Mad,
    now: Ns,
) -> Result<usize, GsiError> {
    black_box((gsi.strangers(), gsi.has_room()));
    black_box(gsi.arm());
    gsi.send(control, path, mad, now)?;
    match gsi.receive(control)? {
        Some(received) => {
            *mad = received.mad;
            black_box((received.origin, received.back));
            Ok(received.len)
        }
        None => Ok(0),
    }
}

/// The manager at work.
#[unsafe(no_mangle)]
pub fn probe_connect_progress(
    manager: &mut Manager<'static, Metal>,
    control: &mut Control<Metal>,
    neighbours: &mut dyn Neighbours,
    now: Ns,
) -> Result<Happened, GsiError> {
    black_box((manager.not_sent(), manager.deadline()));
    black_box((manager.gsi().strangers(), manager.machine().free_slots()));
    manager.progress(control, neighbours, now)
}

/// Calls of programs, as plain data.
#[unsafe(no_mangle)]
pub fn probe_connect_call(
    local: &mut Local<'_, 'static, Metal>,
    call: &Call<'_>,
    (id, depths): (ConnectionId, [u8; 2]),
) -> Result<Answer, Refused> {
    black_box(call.connection());
    let attributes = local
        .manager
        .attributes(local.control, local.neighbours, id, depths);
    black_box(attributes.is_ok());
    local
        .manager
        .call(local.control, local.neighbours, local.now, call)?;
    local.call(call)
}

/// A connection on the active side, to its end.
#[unsafe(no_mangle)]
pub fn probe_connect_active(
    local: &mut Local<'_, 'static, Metal>,
    qp: Qp<Metal>,
    ask: &Connect<'_>,
    news: &[Told],
) -> Option<Qp<Metal>> {
    black_box(Attributes::to_init(ask.responder_resources));
    let mut connection = Connection::new(local, qp, ask.responder_resources).ok()?;
    black_box(connection.qp().number());
    let asked = connection.connect(local, ask);
    black_box((asked.is_ok(), connection.id()));
    for told in news {
        if connection.hear(local, told).is_err() || connection.phase() == Phase::Over {
            break;
        }
    }
    Some(connection.end(local))
}

/// A connection on the passive side.
#[unsafe(no_mangle)]
pub fn probe_connect_passive(
    local: &mut Local<'_, 'static, Metal>,
    connection: &mut Connection<Metal>,
    request: &Told,
    grant: &Grant<'_>,
) -> Result<(), NotConnected> {
    connection.accept(local, request, grant)?;
    connection.arrived(local);
    connection.disconnect(local)
}
