//! Two threads, or processes, at a time.

use std::sync::Barrier;
use std::sync::atomic::AtomicU32;
use std::time::Instant;

use super::*;

/// Two threads of a program call for the same id: the kernel changes its state once.
fn races(part: &str, act: impl Fn(*mut CmId) -> c_int + Sync, make: impl Fn() -> *mut CmId) {
    let mut both = 0;
    for _ in 0..1000 {
        let id = make().expose_provenance();
        let barrier = Barrier::new(2);
        let call = || {
            barrier.wait();
            act(ptr::with_exposed_provenance_mut(id))
        };
        let answers = thread::scope(|scope| {
            let other = scope.spawn(call);
            [call(), other.join().unwrap()]
        });
        both += usize::from(answers == [0, 0]);
    }
    assert_eq!(both, 0, "times that both have succeeded: {part}");
}

#[test]
fn an_address_is_resolved_once() {
    const PART: &str = "as_linux::races::an_address_is_resolved_once";
    if !is_program(PART) {
        return as_a_program_on(PART, ONE);
    }
    let channel = create_event_channel();
    races(
        "resolve_addr",
        |id| {
            let mut to = address(PORT);
            // SAFETY: as above.
            unsafe { resolve_addr(id, ptr::null_mut(), (&raw mut to).cast(), 1000) }
        },
        || id(channel),
    );
}

#[test]
fn a_connection_is_asked_for_once() {
    const PART: &str = "as_linux::races::a_connection_is_asked_for_once";
    if !is_program(PART) {
        return as_a_program_on(PART, ONE);
    }
    let passives = create_event_channel();
    let _listener = listens(passives, port_space::TCP);
    let number = AtomicU32::new(0x80_0000);
    races(
        "connect",
        |id| {
            let mut asks = param(b"hello");
            asks.qp_num = number.fetch_add(1, Ordering::Relaxed);
            // SAFETY: as above.
            unsafe { connect(id, &raw mut asks) }
        },
        || routed(create_event_channel(), port_space::TCP),
    );
}

#[test]
fn one_of_two_gets_a_port() {
    const PART: &str = "as_linux::races::one_of_two_gets_a_port";
    if !is_program(PART) {
        return as_a_program_on(PART, ONE);
    }
    let channel = create_event_channel().expose_provenance();
    let mut both = 0;
    for round in 0..300 {
        let barrier = Barrier::new(2);
        let bind = || {
            let id = id(ptr::with_exposed_provenance_mut(channel));
            let mut own = address(2000 + round);
            barrier.wait();
            // SAFETY: as above.
            unsafe { bind_addr(id, (&raw mut own).cast()) }
        };
        let answers = thread::scope(|scope| {
            let other = scope.spawn(bind);
            [bind(), other.join().unwrap()]
        });
        both += usize::from(answers == [0, 0]);
    }
    assert_eq!(both, 0, "times that both have got it");
}

/// Two threads accept a request: one does, and its connection goes on.
#[test]
fn a_request_is_accepted_once() {
    const PART: &str = "as_linux::races::a_request_is_accepted_once";
    if !is_program(PART) {
        return as_a_program_on(PART, ONE);
    }
    let (mut lost, mut raced) = (0, 0);
    for round in 0..300_u32 {
        let (passives, actives) = (create_event_channel(), create_event_channel());
        let listener = listens(passives, port_space::TCP);
        let active = routed(actives, port_space::TCP);
        let mut asks = param(b"hello");
        asks.qp_num = 0x80_0000 + round;
        // SAFETY: as above.
        unsafe {
            assert_eq!(connect(active, &raw mut asks), 0);
            let passive = requested(passives).expose_provenance();
            let barrier = Barrier::new(2);
            let call = || {
                let mut grants = param(b"");
                grants.qp_num = 0x90_0000 + round;
                barrier.wait();
                accept(ptr::with_exposed_provenance_mut(passive), &raw mut grants)
            };
            let answers = thread::scope(|scope| {
                let other = scope.spawn(call);
                [call(), other.join().unwrap()]
            });
            assert!(answers.contains(&0));
            raced += usize::from(answers == [0, 0]);
            let heard = happens_within(actives, 3000);
            assert_eq!(heard.map(|heard| heard.0), Some(event::CONNECT_RESPONSE));
            assert_eq!(establish(active), 0);
            // The peer is ready, and the program hears of it.
            let heard = happens_within(passives, 1000);
            lost += usize::from(heard != Some((event::ESTABLISHED, 0)));
            for id in [active, ptr::with_exposed_provenance_mut(passive), listener] {
                assert_eq!(destroy_id(id), 0);
            }
            destroy_event_channel(passives);
            destroy_event_channel(actives);
        }
    }
    assert_eq!(
        (lost, raced),
        (0, 0),
        "times that ESTABLISHED is lost; that both have succeeded"
    );
}

