//! The messages, field by field (cm-path 3).

use crate::bits::{Bits, Fields, Value, Way};
use crate::{GID, Mad, ip};

/// Why a datagram is no message of the connection manager (cm-path 2.3). Nobody answers one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum NoMessage {
    /// It has not 256 bytes.
    Length(usize),
    /// Its version is not 1, its class not 7 of version 2, or its method not Send.
    Header,
    /// No message has this attribute id.
    Attribute(u16),
}

/// The header's fields that differ from message to message (cm-path 2.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Header {
    /// Transaction: copied into answers, and not compared.
    pub tid: u64,
    /// Options of a vendor (ECE) in REQ, REP and SIDR_REP.
    pub attr_mod: u32,
}

/// Base version, class, class version and method of each message.
const FIXED: [u8; 4] = [1, 7, 2, 3];
/// Attribute id, transaction and options of a header.
const HEADER: &[Bits] = &[
    Bits::new(16, 7, 16),
    Bits::new(8, 7, 64),
    Bits::new(20, 7, 32),
];

impl Header {
    fn pass(&mut self, attribute: &mut u16, way: Way<'_>) {
        let fields = &mut Fields::new(way, HEADER);
        attribute.pass(fields);
        self.tid.pass(fields);
        self.attr_mod.pass(fields);
    }

    /// The header of a datagram, with its attribute id.
    fn read(mad: &Mad) -> (Self, u16) {
        let (mut header, mut attribute) = (Self::default(), 0);
        header.pass(&mut attribute, Way::From(mad));
        (header, attribute)
    }

    fn write(mut self, mad: &mut Mad, mut attribute: u16) {
        ip::copy(mad, &FIXED);
        self.pass(&mut attribute, Way::Into(mad));
    }
}

