//! Peers that give up before the program looks.

use super::*;

/// The passive side gives up while its answer waits for the program, which hears that, whatever it
/// waits for. Messages of that side may still come until the connection is over.
#[test]
fn a_connection_that_was_refused_late_says_so_and_is_over_late() {
    for waits_for_its_end in [false, true] {
        let sim = sim();
        let nodes = [0, 1].map(|number| Node::start(&sim, number));
        let listener = nodes[1].listen();
        let [mut active, mut passive] = [0, 1].map(|n: usize| nodes[n].connection());
        nodes[0].ask(&mut active, &[]);
        let request = listener.next(LIMIT).unwrap();
        passive.accept(&request, &Grant::default()).unwrap();
        let is_in = |state| {
            let shown = nodes[0].function.connections();
            shown.iter().any(|each| each.state == state)
        };
        while !is_in(State::RepReceived) {
            thread::sleep(Duration::from_millis(1));
        }
        let qp = passive.end();
        if !waits_for_its_end {
            while is_in(State::RepReceived) {
                thread::sleep(Duration::from_millis(1));
            }
            let error = active.established(LIMIT).unwrap_err();
            let ended = error.downcast::<Ended>().unwrap();
            assert!(matches!(ended, Ended::Refused { .. }), "{ended}");
        }
        active.over(LIMIT).unwrap();
        assert!(!is_in(State::TimeWait) && !is_in(State::Established));
        assert!(active.ended().is_some());
        drop(listener);
        let [first, second] = nodes;
        first.end(vec![active]);
        second.destroy(vec![qp]).unwrap();
        assert_eq!(sim.findings(), []);
    }
}

/// A peer asks and gives up, again and again, while the program does not look.
#[test]
fn requests_that_were_given_up_leave_room_for_others() {
    const BACKLOG: usize = 32;
    let sim = sim();
    let nodes = [0, 1].map(|number| Node::start(&sim, number));
    let listener = nodes[1].function.listen(ip(1), PORT, BACKLOG as u32);
    let ask = nodes[0].function.ask(Node::peer()).unwrap();
    let wait_for = |count| {
        let end = Instant::now() + LIMIT;
        loop {
            let shown = nodes[1].function.connections();
            let waiting = shown.iter().filter(|each| each.state == State::ReqReceived);
            let counters = nodes[1].function.counters();
            assert_eq!(counters.no_slot, 0, "no request is taken any more");
            if waiting.count() == count {
                return;
            }
            assert!(Instant::now() < end, "{counters:?}");
            thread::sleep(Duration::from_micros(100));
        }
    };
    let mut qpn = 100;
    // As many as there are places for connections, and some more.
    for _ in 0..130 {
        let asked = [0; BACKLOG].map(|_| {
            qpn += 1;
            let mut state = nodes[0].function.shared.lock();
            match state.call(&Call::Connect(Connect { qpn, ..ask })).unwrap() {
                Answer::Connection(id) => id,
                other => panic!("{other:?}"),
            }
        });
        wait_for(BACKLOG);
        let mut state = nodes[0].function.shared.lock();
        asked.into_iter().for_each(|id| state.release(id));
        drop(state);
        wait_for(0);
    }
    drop(listener);
    nodes.into_iter().for_each(|node| node.end(Vec::new()));
}
