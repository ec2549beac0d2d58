//! Errors of the engine that are no entries of the event queue: what the driver
//! tells of them after a cold start, and what their registers say.

use e810::{
    AccessFlags, Causes, ColdStart, Config, Control, Data, Event, EventSet, LinkPolicy, Op,
    Package, PackageSource, RequiredReset, Sge, WcStatus, bring_up_cold, hmc,
};
use e810_ceq::ae::AeCode;
use e810_ceq::event::Kind;
use e810_hal::regs::PFINT_OICR;
use e810_hal::{Clock, Ns};
use e810_sim::pe::Breakage;
use e810_sim::{Profile, Sim, SimPlatform};
use e810_tests::traffic::verbs::done;
use e810_tests::traffic::{Buffer, Pair, Setup};

use crate::async_events::A;

const PAGE: usize = 4096;

/// A function whose LAN side is the driver's.
struct Cold {
    sim: Sim,
    control: Control<SimPlatform>,
    events: EventSet<SimPlatform>,
}

impl Cold {
    fn new() -> Self {
        let builder = Sim::builder().seed(7).profile(Profile::small()).cold();
        let sim = builder.build();
        let file = e810_sim::test_package();
        let start = ColdStart {
            package: PackageSource::File(Package::parse(&file).unwrap()),
            link: LinkPolicy::Wait(Ns::from_ms(10_000)),
        };
        let config = Config::cold(9000);
        let device = bring_up_cold(sim.function(0), &config, &start, &mut |_| {}).unwrap();
        let (control, events) = device.split();
        Self {
            sim,
            control,
            events,
        }
    }

    /// What the engine's vector tells after these breakages.
    fn reported(&mut self, breakages: &[Breakage]) -> (Causes, RequiredReset) {
        let _before = self.sim.take_interrupts(0);
        for breakage in breakages {
            self.sim.break_down(0, *breakage);
        }
        self.sim.function(0).delay(Ns::from_ms(1));
        let events = &mut self.events[0];
        let fired = self.sim.take_interrupts(0);
        assert!(fired.contains(&events.vector()), "{breakages:?}");
        let mut reported = Vec::new();
        events.on_vector(&mut |event| reported.push(event));
        reported.retain(|event| *event != Event::CqpCompletion);
        let [Event::OtherCause(causes, demand)] = reported[..] else {
            panic!("{reported:?}");
        };
        // Reading has cleared them.
        assert_eq!(events.poll_causes(&mut |_| {}), 0);
        assert_eq!(PFINT_OICR.read_clear(&self.sim.function(0)).get(), 0);
        (causes, demand)
    }

    /// The line that says what the registers hold.
    fn line(&self, causes: Causes) -> String {
        let line = self.control.error_details(causes).unwrap().to_string();
        assert!(!line.contains('\n'));
        line
    }

    fn end(self) {
        let Self {
            sim,
            control,
            events,
        } = self;
        control
            .shutdown(events)
            .map_err(|failed| failed.error)
            .unwrap();
        e810_tests::given_back::assert_as_found(&sim);
    }
}

#[test]
pub(crate) fn an_error_of_the_host_memory_cache() {
    let mut cold = Cold::new();
    let breakage = Breakage::Hmc {
        error_type: 5,
        object_type: 9,
        data: 0x2A,
    };
    let (causes, demand) = cold.reported(&[breakage]);
    assert_eq!(
        (causes, demand),
        (Causes::HMC_ERR, RequiredReset::ResetFunction)
    );
    let details = cold.control.error_details(causes).unwrap();
    let error = details.hmc.unwrap();
    assert_eq!((error.function, error.is_vf), (0, false));
    assert_eq!((error.error_type, error.object_type), (5, 9));
    assert_eq!((error.data, details.critical), (0x2A, None));
    assert_eq!(
        cold.line(causes),
        "the host memory cache failed; \
         PFHMC_ERRORINFO 0x80090500, PFHMC_ERRORDATA 0x0000002a; \
         HMC error of PF 0: HMC_OBJECT_TYPE 9 (Q1 [inf]), \
         HMC_ERROR_TYPE 5, HMC_ERROR_DATA 0x2a"
    );
    cold.end();
}

