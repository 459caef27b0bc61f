//! The thread of one processor: takes requests, has them answered, hands in the replies.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use io_uring::squeue::Entry128;
use io_uring::{EnterFlags, IoUring, cqueue, opcode, types};

use crate::answer::Core;
use crate::channel::Channel;
use crate::cpus;
use crate::ring::inbox::{Done, Inbox, Next, SeatOutlet};
use crate::ring::seats::{Buffer, Seats};
use crate::ticket::Outlet;

/// `FUSE_IO_URING_CMD_REGISTER`: here is a seat for requests.
const REGISTER: u32 = 1;

/// `FUSE_IO_URING_CMD_COMMIT_AND_FETCH`: here is a reply, and its seat is free again.
const COMMIT_AND_FETCH: u32 = 2;

/// How often the kernel is asked to take registrations that it has had no memory for.
const REGISTER_TRIES: u32 = 100;

/// What payloads may keep of memory, over all threads.
const WARM_BYTES_MAX: usize = 32 << 20;

/// Says that the bell has rung.
const BELL: u64 = u64::MAX;

/// The queues that one thread serves.
pub(crate) struct Queue {
    ring: Ring,
    cpu: usize,
    ids: Vec<usize>,
    seats_of_each: usize,
    seats: Seats,
    inbox: Arc<Inbox>,
}

type Ring = IoUring<Entry128, cqueue::Entry>;

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seats = self.seats.count();
        f.debug_struct("Queue")
            .field("ids", &self.ids)
            .field("seats", &seats)
            .finish_non_exhaustive()
    }
}

/// Where a seat is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seat {
    /// The kernel's, which has never put a request into it.
    New,
    /// The kernel's.
    Waiting,
    /// Ours, with a request that the kernel calls so.
    Taken { commit: u64 },
    /// The kernel uses it no more.
    Gone,
}

impl Queue {
    /// Queues with these numbers, with so many seats each, to be served on `cpu` by one of
    /// `threads` threads.
    pub(super) fn new(
        cpu: usize,
        ids: Vec<usize>,
        seats_of_each: usize,
        threads: usize,
    ) -> io::Result<Queue> {
        let seats = Seats::new(ids.len() * seats_of_each, WARM_BYTES_MAX / threads)?;
        // Each seat and the bell have at most one submission and one completion at a time.
        let entries = u32::try_from((seats.count() + 1).next_power_of_two());
        let entries = entries.map_err(io::Error::other)?;
        // The ring belongs to the thread that enables it.
        let ring = IoUring::builder()
            .setup_single_issuer()
            .setup_coop_taskrun()
            .setup_defer_taskrun()
            .setup_r_disabled()
            .build(entries)?;
        let inbox = Arc::new(Inbox::new()?);
        Ok(Queue { ring, cpu, ids, seats_of_each, seats, inbox })
    }

    pub(super) fn inbox(&self) -> Arc<Inbox> {
        Arc::clone(&self.inbox)
    }

    pub(super) fn served(self, channel: Channel) -> Served {
        let count = self.seats.count();
        let outlet = |seat| {
            let outlet: Arc<dyn Outlet> = Arc::new(SeatOutlet { inbox: self.inbox(), seat });
            outlet
        };
        let outlets = (0..count).map(outlet).collect();
        let (states, rung) = (vec![Seat::New; count], Box::new([0; 8]));
        Served {
            outlets,
            states,
            rung,
            channel,
            done: Vec::new(),
            ended: false,
            in_use: false,
            queue: self,
        }
    }
}

/// [`Queue`]s while they are served.
pub(crate) struct Served {
    // First, since its ring is to be closed before `rung` goes, to which it points.
    queue: Queue,
    channel: Channel,
    states: Vec<Seat>,
    outlets: Vec<Arc<dyn Outlet>>,
    done: Vec<Done>,
    /// What is read from the bell, which nobody looks at.
    rung: Box<[u8; 8]>,
    ended: bool,
    /// Whether a request has ever come.
    in_use: bool,
}

