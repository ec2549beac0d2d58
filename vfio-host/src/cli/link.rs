//! `--link` on the command line.

use std::str::FromStr;

use e810_sim_wire::{NoEnds, UdpEnds};

/// The value of `--link`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LinkArg {
    /// `in-process`: between the functions of this server only.
    InProcess,
    /// `udp:LOCAL,PEER`: to another server as well.
    Udp(UdpEnds),
}

/// Why a text is not a link.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NoLink {
    /// It is of neither kind.
    #[error("`{0}` is not a link: use in-process or udp:LOCAL_ADDR:PORT,PEER_ADDR:PORT")]
    Unknown(String),
    /// They are not the ends of a wire.
    #[error("udp:LOCAL_ADDR:PORT,PEER_ADDR:PORT: {0}")]
    Ends(#[from] NoEnds),
}

impl FromStr for LinkArg {
    type Err = NoLink;

    fn from_str(text: &str) -> Result<Self, NoLink> {
        if text == "in-process" {
            return Ok(Self::InProcess);
        }
        let ends = text.strip_prefix("udp:");
        let ends = ends.ok_or_else(|| NoLink::Unknown(text.to_owned()))?;
        Ok(Self::Udp(ends.parse()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_in_process_or_over_udp() {
        assert_eq!("in-process".parse(), Ok(LinkArg::InProcess));
        let ends = "127.0.0.1:1,127.0.0.1:2";
        let link = format!("udp:{ends}").parse();
        assert_eq!(link, Ok(LinkArg::Udp(ends.parse().unwrap())));
        for text in ["", "udp", "tcp:127.0.0.1:1,127.0.0.1:2"] {
            let error = text.parse::<LinkArg>();
            assert_eq!(error, Err(NoLink::Unknown(text.to_owned())));
        }
        let error = "udp:127.0.0.1:1".parse::<LinkArg>().unwrap_err();
        assert!(matches!(error, NoLink::Ends(NoEnds::OneEnd(_))), "{error}");
    }
}
