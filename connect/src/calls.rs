//! What programs ask for, carried out; and what they are told.

use e810::{Control, Platform};
use e810_cm::ip;
use e810_cm::machine::{Accept, Connect, Error, Event, Listen, Reply};
use e810_hal::Ns;

use crate::manager::{Manager, Neighbours, path_of};
use crate::service::{Answer, Call, News, PrivateData, Refused, Requested, Told};

/// Ports that are tried for a listener that takes any.
const PORTS: usize = 64;

impl<P: Platform> Manager<'_, P> {
    /// Carries out a call.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn call(
        &mut self,
        control: &Control<P>,
        neighbours: &mut dyn Neighbours,
        now: Ns,
        call: &Call<'_>,
    ) -> Result<Answer, Refused> {
        let done = match *call {
            Call::Listen(listen) => return Ok(self.listen(listen)?),
            Call::Unlisten(listener) => {
                self.machine.unlisten(listener);
                Ok(())
            }
            Call::Connect(ask) => return Ok(self.connect(control, ask)?),
            Call::Attributes(id, depths) => {
                let attributes = self.attributes(control, neighbours, id, depths);
                return attributes.map(Answer::Attributes);
            }
            Call::Accept(id, accept) => {
                let card = control.query_device();
                let accept = Accept {
                    responder_resources: least(accept.responder_resources, card.max_dest_rd_atomic),
                    initiator_depth: least(accept.initiator_depth, card.max_rd_atomic),
                    ..accept
                };
                self.machine.accept(id, &accept)
            }
            Call::Ready(id) => self.machine.ready(id),
            Call::Reject(id, reason, data) => self.machine.reject(id, reason, data, now),
            Call::Answer(id, answer, data) => self.machine.answer(id, answer, data),
            Call::Path(id) => {
                let (origin, via) = self.machine.origin(id).ok_or(Error::NoSuch(id))?;
                let path = path_of(control, neighbours, &origin, via);
                return Ok(Answer::Path(path?));
            }
            Call::DataArrived(id) => {
                self.machine.data_arrived(id);
                Ok(())
            }
            Call::Disconnect(id) => self.machine.disconnect(id, now),
            Call::Release(id) => self.machine.release(id, now),
        };
        done?;
        Ok(Answer::Done)
    }

    fn listen(&mut self, listen: Listen) -> Result<Answer, Error> {
        if listen.port != 0 {
            let listener = self.machine.listen(listen)?;
            return Ok(Answer::Listener(listener, listen.port));
        }
        for _ in 0..PORTS {
            let port = self.machine.port();
            match self.machine.listen(Listen { port, ..listen }) {
                Err(Error::InUse { .. }) => {}
                listener => return Ok(Answer::Listener(listener?, port)),
            }
        }
        Err(Error::InUse { port: 0 })
    }

    fn connect(&mut self, control: &Control<P>, mut ask: Connect<'_>) -> Result<Answer, Error> {
        let card = control.query_device();
        ask.responder_resources = least(ask.responder_resources, card.max_dest_rd_atomic);
        ask.initiator_depth = least(ask.initiator_depth, card.max_rd_atomic);
        let port = control.query_port(1).ok();
        if let Some(mtu) = port.and_then(|port| port.active_mtu) {
            ask.path.mtu = ask.path.mtu.min(mtu.code());
        }
        if ask.source_port == 0 {
            ask.source_port = self.machine.port();
        }
        if ask.path.flow_label == 0 {
            // cm-path 6.4.
            let ports = u32::from(ask.source_port).wrapping_mul(31);
            ask.path.flow_label = ports.wrapping_add(ask.port.into()) & 0xF_FFFF;
        }
        Ok(Answer::Connection(self.machine.connect(&ask)?))
    }

    /// What has happened and was not told. What was forgotten meanwhile is passed over.
    pub(crate) fn told(&mut self) -> Option<Told> {
        loop {
            let event = self.machine.event()?;
            if let Some(told) = self.tell(event) {
                return Some(told);
            }
        }
    }

    fn tell(&mut self, event: Event) -> Option<Told> {
        let (id, news) = match event {
            Event::Requested { id, listener } => {
                let request = self.machine.request(id)?;
                let listen = request.listen?;
                let req = request.req.unwrap_or_default();
                let [source, destination] = match request.ip {
                    Some(header) => [header.source, header.destination],
                    None => [request.origin.remote, request.origin.local].map(ip::address),
                };
                let requested = Requested {
                    listener,
                    space: listen.space,
                    source,
                    source_port: request.ip.map_or(0, |header| header.port),
                    destination,
                    vlan: request.origin.vlan,
                    qpn: req.local_qpn,
                    responder_resources: req.responder_resources,
                    initiator_depth: req.initiator_depth,
                    retry_count: req.retry_count,
                    rnr_retry_count: req.rnr_retry_count,
                    flow_control: req.end_to_end_flow_control,
                    srq: req.srq,
                    private_data: data(request.private_data),
                };
                return Some(Told {
                    id,
                    context: listen.context,
                    news: News::Requested(requested),
                });
            }
            Event::Accepted(id) => {
                let news = match self.machine.reply(id)? {
                    Reply::Rep(rep) => News::Accepted {
                        responder_resources: rep.responder_resources,
                        initiator_depth: rep.initiator_depth,
                        private_data: data(&rep.private_data),
                    },
                    Reply::Sidr(rep) => News::Answered {
                        qpn: rep.qpn,
                        qkey: rep.q_key,
                        private_data: data(&rep.private_data),
                    },
                    Reply::Rej(_) => return None,
                };
                (id, news)
            }
            Event::Established(id) => (id, News::Established),
            Event::Rejected { id, reason } => {
                let private_data = match self.machine.reply(id) {
                    Some(Reply::Rej(rej)) => data(&rej.private_data),
                    Some(Reply::Sidr(rep)) => data(&rep.private_data),
                    _ => PrivateData::new(),
                };
                let news = News::Rejected {
                    reason,
                    private_data,
                };
                (id, news)
            }
            Event::Unreachable(id) => (id, News::Unreachable),
            Event::Disconnected(id) => (id, News::Disconnected),
            Event::Over(id) => (id, News::Over),
            _ => return None,
        };
        Some(Told {
            id,
            context: self.machine.context(id).unwrap_or_default(),
            news,
        })
    }
}

/// As much as was asked for, and the card has.
fn least(wanted: u8, card: u32) -> u8 {
    wanted.min(u8::try_from(card).unwrap_or(u8::MAX))
}

/// Private data; the longest of a message fits.
fn data(bytes: &[u8]) -> PrivateData {
    PrivateData::from_slice(bytes).unwrap_or_default()
}
