//! What programs ask of the connection manager, and are told.

use e810_connect::Call;
use serde::{Deserialize, Serialize};

/// A [`Call`] in the encoding of messages, because it borrows the program's private data.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CallBytes(Vec<u8>);

impl CallBytes {
    /// The bytes of a call.
    #[must_use]
    pub fn of(call: &Call<'_>) -> Self {
        // No part of a call is anything that the format cannot express.
        Self(postcard::to_allocvec(call).unwrap_or_default())
    }

    /// The call; `None` if the bytes are none, or not those that [`Self::of`] makes of it.
    #[must_use]
    pub fn call(&self) -> Option<Call<'_>> {
        let call: Call<'_> = postcard::from_bytes(&self.0).ok()?;
        (Self::of(&call) == *self).then_some(call)
    }
}

#[cfg(test)]
mod tests {
    use e810_cm::Reason;
    use e810_cm::machine::ConnectionId;

    use super::*;

    #[test]
    fn a_call_has_one_encoding() {
        let id: ConnectionId = postcard::from_bytes(&[0; 8]).unwrap();
        for call in [
            Call::Reject(id, Reason::CONSUMER_DEFINED, &[1, 2, 3]),
            Call::Answer(id, Ok((17, 0x1EE7)), b"here"),
            Call::Release(id),
        ] {
            let CallBytes(bytes) = CallBytes::of(&call);
            assert_eq!(CallBytes(bytes.clone()).call(), Some(call));
            let more = [&bytes[..], &[0]].concat();
            assert_eq!(CallBytes(more).call(), None);
            for end in 0..bytes.len() {
                let bytes = CallBytes(bytes[..end].to_vec());
                assert_ne!(bytes.call(), Some(call));
            }
        }
    }
}
