//! Memory that was lent to a device, whose handles are gone, and memory that never
//! was: with windows from safe code the second is nobody's to write.

#![forbid(unsafe_code)]

use e810::{
    AccessFlags, Config, Data, GidEntry, Lan, MacAddr, Mtu, Op, Path, QpAttr, Remote, SendFlags,
    SendWr, bring_up, v4,
};
use e810_hal::Ns;
use e810_hal::bus::VsiId;
use e810_sim::{Mode, Sim};
use e810_tests::scenario::objects::Objects;
use e810_tests::scenario::payload::Payload;

const PAGES: usize = 16;
const BYTES: usize = PAGES << 12;
const PATTERN: u64 = 0x5555_5555_5555_5555;

#[test]
fn memory_that_was_never_lent_is_not_written() {
    let sim = Sim::builder()
        .functions(2)
        .mode(Mode::Virtual)
        .vectors(8)
        .build();
    let mut parties = Vec::new();
    for f in 0..2u8 {
        let nic = sim.function(f);
        let lan = Lan {
            vsi: VsiId::new(8 + u16::from(f)).unwrap(),
            mac: MacAddr(nic.mac()),
            mtu: 9000,
        };
        let device = bring_up(nic, &Config::new(lan), &mut |_| {}).ok().unwrap();
        let (mut control, events) = device.split();
        // What owns the memory ends here.
        let window = Payload::pages(PAGES).bytes();
        let mut objects = Objects::default();
        objects.make(&mut control, window, 0).ok().unwrap();
        let access = AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_WRITE;
        let mr = control
            .reg_mr(objects.pd.as_ref().unwrap(), window, access)
            .ok()
            .unwrap();
        let key = Remote {
            addr: window.address(),
            rkey: mr.rkey(),
        };
        // Dropping a handle is safe: the region stays with the device.
        drop(mr);
        drop(objects.mr.take());
        let gid = control
            .add_gid(GidEntry::untagged(v4(10, 8, 10, 1 + f)))
            .unwrap();
        parties.push((control, events, objects, gid, (key, window)));
    }
    let macs = [0, 1].map(|i: usize| parties[i].0.lan().mac);
    let numbers = [0, 1].map(|i: usize| parties[i].2.qp.as_ref().unwrap().number());
    for i in 0..2usize {
        let (control, _, objects, gid, _) = &mut parties[i];
        let path = Path::new(*gid, v4(10, 8, 10, 2 - i as u8), macs[1 - i]);
        for attr in [
            QpAttr::to_init(AccessFlags::REMOTE_WRITE),
            QpAttr::to_rtr(path, Mtu::Mtu1024, numbers[1 - i], 5),
            QpAttr::to_rts(5),
        ] {
            control
                .modify_qp(objects.qp.as_mut().unwrap(), &attr)
                .unwrap();
        }
    }
    let (remote, lent) = parties[1].4;
    // As large: most allocators would give the place of memory that was freed.
    let innocent = vec![PATTERN; BYTES / 8];
    let op = Op::Write {
        data: Data::Inline(&[b"written by a peer"]),
        imm: None,
        remote,
    };
    let wr = SendWr {
        wr_id: 1,
        op,
        flags: SendFlags::SIGNALED,
    };
    parties[0].2.qp.as_mut().unwrap().post_send(&[wr]).unwrap();
    sim.run(Ns(5_000_000));
    let changed = std::hint::black_box(&innocent)
        .iter()
        .filter(|word| **word != PATTERN)
        .count();
    std::mem::forget(parties);
    assert_eq!(changed, 0, "words of a vector that nobody lent");
    let mut arrived = [0; 17];
    lent.read(0, &mut arrived).unwrap();
    assert_eq!(&arrived, b"written by a peer", "what was lent still is");
    assert_eq!(sim.findings(), []);
}
