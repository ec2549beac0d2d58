//! Options that do not fit together: a usage error, before a function is brought up.

use e810_host::usage::Usage;

#[test]
fn what_cannot_be_is_a_usage_error() {
    for (words, part) in [
        (
            "pingpong --transport ud --size 8K",
            "at most the path MTU, 4096",
        ),
        (
            "pingpong --transport ud --size 600 --path-mtu 512",
            "512 bytes",
        ),
        (
            "pingpong --transport ud --size 1025 --mtu 1500",
            "1024 bytes",
        ),
        ("pingpong --path-mtu 4096 --mtu 1500", "give a larger --mtu"),
        ("pingpong --mtu 100", "below 256"),
        ("perf --mtu 68", "below 256"),
        (
            "pingpong --ip 192.0.2.1 --peer-ip 192.0.2.1",
            "both functions are 192.0.2.1",
        ),
        ("pingpong --ip 10.8.10.2", "both functions are 10.8.10.2"),
        ("pingpong --ip 2001:db8::1", "not of one family"),
        ("pingpong --gid-index 3", "--gid-index 3"),
        ("pingpong --gid-index 0 --vlan 9", "on no VLAN"),
        ("pingpong --peer sim:wire=x", "leave out --peer"),
        ("pingpong --mac 02:00:00:00:00:01", "sim:mac=MAC"),
        ("pingpong --warm --mac 02:00:00:00:00:01", "sim:mac=MAC"),
        ("stat --vsi 7", "--vsi: not with --device sim"),
        (
            "pingpong --leave-link",
            "--leave-link: not with --device sim",
        ),
        ("perf --op read --inline 64", "a READ sends no data"),
        ("perf --report-gbits", "--test bw"),
        (
            "perf --test bw --qps 256 --depth 4096",
            "2097153 completions",
        ),
        (
            "monitor --once --qps 256 --depth 4096",
            "2097153 completions",
        ),
        (
            "sim --socket a --socket b --socket c --socket d --socket e --socket f --socket g --socket h --socket i",
            "a card has 8 functions",
        ),
        (
            "sim --socket a --socket b --socket a",
            "--socket a: it is given twice",
        ),
    ] {
        let error = super::run(words).unwrap_err();
        assert!(error.is::<Usage>(), "{words}: {error:#}");
        assert!(format!("{error:#}").contains(part), "{words}: {error:#}");
    }
}

#[test]
fn a_simulated_function_has_the_address_of_its_name() {
    let text = super::good("stat --device sim:mac=02:00:00:00:00:01");
    assert!(text.contains("02:00:00:00:00:01"), "{text}");
}

/// A FIFO that nobody writes would be waited for, and what has no end read without one.
#[test]
fn files_that_are_read_are_plain_ones() {
    let folder = super::temporary_folder();
    let fifo = folder.as_path().join("fifo");
    let made = std::process::Command::new("mkfifo").arg(&fifo).status();
    assert!(made.unwrap().success());
    let socket = folder.as_path().join("socket");
    for words in [
        "report --level 1 --out FILE".to_owned(),
        "report --level 1 --out FILE --skip-after-crash".to_owned(),
        "report --level 1 --compare FILE".to_owned(),
        "trace show FILE".to_owned(),
        "trace diff FILE FILE".to_owned(),
        "up --ddp FILE".to_owned(),
        format!("sim --card FILE --socket {}", socket.display()),
    ] {
        for file in [fifo.to_str().unwrap(), "/dev/zero", "/dev/full", "/"] {
            let error = super::run(&words.replace("FILE", file)).unwrap_err();
            let text = format!("{error:#}");
            let is_said = text.contains("no plain file") || text.contains("Is a directory");
            assert!(is_said && text.contains(file), "{words}: {text}");
        }
    }
}
