//! The queue pair of management datagrams: number 1, once a function.

use e810::{
    Data, Error, GSI_QKEY, Object, Op, Path, QpInit, Qpn, SendFlags, SendWr, WcOpcode, WcStatus,
};
use e810_tests::traffic::verbs::datagrams::GRH;
use e810_tests::traffic::{Pair, Setup};

use crate::verbs::sim;

/// Bytes of a management datagram.
const MAD: usize = 256;

#[test]
fn datagrams_from_queue_pair_one_to_queue_pair_one() {
    let sim = sim(44);
    let mut pair = Pair::simulated(&sim, Setup::default());
    for side in &mut pair.sides {
        let caps = Setup::default().caps;
        let init = QpInit::gsi(&side.cqs[0], &side.cqs[0], caps);
        let mut gsi = side.control.create_qp(&side.pd, &init).unwrap();
        assert_eq!(gsi.number().get(), 1);
        let second = side.control.create_qp(&side.pd, &init).unwrap_err();
        let exhausted = Error::Exhausted {
            object: Object::Qp,
            limit: 1,
        };
        assert_eq!(second, exhausted);
        gsi.start_datagrams(&mut side.control, GSI_QKEY).unwrap();
        side.qps.push(gsi);
    }
    let there = &pair.sides[1];
    let path = Path::new(pair.sides[0].gid, there.ip(), there.control.lan().mac);
    let side = &mut pair.sides[0];
    let ah = side.control.create_ah(&side.pd, &path).unwrap();
    // Linux asks the device for the queue pair's own Q_Key by bit 31 (cm-path 1.1); a Q_Key of
    // somebody else's is dropped.
    let keys = [GSI_QKEY, 0x8000_0000, 0x0123_4567];
    for (n, qkey) in keys.into_iter().enumerate() {
        let bytes: Vec<u8> = (0..MAD).map(|byte| byte as u8 ^ n as u8).collect();
        let server = pair.side(1);
        let incoming = server.incoming();
        let sges = [server.sge(incoming, GRH + MAD)];
        server.post_recv(1, 7, &sges).unwrap();
        let side = pair.side(0);
        side.buffer.write(0, &bytes);
        let sges = [side.sge(0, MAD)];
        let request = SendWr {
            wr_id: 9,
            op: Op::UdSend {
                data: Data::Sges(&sges),
                imm: None,
                to: ah.target(Qpn::new(1).unwrap(), qkey),
            },
            flags: SendFlags::SIGNALED,
        };
        side.post_send(1, &[request]).unwrap();
        assert_eq!(pair.completions(0, 1)[0].status, WcStatus::Success);
        if qkey == keys[2] {
            pair.during(e810_hal::Ns::from_ms(1));
            assert_eq!(pair.side(1).take(), []);
            continue;
        }
        let received = pair.completions(1, 1)[0];
        assert_eq!(
            (received.wr_id, received.opcode, received.src_qp),
            (7, WcOpcode::Recv, 1)
        );
        assert_eq!(received.byte_len as usize, GRH + MAD);
        assert_eq!(pair.side(1).buffer.read(incoming + GRH, MAD), bytes);
    }
    // Once its completion queue has forgotten it, there may be another.
    let side = pair.side(0);
    side.control.destroy_ah(ah).unwrap();
    let gsi = side.qps.pop().unwrap();
    let destroyed = side.control.destroy_qp(gsi);
    destroyed.map_err(|(_, error)| error).unwrap();
    side.cqs[0].forget_gone();
    let init = QpInit::gsi(&side.cqs[0], &side.cqs[0], Setup::default().caps);
    let gsi = side.control.create_qp(&side.pd, &init).unwrap();
    assert_eq!(gsi.number().get(), 1);
    side.qps.push(gsi);
    pair.finish(&sim);
}
