//! Options that do not fit together: a usage error, before a function is brought up.

use std::fs;
use std::os::unix::fs::symlink;

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

/// By whatever name: nothing begins, and what is there stays.
#[test]
fn two_options_that_name_one_file_are_a_usage_error() {
    let folder = super::temporary_folder();
    let at = |name: &str| folder.as_path().join(name);
    fs::write(at("file"), "precious").unwrap();
    symlink("file", at("link")).unwrap();
    fs::hard_link(at("file"), at("hard")).unwrap();
    symlink("new", at("dangling")).unwrap();
    fs::create_dir(at("folder")).unwrap();
    let count = || fs::read_dir(folder.as_path()).unwrap().count();
    let before = count();
    let pairs = [
        ["file", "file"],
        ["file", "link"],
        ["hard", "file"],
        ["link", "folder/../hard"],
        ["new", "new"],
        ["new", "./new"],
        ["folder/../new", "dangling"],
        ["dangling", "new"],
    ];
    let commands = [
        ("pingpong --iters 1", ["--pcap", "--trace"]),
        ("pingpong --iters 1", ["--monitor", "--pcap"]),
        ("perf --iters 1", ["--plot", "--trace"]),
        ("perf --iters 1 --monitor m", ["--plot", "--pcap"]),
        ("ping --count 1", ["--trace", "--pcap"]),
        ("tap lab0 --device sim:wire=lab", ["--trace", "--pcap"]),
        ("monitor --once", ["--pcap", "--trace"]),
        ("up", ["--trace", "--pcap"]),
        ("report --level 1", ["--out", "--trace"]),
        ("sim --socket s", ["--report", "--package"]),
        ("sim --socket s", ["--pcap", "--report"]),
        ("sim", ["--socket", "--pcap"]),
        ("sim", ["--socket", "--socket"]),
        // What is read would be gone before.
        ("sim --socket s", ["--card", "--pcap"]),
        ("stat", ["--ddp", "--trace"]),
        ("report --level 1", ["--compare", "--trace"]),
    ];
    for (words, [one, other]) in commands {
        for names in pairs {
            let [first, second] = names.map(|name| at(name).display().to_string());
            let words = format!("{words} {one} {first} {other} {second}");
            let error = super::run(&words).unwrap_err();
            let text = format!("{error:#}");
            assert!(error.is::<Usage>(), "{words}: {text}");
            assert!(text.contains(one) && text.contains(other), "{text}");
            let is_said = text.contains("one file") || text.contains("it is given twice");
            assert!(is_said && text.contains(&first), "{text}");
        }
    }
    assert_eq!(fs::read(at("file")).unwrap(), b"precious");
    assert_eq!(count(), before);
    // Nothing is kept there that could be overwritten.
    super::good("up --trace /dev/null --pcap /dev/null");
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
            let is_said = text.contains("not a regular file") || text.contains("Is a directory");
            assert!(is_said && text.contains(file), "{words}: {text}");
        }
    }
}

#[test]
fn a_file_that_cannot_be_written_is_named_with_what_to_do() {
    let folder = super::temporary_folder();
    let at = |name: &str| folder.as_path().join(name).display().to_string();
    fs::write(at("file"), "").unwrap();
    fs::create_dir(at("folder.svg")).unwrap();
    let socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
    for (words, option) in [
        ("up", "--pcap"),
        ("up", "--trace"),
        ("stat", "--trace"),
        ("perf --iters 1", "--plot"),
        ("pingpong --iters 1", "--pcap"),
        ("pingpong --iters 1", "--monitor"),
        ("report --level 1", "--out"),
        ("sim --socket SOCKET", "--report"),
        ("sim --socket SOCKET", "--package"),
        ("sim --socket SOCKET", "--pcap"),
        ("sim", "--socket"),
    ] {
        let words = words.replace("SOCKET", &at("s"));
        for (path, what_to_do) in [
            (at("folder.svg"), &["name"][..]),
            (at("missing/x"), &["make its folder", "name another"]),
            (at("file/x"), &["name another"]),
            (at("socket"), &["name another", "name one", "name a"]),
            ("/dev/full".to_owned(), &["name"]),
        ] {
            let error = super::run(&format!("{words} {option} {path}")).unwrap_err();
            let text = format!("{error:#}");
            let begins = match option {
                "--socket" => format!("serving function 0 on {path}: "),
                _ => format!("{option} {path}: "),
            };
            assert!(text.starts_with(&begins), "{text}");
            let has_one = what_to_do.iter().any(|what| text.contains(what));
            assert!(has_one, "{text}");
        }
    }
    drop(socket);
    let error = super::run("pingpong --iters 2000 --pcap /dev/full").unwrap_err();
    let text = format!("{error:#}");
    assert!(text.contains("make room there"), "{text}");
}
