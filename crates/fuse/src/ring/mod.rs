//! Requests and replies through `io_uring`, one queue for each processor.
//!
//! Who asks is answered by a thread that stays on the processor that he runs on: no other processor
//! has to be woken, which costs more than most requests do, most of all in virtual machines, and
//! the reply to one request and the wait for the next are one system call. The kernel has it since
//! Linux 6.14, where root has switched it on (`/sys/module/fuse/parameters/enable_uring`); the
//! interface is described in its `Documentation/filesystems/fuse/fuse-io-uring.rst`.
//!
//! Forgets, interrupts and notices still go by `/dev/fuse`; all else waits until every queue is
//! registered.
//!
//! A queue has one thread, so that whatever a service does before it answers, or says that it will
//! answer later, holds up the other requests of that processor.

mod inbox;
mod queue;
mod seats;

use std::fs;
use std::io;
use std::sync::Arc;

use base::Affinity;

use crate::channel::Channel;
use crate::cpus;
use crate::ring::inbox::Inbox;
use crate::ring::queue::Queue;

/// The pages that seats are made for.
const PAGE_BYTES: usize = 4096;

/// Where root switches it on, for all FUSE file systems of the machine.
pub const RING_SWITCH: &str = "/sys/module/fuse/parameters/enable_uring";

/// Requests under way at once over all queues, if these are few, and those of one queue. A request
/// that waits for the network has its seat until it is answered, and what comes to a queue without
/// a free seat waits too: so there are many. A seat is address space, and takes memory only while
/// it is used.
const SEATS_MAX: usize = 8192;
const SEATS_OF_QUEUE_MAX: usize = 2048;
const SEATS_OF_QUEUE_MIN: usize = 256;

/// More processors than most machines can have; who has more uses the device.
const QUEUES_MAX: usize = 512;

/// Whether to take requests through `io_uring`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RingWish {
    /// Where root has switched it on, and the system lets us.
    Wanted,
    /// Not at all.
    Off,
}

/// How requests come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// By reading `/dev/fuse`.
    Device,
    /// Through `io_uring`.
    Rings,
}

/// Queues for which all is ready but the kernel's word.
#[derive(Debug)]
pub(crate) struct Rings(Vec<Queue>);

/// Ends the queues' threads when it is dropped, which is when the mount has ended.
#[derive(Debug)]
pub(crate) struct Bells(Vec<Arc<Inbox>>);

impl Drop for Bells {
    fn drop(&mut self) {
        for inbox in &self.0 {
            inbox.close();
        }
    }
}

impl Rings {
    /// Everything that can fail, before the kernel is told: once it waits for the queues, it waits
    /// for all of them. None where rings are not wanted or not to be had.
    pub(crate) fn prepare(wish: RingWish) -> Option<Rings> {
        if wish == RingWish::Off || ring_switch() != RingSwitch::On {
            return None;
        }
        let made = cpus::possible().ok_or_else(|| io::Error::other("how many processors?"));
        match made.and_then(Rings::of) {
            Ok(rings) => Some(rings),
            Err(error) => {
                tracing::info!(%error, "no io_uring here: requests come by /dev/fuse");
                None
            }
        }
    }

    /// A queue for each possible processor, a thread for each that we may use: the others' queues
    /// are shared out.
    fn of(count: usize) -> io::Result<Rings> {
        if count > QUEUES_MAX {
            return Err(io::Error::other("too many processors"));
        }
        // The kernel's smallest buffer for a request is counted in its pages.
        if rustix::param::page_size() != PAGE_BYTES {
            return Err(io::Error::other("pages are not of 4 KiB"));
        }
        let ours = Affinity::of_this_thread().numbers(count);
        if ours.is_empty() {
            return Err(io::Error::other("none of the processors is ours"));
        }
        let seats = (SEATS_MAX / count).clamp(SEATS_OF_QUEUE_MIN, SEATS_OF_QUEUE_MAX);
        let others: Vec<usize> = (0..count).filter(|cpu| !ours.contains(cpu)).collect();
        let queues = ours.iter().enumerate().map(|(index, &cpu)| {
            let shared = others.iter().skip(index).step_by(ours.len()).copied();
            let ids = std::iter::once(cpu).chain(shared).collect();
            Queue::new(cpu, ids, seats, ours.len())
        });
        Ok(Rings(queues.collect::<io::Result<_>>()?))
    }

    /// What ends the threads that serve [`Rings::queues`].
    pub(crate) fn bells(&self) -> Bells {
        Bells(self.0.iter().map(Queue::inbox).collect())
    }

    /// One for each thread.
    pub(crate) fn queues(self, channel: &Channel) -> impl Iterator<Item = queue::Served> {
        self.0.into_iter().map(|queue| queue.served(channel.clone()))
    }
}

/// What the kernel says of requests through `io_uring`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RingSwitch {
    /// It has none, or does not tell us.
    Unknown,
    /// It would, if root wanted it.
    Off,
    /// It does so for mounts to come.
    On,
}

/// Whether the kernel offers it at all.
pub fn ring_switch() -> RingSwitch {
    match fs::read_to_string(RING_SWITCH) {
        Ok(text) if matches!(text.trim(), "Y" | "1") => RingSwitch::On,
        Ok(_) => RingSwitch::Off,
        Err(_) => RingSwitch::Unknown,
    }
}
