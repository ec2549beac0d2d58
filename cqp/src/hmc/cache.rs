//! The host memory cache of a function: committed, backed, grown, taken down.

use core::ops::Range;

use e810_hal::bus::PfId;
use e810_hal::{HostBuf, Platform, log_error, log_info};

use super::capacity::{Backing, Capacity};
use super::layout::{Layout, MAX_SEGMENTS};
use super::object::Object;
use super::pble::PblePool;
use super::plan::{self, Plan};
use super::query::FpmQuery;
use super::segments::Segments;
use super::store::Store;
use crate::cqp::Cqp;
use crate::error::Result;

/// The HMC of a function.
///
/// Made by [`Hmc::create`] once per CQP, before the CCQ is attached. If it is dropped its memory
/// is leaked, because the device may still use it: call [`Hmc::destroy`], or
/// [`Hmc::release_after_reset`].
#[derive(Debug)]
#[must_use = "dropping an HMC leaks its memory: call destroy() or release_after_reset()"]
pub struct Hmc<P: Platform> {
    pub(super) function: PfId,
    pub(super) layout: Layout,
    pub(super) backing: Backing,
    pub(super) store: Store<P>,
    pub(super) segments: HostBuf<P>,
    /// Segments of an UPDATE_PE_SDS that was not answered in time.
    pub(super) unanswered: Option<Range<u32>>,
    pub(super) pbles: PblePool<P>,
}

impl<P: Platform> Hmc<P> {
    /// Upper limits of the allocations of host memory for a capacity, in 64-bit words each: for
    /// segments, for PBLEs, and for memory.
    #[must_use]
    pub const fn host_words(capacity: &Capacity) -> [usize; 3] {
        [
            MAX_SEGMENTS as usize,
            PblePool::<P>::host_words(plan::pbles(capacity)),
            Store::<P>::HOST_WORDS,
        ]
    }

    /// Commits the plan's counts, backs what its policy requires, and tells the device so
    /// (control-path 3.1 steps 11 to 13).
    ///
    /// # Errors
    /// [`Error::Dma`](crate::Error::Dma),
    /// [`Error::HostMemory`](crate::Error::HostMemory),
    /// [`Error::Reply`](crate::Error::Reply),
    /// [`Error::Segments`](crate::Error::Segments), and those of
    /// [`Cqp::execute`]. Segments that were programmed are cleared and their memory is freed,
    /// unless the device may still use it.
    pub fn create(cqp: &mut Cqp<P>, query: &FpmQuery, plan: &Plan) -> Result<Self> {
        let layout = Layout::commit(cqp, &plan.counts, query)?;
        let platform = cqp.platform();
        let segments = HostBuf::new(platform.clone(), layout.segments() as usize)?;
        let pbles = PblePool::new(platform.clone(), layout.area(Object::Pble))?;
        let mut hmc = Self {
            function: cqp.function(),
            layout,
            backing: plan.backing,
            store: Store::new(platform.clone(), layout.segments())?,
            segments,
            unanswered: None,
            pbles,
        };
        match hmc.back_static(cqp) {
            Ok(()) => {
                log_info!("HMC backed with {} bytes", hmc.backed_bytes());
                Ok(hmc)
            }
            Err(error) => {
                if let Err(second) = hmc.destroy(cqp) {
                    log_error!("while undoing the HMC: {}", second);
                }
                Err(error)
            }
        }
    }

    /// Where the objects are.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Bytes of host memory the device has been given.
    #[must_use]
    pub fn backed_bytes(&self) -> u64 {
        self.store.bytes()
    }

    /// Free PBLEs, and all PBLEs.
    #[must_use]
    pub fn pbles(&self) -> (u32, u32) {
        (self.pbles.free_entries(), self.pbles.entries())
    }

    /// Makes sure that object `index` has backing. Call it before the first command that names
    /// the id; with [`Backing::Full`] it does nothing.
    ///
    /// # Errors
    /// [`Error::NoObject`](crate::Error::NoObject);
    /// [`Error::Dma`](crate::Error::Dma),
    /// [`Error::Allocations`](crate::Error::Allocations) and those of
    /// [`Cqp::execute`]: then the object may be tried again.
    pub fn ensure(&mut self, cqp: &mut Cqp<P>, object: Object, index: u32) -> Result<()> {
        let (from, to) = self.layout.object(object, index)?;
        self.back(cqp, from, to)
    }

    /// Takes the HMC down: page descriptors, then segments, then the memory (control-path 3.4).
    /// Nothing in it may be in use any more.
    ///
    /// # Errors
    /// Those of [`Cqp::execute`]; the memory is then leaked.
    pub fn destroy(mut self, cqp: &mut Cqp<P>) -> Result<()> {
        match self.clear(cqp) {
            Ok(()) => {
                self.store.release();
                log_info!("HMC taken down");
                Ok(())
            }
            Err(error) => {
                log_error!("HMC memory is leaked: {}", error);
                Err(error)
            }
        }
    }

    /// Frees all memory without a command to the device, which must have been reset.
    pub fn release_after_reset(self) {
        self.store.release();
    }

    pub(super) fn table(&self) -> Segments<'_> {
        Segments(self.segments.words())
    }
}
