//! Parts of a platform that a wrapper passes on unchanged.

/// Implements traits of a platform for a wrapper, by those of the platform that its method `inner`
/// (or of another name) returns: `forward!([P: Platform] Wrapper<P>, inner: DmaMap, Clock)`.
///
/// The traits are [`DmaAlloc`](crate::DmaAlloc), [`DmaMap`](crate::DmaMap),
/// [`HostMem`](crate::HostMem), [`Clock`](crate::Clock), [`Barrier`](crate::Barrier) and
/// [`InterruptVectors`](crate::InterruptVectors).
#[macro_export]
macro_rules! forward {
    ($generics:tt $wrapper:ty, $inner:ident: $($name:ident),+ $(,)?) => {
        $($crate::forward_one!($name $generics $wrapper, $inner);)+
    };
}

/// One of the traits of [`forward!`](crate::forward).
#[doc(hidden)]
#[macro_export]
macro_rules! forward_one {
    (DmaAlloc [$($generics:tt)*] $wrapper:ty, $inner:ident) => {
        // SAFETY: every call is passed on unchanged to a platform that keeps the contract.
        unsafe impl<$($generics)*> $crate::DmaAlloc for $wrapper {
            fn dma_alloc(&self, layout: $crate::DmaLayout) -> Result<$crate::RawDma, $crate::DmaError> {
                self.$inner().dma_alloc(layout)
            }
            unsafe fn dma_free(&self, raw: $crate::RawDma) {
                // SAFETY: the caller's promise is about the same allocation.
                unsafe { self.$inner().dma_free(raw) }
            }
        }
    };
    (DmaMap [$($generics:tt)*] $wrapper:ty, $inner:ident) => {
        // SAFETY: as for `DmaAlloc`.
        unsafe impl<$($generics)*> $crate::DmaMap for $wrapper {
            fn dma_map(
                &self,
                memory: $crate::SharedBytes,
                access: $crate::Access,
            ) -> Result<$crate::Mapping, $crate::DmaError> {
                self.$inner().dma_map(memory, access)
            }
            fn dma_map_program(
                &self,
                memory: $crate::ProgramBytes,
                access: $crate::Access,
            ) -> Result<$crate::Mapping, $crate::DmaError> {
                self.$inner().dma_map_program(memory, access)
            }
            fn dma_segment(
                &self,
                mapping: &$crate::Mapping,
                index: u32,
            ) -> Option<$crate::DmaSegment> {
                self.$inner().dma_segment(mapping, index)
            }
            fn dma_unmap(&self, mapping: $crate::Mapping) {
                self.$inner().dma_unmap(mapping);
            }
        }
    };
    (HostMem [$($generics:tt)*] $wrapper:ty, $inner:ident) => {
        // SAFETY: as for `DmaAlloc`.
        unsafe impl<$($generics)*> $crate::HostMem for $wrapper {
            fn host_alloc(
                &self,
                words: usize,
            ) -> Result<core::ptr::NonNull<core::sync::atomic::AtomicU64>, $crate::NoHostMemory> {
                self.$inner().host_alloc(words)
            }
            unsafe fn host_free(
                &self,
                memory: core::ptr::NonNull<core::sync::atomic::AtomicU64>,
                words: usize,
            ) {
                // SAFETY: the caller's promise is about the same allocation.
                unsafe { self.$inner().host_free(memory, words) }
            }
        }
    };
    (Clock [$($generics:tt)*] $wrapper:ty, $inner:ident) => {
        impl<$($generics)*> $crate::Clock for $wrapper {
            fn now(&self) -> $crate::Ns {
                self.$inner().now()
            }
            fn delay(&self, time: $crate::Ns) {
                self.$inner().delay(time);
            }
            fn relax(&self) {
                self.$inner().relax();
            }
        }
    };
    (Barrier [$($generics:tt)*] $wrapper:ty, $inner:ident) => {
        impl<$($generics)*> $crate::Barrier for $wrapper {
            fn to_device(&self) {
                self.$inner().to_device();
            }
            fn from_device(&self) {
                self.$inner().from_device();
            }
            fn flush_wc(&self) {
                self.$inner().flush_wc();
            }
        }
    };
    (InterruptVectors [$($generics:tt)*] $wrapper:ty, $inner:ident) => {
        impl<$($generics)*> $crate::InterruptVectors for $wrapper {
            fn vector_count(&self) -> u16 {
                self.$inner().vector_count()
            }
            fn vector_alloc(&self) -> Option<$crate::Vector> {
                self.$inner().vector_alloc()
            }
            fn vector_free(&self, vector: $crate::Vector) {
                self.$inner().vector_free(vector);
            }
            fn vector_affinity(&self, vector: $crate::Vector, cpu: u32) {
                self.$inner().vector_affinity(vector, cpu);
            }
        }
    };
}
