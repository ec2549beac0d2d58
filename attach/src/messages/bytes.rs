//! Commands, answers and events as bytes, as they would pass between two processes.
//!
//! A message is its [`VERSION`], a byte, then the fields of its type in their order, in the format of
//! [`postcard`](https://postcard.jamesmunns.com/wire-format): little-endian, with numbers of 16 bits
//! and more in groups of seven bits, the lowest first. Each message has exactly one encoding: a
//! decoder refuses all other bytes.
//!
//! The version is the first byte in all versions. Whoever gets a message of another version can
//! therefore say which, and the owner answers a first message that it does not understand with one
//! of its own version.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Changes with each change of a message.
pub const VERSION: u8 = 5;

/// Bytes of the longest message; an error's text is cut to fit.
pub const MOST: usize = 4096;

/// Bytes that are no message.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Malformed {
    #[error("version {0} of the messages, not {VERSION}: use one version of the library")]
    Version(u8),
    #[error("{0} bytes that are not a message")]
    Other(usize),
}

/// The bytes of a message.
#[must_use]
pub fn encode(message: &impl Serialize) -> Vec<u8> {
    let mut bytes = vec![VERSION];
    // No type of a message has anything that the format cannot express.
    bytes.extend(postcard::to_allocvec(message).unwrap_or_default());
    bytes
}

/// Decodes the message in `bytes`.
///
/// # Errors
/// The bytes are not a message.
pub fn decode<T: Serialize + DeserializeOwned>(bytes: &[u8]) -> Result<T, Malformed> {
    let other = Malformed::Other(bytes.len());
    let (version, fields) = bytes.split_first().ok_or(other)?;
    if *version != VERSION {
        return Err(Malformed::Version(*version));
    }
    if bytes.len() > MOST {
        return Err(other);
    }
    let message: T = postcard::from_bytes(fields).map_err(|_| other)?;
    // The format also has longer forms of numbers, and ignores bytes after a message.
    if encode(&message) != bytes {
        return Err(other);
    }
    Ok(message)
}

#[cfg(test)]
mod tests {
    use e810::{AccessFlags, Iova, MacAddr, Path, QpAttr, QpCaps, QpPlace, QpState, QpType};

    use super::*;
    use crate::messages::{
        Answer, Asked, Command, CreateQp, Hello, Memory, ModifyQp, QueryDevice, Refused, RegMr,
        Token, Told,
    };

    fn commands() -> Vec<Command> {
        let memory = Memory {
            address: 0x7F00_1234_5000,
            length: 1 << 30,
        };
        let path = Path::new(2, [10, 8, 1, 2].into(), MacAddr([2, 0, 0, 0, 0, 7]));
        let attr = QpAttr {
            state: Some(QpState::Rtr),
            access: Some(AccessFlags::all()),
            path: Some(path),
            ..QpAttr::default()
        };
        let caps = QpCaps {
            max_send_wr: 512,
            max_recv_wr: 1,
            max_send_sge: 13,
            max_recv_sge: 3,
            max_inline: 101,
        };
        vec![
            Command::QueryDevice(QueryDevice {}),
            Command::RegMr(RegMr {
                pd: 7,
                memory,
                iova: u64::MAX,
                access: AccessFlags::LOCAL_WRITE,
            }),
            Command::ModifyQp(ModifyQp {
                number: 300,
                attr: Box::new(attr),
            }),
            Command::CreateQp(CreateQp {
                pd: 1,
                qp_type: QpType::Ud,
                send_cq: 2,
                recv_cq: 3,
                caps,
                signal_all: true,
                token: Token(9),
                place: QpPlace {
                    sq: Iova(0x10_0000),
                    rq: Iova(0x20_0000),
                },
            }),
        ]
    }

    /// Checks that whatever is decoded encodes to exactly these bytes.
    fn has_one_form<T: Serialize + DeserializeOwned>(bytes: &[u8]) {
        if let Ok(message) = decode::<T>(bytes) {
            assert_eq!(encode(&message), bytes);
        }
    }

