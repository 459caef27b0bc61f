use quayfs_remote::*;
#[tokio::test]
async fn zz() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://127.0.0.1:{}", listener.local_addr().unwrap().port());
    unsafe { std::env::set_var("AWS_EC2_METADATA_SERVICE_ENDPOINT", &url) };
    let t = std::time::Instant::now();
    let s3 = S3::connect(S3Options { endpoint: Some("http://127.0.0.1:9".into()), ..S3Options::new("b") }).await.unwrap();
    println!("connect {:?}", t.elapsed());
    let t = std::time::Instant::now();
    let e = s3.head(&Key::from("a")).await.unwrap_err();
    println!("{:?} {:?} {e}", t.elapsed(), e.trouble());
    unsafe { std::env::set_var("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://127.0.0.1:1") };
    let s3 = S3::connect(S3Options { endpoint: Some("http://127.0.0.1:9".into()), ..S3Options::new("b") }).await.unwrap();
    let t = std::time::Instant::now();
    let e = s3.head(&Key::from("a")).await.unwrap_err();
    println!("{:?} {:?} {e}", t.elapsed(), e.trouble());
    // Listing of a big folder.
    let dir = tempfile::tempdir().unwrap();
    for i in 0..100_000 { std::fs::write(dir.path().join(format!("f{i:06}")), "").unwrap(); }
    let folder = Folder::open(dir.path()).unwrap();
    let t = std::time::Instant::now();
    let mut r = ListRequest { prefix: Key::from(""), delimited: true, start_after: None, continuation: None, entries_max: 1000 };
    let mut n = 0;
    loop { let p = folder.list(&r).await.unwrap(); n += p.entries.len(); match p.next { Some(x) => r.continuation = Some(x), None => break } }
    println!("listed {n} in {:?}", t.elapsed());
    let t = std::time::Instant::now();
    for i in 0..200 { folder.put(&Key::from(&format!("p/{i}")[..]), "x".into(), &PutOptions { condition: Condition::Absent, metadata: Metadata::new() }).await.unwrap(); }
    println!("200 puts in {:?}", t.elapsed());
}
