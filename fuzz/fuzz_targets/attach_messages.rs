//! Messages between the owner of a function and a program: bytes are refused, or are the one form
//! of a message.

#![no_main]

use e810_attach::messages::{Asked, Hello, Told, decode, encode};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(asked) = decode::<Asked>(bytes) {
        assert_eq!(encode(&asked), bytes);
        let _ = asked.command.makes_something();
    }
    if let Ok(hello) = decode::<Hello>(bytes) {
        assert_eq!(encode(&hello), bytes);
    }
    if let Ok(told) = decode::<Told>(bytes) {
        assert_eq!(encode(&told), bytes);
        let _ = format!("{told:?}");
    }
});
