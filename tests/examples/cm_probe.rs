//! Every call of `e810-cm`; `tests/rules/asm.rs` looks for panic paths in the object, and `tests/size`
//! for the size of what is called.
//!
//! Not an example of use, and never run. What is not called from here is not checked, and not
//! counted.

use core::hint::black_box;
use core::net::IpAddr;

use e810_cm::ip::{self, IpHeader, PortSpace};
use e810_cm::machine::{
    Accept, Config, Connect, ConnectionId, Destination, Error, Event, Listen, ListenerId, Machine,
    Origin, Overview, Tables,
};
use e810_cm::{Mad, Message, NoMessage, Reason};
use e810_types::Ns;

/// A machine that begins, and begins again.
#[unsafe(no_mangle)]
pub fn probe_cm_new<'t>(
    guid: u64,
    tables: Tables<'t>,
    [random, other]: [[u8; 16]; 2],
) -> Result<Machine<'t>, Error> {
    let config = Config::new(guid);
    black_box(Tables::words(tables.slots.len()));
    Ok(Machine::new(config, tables, random)?.renew(config, other))
}

/// Datagrams and times.
#[unsafe(no_mangle)]
pub fn probe_cm_work(
    machine: &mut Machine<'_>,
    (bytes, origin): (&[u8], &Origin),
    now: Ns,
    mad: &mut Mad,
) -> (Option<Ns>, Option<Event>) {
    machine.receive(bytes, origin, now);
    black_box(machine.poll(now));
    if let Some(to) = machine.transmit(now, mad) {
        unsent(machine, &to);
    }
    (machine.deadline(), machine.event())
}

#[inline(never)]
fn unsent(machine: &mut Machine<'_>, to: &Destination) {
    machine.again(to);
    if let Some(id) = to.connection {
        machine.unreachable(id);
    }
}

/// What a program asks for.
#[unsafe(no_mangle)]
pub fn probe_cm_ask(
    machine: &mut Machine<'_>,
    mut connect: Connect<'_>,
    listen: Listen,
    old: ListenerId,
) -> Result<(ConnectionId, ListenerId), Error> {
    connect.source_port = machine.port();
    black_box(Connect::new(
        connect.source,
        (connect.destination, connect.port).into(),
    ));
    machine.unlisten(old);
    let listener = machine.listen(listen)?;
    black_box(machine.listener(listener));
    Ok((machine.connect(&connect)?, listener))
}

/// What a program does about a connection.
#[unsafe(no_mangle)]
pub fn probe_cm_calls(
    machine: &mut Machine<'_>,
    id: ConnectionId,
    accept: &Accept<'_>,
    (answer, reason, data): (Result<(u32, u32), u8>, Reason, &[u8]),
    now: Ns,
) -> Result<(), Error> {
    machine.accept(id, accept)?;
    machine.answer(id, answer, data)?;
    machine.reject(id, reason, data, now)?;
    machine.ready(id)?;
    machine.data_arrived(id);
    machine.disconnect(id, now)?;
    machine.release(id, now)
}

/// Requests whose senders are looked for.
#[unsafe(no_mangle)]
pub fn probe_cm_unreached(machine: &mut Machine<'_>, place: usize, now: Ns) -> Result<(), Error> {
    black_box(machine.unreached_len());
    match machine.unreached(place) {
        Some((id, origin)) if origin.vlan.is_none() => machine.reached(id, now),
        Some((id, _)) => machine.ignore(id),
        None => Ok(()),
    }
}

/// What is known of a connection.
#[unsafe(no_mangle)]
pub fn probe_cm_views(machine: &Machine<'_>, id: ConnectionId, shown: fn(Overview)) -> u32 {
    machine.connections().for_each(shown);
    black_box(machine.request(id));
    black_box(machine.asked(id));
    black_box(machine.reply(id));
    black_box(machine.origin(id));
    black_box((machine.state(id), machine.context(id)));
    black_box((machine.local_psn(id), machine.ack_timeout(id)));
    black_box((machine.queue_pairs(id), machine.free_slots()));
    black_box(machine.counters());
    id.number()
}

/// Messages from bytes and to bytes, which calls the function of each.
#[unsafe(no_mangle)]
pub fn probe_cm_message(bytes: &[u8]) -> Result<Mad, NoMessage> {
    let (header, message) = Message::decode(bytes)?;
    Ok(message.encode(header))
}

/// Addresses, service ids and reasons.
#[unsafe(no_mangle)]
pub fn probe_cm_ip(address: IpAddr, service: u64, data: &[u8], reason: u16) -> Option<u64> {
    black_box(ip::address(ip::gid(address)));
    black_box(Reason(reason).text());
    let header = IpHeader::decode(data)?;
    black_box(header.encode());
    let (space, port): (PortSpace, u16) = PortSpace::of_service_id(service)?;
    black_box(space.header());
    Some(space.service_id(port))
}

fn main() {}