impl Served {
    /// Answers what comes until the end of the mount. Drops `registering` when the kernel has all
    /// seats: to unmount while it is getting them may hang for ever.
    pub(crate) fn run(mut self, core: &Arc<Core>, registering: Sender<()>) -> io::Result<()> {
        cpus::stay_on(self.queue.cpu);
        self.queue.ring.submitter().register_enable_rings()?;
        self.register_seats()?;
        drop(registering);
        self.listen_to_bell()?;
        let mut arrived = Vec::new();
        loop {
            self.send_replies()?;
            // Who waits for the network needs nothing of his request any more.
            for seat in arrived.drain(..) {
                if matches!(self.states[seat], Seat::Taken { .. }) {
                    self.queue.seats.cool_if_too_warm(seat);
                }
            }
            if self.is_over()? {
                return Ok(());
            }
            if self.queue.inbox.sleep(self.ended) == Next::Look {
                continue;
            }
            self.wait()?;
            self.queue.inbox.wake();
            self.take_requests(core, &mut arrived)?;
        }
    }

    fn register_seats(&mut self) -> io::Result<()> {
        let buffers: Vec<[Buffer; 2]> =
            (0..self.states.len()).map(|seat| self.queue.seats.buffers(seat)).collect();
        for (seat, buffers) in buffers.iter().enumerate() {
            let command = self.command(REGISTER, seat, 0, Some(buffers));
            self.push(&command)?;
        }
        // What the kernel is told of the buffers it reads when it takes the registration.
        for _ in 0..REGISTER_TRIES {
            self.queue.ring.submit()?;
            if self.queue.ring.submission().is_empty() {
                return Ok(());
            }
        }
        Err(io::Error::other("the kernel does not take the registrations"))
    }

    fn listen_to_bell(&mut self) -> io::Result<()> {
        let bell = types::Fd(self.queue.inbox.bell());
        let read = opcode::Read::new(bell, self.rung.as_mut_ptr(), 8).build().user_data(BELL);
        self.push(&read.into())
    }

    /// `struct fuse_uring_cmd_req`, in a submission.
    fn command(
        &self,
        command: u32,
        seat: usize,
        commit: u64,
        buffers: Option<&[Buffer; 2]>,
    ) -> Entry128 {
        let queue = self.queue.ids[seat / self.queue.seats_of_each];
        let mut fields = [0; 80];
        fields[8..16].copy_from_slice(&commit.to_ne_bytes());
        let queue = u16::try_from(queue).expect("there are at most 512 queues");
        fields[16..18].copy_from_slice(&queue.to_ne_bytes());
        let device = types::Fd(self.channel.as_raw_fd());
        let mut built = opcode::UringCmd80::new(device, command)
            .cmd(fields)
            .addr(buffers.map(|buffers| buffers.as_ptr() as u64))
            .build()
            .user_data(seat as u64);
        if buffers.is_some() {
            set_len(&mut built, 2);
        }
        built
    }

    fn push(&mut self, entry: &Entry128) -> io::Result<()> {
        // SAFETY: what the entry points to, buffers of seats, their registration and `rung`, lives
        // until it has been read or the ring is closed.
        unsafe { self.queue.ring.submission().push(entry) }.map_err(io::Error::other)
    }

    /// Hands in what was prepared, and waits for whatever comes.
    fn wait(&mut self) -> io::Result<()> {
        use rustix::io::Errno;
        let ring = &mut self.queue.ring;
        let mut flags = EnterFlags::GETEVENTS;
        // Who waits for a request waits for no disk: a mount that rests would count as load and as pressure.
        if ring.params().is_feature_no_iowait() {
            flags |= EnterFlags::NO_IOWAIT;
        }
        let prepared = u32::try_from(ring.submission().len()).map_err(io::Error::other)?;
        // SAFETY: there is no argument, so no memory but the ring's own is looked at.
        match unsafe { ring.submitter().enter::<()>(prepared, 1, flags.bits(), None) } {
            Ok(_) => Ok(()),
            Err(error) => match Errno::from_io_error(&error) {
                // Completions first, then again.
                Some(Errno::INTR | Errno::AGAIN | Errno::BUSY) => Ok(()),
                _ => Err(error),
            },
        }
    }

