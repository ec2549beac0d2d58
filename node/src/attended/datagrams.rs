//! UD queue pairs of services: to ask a peer for one, and to answer with one.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use e810::{Cq, Notify, Path, Qpn, Sender, Wc};
use e810_backends::HostDevice;
use e810_cm::Reason;
use e810_cm::ip::PortSpace;
use e810_cm::machine::Connect;
use e810_connect::{Answer, Call, News, PrivateData, Refused, Service, Told};

use super::{Attended, Ended, Listener};

/// A peer's UD queue pair, and the way to it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Resolved {
    /// The way, for [`Control::create_ah`](e810::Control::create_ah).
    pub path: Path,
    /// Its number.
    pub qpn: Qpn,
    /// Its Q_Key.
    pub qkey: u32,
    /// What the peer's program says, with zeros up to the size of the field.
    pub private_data: PrivateData,
}

impl<P: HostDevice> Attended<P> {
    /// Takes questions for a UD queue pair ([`resolve`](Self::resolve)) as [`listen`](Self::listen)
    /// takes requests for connections. The ports of both are apart.
    ///
    /// # Errors
    /// As [`listen`](Self::listen).
    pub fn listen_datagrams(
        &self,
        address: IpAddr,
        port: u16,
        backlog: u32,
    ) -> Result<Listener<P>> {
        let shared = Arc::clone(&self.shared);
        Listener::new(shared, PortSpace::Udp, address, port, backlog)
    }

    /// Asks a peer for the UD queue pair of one of its ports, as [`ask`](Self::ask) has it, and waits
    /// for the answer, for `limit` at most. The private data of the question may have 180 bytes.
    ///
    /// # Errors
    /// The peer has no such queue pair, does not answer, or has not answered yet.
    pub fn resolve(&self, ask: &Connect<'_>, limit: Duration) -> Result<Resolved> {
        let ask = Connect {
            space: PortSpace::Udp,
            ..*ask
        };
        let id = match self.shared.lock().call(&Call::Connect(ask))? {
            Answer::Connection(id) => id,
            other => bail!("the connection manager answers {other:?} to a question"),
        };
        let mut answer = None;
        let done = self.shared.wait(limit, |state| {
            if answer.is_none() {
                answer = state.next(id);
            }
            let told = answer.as_ref()?;
            match state.call(&Call::Path(id)) {
                // The neighbour is asked for once more.
                Err(Refused::PathPending) if is_answered(told) => None,
                path => Some(resolved(told, path)),
            }
        });
        self.shared.lock().release(id);
        let nothing = || Err(self.shared.why_not("the peer's queue pair", limit));
        done.unwrap_or_else(nothing)
    }

    /// Takes a completion of a UD queue pair, with who has sent the datagram, and waits for one for
    /// `limit` at most.
    ///
    /// # Errors
    /// The function is gone.
    pub fn completion_with_sender(
        &self,
        cq: &mut Cq<P>,
        limit: Duration,
    ) -> Result<Option<(Wc, Option<Sender>)>> {
        let found = self.shared.wait(limit, |_| {
            let mut found = cq.poll_with_sender();
            // After it was armed, for what has come between.
            if found.is_none() && cq.arm(Notify::Any) {
                found = cq.poll_with_sender();
            }
            found
        });
        match (found, &self.shared.lock().gone) {
            (None, Some(why)) => Err(anyhow!("{why}")),
            (found, _) => Ok(found),
        }
    }
}

const fn is_answered(told: &Told) -> bool {
    matches!(told.news, News::Answered { .. })
}

fn resolved(told: &Told, path: Result<Answer, Refused>) -> Result<Resolved> {
    match (&told.news, path) {
        (
            News::Answered {
                qpn,
                qkey,
                private_data,
            },
            Ok(Answer::Path(path)),
        ) => Ok(Resolved {
            path,
            qpn: Qpn::new(*qpn).ok_or_else(|| anyhow!("the peer answers with queue pair 0"))?,
            qkey: *qkey,
            private_data: private_data.clone(),
        }),
        (News::Rejected { reason, .. }, _) => Err(anyhow!(
            "the peer names no queue pair: {}",
            status_text(*reason)
        )),
        (News::Unreachable, _) => Err(Ended::Unreachable.into()),
        (_, path) => Err(path.err().unwrap_or(Refused::NoAnswer).into()),
    }
}

/// What the status of an answer without a queue pair says (cm-path 3.9).
fn status_text(Reason(status): Reason) -> String {
    let text = match status {
        1 => "nobody listens there",
        2 => "the program there has refused",
        3 => "it has none left",
        4 => "another port has to be asked",
        5 => "it has another version",
        _ => return format!("status {status}"),
    };
    format!("{text} (status {status})")
}

impl<P: HostDevice> Listener<P> {
    /// Answers a question with a UD queue pair in RTS and its Q_Key, and at most 136 bytes for the
    /// peer. Nothing more is heard of it: the peer's first datagram says where it comes from.
    ///
    /// # Errors
    /// Too many bytes, or a peer that has given up.
    pub fn answer(&self, question: &Told, qpn: Qpn, qkey: u32, private_data: &[u8]) -> Result<()> {
        let answer = Call::Answer(question.id, Ok((qpn.get(), qkey)), private_data);
        self.end(question, &answer)
    }

    /// Makes the last call about a request.
    pub(super) fn end(&self, request: &Told, call: &Call<'_>) -> Result<()> {
        let mut state = self.shared.lock();
        let done = state.call(call);
        state.release(request.id);
        done.map(drop).map_err(|error| anyhow!("{error}"))
    }
}
