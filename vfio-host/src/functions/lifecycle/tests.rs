use e810_hal::{Clock, Ns};
use e810_sim::{PhyStart, PortLink, Profile, Sim};

use super::*;
use crate::functions::start::Source;

/// Two ports of one card with a cable between them, both off after power-up:
/// neither has a link before the other is enabled.
#[test]
fn ports_that_are_cabled_together_wait_for_no_one_alone() {
    let sim = Sim::builder()
        .functions(2)
        .profile(Profile::small())
        .cold()
        .firmware(|pf, config| {
            config.phy = PhyStart::Disabled;
            config.link = PortLink::Cabled(1 - pf);
        })
        .build();
    let start = || Start::Cold {
        package: Source::simulated(),
        mtu: 1500,
        ceqs: 1,
        leave_link: false,
    };
    let platforms = [sim.function(0), sim.function(1)];
    let began = platforms[0].now();
    let made = sides(platforms, &[start(), start()], |platform, start, _| {
        bring_up(platform, start)
    });
    let [(mut one, one_events), (mut other, other_events)] = made.unwrap();
    wait_links([&mut one, &mut other]).unwrap();
    assert!(sim.now() - began < Ns::from_ms(1_000));
    for (control, events) in [(one, one_events), (other, other_events)] {
        let end = control.shutdown(events);
        end.map_err(|failed| failed.error).unwrap();
    }
    assert_eq!(sim.findings(), []);
}
