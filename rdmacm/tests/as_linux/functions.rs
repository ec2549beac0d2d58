//! Programs with several functions, and servers that end.

use std::time::Instant;

use super::*;

const APART: &str = "sim:wire=rdmacm-apart,mac=02:00:00:00:01:00@10.8.1.1/24 sim:wire=rdmacm-apart,mac=02:00:00:00:01:01@10.9.1.1/24";

/// Who has the address of this, in a process of its own.
const PEER: &str = "as_linux::functions::peer";

#[test]
fn peer() {
    if is_program(PEER) {
        // Its function is there, and answers, until the test ends it.
        let _id = id(create_event_channel());
        thread::sleep(Duration::from_secs(30));
    }
}

/// The way to a peer is looked for with the function in whose network it is.
#[test]
fn a_peer_is_reached_by_the_function_of_its_network() {
    const PART: &str = "as_linux::functions::a_peer_is_reached_by_the_function_of_its_network";
    if !is_program(PART) {
        return as_a_program_on(PART, APART);
    }
    let mut peer = Command::new(env::current_exe().unwrap())
        .args(["--exact", PEER, "--nocapture"])
        .env("E810_PART", PEER)
        .env(
            "E810_VERBS",
            "sim:wire=rdmacm-apart,mac=02:00:00:00:01:02@10.9.1.2/24",
        )
        .spawn()
        .unwrap();
    let channel = create_event_channel();
    let mut heard = Vec::new();
    // From the function of its network, and from whichever the library chooses.
    for from in [Some([10, 9, 1, 1]), None] {
        let id = id(channel);
        let mut to = of_bytes([10, 9, 1, 2], PORT);
        let mut own = of_bytes(from.unwrap_or_default(), 0);
        let own = match from {
            Some(_) => (&raw mut own).cast(),
            None => ptr::null_mut(),
        };
        // SAFETY: as above.
        unsafe {
            assert_eq!(resolve_addr(id, own, (&raw mut to).cast(), 5000), 0);
            heard.push(happens_within(channel, 10_000));
            let seen = (*id).route.addr.src.as_ptr().cast::<libc::sockaddr_in>();
            eprintln!(
                "{from:?}: {:?} from {:?}",
                heard.last(),
                (*seen).sin_addr.s_addr.to_ne_bytes()
            );
        }
    }
    peer.kill().unwrap();
    peer.wait().unwrap();
    assert_eq!(heard[0], Some((event::ADDR_RESOLVED, 0)));
    assert_eq!(heard[1], heard[0], "without an own address");
}

