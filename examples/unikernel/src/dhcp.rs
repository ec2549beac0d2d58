//! An IPv4 address by DHCP, with smoltcp on the LAN port in the place of `Lan`: the function
//! takes a lease, answers pings, and on TCP port 7 gives back what it is sent (RFC 862) until
//! that connection is closed. It sleeps between frames.

use e810_hal::Ns;
use e810_net::phy::PortDevice;
use metal::{Machine, Metal, say};
use smoltcp::iface::{Config, Interface, SocketSet, SocketStorage};
use smoltcp::socket::{dhcpv4, tcp};
use smoltcp::time::Instant;
use smoltcp::wire::{EthernetAddress, IpCidr};

use crate::Parts;
use crate::frames::Frames;
use crate::progress::progress;
use crate::report::{Failure, Report};

/// How long all of it may take.
const LIMIT: Ns = Ns::from_ms(120_000);
/// How long a sleep is at least and at most.
const SLEEP: [Ns; 2] = [Ns::from_ms(1), Ns::from_ms(100)];
/// TCP port of the echo service.
const ECHO_PORT: u16 = 7;
/// Bytes that wait on either side of that service.
const ECHO_BYTES: usize = 2048;

/// Serves until the visitor has gone, and gives everything back.
#[inline(never)] // What it has on the stack, the bring-up has not.
pub(crate) fn serve<'m>(
    metal: Metal<'m>,
    (mut control, mut events): Parts<'m>,
    mut report: Report<'m>,
) -> Result<(), Failure> {
    let machine = metal.machine();
    let mut frames = Frames::open(&mut control)?;
    let mut device: PortDevice<_> = PortDevice::new(&mut frames);
    let mut config = Config::new(EthernetAddress(control.lan().mac.0).into());
    config.random_seed = machine.now().0;
    let mut interface = Interface::new(config, &mut device, instant(machine));

    let (mut received, mut sending) = ([0; ECHO_BYTES], [0; ECHO_BYTES]);
    let [received, sending] = [&mut received, &mut sending].map(|buffer| &mut buffer[..]);
    let mut storage = [SocketStorage::EMPTY; 2];
    let mut sockets = SocketSet::new(storage.as_mut_slice());
    let dhcp = sockets.add(dhcpv4::Socket::new());
    let echo = sockets.add(tcp::Socket::new(
        tcp::SocketBuffer::new(received),
        tcp::SocketBuffer::new(sending),
    ));

    let end = machine.now() + LIMIT;
    let mut echoed = 0;
    loop {
        let now = instant(machine);
        interface.poll(now, &mut device, &mut sockets);
        if let Some(change) = sockets.get_mut::<dhcpv4::Socket<'_>>(dhcp).poll()
            && adopt(&mut interface, change)?
        {
            report.row("DHCP lease", 1);
        }
        if give_back(sockets.get_mut(echo), &mut echoed)? {
            break;
        }
        if machine.now() > end {
            return Err(Failure::Silence("a lease, and a visitor on TCP port 7"));
        }
        let next = interface.poll_delay(now, &sockets);
        let [least, most] = SLEEP;
        let next = next.map_or(most, |delay| Ns(delay.total_micros().saturating_mul(1_000)));
        let fired = machine.sleep(metal.lines(), next.clamp(least, most));
        progress(&metal, &mut control, &mut events, Some(fired))?;
    }
    report.row("bytes given back", echoed);
    let [received, sent] = frames.counts();
    report.row("frames received", received);
    report.row("frames sent", sent);
    frames.close(&mut control)?;
    control.shutdown(events).map_err(|failed| failed.error)?;
    report.row("shutting down", 1);
    report.end()
}

/// Takes the addresses of a lease, or gives them up; whether it is a lease.
fn adopt(interface: &mut Interface, change: dhcpv4::Event<'_>) -> Result<bool, Failure> {
    interface.update_ip_addrs(|addresses| addresses.clear());
    interface.routes_mut().remove_default_ipv4_route();
    // The first change of all is that there is none.
    let dhcpv4::Event::Configured(lease) = change else {
        return Ok(false);
    };
    let mut taken = Ok(());
    interface.update_ip_addrs(|addresses| taken = addresses.push(IpCidr::Ipv4(lease.address)));
    taken.map_err(|_| Failure::NoRoom)?;
    let routes = interface.routes_mut();
    if let Some(router) = lease.router {
        let added = routes.add_default_ipv4_route(router);
        added.map_err(|_| Failure::NoRoom)?;
    }
    say!("lease {} from {}", lease.address, lease.server.identifier);
    Ok(true)
}

/// Listens, and sends back what comes; whether a visitor who sent something has gone.
fn give_back(socket: &mut tcp::Socket<'_>, echoed: &mut u64) -> Result<bool, Failure> {
    if !socket.is_open() {
        if *echoed > 0 {
            return Ok(true);
        }
        let listening = socket.listen(ECHO_PORT);
        listening.map_err(|_| Failure::EchoService("its port is not to be had"))?;
    }
    let room = socket.send_capacity() - socket.send_queue();
    if room > 0 && socket.can_recv() {
        let mut text = [0; ECHO_BYTES];
        let text = text.get_mut(..room).unwrap_or_default();
        let lost = Failure::EchoService("its connection was lost");
        let received = socket.recv_slice(text).unwrap_or_default();
        let text = text.get(..received).unwrap_or_default();
        *echoed += socket.send_slice(text).map_err(|_| lost)? as u64;
    }
    // All that the visitor had to say is on its way back.
    if socket.state() == tcp::State::CloseWait && !socket.may_recv() {
        socket.close();
    }
    Ok(false)
}

fn instant(machine: &Machine) -> Instant {
    let us = machine.now().0 / 1_000;
    Instant::from_micros(i64::try_from(us).unwrap_or(i64::MAX))
}
