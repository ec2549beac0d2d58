//! What moderation promises, in virtual time: every figure is the same each time.

use e810::{Adaptive, CqModeration, Error, Object, Package};
use e810::{ColdStart, Config, LinkPolicy, PackageSource, bring_up, bring_up_cold};
use e810_hal::bus::ItrIndex;
use e810_hal::regs::{GLINT_CTL, GLINT_ITR, GLINT_RATE, PFINT_OICR};
use e810_hal::{Bus, Clock, Ns, Vector};
use e810_sim::Sim;
use e810_sim::pe::{Breakage, Subject};
use e810_tests::moderation::{Arrivals, Figures, Load, Setting, WAKE, measure};
use e810_tests::traffic::{Pair, Setup};

const OFF: Setting = Setting::Queue(CqModeration::Off);
const ADAPTIVE: Setting = Setting::Queue(CqModeration::Adaptive(Adaptive::Load));

const fn fixed(count: u16, period_us: u16) -> Setting {
    Setting::Queue(CqModeration::Fixed { count, period_us })
}

const fn load(rate: u32, arrivals: Arrivals) -> Load {
    let (before, counted) = match rate {
        ..10_000 => (300, 1_000),
        10_000..1_000_000 => (10_000, 10_000),
        _ => (20_000, 20_000),
    };
    Load {
        rate,
        arrivals,
        before,
        counted,
    }
}

const MILLION: Load = load(1_000_000, Arrivals::Even);

fn added_at_99(moderated: &Figures, pure: &Figures) -> u64 {
    moderated.percentile(99) - pure.percentile(99)
}

#[test]
fn a_million_a_second_takes_20_interrupts_a_thousand() {
    for arrivals in [Arrivals::Even, Arrivals::Random] {
        let load = load(1_000_000, arrivals);
        let pure = measure(OFF, load, 1);
        assert!(pure.per_thousand() > 300.0);
        for setting in [fixed(0, 50), ADAPTIVE] {
            let moderated = measure(setting, load, 1);
            let (interrupts, completions) = (moderated.interrupts, moderated.completions);
            // One each 50 µs; what comes at random is only nearly a million.
            let most = match arrivals {
                Arrivals::Even => 2_000,
                _ => 2_020,
            };
            assert!(
                interrupts * 100_000 <= completions * most,
                "{interrupts} for {completions}"
            );
            assert!(added_at_99(&moderated, &pure) <= 50_000);
            assert_eq!(moderated.allowed_us, 50);
        }
    }
}

/// In fact it adds nothing: the timer has long run out when an event comes.
#[test]
fn a_low_rate_waits_for_nothing() {
    let pure = measure(OFF, load(1_000, Arrivals::Even), 1);
    for setting in [
        ADAPTIVE,
        Setting::Queue(CqModeration::Adaptive(Adaptive::Dim)),
        fixed(0, 50),
        fixed(16, 50),
        Setting::Limit(48),
    ] {
        let moderated = measure(setting, load(1_000, Arrivals::Even), 1);
        assert_eq!(moderated.waits, pure.waits, "{setting:?}");
        assert_eq!(moderated.interrupts, pure.interrupts, "{setting:?}");
    }
    // Where some come close together, a fixed wait delays those; the adaptive
    // one nothing.
    for rate in [1_000, 10_000, 100_000] {
        let load = load(rate, Arrivals::Random);
        let pure = measure(OFF, load, 2);
        let moderated = measure(ADAPTIVE, load, 2);
        assert!(moderated.mean() <= pure.mean() * 1.05, "{rate}");
        assert!(moderated.percentile(99) * 100 <= pure.percentile(99) * 105);
        assert!(
            measure(fixed(0, 50), load, 2).mean() > pure.mean(),
            "{rate}"
        );
    }
}

/// Each message is sent when the one before was polled: what moderation adds is
/// lost, and nothing is gathered. Adaptive moderation finds out.
#[test]
fn a_load_that_waits_for_its_completions_is_not_slowed_down() {
    let load = Load {
        before: 30_000,
        counted: 30_000,
        ..load(1_000_000, Arrivals::OneByOne)
    };
    let pure = measure(OFF, load, 7);
    assert!(measure(fixed(0, 50), load, 7).mean() > 10.0 * pure.mean());
    let moderated = measure(ADAPTIVE, load, 7);
    assert!(moderated.mean() <= pure.mean() * 1.05);
    assert_eq!(moderated.percentile(99), pure.percentile(99));
    // It does try.
    assert!(moderated.waits.last() > pure.waits.last());
}

