//! Options of a simulated engine's connections.

use clap::Args;
use e810_hal::Ns;
use e810_sim::link::parse_time;
use e810_sim::pe::TransportLimits;

use super::number::number;

/// Limits that replace those of the programs' queue pairs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Args)]
pub struct TransportArgs {
    /// Resend requests after this time without an answer, like 500ms [default: as the queue pair
    /// says (RTOMIN); 67.1ms for 5].
    ///
    /// For a peer that answers slowly, such as one in an emulated machine.
    #[arg(long, value_name = "TIME", value_parser = ack_timeout)]
    pub ack_timeout: Option<Ns>,
    /// Maximum packets of SENDs and WRITEs in flight [default: as the queue pair says (CWNDROCE);
    /// 1024].
    #[arg(long, value_name = "PACKETS", value_parser = number::<u32>(1, 1 << 20))]
    pub window: Option<u32>,
    /// RNR timer code, 0 to 31: how long a sender waits when there is no receive [default: 12,
    /// which is 0.64 ms].
    #[arg(long, value_name = "CODE", value_parser = number::<u8>(0, 31))]
    pub rnr_timer: Option<u8>,
    /// Credit code in acknowledgements, 0 to 31, where 31 means "not limited" [default: as the
    /// queue pair says (ACKCREDITS)].
    #[arg(long, value_name = "CODE", value_parser = number::<u8>(0, 31))]
    pub ack_credits: Option<u8>,
}

/// Parses a time that is not 0.
fn ack_timeout(text: &str) -> Result<Ns, String> {
    let time = parse_time(text).map_err(|error| error.to_string())?;
    if time == Ns(0) {
        return Err("0 leaves no time for an answer: give a longer time, such as 10ms".to_owned());
    }
    Ok(time)
}

impl From<TransportArgs> for TransportLimits {
    fn from(args: TransportArgs) -> Self {
        Self {
            ack_timeout: args.ack_timeout,
            window: args.window,
            rnr_timer: args.rnr_timer,
            ack_credits: args.ack_credits,
        }
    }
}
