//! The text is what collectors expect, and the dashboard asks for nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use base::{Counter, Metrics, Timing};

use super::{Dialect, text};
use crate::health::Health;
use crate::metrics::process::ProcessFigures;
use crate::samples::Rates;
use crate::status::{
    CacheStatus, CostStatus, CredentialsStatus, InFlightStatus, Status, TimesStatus, TuningStatus,
};

#[test]
fn each_family_has_help_type_and_samples_of_its_name() {
    for dialect in [Dialect::Plain, Dialect::Open] {
        let text = text(&status(), (&metrics(), &process()), dialect);
        let mut family = String::new();
        for line in text.lines().filter(|line| *line != "# EOF") {
            match line.split(' ').collect::<Vec<_>>().as_slice() {
                ["#", "HELP", name, ..] => (*name).clone_into(&mut family),
                ["#", "TYPE" | "UNIT", name, _] => assert_eq!(*name, family),
                [sample, .., value] => {
                    assert!(sample.starts_with(&family), "{line} in {family}");
                    assert!(value.parse::<f64>().is_ok(), "{line}");
                }
                _ => panic!("{line}"),
            }
        }
        assert_eq!(text.ends_with("# EOF\n"), dialect == Dialect::Open);
    }
}

#[test]
fn the_dialects_name_counters_as_each_wants_it() {
    let plain = text(&status(), (&metrics(), &process()), Dialect::Plain);
    assert!(plain.contains("# TYPE quayfs_remote_get_bytes_total counter\n"), "{plain}");
    let open = text(&status(), (&metrics(), &process()), Dialect::Open);
    assert!(open.contains("# TYPE quayfs_remote_get_bytes counter\n"), "{open}");
    assert!(open.contains("# UNIT quayfs_remote_get_bytes bytes\n"), "{open}");
    for text in [plain, open] {
        assert!(text.contains("\nquayfs_remote_get_bytes_total 4096\n"), "{text}");
    }
}

#[test]
fn buckets_grow_up_to_the_count() {
    let text = text(&status(), (&metrics(), &process()), Dialect::Plain);
    let name = "quayfs_request_duration_seconds";
    for line in [
        r#"_bucket{kind="get",le="0.000016"} 0"#,
        r#"_bucket{kind="get",le="0.016384"} 1"#,
        r#"_bucket{kind="get",le="0.262144"} 2"#,
        r#"_bucket{kind="get",le="+Inf"} 3"#,
        r#"_sum{kind="get"} 200.11"#,
        r#"_count{kind="get"} 3"#,
    ] {
        assert!(text.contains(&format!("\n{name}{line}\n")), "{line} in {text}");
    }
}

#[test]
fn calls_in_flight_are_gauges() {
    let text = text(&status(), (&metrics(), &process()), Dialect::Plain);
    for line in ["oldest_call_seconds 2.5", "calls_in_flight 3", "oldest_request_seconds 0"] {
        assert!(text.contains(&format!("\nquayfs_{line}\n")), "{line} in {text}");
    }
}

#[test]
fn unknown_cache_has_no_figures() {
    let cache = CacheStatus::unknown(PathBuf::from("/state"), "gone".to_owned());
    let text = text(&Status { cache, ..status() }, (&metrics(), &process()), Dialect::Plain);
    for name in ["cached_bytes", "disk_free_bytes", "recovery_files"] {
        assert!(!text.contains(&format!("\nquayfs_{name} ")), "{name} in {text}");
    }
}

