//! Holds calls back until a test lets them through, so that tests order events without sleeping.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{Semaphore, watch};

use super::Op;

/// Calls of one kind, or of all kinds, wait here; dropping it lets all of them through.
#[derive(Debug)]
pub struct Gate {
    state: Arc<GateState>,
    gates: Arc<Mutex<Vec<Arc<GateState>>>>,
}

/// The gates that are shut.
#[derive(Debug, Default)]
pub(super) struct Gates {
    shut: Arc<Mutex<Vec<Arc<GateState>>>>,
}

#[derive(Debug)]
struct GateState {
    /// `None` for all kinds.
    op: Option<Op>,
    arrived: watch::Sender<usize>,
    // Closed when the gate is dropped.
    passes: Semaphore,
}

impl Gates {
    pub(super) fn shut(&self, op: Option<Op>) -> Gate {
        let arrived = watch::Sender::new(0);
        let state = Arc::new(GateState { op, arrived, passes: Semaphore::new(0) });
        self.shut.lock().push(Arc::clone(&state));
        Gate { state, gates: Arc::clone(&self.shut) }
    }

    /// Waits at the gate for `op`, if there is one.
    pub(super) async fn pass(&self, op: Op) {
        let gate =
            self.shut.lock().iter().find(|gate| gate.op.is_none_or(|held| held == op)).cloned();
        if let Some(gate) = gate {
            gate.arrived.send_modify(|arrived| *arrived += 1);
            // An error means that the gate is gone.
            if let Ok(pass) = gate.passes.acquire().await {
                pass.forget();
            }
        }
    }
}

impl Gate {
    /// Waits until `calls` have come to the gate since it was shut.
    pub async fn arrived(&self, calls: usize) {
        let mut arrived = self.state.arrived.subscribe();
        let reached = arrived.wait_for(|&arrived| calls <= arrived).await;
        reached.expect("the gate itself holds the sender");
    }

    /// How many calls have come to the gate since it was shut.
    pub fn count(&self) -> usize {
        *self.state.arrived.borrow()
    }

    /// Lets so many calls through, now or when they come.
    pub fn let_through(&self, calls: usize) {
        self.state.passes.add_permits(calls);
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.gates.lock().retain(|gate| !Arc::ptr_eq(gate, &self.state));
        self.state.passes.close();
    }
}