/// Page descriptors of the memory given to the card lose their valid bits: the
/// engine reaches for a page list that is not there, the queue pair that needed it
/// fails, and the function asks for a reset.
#[test]
pub(crate) fn a_page_list_whose_memory_is_gone() {
    let sim = Sim::builder().seed(7).functions(2).cold().build();
    // With as little memory as there can be it comes by the page.
    let setup = Setup {
        fast_register: true,
        frugal: true,
        ..Setup::default()
    };
    let mut pair = Pair::cold(&sim, setup);
    let memory = Buffer::new(2 * PAGE);
    let side = &mut pair.sides[0];
    let mut fast = side.control.alloc_fast_mr(&side.pd, 2).unwrap();
    let access = AccessFlags::LOCAL_WRITE;
    let request = side.control.map_fast_mr(&mut fast, memory.bytes(), access);
    let sge = Sge {
        addr: memory.bytes().address(),
        length: 64,
        lkey: fast.key(),
    };
    let wc = done(&mut pair, A, Op::FastRegister(&request.unwrap()));
    assert_eq!(wc.status, WcStatus::Success);
    let blocks = pair.sides[0].platform.blocks();
    // A page descriptor: an address of a page, and its valid bit.
    let is_descriptor = |value: u64| value & 0xFFF == 1 && value > 1 << 16;
    let pages: Vec<_> = blocks
        .iter()
        .filter(|block| block.align == PAGE)
        .flat_map(|block| (0..block.words()).map(move |word| (block, word)))
        .map(|(block, word)| (block, word, block.get(word)))
        .filter(|(_, _, value)| is_descriptor(*value))
        .collect();
    assert!(pages.len() > 10, "{} descriptors", pages.len());
    for (block, word, value) in &pages {
        block.set(*word, value & !1);
    }
    let remote = pair.remote(A, 0);
    let data = Data::Sges(&[sge]);
    let op = Op::Write {
        data,
        remote,
        imm: None,
    };
    assert_eq!(done(&mut pair, A, op).status, WcStatus::WrFlushErr);
    let side = &mut pair.sides[0];
    let reported: Vec<_> = side.reported.drain(..).map(|event| event.kind).collect();
    assert_eq!(reported, [Kind::Ae(AeCode::LOCAL_QP_CATASTROPHIC)]);
    let mut causes = Vec::new();
    side.events[0].poll_causes(&mut |event| causes.push(event));
    let expected = Event::OtherCause(Causes::HMC_ERR, RequiredReset::ResetFunction);
    assert_eq!(causes, [expected]);
    let details = side.control.error_details(Causes::HMC_ERR).unwrap();
    let error = details.hmc.unwrap();
    assert_eq!((error.function, error.is_vf), (0, false));
    assert_eq!(error.object(), Some("PBLE"));
    // The memory is back, so that the rest is given back in order.
    for (block, word, value) in &pages {
        block.set(*word, *value);
    }
    side.control.free_fast_mr(fast).unwrap();
    for finding in sim.take_findings() {
        assert_eq!(finding.kind, "hmc-backing", "{finding}");
    }
    pair.finish(&sim);
}

#[test]
pub(crate) fn critical_errors() {
    for (code, demand, words) in [
        (
            0x0001_024D,
            RequiredReset::None,
            "no entry for an inbound READ",
        ),
        (0x0000_0001, RequiredReset::ResetFunction, "no source says"),
    ] {
        let mut cold = Cold::new();
        let reported = cold.reported(&[Breakage::Critical(code)]);
        assert_eq!(reported, (Causes::PE_CRITERR, demand));
        let details = cold.control.error_details(reported.0).unwrap();
        assert_eq!(details.critical.map(|critical| critical.0), Some(code));
        assert_eq!(details.hmc, None);
        let line = cold.line(reported.0);
        let register = format!("GLPE_CRITERR {code:#010x}");
        assert!(
            line.starts_with("critical error of the RDMA engine; "),
            "{line}"
        );
        assert!(line.contains(&register) && line.contains(words), "{line}");
        cold.end();
    }
}

#[test]
pub(crate) fn a_push_page_that_fails_and_everything_at_once() {
    let mut cold = Cold::new();
    let reported = cold.reported(&[Breakage::Push]);
    assert_eq!(reported, (Causes::PE_PUSH, RequiredReset::ResetFunction));
    let line = cold.line(reported.0);
    assert!(line.starts_with("a push page failed; "), "{line}");
    let hmc = Breakage::Hmc {
        error_type: 0,
        object_type: 31,
        data: 0,
    };
    let (causes, demand) = cold.reported(&[hmc, Breakage::Critical(0x0001_024D), Breakage::Push]);
    let all = Causes::HMC_ERR | Causes::PE_CRITERR | Causes::PE_PUSH;
    assert_eq!((causes, demand), (all, RequiredReset::ResetFunction));
    let line = cold.line(causes);
    assert!(line.contains("HMC_OBJECT_TYPE 31, HMC"), "no name: {line}");
    assert!(line.contains("GLPE_CRITERR 0x0001024d"), "{line}");
    cold.end();
}

/// Registers without an error are shown as they are, and nothing is read into them.
#[test]
fn nothing_is_made_up() {
    let cold = Cold::new();
    let details = cold.control.error_details(Causes::HMC_ERR).unwrap();
    assert_eq!(details.hmc, None);
    assert_eq!(
        details.to_string(),
        "the host memory cache failed; PFHMC_ERRORINFO 0x00000000, PFHMC_ERRORDATA 0x00000000"
    );
    cold.end();
}

/// The kinds of object are those of the commands, by number.
#[test]
fn kinds_of_object_are_numbered_as_in_commands() {
    for kind in 0..32 {
        let error = e810::HmcError::decode(1 << 31 | kind << 16, 0).unwrap();
        let object = hmc::Object::ALL.get(kind as usize);
        assert_eq!(error.object(), object.map(|object| object.name()));
    }
}