/// GLINT_DYN_CTL, PFPE_CQACK, PFPE_CQARM: three writes, and no read.
#[test]
fn an_interrupt_costs_three_writes_and_no_read() {
    for rate in [1_000, 100_000, 1_000_000] {
        for setting in [
            OFF,
            fixed(0, 50),
            fixed(16, 50),
            Setting::Limit(48),
            ADAPTIVE,
        ] {
            let figures = measure(setting, load(rate, Arrivals::Even), 3);
            assert_eq!(figures.reads, 0);
            assert_eq!(figures.writes, 3 * figures.interrupts, "{rate} {setting:?}");
        }
    }
}

#[test]
fn an_interval_is_what_it_says() {
    // Interrupts for 1000 completions, one each µs.
    for (setting, expected) in [
        (fixed(0, 8), 1e3 / 8.0),
        (fixed(0, 17), 1e3 / 16.0),
        (fixed(0, 64), 1e3 / 64.0),
        // Units of 4 µs.
        (Setting::Limit(23), 1e3 / 20.0),
        (Setting::Limit(48), 1e3 / 48.0),
        // As many as asked for; the period where it is shorter.
        (fixed(16, 50), 1e3 / 16.0),
        (fixed(64, 50), 1e3 / 50.0),
    ] {
        let per_thousand = measure(setting, MILLION, 4).per_thousand();
        let share = per_thousand / expected;
        assert!(
            (0.995..1.005).contains(&share),
            "{setting:?} {per_thousand}"
        );
    }
    let each = measure(fixed(1, 50), MILLION, 4);
    assert_eq!(each, measure(OFF, MILLION, 4));
}

#[test]
fn the_same_seed_gives_the_same_figures() {
    let load = load(100_000, Arrivals::Random);
    assert_eq!(measure(ADAPTIVE, load, 5), measure(ADAPTIVE, load, 5));
    assert_ne!(measure(ADAPTIVE, load, 5), measure(ADAPTIVE, load, 6));
}

/// GLINT_ITR in µs.
pub(crate) fn interval(bus: &impl Bus, timer: u16, vector: Vector) -> u32 {
    let register = ItrIndex::new(timer).map(|timer| GLINT_ITR.at(timer, vector));
    register.map_or(u32::MAX, |register| 2 * register.get(bus))
}

#[test]
fn a_vector_waits_as_long_as_its_most_impatient_queue_allows() {
    let sim = Sim::builder().functions(2).seed(1).build();
    let mut pair = Pair::simulated(&sim, Setup::default());
    let side = pair.side(0);
    let vector = side.events[2].vector();
    let now = |side: &e810_tests::traffic::Side<_>| {
        let at_once = interval(&side.platform, 0, vector);
        assert_eq!(interval(&side.platform, 1, vector), 0);
        at_once
    };
    let period = |period_us| CqModeration::Fixed {
        count: 0,
        period_us,
    };
    let mut first = side.control.create_cq(8, 1).unwrap();
    side.control.modify_cq(&mut first, period(100)).unwrap();
    assert_eq!((now(side), first.moderation().wait_us), (100, 100));
    // One that nothing was said of: from the next interrupt on.
    let mut second = side.control.create_cq(8, 1).unwrap();
    side.events[2].on_vector(&mut |_| {});
    assert_eq!((now(side), second.moderation().wait_us), (0, 0));
    side.control.modify_cq(&mut second, period(31)).unwrap();
    assert_eq!((now(side), second.moderation().wait_us), (30, 30));
    assert_eq!(first.moderation().wait_us, 100);
    side.control.destroy_cq(second).unwrap();
    side.events[2].on_vector(&mut |_| {});
    assert_eq!(now(side), 100);

    let refused = side.control.modify_cq(&mut first, period(8161));
    assert!(matches!(refused, Err(Error::Ceq(_))), "{refused:?}");
    assert_eq!((now(side), first.moderation().wait_us), (100, 100));
    side.control
        .modify_cq(&mut first, CqModeration::Off)
        .unwrap();
    assert_eq!(now(side), 0);

    let foreign = pair.side(1).control.modify_cq(&mut first, period(2));
    assert!(matches!(foreign, Err(Error::Foreign { .. })), "{foreign:?}");
    pair.side(0).control.destroy_cq(first).unwrap();
    pair.finish(&sim);
}

#[test]
fn a_rate_is_limited_by_completion_vector() {
    let sim = Sim::builder().functions(2).seed(1).build();
    let mut pair = Pair::simulated(&sim, Setup::default());
    let side = pair.side(0);
    let rate = GLINT_RATE.at(side.events[3].vector());
    side.control.limit_interrupts(2, 252).unwrap();
    assert_eq!(rate.get(&side.platform), 0x7F);
    let long = side.control.limit_interrupts(2, 253);
    assert!(matches!(long, Err(Error::Ceq(_))), "{long:?}");
    let vectors = side.control.completion_vectors();
    let object = Object::CompletionVector;
    let id = vectors.into();
    assert_eq!(
        side.control.limit_interrupts(vectors, 8),
        Err(Error::NoSuch { object, id })
    );
    assert_eq!(rate.get(&side.platform), 0x7F);
    // Nothing is left for the next driver.
    pair.finish(&sim);
    assert_eq!(rate.get(&sim.function(0)), 0);
}

