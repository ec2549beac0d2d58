//! A connection with its queue pair.

use e810::{Platform, Qp, QpAttr, QpState};
use e810_cm::Reason;
use e810_cm::machine::{self, Accept, Connect, ConnectionId, State};

use crate::attributes::Attributes;
use crate::service::{Answer, Call, News, Refused, Service, Told};

/// Where a connection stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Phase {
    /// Not asked for and not accepted: receives can be posted.
    New,
    /// The peer was asked.
    Asked,
    /// The peer was accepted. Messages can be sent, and the first that arrives says that the peer
    /// is ready.
    Accepted,
    /// Both sides are ready.
    Established,
    /// It is being ended, by whichever side.
    Ending,
    /// The peer has refused.
    Refused(Reason),
    /// The peer does not answer.
    Unreachable,
    /// It is over; the queue pair may be used again.
    Over,
}

/// What a connection grants, asks for and says on the passive side.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Grant<'a> {
    /// READs that this side answers at once, at most. The peer gets no more than it wants to have
    /// outstanding.
    pub responder_resources: u8,
    /// READs that this side has outstanding, at most, and no more than the peer answers.
    pub initiator_depth: u8,
    /// The peer's `rnr_retry`; 7 for more.
    pub rnr_retry_count: u8,
    /// At most 196 bytes.
    pub private_data: &'a [u8],
    /// The program's word, in what it is told from now on.
    pub context: u64,
}

impl Default for Grant<'_> {
    /// 16 READs each way, RNR retries without end, no private data.
    fn default() -> Self {
        Self {
            responder_resources: 16,
            initiator_depth: 16,
            rnr_retry_count: 7,
            private_data: &[],
            context: 0,
        }
    }
}

/// Why a step of a connection fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NotConnected {
    /// The device refuses a change of the queue pair.
    #[error(transparent)]
    Control(#[from] e810::Error),
    /// The connection manager refuses.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// The connection stands where this step is not possible.
    #[error("the connection is {0:?}: this step is not possible then")]
    Phase(Phase),
}

type Result<T> = core::result::Result<T, NotConnected>;

/// A reliable connection: a queue pair, and what its peer knows of it. Dropped, it is forgotten by
/// nobody: [`end`](Self::end) gives its place and its queue pair back.
#[derive(Debug)]
pub struct Connection<P: Platform> {
    qp: Qp<P>,
    id: Option<ConnectionId>,
    phase: Phase,
    /// READs of the peer that are answered.
    reads: u8,
}

impl<P: Platform> Connection<P> {
    /// Takes a queue pair in RESET and brings it to INIT; receives can be posted then. Peers may
    /// write, and have `reads` READs outstanding at most: `responder_resources` beyond that is cut to
    /// it, here and in what the peer is told.
    ///
    /// # Errors
    /// The device's refusal, with the queue pair.
    pub fn new(
        service: &mut impl Service<P>,
        mut qp: Qp<P>,
        reads: u8,
    ) -> core::result::Result<Self, (Qp<P>, e810::Error)> {
        match service.modify(&mut qp, &Attributes::to_init(reads)) {
            Ok(()) => Ok(Self {
                qp,
                id: None,
                phase: Phase::New,
                reads,
            }),
            Err(error) => Err((qp, error)),
        }
    }

    /// Its queue pair.
    pub const fn qp(&mut self) -> &mut Qp<P> {
        &mut self.qp
    }

    /// Where it stands.
    #[must_use]
    pub const fn phase(&self) -> Phase {
        self.phase
    }

    /// Its name at the connection manager, once there is one.
    #[must_use]
    pub const fn id(&self) -> Option<ConnectionId> {
        self.id
    }

    /// Asks a peer; [`hear`](Self::hear) does the rest. The number of the queue pair is filled in.
    ///
    /// # Errors
    /// [`NotConnected`]; the connection is as before.
    pub fn connect(&mut self, service: &mut impl Service<P>, ask: &Connect<'_>) -> Result<()> {
        self.expect(self.phase == Phase::New)?;
        let ask = Connect {
            qpn: self.qp.number().get(),
            responder_resources: ask.responder_resources.min(self.reads),
            ..*ask
        };
        match service.call(&Call::Connect(ask))? {
            Answer::Connection(id) => self.id = Some(id),
            _ => return Err(Refused::NoAnswer.into()),
        }
        self.phase = Phase::Asked;
        Ok(())
    }

    /// Accepts a request: brings the queue pair to RTS and answers. If that is not possible, the
    /// peer is told why, and the request is gone.
    ///
    /// # Errors
    /// [`NotConnected`].
    pub fn accept(
        &mut self,
        service: &mut impl Service<P>,
        request: &Told,
        grant: &Grant<'_>,
    ) -> Result<()> {
        self.expect(self.phase == Phase::New)?;
        let News::Requested(asked) = &request.news else {
            return Err(NotConnected::Phase(self.phase));
        };
        self.id = Some(request.id);
        let responder_resources = grant.responder_resources.min(asked.initiator_depth);
        let responder_resources = responder_resources.min(self.reads);
        let initiator_depth = grant.initiator_depth.min(asked.responder_resources);
        self.bring_to_rts(service, request.id, [responder_resources, initiator_depth])?;
        let accept = Accept {
            qpn: self.qp.number().get(),
            responder_resources,
            initiator_depth,
            rnr_retry_count: grant.rnr_retry_count,
            flow_control: asked.flow_control,
            srq: false,
            private_data: grant.private_data,
            context: grant.context,
        };
        if let Err(refused) = service.call(&Call::Accept(request.id, accept)) {
            self.refused(service, request.id, refused);
            return Err(refused.into());
        }
        self.phase = Phase::Accepted;
        Ok(())
    }