/// What has fields that are read and written.
trait Pass {
    /// Reads the fields, or writes them.
    fn pass(&mut self, way: Way<'_>);
}

/// The datagram of a message. For all messages one function.
fn encode(header: Header, attribute: u16, message: &mut dyn Pass) -> Mad {
    let mut mad = [0; size_of::<Mad>()];
    header.write(&mut mad, attribute);
    message.pass(Way::Into(&mut mad));
    mad
}

/// `field: type = [first byte, its highest bit (7 unless given); bits]`; a type's own size is not
/// repeated.
macro_rules! messages {
    ($(
        $(#[$about:meta])*
        $Message:ident = $attribute:literal {
            $( $(#[$what:meta])* $field:ident: $type:ty = [$byte:literal, $high:literal; $bits:expr], )+
        }
    )+) => {
        $(
            $(#[$about])*
            #[derive(Clone, Copy, PartialEq, Eq, Debug)]
            #[cfg_attr(feature = "defmt", derive(defmt::Format))]
            pub struct $Message {
                $( $(#[$what])* pub $field: $type, )+
            }

            impl Default for $Message {
                fn default() -> Self {
                    Self { $( $field: Value::ZERO, )+ }
                }
            }

            impl $Message {
                /// Its attribute id.
                pub const ATTRIBUTE: u16 = $attribute;

                /// The datagram. Of a field that is narrower than its type, the low bits.
                #[must_use]
                pub fn encode(mut self, header: Header) -> Mad {
                    encode(header, Self::ATTRIBUTE, &mut self)
                }
            }

            impl Pass for $Message {
                fn pass(&mut self, way: Way<'_>) {
                    const LIST: &[Bits] = &[$( Bits::new($byte, $high, $bits), )+];
                    let fields = &mut Fields::new(way, LIST);
                    $( self.$field.pass(fields); )+
                }
            }

            impl From<$Message> for Message {
                fn from(message: $Message) -> Self {
                    Self::$Message(message)
                }
            }
        )+

        /// Any message.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[cfg_attr(feature = "defmt", derive(defmt::Format))]
        pub enum Message {
            $( $(#[$about])* $Message($Message), )+
        }

        impl Message {
            /// The message of a datagram.
            ///
            /// # Errors
            /// [`NoMessage`], whose datagrams are dropped.
            pub fn decode(bytes: &[u8]) -> Result<(Header, Self), NoMessage> {
                let mad: &Mad = bytes
                    .try_into()
                    .map_err(|_| NoMessage::Length(bytes.len()))?;
                if !mad.starts_with(&FIXED) {
                    return Err(NoMessage::Header);
                }
                let (header, attribute) = Header::read(mad);
                let mut message = match attribute {
                    $( $Message::ATTRIBUTE => Self::$Message($Message::default()), )+
                    other => return Err(NoMessage::Attribute(other)),
                };
                message.pass(Way::From(mad));
                Ok((header, message))
            }

            /// The datagram. Of a field that is narrower than its type, the low bits.
            #[must_use]
            pub fn encode(mut self, header: Header) -> Mad {
                let attribute = match &self {
                    $( Self::$Message(_) => $Message::ATTRIBUTE, )+
                };
                encode(header, attribute, &mut self)
            }
        }

        impl Pass for Message {
            fn pass(&mut self, way: Way<'_>) {
                match self {
                    $( Self::$Message(message) => message.pass(way), )+
                }
            }
        }
    };
}

messages! {
    /// Asks for a connection (cm-path 3.1).
    Req = 0x0010 {
        /// The sender's id of the connection.
        local_comm_id: u32 = [24, 7; 32],
        /// Vendor of the options (ECE).
        vendor_id: u32 = [29, 7; 24],
        /// The service that is asked for.
        service_id: u64 = [32, 7; 64],
        /// GUID of the sender's node.
        local_ca_guid: u64 = [40, 7; 64],
        /// 0.
        local_q_key: u32 = [52, 7; 32],
        /// The sender's QP.
        local_qpn: u32 = [56, 7; 24],
        /// READs that the sender can answer at once.
        responder_resources: u8 = [59, 7; 8],
        /// 0.
        local_eecn: u32 = [60, 7; 24],
        /// READs that the sender wants to have outstanding.
        initiator_depth: u8 = [63, 7; 8],
        /// 0.
        remote_eecn: u32 = [64, 7; 24],
        /// How long the sender waits for an answer: 4.096 µs · 2^n.
        remote_cm_response_timeout: u8 = [67, 7; 5],
        /// 0 RC, 1 UC, 2 RD, 3 see `extended_transport_type`.
        transport_service_type: u8 = [67, 2; 2],
        /// The program's wish; no transport here has it.
        end_to_end_flow_control: bool = [67, 0; 1],
        /// First PSN that the receiver of the message sends.
        starting_psn: u32 = [68, 7; 24],
        /// After which time the receiver repeats its messages: 4.096 µs · 2^n.
        local_cm_response_timeout: u8 = [71, 7; 5],
        /// The receiver's `retry_cnt`.
        retry_count: u8 = [71, 2; 3],
        /// Partition.
        partition_key: u16 = [72, 7; 16],
        /// As `enum ibv_mtu`: 1 is 256 bytes, 5 is 4096.
        path_packet_payload_mtu: u8 = [74, 7; 4],
        /// 0.
        rdc_exists: bool = [74, 3; 1],
        /// The receiver's `rnr_retry`.
        rnr_retry_count: u8 = [74, 2; 3],
        /// How often the receiver repeats its messages.
        max_cm_retries: u8 = [75, 7; 4],
        /// The sender's QP has an SRQ.
        srq: bool = [75, 3; 1],
        /// 1 for XRC, whose `transport_service_type` is 3.
        extended_transport_type: u8 = [75, 2; 3],
        /// 0xFFFF, or 0 where the hop limit is 1 or less.
        primary_local_port_lid: u16 = [76, 7; 16],
        /// The same.
        primary_remote_port_lid: u16 = [78, 7; 16],
        /// GID of the sender.
        primary_local_port_gid: [u8; GID] = [80, 7; 8 * GID],
        /// GID of the receiver.
        primary_remote_port_gid: [u8; GID] = [96, 7; 8 * GID],
        /// Flow label, of 20 bits.
        primary_flow_label: u32 = [112, 7; 20],
        /// 0: the port's rate.
        primary_packet_rate: u8 = [115, 5; 6],
        /// TOS.
        primary_traffic_class: u8 = [116, 7; 8],
        /// TTL.
        primary_hop_limit: u8 = [117, 7; 8],
        /// Service level.
        primary_sl: u8 = [118, 7; 4],
        /// The hop limit is 1 or less.
        primary_subnet_local: bool = [118, 3; 1],
        /// The receiver's ack timeout: 4.096 µs · 2^n.
        primary_local_ack_timeout: u8 = [119, 7; 5],
        /// Of an alternate path: 0, as all until the private data.
        alternate_local_port_lid: u16 = [120, 7; 16],
        /// 0.
        alternate_remote_port_lid: u16 = [122, 7; 16],
        /// 0.
        alternate_local_port_gid: [u8; GID] = [124, 7; 8 * GID],
        /// 0.
        alternate_remote_port_gid: [u8; GID] = [140, 7; 8 * GID],
        /// 0.
        alternate_flow_label: u32 = [156, 7; 20],
        /// 0.
        alternate_packet_rate: u8 = [159, 5; 6],
        /// 0.
        alternate_traffic_class: u8 = [160, 7; 8],
        /// 0.
        alternate_hop_limit: u8 = [161, 7; 8],
        /// 0.
        alternate_sl: u8 = [162, 7; 4],
        /// 0.
        alternate_subnet_local: bool = [162, 3; 1],
        /// 0.
        alternate_local_ack_timeout: u8 = [163, 7; 5],
        /// 0.
        sap_supported: bool = [163, 2; 1],
        /// The IP header of the connection manager, then the program's data.
        private_data: [u8; 92] = [164, 7; 8 * 92],
    }

    /// "The answer takes longer" (cm-path 3.2).
    Mra = 0x0011 {
        /// The sender's id.
        local_comm_id: u32 = [24, 7; 32],
        /// The receiver's id.
        remote_comm_id: u32 = [28, 7; 32],
        /// What it is about: 0 REQ, 1 REP, 2 another.
        message_mraed: u8 = [32, 7; 2],
        /// How long the answer may take: 4.096 µs · 2^n.
        service_timeout: u8 = [33, 7; 5],
        /// The program's.
        private_data: [u8; 222] = [34, 7; 8 * 222],
    }

    /// Refuses a REQ or a REP, or gives a connection up (cm-path 3.3).
    Rej = 0x0012 {
        /// The sender's id, or 0.
        local_comm_id: u32 = [24, 7; 32],
        /// The receiver's id.
        remote_comm_id: u32 = [28, 7; 32],
        /// What it is about: 0 REQ, 1 REP, 2 another.
        message_rejected: u8 = [32, 7; 2],
        /// Bytes of `ari` that mean something.
        rejected_info_length: u8 = [33, 7; 7],
        /// Why: [`Reason`](crate::Reason).
        reason: u16 = [34, 7; 16],
        /// More about the reason.
        ari: [u8; 72] = [36, 7; 8 * 72],
        /// The program's.
        private_data: [u8; 148] = [108, 7; 8 * 148],
    }

    /// Accepts a REQ (cm-path 3.4).
    Rep = 0x0013 {
        /// The sender's id.
        local_comm_id: u32 = [24, 7; 32],
        /// The receiver's id, of its REQ.
        remote_comm_id: u32 = [28, 7; 32],
        /// 0.
        local_q_key: u32 = [32, 7; 32],
        /// The sender's QP.
        local_qpn: u32 = [36, 7; 24],
        /// Vendor of the options (ECE), bits 23 to 16.
        vendor_id_h: u8 = [39, 7; 8],
        /// 0.
        local_ee_context_number: u32 = [40, 7; 24],
        /// Bits 15 to 8.
        vendor_id_m: u8 = [43, 7; 8],
        /// First PSN that the receiver of the message sends.
        starting_psn: u32 = [44, 7; 24],
        /// Bits 7 to 0.
        vendor_id_l: u8 = [47, 7; 8],
        /// READs that the sender answers at once.
        responder_resources: u8 = [48, 7; 8],
        /// READs that the sender will have outstanding.
        initiator_depth: u8 = [49, 7; 8],
        /// How long the sender's device takes for an acknowledgement: 4.096 µs · 2^n.
        target_ack_delay: u8 = [50, 7; 5],
        /// 0.
        failover_accepted: u8 = [50, 2; 2],
        /// The program's wish; no transport here has it.
        end_to_end_flow_control: bool = [50, 0; 1],
        /// The receiver's `rnr_retry`.
        rnr_retry_count: u8 = [51, 7; 3],
        /// The sender's QP has an SRQ.
        srq: bool = [51, 4; 1],
        /// GUID of the sender's node.
        local_ca_guid: u64 = [52, 7; 64],
        /// The program's.
        private_data: [u8; 196] = [60, 7; 8 * 196],
    }

    /// "Ready to use": the answer to a REP (cm-path 3.5).
    Rtu = 0x0014 {
        /// The sender's id.
        local_comm_id: u32 = [24, 7; 32],
        /// The receiver's id.
        remote_comm_id: u32 = [28, 7; 32],
        /// The program's.
        private_data: [u8; 224] = [32, 7; 8 * 224],
    }

    /// Ends a connection (cm-path 3.6).
    Dreq = 0x0015 {
        /// The sender's id.
        local_comm_id: u32 = [24, 7; 32],
        /// The receiver's id.
        remote_comm_id: u32 = [28, 7; 32],
        /// QP of the receiver.
        remote_qpn_eecn: u32 = [32, 7; 24],
        /// The program's.
        private_data: [u8; 220] = [36, 7; 8 * 220],
    }

    /// The answer to a DREQ (cm-path 3.7).
    Drep = 0x0016 {
        /// The sender's id.
        local_comm_id: u32 = [24, 7; 32],
        /// The receiver's id.
        remote_comm_id: u32 = [28, 7; 32],
        /// The program's.
        private_data: [u8; 224] = [32, 7; 8 * 224],
    }

    /// Asks for the UD QP of a service (cm-path 3.8).
    SidrReq = 0x0017 {
        /// The sender's id of the question.
        request_id: u32 = [24, 7; 32],
        /// Partition.
        partition_key: u16 = [28, 7; 16],
        /// The service that is asked for.
        service_id: u64 = [32, 7; 64],
        /// The IP header of the connection manager, then the program's data.
        private_data: [u8; 216] = [40, 7; 8 * 216],
    }

    /// The answer to a SIDR_REQ (cm-path 3.9).
    SidrRep = 0x0018 {
        /// The receiver's id of the question.
        request_id: u32 = [24, 7; 32],
        /// 0 for a QP; why there is none: 1 no listener, 2 refused, 3 no QP, 4 elsewhere, 5 version.
        status: u8 = [28, 7; 8],
        /// Bytes of `additional_information` that mean something; Linux writes 0.
        additional_information_length: u8 = [29, 7; 8],
        /// Vendor of the options (ECE), bits 23 to 8.
        vendor_id_h: u16 = [30, 7; 16],
        /// The QP.
        qpn: u32 = [32, 7; 24],
        /// Bits 7 to 0.
        vendor_id_l: u8 = [35, 7; 8],
        /// The service.
        service_id: u64 = [36, 7; 64],
        /// Q_Key of the QP.
        q_key: u32 = [44, 7; 32],
        /// More about the status.
        additional_information: [u8; 72] = [48, 7; 8 * 72],
        /// The program's.
        private_data: [u8; 136] = [120, 7; 8 * 136],
    }

    /// Loads an alternate path: there is none on RoCE (cm-path 3.10).
    Lap = 0x0019 {
        /// The sender's id.
        local_comm_id: u32 = [24, 7; 32],
        /// The receiver's id.
        remote_comm_id: u32 = [28, 7; 32],
        /// QP of the receiver.
        remote_qpn_eecn: u32 = [36, 7; 24],
        /// How long the sender waits for an answer: 4.096 µs · 2^n.
        remote_cm_response_timeout: u8 = [39, 7; 5],
        /// Of the alternate path.
        alternate_local_port_lid: u16 = [44, 7; 16],
        /// The same.
        alternate_remote_port_lid: u16 = [46, 7; 16],
        /// The same.
        alternate_local_port_gid: [u8; GID] = [48, 7; 8 * GID],
        /// The same.
        alternate_remote_port_gid: [u8; GID] = [64, 7; 8 * GID],
        /// The same.
        alternate_flow_label: u32 = [80, 7; 20],
        /// The same.
        alternate_traffic_class: u8 = [83, 7; 8],
        /// The same.
        alternate_hop_limit: u8 = [84, 7; 8],
        /// The same.
        alternate_packet_rate: u8 = [85, 5; 6],
        /// The same.
        alternate_sl: u8 = [86, 7; 4],
        /// The same.
        alternate_subnet_local: bool = [86, 3; 1],
        /// The same.
        alternate_local_ack_timeout: u8 = [87, 7; 5],
        /// The program's.
        private_data: [u8; 168] = [88, 7; 8 * 168],
    }

    /// The answer to a LAP (cm-path 3.10).
    Apr = 0x001A {
        /// The sender's id.
        local_comm_id: u32 = [24, 7; 32],
        /// The receiver's id.
        remote_comm_id: u32 = [28, 7; 32],
        /// Bytes of `additional_information` that mean something.
        additional_information_length: u8 = [32, 7; 8],
        /// 0 when the path is loaded.
        ar_status: u8 = [33, 7; 8],
        /// More about the status.
        additional_information: [u8; 72] = [36, 7; 8 * 72],
        /// The program's.
        private_data: [u8; 148] = [108, 7; 8 * 148],
    }
}
