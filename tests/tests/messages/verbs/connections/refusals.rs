//! Connections that one side does not make.

use super::*;

/// A connection that was accepted is ended before its peer is ready: the peer is refused.
#[test]
fn a_change_of_mind() {
    let sim = sim(49);
    let mut world = World::new(Pair::simulated(&sim, Setup::default()));
    world.listen();
    let mut active = world.ask();
    let request = world.request();
    let mut passive = world.accept(&request);
    passive.disconnect(&mut world.local(1)).unwrap();
    assert!(matches!(world.hear(0, &mut active), News::Rejected { .. }));
    assert_eq!(world.hear(1, &mut passive), News::Over);
    world.give_back(0, active);
    world.give_back(1, passive);
    world.end(&sim);
}

/// A request is accepted twice: the second time is an error, and the first connection is as it was.
#[test]
fn one_request_is_one_connection() {
    let sim = sim(54);
    let mut world = World::new(Pair::simulated(&sim, Setup::default()));
    world.listen();
    let mut active = world.ask();
    let request = world.request();
    let mut passive = world.accept(&request);
    let again = |world: &mut World<_>| {
        let mut second = world.connection(1);
        let accepted = second.accept(&mut world.local(1), &request, &Grant::default());
        assert!(matches!(accepted, Err(NotConnected::Refused(_))));
        assert_eq!(second.id(), None);
        world.give_back(1, second);
    };
    again(&mut world);
    assert!(matches!(world.hear(0, &mut active), News::Accepted { .. }));
    assert_eq!(world.hear(1, &mut passive), News::Established);
    again(&mut world);
    let mut both = [active, passive];
    world.message(&mut both, 0);
    let [mut active, mut passive] = both;
    active.disconnect(&mut world.local(0)).unwrap();
    assert_eq!(world.hear(1, &mut passive), News::Disconnected);
    assert_eq!(world.hear(0, &mut active), News::Disconnected);
    assert_eq!(world.hear(0, &mut active), News::Over);
    assert_eq!(world.hear(1, &mut passive), News::Over);
    world.give_back(0, active);
    world.give_back(1, passive);
    world.end(&sim);
}

/// A device that refuses, on the passive side: the peer is told, and the request is gone. On the
/// other side the connection ends all the same.
#[test]
fn the_device_refuses() {
    struct Refuses<'a, S>(&'a mut S);

    impl<P: Platform, S: Service<P>> Service<P> for Refuses<'_, S> {
        fn call(&mut self, call: &Call<'_>) -> Result<Answer, Refused> {
            self.0.call(call)
        }

        fn modify(&mut self, _: &mut QpControl<P>, attr: &QpAttr) -> Result<(), e810::Error> {
            assert_eq!(
                attr.access.unwrap_or(AccessFlags::empty()),
                AccessFlags::empty()
            );
            Err(e810::Error::Invalid {
                what: "a queue pair that cannot be changed",
            })
        }
    }

    let sim = sim(50);
    let mut world = World::new(Pair::simulated(&sim, Setup::default()));
    world.listen();
    let mut active = world.ask();
    let request = world.request();
    let mut passive = world.connection(1);
    let refused = passive.accept(
        &mut Refuses(&mut world.local(1)),
        &request,
        &Grant::default(),
    );
    assert!(refused.is_err());
    assert_eq!(passive.phase(), Phase::Refused(Reason::CONSUMER_DEFINED));
    let told = world.told(0);
    assert!(matches!(told.news, News::Rejected { .. }));
    let heard = active.hear(&mut Refuses(&mut world.local(0)), &told);
    assert!(heard.is_err());
    assert_eq!(active.phase(), Phase::Refused(Reason::CONSUMER_DEFINED));
    world.give_back(0, active);
    world.give_back(1, passive);
    world.end(&sim);
}
