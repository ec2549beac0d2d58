//! Snapshots of managers that are made of tables.

use e810_cm::machine::Listen;

use super::screen::lines;
use super::*;
use crate::monitor::Snapshot;
use crate::monitor::tests::function;
use crate::output::wrap::{length, wrap};

fn overview(number: u32, state: State) -> Overview {
    // Ids are names that a machine gives; here any do.
    let id = serde_json::from_value(number.into()).unwrap();
    Overview {
        id,
        state,
        is_active: number.is_multiple_of(2),
        space: PortSpace::Tcp,
        port: 18515,
        own: "192.0.2.1".parse().unwrap(),
        peer: "192.0.2.2".parse().unwrap(),
        vlan: None,
        queue_pairs: [number, 0],
        repeats: 2,
        since: Ns::from_ms(number.into()),
    }
}

fn listener(port: u16) -> ListenerOverview {
    ListenerOverview {
        listen: Listen {
            space: PortSpace::Udp,
            port,
            address: "::".parse().unwrap(),
            only_family: true,
            backlog: 16,
            context: 0,
        },
        waiting: 3,
    }
}

/// A manager with so many connections, half of them in TIMEWAIT.
pub(in crate::monitor) fn manager(connections: u32) -> ConnectionsSnapshot {
    let all = (1..=connections).map(|number| match number.is_multiple_of(2) {
        true => overview(number, State::Established),
        false => overview(number, State::TimeWait),
    });
    let mut counters = Counters::NONE;
    counters.sent[0] = 4;
    counters.received[3] = 1;
    counters.repeated = 3;
    counters.rejected[8] = 2;
    counters.rejected[0] = 1;
    counters.rejected[34] = 1;
    counters.no_slot = 5;
    let counters = CountersSnapshot::of(&counters, 6);
    let now = Ns::from_ms(60_000);
    ConnectionsSnapshot::new(
        all.collect(),
        vec![listener(9)],
        counters,
        now,
        &mut |each| each.is_active.then_some(each.port),
    )
}

fn snapshot(manager: Option<ConnectionsSnapshot>) -> Snapshot {
    let mut function = function("function 0", 1, 1);
    function.connection_manager = manager;
    Snapshot {
        command: "pingpong".to_owned(),
        pid: 7,
        at_ns: 0,
        functions: vec![function],
        silent: vec!["function 1".to_owned()],
    }
}

#[test]
fn a_snapshot_has_a_bound_and_says_how_many_there_are() {
    let manager = manager(1_000);
    assert_eq!((manager.total, manager.connections.len()), (1_000, MOST));
    assert_eq!(manager.states["TIMEWAIT"], 500);
    // A client takes 4 MiB.
    let bytes = serde_json::to_vec(&manager).unwrap().len();
    assert!(bytes < 150 << 10, "{bytes}");
    let all = manager.connections.iter();
    assert!(all.clone().all(|each| each.state == "ESTABLISHED"));
    let ages: Vec<_> = all.map(|each| each.age_ns).collect();
    assert!(ages.is_sorted() && ages[0] == 59_000_000_000, "{ages:?}");
    let text = lines(&snapshot(Some(manager))).join("\n");
    assert!(
        text.contains("  744 more connections are not shown"),
        "{text}"
    );
    // All states before TIMEWAIT.
    let few = self::manager(4);
    let states = few.connections.iter().map(|each| each.state.as_str());
    let expected = ["ESTABLISHED", "ESTABLISHED", "TIMEWAIT", "TIMEWAIT"];
    assert_eq!(states.collect::<Vec<_>>(), expected);
}

#[test]
fn connections_listeners_and_counters_are_readable() {
    let mut manager = manager(2);
    manager.connections[0].peer = "fd00::2".to_owned();
    let lines = lines(&snapshot(Some(manager)));
    assert_eq!(
        lines,
        [
            "pingpong (process 7)",
            "",
            "function 0 (sim)   2 connections (1 ESTABLISHED, 1 TIMEWAIT), 1 listener",
            "  state        role     peer             QPs  service    age     repeats",
            "  ESTABLISHED  active   [fd00::2]:18515  2-?  tcp 18515  60.0 s  2",
            "  TIMEWAIT     passive  192.0.2.2        1-?  tcp 18515  60.0 s  2",
            "  listens on  service  waiting",
            "  ::          udp 9    3 of 16",
            "  sent        REQ 4",
            "  received    REP 1",
            "  repeated    3",
            "  rejected    INVALID_SERVICE_ID 2, OTHER 2",
            "  dropped     no_slot 5, not_sent 6",
            "",
            "function 1 does not answer: it is starting, or its loop is blocked",
        ]
    );
    for width in [60, 80] {
        let wrapped: Vec<_> = lines.iter().map(|line| wrap(line, width)).collect();
        let text = wrapped.join("\n");
        assert!(text.lines().all(|line| length(line) <= width), "{text}");
    }
}

#[test]
fn a_function_without_a_manager_says_so() {
    let text = lines(&snapshot(None)).join("\n");
    let line = "function 0 (sim)   it has no connection manager: start the command with --cm\n";
    assert!(text.contains(line), "{text}");
}

/// Names of fields at any depth but for counts, whose names are listed once.
fn fields(value: &serde_json::Value, names: &mut Vec<String>) {
    match value {
        serde_json::Value::Object(object) => {
            for (name, value) in object {
                names.push(name.clone());
                if !["states", "sent", "received", "rejected"].contains(&name.as_str()) {
                    fields(value, names);
                }
            }
        }
        serde_json::Value::Array(values) => values.iter().for_each(|value| fields(value, names)),
        _ => {}
    }
}

#[test]
fn every_field_is_documented() {
    let mut manager = manager(2);
    manager.connections[0].vlan = Some(5);
    manager.connections[0].peer_qp = Some(6);
    let mut names = Vec::new();
    fields(&serde_json::to_value(manager).unwrap(), &mut names);
    let page = include_str!("../../../../docs/commands.md");
    let row = page
        .lines()
        .find(|line| line.starts_with("| `connections` |"));
    for name in names {
        assert!(row.unwrap().contains(&format!("`{name}`")), "{name}");
    }
}

#[test]
fn json_has_the_counters_that_are_0_too() {
    let json = serde_json::to_value(manager(1)).unwrap();
    let counters = &json["counters"];
    let count = |name: &str| counters[name].as_object().unwrap().len();
    assert_eq!(["sent", "received", "dropped"].map(count), [11, 11, 8]);
    assert_eq!(counters["rejected"]["TIMEOUT"], 0);
    assert_eq!(count("rejected"), 35, "34 with a name, and those without");
    let connection = &json["connections"][0];
    assert_eq!(connection["service_id"], 0x0106_4853);
    assert!(connection.get("peer_qp").is_none(), "{connection}");
    let again: ConnectionsSnapshot = serde_json::from_value(json.clone()).unwrap();
    assert_eq!(again, manager(1));
}