#[test]
fn a_label_cannot_break_out() {
    let status = Status { source: "s3://a\"b\\c\nd".into(), ..status() };
    let text = text(&status, (&metrics(), &process()), Dialect::Plain);
    assert!(text.contains(r#"quayfs_info{source="s3://a\"b\\c\nd"} 1"#), "{text}");
}

#[test]
fn the_dashboard_asks_for_metrics_that_exist() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../dist/grafana/quayfs.json");
    let board: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let text = text(&status(), (&metrics(), &process()), Dialect::Plain);
    let told: BTreeSet<&str> = text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.split([' ', '{']).next().unwrap())
        .collect();
    let mut asked = BTreeSet::new();
    expressions(&board, &mut asked);
    assert!(20 < asked.len(), "{asked:?}");
    let missing: Vec<&String> =
        asked.iter().filter(|&name| !told.contains(name.as_str())).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// The names of ours in all queries below `value`.
fn expressions(value: &serde_json::Value, names: &mut BTreeSet<String>) {
    match value {
        serde_json::Value::Object(object) => {
            for (key, value) in object {
                if let ("expr" | "query" | "definition", Some(text)) =
                    (key.as_str(), value.as_str())
                {
                    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
                    let ours = words.filter(|word| word.starts_with("quayfs_"));
                    names.extend(ours.map(str::to_owned));
                }
                expressions(value, names);
            }
        }
        serde_json::Value::Array(list) => list.iter().for_each(|value| expressions(value, names)),
        serde_json::Value::Null
        | serde_json::Value::Bool(_)
        | serde_json::Value::Number(_)
        | serde_json::Value::String(_) => {}
    }
}

/// The names of ours in the alert rules.
fn alerted() -> BTreeSet<String> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../dist/prometheus/quayfs.rules.yml");
    let rules = std::fs::read_to_string(path).unwrap();
    let expressions = rules.lines().filter_map(|line| line.trim().strip_prefix("expr: "));
    let words =
        expressions.flat_map(|text| text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_'));
    words.filter(|word| word.starts_with("quayfs_")).map(str::to_owned).collect()
}

#[test]
fn alert_rules_ask_for_metrics_that_exist() {
    let text = text(&status(), (&metrics(), &process()), Dialect::Plain);
    let asked = alerted();
    assert!(10 < asked.len(), "{asked:?}");
    // That of all mounts of a host is in the page of these only.
    for name in asked.iter().filter(|name| *name != "quayfs_up") {
        assert!(text.contains(&format!("\n# HELP {name} ")), "{name} in {text}");
    }
}

#[test]
fn build_and_process_are_described() {
    let text = text(&status(), (&metrics(), &process()), Dialect::Plain);
    let build = format!("\nquayfs_build_info{{version=\"{}\"}} 1\n", crate::version::VERSION);
    let text = format!("\n{text}");
    for line in [&build, "\nprocess_cpu_seconds_total 1.5\n", "\nprocess_open_fds 7\n"] {
        assert!(text.contains(line), "{line} in {text}");
    }
}

fn process() -> ProcessFigures {
    ProcessFigures { cpu_secs: 1.5, open_files: 7, ..ProcessFigures::default() }
}

fn metrics() -> Metrics {
    let metrics = Metrics::new();
    metrics.add(Counter::RemoteGetBytes, 4096);
    for millis in [10, 100, 200_000] {
        metrics.record(Timing::StoreGet, Duration::from_millis(millis));
        metrics.record(Timing::Read, Duration::from_millis(millis));
    }
    metrics
}

fn status() -> Status {
    Status {
        source: "s3://bucket".into(),
        pid: 1,
        starter: None,
        health: Health::Ok,
        health_why: Vec::new(),
        mounted_secs: 7,
        pending_uploads: 0,
        pending_bytes: 0,
        pending_changes: 0,
        pending_attributes: 0,
        failures: Vec::new(),
        uploads: Vec::new(),
        cache: CacheStatus {
            dir: PathBuf::from("/state"),
            cached_bytes: 1,
            staged_bytes: 2,
            dirty_bytes: 3,
            dirty_limit_bytes: 4,
            pinned_bytes: 0,
            disk_free_bytes: 5,
            disk_total_bytes: 50,
            recovery_files: 6,
            error: None,
        },
        hit_ratio: Some(0.5),
        in_flight: InFlightStatus {
            oldest_call_secs: 2.5,
            calls_count: 3,
            ..InFlightStatus::default()
        },
        throughput: Rates::default(),
        requests: vec![TimesStatus {
            kind: "get".into(),
            count: 3,
            p50_ms: 1.0,
            p99_ms: 2.0,
            max_ms: 3.0,
            cost: Some(0.25),
        }],
        calls: Vec::new(),
        cost: CostStatus {
            currency: "USD".into(),
            list: String::new(),
            requests: 0.25,
            transfer: 0.0,
        },
        tuning: TuningStatus::default(),
        stores: Vec::new(),
        credentials: vec![CredentialsStatus {
            kind: "temporary access key".into(),
            name: "ASIA…MPLE".into(),
            role: None,
            expires: Some(1_800_000_000),
            left_secs: Some(3600),
        }],
        counters: BTreeMap::new(),
    }
}
