//! Parts of a platform that a wrapper passes on unchanged.

/// Implements [`DmaMap`](e810_hal::DmaMap), [`HostMem`](e810_hal::HostMem),
/// [`Clock`](e810_hal::Clock) and [`InterruptVectors`](e810_hal::InterruptVectors) of a wrapper by
/// those of the platform that its method `inner` returns.
macro_rules! forward {
    ([$($generics:tt)*] $wrapper:ty) => {
        // SAFETY: every call is passed on unchanged to a platform that keeps the contract.
        unsafe impl<$($generics)*> e810_hal::DmaMap for $wrapper {
            fn dma_map(
                &self,
                memory: e810_hal::SharedBytes,
                access: e810_hal::Access,
            ) -> Result<e810_hal::Mapping, e810_hal::DmaError> {
                self.inner().dma_map(memory, access)
            }
            fn dma_segment(
                &self,
                mapping: &e810_hal::Mapping,
                index: u32,
            ) -> Option<e810_hal::DmaSegment> {
                self.inner().dma_segment(mapping, index)
            }
            fn dma_unmap(&self, mapping: e810_hal::Mapping) {
                self.inner().dma_unmap(mapping);
            }
        }

        // SAFETY: as for `DmaMap`.
        unsafe impl<$($generics)*> e810_hal::HostMem for $wrapper {
            fn host_alloc(
                &self,
                words: usize,
            ) -> Result<core::ptr::NonNull<core::sync::atomic::AtomicU64>, e810_hal::NoHostMemory>
            {
                self.inner().host_alloc(words)
            }
            unsafe fn host_free(
                &self,
                memory: core::ptr::NonNull<core::sync::atomic::AtomicU64>,
                words: usize,
            ) {
                // SAFETY: the caller's promise is about the same allocation.
                unsafe { self.inner().host_free(memory, words) }
            }
        }

        impl<$($generics)*> e810_hal::Clock for $wrapper {
            fn now(&self) -> e810_hal::Ns {
                self.inner().now()
            }
            fn delay(&self, time: e810_hal::Ns) {
                self.inner().delay(time);
            }
            fn relax(&self) {
                self.inner().relax();
            }
        }

        impl<$($generics)*> e810_hal::InterruptVectors for $wrapper {
            fn vector_count(&self) -> u16 {
                self.inner().vector_count()
            }
            fn vector_alloc(&self) -> Option<e810_hal::Vector> {
                self.inner().vector_alloc()
            }
            fn vector_free(&self, vector: e810_hal::Vector) {
                self.inner().vector_free(vector);
            }
            fn vector_affinity(&self, vector: e810_hal::Vector, cpu: u32) {
                self.inner().vector_affinity(vector, cpu);
            }
        }
    };
}

pub(crate) use forward;