/// rdma_destroy_id cancels the question for the peer's address (cma_cancel_operation). On a shared function a
/// program has a share of the questions: those of ids that are gone must not count for long.
#[test]
fn peers_of_ids_that_are_gone_are_not_asked_for() {
    const PART: &str = "as_linux::functions::peers_of_ids_that_are_gone_are_not_asked_for";
    if !is_program(PART) {
        // Built by `--workspace`: target/debug/e810, beside the folder of this test.
        let server = env::current_exe().unwrap();
        let server = server.parent().unwrap().with_file_name("e810");
        let folder = env::temp_dir().join(format!("e810-rdmacm-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let at = folder.join("at");
        let mut serve = Command::new(server)
            .args(["serve", "--device", "sim@10.8.1.1/24", "--at"])
            .arg(&at)
            .env("E810_LOCKS", &folder)
            .spawn()
            .unwrap();
        let ran = std::panic::catch_unwind(|| {
            as_a_program_on(PART, &format!("at:{}@wait=20", at.display()));
        });
        serve.kill().unwrap();
        serve.wait().unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        ran.unwrap();
        return;
    }
    let channel = create_event_channel();
    // SAFETY: as above.
    unsafe {
        for _ in 0..600 {
            let id = id(channel);
            let mut to = of_bytes([10, 8, 1, 77], PORT);
            assert_eq!(
                resolve_addr(id, ptr::null_mut(), (&raw mut to).cast(), 60_000),
                0
            );
            assert_eq!(destroy_id(id), 0);
        }
        let begun = Instant::now();
        let id = id(channel);
        let mut to = address(PORT);
        assert_eq!(
            resolve_addr(id, ptr::null_mut(), (&raw mut to).cast(), 2000),
            0
        );
        let heard = happens_within(channel, 5000);
        eprintln!("{heard:?} after {:?}", begun.elapsed());
        assert_eq!(
            heard,
            Some((event::ADDR_RESOLVED, 0)),
            "of the function's own address"
        );
    }
}

/// A program has two functions, and the server of one ends: ids on the other one are made as before. `wait=` is for
/// a server that is not there yet.
#[test]
fn a_server_that_has_ended_does_not_hold_up_another_function() {
    const PART: &str =
        "as_linux::functions::a_server_that_has_ended_does_not_hold_up_another_function";
    if !is_program(PART) {
        let server = env::current_exe().unwrap();
        let server = server.parent().unwrap().with_file_name("e810");
        let folder = env::temp_dir().join(format!("e810-rdmacm-w-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let at = folder.join("at");
        let mut serve = Command::new(server)
            .args(["serve", "--device", "sim@10.8.1.1/24", "--at"])
            .arg(&at)
            .env("E810_LOCKS", &folder)
            .spawn()
            .unwrap();
        // The program ends the server.
        let functions = format!("at:{}@wait=20 sim@10.8.2.1/24", at.display());
        // SAFETY: the other threads of this process read no variables meanwhile.
        unsafe { env::set_var("E810_SERVER", serve.id().to_string()) };
        let ran = std::panic::catch_unwind(|| as_a_program_on(PART, &functions));
        let _ = serve.kill();
        serve.wait().unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        ran.unwrap();
        return;
    }
    let channel = create_event_channel();
    let served = id(channel);
    let server = env::var("E810_SERVER").unwrap();
    let mut own = address(0);
    // SAFETY: as above.
    unsafe {
        assert_eq!(bind_addr(served, (&raw mut own).cast()), 0);
        assert!(
            Command::new("kill")
                .args(["-KILL", &server])
                .status()
                .unwrap()
                .success()
        );
        takes(channel, event::DEVICE_REMOVAL);
        let begun = Instant::now();
        let other = id(channel);
        let made = begun.elapsed();
        let mut own = of_bytes([10, 8, 2, 1], 0);
        assert_eq!(bind_addr(other, (&raw mut own).cast()), 0);
        let bound = begun.elapsed();
        assert!(
            bound < Duration::from_secs(5),
            "made after {made:?}, bound after {bound:?}"
        );
    }
}

/// cma_add_one: who listens at any address goes on when there is a device again.
#[test]
fn a_listener_of_any_address_outlives_a_server() {
    const PART: &str = "as_linux::functions::a_listener_of_any_address_outlives_a_server";
    let folder = env::temp_dir().join(format!("e810-rdmacm-l-{}", std::process::id()));
    if !is_program(PART) {
        std::fs::create_dir_all(&folder).unwrap();
        let at = folder.join("at");
        // The program starts the server.
        as_a_program_on(PART, &format!("at:{}@wait=20", at.display()));
        return std::fs::remove_dir_all(&folder).unwrap();
    }
    let functions = env::var("E810_VERBS").unwrap();
    let at = functions
        .trim_start_matches("at:")
        .trim_end_matches("@wait=20");
    let server = env::current_exe().unwrap();
    let server = server.parent().unwrap().with_file_name("e810");
    let serve = || {
        Command::new(&server)
            .args(["serve", "--device", "sim@10.8.1.1/24", "--at", at])
            .env("E810_LOCKS", format!("{at}-locks"))
            .spawn()
            .unwrap()
    };
    let mut first = serve();
    let (passives, actives) = (create_event_channel(), create_event_channel());
    let listener = id(passives);
    let mut any = of_bytes([0; 4], PORT);
    // SAFETY: as above.
    unsafe {
        assert_eq!(bind_addr(listener, (&raw mut any).cast()), 0);
        assert_eq!(listen(listener, 1), 0);
    }
    first.kill().unwrap();
    first.wait().unwrap();
    let mut second = serve();
    // Nothing is told of it, so it is asked until it listens.
    let asked = (0..1000).any(|_| {
        let mut active = ptr::null_mut();
        // SAFETY: as above.
        unsafe {
            let mut to = address(PORT);
            if create_id(actives, &raw mut active, ptr::null_mut(), port_space::TCP) != 0
                || resolve_addr(active, ptr::null_mut(), (&raw mut to).cast(), 1000) != 0
            {
                thread::sleep(Duration::from_millis(20));
                return false;
            }
            takes(actives, event::ADDR_RESOLVED);
            assert_eq!(resolve_route(active, 1000), 0);
            takes(actives, event::ROUTE_RESOLVED);
            let mut asks = param(b"hello");
            asks.qp_num = 0x80_0000;
            assert_eq!(connect(active, &raw mut asks), 0);
        }
        happens_within(actives, 20).is_none()
    });
    let requested = happens_within(passives, 10_000);
    second.kill().unwrap();
    second.wait().unwrap();
    assert!(asked);
    assert_eq!(requested, Some((event::CONNECT_REQUEST, 0)));
}
