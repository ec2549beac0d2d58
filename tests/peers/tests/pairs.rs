//! Each program of ours with itself: two processes, and two simulated functions on one wire.

#![expect(clippy::expect_used, reason = "a test fails by panicking")]

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Command, Stdio};

fn side(wire: &str, ip: &str, program: &str) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_e810-peers"));
    command.arg("--device").arg(format!("sim:wire={wire}@{ip}"));
    command.args(program.split(' ')).stdout(Stdio::piped());
    command.spawn().expect("the program is there")
}

/// Runs a server and, once it listens, a client: whether each was content.
fn run(name: &str, [server_ip, client_ip]: [&str; 2], server: &str, client: &str) -> [bool; 2] {
    let wire = format!("peers-{name}-{}", std::process::id());
    let mut server = side(&wire, server_ip, server);
    let mut said = BufReader::new(server.stdout.take().expect("it is piped"));
    let mut line = String::new();
    said.read_line(&mut line).expect("text");
    assert!(line.starts_with("listening"), "{name}: {line}");
    let client = side(&wire, client_ip, client).wait();
    let client = client.expect("it was started").success();
    // One that was refused has met its server.
    if !client && !name.starts_with("refuse") {
        server.kill().expect("it is ours");
    }
    let mut rest = String::new();
    said.read_to_string(&mut rest).expect("text");
    [server.wait().expect("it was started").success(), client]
}

fn pair(name: &str, ips: [&str; 2], server: &str, client: &str) {
    assert_eq!(
        run(name, ips, server, client),
        [true; 2],
        "{name}: server, client"
    );
}

const IPV4: [&str; 2] = ["10.8.7.1/24", "10.8.7.2/24"];
const IPV6: [&str; 2] = ["fd00:8::1/64", "fd00:8::2/64"];

#[test]
fn rping() {
    let client = "rping --connect 10.8.7.1:7174";
    pair("rping", IPV4, "rping --listen 7174", client);
    let server = "rping --listen 7174 --count 2";
    let client = "rping --connect [fd00:8::1]:7174 --count 2 --size 65535";
    pair("rping-ipv6", IPV6, server, client);
    let on_vlan = |program| format!("--vlan 5 {program}");
    let client = on_vlan("rping --connect 10.8.7.1:7174");
    pair("rping-vlan", IPV4, &on_vlan("rping --listen 7174"), &client);
}

#[test]
fn messages() {
    let client = "messages --connect 10.8.7.1:7471";
    pair("messages", IPV4, "messages --listen 7471", client);
}

#[test]
fn ucmatose() {
    let server = "ucmatose --listen 7471 --connections 100 --messages 2";
    let client = "ucmatose --connect 10.8.7.1:7471 --connections 100 --messages 2";
    pair("ucmatose", IPV4, server, client);
}

#[test]
fn udaddy() {
    for (name, ips, at) in [("4", IPV4, "10.8.7.1"), ("6", IPV6, "[fd00:8::1]")] {
        let server = "udaddy --listen 7174 --connections 3";
        let client = format!("udaddy --connect {at}:7174 --connections 3");
        pair(&format!("udaddy-ipv{name}"), ips, server, &client);
    }
}

#[test]
fn cmtime() {
    let server = "cmtime --listen 7471 --connections 20";
    let client = "cmtime --connect 10.8.7.1:7471 --connections 20";
    pair("cmtime", IPV4, server, client);
}

#[test]
fn refusals() {
    let server = "refuse --listen 7174";
    let said = run("refuse", IPV4, server, "rping --connect 10.8.7.1:7174");
    assert_eq!(said, [true, false]);
    let server = "refuse --listen 7174 --datagrams";
    let said = run("refuse-ud", IPV4, server, "udaddy --connect 10.8.7.1:7174");
    assert_eq!(said, [true, false]);
}
