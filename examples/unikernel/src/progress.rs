//! What a function's owner does now and then: takes events, and has the driver do what it has
//! put off.

use e810::{AsyncEvent, Control, Event, EventSet};
use metal::interrupts::Lines;
use metal::{Metal, say};

use crate::report::Failure;

/// Takes events, all of them or those of the lines that fired, and does what the driver has put
/// off.
pub(crate) fn progress<'m>(
    metal: &Metal<'m>,
    control: &mut Control<Metal<'m>>,
    events: &mut EventSet<Metal<'m>>,
    fired: Option<Lines>,
) -> Result<(), Failure> {
    let mut trouble: Option<AsyncEvent> = None;
    let mut deliver = |event| {
        if let Event::Async(event) = event {
            trouble = Some(event);
        }
    };
    for part in events {
        match fired {
            None => drop(part.poll(&mut deliver)),
            Some(fired) if metal.has_fired(fired, part.vector()) => {
                // The vector is enabled when there is no more.
                while part.on_vector(&mut deliver).more {}
            }
            Some(_) => {}
        }
    }
    // Only where nothing goes on: a queue pair that could not be stopped as it
    // should be is completed by software, and its completions say so.
    match control.progress() {
        Err(error) if error.needs_reset() => return Err(error.into()),
        Err(error) => say!("{error}"),
        Ok(served) if served.reset_needed => return Err(Failure::ResetNeeded),
        Ok(_) => {}
    }
    trouble.map_or(Ok(()), |event| Err(Failure::Event(event)))
}