    #[test]
    fn commands_are_their_bytes_and_others_are_refused() {
        for command in commands() {
            let bytes = encode(&command);
            assert_eq!(decode(&bytes), Ok(command));
            for end in 0..bytes.len() {
                let cut: Result<Command, _> = decode(&bytes[..end]);
                assert!(cut.is_err(), "{end} of {bytes:02x?}");
            }
            for longer in [0, 1, 0x80] {
                let mut bytes = bytes.clone();
                bytes.push(longer);
                assert!(decode::<Command>(&bytes).is_err());
            }
            for bit in 8..8 * bytes.len() {
                let mut bytes = bytes.clone();
                bytes[bit / 8] ^= 1 << (bit % 8);
                has_one_form::<Command>(&bytes);
                has_one_form::<Result<Answer, Refused>>(&bytes);
            }
            let mut other = bytes;
            other[0] += 1;
            let version = other[0];
            assert_eq!(decode::<Command>(&other), Err(Malformed::Version(version)));
        }
        let too_long = encode(&"x".repeat(MOST));
        assert!(decode::<String>(&too_long).is_err());
    }

    /// How many changed messages the next test decodes, if not this many.
    const MUTATIONS: (&str, u64) = ("E810_MUTATIONS", 20_000);

    /// As the fuzz target `attach_messages`, from a fixed seed.
    #[test]
    fn changed_messages_are_refused_or_have_one_form() {
        let number = std::env::var(MUTATIONS.0).ok();
        let number = number.map_or(MUTATIONS.1, |number| number.parse().unwrap());
        let asked = commands()
            .into_iter()
            .map(|command| encode(&Asked { number: 7, command }));
        let refused = Refused::from(e810::Error::Invalid { what: "a thing" });
        let others = [
            encode(&Hello::Attach),
            encode(&Hello::Programs { after: 300 }),
            encode(&Told::Refused(refused.clone())),
            encode(&Told::Answer(9, Err(refused))),
            encode(&Told::Answer(9, Ok(Answer::AllocPd(7)))),
            encode(&Told::Programs(Box::default())),
        ];
        let messages: Vec<_> = asked.chain(others).collect();
        let mut state = 0x9E37_79B9_7F4A_7C15_u64;
        let mut random = move |below: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state % below.max(1) as u64) as usize
        };
        let mut good = 0_u64;
        for _ in 0..number {
            let mut bytes = messages[random(messages.len())].clone();
            for _ in 0..=random(3) {
                let at = 1 + random(bytes.len() - 1);
                let last = bytes.len() - 1;
                match random(6) {
                    0 => bytes[at.min(last)] ^= 1 << random(8),
                    1 => bytes[at.min(last)] = random(256) as u8,
                    2 => bytes.truncate(at.max(2)),
                    3 => bytes.insert(at, random(256) as u8),
                    4 => bytes.extend(vec![0x80; random(12)]),
                    // Part of another one.
                    _ => bytes.extend_from_slice(&messages[random(messages.len())][1..]),
                }
            }
            has_one_form::<Asked>(&bytes);
            has_one_form::<Told>(&bytes);
            has_one_form::<Hello>(&bytes);
            good += u64::from(decode::<Asked>(&bytes).is_ok());
        }
        assert!(good > number / 1000, "{good} of {number} are messages");
    }

    #[test]
    fn refusals_pass_as_they_are() {
        for refused in [
            Refused::from(e810::Error::Invalid { what: "a thing" }),
            Refused::gone("ö".repeat(MOST)),
        ] {
            let bytes = encode(&Err::<Answer, _>(refused.clone()));
            let back: Result<Answer, Refused> = decode(&bytes).unwrap();
            assert_eq!(back.unwrap_err(), refused);
        }
    }
}