/// The library's own threads hold its locks now and then: a program with one thread does not know of
/// them, forks, and its child waits for ever.
#[test]
fn a_child_makes_ids_whatever_the_threads_of_the_library_do() {
    const PART: &str = "as_linux::races::a_child_makes_ids_whatever_the_threads_of_the_library_do";
    if !is_program(PART) {
        return as_a_program_on(PART, ONE);
    }
    let (passives, actives) = (create_event_channel(), create_event_channel());
    let _listener = listens(passives, port_space::TCP);
    let many = create_event_channel();
    // The more ids there are, the longer the library's threads look for one.
    for _ in 0..5_000 {
        id(many);
    }
    for round in 0..100_u32 {
        let active = routed(actives, port_space::TCP);
        let mut asks = param(b"hello");
        asks.qp_num = 0x80_0000 + round;
        // SAFETY: as above; the child calls and ends.
        unsafe {
            assert_eq!(connect(active, &raw mut asks), 0);
            let passive = requested(passives);
            // Its peer hears of the end, in a thread of the library.
            assert_eq!(destroy_id(active), 0);
            libc::usleep(round % 40 * 25);
            let child = libc::fork();
            if child == 0 {
                let channel = create_event_channel();
                let mut id = ptr::null_mut();
                let made = create_id(channel, &raw mut id, ptr::null_mut(), port_space::TCP);
                libc::_exit(if made == 0 { 0 } else { number() });
            }
            let begun = Instant::now();
            let mut status = 0;
            while libc::waitpid(child, &raw mut status, libc::WNOHANG) == 0 {
                if begun.elapsed() > Duration::from_secs(30) {
                    libc::kill(child, libc::SIGKILL);
                    libc::waitpid(child, &raw mut status, 0);
                    panic!("the child of round {round} waits for ever");
                }
                thread::sleep(Duration::from_millis(1));
            }
            assert_eq!(destroy_id(passive), 0);
        }
    }
}

unsafe extern "C-unwind" {
    fn pthread_create(
        thread: *mut libc::pthread_t,
        attributes: *const c_void,
        body: extern "C-unwind" fn(*mut c_void) -> *mut c_void,
        argument: *mut c_void,
    ) -> c_int;
}

/// Without destructors: its thread is cancelled.
extern "C-unwind" fn waits_for_a_request(listener: *mut c_void) -> *mut c_void {
    let mut id = ptr::null_mut();
    // SAFETY: the listener exists.
    unsafe { get_request(listener.cast(), &raw mut id) };
    listener
}

/// A synchronous id waits in the kernel's `write`, which is a cancellation point, as rdma_get_cm_event is here.
#[test]
fn a_thread_that_waits_for_a_request_can_be_cancelled() {
    const PART: &str = "as_linux::races::a_thread_that_waits_for_a_request_can_be_cancelled";
    if !is_program(PART) {
        return as_a_program_on(PART, ONE);
    }
    let listener = listens(ptr::null_mut(), port_space::TCP);
    let mut thread = 0;
    // SAFETY: as above; the thread is joined once.
    unsafe {
        let made = pthread_create(
            &raw mut thread,
            ptr::null(),
            waits_for_a_request,
            listener.cast(),
        );
        assert_eq!(made, 0);
        thread::sleep(Duration::from_millis(300));
        assert_eq!(libc::pthread_cancel(thread), 0);
        let begun = Instant::now();
        let mut value = ptr::null_mut();
        while libc::pthread_tryjoin_np(thread, &raw mut value) != 0 {
            assert!(
                begun.elapsed() < Duration::from_secs(5),
                "it waits for ever"
            );
            thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(value.addr(), usize::MAX, "PTHREAD_CANCELED");
    }
}
