//! Small files that are fetched because others of their folder are read.

#![allow(clippy::unwrap_used, reason = "a test ends at its first surprise")]

mod world;

use quayfs_vfs::Access;
use remote::fake::{Fake, Op};
use remote::{Key, Metadata};
use world::World;

const SMALL: u16 = 16 << 10;

fn world(files: usize) -> World {
    let bucket = Fake::new();
    for number in 0..files {
        bucket.insert(
            &Key::from(file(number).as_str()),
            vec![7; usize::from(SMALL)],
            Metadata::new(),
        );
    }
    World::over(bucket)
}

fn file(number: usize) -> String {
    format!("f{number:04}")
}

async fn read(world: &World, number: usize) {
    let handle = world.open(&file(number), Access::Read).await;
    assert_eq!(world.read(handle, 0, SMALL.into()).await, vec![7; usize::from(SMALL)]);
    world.vfs.release(handle).unwrap();
}

async fn until_gets(world: &World, gets: u64) {
    while world.bucket.calls(Op::Get) < gets {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_read_in_order_is_there_before_it_is_read() {
    // More than are ever fetched as a whole for so few opens.
    let world = world(900);
    for number in 0..3 {
        read(&world, number).await;
    }
    until_gets(&world, 3 + 8).await;
    // These are on their way at most: who opens them asks for nothing.
    let ahead = world.bucket.hold(Op::Get);
    for number in 3..8 {
        read(&world, number).await;
    }
    drop(ahead);
}

#[tokio::test(flavor = "multi_thread")]
async fn each_file_of_a_folder_is_fetched_once_by_whomever() {
    let world = world(300);
    for number in 0..300 {
        read(&world, number).await;
    }
    assert_eq!(world.bucket.calls(Op::Get), 300);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_opens_a_file_that_is_on_its_way_waits_for_that() {
    let world = world(900);
    for number in 0..2 {
        read(&world, number).await;
    }
    let gate = world.bucket.hold(Op::Get);
    let third = world.open(&file(2), Access::Read).await;
    gate.arrived(1).await;
    let fourth = world.open(&file(3), Access::Read).await;
    let reading = tokio::spawn(world.vfs().read(fourth, 0, SMALL.into()));
    let before = tokio::spawn(world.vfs().read(third, 0, SMALL.into()));
    gate.let_through(usize::from(u8::MAX));
    assert_eq!(reading.await.unwrap().unwrap().len(), usize::from(SMALL));
    assert_eq!(before.await.unwrap().unwrap().len(), usize::from(SMALL));
    drop(gate);
    for number in 0..900 {
        read(&world, number).await;
    }
    assert_eq!(world.bucket.calls(Op::Get), 900);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_that_is_read_here_and_there_is_fetched_as_a_whole() {
    let world = world(100);
    for number in (0..8).map(|at| at * 37 % 100) {
        read(&world, number).await;
    }
    until_gets(&world, 100).await;
    for number in 0..100 {
        read(&world, number).await;
    }
    assert_eq!(world.bucket.calls(Op::Get), 100);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_cannot_be_fetched_ahead_is_fetched_when_it_is_read() {
    let world = world(900);
    for number in 0..2 {
        read(&world, number).await;
    }
    world.bucket.fail_next(Op::Get, remote::ErrorKind::Changed);
    // Whose turn the failure is, it is told to nobody but its reader.
    let handle = world.open(&file(2), Access::Read).await;
    until_gets(&world, 3).await;
    let _ = world.vfs().read(handle, 0, SMALL.into()).await;
    world.vfs.release(handle).unwrap();
    for number in 3..30 {
        read(&world, number).await;
    }
}
