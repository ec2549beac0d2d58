//! Stands in for the kernel's one dependency that no registry has: a fork of
//! async-executor without std. It runs tasks in the order they became ready; a
//! kernel without network and without file systems has none.

#![no_std]

use core::cell::OnceCell;
use core::marker::PhantomData;

use async_task::{Runnable, Task};
use concurrent_queue::ConcurrentQueue;

/// An executor for one core. The two types are the fork's locks, which a queue
/// without locks has no use for.
pub struct StaticLocalExecutor<M, R> {
    ready: OnceCell<ConcurrentQueue<Runnable>>,
    locks: PhantomData<(M, R)>,
}

/// The executor, for a task's waker.
struct Home<M: 'static, R: 'static>(&'static StaticLocalExecutor<M, R>);

// SAFETY: the kernel keeps an executor and its tasks on one core, and lets no
// interrupt in while it runs them.
unsafe impl<M, R> Send for Home<M, R> {}
// SAFETY: as above.
unsafe impl<M, R> Sync for Home<M, R> {}

impl<M: 'static, R: 'static> Home<M, R> {
    fn schedule(&self, task: Runnable) {
        // Unbounded and never closed.
        let _ = self.0.ready().push(task);
    }
}

impl<M, R> Default for StaticLocalExecutor<M, R> {
    fn default() -> Self {
        Self::new()
    }
}

impl<M, R> StaticLocalExecutor<M, R> {
    /// Without tasks.
    pub const fn new() -> Self {
        Self {
            ready: OnceCell::new(),
            locks: PhantomData,
        }
    }

    fn ready(&self) -> &ConcurrentQueue<Runnable> {
        self.ready.get_or_init(ConcurrentQueue::unbounded)
    }

    /// Adds a task.
    pub fn spawn<T: Send + 'static>(
        &'static self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> Task<T>
    where
        M: 'static,
        R: 'static,
    {
        let home = Home(self);
        let (runnable, task) = async_task::spawn(future, move |task| home.schedule(task));
        runnable.schedule();
        task
    }

    /// Runs the next task that is ready, if any.
    pub fn try_tick(&self) -> bool {
        match self.ready().pop() {
            Ok(task) => {
                task.run();
                true
            }
            Err(_) => false,
        }
    }
}
