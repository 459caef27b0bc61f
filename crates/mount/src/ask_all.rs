//! Asks many at a time: one that stands still keeps whoever asks for seconds.

/// How many are asked at a time.
const ASKED_AT_A_TIME: usize = 32;

/// What `ask` hears of each of `all`, in their order.
pub(crate) fn ask_all<T: Sync, R: Send>(all: &[T], ask: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let ask = &ask;
    let in_turn = all.chunks(ASKED_AT_A_TIME).flat_map(|some| {
        std::thread::scope(|scope| {
            let asking: Vec<_> = some.iter().map(|one| scope.spawn(move || ask(one))).collect();
            let heard = asking.into_iter().map(|asked| asked.join().expect("it does not panic"));
            heard.collect::<Vec<_>>()
        })
    });
    in_turn.collect()
}