/// A CEQ on the vector of the asynchronous events has a timer of its own there.
#[test]
fn asynchronous_events_do_not_wait_for_completions() {
    for vectors in [1, 3] {
        let sim = Sim::builder().functions(2).vectors(vectors).seed(1).build();
        let mut pair = Pair::simulated(&sim, Setup::default());
        let side = pair.side(0);
        let longest = CqModeration::Fixed {
            count: 0,
            period_us: 8_160,
        };
        side.control.modify_cq(&mut side.cqs[0], longest).unwrap();
        let vector = side.events[0].vector();
        // What the start itself caused.
        side.events[0].on_vector(&mut |_| {});
        sim.run(Ns::from_ms(10));
        side.events[0].on_vector(&mut |_| {});
        assert_eq!(interval(&side.platform, 0, vector), 0);
        assert_eq!(interval(&side.platform, 1, vector), 8_160);
        for _ in 0..3 {
            let _ = sim.take_interrupts(0);
            let event = Breakage::Event {
                code: 0x0701,
                source: 0,
                subject: Subject::Function,
                wqe_index: 0,
            };
            sim.break_down(0, event);
            sim.run(WAKE);
            assert_eq!(sim.take_interrupts(0), [vector], "{vectors} vectors");
            let mut reported = 0;
            let side = pair.side(0);
            side.events[0].on_vector(&mut |_| reported += 1);
            assert_eq!(reported, 1);
        }
        pair.finish(&sim);
    }
}

/// Errors of the card keep their own moderation, whatever else is on the vector,
/// and a card that nobody has set up gets its units.
#[test]
fn a_cold_start_sets_units_and_keeps_the_interval_of_errors() {
    for vectors in [1, 8] {
        let sim = Sim::builder().vectors(vectors).seed(1).cold().build();
        let nic = sim.function(0);
        assert_eq!(GLINT_CTL.get(&nic), 0);
        let file = e810_sim::test_package();
        let start = ColdStart {
            package: PackageSource::File(Package::parse(&file).unwrap()),
            link: LinkPolicy::Wait(Ns::from_ms(10_000)),
        };
        let up = bring_up_cold(nic.clone(), &Config::cold(9000), &start, &mut |_| {});
        let (control, mut events) = up.unwrap().split();
        assert_eq!(GLINT_CTL.get(&nic), 0x2222_0000);
        let vector = events[0].vector();
        assert_eq!(interval(&nic, 0, vector), 124);
        // What the start itself caused.
        events[0].on_vector(&mut |_| {});
        nic.delay(Ns::from_ms(1));
        let _ = nic.take_interrupts();
        events[0].on_vector(&mut |_| {});
        let mut times = Vec::new();
        for _ in 0..4 {
            PFINT_OICR.write(&nic, PFINT_OICR::MAL_DETECT::SET);
            assert!(nic.wait_interrupt(vector, Ns::from_ms(1)));
            times.push(nic.now().0);
            events[0].on_vector(&mut |_| {});
            assert_eq!(interval(&nic, 0, vector), 124);
        }
        for pair in times.windows(2) {
            let between = pair[1] - pair[0];
            assert!((123_000..126_000).contains(&between), "{between}");
        }
        control.shutdown(events).map_err(|e| e.error).unwrap();
        assert_eq!(sim.findings(), []);
    }
}

/// A function that another driver has set up is only looked at.
#[test]
fn units_that_are_right_are_not_written() {
    let sim = Sim::builder().seed(1).build();
    let nic = sim.function(0);
    let lan = e810::Lan {
        vsi: e810::VsiId::new(nic.vsi()).unwrap(),
        mac: e810::MacAddr(nic.mac()),
        mtu: 9000,
    };
    for (before, written) in [(0x2222_0000, 0), (0x2222_0001, 1), (0, 1)] {
        GLINT_CTL.set(&nic, before);
        let trace = e810_sim::middleware::Trace::new();
        let traced = e810_sim::middleware::Layered::new(nic.clone(), trace.clone());
        let device = bring_up(traced, &Config::new(lan), &mut |_| {}).unwrap();
        let writes = trace.take();
        let writes = writes
            .iter()
            .filter(|line| line.starts_with("write GLINT_CTL "));
        assert_eq!(writes.count(), written, "{before:#x}");
        assert_eq!(GLINT_CTL.get(&nic), 0x2222_0000);
        device.shutdown().unwrap();
    }
}
