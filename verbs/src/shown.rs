//! Descriptors that a program sees: numbers that it may close and then get again for a file of its
//! own.

use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, IntoRawFd as _, OwnedFd, RawFd};
use std::{fs, io};

/// A descriptor of the library, and the number under which the program knows it.
#[derive(Debug)]
pub(crate) struct Shown {
    /// The descriptor that the library itself uses.
    own: OwnedFd,
    number: RawFd,
}

impl Shown {
    /// Gives a descriptor a number for the program.
    ///
    /// # Errors
    /// No descriptor is left.
    pub(crate) fn new(own: OwnedFd) -> io::Result<Self> {
        let number = own.try_clone()?.into_raw_fd();
        Ok(Self { own, number })
    }

    /// The program's number.
    pub(crate) const fn number(&self) -> RawFd {
        self.number
    }

    /// The library's own.
    pub(crate) fn own(&self) -> BorrowedFd<'_> {
        self.own.as_fd()
    }

    /// Whether the program's number still refers to the same file.
    fn is_there(&self) -> bool {
        let own = self.own.as_raw_fd();
        // KCMP_FILE.
        // SAFETY: numbers.
        let compared = unsafe {
            let process = libc::getpid();
            libc::syscall(libc::SYS_kcmp, process, process, 0, own, self.number)
        };
        match compared {
            -1 => is_alike(own, self.number),
            different => different == 0,
        }
    }
}

/// For kernels and containers that forbid `kcmp`: compares the file. Eventfds share one file, so
/// for them it compares the number in the kernel's description. Without `/proc` another eventfd
/// counts as the same.
fn is_alike(own: RawFd, number: RawFd) -> bool {
    let [one, other] = [own, number].map(|fd| {
        // SAFETY: numbers, and a place for the answer.
        unsafe {
            let mut stat: libc::stat = std::mem::zeroed();
            let found = libc::fstat(fd, &raw mut stat);
            (found == 0).then_some((stat.st_dev, stat.st_ino))
        }
    });
    one.is_some() && one == other && event_id(own) == event_id(number)
}

/// The kernel's number for an eventfd.
fn event_id(fd: RawFd) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/self/fdinfo/{fd}")).ok()?;
    let mut lines = text.lines();
    lines
        .find(|line| line.starts_with("eventfd-id:"))
        .map(str::to_owned)
}

impl Drop for Shown {
    fn drop(&mut self) {
        if self.is_there() {
            // SAFETY: the number was made for the program, which has given it back with the object
            // it belongs to.
            unsafe { libc::close(self.number) };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::FromRawFd as _;

    use super::*;

    fn event() -> OwnedFd {
        // SAFETY: numbers; the new descriptor belongs to this function.
        unsafe { OwnedFd::from_raw_fd(libc::eventfd(0, libc::EFD_CLOEXEC)) }
    }

    fn is_open(number: RawFd) -> bool {
        // SAFETY: a number.
        unsafe { libc::fcntl(number, libc::F_GETFD) >= 0 }
    }

    fn closes_what_is_its_own() {
        let event_of_both = event();
        let shown = Shown::new(event_of_both.try_clone().unwrap()).unwrap();
        let number = shown.number();
        drop(shown);
        // By now it may belong to another test's file.
        assert!(!is_alike(event_of_both.as_raw_fd(), number));

        // As close(2), and then open(2) of something else that gets the number.
        let (shown, other) = (Shown::new(event()).unwrap(), event());
        let number = shown.number();
        // SAFETY: descriptors of this test.
        assert_eq!(unsafe { libc::dup2(other.as_raw_fd(), number) }, number);
        assert!(!is_alike(shown.own().as_raw_fd(), number));
        drop(shown);
        assert!(is_open(number), "another file of the same kind");
        // SAFETY: as above.
        unsafe { libc::close(number) };
        assert!(!is_alike(other.as_raw_fd(), number), "it is closed");
    }

    /// From now on `kcmp` fails in this thread, as with the usual filter of containers.
    fn forbid_kcmp() {
        // BPF: load the number of the call; if it is kcmp, EPERM; else allow it.
        let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
        let mut steps = [
            step(0x20, 0, 0, 0),
            step(0x15, 0, 1, libc::SYS_kcmp as u32),
            step(0x06, 0, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
            step(0x06, 0, 0, libc::SECCOMP_RET_ALLOW),
        ];
        let filter = libc::sock_fprog {
            len: steps.len() as u16,
            filter: steps.as_mut_ptr(),
        };
        let mode = libc::c_ulong::from(libc::SECCOMP_MODE_FILTER);
        // SAFETY: numbers, and a filter that outlives the call; it affects only this thread.
        unsafe {
            assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
            assert_eq!(
                libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const filter),
                0
            );
            let process = libc::getpid();
            assert_eq!(libc::syscall(libc::SYS_kcmp, process, process, 0, 0, 0), -1);
        }
    }

    /// In one test, one after the other: each relies on numbers that nobody else takes meanwhile.
    #[test]
    fn a_number_is_closed_unless_the_program_has_it_for_something_else() {
        closes_what_is_its_own();
        let in_a_container = || {
            forbid_kcmp();
            closes_what_is_its_own();
        };
        std::thread::spawn(in_a_container).join().unwrap();
    }
}
