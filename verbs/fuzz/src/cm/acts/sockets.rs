//! Functions of rsockets and shared receive queues, behind which there is nothing; and those two that
//! pass ordinary descriptors on.

use core::ffi::{c_int, c_void};
use core::mem;

use libc::{EOPNOTSUPP, fd_set, iovec, msghdr, pollfd, timeval};

use crate::cm::api::Sym;
use crate::cm::engine::{CmEngine, none};
use crate::run::{errno, rdma};

/// A function that refuses whatever it is asked.
fn refuses(engine: &mut CmEngine, symbol: Sym, answer: isize) {
    let number = errno();
    if (answer, number) != (-1, EOPNOTSUPP) {
        let name = crate::cm::api::SYMBOLS[symbol as usize];
        engine
            .run
            .fail(&format!("{name} answers {answer}, {number}"));
    }
    engine.run.judge(symbol, number, &[EOPNOTSUPP]);
}

/// Calls one of them.
fn refused(engine: &mut CmEngine) {
    let mut bytes = [0_u8; 64];
    let mut length = 64;
    let data = bytes.as_mut_ptr().cast::<c_void>();
    let address = bytes.as_mut_ptr().cast::<libc::sockaddr>();
    let place = &raw mut length;
    // SAFETY: numbers and null pointers.
    let mut message: msghdr = unsafe { mem::zeroed() };
    let vector: [iovec; 1] = [iovec {
        iov_base: data,
        iov_len: 8,
    }];
    let vector = vector.as_ptr();
    let fd = engine.run.draw.number(&[-1, 0, 3, 1000]);
    let id = engine.world.ids.pick(&mut engine.run.draw, |_| true);
    let id = id.map_or(none(), |at| engine.world.ids.get(at).ptr);
    let nth = engine.run.draw.below(28);
    let run = &mut engine.run;
    macro_rules! one_of {
        ($($nth:literal: $name:ident($($arg:expr),*);)+) => {
            match nth {
                $($nth => {
                    let answer = rdma!(run, $name($($arg),*)) as isize;
                    refuses(engine, Sym::$name, answer);
                })+
                _ => {
                    rdma!(run, destroy_srq(id));
                    run.good(Sym::destroy_srq);
                }
            }
        };
    }
    one_of! {
        0: rsocket(libc::AF_INET, libc::SOCK_STREAM, 0);
        1: rbind(fd, address, 16);
        2: rlisten(fd, 4);
        3: raccept(fd, address, place);
        4: rconnect(fd, address, 16);
        5: rshutdown(fd, 2);
        6: rclose(fd);
        7: rrecv(fd, data, 8, 0);
        8: rrecvfrom(fd, data, 8, 0, address, place);
        9: rrecvmsg(fd, &raw mut message, 0);
        10: rsend(fd, data, 8, 0);
        11: rsendto(fd, data, 8, 0, address, 16);
        12: rsendmsg(fd, &raw const message, 0);
        13: rread(fd, data, 8);
        14: rreadv(fd, vector, 1);
        15: rwrite(fd, data, 8);
        16: rwritev(fd, vector, 1);
        17: rgetpeername(fd, address, place);
        18: rgetsockname(fd, address, place);
        19: rsetsockopt(fd, 1, 1, data, 4);
        20: rgetsockopt(fd, 1, 1, data, place);
        21: rfcntl(fd, libc::F_GETFL, 0);
        22: riomap(fd, data, 8, 3, 0, -1);
        23: riounmap(fd, data, 8);
        24: riowrite(fd, data, 8, 0, 0);
        25: create_srq(id, none(), none());
        26: create_srq_ex(id, none());
    }
}

/// `poll` and `select` of ends of a pipe.
fn waits(engine: &mut CmEngine) {
    let mut ends = [0; 2];
    // SAFETY: room for two.
    let made = unsafe { libc::pipe(ends.as_mut_ptr()) };
    assert_eq!(made, 0, "a pipe");
    let is_full = engine.run.draw.once_in(2);
    if is_full {
        // SAFETY: a byte of this function.
        let written = unsafe { libc::write(ends[1], ends.as_ptr().cast(), 1) };
        assert_eq!(written, 1, "room in a pipe");
    }
    let limit = engine.run.draw.number(&[0, 0, 0, 1]);
    let wanted = c_int::from(is_full);
    if engine.run.draw.once_in(2) {
        let mut poll = [0, 1].map(|end| pollfd {
            fd: ends[end],
            events: libc::POLLIN,
            revents: 0,
        });
        let answer = rdma!(engine.run, rpoll(poll.as_mut_ptr(), 2, limit));
        let is_right = answer == wanted && (poll[0].revents == libc::POLLIN) == is_full;
        if !is_right {
            engine
                .run
                .fail(&format!("rpoll answers {answer}, {poll:?}"));
        }
        engine.run.good(Sym::rpoll);
    } else if ends[0] < libc::FD_SETSIZE as c_int {
        let mut limit = timeval {
            tv_sec: 0,
            tv_usec: limit.into(),
        };
        // SAFETY: bits, of which none is set; and one that there is.
        let mut read: fd_set = unsafe {
            let mut read = mem::zeroed();
            libc::FD_SET(ends[0], &raw mut read);
            read
        };
        let answer = rdma!(
            engine.run,
            rselect(ends[0] + 1, &raw mut read, none(), none(), &raw mut limit)
        );
        // SAFETY: as above.
        let is_there = unsafe { libc::FD_ISSET(ends[0], &raw const read) };
        if answer != wanted || is_there != is_full {
            engine.run.fail(&format!("rselect answers {answer}"));
        }
        engine.run.good(Sym::rselect);
    }
    for end in ends {
        // SAFETY: made by this function.
        unsafe { libc::close(end) };
    }
}

pub(in crate::cm) fn any(engine: &mut CmEngine) {
    match engine.run.draw.once_in(5) {
        true => waits(engine),
        false => refused(engine),
    }
}
