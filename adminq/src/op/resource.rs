//! 0x0008 Request Resource and 0x0009 Release Resource (control-path 9.4).

use super::Command;
use crate::answer::Answer;
use crate::bytes::{le16, le32, put16, put32};
use crate::error::Result;
use crate::opcode::Opcode;

/// A resource that functions of a card share.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Resource {
    id: u16,
    name: &'static str,
}

impl Resource {
    /// The change lock.
    pub const CHANGE: Self = Self {
        id: 3,
        name: "the change lock",
    };
    /// The global configuration lock: package and VLAN mode.
    pub const GLOBAL_CONFIG: Self = Self {
        id: 4,
        name: "the global configuration lock",
    };

    /// Its name in messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.name
    }
}

/// Request Resource.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RequestResource {
    /// Which resource.
    pub resource: Resource,
    /// Access: 1 read, 2 write.
    access: u16,
    /// Time for which it is requested, in ms.
    pub timeout_ms: u32,
}

impl RequestResource {
    /// For writing, for `timeout_ms`.
    #[must_use]
    pub const fn write(resource: Resource, timeout_ms: u32) -> Self {
        Self {
            resource,
            access: 2,
            timeout_ms,
        }
    }
}

/// The outcome of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Grant {
    /// It is ours for this long, in ms.
    Granted {
        /// Time until it must be given back.
        ms: u32,
    },
    /// Another function has it, for at most this long, in ms.
    Busy {
        /// Time the owner has left.
        ms: u32,
    },
    /// Another function had it and did the work.
    Done,
    /// Another outcome: the status field.
    Refused(u16),
}

impl RequestResource {
    /// The outcome that the reply reports, whether it is a refusal or not.
    ///
    /// For the global configuration lock the status field of the reply decides,
    /// not the error code; for the others the code does (control-path 9.4,
    /// `ice/ice_common.c ice_aq_req_res`).
    #[must_use]
    pub fn grant(&self, answer: &Answer<'_>) -> Grant {
        use crate::code::Code;
        let ms = le32(answer.params(), 4);
        let code = answer.descriptor().code();
        if self.resource.id == Resource::GLOBAL_CONFIG.id {
            return match le16(answer.params(), 12) {
                // A refusal without a status is not a grant.
                0 if answer.descriptor().failed() => Grant::Refused(code.0.into()),
                0 => Grant::Granted { ms },
                1 => Grant::Busy { ms },
                2 => Grant::Done,
                other => Grant::Refused(other),
            };
        }
        match code {
            Code::OK if !answer.descriptor().failed() => Grant::Granted { ms },
            Code::EBUSY => Grant::Busy { ms },
            other => Grant::Refused(other.0.into()),
        }
    }
}

impl Command for RequestResource {
    type Reply = Grant;

    fn opcode(&self) -> Opcode {
        Opcode::REQUEST_RESOURCE
    }

    fn params(&self) -> [u8; 16] {
        let mut params = [0; 16];
        put16(&mut params, 0, self.resource.id);
        put16(&mut params, 2, self.access);
        put32(&mut params, 4, self.timeout_ms);
        params
    }

    fn decode(&self, answer: &Answer<'_>) -> Result<Grant> {
        Ok(self.grant(answer))
    }
}

/// Release Resource.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReleaseResource {
    /// Which resource.
    pub resource: Resource,
}

impl Command for ReleaseResource {
    type Reply = ();

    fn opcode(&self) -> Opcode {
        Opcode::RELEASE_RESOURCE
    }

    fn params(&self) -> [u8; 16] {
        let mut params = [0; 16];
        put16(&mut params, 0, self.resource.id);
        params
    }

    fn decode(&self, _: &Answer<'_>) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::descriptor::Descriptor;

    fn grant(resource: Resource, retval: u16, ms: u8, status: u8) -> Grant {
        let mut descriptor = Descriptor::command(Opcode::REQUEST_RESOURCE, [0; 16]);
        descriptor.retval = retval;
        descriptor.params[4] = ms;
        descriptor.params[12] = status;
        RequestResource::write(resource, 100).grant(&Answer::new(descriptor, &[], 0))
    }

    #[test]
    fn the_status_decides_about_the_global_lock() {
        let global = Resource::GLOBAL_CONFIG;
        assert_eq!(grant(global, 0, 9, 0), Grant::Granted { ms: 9 });
        assert_eq!(grant(global, 12, 9, 1), Grant::Busy { ms: 9 });
        assert_eq!(grant(global, 0, 9, 1), Grant::Busy { ms: 9 });
        assert_eq!(grant(global, 13, 0, 2), Grant::Done);
        assert_eq!(grant(global, 0, 0, 7), Grant::Refused(7));
        assert_eq!(grant(global, 1, 0, 0), Grant::Refused(1));
    }

    #[test]
    fn the_code_decides_about_the_others() {
        assert_eq!(grant(Resource::CHANGE, 0, 5, 2), Grant::Granted { ms: 5 });
        assert_eq!(grant(Resource::CHANGE, 12, 5, 0), Grant::Busy { ms: 5 });
        assert_eq!(grant(Resource::CHANGE, 0x0210, 0, 0), Grant::Refused(16));
    }

    #[test]
    fn a_release_names_the_resource() {
        let release = ReleaseResource {
            resource: Resource::GLOBAL_CONFIG,
        };
        assert_eq!(release.params()[..3], [4, 0, 0]);
    }
}