    fn take_requests(&mut self, core: &Arc<Core>, arrived: &mut Vec<usize>) -> io::Result<()> {
        loop {
            let next = self.queue.ring.completion().next();
            let Some(completed) = next else { return Ok(()) };
            let (what, result) = (completed.user_data(), completed.result());
            let error = (result < 0).then(|| rustix::io::Errno::from_raw_os_error(-result));
            if what == BELL {
                self.bell_rang(error)?;
                continue;
            }
            let seat = usize::try_from(what).map_err(io::Error::other)?;
            if let Some(error) = error {
                self.lose(seat, error)?;
                continue;
            }
            let Some(request) = self.queue.seats.request(seat) else {
                return Err(io::Error::other("the kernel sent half a request"));
            };
            self.states[seat] = Seat::Taken { commit: request.commit };
            self.in_use = true;
            core.take(&request.header, request.fixed, request.rest, &self.outlets[seat]);
            arrived.push(seat);
            // What is answered at once leaves its buffer at once, to the next answer: many of them together
            // are more than the allocator keeps, and cold when they are copied.
            self.send_replies()?;
        }
    }

    /// Puts the replies that there are into their seats, to be handed in together.
    fn send_replies(&mut self) -> io::Result<()> {
        let mut done = std::mem::take(&mut self.done);
        self.ended |= self.queue.inbox.take(&mut done);
        for Done { seat, unique, outcome } in done.drain(..) {
            let Seat::Taken { commit } = self.states[seat] else { continue };
            self.queue.seats.reply(seat, unique, &outcome);
            let command = self.command(COMMIT_AND_FETCH, seat, commit, None);
            self.states[seat] = Seat::Waiting;
            self.push(&command)?;
        }
        self.done = done;
        Ok(())
    }

    fn bell_rang(&mut self, error: Option<rustix::io::Errno>) -> io::Result<()> {
        use rustix::io::Errno;
        match error {
            None | Some(Errno::INTR | Errno::AGAIN) => self.listen_to_bell(),
            Some(error) => Err(error.into()),
        }
    }

    /// The kernel uses a seat no more: at the end of the mount, or because it never wanted it. With
    /// any other the reply to a request is lost, whose caller would wait for ever.
    fn lose(&mut self, seat: usize, error: rustix::io::Errno) -> io::Result<()> {
        use rustix::io::Errno;
        let was = std::mem::replace(&mut self.states[seat], Seat::Gone);
        let ends = [Errno::NOTCONN, Errno::CONNABORTED, Errno::CANCELED, Errno::NODEV];
        self.ended |= ends.contains(&error);
        if self.ended || was == Seat::New {
            tracing::debug!(seat, %error, "a seat is out of use");
            return Ok(());
        }
        Err(error.into())
    }

    /// Whether nothing will come any more.
    fn is_over(&self) -> io::Result<bool> {
        let any = |wanted: fn(&Seat) -> bool| self.states.iter().any(wanted);
        if any(|seat| matches!(seat, Seat::New | Seat::Waiting)) {
            return Ok(false);
        }
        if self.ended {
            return Ok(true);
        }
        if any(|seat| matches!(seat, Seat::Taken { .. })) {
            return Ok(false);
        }
        if self.in_use {
            return Err(io::Error::other("the kernel took all seats out of use"));
        }
        tracing::warn!("the kernel wants no io_uring after all: requests come by /dev/fuse");
        Ok(true)
    }
}

/// The length of a submission, which the library has no word for in this kind of them.
fn set_len(entry: &mut Entry128, len: u32) {
    /// Of `len` in `struct io_uring_sqe`.
    const AT: usize = 24;
    let entry: *mut u8 = std::ptr::from_mut(entry).cast();
    // SAFETY: an entry has 128 bytes, laid out as the kernel has them, `len` among the first 64.
    let field = unsafe { entry.add(AT) };
    // SAFETY: as above; and four bytes at 24 are as well aligned as the entry.
    unsafe { field.cast::<u32>().write_unaligned(len) };
}
