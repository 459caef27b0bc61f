//! How long a virtual machine's idle processors look for work before they are given up: as the kernel has it, unless
//! somebody has changed it. With 0 each message to a sleeping program takes several times as long.

use std::fs;

const GOVERNOR: &str = "/sys/devices/system/cpu/cpuidle/current_governor";
const HALT_POLL: &str = "/sys/module/haltpoll/parameters/guest_halt_poll_ns";
/// Of the kernel's source, `drivers/cpuidle/governors/haltpoll.c`.
const DEFAULT: &str = "200000";

/// The kernel's setting in place of the machine's own, which is back when this is dropped.
#[derive(Debug)]
pub(crate) struct Idle {
    /// Where it is another.
    own: Option<String>,
}

impl Idle {
    pub(crate) fn as_the_kernel_has_it() -> Idle {
        let own = read(HALT_POLL).filter(|own| own != DEFAULT);
        let own = own.filter(|_| read(GOVERNOR).as_deref() == Some("haltpoll"));
        let idle = Idle { own };
        idle.set(DEFAULT);
        idle
    }

    /// Does `work` with the machine's own setting; not if that is the kernel's.
    pub(crate) fn as_it_was<T>(&self, work: impl FnOnce() -> T) -> Option<T> {
        self.set(self.own.as_deref()?);
        let done = work();
        self.set(DEFAULT);
        Some(done)
    }

    /// What the page says of it, where there is something to say.
    pub(crate) fn remark(&self) -> Option<String> {
        let own = self.own.as_deref()?;
        Some(format!(
            "Measured with `guest_halt_poll_ns` at {DEFAULT}, the kernel's default, except where it is said: the \
             machine has {own}."
        ))
    }

    fn set(&self, value: &str) {
        if self.own.is_some() {
            fs::write(HALT_POLL, value).expect("the benchmark is run by root");
        }
    }
}

impl Drop for Idle {
    fn drop(&mut self) {
        if let Some(own) = &self.own {
            self.set(own);
        }
    }
}

fn read(path: &str) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}
