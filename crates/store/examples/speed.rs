#![allow(
    clippy::all,
    clippy::pedantic,
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::print_stdout,
    missing_docs
)]
use base::*;
use quayfs_store::*;
use std::sync::Arc;
use std::time::Instant;
fn main() {
    let dir = tempfile::tempdir().unwrap();
    let open = || {
        Store::open(
            Options { dir: dir.path().into(), cache: CacheLimit::default() },
            Arc::new(SystemClock::new()),
            Arc::new(Metrics::new()),
        )
        .unwrap()
    };
    let store = open();
    let small = vec![7u8; 500];
    let n = 10000u32;
    let t = Instant::now();
    for i in 0..n {
        let c = store.cached(&i.to_le_bytes(), 500).unwrap();
        c.fill(0, &small).unwrap();
    }
    println!("cached small new+fill: {:?} each", t.elapsed() / n);
    let t = Instant::now();
    store.checkpoint().unwrap();
    println!("checkpoint {:?}", t.elapsed());
    let t = Instant::now();
    let mut buf = vec![0; 500];
    for i in 0..n {
        let c = store.cached(&i.to_le_bytes(), 500).unwrap();
        assert!(c.read(0, &mut buf).unwrap());
    }
    println!("cached small reopen+read: {:?} each", t.elapsed() / n);
    let t = Instant::now();
    for i in 0..n / 4 {
        let s = store.stage(b"note", Base::Empty).unwrap();
        s.write(0, &small).unwrap();
        let z = s.seal().unwrap();
        store.adopt(&s, z, &(i + 1_000_000).to_le_bytes()).unwrap();
    }
    println!("stage+write+seal+adopt: {:?} each", t.elapsed() / (n / 4));
    let big = vec![9u8; 1 << 20];
    let s = store.stage(b"n", Base::Empty).unwrap();
    let t = Instant::now();
    for i in 0..512u64 {
        s.write(i << 20, &big).unwrap();
    }
    println!("write 512M: {:?}", t.elapsed());
    let t = Instant::now();
    let z = s.seal().unwrap();
    println!("seal {:?}", t.elapsed());
    let t = Instant::now();
    let a = store.adopt(&s, z, b"big").unwrap();
    println!("adopt {:?}", t.elapsed());
    let Adopted::Clean(c) = a else { panic!() };
    let mut b = vec![0u8; 1 << 20];
    let t = Instant::now();
    for i in 0..512u64 {
        assert!(c.read(i << 20, &mut b).unwrap());
    }
    println!("read 512M by 1M: {:?}", t.elapsed());
    let mut b = vec![0u8; 4096];
    let t = Instant::now();
    for i in 0..200_000u64 {
        assert!(c.read((i * 7919 * 4096) % (511 << 20), &mut b).unwrap());
    }
    println!("read 4K: {:?} each", t.elapsed() / 200_000);
    let f = store.cached(b"fill", 512 << 20).unwrap();
    let big = vec![9u8; 1 << 20];
    let t = Instant::now();
    for i in 0..512u64 {
        f.fill(i << 20, &big).unwrap();
    }
    println!("fill 512M: {:?}", t.elapsed());
    let t = Instant::now();
    let s = store.stage(b"n", Base::Take(f)).unwrap();
    println!("take {:?}", t.elapsed());
    let t = Instant::now();
    for i in 0..1000u64 {
        s.write(i * 400_000, b"edit").unwrap();
    }
    println!("random edits: {:?} each", t.elapsed() / 1000);
    let t = Instant::now();
    let z = s.seal().unwrap();
    println!("seal after edits {:?}", t.elapsed());
    store.reject(&s, z);
    store.discard(&s).unwrap();
    drop((s, c));
    drop(store);
    let t = Instant::now();
    let store = open();
    println!("open {:?}", t.elapsed());
    drop(store);
}
