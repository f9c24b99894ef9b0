//! The thread at the other end of a session over kernel sockets, and what it shares with whoever orders its slices.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};

use rustix::net::Shutdown;
use tollgate_run::PathId;

use super::server::{Job, serve};
use super::socket::{End, Options};
use crate::error::Error;
use crate::slice::{Control, OtherEnd};
use crate::spec::Spec;
use crate::stamps::Stamps;

/// The other end: a thread that sleeps between slices. It ends when this is dropped.
pub(crate) struct ServerThread {
    path: PathId,
    control: Arc<Control>,
    stamps: Arc<Stamps>,
    listeners: Arc<Vec<OwnedFd>>,
    /// A socket on which the thread may sleep, when nobody else wakes it by closing the other side.
    wakes: Option<End>,
    thread: Option<JoinHandle<()>>,
    id: u32,
}

impl ServerThread {
    /// Starts the thread. `wakes` is the same end as the one in `job`: it is shut down when the thread ends, and to make it end.
    pub(crate) fn start(
        path: PathId,
        spec: &Spec,
        options: Options,
        core: usize,
        job: Job,
        listeners: Vec<OwnedFd>,
        wakes: Option<End>,
    ) -> Result<Self, Error> {
        let control = Arc::new(Control::new());
        let stamps = Arc::new(Stamps::default());
        let listeners = Arc::new(listeners);
        let ends = wakes.as_ref().map(End::again).transpose()?;
        let (tell, told) = mpsc::sync_channel(1);
        let thread = thread::Builder::new()
            .name(thread_name())
            .spawn({
                let (spec, control) = (spec.clone(), Arc::clone(&control));
                let (stamps, listeners) = (Arc::clone(&stamps), Arc::clone(&listeners));
                move || {
                    // Nobody listens when the session could not be opened after all.
                    let _ = tell.send(thread_id());
                    serve(
                        path, &spec, options, core, &control, job, &listeners, &stamps,
                    );
                    if let Some(end) = ends {
                        // The one who holds `wakes` keeps the socket open; one that is closed already refuses.
                        let _ = end.shutdown(Shutdown::Both);
                    }
                }
            })
            .map_err(|error| Error::system(path, "starting a thread", error))?;
        Ok(Self {
            path,
            control,
            stamps,
            listeners,
            wakes,
            thread: Some(thread),
            id: told.recv().unwrap_or(0),
        })
    }

    /// The thread's id.
    pub(super) const fn id(&self) -> u32 {
        self.id
    }

    /// The thread's name.
    #[cfg(test)]
    pub(super) fn name(&self) -> Option<&str> {
        self.thread.as_ref()?.thread().name()
    }

    /// The words by which slices are ordered.
    pub(crate) const fn control(&self) -> &Arc<Control> {
        &self.control
    }

    /// The stamps of the thread.
    pub(super) const fn stamps(&self) -> &Arc<Stamps> {
        &self.stamps
    }
}

impl OtherEnd for ServerThread {
    fn begin(&mut self, iterations: u64) -> Result<(), Error> {
        self.control.begin(self.path, iterations, || Ok(()))
    }

    fn finish(&mut self) -> Result<(), Error> {
        self.control.finish(self.path, || Ok(()))
    }

    fn check(&mut self) -> Result<(), Error> {
        match self.control.failure() {
            Some(reason) => Err(Error::Peer {
                path: self.path,
                reason,
            }),
            None => Ok(()),
        }
    }
}

impl Drop for ServerThread {
    fn drop(&mut self) {
        self.control.quit();
        // It may sleep in recv or accept; both return when their socket is shut down. A socket that is no longer connected
        // refuses, and then nobody sleeps on it.
        if let Some(end) = &self.wakes {
            let _ = end.shutdown(Shutdown::Both);
        }
        for listener in self.listeners.iter() {
            let _ = rustix::net::shutdown(listener, Shutdown::Both);
        }
        if let Some(thread) = self.thread.take() {
            // A panic of that thread has been reported by the panic hook.
            let _ = thread.join();
        }
    }
}

/// A name for the thread that no other session has; Linux shows 15 characters of it.
pub(super) fn thread_name() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("tg-peer-{}", COUNT.fetch_add(1, Ordering::Relaxed))
}

/// The calling thread's id.
pub(super) fn thread_id() -> u32 {
    rustix::thread::gettid().as_raw_nonzero().get() as u32
}
