use e810_hal::{Clock, Ns};
use e810_sim::{PhyStart, PortLink, Profile, Sim};

use super::*;
use e810_node::start::Source;

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
        quirks: e810::Quirks::NONE,
    };
    let platforms = [sim.function(0), sim.function(1)];
    let began = platforms[0].now();
    let make = |platform, start: &Start, _| bring_up(platform, start);
    let made = sides(platforms, &[start(), start()], make, shut_down);
    let [(mut one, one_events), (mut other, other_events)] = made.unwrap();
    wait_links([&mut one, &mut other]).unwrap();
    assert!(sim.now() - began < Ns::from_ms(1_000));
    for parts in [(one, one_events), (other, other_events)] {
        shut_down(parts).unwrap();
    }
    assert_eq!(sim.findings(), []);
}

fn shut_down<P: Platform>((control, events): (Control<P>, EventSet<P>)) -> Result<()> {
    let end = control.shutdown(events);
    Ok(end.map_err(|failed| failed.error)?)
}

/// What the first function was given is given back where there is no second.
#[test]
fn a_first_function_without_a_second_is_shut_down() {
    let sim = Sim::builder()
        .functions(2)
        .profile(Profile::small())
        .cold()
        .build();
    let start = || Start::Cold {
        package: Source::simulated(),
        mtu: 1500,
        ceqs: 1,
        leave_link: false,
        quirks: e810::Quirks::NONE,
    };
    let make = |platform, start: &Start, which| match which {
        0 => bring_up(platform, start),
        _ => anyhow::bail!("no second one"),
    };
    let platforms = [sim.function(0), sim.function(1)];
    let made = sides(platforms, &[start(), start()], make, shut_down);
    let error = format!("{:#}", made.map(drop).unwrap_err());
    assert_eq!(error, "function 1: no second one");
    assert_eq!(sim.memory(0).dma_bytes, 0);
    assert_eq!(sim.findings(), []);
}
