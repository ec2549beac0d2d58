//! Why a connection is refused (cm-path 3.11).

/// Reason of a REJ. Any number may arrive; those with a name are constants.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Reason(pub u16);

macro_rules! reasons {
    ($($(#[$about:meta])* $NAME:ident = $number:literal, $text:literal;)+) => {
        impl Reason {
            $( $(#[$about])* pub const $NAME: Self = Self($number); )+

            /// What it says, of one with a name.
            #[must_use]
            pub const fn text(self) -> Option<&'static str> {
                match self.0 {
                    $( $number => Some($text), )+
                    _ => None,
                }
            }

            /// The name of its constant, of one that has a name.
            #[must_use]
            pub const fn name(self) -> Option<&'static str> {
                match self.0 {
                    $( $number => Some(stringify!($NAME)), )+
                    _ => None,
                }
            }
        }
    };
}

reasons! {
    /// The peer has no QP left.
    NO_QP = 1, "it has no queue pair left";
    /// The peer has no EE context left.
    NO_EEC = 2, "it has no EE context left";
    /// The peer has no resources left.
    NO_RESOURCES = 3, "it has no resources left";
    /// The peer has given up; the ARI is its node GUID.
    TIMEOUT = 4, "it has given up";
    /// The request is not supported.
    UNSUPPORTED = 5, "it does not support the request";
    /// The communication id is not known.
    INVALID_COMM_ID = 6, "it does not know the communication id";
    /// The communication ids do not belong together.
    INVALID_COMM_INSTANCE = 7, "the communication ids do not belong together";
    /// Nobody listens for the service.
    INVALID_SERVICE_ID = 8, "nobody listens there";
    /// The transport is not offered.
    INVALID_TRANSPORT_TYPE = 9, "it does not offer the transport";
    /// The peer still has a connection of this QP.
    STALE_CONN = 10, "it still has a connection with this queue pair";
    /// The RDC does not exist.
    RDC_NOT_EXIST = 11, "the RDC does not exist";
    /// A GID cannot be used.
    INVALID_GID = 12, "it cannot use the GID";
    /// A LID cannot be used.
    INVALID_LID = 13, "it cannot use the LID";
    /// The service level cannot be used.
    INVALID_SL = 14, "it cannot use the service level";
    /// The traffic class cannot be used.
    INVALID_TRAFFIC_CLASS = 15, "it cannot use the traffic class";
    /// The hop limit cannot be used.
    INVALID_HOP_LIMIT = 16, "it cannot use the hop limit";
    /// The rate cannot be used.
    INVALID_PACKET_RATE = 17, "it cannot use the rate";
    /// The alternate GID cannot be used.
    INVALID_ALT_GID = 18, "it cannot use the alternate GID";
    /// The alternate LID cannot be used.
    INVALID_ALT_LID = 19, "it cannot use the alternate LID";
    /// The alternate service level cannot be used.
    INVALID_ALT_SL = 20, "it cannot use the alternate service level";
    /// The alternate traffic class cannot be used.
    INVALID_ALT_TRAFFIC_CLASS = 21, "it cannot use the alternate traffic class";
    /// The alternate hop limit cannot be used.
    INVALID_ALT_HOP_LIMIT = 22, "it cannot use the alternate hop limit";
    /// The alternate rate cannot be used.
    INVALID_ALT_PACKET_RATE = 23, "it cannot use the alternate rate";
    /// Ask the connection manager of another port.
    PORT_CM_REDIRECT = 24, "another port's connection manager has to be asked";
    /// Ask another port.
    PORT_REDIRECT = 25, "another port has to be asked";
    /// The path MTU cannot be used.
    INVALID_MTU = 26, "it cannot use the path MTU";
    /// The peer cannot answer so many READs at once.
    INSUFFICIENT_RESP_RESOURCES = 27, "it cannot answer so many READs at once";
    /// The program there has refused, and the private data is its own; or it listens at another
    /// address than the one asked for.
    CONSUMER_DEFINED = 28, "the program there has refused, or it listens at another address";
    /// The RNR retry count cannot be used.
    INVALID_RNR_RETRY = 29, "it cannot use the RNR retry count";
    /// The communication id is in use already.
    DUPLICATE_LOCAL_COMM_ID = 30, "the communication id is in use";
    /// The class version is another one.
    INVALID_CLASS_VERSION = 31, "its class version is another one";
    /// The flow label cannot be used.
    INVALID_FLOW_LABEL = 32, "it cannot use the flow label";
    /// The alternate flow label cannot be used.
    INVALID_ALT_FLOW_LABEL = 33, "it cannot use the alternate flow label";
    /// The options of the vendor are not supported.
    VENDOR_OPTION_NOT_SUPPORTED = 35, "it does not support the vendor's options";
}

impl core::fmt::Display for Reason {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self.text() {
            Some(text) => write!(f, "{text} (REJ reason {})", self.0),
            None => write!(f, "REJ reason {}, which has no name", self.0),
        }
    }
}