    /// Takes note of news of this connection, and does what follows from it: of an accepted one the
    /// queue pair goes to RTS, of one that has ended to ERROR.
    ///
    /// # Errors
    /// [`NotConnected`]. The peer was told.
    pub fn hear(&mut self, service: &mut impl Service<P>, told: &Told) -> Result<()> {
        if self.id != Some(told.id) {
            return Ok(());
        }
        match told.news {
            News::Accepted { .. } => {
                let ready = self.bring_to_rts(service, told.id, [0, 0]);
                let ready = ready.and_then(|()| Ok(service.call(&Call::Ready(told.id))?));
                match ready {
                    // The peer has given up meanwhile, and the news of it follows.
                    Err(NotConnected::Refused(Refused::Machine(machine::Error::State {
                        ..
                    }))) => {}
                    ready => {
                        ready?;
                        self.phase = Phase::Established;
                    }
                }
            }
            News::Established => {
                if self.phase == Phase::Accepted {
                    self.phase = Phase::Established;
                }
            }
            News::Rejected { reason, .. } => {
                // The passive side of one whose peer has given up: messages may still come.
                self.phase = Phase::Refused(reason);
                self.stop(service)?;
            }
            News::Unreachable => {
                self.phase = Phase::Unreachable;
                self.stop(service)?;
            }
            News::Disconnected => self.disconnect(service)?,
            News::Over => self.phase = Phase::Over,
            News::Requested(_) | News::Answered { .. } => {}
        }
        Ok(())
    }

    /// A message has arrived on the queue pair. The first says that the peer is ready, whatever has
    /// become of its RTU; otherwise this does nothing.
    pub fn arrived(&mut self, service: &mut impl Service<P>) {
        if self.phase == Phase::Accepted
            && let Some(id) = self.id
            && service.call(&Call::DataArrived(id)).is_ok()
        {
            self.phase = Phase::Established;
        }
    }

    /// Ends it, or answers the peer's end: the queue pair goes to ERROR, and the peer is told.
    /// [`News::Over`] follows. Does nothing where it is ending already.
    ///
    /// # Errors
    /// [`NotConnected`]. The peer is told even if the device refuses.
    pub fn disconnect(&mut self, service: &mut impl Service<P>) -> Result<()> {
        let id = match (self.phase, self.id) {
            (Phase::Accepted | Phase::Established | Phase::Ending, Some(id)) => id,
            (Phase::Refused(_) | Phase::Unreachable | Phase::Over, _) => return Ok(()),
            _ => return Err(NotConnected::Phase(self.phase)),
        };
        let stopped = self.stop(service);
        service.call(&Call::Disconnect(id))?;
        self.phase = Phase::Ending;
        stopped
    }

    /// Forgets it, in any state, and gives its queue pair back, in ERROR where there was a peer.
    /// Wait for [`Phase::Over`] before the queue pair is used again, or a peer that is late takes
    /// it for this connection's; a queue pair that is destroyed instead is not used again.
    pub fn end(mut self, service: &mut impl Service<P>) -> Qp<P> {
        if self.id.is_some() {
            // What the device refuses here it will refuse to whoever destroys the queue pair.
            let _ = self.stop(service);
        }
        if let Some(id) = self.id {
            // One that the manager has forgotten needs nothing.
            let _ = service.call(&Call::Release(id));
        }
        self.qp
    }

    fn expect(&self, is_possible: bool) -> Result<()> {
        match is_possible {
            true => Ok(()),
            false => Err(NotConnected::Phase(self.phase)),
        }
    }

    fn stop(&mut self, service: &mut impl Service<P>) -> Result<()> {
        let to_error = QpAttr {
            state: Some(QpState::Err),
            ..QpAttr::default()
        };
        match self.qp.state() {
            QpState::Err | QpState::Reset => Ok(()),
            _ => Ok(service.modify(&mut self.qp, &to_error)?),
        }
    }

    fn bring_to_rts(
        &mut self,
        service: &mut impl Service<P>,
        id: ConnectionId,
        depths: [u8; 2],
    ) -> Result<()> {
        let attributes = match service.call(&Call::Attributes(id, depths)) {
            Ok(Answer::Attributes(attributes)) => attributes,
            answer => {
                let refused = answer.err().unwrap_or(Refused::NoAnswer);
                self.refused(service, id, refused);
                return Err(refused.into());
            }
        };
        for attr in [&attributes.to_rtr, &attributes.to_rts] {
            if let Err(error) = service.modify(&mut self.qp, attr) {
                self.reject(service, id, Reason::CONSUMER_DEFINED);
                return Err(error.into());
            }
        }
        Ok(())
    }

    /// The manager has refused a step.
    fn refused(&mut self, service: &mut impl Service<P>, id: ConnectionId, refused: Refused) {
        match refused {
            // Another connection has accepted it before, and goes on.
            Refused::Machine(machine::Error::State { state, .. })
                if self.phase == Phase::New && !matches!(state, State::Idle | State::TimeWait) =>
            {
                self.id = None;
                self.phase = Phase::Refused(Reason::CONSUMER_DEFINED);
            }
            // It is over: the peer need not be told, and the news says why.
            Refused::Machine(machine::Error::State { .. }) if self.phase == Phase::Asked => {}
            Refused::Peer(reason) => self.reject(service, id, reason),
            _ => self.reject(service, id, Reason::CONSUMER_DEFINED),
        }
    }

    fn reject(&mut self, service: &mut impl Service<P>, id: ConnectionId, reason: Reason) {
        // A peer that has given up meanwhile need not be told.
        let _ = service.call(&Call::Reject(id, reason, &[]));
        self.phase = Phase::Refused(reason);
    }
}
